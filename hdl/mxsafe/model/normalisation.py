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

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec._inputs import Numbers, require_broadcast
from mxsafe.model.accumulate import CANONICAL_NAN
from mxsafe.model.row_dot import row_dot, row_sum
from mxsafe.model.vector_arithmetic import add, multiply
from mxsafe.tables import GRADES, Grade
from mxsafe.tables.normalise import MOST_ADDENDS, MOST_VALUES, WIDTHS, NormaliseWidths
from mxsafe.validation import (
    AlikePower,
    PositiveInteger,
    checked,
    require_axis,
    require_one_of,
    shown,
)

__all__ = [
    "MOST_VALUES",
    "Gradients",
    "Normalised",
    "layer_norm",
    "layer_norm_backward",
    "normalise",
    "rms_norm",
    "rms_norm_backward",
    "window_sum",
]

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
    and of `gradient` over rows, from the first row on in order.

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
    grade: Grade = "compact",
) -> Normalised:
    """Rows with mean 0 and mean square 1, times a gain, plus a bias.

    Parameters
    ----------
    x : array_like of float32
        Values; along `axis` are rows of 1 to 8,192.
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
    if not 1 <= count <= MOST_VALUES:
        raise ValueError(f"x must have rows of 1 to {MOST_VALUES} values, not of {count}")
    require_one_of("grade", grade, GRADES)
    widths = WIDTHS[grade]
    small = _epsilon(epsilon, widths)
    significand, exponent, negative = _unpacked(_words(values))
    largest = exponent.max(axis=1, keepdims=True)
    if centre:
        mean, rows = _centred(significand, largest - exponent, negative, widths)
    else:
        mean, rows = None, _not_centred(significand, largest - exponent, negative, widths)
    variance, power = _variance(rows, largest, small, widths)
    reciprocal = _reciprocal_root(variance, widths)
    product = _product(reciprocal, rows.significand, widths.number, widths.cut, widths)
    field = largest - power - rows.place
    zero = rows.zero | (variance == 0)
    bits = _packed(product, widths.product, field, rows.negative, zero, widths)
    bits = np.where(largest == _NOT_FINITE, CANONICAL_NAN, bits.astype(np.uint32))
    result = bits.astype(np.uint32).view(np.float32)
    if gain is not None:
        result = multiply(result, _along("gain", gain, count))
    if bias is not None:
        result = add(result, _along("bias", bias, count))
    shape = (*values.shape[:-1], 1)
    return Normalised(
        np.moveaxis(result.reshape(values.shape), -1, axis),
        np.moveaxis(_mean_value(mean, largest, widths).reshape(shape), -1, axis),
        np.moveaxis(
            _deviation_value(reciprocal, power, variance, largest, widths).reshape(shape), -1, axis
        ),
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
    if not 1 <= count <= MOST_ADDENDS:
        raise ValueError(f"x must have rows of 1 to {MOST_ADDENDS} values, not of {count}")
    require_one_of("grade", grade, GRADES)
    widths = WIDTHS[grade]
    significand, exponent, negative = _unpacked(_words(values))
    largest = exponent.max(axis=1, keepdims=True)
    magnitude = significand << widths.window - 24 >> np.minimum(largest - exponent, _MOST_SHIFT)
    total = np.where(negative, -magnitude, magnitude).sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        value = np.ldexp(total.astype(np.float64), largest - (126 + widths.window)).astype(
            np.float32
        )
    return _or_nan(value, largest).reshape(values.shape[:-1])


def _words(values: NDArray[np.float32]) -> Integers:
    """Bits of numbers in rows, shape (rows, count)."""
    words = np.ascontiguousarray(values).view(np.uint32).astype(np.int64)
    return words.reshape(-1, values.shape[-1])


def _epsilon(epsilon: float, widths: NormaliseWidths) -> tuple[int, int]:
    """`epsilon` as a variance from 1 to 4, and its power of 4."""
    with np.errstate(over="ignore"):  # one too large is infinite, and refused
        word = int(np.float32(epsilon).view(np.uint32))
    if not 0 <= word >> 23 < _NOT_FINITE:
        raise ValueError(f"epsilon must be a finite number from 0, not {shown(epsilon)}")
    field = word >> 23
    if field == 0:
        return 0, _NO_POWER
    power, odd = divmod(field - 127, 2)
    return ((word & 0x7FFFFF) | 1 << 23) << odd >> 23 - widths.point, power


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
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _centred(
    significand: Integers, below: Integers, negative: Flags, widths: NormaliseWidths
) -> tuple[Integers, _Rows]:
    """Means, rounded down, of values in the window, and differences from half a unit above."""
    magnitude = significand << widths.window - 24 >> np.minimum(below, _MOST_SHIFT)
    values = np.where(negative, ~magnitude, magnitude)
    mean = values.sum(axis=1, keepdims=True) // values.shape[1]
    steps = values - mean
    halves = np.abs(2 * steps + 1)
    length = widths.window + 2
    place = length - _bit_length(halves)
    kept = halves << place >> length - widths.number
    return mean, _Rows(kept, place, steps < 0, steps == 0)


def _not_centred(
    significand: Integers, below: Integers, negative: Flags, widths: NormaliseWidths
) -> _Rows:
    """The values themselves."""
    zero = significand == 0
    zeros = np.where(zero, 0, 24 - _bit_length(significand))
    # The window's top is twice the largest binade, and differences may be twice as large again.
    kept = significand << zeros >> 24 - widths.number
    return _Rows(kept, below + zeros + 1, negative, zero)


def _variance(
    rows: _Rows, largest: Integers, small: tuple[int, int], widths: NormaliseWidths
) -> tuple[Integers, Integers]:
    """Mean squares plus `epsilon`, from 1 to 4, and their powers of 4."""
    root = rows.significand << widths.reciprocal - widths.number
    square = _product(root, rows.significand, widths.number, widths.cut, widths)
    placed = square << widths.square - widths.product >> np.minimum(2 * rows.place, _MOST_SHIFT)
    total = np.where(rows.zero, 0, placed).sum(axis=1, keepdims=True)
    count = rows.zero.shape[1]
    # The quotient's binade, exactly: a sum of less than 2^52 and a power of two times a count are
    # equal or further apart than float64 can miss.
    binade = np.frexp(total / count)[1].astype(np.int64)
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
    total = np.full(np.broadcast_shapes(a.shape, b.shape), widths.correction, np.int64)
    for place in range(0, bits + 1, 2):
        digit = ((b << 1 >> place & 1) + (b >> place & 1)) - 2 * (b >> place + 1 & 1)
        row = (np.abs(digit) * a << place) >> cut
        complement = ~row if place < cut else -row
        # The digit of three ones is 0, and not negative.
        total += np.where(digit < 0, complement, row)
    return total >> 2


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


def _deviation_value(
    reciprocal: Integers,
    power: Integers,
    variance: Integers,
    largest: Integers,
    widths: NormaliseWidths,
) -> NDArray[np.float32]:
    """Reciprocal deviations as numbers: Inf for rows without a deviation, NaN for not finite."""
    exponent = np.clip(-power - widths.reciprocal, -999, 999)
    value = np.ldexp(reciprocal.astype(np.float64), exponent)
    with np.errstate(over="ignore"):
        value32 = np.where(variance > 0, value, np.inf).astype(np.float32)
    return _or_nan(value32, largest)


def _or_nan(values: NDArray[np.float32], largest: Integers) -> NDArray[np.float32]:
    return np.where(largest == _NOT_FINITE, CANONICAL_NAN.view(np.float32), values)
