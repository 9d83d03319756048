"""Flags for accumulators of blocks: those of all published sequencers, in every cycle."""

import pytest

from mxsafe.rtl.array.block_sequencer import BlockSequencer, BlockSequencerConfiguration
from verif.rtl.array.sequencer_checks import Ends, Turns, check_sequencer, check_turns
from verif.support.tests import raises
from verif.support.units import published


def test_flags_of_random_beats() -> None:
    for seed, module in enumerate(published(BlockSequencer).values()):
        p = module.parameters
        if "turns" in p:
            continue
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


class _Turns(Turns):
    """Of sums of blocks: the first column has its turn in the last phase, the second behind it."""

    begun = False
    from_reset = ("index", "steps", "done")

    def says(self, first: bool) -> None:
        """Whether a round starts a block: of the round that has its first turn, or its second."""
        width = (1 << self.parameters.get("groups", 1)) - 1
        here = self.is_closed or first
        if self.phase:
            self.starts = width * int(here or self.begun)
        self.now["starts"][self.time + self.dot] = self.starts
        self.begun = not self.phase and here
        self.now["first"][self.time + self.dot + self.parameters["step_latency"]] = self.block_first

    def ends_block(self, *, ends_tile: bool) -> None:
        """A step for each column."""
        first = self.time + self.dot + 1
        for step in range(self.macs):
            self.now["index"][self.time + step] = step
            self.now["steps"][first + step + self.parameters["step_latency"]] = 1
            if ends_tile and step % self.shown == self.shown - 1:
                self.now["done"][first + step + self.after] = 1


def test_flags_in_turns() -> None:
    found = [one for one in published(BlockSequencer).values() if "turns" in one.parameters]
    assert found
    for seed, module in enumerate(found):
        check_turns("icarus", module, _Turns, seed)


@pytest.mark.parametrize(("groups", "dot_latency"), [(3, 2), (4, 1), (8, 3)])
def test_refused_groups(groups: int, dot_latency: int) -> None:
    with raises(
        ValueError, f"groups must be 1 or 2, or 4 with a dot_latency of 2 or more, not {groups}"
    ):
        BlockSequencerConfiguration(groups=groups, dot_latency=dot_latency)
