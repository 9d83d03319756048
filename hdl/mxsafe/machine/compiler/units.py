"""Units of a schedule: a product and what follows it, and the order in which they are emitted.

Queues run side by side, but each of them in the order of the program. So what the array does while
vectors are computed is settled by the order in which units are emitted: between a product and one
that needs its results there have to be others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from mxsafe.machine.compiler.emitter import Emitter, Side
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Operand, Placed

Unit = Callable[[], object]
"""Emits a few descriptors."""


def run(units: Iterable[Unit]) -> None:
    """Emit units one after the other."""
    for unit in units:
        unit()


def merged(*sequences: Sequence[Unit]) -> list[Unit]:
    """Units of several sequences, each in its order and spread evenly over the whole."""
    spread = [
        ((2 * index + 1) / (2 * len(units)), number, unit)
        for number, units in enumerate(sequences)
        for index, unit in enumerate(units)
    ]
    return [unit for _, _, unit in sorted(spread, key=lambda entry: entry[:2])]


def behind(first: Sequence[Unit], second: Sequence[Unit], lag: int) -> list[Unit]:
    """Units of two sequences in turn, those of the second so many behind those of the first."""
    turns = max(len(first), len(second) + lag)
    return [
        units[index]
        for turn in range(turns)
        for units, index in ((first, turn), (second, turn - lag))
        if 0 <= index < len(units)
    ]


def groups(count: int, most: int, first: int = 0) -> list[range]:
    """As few groups of at most so many as there can be, of nearly the same size."""
    number = -(-count // max(most, 1))
    bounds = [first + count * index // number for index in range(number)] + [first + count]
    return [range(start, stop) for start, stop in pairwise(bounds)]


def cut(count: int, most: int) -> list[range]:
    """Groups that follow one another, all of so many but the last."""
    return [range(at, min(at + most, count)) for at in range(0, count, most)]


class Panel:
    """Strips of an operand that several units need: loaded for the first, given back by the last.

    Parameters
    ----------
    emitter : Emitter
    operand : Operand
    strips : range
    side : {"a", "w"}
    uses : int
        Units that use it.
    placed : Placed, optional
        Where they are, if they need not be loaded.
    """

    def __init__(
        self,
        emitter: Emitter,
        operand: Operand,
        strips: range,
        side: Side,
        uses: int,
        placed: Placed | None = None,
    ) -> None:
        self.strips = strips
        self._emitter = emitter
        self._operand = operand
        self._side: Side = side
        self._uses = uses
        self._parts = [] if placed is None else [placed]

    @contextmanager
    def used(self) -> Iterator[list[Placed]]:
        """The strips in their buffer; in several parts if there is no room for all in one."""
        if not self._parts:
            self._parts = self._loaded(self.strips)
        yield self._parts
        self._uses -= 1
        if not self._uses:
            for part in self._parts:
                self._emitter.free(part)

    def _loaded(self, strips: range) -> list[Placed]:
        try:
            return [self._emitter.load(self._operand, strips, self._side)]
        except CompileError:
            if len(strips) == 1:
                raise
        half = strips.start + len(strips) // 2
        halves = range(strips.start, half), range(half, strips.stop)
        return [part for some in halves for part in self._loaded(some)]
