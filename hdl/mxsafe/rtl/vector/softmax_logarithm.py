"""The logarithm of a sum of softmax."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.float_steps import leading_one_and_zeros
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.unit import Ports, Unit
from mxsafe.rtl.vector.polynomial import polynomial
from mxsafe.rtl.vector.softmax_stages import SoftmaxPartConfiguration
from mxsafe.tables.softmax import LONGEST_ROW
from mxsafe.validation import PowerOfTwo

_STAGES = ("normalised", "sloped", "evaluated")
_FPGA_STAGES = ("counted", *_STAGES)


class SoftmaxLogarithmConfiguration(SoftmaxPartConfiguration):
    """A `SoftmaxLogarithm`: for an FPGA with a register more, behind the number of zeros.

    Parameters
    ----------
    longest : int
        Values of the longest row, a power of two.
    grade, target
        See `SoftmaxPartConfiguration`.
    """

    stages_for: ClassVar = {"asic": _STAGES, "fpga": _FPGA_STAGES}
    longest: PowerOfTwo = LONGEST_ROW

    @property
    def total_bits(self) -> int:
        """Bits of the sum."""
        return self.widths.total_bits(self.longest)


class SoftmaxLogarithm(Unit[SoftmaxLogarithmConfiguration]):
    """Logarithm to base two of a sum.

    Attributes
    ----------
    en : In(1)
        Clock enable.
    total : In(44)
        In units of ``2^-31``; of 0 the logarithm is anything. These widths are of `fine`.
    logarithm : Out(26)
        In units of ``2^-20``, modulo 64, rounded down.
    """

    def ports(self) -> Ports:
        widths = self.config.widths
        return {
            "en": In(1),
            "total": In(self.config.total_bits),
            "logarithm": Out(widths.product_bits),
        }

    def fill(self, m: Module, platform: object) -> None:
        stages, widths = self.config.stages, self.config.widths
        pipe = Pipeline(m, self.en, stages, len(stages), reset=False)
        table, total_bits = widths.logarithm, self.config.total_bits
        _, zeros = leading_one_and_zeros(m, "zeros", self.total)
        total, zeros = pipe.cross_all("counted", total=self.total, zeros=zeros)
        shifted = named(m, "normalised", total_bits, (total << zeros)[:total_bits])
        bits = table.index_bits + table.offset_bits
        fraction = shifted[-1 - bits : -1]
        fraction, zeros = pipe.cross_all("normalised", fraction=fraction, zeros=zeros)
        segment, offset = fraction[table.offset_bits :], fraction[: table.offset_bits]
        value = polynomial(m, "polynomial", table, segment, offset, pipe)
        zeros = pipe.cross("sloped", "zeros", zeros)
        value, zeros = pipe.cross_all("evaluated", value=value, zeros=zeros)
        below = widths.product_fraction_bits
        low = value[table.fraction_bits - below :]
        whole = Cat(Const(0, below), self.config.longest.bit_length() - 1 - zeros)
        m.d.comb += self.logarithm.eq(low[:below] + whole)
