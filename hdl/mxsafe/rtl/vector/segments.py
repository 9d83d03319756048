"""Tables whose rows are for segments: parts of binades, or of all binades, of some functions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations

from amaranth.hdl import Cat, Const, Module, Signal, Value

from mxsafe.rtl.arithmetic.bits import named

LEAST = 3
"""Columns that have to share two lines for these to have an OR gate of their own."""
_BIAS = 127


@dataclass(frozen=True)
class Segment:
    """Arguments that share a row of a table.

    Attributes
    ----------
    function : str
    exponent : int, optional
        Of the arguments, unbiased; None for any.
    depth : int
        How many of the highest bits of the mantissa count.
    index : int
        These bits.
    """

    function: str
    exponent: int | None
    depth: int
    index: int


class Segments:
    """Where the argument is: a line for each part of a binade that some bit of a table asks for.

    A bit that is the same in both halves of a part comes from the line of the part. So a table has
    a fourth fewer inputs of gates than with the lines of segments alone.

    Parameters
    ----------
    m : amaranth.hdl.Module
    segments : sequence of Segment
        One for each row.
    chosen : Mapping
        By name whether a function is chosen.
    fields : Mapping
        Of the fields of exponents in `segments`, each by itself, whether it is the argument's.
    mantissa : Value
        Of the argument.
    prefix : str
        What names of lines begin with.
    """

    def __init__(
        self,
        m: Module,
        segments: Sequence[Segment],
        chosen: Mapping[str, Value],
        fields: Mapping[int, Value],
        mantissa: Value,
        *,
        prefix: str = "in",
    ) -> None:
        self._m, self._chosen, self._fields, self._mantissa = m, chosen, fields, mantissa
        self._prefix = prefix
        self._segments = segments
        self._lines: dict[Segment, Signal] = {}
        self._columns: list[tuple[Signal, list[Segment]]] = []

    def column(self, name: str, flags: Sequence[bool], rest: bool | None = False) -> Value:
        """A bit of a table: that of the segment, `rest` if there is none (None: anything)."""
        if rest is None:
            rest = 2 * sum(flags) > len(flags)
        parts = self._parts([flag != rest for flag in flags])
        if not parts:
            return Const(rest, 1)
        differs = Signal(name=f"{name}_differs")
        self._columns.append((differs, parts))
        return named(self._m, name, 1, ~differs) if rest else differs

    def connect(self) -> None:
        """Make all columns that have been asked for, of lines and of what some of them share."""
        lines = list(dict.fromkeys(part for _, parts in self._columns for part in parts))
        place = {part: number for number, part in enumerate(lines)}
        columns, pairs = shared_pairs(
            [{place[part] for part in parts} for _, parts in self._columns]
        )
        nodes: list[Value] = [self._line(part) for part in lines]
        for number, (one, other) in enumerate(pairs):
            name = f"{self._prefix}_shared_{number}"
            nodes.append(named(self._m, name, 1, nodes[one] | nodes[other]))
        for (differs, _), column in zip(self._columns, columns, strict=True):
            self._m.d.comb += differs.eq(Cat(*(nodes[node] for node in sorted(column))).any())

    def _parts(self, flags: Sequence[bool]) -> list[Segment]:
        """The fewest parts that are made of the segments with a flag."""
        binades: dict[tuple[str, int | None], dict[tuple[int, int], bool]] = {}
        for segment, flag in zip(self._segments, flags, strict=True):
            binade = binades.setdefault((segment.function, segment.exponent), {})
            binade[segment.depth, segment.index] = flag
        return [
            Segment(*binade, *part)
            for binade, leaves in binades.items()
            for part in _covered(leaves, 0, 0)
        ]

    def _line(self, part: Segment) -> Signal:
        """Whether the argument is in a part."""
        if part not in self._lines:
            name, line = f"{self._prefix}_{part.function}", self._chosen[part.function]
            if part.exponent is not None:
                name = f"{name}_{part.exponent + _BIAS}"
                line = line & self._fields[part.exponent + _BIAS]
            if part.depth:
                # As a test of bits: a comparison with 0 becomes a logical operator of Verilog.
                wrong = self._mantissa[-part.depth :] ^ part.index
                line = line & ~wrong.any()
                name = f"{name}_{part.depth}_{part.index}"
            self._lines[part] = named(self._m, name, 1, line)
        return self._lines[part]


def shared_pairs(
    columns: Sequence[Collection[int]], least: int = LEAST
) -> tuple[list[set[int]], list[tuple[int, int]]]:
    """Sums of items with fewer terms: pairs of items that many sums share become items.

    Parameters
    ----------
    columns : sequence of collection of int
        The items of each sum.
    least : int
        How many sums have to share a pair.

    Returns
    -------
    columns : list of set of int
        The items of each sum, some of which are pairs.
    pairs : list of (int, int)
        The two items of each, numbered from the first item that is free; the most shared are first.
    """
    count = max((item for column in columns for item in column), default=-1) + 1
    users = [sum(1 << at for at, items in enumerate(columns) if i in items) for i in range(count)]
    heap = [
        (-both.bit_count(), one, other)
        for one, other in combinations(range(count), 2)
        if (both := users[one] & users[other]).bit_count() >= least
    ]
    heapify(heap)
    pairs = []
    while heap:
        gain, one, other = heappop(heap)
        both = users[one] & users[other]
        if both.bit_count() < least:
            continue
        if both.bit_count() < -gain:  # some of these sums have found a better pair
            heappush(heap, (-both.bit_count(), one, other))
            continue
        pairs.append((one, other))
        users[one] &= ~both
        users[other] &= ~both
        for item, mask in enumerate(users):
            if (mask & both).bit_count() >= least:
                heappush(heap, (-(mask & both).bit_count(), item, len(users)))
        users.append(both)
    found = [{i for i, mask in enumerate(users) if mask >> at & 1} for at in range(len(columns))]
    return found, pairs


def _covered(
    leaves: Mapping[tuple[int, int], bool], depth: int, index: int
) -> list[tuple[int, int]]:
    """Depths and indices of the fewest parts of a part in which all segments have a flag."""
    if (depth, index) in leaves:
        return [(depth, index)] if leaves[depth, index] else []
    halves = [(depth + 1, 2 * index + half) for half in (0, 1)]
    found = [part for half in halves for part in _covered(leaves, *half)]
    return [(depth, index)] if found == halves else found
