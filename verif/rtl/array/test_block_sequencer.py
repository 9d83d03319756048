"""Flags for accumulators of blocks: those of all published sequencers, in every cycle."""

import pytest

from mxsafe.rtl.array.block_sequencer import BlockSequencer, BlockSequencerConfiguration
from verif.rtl.array.sequencer_checks import Ends, check_sequencer
from verif.support.tests import raises
from verif.support.units import published


def test_flags_of_random_beats() -> None:
    for seed, module in enumerate(published(BlockSequencer).values()):
        p = module.parameters
        dot, macs, early = p["dot_latency"], p["macs"], p.get("early", 0)
        steps = {"turn": (dot + 1, macs), "steps": (dot + p["step_latency"] + 1, 0)}
        if early:
            steps["copies"] = (dot, 0)
        ends = Ends(
            of_tiles=False,
            beats={"valid": dot - early, "starts": dot - early},
            first_held=dot + p["step_latency"],
            steps=steps,
            done=dot + p["result_latency"] + 1,
        )
        check_sequencer("icarus", module, ends, seed)


@pytest.mark.parametrize(("groups", "dot_latency"), [(3, 2), (4, 1), (8, 3)])
def test_refused_groups(groups: int, dot_latency: int) -> None:
    with raises(
        ValueError, f"groups must be 1 or 2, or 4 with a dot_latency of 2 or more, not {groups}"
    ):
        BlockSequencerConfiguration(groups=groups, dot_latency=dot_latency)
