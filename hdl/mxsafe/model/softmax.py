r"""Softmax: exponentials of a row over their sum, as the hardware computes them, bit for bit.

How it works
------------
With ``c = scale * log2(e)`` and the row's largest value ``m``, a result is ``2^-(u + L)`` where
``u = (m - x) * c`` and ``L = log2(sum(2^-u))``. The factor is taken apart, ``c = C * 2^k`` with
``0.75 <= C < 1.5``. Values are cut to a *window* of fixed point: ``x * 2^k`` modulo 64 with W
fraction bits. What is above is dropped on both sides of ``m - x``; a comparison with the
*threshold* tells where that changes the difference, and there the result is +0. The product with
``C`` is a sum of rows, one for each radix-4 digit of ``C``, rounded to F fraction bits; each row is
cut after P fraction bits. Its low bits go through a table of ``2^f``, its upper bits are an
exponent. In the first pass these are terms of the sum, cut after T fraction bits, added exactly, so
that no order matters. In the second pass ``L``, from a table of the logarithm, is subtracted from
the exponents, and the powers are the results.

Both grades are the same in all but widths and tables (`mxsafe.tables.softmax`):

===========  ==  ==  ==  ==  ========================================
grade        W   F   P   T   tables of 32 segments
===========  ==  ==  ==  ==  ========================================
``compact``  13  14  15  24  lines, of powers and logarithms
``fine``     18  24  20  31  parabolas
===========  ==  ==  ==  ==  ========================================

Error
-----
In units of ``q = 2^-12`` (``fine``: ``2^-18``) of the logarithm to base two; an error of ``e``
there is one of ``0.693 e`` relative to the result. What is common to the whole row cancels, so only
the range of each error counts:

=======  ======  ==================================================================================
compact  fine
=======  ======  ==================================================================================
0.75 q   1.50 q  values cut to the window: ``C * 2^-W``
4.04 q   0.30 q  the factor, rounded to a float: ``u * 2^-24``; in ``compact`` to F bits as well,
                 ``u * 2^-(F + 1) / 0.75``; the absolute term of the bound grows faster than this
                 from ``u = 25`` on, in ``fine`` from 18
0.71 q   2.68 q  rows of the product that are cut, 6 and 11
3.52 q   4.83 q  two powers, each 2.98e-4 and 6.38e-6 relative, cutting the exponent to 11 and 17
                 fraction bits included
1.45 q   0.73 q  4,095 terms of the sum, each cut by less than ``2^-T``
0.94 q   0.90 q  the logarithm, 1.97e-4 and 2.48e-6, cut after P bits
=======  ======  ==================================================================================

Together 11.41 q, or ``0.990 * 2^-9`` relative, and in ``fine`` 10.94 q, or ``0.948 * 2^-15``. What
the threshold cuts off is below ``2^-40``. So each result is within ``2^-9`` (``2^-15``) relative
plus ``2^-40`` of the exact one, and the sum of a row's results within ``2^-9`` (``2^-15``) and
``4096 * 2^-40`` of 1.

Results up to 1
---------------
In the second pass an exponent of 0 or more gives 1, whatever its fraction: no result is above 1. No
exact one is either, so that errors only become smaller.

A row of one value gives exactly 1. Its sum is one term, the power of the largest value's exponent
``E``. That is a little below 0, since a difference is one unit of the window too low, and depends
on the factor's significand alone: over all ``2^23`` of them it is from -11 to -4 in units of
``2^-15``, in ``fine`` from -15 to -4 in units of ``2^-20``. Powers do not take its last four bits
(three), so that only one sum occurs (two), of an exponent of -16 (-16 or -8). The table's
logarithm, never above the exact one in the last segment, is -12.5 (-16.875 and -8.25) for it,
rounded down -13 (-17 and -9). So ``E`` less the logarithm is at least 1.
"""

import math
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers, floats, widened
from mxsafe.model.polynomial import evaluate
from mxsafe.tables import MOST_IN_ROW, Grade
from mxsafe.tables.softmax import FLOAT_BITS, REACHES, WIDTHS, SoftmaxWidths
from mxsafe.validation import checked, require_axis, shown

_LOG2_E = 0x171547652B82FE1777D0FFDA0D23A7D11D6AEF551BAD2B4B1164A2CD9A342648
"""log2(e) in units of 2^-252."""
_LEAST_SCALE, _LARGEST_SCALE = 2.0**-120, 2.0**120
_NAN, _MINUS_INFINITY = 0x7FC00000, -0x7F800001
_LEAST_FINITE = -0x7F800000
_PLACE_OF_ONE = 63
"""Upper bits of an exponent of 0 or more: the largest there are."""

Integers = NDArray[np.int64]


@checked
def softmax_factor(scale: float = 1.0) -> np.float32:
    """``scale * log2(e)``, rounded to the nearest binary32: what the hardware takes for a scale.

    Parameters
    ----------
    scale : float
        From ``2^-120`` to ``2^120``.

    Raises
    ------
    ValueError
        If it is not.
    """
    number = _scale(scale)
    fraction, exponent = math.frexp(number)
    product = int(math.ldexp(fraction, 53)) * _LOG2_E
    surplus = product.bit_length() - 24
    significand = (product >> (surplus - 1)) + 1 >> 1
    return np.float32(math.ldexp(significand, surplus + exponent - 53 - 252))


def _scale(scale: float) -> float:
    number = float(scale)
    if not _LEAST_SCALE <= number <= _LARGEST_SCALE:
        raise ValueError(f"scale must be a number from 2^-120 to 2^120, not {shown(scale)}")
    return number


@checked
def softmax(
    x: Numbers,
    axis: int = -1,
    mask: Numbers | None = None,
    scale: float = 1.0,
    *,
    grade: Grade = "compact",
) -> NDArray[np.float32]:
    """``exp(scale * x) / sum(exp(scale * x))`` along an axis.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16
        At most 65,536 values along the axis; errors are bounded up to 4,096.
    axis : int
        Along which rows run.
    mask : array_like of bool, optional
        Which values count, of a shape that broadcasts to that of `x`; by default all. What does
        not count is as -Inf.
    scale : float
        From ``2^-120`` to ``2^120``.
    grade : {"compact", "fine"}
        How exact results are.

    Returns
    -------
    ndarray of float32, shape of `x`
        Each within ``2^-9`` relative (``2^-15`` in grade ``fine``) plus ``2^-40`` of the exact
        value, and not above 1: see above. 1 where nothing else in the row counts. +0 where a value
        is -Inf or does not count, and in rows where nothing else is. ``0x7fc00000`` all over a row
        with NaN or +Inf.

    Raises
    ------
    TypeError
        If `x` is of another type.
    ValueError
        If there is no such axis, `scale` or `grade` is not as above, or rows are longer.
    """
    return softmax_by_factor(x, softmax_factor(scale), axis, mask, grade=grade)


@checked
def softmax_by_factor(
    x: Numbers,
    factor: np.float32,
    axis: int = -1,
    mask: Numbers | None = None,
    *,
    grade: Grade = "compact",
) -> NDArray[np.float32]:
    """`softmax` whose scale is given as the hardware takes it: see `softmax_factor`.

    Raises
    ------
    TypeError, ValueError
        As `softmax`, and if `factor` is not from ``2^-120`` to ``2^121``.
    """
    if not _LEAST_SCALE <= factor <= 2 * _LARGEST_SCALE:
        raise ValueError(f"factor must be a number from 2^-120 to 2^121, not {shown(factor)}")
    array = _float32("x", x)
    values = np.moveaxis(array, require_axis(axis, array.ndim), -1)
    if values.shape[-1] > MOST_IN_ROW:
        raise ValueError(
            f"x must have at most {MOST_IN_ROW} values in a row, not {values.shape[-1]}"
        )
    if values.size == 0:
        return np.moveaxis(np.zeros(values.shape, np.float32), -1, axis)
    counts = None
    if mask is not None:
        with suppress(ValueError):
            mask = np.broadcast_to(mask, np.shape(x))
        if np.shape(mask) != np.shape(x):
            raise ValueError(f"mask must broadcast to {np.shape(x)}, not {np.shape(mask)}")
        counts = np.moveaxis(np.broadcast_to(np.asarray(mask, np.bool_), np.shape(x)), axis, -1)
    rows = SoftmaxRows(values.shape[:-1], grade)
    rows.find_largest(values, counts)
    rows.find_constants(factor)
    rows.add_terms(values, counts)
    rows.find_logarithm()
    return np.moveaxis(rows.results(values, counts), -1, axis)


def _float32(name: str, values: Numbers) -> NDArray[np.float32]:
    array = floats(name, values)
    if array.dtype.name == "float64":
        raise TypeError(f"{name} must have dtype float32, float16, bfloat16, not float64")
    return widened(array, np.float32)


class SoftmaxRows:
    """Rows of which softmax is made: by pieces, each stage over the whole rows.

    A piece has the shape of the rows, and values along them as its last axis; `counts`, if there
    is one, says which of them count. First comes `find_largest` of all pieces, and
    `find_constants`; then `add_terms` and `find_logarithm`; last `results`. The same values should
    come in every stage; of others the numbers are those of the hardware.

    Parameters
    ----------
    shape : tuple of int
    grade : {"compact", "fine"}
    """

    def __init__(self, shape: tuple[int, ...], grade: Grade) -> None:
        self._widths = WIDTHS[grade]
        self.maximum = np.full((*shape, 1), _MINUS_INFINITY, np.int64)

    def find_largest(self, values: NDArray[np.float32], counts: NDArray[np.bool_] | None) -> None:
        """Find the largest value that counts."""
        keys = _keys(values, counts)
        self.maximum = np.maximum(self.maximum, keys.max(axis=-1, keepdims=True))

    def find_constants(self, factor: np.float32) -> None:
        """Find what depends on the largest value and the factor."""
        widths = self._widths
        self._factor = significand, exponent = _taken_apart(factor)
        self._threshold = _thresholds(self.maximum, significand, exponent)
        self._top = _windowed(self.maximum, exponent, widths)
        # The window has added 64 to the difference. And an exponent of 63 stands for 0, so that the
        # upper bits are not negative.
        unit = 1 << widths.product_fraction_bits
        lost = FLOAT_BITS - widths.factor_fraction_bits
        nearest = (significand << 1 >> lost) + 1 >> 1
        self._start = -(64 * nearest * unit >> widths.factor_fraction_bits) - unit
        self._total = np.zeros_like(self.maximum)

    def add_terms(self, values: NDArray[np.float32], counts: NDArray[np.bool_] | None) -> None:
        """Add up powers."""
        product, flushed = self._products(_keys(values, counts))
        terms = _terms(*_powers(product + self._start, self._widths), self._widths)
        self._total += np.where(flushed, 0, terms).sum(axis=-1, keepdims=True)

    def find_logarithm(self) -> None:
        """Find the logarithm of what has been added."""
        self._logarithm = _logarithm(self._total, self._widths)

    def results(
        self, values: NDArray[np.float32], counts: NDArray[np.bool_] | None
    ) -> NDArray[np.float32]:
        """Powers over their sum."""
        product, flushed = self._products(_keys(values, counts))
        power, place = _powers(product + self._start - self._logarithm, self._widths)
        bits = self._widths.power.fraction_bits
        fraction = np.where(place == _PLACE_OF_ONE, 0, power - (1 << bits))
        words = (place + 64 << 23) + (fraction << 23 - bits)
        invalid = self.maximum >= 0x7F800000
        found = np.where(invalid, _NAN, np.where(flushed, 0, words))
        return found.astype(np.uint32).view(np.float32)

    def _products(self, keys: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Products of the factor and differences from the largest, and which do not count."""
        significand, exponent = self._factor
        widths = self._widths
        # One less than the difference x - m, which is never positive.
        less = _windowed(keys, exponent, widths) - self._top - 1
        product = _product(less % (1 << widths.window_bits), significand, widths)
        return product, keys < self._threshold


def _keys(values: NDArray[np.float32], counts: NDArray[np.bool_] | None = None) -> Integers:
    """Integers in the order of the values, -0 before +0 and NaN last; those that count."""
    bits = np.ascontiguousarray(values).view(np.int32).astype(np.int64)
    keys = np.where(bits < 0, -0x80000001 - bits, bits)
    keys = np.where(np.isnan(values), _NAN, keys)
    return keys if counts is None else np.where(counts, keys, _MINUS_INFINITY)


def _taken_apart(factor: np.float32) -> tuple[int, int]:
    """A factor as an integer times ``2^-24``, from 0.75 to 1.5, and a power of two."""
    fraction, exponent = math.frexp(float(factor))
    significand = int(fraction * 2**25)  # from 1 to 2
    if significand >= 3 << 23:
        return significand >> 1, exponent
    return significand, exponent - 1


def _thresholds(maximum: Integers, significand: int, exponent: int) -> Integers:
    """Keys of the smallest numbers that count: what lies farther below the maximum does not."""
    sixteenths = significand >> FLOAT_BITS - 4
    reach = math.ldexp(next(most for limit, most in REACHES if sixteenths < limit), -exponent)
    bits = np.where(maximum < 0, maximum ^ 0x7FFFFFFF, maximum) & 0xFFFFFFFF
    largest = bits.astype(np.uint32).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        # The exact difference is the rounded one and the rest: both are float64.
        rounded = largest - reach
        back = rounded - largest
        rest = (largest - (rounded - back)) - (reach + back)
        nearest = rounded.astype(np.float32)
        short = (nearest < rounded) | ((nearest == rounded) & (rest > 0))
        above = np.where(short, np.nextafter(nearest, np.float32(np.inf)), nearest)
    keys = np.maximum(_keys(np.where(np.isnan(above), np.float32(0), above)), _LEAST_FINITE)
    # The difference of equal numbers is +0.
    return np.where(above == 0, 0, np.where(maximum == _MINUS_INFINITY, _LEAST_FINITE, keys))


def _windowed(keys: Integers, exponent: int, widths: SoftmaxWidths) -> Integers:
    """Values times ``2^exponent`` in the window, rounded down and modulo 64."""
    bits = np.where(keys < 0, ~keys, keys) & 0x7FFFFFFF
    field = np.maximum(bits >> 23, 1)
    significand = np.where(bits >> 23 > 0, bits & 0x7FFFFF | 1 << 23, bits)
    distance = field - 150 + exponent + widths.window_fraction_bits
    left = significand << np.clip(distance, 0, 30)
    magnitude = np.where(distance >= 0, left, significand >> np.clip(-distance, 0, 30))
    magnitude = np.where(distance > 30, 0, magnitude)
    return np.where(keys < 0, -1 - magnitude, magnitude) % (1 << widths.window_bits)


def _product(places: Integers, significand: int, widths: SoftmaxWidths) -> Integers:
    """Sum of rows, one for each digit from -2 to 2 of the factor, rounded down one by one."""
    total = np.zeros_like(places)
    lost = FLOAT_BITS - widths.factor_fraction_bits
    for index in range(widths.digits + 1):
        # Digits with a weight of 4^index: the upper two of three bits, rounded by the lowest. So
        # they are those of the nearest number, ties up.
        three = (significand << 1 >> lost + 2 * index) & 7
        digit = (three + 1 >> 1) - 4 * (three >> 2)
        scaled = digit * places - (digit < 0)
        shift = widths.digit_shifts[index]
        total += scaled >> shift if shift > 0 else scaled << -shift
    return total


def _powers(exponents: Integers, widths: SoftmaxWidths) -> tuple[Integers, Integers]:
    """``2^f`` of the fractions, from 1 to 2, and the integer parts from 0 to 63."""
    table = widths.power
    bits = table.index_bits + table.offset_bits
    cut = (exponents % (1 << widths.product_bits)) >> widths.product_fraction_bits - bits
    index = (cut >> table.offset_bits) % table.segments
    offset = cut % (1 << table.offset_bits)
    return evaluate(table, index, offset), cut >> bits


def _terms(power: Integers, place: Integers, widths: SoftmaxWidths) -> Integers:
    """Powers as terms of the sum, cut after their fraction bits."""
    return power << widths.term_fraction_bits - widths.power.fraction_bits >> 63 - place


def _logarithm(total: Integers, widths: SoftmaxWidths) -> Integers:
    """Logarithm of the sum, rounded down; of a sum of 0 anything."""
    table = widths.logarithm
    bits = table.index_bits + table.offset_bits
    total = np.maximum(total, 1)
    place = np.frexp(total.astype(np.float64))[1].astype(np.int64) - 1  # exact below 2^53
    fraction = (total << 62 - place >> 62 - bits) - (1 << bits)
    value = evaluate(table, fraction >> table.offset_bits, fraction % (1 << table.offset_bits))
    cut = value >> table.fraction_bits - widths.product_fraction_bits
    return (place - widths.term_fraction_bits << widths.product_fraction_bits) + cut
