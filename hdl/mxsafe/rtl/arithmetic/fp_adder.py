"""A floating-point adder of the adder tree's format, with packed ports."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FP12_E4M7, FloatFormat
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.packing import Packer, Unpacker, float_layout
from mxsafe.rtl.arithmetic.signed_sum import add
from mxsafe.rtl.unit import Unit, describe, place

__all__ = ["FPAdder"]


class FPAdder(Unit):
    """Sum of two floats, rounded to nearest even, with gradual underflow. Combinational.

    It unpacks both codes to fixed point, adds them exactly and packs the sum; the SAFE-MAC does
    the same without packing in between.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of operands and sum, without sub-FP mode and special codes.

    Attributes
    ----------
    a, b : In(struct of mantissa, exponent, sign)
    sum : Out(struct of mantissa, exponent, sign)
        An exact zero is +0 unless both operands are -0. Beyond the largest value it saturates; no
        sum of four MXSF products gets there, so the SAFE-MAC has no such gates.
    """

    def __init__(self, *, sum_format: FloatFormat = FP12_E4M7) -> None:
        self.sum_format = sum_format
        layout = float_layout(sum_format)
        super().__init__(
            {"a": In(layout), "b": In(layout), "sum": Out(layout)},
            module_name=f"{sum_format.name}_adder",
            parameters={"sum_format": describe(sum_format)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        unpack_a = Unpacker(sum_format=self.sum_format)
        unpack_b = Unpacker(sum_format=self.sum_format)
        pack = Packer(sum_format=self.sum_format)
        place(m, platform, "unpack_a", unpack_a)
        place(m, platform, "unpack_b", unpack_b)
        place(m, platform, "pack", pack)
        m.d.comb += [
            unpack_a.code.eq(self.a),
            unpack_b.code.eq(self.b),
            pack.zero_sign.eq(unpack_a.sign & unpack_b.sign),
            self.sum.eq(pack.code),
        ]
        exact, negate = add(
            m,
            "exact",
            (unpack_a.magnitude, unpack_a.sign),
            (unpack_b.magnitude, unpack_b.sign),
        )
        precision = self.sum_format.mantissa_bits + 1
        largest = ((1 << precision) - 1) << (len(unpack_a.magnitude) - precision)
        above = named(m, "above", 1, exact > largest)
        below = named(m, "below", 1, exact < -largest)
        m.d.comb += [
            pack.value.eq(Mux(above, largest, Mux(below, -largest, exact))),
            pack.negate.eq(negate),
        ]
        return m
