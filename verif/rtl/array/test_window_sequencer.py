"""Flags for accumulators of windows: those of all published sequencers, in every cycle."""

from collections import defaultdict

import numpy as np

from mxsafe.rtl.array.window_sequencer import WindowSequencer
from verif.rtl.array.sequencer_checks import Ends, check_sequencer
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
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


_CLOCKS = 4000
_VALID, _FIRST, _BLOCK_LAST, _LAST = 1, 2, 4, 8


class _Turns:
    """Flags that are expected of a sequencer whose MACs serve columns in turn.

    A block ends in the last phase. It starts in the first, or later if no beat came until then.
    """

    def __init__(self, module: Module, rng: np.random.Generator) -> None:
        p = module.parameters
        self.macs, self.shown, self.turns = p["macs"], p["shown"], p["turns"]
        self.dot, self.after = p["dot_latency"], p["result_latency"]
        self.rng = rng
        self.time = 0  # in enabled cycles
        self.now: dict[str, dict[int, int]] = defaultdict(dict)
        self.starts = self.first = 0
        self.reset()

    def reset(self) -> None:
        """Forget all but flags that are not reset."""
        for name in ("index", "aligns", "turn", "done"):
            self.now[name].clear()
        self.phase, self.is_closed, self.is_first, self.is_fresh = 0, True, True, False
        self.rests_at = self.time

    def token(self) -> int:
        """A beat that may come in this phase, or flags that do not count."""
        if self.rng.random() < 0.3:
            return int(self.rng.integers(0, 16)) & ~(_VALID | _FIRST)
        token = _VALID
        if not self.phase or self.is_fresh:
            token |= _FIRST * int(self.rng.random() < 0.1)
        if self.phase == self.turns - 1:
            token |= _BLOCK_LAST * int(self.rng.random() < 0.5)
            token |= _LAST * int(self.rng.random() < 0.3 and self.time >= self.rests_at)
        return token

    def enabled(self, token: int, rst: bool) -> None:
        """Go on by an enabled cycle."""
        valid, first = token & _VALID, bool(token & _FIRST)
        if not self.phase:
            self.starts = int(self.is_closed or first)
        if self.phase == self.turns - 1:
            self.first = int(self.is_first or first)
        self.now["starts"][self.time + self.dot] = 3 * self.starts
        self.now["first"][self.time + self.dot + 1] = self.first
        ends = bool(token & (_BLOCK_LAST | _LAST))
        if valid and not rst:
            if ends:
                self._ends_block(bool(token & _LAST))
            self.is_closed, self.is_first = ends, (self.is_first or first) and not ends
        if not self.phase:
            self.is_fresh = bool(self.starts) and not valid
        may_rest = not self.phase and self.is_closed and not valid
        if not may_rest or self.rng.random() < 0.5:
            self.phase = (self.phase + 1) % self.turns
        self.time += 1

    def _ends_block(self, ends_tile: bool) -> None:
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
        rng = np.random.default_rng(seed)
        model = _Turns(module, rng)
        rst = rng.random(_CLOCKS) < 0.012
        en = (rng.random(_CLOCKS) < 0.85) | (np.arange(_CLOCKS) < 100)
        rst[:100] = False
        names = [port.name for port in module.ports.values() if port.direction == "output"]
        tokens, phases = np.zeros(_CLOCKS, np.int64), np.zeros(_CLOCKS, np.int64)
        right = {name: np.zeros(_CLOCKS, np.int64) for name in names}
        for clock in range(_CLOCKS):
            tokens[clock], phases[clock] = model.token(), model.phase
            time = model.time
            if en[clock]:
                model.enabled(int(tokens[clock]), bool(rst[clock]))
            for name in names:
                right[name][clock] = model.now[name].get(time, 0)
            if rst[clock]:
                model.reset()
        stimulus = {"en": en, "rst": rst, "token": tokens, "phase": phases}
        log = run_lockstep("icarus", module, stimulus, unsettled=100)
        clocks = np.arange(_CLOCKS)[100:]
        for name in names:
            assert right[name].any(), f"{name} is never set"
            got = module.ports[name].numbers(log[name])
            assert_equal(name, got[100:], right[name][100:], clock=clocks)
