"""Widths of softmax's fixed-point numbers: what its model and its hardware have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mxsafe import tables
from mxsafe.tables import Grade, Table

LONGEST_ROW = 4096
"""Values of the longest row whose error is bounded."""
LENGTH_BITS = 13
"""Bits of how many values of a row count."""
ROOM_BITS = 6
"""Integer bits of differences and of exponents of two: both are below 64."""
FLOAT_BITS = 24
"""Fraction bits of the factor as it comes, once its exponent is taken out: it is rounded then."""
REACHES = ((13, 56), (14, 52), (15, 48), (16, 44), (18, 40), (20, 36), (22, 32), (24, 30))
"""Which differences count: with a factor of less than so many sixteenths, those up to so much.

So what counts has an exponent of two below 46, which leaves room for the logarithm of the sum of
the longest row; and what does not has one of 40 or more.
"""


@dataclass(frozen=True, kw_only=True)
class SoftmaxWidths:
    """Widths of a grade, and its tables.

    Attributes
    ----------
    grade : {"compact", "fine"}
    window_fraction_bits : int
        Of a value in the window.
    factor_fraction_bits : int
        Of the factor once its exponent is taken out: it is from 0.75 to 1.5. Even, for digits.
    product_fraction_bits : int
        Of an exponent of two as the multiplier gives it.
    term_fraction_bits : int
        Of the terms of the sum.
    """

    grade: Grade
    window_fraction_bits: int
    factor_fraction_bits: int
    product_fraction_bits: int
    term_fraction_bits: int

    @property
    def window_bits(self) -> int:
        """Bits of a value in the window."""
        return ROOM_BITS + self.window_fraction_bits

    @property
    def digits(self) -> int:
        """Digits of the factor from -2 to 2; above them is one more, which is always 1."""
        return self.factor_fraction_bits // 2

    @property
    def product_bits(self) -> int:
        """Bits of an exponent of two as the multiplier gives it."""
        return ROOM_BITS + self.product_fraction_bits

    @property
    def term_bits(self) -> int:
        """Bits of a term of the sum, which is below 2."""
        return self.term_fraction_bits + 1

    def total_bits(self, values: int) -> int:
        """Bits of the sum of a row of so many, whose terms are at most a little more than 1."""
        return self.term_fraction_bits + values.bit_length()

    @property
    def power(self) -> Table:
        """The table of ``2^f``."""
        return tables.load(f"softmax_exp2_{self.grade}")

    @property
    def logarithm(self) -> Table:
        """The table of the logarithm to base two."""
        return tables.load(f"log2_{self.grade}")

    @property
    def digit_shifts(self) -> tuple[int, ...]:
        """Bits of a product with the digit at each place that are below those of the sum."""
        fractions = self.window_fraction_bits + self.factor_fraction_bits
        lowest = fractions - self.product_fraction_bits
        return tuple(lowest - 2 * place for place in range(self.digits + 1))


WIDTHS: Mapping[Grade, SoftmaxWidths] = MappingProxyType(
    {
        "compact": SoftmaxWidths(
            grade="compact",
            window_fraction_bits=13,
            factor_fraction_bits=14,
            product_fraction_bits=15,
            term_fraction_bits=24,
        ),
        "fine": SoftmaxWidths(
            grade="fine",
            window_fraction_bits=18,
            factor_fraction_bits=24,
            product_fraction_bits=20,
            term_fraction_bits=31,
        ),
    }
)
"""By grade. Why they suffice stands at the top of `mxsafe.model.softmax`."""
