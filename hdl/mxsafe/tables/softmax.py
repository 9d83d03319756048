"""Widths of softmax's fixed-point numbers: what its model and its hardware have in common."""

__all__ = [
    "FACTOR_BITS",
    "FACTOR_FRACTION_BITS",
    "LONGEST_ROW",
    "PRODUCT_BITS",
    "PRODUCT_FRACTION_BITS",
    "REACHES",
    "ROOM_BITS",
    "TERM_FRACTION_BITS",
    "WINDOW_BITS",
    "WINDOW_FRACTION_BITS",
]

LONGEST_ROW = 4096
"""Values that a row may have."""
ROOM_BITS = 6
"""Integer bits of differences and of exponents of two: both are below 64."""
WINDOW_FRACTION_BITS = 18
WINDOW_BITS = ROOM_BITS + WINDOW_FRACTION_BITS
"""Bits of a value in the window."""
FACTOR_FRACTION_BITS = 24
FACTOR_BITS = FACTOR_FRACTION_BITS + 1
"""Bits of the factor once its exponent is taken out: it is from 0.75 to 1.5."""
PRODUCT_FRACTION_BITS = 20
PRODUCT_BITS = ROOM_BITS + PRODUCT_FRACTION_BITS
"""Bits of an exponent of two as the multiplier gives it."""
TERM_FRACTION_BITS = 31
"""Fraction bits of the terms of the sum."""
REACHES = ((7, 7), (8, 6), (10, 5), (12, 4))
"""Which differences count: with a factor of less than so many eighths, up to so many times 8.

So what counts has an exponent of two below 51, and what does not has one above 40.
"""
