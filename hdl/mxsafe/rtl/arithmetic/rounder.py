"""Rounding in place: what makes a fixed-point adder a floating-point one."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.rtl.arithmetic.bits import cleared, leading_one, named, ones_below_leading, select
from mxsafe.rtl.unit import Unit, describe

__all__ = ["Rounder"]


class Rounder(Unit):
    """A fixed-point number rounded to the significant bits of a float format. Combinational.

    FP12 has so narrow a range that every value is a multiple of ``2^-18`` below 16: a 23-bit
    integer. Sums of two are then exact integer sums, with no alignment and no normalisation, and
    all that is left of floating-point addition is to clear the bits below the eight that follow
    the leading one, rounding to nearest even. The result stays where it is, ready to be added.

    Two's complement goes straight through, because rounding to nearest even is symmetric. The
    leading one of a negative number is looked for in its complement, which is one short only for
    ``-2^k``, and that is exact at either position.

    Parameters
    ----------
    width : int
        Bits of the number, sign included.
    sum_format : FloatFormat
        Format whose number of significant bits is kept; the number is in units of its smallest
        subnormal.

    Attributes
    ----------
    value : In(signed(width))
    rounded : Out(signed(width))
        In the same units. Magnitudes that would round up to ``2^(width - 1)`` do not fit; the
        caller's width excludes them.

    Raises
    ------
    ValueError
        If `width` leaves nothing to round.
    """

    def __init__(self, *, width: int, sum_format: FloatFormat) -> None:
        self._precision = sum_format.mantissa_bits + 1
        if width < self._precision + 2:
            raise ValueError(f"width must be at least {self._precision + 2}, not {width}")
        super().__init__(
            {"value": In(signed(width)), "rounded": Out(signed(width))},
            module_name=f"{sum_format.name}_rounder_{width}",
            parameters={"width": width, "sum_format": describe(sum_format)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = len(self.value)
        bits = self.value.as_unsigned()
        high = bits[self._precision : -1]
        folded = named(m, "folded", len(high), Mux(bits[-1], ~high, high))
        # drops[i]: bit i lies below the kept ones. Its run of ones less one is half an ulp less
        # one: together with the lowest kept bit it rounds to nearest even, with no sticky bit.
        drops = ones_below_leading(m, "drops", folded)
        tie_to_even = named(m, "tie_to_even", 1, select(leading_one(drops), bits[1:]))
        moved = named(m, "moved", width, (bits + drops[1:] + tie_to_even)[:width])
        m.d.comb += self.rounded.eq(cleared(moved, drops).as_signed())
        return m
