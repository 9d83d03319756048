"""IEEE 754 binary32 addition, whole and in two halves with room for a register between."""

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.bits import named
from mxsafe.rtl.float_steps import (
    CANONICAL_NAN,
    EXPONENT_BITS,
    INFINITY,
    MANTISSA_BITS,
    normalise,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.unit import Unit, place

__all__ = ["BETWEEN", "Float32Adder", "Float32Align", "Float32Finish"]

_EXTRA_BITS = 3  # below the significand: two, and a sticky one
_ALIGNED_BITS = MANTISSA_BITS + 1 + _EXTRA_BITS

BETWEEN = {
    "total": _ALIGNED_BITS + 1,
    "exponent": EXPONENT_BITS,
    "negative": 1,
    "infinite": 1,
    "invalid": 1,
}
"""Name and width of what the first half of an addition hands to the second."""


class Float32Align(Unit):
    """First half of an addition: the smaller operand aligned with the larger, and added.

    Combinational.

    Attributes
    ----------
    a, b : In(32)
    total : Out(28)
        Magnitude of the sum, with room for a carry and three extra bits, the last of them sticky.
    exponent : Out(8)
        Biased exponent of the larger operand, 1 for subnormals.
    negative : Out(1)
        Sign of a sum that is not NaN.
    infinite, invalid : Out(1)
        The sum is Inf, NaN.
    """

    def __init__(self) -> None:
        super().__init__(
            {"a": In(32), "b": In(32)} | {name: Out(width) for name, width in BETWEEN.items()},
            module_name="float32_align",
            parameters={},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        swap = named(m, "swap", 1, self.b[:31] > self.a[:31])
        large = named(m, "large", 32, Mux(swap, self.b, self.a))
        small = named(m, "small", 31, Mux(swap, self.a, self.b)[:31])
        subtract = named(m, "subtract", 1, self.a[31] ^ self.b[31])
        # Both differences, so that the right one is there as soon as the comparison is.
        left, right = _exponent(self.a), _exponent(self.b)
        distance = named(m, "distance", 8, Mux(swap, (right - left)[:8], (left - right)[:8]))
        aligned = shift_sticky(m, "aligned", _significand(small), distance)
        addend = named(m, "addend", len(aligned) + 1, Mux(subtract, ~Cat(aligned, 0), aligned))

        infinite = [operand[:31] == INFINITY for operand in (self.a, self.b)]
        nan = [operand[:31] > INFINITY for operand in (self.a, self.b)]
        zero = named(m, "is_zero", 1, subtract & (self.a[:31] == self.b[:31]))
        m.d.comb += [
            self.total.eq((_significand(large) + addend + subtract)[: len(self.total)]),
            self.exponent.eq(_exponent(large)),
            self.negative.eq(large[31] & ~zero),
            self.infinite.eq(infinite[0] | infinite[1]),
            self.invalid.eq(nan[0] | nan[1] | (infinite[0] & infinite[1] & subtract)),
        ]
        return m


class Float32Finish(Unit):
    """Second half of an addition: the sum normalised or rounded. Combinational.

    A sum that loses two or more leading bits, or is subnormal, is exact: it is normalised while the
    others are rounded.

    Attributes
    ----------
    total, exponent, negative, infinite, invalid : In
        What `Float32Align` puts out.
    sum : Out(32)
    """

    def __init__(self) -> None:
        super().__init__(
            {name: In(width) for name, width in BETWEEN.items()} | {"sum": Out(32)},
            module_name="float32_finish",
            parameters={},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total, exponent = self.total, self.exponent
        carry, top, second = total[-1], total[-2], total[-3]
        unlimited = named(m, "is_unlimited", 1, exponent[1:].any())  # more than that of subnormals
        rounds = named(m, "rounds", 1, carry | top | (second & unlimited))
        leading = named(
            m,
            "leading",
            len(total),
            Mux(carry, total, Mux(top, total << 1, total << 2))[: len(total)],
        )
        adjusted = Mux(carry, exponent + 1, Mux(top, exponent, exponent - 1))[: EXPONENT_BITS + 1]
        rounded = round_and_pack(m, leading, named(m, "adjusted", EXPONENT_BITS + 1, adjusted))

        # The lowest two bits are 0 here: the operands' exponents differ by one at most.
        value, lowered = normalise(m, "normalised", total[2:-1], exponent)
        exact = Cat(value[1:-1], Mux(value[-1], lowered, 0))
        magnitude = Mux(self.infinite, INFINITY, Mux(rounds, rounded, exact))
        m.d.comb += self.sum.eq(
            Mux(self.invalid, CANONICAL_NAN, Cat(magnitude[:31], self.negative))
        )
        return m


class Float32Adder(Unit):
    """Sum of two IEEE 754 binary32 numbers, rounded to nearest even. Combinational.

    Subnormals count, overflow gives Inf, every NaN is ``0x7fc00000``.

    Attributes
    ----------
    a, b : In(32)
    sum : Out(32)
    """

    def __init__(self) -> None:
        super().__init__(
            {"a": In(32), "b": In(32), "sum": Out(32)},
            module_name="float32_adder",
            parameters={},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        align, finish = Float32Align(), Float32Finish()
        place(m, platform, "align", align)
        place(m, platform, "finish", finish)
        m.d.comb += [align.a.eq(self.a), align.b.eq(self.b), self.sum.eq(finish.sum)]
        m.d.comb += [getattr(finish, name).eq(getattr(align, name)) for name in BETWEEN]
        return m


def _exponent(operand: Value) -> Value:
    """Exponent field, 1 for that of subnormals too."""
    field = operand[MANTISSA_BITS:31]
    return Cat(field[0] | ~field.any(), field[1:])


def _significand(operand: Value) -> Value:
    """Hidden bit, mantissa and the extra bits below."""
    return Cat(Const(0, _EXTRA_BITS), operand[:MANTISSA_BITS], operand[MANTISSA_BITS:31].any())
