"""Tables whose rows are for segments: parts of binades, or of all binades, of some functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value

from mxsafe.rtl.arithmetic.bits import named

__all__ = ["Segment", "Segments"]

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
        The module being elaborated.
    segments : sequence of Segment
        One for each row.
    chosen : Mapping
        By name whether a function is chosen.
    field, mantissa : Value
        Of the argument.
    """

    def __init__(
        self,
        m: Module,
        segments: Sequence[Segment],
        chosen: Mapping[str, Value],
        field: Value,
        mantissa: Value,
    ) -> None:
        self._m, self._chosen, self._field, self._mantissa = m, chosen, field, mantissa
        self._segments = segments
        self._lines: dict[Segment, Signal] = {}

    def column(self, name: str, flags: Sequence[bool], rest: bool | None = False) -> Value:
        """A bit of a table: that of the segment, `rest` if there is none (None: anything)."""
        if rest is None:
            rest = 2 * sum(flags) > len(flags)
        parts = self._parts([flag != rest for flag in flags])
        if not parts:
            return Const(rest, 1)
        differs = Cat(*(self._line(part) for part in parts)).any()
        return named(self._m, name, 1, ~differs if rest else differs)

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
            name, line = f"in_{part.function}", self._chosen[part.function]
            if part.exponent is not None:
                name = f"{name}_{part.exponent + _BIAS}"
                line = line & (self._field == part.exponent + _BIAS)
            if part.depth:
                # As a test of bits: a comparison with 0 becomes a logical operator of Verilog.
                wrong = self._mantissa[-part.depth :] ^ part.index
                line = line & ~wrong.any()
                name = f"{name}_{part.depth}_{part.index}"
            self._lines[part] = named(self._m, name, 1, line)
        return self._lines[part]


def _covered(
    leaves: Mapping[tuple[int, int], bool], depth: int, index: int
) -> list[tuple[int, int]]:
    """Depths and indices of the fewest parts of a part in which all segments have a flag."""
    if (depth, index) in leaves:
        return [(depth, index)] if leaves[depth, index] else []
    halves = [(depth + 1, 2 * index + half) for half in (0, 1)]
    found = [part for half in halves for part in _covered(leaves, *half)]
    return [(depth, index)] if found == halves else found
