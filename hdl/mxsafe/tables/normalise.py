"""Widths of normalisation's numbers, for each grade: what its model and hardware have in common.

A difference from the mean has a significand of `number` bits; its square and its product with the
reciprocal deviation come from one multiplier. What its rows lose, see
`mxsafe.rtl.arithmetic.digit_product`, is made up for by `correction` on average.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mxsafe.tables import Grade

MOST_VALUES = 8192
"""Values of the longest row whose error is bounded."""


@dataclass(frozen=True, kw_only=True)
class NormaliseWidths:
    """Widths of one grade.

    Attributes
    ----------
    window : int
        Bits of a value in the window of its row, whose top is twice the binade of the largest
        value. None of a largest value's bits are cut, so there are 24 at least.
    number : int
        Bits of the significand of a difference, of which the first is set.
    square : int
        Squares are cut to this many bits below the square of twice the window's top.
    point : int
        Bits of a variance below the point; above it are one or two. It is even if `square` is.
    root : int
        Bits of a reciprocal deviation that are found: one less than below the point, and more.
    reciprocal : int
        Bits of its significand, to which it is rounded: no fewer than of a difference.
    cut : int
        Bits of a product that are not added up.
    correction : int
        What is added to products, in units of what is left.
    result : int
        Significant bits of a result, below which it is cut.
    """

    window: int
    number: int
    square: int
    point: int
    root: int
    reciprocal: int
    cut: int
    correction: int
    result: int

    @property
    def variance(self) -> int:
        """Bits of a variance."""
        return self.point + 2

    @property
    def product(self) -> int:
        """Bits of a square, or of a product with a deviation: the upper one or two may be set.

        Two go once rows are added up.
        """
        return self.number + self.reciprocal - self.cut - 2

    def most_steps(self, values: int) -> int:
        """Steps of two bits of a division after which a variance that has too few bits is 0."""
        bits = (values - 1).bit_length()
        return -(-(self.square + bits) // 2) - (-(self.point + bits) // 2)

    @property
    def power_offset(self) -> int:
        """Sum of the exponent bias and the units of the window and of squares."""
        return 125 + (self.square - self.point) // 2


WIDTHS: Mapping[Grade, NormaliseWidths] = MappingProxyType(
    {
        "compact": NormaliseWidths(
            window=24,
            number=12,
            square=32,
            point=14,
            root=13,
            reciprocal=12,
            cut=9,
            correction=4,
            result=12,
        ),
        "fine": NormaliseWidths(
            window=26,
            number=17,
            square=38,
            point=18,
            root=18,
            reciprocal=18,
            cut=14,
            correction=5,
            result=24,
        ),
    }
)
"""By grade."""
