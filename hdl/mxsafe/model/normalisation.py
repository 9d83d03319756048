"""Model of layer and RMS normalisation (hardware: `mxsafe.rtl.vector.normalise`).

All is done in integers, and sums are exact: results do not depend on how a row lies in lanes and
beats, nor on the order of its values. Gain and bias follow: a product and a sum of binary32, each
rounded once.

The values of a row are cut to a fixed-point *window*, whose unit is q. The mean is rounded down to
units, and differences are taken from half a unit below it: a one's complement is their exact
magnitude. Where a value is in the same unit as the mean, the difference is 0. Without centring
nothing is cut. From there on numbers have a significand and an exponent: differences, their
squares, which are added up in fixed point, the reciprocal standard deviation, results. How many
bits they have is data, for each grade: `mxsafe.tables.normalise`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers
from mxsafe.model.accumulate import CANONICAL_NAN
from mxsafe.model.vector_arithmetic import add, multiply
from mxsafe.tables import GRADES, MOST_IN_ROW, Grade
from mxsafe.tables.normalise import WIDTHS, NormaliseWidths
from mxsafe.validation import (
    checked,
    require_axis,
    require_one_of,
    shown,
)

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NOT_FINITE = 255
"""Exponent field of Inf and NaN."""
_MOST_SHIFT = 62
_NO_POWER = -1000
"""Power of 4 of a variance of 0: lower than any other."""


class Normalised(NamedTuple):
    """Normalised rows, and what a backward pass needs of them.

    Attributes
    ----------
    result : ndarray of float32
        Of the shape of the values.
    mean, reciprocal_deviation : ndarray of float32
        Of each row; the axis has length 1.
    """

    result: NDArray[np.float32]
    mean: NDArray[np.float32]
    reciprocal_deviation: NDArray[np.float32]


class _Rows(NamedTuple):
    """Differences in rows, shape (rows, count): ``significand * 2^(11 - place)`` half units."""

    significand: Integers
    place: Integers
    negative: Flags
    zero: Flags


@checked
def layer_norm(
    x: Numbers,
    gain: Numbers | None = None,
    bias: Numbers | None = None,
    epsilon: float = 1e-5,
    axis: int = -1,
    *,
    grade: Grade = "compact",
) -> NDArray[np.float32]:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias``: the result of `normalise`."""
    return normalise(x, gain, bias, epsilon, axis=axis, grade=grade).result


@checked
def rms_norm(
    x: Numbers,
    gain: Numbers | None = None,
    epsilon: float = 1e-5,
    axis: int = -1,
    *,
    grade: Grade = "compact",
) -> NDArray[np.float32]:
    """``x / sqrt(mean of x**2 + epsilon) * gain``: the result of `normalise`, not centred."""
    return normalise(x, gain, None, epsilon, axis=axis, centre=False, grade=grade).result


@checked
def normalise(
    x: Numbers,
    gain: Numbers | None = None,
    bias: Numbers | None = None,
    epsilon: float = 1e-5,
    *,
    axis: int = -1,
    centre: bool = True,
    grade: Grade = "compact",
) -> Normalised:
    """Rows with mean 0 and mean square 1, times a gain, plus a bias.

    Parameters
    ----------
    x : array_like of float32
        Values; along `axis` are rows of 1 to 65,536, whose error is bounded up to 8,192.
    gain, bias : array_like of float32, optional
        One number for each place in a row, which results are multiplied by, and to which they are
        added, in IEEE 754 binary32.
    epsilon : float
        Added to the variance, or mean square; from 0, rounded to float32. A subnormal counts as 0.
    axis : int
    centre : bool
        Whether the mean is subtracted (layer normalisation) or not (RMS normalisation, whose `mean`
        is 0).
    grade : {"compact", "fine"}
        How exact results are. Those of ``compact`` have 12 significant bits before gain and bias.

    Returns
    -------
    Normalised
        A NaN or Inf in a row makes all of it NaN, and results of a constant row (with any
        `epsilon`) are 0 before gain and bias. Without a deviation or `epsilon` they are 0 too, and
        the reciprocal is Inf.

    Raises
    ------
    ValueError
        If a row has too many values or none, gain or bias does not fit it, or `epsilon` is negative
        or not finite.

    Notes
    -----
    Let Y be the row's largest normalised value, and the mean be below 256 standard deviations s.
    Before gain and bias, which are rounded by binary32 alone, the error of a result is less than
    ``2^-9 * Y`` plus ``2^-136`` in grade ``compact``, and less than ``2^-14 * Y`` plus ``2^-149``
    in grade ``fine``. In a row of nothing but subnormals the unit of the window can be more than
    that. In units of u, results are too small or too large by up to:

    ======================================================== ======== ======== ======== ========
    grade, and u as a part of Y                              compact: 2^-13    fine: 2^-18
    -------------------------------------------------------- ----------------- -----------------
    what is cut or rounded                                   small    large    small    large
    ======================================================== ======== ======== ======== ========
    window and mean, and squares cut, see below              0.6      2.4      3        3.5
    significands of differences, in results and in s         4        4        4        4
    product with the reciprocal: rows, and rounded           3.9      4        3        2.5
    the same in squares, and half of that in s               2        0.9      1.3      1.5
    variance, `epsilon` and their sum, half of that in s     0        0.8      0        1.5
    reciprocal, rounded (in ``fine`` up)                     2        2        0        2
    sum                                                      12.5     14.1     11.3     15
    ======================================================== ======== ======== ======== ========

    The errors of products of ``compact``, cut to the bits of a result, are those of all factors,
    found by trying them. ``2^-9`` is 16 there, as ``2^-14`` is in ``fine``.

    Let M be the largest difference: s <= M <= 90.5 s, because a value is no further away than
    ``sqrt(8191) s``. The largest value is below ``256 s + M``, and q is ``2^-23`` of its binade in
    ``compact`` and ``2^-25`` in ``fine``. If the mean is above 4 M, all values are in two binades:
    the difference is too large by 0 to 2 q in ``compact``, where half a unit is cut from those of
    the lower one, and 0.5 to 1.5 q in ``fine``, which is most for M = s: 0.5 u and 3 u. It moves s
    by a quarter of q at most. If not, values are cut by up to a unit, which moves s by ``q/2`` at
    most, 0.3 u and 1.8 u, and results by ``2.5 q <= 12.5 M`` units of ``2^-23`` or ``2^-25``. In
    ``compact`` squares are cut at ``2^-32`` of the square of twice the window's top, which is
    ``1384 s`` at most: 1.8 u for M = 90.5 s. In ``fine``, at ``2^-38``, it is 0.5 u for M = s and 1
    u for M = 90.5 s, which is less than what the mean has left there.
    """
    array = _binary32(x)
    values = np.moveaxis(array, require_axis(axis, array.ndim), -1)
    count = values.shape[-1]
    _require_count(count)
    require_one_of("grade", grade, GRADES)
    widths = WIDTHS[grade]
    small = normalise_epsilon(epsilon, grade)
    flat = values.reshape(-1, count)
    rows = NormRows(len(flat), grade, centre)
    rows.find_largest(flat)
    if centre:
        rows.add_values(flat)
        rows.find_mean()
    rows.add_squares(flat)
    rows.find_deviation(small)
    result = rows.results(flat)
    if gain is not None:
        result = multiply(result, _along("gain", gain, count))
    if bias is not None:
        result = add(result, _along("bias", bias, count))
    shape = (*values.shape[:-1], 1)
    return Normalised(
        np.moveaxis(result.reshape(values.shape), -1, axis),
        np.moveaxis(_mean_value(rows.mean, rows.largest, widths).reshape(shape), -1, axis),
        np.moveaxis(_deviation_value(rows, widths).reshape(shape), -1, axis),
    )


@checked
def window_sum(x: Numbers, axis: int = -1, *, grade: Grade = "compact") -> NDArray[np.float32]:
    """Sums of rows: of values in the window of each row, exact, and rounded once.

    Parameters
    ----------
    x : array_like of float32
        Values; rows of 1 to 65,536 are along `axis`.
    axis : int
    grade : {"compact", "fine"}
        How far below the largest value the others are cut.

    Returns
    -------
    ndarray of float32
        Of the shape of `x` without the axis. A NaN or Inf in a row gives ``0x7fc00000``, and a sum
        of zero is +0.

    Raises
    ------
    ValueError
        If a row has too many values or none.

    Notes
    -----
    With ``2^e`` the binade of the row's largest value, each value is cut towards zero to a multiple
    of ``q = 2^(e - 23)``, or in grade ``fine`` of ``2^(e - 25)``. So a sum of n values is within
    ``(n - 1) * q`` of the exact one, and is then rounded to the nearest binary32, ties to even. If
    no value has bits below q it is the exact sum, rounded once.
    """
    array = _binary32(x)
    values = np.moveaxis(array, require_axis(axis, array.ndim), -1)
    count = values.shape[-1]
    _require_count(count)
    require_one_of("grade", grade, GRADES)
    flat = values.reshape(-1, count)
    rows = NormRows(len(flat), grade)
    rows.find_largest(flat)
    rows.add_values(flat)
    return rows.sum().reshape(values.shape[:-1])


def _require_count(count: int) -> None:
    if not 1 <= count <= MOST_IN_ROW:
        raise ValueError(f"x must have rows of 1 to {MOST_IN_ROW} values, not of {count}")


class NormRows:
    """Rows of which a norm or a sum is made: by pieces, each stage over the whole rows.

    A piece has the shape (rows, count). First comes `find_largest` of all pieces of the rows. For a
    sum `add_values` follows, and `sum`. A norm with a mean wants `add_values` and `find_mean`, then
    `add_squares`, `find_deviation` and `results`; one without begins at once with squares. The same
    values should come in every stage; of others the numbers are those of the hardware.

    Parameters
    ----------
    rows : int
    grade : {"compact", "fine"}
    centre : bool
        Whether the mean is subtracted, in a norm.
    """

    def __init__(self, rows: int, grade: Grade, centre: bool = True) -> None:
        self._widths, self._centre = WIDTHS[grade], centre
        self.largest = np.ones((rows, 1), np.int64)
        self.mean: Integers | None = None
        self._clear()

    def _clear(self) -> None:
        self._total = np.zeros_like(self.largest)
        self._negative = np.zeros_like(self.largest)
        self._count = 0

    def find_largest(self, values: NDArray[np.float32]) -> None:
        """Find the largest exponent, which the window of a row depends on."""
        _, exponent, _ = _unpacked(_words(values))
        self.largest = np.maximum(self.largest, exponent.max(axis=1, keepdims=True))

    def add_values(self, values: NDArray[np.float32]) -> None:
        """Add up values in the window."""
        window, negative = self._windowed(values)
        self._total += window.sum(axis=1, keepdims=True)
        self._negative += negative.sum(axis=1, keepdims=True)
        self._count += values.shape[1]

    def sum(self) -> NDArray[np.float32]:
        """Sums of what has been added, one for each row."""
        total = (self._total + self._negative).astype(np.float64)
        with np.errstate(over="ignore"):
            value = np.ldexp(total, self.largest - (126 + self._widths.window)).astype(np.float32)
        return _or_nan(value, self.largest)[:, 0]

    def find_mean(self) -> None:
        """Find the mean of what has been added, rounded down."""
        self.mean = self._total // self._count
        self._clear()

    def add_squares(self, values: NDArray[np.float32]) -> None:
        """Add up squares of differences."""
        self._total += _squares(self._differences(values), self._widths)
        self._count += values.shape[1]

    def find_deviation(self, small: tuple[int, int]) -> None:
        """Find the reciprocal deviation of what has been added and `epsilon`."""
        parts = self._total, self._count, self.largest, small, self._widths
        self.variance, self.power = _variance(*parts)
        self.reciprocal = _reciprocal_root(self.variance, self._widths)
        self._clear()

    def results(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values with mean 0 and mean square 1."""
        rows, widths = self._differences(values), self._widths
        product = _product(self.reciprocal, rows.significand, widths.number, widths.cut, widths)
        field = self.largest - self.power - rows.place
        zero = rows.zero | (self.variance == 0)
        bits = _packed(product, widths.product, field, rows.negative, zero, widths)
        bits = np.where(self.largest == _NOT_FINITE, CANONICAL_NAN, bits.astype(np.uint32))
        return bits.astype(np.uint32).view(np.float32)

    def _below(self, exponent: Integers) -> Integers:
        """Binades below the largest, as the hardware counts them."""
        return (self.largest - exponent) & 0xFF

    def _windowed(self, values: NDArray[np.float32]) -> tuple[Integers, Flags]:
        """Values in the window, one's complements where they are negative; and where they are."""
        significand, exponent, negative = _unpacked(_words(values))
        shift = np.minimum(self._below(exponent), _MOST_SHIFT)
        magnitude = significand << self._widths.window - 24 >> shift
        return np.where(negative, ~magnitude, magnitude), negative

    def _differences(self, values: NDArray[np.float32]) -> _Rows:
        if self._centre:
            assert self.mean is not None
            return _centred(self._windowed(values)[0] - self.mean, self._widths)
        significand, exponent, negative = _unpacked(_words(values))
        return _not_centred(significand, self._below(exponent), negative, self._widths)


def _words(values: NDArray[np.float32]) -> Integers:
    """Bits of numbers."""
    return np.ascontiguousarray(values).view(np.uint32).astype(np.int64)


@checked
def normalise_epsilon(epsilon: float, grade: Grade) -> tuple[int, int]:
    """`epsilon` as a variance from 1 to 4, and its power of 4.

    Raises
    ------
    ValueError
        If it is negative or not finite.
    """
    with np.errstate(over="ignore"):  # one too large is infinite, and refused
        word = int(np.float32(epsilon).view(np.uint32))
    if not 0 <= word >> 23 < _NOT_FINITE:
        raise ValueError(f"epsilon must be a finite number from 0, not {shown(epsilon)}")
    field = word >> 23
    if field == 0:
        return 0, _NO_POWER
    power, odd = divmod(field - 127, 2)
    return ((word & 0x7FFFFF) | 1 << 23) << odd >> 23 - WIDTHS[grade].point, power


def _binary32(numbers: Numbers) -> NDArray[np.float32]:
    """Numbers in binary32, where those beyond it are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float32)


def _along(name: str, numbers: Numbers, count: int) -> NDArray[np.float32]:
    """Numbers that all rows share."""
    array = _binary32(numbers)
    if array.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), not {array.shape}")
    return array


def _unpacked(words: Integers) -> tuple[Integers, Integers, Flags]:
    """Significand of 24 bits, exponent field (1 for subnormals too) and sign (none of zeros)."""
    field, mantissa = words >> 23 & 0xFF, words & 0x7FFFFF
    significand = np.where(field > 0, mantissa | 1 << 23, mantissa)
    return significand, np.maximum(field, 1), (words >> 31 > 0) & (significand > 0)


def _bit_length(numbers: Integers) -> Integers:
    """Bits of numbers below 2^60; a conversion of 53 bits or less is exact."""
    high = numbers >> 30
    part = np.where(high > 0, high, numbers)
    return np.frexp(part.astype(np.float64))[1].astype(np.int64) + 30 * (high > 0)


def _centred(steps: Integers, widths: NormaliseWidths) -> _Rows:
    """Differences of values in the window from means, from half a unit above."""
    halves = np.abs(2 * steps + 1)
    length = widths.window + 2
    place = length - _bit_length(halves)
    kept = halves << place >> length - widths.number
    return _Rows(kept, place, steps < 0, steps == 0)


def _not_centred(
    significand: Integers, below: Integers, negative: Flags, widths: NormaliseWidths
) -> _Rows:
    """The values themselves."""
    zero = significand == 0
    zeros = np.where(zero, 0, 24 - _bit_length(significand))
    # The window's top is twice the largest binade, and differences may be twice as large again.
    kept = significand << zeros >> 24 - widths.number
    return _Rows(kept, below + zeros + 1, negative, zero)


def _squares(rows: _Rows, widths: NormaliseWidths) -> Integers:
    """Sums of squares."""
    root = rows.significand << widths.reciprocal - widths.number
    square = _product(root, rows.significand, widths.number, widths.cut, widths)
    placed = square << widths.square - widths.product >> np.minimum(2 * rows.place, _MOST_SHIFT)
    return np.where(rows.zero, 0, placed).sum(axis=1, keepdims=True)


def _variance(
    total: Integers,
    count: int,
    largest: Integers,
    small: tuple[int, int],
    widths: NormaliseWidths,
) -> tuple[Integers, Integers]:
    """Mean squares plus `epsilon`, from 1 to 4, and their powers of 4."""
    # The quotient's binade.
    apart = _bit_length(total) - count.bit_length()
    up, down = np.maximum(-apart, 0), np.maximum(apart, 0)
    binade = apart + (total << up >= count << down)
    steps = -((binade - widths.point - 1) // 2)
    up, down = np.maximum(2 * steps, 0), np.maximum(-2 * steps, 0)
    mean = (np.where(total > 0, total, 0) << np.where(total > 0, up, 0)) // (count << down)
    power = np.where(total > 0, largest - widths.power_offset - steps, _NO_POWER)
    top = np.maximum(power, small[1])
    added = _cut(mean, 2 * (top - power)) + _cut(np.int64(small[0]), 2 * (top - small[1]))
    carry = added >> widths.variance
    return np.where(carry, added >> 2, added), top + carry


def _cut(number: Integers | np.int64, shift: Integers) -> Integers:
    return number >> np.minimum(shift, _MOST_SHIFT)


def _reciprocal_root(variance: Integers, widths: NormaliseWidths) -> Integers:
    """``1 / sqrt(v)`` of variances v from 1 to 4, rounded: where it has all its bits, up."""
    quotient = ((1 << 2 * widths.root + widths.point) - 1) // np.maximum(variance, 1)
    root = np.zeros_like(quotient)
    for bit in reversed(range(widths.root)):
        larger = root | 1 << bit
        root = np.where(larger * larger <= quotient, larger, root)
    rounded = root + 1 >> widths.root - widths.reciprocal
    return np.minimum(rounded, (1 << widths.reciprocal) - 1)


def _product(a: Integers, b: Integers, bits: int, cut: int, widths: NormaliseWidths) -> Integers:
    """``a * b >> cut + 2``, from rows for digits of `b` from -2 to 2, each cut by itself.

    A negative row is the one's complement of the cut magnitude. What that loses, and half of the
    four units that go in the end, is made up for on average.
    """
    shape = np.broadcast_shapes(a.shape, b.shape)
    if bits + widths.reciprocal < 29:  # twice a factor, shifted: as fast again with fewer bits
        a, b = a.astype(np.int32), b.astype(np.int32)
    total = np.full(shape, widths.correction, a.dtype)
    for place in range(0, bits + 1, 2):
        digit = ((b << 1 >> place & 1) + (b >> place & 1)) - 2 * (b >> place + 1 & 1)
        row = (np.abs(digit) * a << place) >> cut
        complement = ~row if place < cut else -row
        # The digit of three ones is 0, and not negative.
        total += np.where(digit < 0, complement, row)
    return (total >> 2).astype(np.int64)


def _packed(
    product: Integers,
    bits: int,
    field: Integers,
    negative: Flags,
    zero: Flags,
    widths: NormaliseWidths,
) -> Integers:
    """Words of binary32, cut towards zero, from products whose upper one or two bits may be set."""
    carry = product >> bits - 1
    exponent = field + carry
    below = 24 - widths.result
    significand = product << 25 - bits - carry >> below
    hidden = 1 << widths.result - 1
    normal = (exponent - 1) * hidden + significand
    subnormal = _cut(significand, np.maximum(1 - exponent, 0))
    magnitude = np.where(exponent > 0, normal, subnormal) << below
    magnitude = np.where(exponent >= _NOT_FINITE, _NOT_FINITE << 23, magnitude)
    return np.where(zero, 0, magnitude) | negative.astype(np.int64) << 31


def _mean_value(
    mean: Integers | None, largest: Integers, widths: NormaliseWidths
) -> NDArray[np.float32]:
    """Means as numbers, cut towards zero; those of rows that are not finite are NaN."""
    if mean is None:
        mean = np.zeros_like(largest)
    magnitude = np.where(mean < 0, ~mean, mean)
    # What binary32 has no bits for goes, at the lower end because of its exponent.
    surplus = np.maximum(np.maximum(_bit_length(magnitude) - 24, widths.window - 23 - largest), 0)
    kept = (magnitude >> surplus << surplus).astype(np.float64)
    with np.errstate(over="ignore"):
        value = np.ldexp(np.where(mean < 0, -kept, kept), largest - (126 + widths.window)).astype(
            np.float32
        )
    return _or_nan(value, largest)


def _deviation_value(rows: NormRows, widths: NormaliseWidths) -> NDArray[np.float32]:
    """Reciprocal deviations as numbers: Inf for rows without a deviation, NaN for not finite."""
    exponent = np.clip(-rows.power - widths.reciprocal, -999, 999)
    value = np.ldexp(rows.reciprocal.astype(np.float64), exponent)
    with np.errstate(over="ignore"):
        value32 = np.where(rows.variance > 0, value, np.inf).astype(np.float32)
    return _or_nan(value32, rows.largest)


def _or_nan(values: NDArray[np.float32], largest: Integers) -> NDArray[np.float32]:
    return np.where(largest == _NOT_FINITE, CANONICAL_NAN.view(np.float32), values)
