"""A floating-point adder of the adder tree's format, with packed ports."""

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FP12_E4M7, FloatFormat
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.arithmetic.packing import Packer, Unpacker, float_layout, require_plain
from mxsafe.rtl.arithmetic.signed_sum import add
from mxsafe.rtl.unit import Configuration, Ports, Unit, place


class FPAdderConfiguration(Configuration):
    """An `FPAdder`.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of operands and sum, see `mxsafe.rtl.arithmetic.packing.require_plain`.

    Raises
    ------
    ValueError
        If the format has a second mode, codes for NaN or Inf, or too wide a range.
    """

    sum_format: FloatFormat = FP12_E4M7

    def __post_init__(self) -> None:
        require_plain(self.sum_format)

    @property
    def base(self) -> str:
        return f"{self.sum_format.name}_adder"


class FPAdder(Unit[FPAdderConfiguration]):
    """Sum of two floats, rounded to nearest even, with gradual underflow. Combinational.

    It unpacks both codes to fixed point, adds them exactly and packs the sum; the SAFE-MAC does
    the same without packing in between.

    Attributes
    ----------
    a, b : In(struct of mantissa, exponent, sign)
        The numbers to add.
    sum : Out(struct of mantissa, exponent, sign)
        An exact zero is +0 unless both operands are -0. Beyond the largest value it saturates; no
        sum of four MXSF products gets there, so the SAFE-MAC has no such gates.
    """

    def ports(self) -> Ports:
        layout = float_layout(self.config.sum_format)
        return {"a": In(layout), "b": In(layout), "sum": Out(layout)}

    def fill(self, m: Module, platform: object) -> None:
        sum_format = self.config.sum_format
        unpack_a = place(m, platform, "unpack_a", Unpacker(sum_format=sum_format))
        unpack_b = place(m, platform, "unpack_b", Unpacker(sum_format=sum_format))
        pack = place(m, platform, "pack", Packer(sum_format=sum_format))
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
        noted(
            exact,
            "In fixed point nothing has to be aligned, and nothing is lost before the packer.",
        )
        precision = sum_format.precision
        largest = ((1 << precision) - 1) << (len(unpack_a.magnitude) - precision)
        above = named(m, "above", 1, exact > largest)
        noted(above, "Saturation comes before packing: the sum has to fit the packer.")
        below = named(m, "below", 1, exact < -largest)
        bounded = named(m, "bounded_below", exact.shape(), Mux(below, -largest, exact))
        m.d.comb += [
            pack.value.eq(Mux(above, largest, bounded)),
            pack.negate.eq(negate),
        ]
