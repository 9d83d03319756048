"""Addition of binary32 numbers with short significands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    INFINITY,
    MANTISSA_BITS,
    normalise,
    pack_special,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Unit
from mxsafe.validation import within

__all__ = ["ShortAdder", "ShortAdderConfiguration"]


@dataclass(frozen=True, kw_only=True)
class ShortAdderConfiguration(Configuration):
    """A `ShortAdder`.

    Parameters
    ----------
    term : int
        Bits of the significands of operands, below which they are cut.
    result : int
        Bits of that of a sum, to which it is rounded.
    target : {"asic", "fpga"}
        What it is built for: for an FPGA with registers behind all of its steps.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    term: Annotated[int, within(2, MANTISSA_BITS + 1)] = 14
    result: Annotated[int, within(2, MANTISSA_BITS + 1)] = 12
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.result > self.term:
            raise ValueError(f"result must be at most term, {self.term}, not {self.result}")

    @property
    def places(self) -> tuple[str, ...]:
        """Where registers stand."""
        steps = ("compared", "ordered", "aligned", "added", "normalised", "output")
        return steps if at(self, "steps") else ("added", "output")

    @property
    def latency(self) -> int:
        """Enabled cycles from the operands to the result."""
        return len(self.places)


class ShortAdder(Unit[ShortAdderConfiguration]):
    """Sum of two binary32 numbers that are cut first, rounded to nearest, ties away from zero.

    The smaller one is cut once more, at half of the last place of the larger one. Subnormals count,
    overflow gives Inf, every NaN is ``0x7fc00000``. The model is
    `mxsafe.model.normalisation.add_short`.

    Attributes
    ----------
    en : In(1)
        Clock enable of all registers.
    x, addend : In(32)
        Binary32 numbers.
    result : Out(32)
        Their sum, with zeros below its significand; from a register.
    """

    synthesised_once = True

    def ports(self) -> Mapping[str, Member]:
        """Operands and sum."""
        return {"en": In(1), "x": In(32), "addend": In(32), "result": Out(32)}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        term, kept = self.config.term, self.config.result
        places = self.config.places
        pipe = Pipeline(m, self.en, places, len(places), reset=False)
        below = MANTISSA_BITS + 1 - term
        nan = infinite = Const(0, 1)
        for each in (self.x, self.addend):
            nan = nan | (each[:31] > INFINITY)
            infinite = infinite | (each[:31] == INFINITY)
        fields = [_field(each) for each in (self.x, self.addend)]
        # Both distances: the right one is there when the comparison is.
        distances = [
            truncated(m, f"distance_of_{name}", EXPONENT_BITS, one - other)
            for name, one, other in (("x", *fields), ("addend", *reversed(fields)))
        ]
        of_x, of_addend, x, addend, swap, nan, infinite = pipe.cross_all(
            "compared",
            of_x=distances[0],
            of_addend=distances[1],
            x=self.x[below:],
            addend=self.addend[below:],
            swap=named(m, "addend_is_larger", 1, self.addend[below:31] > self.x[below:31]),
            nan=named(m, "is_nan", 1, nan),
            infinite=named(m, "is_infinite", 1, infinite),
        )
        subtract = named(m, "subtract", 1, x[-1] ^ addend[-1])
        large = named(m, "large", len(x), Mux(swap, addend, x))
        small = named(m, "small", len(x) - 1, Mux(swap, x, addend)[:-1])
        field, number = _field(large), _number(large[:-1])
        smaller = _number(small)
        # The smaller one is infinite too, if it has the largest exponent.
        nan = named(m, "is_invalid", 1, nan | (infinite & subtract & small[-EXPONENT_BITS:].all()))
        distance = named(m, "distance", EXPONENT_BITS, Mux(swap, of_addend, of_x))
        number, smaller, distance, field, subtract, negative, nan, infinite = pipe.cross_all(
            "ordered",
            number=number,
            smaller=smaller,
            distance=distance,
            field=field,
            subtract=subtract,
            negative=large[-1],
            nan=nan,
            infinite=infinite,
        )
        # A bit more below the last one, for what is subtracted from a number of the next binade.
        steps = term.bit_length()
        moved = Cat(Const(0, 1), smaller) >> distance[:steps]
        moved = named(m, "moved", term + 1, Mux(distance[steps:].any(), 0, moved))
        moved, number, field, subtract, negative, nan, infinite = pipe.cross_all(
            "aligned",
            moved=moved,
            number=number,
            field=field,
            subtract=subtract,
            negative=negative,
            nan=nan,
            infinite=infinite,
        )
        bits = term + 2
        other = named(m, "other", bits, Cat(moved, Const(0, 1)) ^ subtract.replicate(bits))
        terms = Cat(Const(1, 1), Const(0, 1), number), Cat(subtract, other)
        total = truncated(m, "total_twice", bits + 1, terms[0] + terms[1])[1:]
        # The top bit is a carry.
        raised = named(m, "raised", EXPONENT_BITS + 1, field + 1)
        total, raised, subtract, negative, nan, infinite = pipe.cross_all(
            "added",
            total=total,
            raised=raised,
            subtract=subtract,
            negative=negative,
            nan=nan,
            infinite=infinite,
        )
        shifted, found = normalise(m, "normalised", total, raised, quick=True)
        cancels = named(m, "cancels", 1, subtract & ~total.any())
        shifted, found, negative, nan, infinite = pipe.cross_all(
            "normalised",
            shifted=shifted[-kept - 1 :],
            found=found[:EXPONENT_BITS],
            negative=negative & ~cancels,
            nan=nan,
            infinite=infinite,
        )
        size = Cat(shifted[1:-1], found)
        rounded = truncated(m, "rounded", len(size), size + shifted[0])
        infinite = named(m, "is_beyond_all", 1, infinite | found.all())
        magnitude = Cat(Const(0, MANTISSA_BITS + 1 - kept), rounded)
        word = pack_special(m, magnitude, negative, infinite, nan)
        m.d.comb += self.result.eq(pipe.cross("output", "result", word))
        return m


def _field(word: Value) -> Value:
    """Exponent field of a number, 1 for that of subnormals too."""
    field = word[-1 - EXPONENT_BITS : -1]
    return Cat(field[0] | ~field.any(), field[1:])


def _number(size: Value) -> Value:
    """Significand of a number without its sign."""
    return Cat(size[:-EXPONENT_BITS], size[-EXPONENT_BITS:].any())
