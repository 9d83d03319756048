"""What sequencers of blocks refuse; their flags are seen in arrays' tests."""

import pytest

from mxsafe.rtl.array.block_sequencer import BlockSequencerConfiguration


@pytest.mark.parametrize(("groups", "dot_latency"), [(3, 2), (4, 1), (8, 3)])
def test_refused_groups(groups: int, dot_latency: int) -> None:
    with pytest.raises(ValueError) as error:
        BlockSequencerConfiguration(groups=groups, dot_latency=dot_latency)
    assert str(error.value) == (
        f"groups must be 1 or 2, or 4 with a dot_latency of 2 or more, not {groups}"
    )
