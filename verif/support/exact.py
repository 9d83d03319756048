"""The numeric contract once more, in rational arithmetic: an oracle that shares no code.

Slow and plain on purpose. Values are `fractions.Fraction`; nothing here uses a float, a logarithm
or anything of `mxsafe` but the names of the formats.
"""

from bisect import bisect_right
from fractions import Fraction
from functools import cache


def _float_magnitude(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> Fraction:
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    fraction = Fraction(mantissa, 1 << mantissa_bits)
    if exponent == 0:
        return Fraction(2) ** (1 - bias) * fraction
    assert exponent < 1 << exponent_bits
    return Fraction(2) ** (exponent - bias) * (1 + fraction)


@cache
def mx_table(name: str) -> tuple[Fraction, ...]:
    """Finite magnitudes of an MX element format, by magnitude code."""
    if name == "mxsf":
        low = [_float_magnitude(code, 3, 2, 10) for code in range(32)]
        return (*low, *(_float_magnitude(code, 2, 5, 3) for code in range(32, 128)))
    if name == "mxint8":
        return tuple(Fraction(code, 64) for code in range(128))
    exponent_bits, mantissa_bits, bias, finite = {
        "mxfp8_e2m5": (2, 5, 3, 128),
        "mxfp8_e4m3": (4, 3, 7, 127),
        "mxfp8_e5m2": (5, 2, 15, 124),
        "mxfp6_e3m2": (3, 2, 3, 32),
        "mxfp6_e2m3": (2, 3, 1, 32),
        "mxfp4_e2m1": (2, 1, 1, 8),
        "nvfp4": (2, 1, 1, 8),
    }[name]
    return float_table(exponent_bits, mantissa_bits, bias, finite)


def element_value(name: str, code: int) -> Fraction | None:
    """Value of an MX element code; None for NaN and Inf."""
    if name == "mxint8":
        return Fraction(code - (code >> 7 << 8), 64)
    width = {"mxfp6_e3m2": 6, "mxfp6_e2m3": 6, "mxfp4_e2m1": 4, "nvfp4": 4}.get(name, 8)
    magnitude, negative = code & (1 << width - 1) - 1, code >> width - 1
    table = mx_table(name)
    if magnitude >= len(table):
        return None
    return -table[magnitude] if negative else table[magnitude]


@cache
def float_table(
    exponent_bits: int, mantissa_bits: int, bias: int, finite: int
) -> tuple[Fraction, ...]:
    """The first magnitudes of a floating-point format, by magnitude code."""
    return tuple(
        _float_magnitude(code, exponent_bits, mantissa_bits, bias) for code in range(finite)
    )


def round_to_table(magnitude: Fraction, table: tuple[Fraction, ...], rounding: str) -> int:
    """Code of the entry that a magnitude rounds to, of a table that ascends from 0."""
    if magnitude >= table[-1]:
        return len(table) - 1
    lower = bisect_right(table, magnitude) - 1
    below, above = magnitude - table[lower], table[lower + 1] - magnitude
    if rounding == "rtz" or below < above:
        return lower
    if below > above or rounding == "rna":
        return lower + 1
    return lower if lower % 2 == 0 else lower + 1


def floor_log2(value: Fraction) -> int:
    """Exponent of the largest power of two that is not above a positive value."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def nearest_float(
    value: Fraction, mantissa_bits: int, min_exponent: int, rounding: str = "rne"
) -> Fraction:
    """Non-negative value rounded to that many mantissa bits, with gradual underflow."""
    if value == 0:
        return Fraction(0)
    exponent = max(floor_log2(abs(value)), min_exponent)
    unit = Fraction(2) ** (exponent - mantissa_bits)
    units = value / unit
    lower = units.numerator // units.denominator
    rest = units - lower
    tie_up = rounding == "rna" or lower % 2 == 1
    up = rounding != "rtz" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and tie_up))
    return (lower + up) * unit
