"""Model of layer and RMS normalisation (hardware: `mxsafe.rtl.vector.normalise`).

Everything but the addition of a bias is done in integers, and sums are exact: results do not depend
on how a row lies in lanes and beats, nor on the order of its values.

The values of a row are cut to a fixed-point *window*, 26 bits and a sign, whose unit is
``q = 2^(E - 25)`` where ``2^E`` is the binade of the largest. The mean is rounded down to units,
and differences are taken from half a unit above it: a one's complement is their exact magnitude.
Where a value is in the same unit as the mean, the difference is 0. Without centring nothing is cut.
From there on numbers have a significand and an exponent: differences 17 bits, their squares 19,
which are added up in fixed point, the reciprocal standard deviation 18, results 19, or 21 with a
gain.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec._inputs import Numbers, require_broadcast
from mxsafe.model.accumulate import CANONICAL_NAN, canonical
from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.model.vector_arithmetic import add, multiply
from mxsafe.validation import AlikePower, PositiveInteger, checked, require_axis, shown

__all__ = [
    "MOST_VALUES",
    "Gradients",
    "Normalised",
    "layer_norm",
    "layer_norm_backward",
    "normalise",
    "rms_norm",
    "rms_norm_backward",
]

MOST_VALUES = 8192
"""Values of the longest row."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NOT_FINITE = 255
"""Exponent field of Inf and NaN."""
_WINDOW_BITS = 26
"""Bits of a value in the window of its row, whose top is twice the binade of the largest value."""
_NUMBER_BITS = 17
"""Bits of the significand of a difference, of which the first is set."""
_RECIPROCAL_BITS = 18
"""Bits of the significand of a reciprocal deviation."""
_GAIN_BITS = 19
"""Bits of the significand of a gain, below which it is cut."""
_CUT = 14
"""Bits of products that are not added up."""
_SQUARE_BITS = 38
"""Squares are cut to this many bits below the square of twice the window's top."""
_POINT = 18
"""Bits of a variance below the point; above it are one or two."""
_CORRECTION = 5
"""Correction of that, and of half of the two bits that go next."""
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


class Gradients(NamedTuple):
    """Gradients of a loss.

    Attributes
    ----------
    x : ndarray of float32
        Of the shape of the values.
    gain, bias : ndarray of float32, shape (count,)
    """

    x: NDArray[np.float32]
    gain: NDArray[np.float32]
    bias: NDArray[np.float32]


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
) -> NDArray[np.float32]:
    """``(x - mean) / sqrt(variance + epsilon) * gain + bias``: the result of `normalise`."""
    return normalise(x, gain, bias, epsilon, axis=axis).result


@checked
def rms_norm(
    x: Numbers,
    gain: Numbers | None = None,
    epsilon: float = 1e-5,
    axis: int = -1,
) -> NDArray[np.float32]:
    """``x / sqrt(mean of x**2 + epsilon) * gain``: the result of `normalise`, not centred."""
    return normalise(x, gain, None, epsilon, axis=axis, centre=False).result


@checked
def layer_norm_backward(
    gradient: Numbers,
    x: Numbers,
    gain: Numbers,
    mean: Numbers,
    reciprocal_deviation: Numbers,
    axis: int = -1,
    *,
    count: PositiveInteger | None = None,
    lanes: AlikePower = 16,
    partials: AlikePower = 2,
) -> Gradients:
    """Gradients with respect to what went into a layer normalisation.

    Each step is one operation of IEEE 754 binary32, rounded to nearest even. With
    ``h = gradient * gain``, ``d = x - mean`` and ``s = 1 / count``, rounded to binary32, the
    gradient of `x` is ``((h - d * k) - sum(h) * s) * r`` where
    ``k = ((sum(h * d) * s) * r) * r``. Along a row the order of sums is that of
    `mxsafe.model.row_dot.row_sum`. Gradients of gain and bias are sums of ``gradient * (d * r)``
    and of `gradient` over rows, from the first row on in order. Hardware:
    `mxsafe.rtl.vector.normalise_backward`.

    Parameters
    ----------
    gradient, x : array_like of float32
        The gradient of the results, and the values.
    gain : array_like of float32, shape (count,)
    mean, reciprocal_deviation : array_like of float32
        What `normalise` gave, the axis of length 1.
    axis : int
    count : int, optional
        What a mean is divided by, by default the number of values in a row; another one where there
        are more, with gradients of 0.
    lanes, partials : int
        Order of sums along rows.

    Returns
    -------
    Gradients
        Every NaN is ``0x7fc00000``.

    Raises
    ------
    ValueError
        If `lanes` or `partials` is not a power of two.

    Notes
    -----
    Sums of n numbers are rounded at most ``n / (lanes * partials) + log2(lanes * partials) + 2``
    times on the way of each, the rest at most twelve times. So with the given mean and r, the
    gradient of `x` is within ``2^-24 * (n / (lanes * partials) + log2(lanes * partials) + 14.1)``
    of ``r * (abs(h) + mean of abs(h) + abs(d) * mean of abs(h * d) * r^2)``, as long as nothing is
    subnormal or overflows.
    """
    order = {"lanes": lanes, "partials": partials}
    factors = reciprocal_deviation, count
    return _backward(gradient, x, gain, mean, factors, axis, order)


@checked
def rms_norm_backward(
    gradient: Numbers,
    x: Numbers,
    gain: Numbers,
    reciprocal_deviation: Numbers,
    axis: int = -1,
    *,
    count: PositiveInteger | None = None,
    lanes: AlikePower = 16,
    partials: AlikePower = 2,
) -> Gradients:
    """The same for RMS normalisation, where d is x and no mean of h is subtracted."""
    order = {"lanes": lanes, "partials": partials}
    factors = reciprocal_deviation, count
    return _backward(gradient, x, gain, None, factors, axis, order)


def _backward(
    gradient: Numbers,
    x: Numbers,
    gain: Numbers,
    mean: Numbers | None,
    factors: tuple[ArrayLike, int | None],
    axis: int,
    order: Mapping[str, int],
) -> Gradients:
    if np.shape(gradient) != np.shape(x) or not np.size(x):
        raise ValueError(
            f"gradient must have the shape {np.shape(x)} of x, and elements, "
            f"not {np.shape(gradient)}"
        )
    require_broadcast(x=x, reciprocal_deviation=factors[0], mean=0 if mean is None else mean)
    count = np.shape(x)[require_axis(axis, np.ndim(x))]
    _along("gain", gain, count)
    differences, slopes, factor = (
        np.moveaxis(_binary32(each), axis, -1) for each in (x, gradient, factors[0])
    )
    length = differences.shape[-1]
    share = np.float32(1 / (length if factors[1] is None else factors[1]))
    if mean is not None:
        differences = add(differences, -np.moveaxis(_binary32(mean), axis, -1))
    inner = multiply(slopes, _binary32(gain))
    along = multiply(row_dot(inner, differences, **order)[..., None], share)
    along = multiply(multiply(along, factor), factor)
    change = add(inner, multiply(differences, -along))
    if mean is not None:
        change = add(change, -multiply(row_sum(inner, **order)[..., None], share))
    rows = slopes.reshape(-1, length)
    gains = multiply(rows, multiply(differences, factor).reshape(-1, length))
    return Gradients(
        np.moveaxis(multiply(change, factor), -1, axis), _over_rows(gains), _over_rows(rows)
    )


def _over_rows(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of columns in binary32, one row after the other."""
    total = numbers[0]
    for row in numbers[1:]:
        total = add(total, row)
    return add(total, np.float32(-0.0))


@checked
def normalise(
    x: Numbers,
    gain: Numbers | None = None,
    bias: Numbers | None = None,
    epsilon: float = 1e-5,
    *,
    axis: int = -1,
    centre: bool = True,
) -> Normalised:
    """Rows with mean 0 and mean square 1, times a gain, plus a bias.

    Parameters
    ----------
    x : array_like of float32
        Values; along `axis` are rows of 1 to 8,192.
    gain, bias : array_like of float32, optional
        One number for each place in a row. A subnormal gain counts as 0.
    epsilon : float
        Added to the variance, or mean square; from 0, rounded to float32. A subnormal counts as 0.
    axis : int
    centre : bool
        Whether the mean is subtracted (layer normalisation) or not (RMS normalisation, whose `mean`
        is 0).

    Returns
    -------
    Normalised
        A NaN or Inf in a row makes all of it NaN, and a constant row (with any `epsilon`) is the
        bias, or +0. Without a deviation or `epsilon` results are 0 too, and the reciprocal is Inf.

    Raises
    ------
    ValueError
        If a row has too many values or none, gain or bias does not fit it, or `epsilon` is negative
        or not finite.

    Notes
    -----
    If the mean is below 256 standard deviations s, the error of a result is less than
    ``2^-14.1 * Y * abs(gain)``, where Y is the row's largest normalised value, plus ``2^-149``,
    plus the one rounding of the sum with the bias; in a row of nothing but subnormals the unit of
    the window, ``2^-151``, can be more than that. In units of ``u = 2^-18`` of Y, results are too
    small or too large by up to:

    ==================================================================== ========= =========
    window and mean, see below                                             1.8       1.8
    significands of differences, cut by up to 4, in results and in s       4         4
    product: 7 rows cut by up to u/2, made up for by 2.5, rounded to 2     3         2.5
    the same in squares, and half of that in s                             1.3       1.5
    squares cut at ``2^-38`` where s is at least ``2^-10.4`` of range      0         1
    variance, `epsilon` and their sum cut to 19 bits, half of that in s    0         1.5
    reciprocal of 18 bits, rounded up                                      0         2
    a gain of 19 bits, a significand of 18 bits, a product cut by u/8      2.8       0.6
    sum                                                                   12.9      14.9
    ==================================================================== ========= =========

    and ``2^-14.1`` is 14.93. Let M be the largest difference: s <= M <= 90.5 s, because a value is
    no further away than ``sqrt(8191) s``. If the mean is above 4 M, all values are in two binades
    and therefore exact, and the half unit in the mean is ``q/2 <= 2^-26 * 257 M``: 1. If not,
    values are cut by up to a unit, which moves s by ``q/2 <= 2^-26 * 5 * 90.5 s`` at most: 1.8, and
    results by ``q <= 2^-25 * 5 M`` at most, 0.04, which is no more than the other terms have left.
    """
    array = _binary32(x)
    values = np.moveaxis(array, require_axis(axis, array.ndim), -1)
    count = values.shape[-1]
    if not 1 <= count <= MOST_VALUES:
        raise ValueError(f"x must have rows of 1 to {MOST_VALUES} values, not of {count}")
    small = _epsilon(epsilon)
    words = np.ascontiguousarray(values).view(np.uint32).astype(np.int64).reshape(-1, count)
    significand, exponent, negative = _unpacked(words)
    largest = exponent.max(axis=1, keepdims=True)
    if centre:
        mean, rows = _centred(significand, largest - exponent, negative)
    else:
        mean, rows = None, _not_centred(significand, largest - exponent, negative)
    variance, power = _variance(rows, largest, small)
    reciprocal = _reciprocal_root(variance)
    product = _product(reciprocal, rows.significand, _NUMBER_BITS) >> 2
    field = largest - power - rows.place
    zero = rows.zero | (variance == 0)
    if gain is None:
        bits = _packed(product, 19, field, rows.negative, zero)
    else:
        bits = _gained(product, field, rows.negative, zero, _along("gain", gain, count))
    bits = np.where(largest == _NOT_FINITE, CANONICAL_NAN, bits.astype(np.uint32))
    result = bits.astype(np.uint32).view(np.float32)
    if bias is not None:
        addends = _along("bias", bias, count).astype(np.uint32).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            result = canonical(result + addends)
    shape = (*values.shape[:-1], 1)
    return Normalised(
        np.moveaxis(result.reshape(values.shape), -1, axis),
        np.moveaxis(_mean_value(mean, largest).reshape(shape), -1, axis),
        np.moveaxis(
            _deviation_value(reciprocal, power, variance, largest).reshape(shape), -1, axis
        ),
    )


def _epsilon(epsilon: float) -> tuple[int, int]:
    """`epsilon` as a variance from 1 to 4, in units of ``2^-18``, and its power of 4."""
    with np.errstate(over="ignore"):  # one too large is infinite, and refused
        word = int(np.float32(epsilon).view(np.uint32))
    if not 0 <= word >> 23 < _NOT_FINITE:
        raise ValueError(f"epsilon must be a finite number from 0, not {shown(epsilon)}")
    field = word >> 23
    if field == 0:
        return 0, _NO_POWER
    power, odd = divmod(field - 127, 2)
    return ((word & 0x7FFFFF) | 1 << 23) << odd >> 23 - _POINT, power


def _binary32(numbers: Numbers) -> NDArray[np.float32]:
    """Numbers in binary32, where those beyond it are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float32)


def _along(name: str, numbers: Numbers, count: int) -> Integers:
    """Bits of numbers that all rows share."""
    array = _binary32(numbers)
    if array.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), not {array.shape}")
    return np.ascontiguousarray(array).view(np.uint32).astype(np.int64)


def _unpacked(words: Integers) -> tuple[Integers, Integers, Flags]:
    """Significand of 24 bits, exponent field (1 for subnormals too) and sign (none of zeros)."""
    field, mantissa = words >> 23 & 0xFF, words & 0x7FFFFF
    significand = np.where(field > 0, mantissa | 1 << 23, mantissa)
    return significand, np.maximum(field, 1), (words >> 31 > 0) & (significand > 0)


def _bit_length(numbers: Integers) -> Integers:
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _centred(significand: Integers, below: Integers, negative: Flags) -> tuple[Integers, _Rows]:
    """Means, rounded down, of values in the window, and differences from half a unit above."""
    magnitude = significand << _WINDOW_BITS - 24 >> np.minimum(below, _MOST_SHIFT)
    values = np.where(negative, ~magnitude, magnitude)
    mean = values.sum(axis=1, keepdims=True) // values.shape[1]
    steps = values - mean
    halves = np.abs(2 * steps + 1)
    length = _WINDOW_BITS + 2
    place = length - _bit_length(halves)
    return mean, _Rows(halves << place >> length - _NUMBER_BITS, place, steps < 0, steps == 0)


def _not_centred(significand: Integers, below: Integers, negative: Flags) -> _Rows:
    """The values themselves."""
    zero = significand == 0
    zeros = np.where(zero, 0, 24 - _bit_length(significand))
    # The window's top is twice the largest binade, and differences may be twice as large again.
    return _Rows(significand << zeros >> 24 - _NUMBER_BITS, below + zeros + 1, negative, zero)


def _variance(rows: _Rows, largest: Integers, small: tuple[int, int]) -> tuple[Integers, Integers]:
    """Mean squares plus `epsilon`, from 1 to 4 in units of ``2^-18``, and their powers of 4."""
    square = _product(rows.significand << 1, rows.significand, _NUMBER_BITS) >> 2
    placed = square << _SQUARE_BITS - 19 >> np.minimum(2 * rows.place, _MOST_SHIFT)
    total = np.where(rows.zero, 0, placed).sum(axis=1, keepdims=True)
    count = rows.zero.shape[1]
    # The quotient's binade, exactly: a sum of less than 2^52 and a power of two times a count are
    # equal or further apart than float64 can miss.
    binade = np.frexp(total / count)[1].astype(np.int64)
    steps = -((binade - _POINT - 1) // 2)
    up, down = np.maximum(2 * steps, 0), np.maximum(-2 * steps, 0)
    mean = (np.where(total > 0, total, 0) << np.where(total > 0, up, 0)) // (count << down)
    power = np.where(total > 0, largest - 135 - steps, _NO_POWER)
    top = np.maximum(power, small[1])
    added = _cut(mean, 2 * (top - power)) + _cut(np.int64(small[0]), 2 * (top - small[1]))
    carry = added >> _POINT + 2
    return np.where(carry, added >> 2, added), top + carry


def _cut(number: Integers | np.int64, shift: Integers) -> Integers:
    return number >> np.minimum(shift, _MOST_SHIFT)


def _reciprocal_root(variance: Integers) -> Integers:
    """``2^18 / sqrt(v)`` of variances from 1 to 4 in units of ``2^-18``, rounded up."""
    quotient = ((1 << 3 * _RECIPROCAL_BITS) - 1) // np.maximum(variance, 1)
    root = np.zeros_like(quotient)
    for bit in reversed(range(_RECIPROCAL_BITS)):
        larger = root | 1 << bit
        root = np.where(larger * larger <= quotient, larger, root)
    return np.minimum(root + 1, (1 << _RECIPROCAL_BITS) - 1)


def _product(a: Integers, b: Integers, bits: int) -> Integers:
    """``a * b >> 14``, from rows for digits of `b` from -2 to 2, each cut by itself.

    A negative row is the one's complement of the cut magnitude. What that loses, and half of four
    units that callers cut off, is made up for on average.
    """
    total = np.full(np.broadcast_shapes(a.shape, b.shape), _CORRECTION, np.int64)
    for place in range(0, bits + 1, 2):
        digit = ((b << 1 >> place & 1) + (b >> place & 1)) - 2 * (b >> place + 1 & 1)
        row = (np.abs(digit) * a << place) >> _CUT
        complement = ~row if place < _CUT else -row
        # The digit of three ones is 0, and not negative.
        total += np.where(digit < 0, complement, row)
    return total


def _packed(
    product: Integers, bits: int, field: Integers, negative: Flags, zero: Flags
) -> Integers:
    """Words of binary32, cut towards zero, from products whose upper one or two bits may be set."""
    carry = product >> bits - 1
    exponent = field + carry
    significand = product << 25 - bits - carry
    normal = (exponent << 23) + significand - (1 << 23)
    subnormal = _cut(significand, np.maximum(1 - exponent, 0))
    magnitude = np.where(exponent > 0, normal, subnormal)
    magnitude = np.where(exponent >= _NOT_FINITE, _NOT_FINITE << 23, magnitude)
    return np.where(zero, 0, magnitude) | negative.astype(np.int64) << 31


def _gained(
    product: Integers, field: Integers, negative: Flags, zero: Flags, gain: Integers
) -> Integers:
    """Words of results times gains; a subnormal gain counts as 0."""
    carry = product >> 18
    gain_field, mantissa = gain >> 23 & 0xFF, gain & 0x7FFFFF
    factor = (mantissa | 1 << 23) >> 24 - _GAIN_BITS
    scaled = _product(product >> carry, factor, _GAIN_BITS) >> 2
    exponent = field + carry + gain_field - 127
    sign = negative ^ (gain >> 31 > 0)
    words = _packed(scaled, 21, exponent, sign, zero | (gain_field == 0))
    infinite = _NOT_FINITE << 23 | sign.astype(np.int64) << 31
    special = np.where(zero | (mantissa > 0), np.int64(CANONICAL_NAN), infinite)
    return np.where(gain_field == _NOT_FINITE, special, words)


def _mean_value(mean: Integers | None, largest: Integers) -> NDArray[np.float32]:
    """Means as numbers, cut towards zero; those of rows that are not finite are NaN."""
    if mean is None:
        mean = np.zeros_like(largest)
    magnitude = np.where(mean < 0, ~mean, mean)
    # What binary32 has no bits for goes, at the lower end because of its exponent.
    surplus = np.maximum(np.maximum(_bit_length(magnitude) - 24, 3 - largest), 0)
    kept = (magnitude >> surplus << surplus).astype(np.float64)
    with np.errstate(over="ignore"):
        value = np.ldexp(np.where(mean < 0, -kept, kept), largest - 152).astype(np.float32)
    return _or_nan(value, largest)


def _deviation_value(
    reciprocal: Integers, power: Integers, variance: Integers, largest: Integers
) -> NDArray[np.float32]:
    """Reciprocal deviations as numbers: Inf for rows without a deviation, NaN for not finite."""
    value = np.ldexp(reciprocal.astype(np.float64), np.clip(-power - _RECIPROCAL_BITS, -999, 999))
    with np.errstate(over="ignore"):
        value32 = np.where(variance > 0, value, np.inf).astype(np.float32)
    return _or_nan(value32, largest)


def _or_nan(values: NDArray[np.float32], largest: Integers) -> NDArray[np.float32]:
    return np.where(largest == _NOT_FINITE, CANONICAL_NAN.view(np.float32), values)
