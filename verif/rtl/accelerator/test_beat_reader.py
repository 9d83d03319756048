"""What a reader of rows of beats refuses; what it reads is a matter of the vector engine's test."""

import pytest

from mxsafe.rtl.accelerator.beat_reader import BeatReader


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ahead": 0}, "ahead must be an integer from 1 to 8, not 0"),
        ({"beat_bits": 0}, "beat_bits must be a positive integer, not 0"),
        ({"stride_bits": 15}, "stride_bits must be at most address_bits 14, not 15"),
    ],
)
def test_configurations_that_cannot_work(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        BeatReader(**options)
