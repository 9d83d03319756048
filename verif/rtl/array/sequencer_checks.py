"""Checks of the sequencers of sub-matrix units: flags of beats, in enabled cycles."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep

_CLOCKS = 4000
_VALID, _FIRST, _BLOCK_LAST, _LAST = 1, 2, 4, 8


@dataclass(frozen=True)
class Ends:
    """Which outputs a sequencer has, and how many enabled cycles after a beat.

    Attributes
    ----------
    of_tiles : bool
        Steps follow the end of a tile, not of each block.
    beats : Mapping of str to int
        Outputs that say of a beat that it is ``valid``, ``starts`` a block, is of the ``first`` one
        of a tile or ``aligns``, since it ends a block.
    first_held : int, optional
        Enabled cycles after a block has ended that ``first`` is that of its last beat, until
        the next one has; none if ``first`` is that of each beat.
    steps : Mapping of str to tuple of int
        Outputs that are set in steps: the cycle of step 0, and its bits, one for each step in
        turn, or 0 if one bit is set in all of them.
    done : int
        Enabled cycles from a step that completes `shown` ones to ``done``.
    """

    of_tiles: bool
    beats: Mapping[str, int]
    first_held: int | None
    steps: Mapping[str, tuple[int, int]]
    done: int


def check_sequencer(simulator: str, module: Module, ends: Ends, seed: int) -> None:
    """Random beats, pauses and resets: all outputs in all cycles."""
    rng = np.random.default_rng(seed)
    p = module.parameters
    macs, shown = int(p["macs"]), int(p["shown"])
    ports = module.ports
    rst = rng.random(_CLOCKS) < 0.012
    en = (rng.random(_CLOCKS) < 0.85) | (np.arange(_CLOCKS) < 100)
    rst[:100] = False
    tokens: list[int] = []
    expected: list[dict[str, int | None]] = []
    time, ended = 0, -macs  # in enabled cycles
    tile_starts = block_starts = True
    flags: dict[str, set[int]] = {name: set() for name in ("valid", "aligns", "done")}
    plans: dict[str, dict[int, int]] = {name: {} for name in ends.steps}
    starts: dict[int, int] = {}
    firsts: dict[int, int] = {}
    block_first: int | None = None
    for clock in range(_CLOCKS):
        stepping = time - ended < macs
        token = int(rng.integers(0, 16))
        is_valid = bool(token & _VALID) or rng.random() < 0.5
        if is_valid:
            token = _VALID | _FIRST * int(rng.random() < 0.1)
            token |= _BLOCK_LAST * int(rng.random() < 0.4) | _LAST * int(rng.random() < 0.3)
            if stepping and not ends.of_tiles:
                token &= ~(_BLOCK_LAST | _LAST)
            elif stepping:
                token &= ~_LAST
        else:
            token &= ~_VALID
        tokens.append(token)
        expected.append(
            {
                "index": time - ended if stepping else 0,
                **{name: int(time in flag) for name, flag in flags.items() if name in ports},
                **{name: plan.get(time, 0) for name, plan in plans.items()},
                "starts": starts.get(time),
                "first": firsts.get(time),
            }
        )
        last_of_block = bool(token & (_BLOCK_LAST | _LAST))
        ends_steps = bool(token & _LAST) if ends.of_tiles else last_of_block
        is_first = bool(tile_starts or token & _FIRST)
        reset = bool(rst[clock])
        if en[clock]:
            width = ports["starts"].width
            here = block_starts or bool(token & _FIRST)
            starts[time + ends.beats["starts"]] = ((1 << width) - 1) * int(here)
            if ends.first_held is None:
                firsts[time + ends.beats["first"]] = int(is_first)
            elif block_first is not None:
                firsts[time + ends.first_held] = block_first
            if is_valid and last_of_block:
                block_first = int(is_first)
            if is_valid and not reset:
                flags["valid"].add(time + ends.beats["valid"])
                if last_of_block:
                    flags["aligns"].add(time + ends.beats.get("aligns", 0))
                tile_starts, block_starts = is_first and not last_of_block, last_of_block
                if ends_steps:
                    ended = time
                    for step in range(macs):
                        for name, (after, bits) in ends.steps.items():
                            plan = plans[name]
                            if bits or name == "steps" or not step:
                                plan[time + after + step] = 1 << step if bits else 1
                        if step % shown == shown - 1 and token & _LAST:
                            flags["done"].add(time + step + ends.done)
            time += 1
        if reset:
            for flag in flags.values():
                flag.clear()
            for plan in plans.values():
                plan.clear()
            tile_starts = block_starts = True
            ended = time - macs
    stimulus: dict[str, Any] = {"en": en, "rst": rst, "token": np.array(tokens)}
    log = run_lockstep(
        simulator,
        module,
        stimulus,
        unsettled=100,
    )
    for name in expected[0]:
        got = ports[name].numbers(log[name])
        known = np.array([row[name] is not None for row in expected])
        known[:100] = False
        right = np.array([row[name] or 0 for row in expected])
        assert right[known].any(), f"{name} is never set"
        assert_equal(name, got[known], right[known], clock=np.flatnonzero(known))
    outputs = {port.name for port in ports.values() if port.direction == "output"}
    assert outputs == set(expected[0])


class Turns(ABC):
    """Flags that are expected of a sequencer whose MACs serve columns in turn.

    A block ends in the last phase. It starts in the first, or later if no beat came until then.
    """

    from_reset: ClassVar[tuple[str, ...]]
    """Outputs that a reset clears."""

    def __init__(self, module: Module, rng: np.random.Generator) -> None:
        p = module.parameters
        self.macs, self.shown, self.turns = p["macs"], p["shown"], p["turns"]
        self.dot, self.after = p["dot_latency"], p["result_latency"]
        self.parameters = p
        self.rng = rng
        self.time = 0  # in enabled cycles
        self.now: dict[str, dict[int, int]] = defaultdict(dict)
        self.starts = self.first = self.block_first = 0
        self.reset()

    def reset(self) -> None:
        """Forget all but flags that are not reset."""
        for name in self.from_reset:
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

    @abstractmethod
    def says(self, first: bool) -> None:
        """Flags that are there whatever ends."""

    @abstractmethod
    def ends_block(self, *, ends_tile: bool) -> None:
        """What follows a block, or its tile."""

    def enabled(self, token: int, rst: bool) -> None:
        """Go on by an enabled cycle."""
        valid, first = token & _VALID, bool(token & _FIRST)
        starts = self.is_closed or first if not self.phase else self.is_fresh
        self.says(first)
        ends = bool(token & (_BLOCK_LAST | _LAST))
        is_first = self.is_first or first
        if valid and ends:
            self.block_first = int(is_first)
        if valid and not rst:
            if ends:
                self.ends_block(ends_tile=bool(token & _LAST))
            self.is_closed, self.is_first = ends, is_first and not ends
        if not self.phase:
            self.is_fresh = bool(starts) and not valid
        may_rest = not self.phase and self.is_closed and not valid
        if not may_rest or self.rng.random() < 0.5:
            self.phase = (self.phase + 1) % self.turns
        self.time += 1


def check_turns(simulator: str, module: Module, turns: type[Turns], seed: int) -> None:
    """Random beats in their phases, pauses and resets: all outputs in all cycles."""
    rng = np.random.default_rng(seed)
    model = turns(module, rng)
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
    log = run_lockstep(simulator, module, stimulus, unsettled=100)
    clocks = np.arange(_CLOCKS)[100:]
    for name in names:
        assert right[name].any(), f"{name} is never set"
        got = module.ports[name].numbers(log[name])
        assert_equal(name, got[100:], right[name][100:], clock=clocks)
