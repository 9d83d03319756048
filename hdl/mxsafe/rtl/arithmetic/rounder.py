"""Rounding in place: what makes a fixed-point adder a floating-point one.

Tested by `verif/rtl/arithmetic/test_fp_adder.py`.
"""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.rtl.arithmetic.bits import (
    cleared,
    leading_one,
    named,
    noted,
    ones_below_leading,
    select,
    truncated,
)
from mxsafe.rtl.unit import Configuration, Ports, Unit


class RounderConfiguration(Configuration):
    """A `Rounder`.

    Parameters
    ----------
    width : int
        Bits of the number, sign included.
    sum_format : FloatFormat
        Format whose number of significant bits is kept; the number is a multiple of its smallest
        subnormal.

    Raises
    ------
    ValueError
        If `width` leaves nothing to round.
    """

    width: int
    sum_format: FloatFormat

    def __post_init__(self) -> None:
        if self.width < self.precision + 2:
            raise ValueError(f"width must be at least {self.precision + 2}, not {self.width}")

    @property
    def precision(self) -> int:
        """Significant bits that are kept."""
        return self.sum_format.precision


class Rounder(Unit[RounderConfiguration]):
    """A fixed-point number rounded to the significant bits of a float format. Combinational.

    FP12 has so narrow a range that every value is a multiple of ``2^-18`` below 16: a 23-bit
    integer. Sums of two are then exact integer sums, with no alignment and no normalisation, and
    all that is left of floating-point addition is to clear the bits below the eight that follow
    the leading one, rounding to nearest even. The result stays where it is, ready to be added.

    Two's complement goes straight through, because rounding to nearest even is symmetric. The
    leading one of a negative number is looked for in its complement, which is one short only for
    ``-2^k``, and that is exact at either position.

    Attributes
    ----------
    value : In(signed(width))
        The number before rounding.
    rounded : Out(signed(width))
        Magnitudes that would round up to ``2^(width - 1)`` do not fit; the
        caller's width excludes them.
    """

    def ports(self) -> Ports:
        width = self.config.width
        return {"value": In(signed(width)), "rounded": Out(signed(width))}

    def fill(self, m: Module, platform: object) -> None:
        width = len(self.value)
        bits = self.value.as_unsigned()
        high = bits[self.config.precision : -1]
        folded = noted(
            named(m, "folded", len(high), Mux(bits[-1], ~high, high)),
            "Leading one: of a negative number it is looked for in the complement, which is one "
            "short only for -2^k, and that is exact at either position. The lowest bits always "
            "fit.",
        )
        drops = ones_below_leading(m, "drops", folded)
        noted(drops, "drops[i]: bit i lies below the kept ones.")
        tie_to_even = named(m, "tie_to_even", 1, select(leading_one(drops), bits[1:]))
        noted(tie_to_even, "The lowest kept bit: 1 where a tie goes up to even.")
        with_half = noted(
            named(m, "with_half", None, bits + drops[1:]),
            "drops[1:] is half an ulp less one: with the lowest kept bit added it rounds to "
            "nearest even, with no sticky bit.",
        )
        moved = truncated(m, "moved", width, with_half + tie_to_even)
        noted(self.rounded, "Bits below the kept ones hold what the addition left: cleared last.")
        m.d.comb += self.rounded.eq(cleared(moved, drops).as_signed())
