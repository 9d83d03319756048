"""Flags for accumulators of windows: those of all published sequencers, in every cycle."""

from mxsafe.rtl.array.window_sequencer import WindowSequencer
from verif.rtl.array.sequencer_checks import Ends, Turns, check_sequencer, check_turns
from verif.support.units import published


def test_flags_of_random_beats() -> None:
    for seed, module in enumerate(published(WindowSequencer).values()):
        p = module.parameters
        if "turns" in p:
            continue
        dot, macs = p["dot_latency"], p["macs"]
        ends = Ends(
            of_tiles=True,
            beats={"valid": dot, "starts": dot, "aligns": dot + 1, "first": dot + 1},
            first_held=None,
            steps={"turn": (dot + 2, macs)},
            done=dot + 2 + p["result_latency"],
        )
        check_sequencer("icarus", module, ends, seed)


class _Turns(Turns):
    """Of windows: the first column has its turn in the first phase."""

    from_reset = ("index", "aligns", "turn", "done")

    def says(self, first: bool) -> None:
        """Flags of sums and of windows, which stay for a round."""
        if not self.phase:
            self.starts = int(self.is_closed or first)
        if self.phase == self.turns - 1:
            self.first = int(self.is_first or first)
        self.now["starts"][self.time + self.dot] = 3 * self.starts
        self.now["first"][self.time + self.dot + 1] = self.first

    def ends_block(self, *, ends_tile: bool) -> None:
        """A block has an alignment for each turn, a tile a step for each MAC."""
        for turn in range(self.turns):
            self.now["aligns"][self.time + self.dot + 1 + turn] = 1
        if not ends_tile:
            return
        self.rests_at = self.time + self.macs
        first = self.time + self.dot + 1 + self.turns
        for step in range(self.macs):
            self.now["index"][self.time + step] = step
            self.now["turn"][first + step] = 1 << step
            if step % self.shown == self.shown - 1:
                self.now["done"][first + step + self.after] = 1


def test_flags_in_turns() -> None:
    found = [one for one in published(WindowSequencer).values() if "turns" in one.parameters]
    for seed, module in enumerate(found):
        check_turns("icarus", module, _Turns, seed)
