"""IEEE 754 binary32 addition."""

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.bits import named
from mxsafe.rtl.float_steps import (
    CANONICAL_NAN,
    INFINITY,
    MANTISSA_BITS,
    normalise,
    round_and_pack,
    shift_sticky,
)
from mxsafe.rtl.unit import Unit

__all__ = ["Float32Adder"]


class Float32Adder(Unit):
    """Sum of two IEEE 754 binary32 numbers, rounded to nearest even. Combinational.

    Subnormals count, overflow gives Inf, every NaN is ``0x7fc00000``. The operand of smaller
    magnitude is aligned with three extra bits, the last of them sticky, and the sum normalised no
    further than the exponent of subnormals; near and far operands take the same path.

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
        swap = named(m, "swap", 1, self.b[:31] > self.a[:31])
        large = named(m, "large", 32, Mux(swap, self.b, self.a))
        small = named(m, "small", 32, Mux(swap, self.a, self.b))
        subtract = named(m, "subtract", 1, large[31] ^ small[31])

        exponents, significands = [], []
        for name, operand in (("large", large), ("small", small)):
            field = operand[MANTISSA_BITS:31]
            normal = named(m, f"{name}_is_normal", 1, field.any())
            exponents.append(Cat(field[0] | ~normal, field[1:]))
            significands.append(Cat(Const(0, 3), operand[:MANTISSA_BITS], normal))
        distance = named(m, "distance", 8, (exponents[0] - exponents[1])[:8])
        aligned = shift_sticky(m, "aligned", significands[1], distance)

        width = len(aligned) + 1
        addend = named(m, "addend", width, Mux(subtract, ~Cat(aligned, 0), Cat(aligned, 0)))
        total = named(m, "total", width, (significands[0] + addend + subtract)[:width])
        # One bit of room on top for the carry; the exponent counts from there.
        value, exponent = normalise(m, "normalised", total, (exponents[0] + 1)[:9])
        magnitude = round_and_pack(m, value, exponent)

        zero = named(m, "is_zero", 1, ~total.any())
        sign = named(m, "sign", 1, large[31] & ~(zero & subtract))
        infinite = named(m, "is_infinite", 1, large[:31] == INFINITY)
        both_infinite = named(m, "both_infinite", 1, infinite & (small[:31] == INFINITY))
        invalid = named(m, "is_nan", 1, (large[:31] > INFINITY) | (both_infinite & subtract))
        m.d.comb += self.sum.eq(
            Mux(
                invalid,
                CANONICAL_NAN,
                Cat(Mux(infinite, INFINITY, magnitude), sign),
            )
        )
        return m
