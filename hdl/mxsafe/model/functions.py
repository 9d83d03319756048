"""Functions of binary32 numbers, in integers: models of `mxsafe.rtl.vector.activation`.

Each function takes an array of float32, bfloat16 or float16 and any shape, and gives float32. No
library's exponential or the like is called: what comes out is the same everywhere, and what the
hardware computes. Every NaN that comes out is ``0x7fc00000``.

Errors have bounds over all binary32 numbers, which ``python -m studies.function_errors`` proves: in
the grade ``fine`` 2^-16, and for derivatives 2^-14; in ``compact`` 2^-10 and 2^-9. Bounds are
relative to the result, or to what a docstring says; those of derivatives are absolute. Where a
result is subnormal, it may be off by a unit of its last place more, in ``compact`` by 2^9 units.

What a table gives is computed once for all its segments and offsets (`_mantissas`, `_Pieces`), and
looked up: that makes these functions up to ten times faster than evaluating it for each number.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mxsafe import tables
from mxsafe.codec._inputs import Numbers, floats, widened
from mxsafe.model.polynomial import every_result
from mxsafe.tables import Grade, activation
from mxsafe.validation import checked

Words = NDArray[np.uint32]
Integers = NDArray[np.int32]
Floats = NDArray[np.float32]

_NAN = 0x7FC00000
_INFINITY = 0x7F800000
_ONE = 0x3F800000
_SIGN = -1 << 31
_MANTISSA_BITS, _BIAS, _TOP_FIELD = 23, 127, 255
_HIDDEN = 1 << _MANTISSA_BITS
_UNITS = _BIAS + _MANTISSA_BITS
"""Exponent field of numbers whose last place is 1."""
_SUBNORMAL_UNITS = 1 - _UNITS
"""Exponent of the last place of subnormals."""
_DTYPES = ("float32", "bfloat16", "float16")


def _words(x: Numbers) -> Words:
    """Bits of the arguments as binary32."""
    if isinstance(x, np.ndarray) and x.dtype == np.float32:  # names of dtypes take long to find
        return np.ascontiguousarray(x).reshape(x.shape).view(np.uint32)
    array = floats("x", x)
    if array.dtype.name not in _DTYPES:
        raise TypeError(f"x must have dtype {', '.join(_DTYPES)}, not {array.dtype}")
    return np.ascontiguousarray(widened(array, np.float32)).reshape(array.shape).view(np.uint32)


def _magnitudes(words: Words) -> Integers:
    """The words without their sign: exponent field and mantissa."""
    return (words & np.uint32(0x7FFFFFFF)).view(np.int32)


def _signs(words: Words) -> Integers:
    """-1 where the sign is set, else 0."""
    return words.view(np.int32) >> 31


def _shared(values: Integers) -> Integers | np.int32:
    """The value, if all are the same, as of numbers beside one another: the rest is faster then."""
    if values.size and values.min() == values.max():
        return np.int32(values.flat[0])
    return values


def _is_nan(words: Words) -> NDArray[np.bool_]:
    return (words & np.uint32(0x7FFFFFFF)) > np.uint32(_INFINITY)


def _floats(result: Integers, words: Words) -> Floats:
    """Results as numbers, and NaN where the argument is."""
    nan = _is_nan(words)
    return (np.where(nan, np.int32(_NAN), result) if nan.any() else result).view(np.float32)


def _flushed(result: Integers) -> Integers:
    """Words without a sign, or 0 where they are those of subnormals, or below 0."""
    return result & (_HIDDEN - 1 - result >> 31)


@checked
def relu(x: Numbers, grade: Grade = "compact") -> Floats:
    """The argument, or +0 where its sign is set; a NaN of either sign keeps its bits.

    It is the same in each `grade`.

    Raises
    ------
    TypeError
        If `x` is of another dtype than float32, bfloat16 and float16.
    """
    words = _words(x)
    cleared = (words >> np.uint32(31) == 1) & ~_is_nan(words)
    return np.where(cleared, np.uint32(0), words).view(np.float32)


@checked
def relu_derivative(x: Numbers, grade: Grade = "compact") -> Floats:
    """1 for arguments above 0, else +0, in each `grade`."""
    words = _words(x)
    above = (words > 0) & (words <= np.uint32(_INFINITY))
    return _floats(np.where(above, np.int32(_ONE), np.int32(0)), words)


@dataclass(frozen=True)
class _Pieces:
    """One of `mxsafe.tables.activation.FUNCTIONS`, by what tells its segments apart.

    That is sign, exponent field and the highest bits of the mantissa: the *key* of an argument. An
    array has an entry for each. The sum of base and polynomial is in units of ``2^-23``.

    Attributes
    ----------
    polynomial : ndarray of int32
        A 0, and results of the segments at all offsets.
    first : ndarray of int32
        Where in `polynomial` the segment starts; 0 without a segment.
    offset : ndarray of int32
        Mask of the mantissa's bits of which the offset is made.
    cut : ndarray of int32
        How many of these bits, the lowest, are not part of it.
    sign : ndarray of int32
        What the polynomial is multiplied by: 1, or -1.
    mantissa, hidden : ndarray of int32
        Mask of the mantissa's bits in the base, and what is added to them.
    kept : int
        Mask of the base's bits that are not cut off.
    halved : ndarray of int32
        1 where the base is half of that.
    lift : ndarray of int32
        What is added to the exponent field of the sum as a number.
    plain : ndarray of int32
        The largest size of a sum which is the word of the result as it stands: that of 0, or all
        where it counts in units of subnormals.
    """

    polynomial: Integers
    first: Integers
    offset: Integers
    cut: Integers
    sign: Integers
    mantissa: Integers
    hidden: Integers
    halved: Integers
    lift: Integers
    plain: Integers
    kept: int = -1


_KEY_CUT = _MANTISSA_BITS - activation.DEPTH


@functools.cache
def _pieces(name: str, grade: Grade) -> _Pieces:
    table, function = tables.load(f"activation_{grade}"), activation.FUNCTIONS[name]
    numbers = [number for number, place in enumerate(table.places) if place.function == name]
    places = {(p.exponent, p.depth, p.index): p for p in (table.places[n] for n in numbers)}
    order = {key: number for number, key in enumerate(places)}
    rows = []
    for key in range(1 << (32 - _KEY_CUT)):
        side, field = key >> (8 + activation.DEPTH), key >> activation.DEPTH & _TOP_FIELD
        form = activation.FORMS[function.large if field >= _BIAS else function.small]
        first, offset, cut = 0, 0, 0
        for depth in range(activation.DEPTH + 1):
            index = (key & ((1 << activation.DEPTH) - 1)) >> (activation.DEPTH - depth)
            place = places.get((field - _BIAS, depth, index))
            if place is not None:
                form = activation.FORMS[place.form]
                first = 1 + (order[field - _BIAS, depth, index] << table.offset_bits)
                offset = (_HIDDEN >> depth) - 1
                cut = _MANTISSA_BITS - depth - table.offset_bits
        base = form.base[side]
        used = 0 if form.absolute or base == 0 else _HIDDEN - 1
        hidden = _HIDDEN if base > 0 and (form.absolute or field > 0) else 0
        weight = _BIAS if form.absolute else field
        lift = (weight - _UNITS) * _HIDDEN
        plain = 0 if weight > 1 else 2 * _HIDDEN
        sign = -1 if form.subtract[side] else 1
        rows.append((first, offset, cut, sign, used, hidden, int(base == 1), lift, plain))
    results = every_result(table.only(numbers)).ravel() << (_MANTISSA_BITS - table.fraction_bits)
    kept = -1 << _MANTISSA_BITS - activation.BASE_BITS[grade]
    columns = np.array(rows, np.int32).T.copy()
    return replace(_Pieces(np.append(np.int32(0), results), *columns), kept=kept)


def _from_table(name: str, x: Numbers, grade: Grade) -> Floats:
    """One of `mxsafe.tables.activation.FUNCTIONS`."""
    words = _words(x)
    p = _pieces(name, grade)
    key = _shared((words >> np.uint32(_KEY_CUT)).view(np.int32))
    signed = words.view(np.int32)
    total = ((signed & p.mantissa[key]) + p.hidden[key]) >> p.halved[key] & p.kept
    offset = p.offset[key]
    if offset.any():
        at = p.first[key] + ((signed & offset) >> p.cut[key])
        total = total + p.polynomial.take(at) * p.sign[key]
    # A negative sum loses a unit of its last place: its bits are inverted.
    size = (total ^ (total >> 31)) & p.kept
    # Whole numbers of up to 24 bits are exact, and normalised.
    result = size.astype(np.float32).view(np.int32) + p.lift[key]
    plain = size <= p.plain[key]
    if plain.any():
        result = np.where(plain, size, result)
    result |= (signed if activation.FUNCTIONS[name].odd else total) & np.int32(_SIGN)
    return _floats(result, words)


@checked
def gelu(x: Numbers, grade: Grade = "compact") -> Floats:
    """``x * Phi(x)``, Phi the normal distribution; errors below 0 are relative to ``abs(x)``.

    The sign is that of the argument, and subnormal results are cut.
    """
    return _from_table("gelu", x, grade)


@checked
def silu(x: Numbers, grade: Grade = "compact") -> Floats:
    """``x / (1 + exp(-x))``; errors below 0 are relative to ``abs(x)``."""
    return _from_table("silu", x, grade)


@checked
def tanh(x: Numbers, grade: Grade = "compact") -> Floats:
    """Hyperbolic tangent: odd, and of size 1 at most."""
    return _from_table("tanh", x, grade)


@checked
def gelu_derivative(x: Numbers, grade: Grade = "compact") -> Floats:
    """Derivative of `gelu`; its error is absolute."""
    return _from_table("gelu_derivative", x, grade)


@checked
def silu_derivative(x: Numbers, grade: Grade = "compact") -> Floats:
    """Derivative of `silu`; its error is absolute."""
    return _from_table("silu_derivative", x, grade)


@checked
def tanh_derivative(x: Numbers, grade: Grade = "compact") -> Floats:
    """Derivative of `tanh`; its error is absolute."""
    return _from_table("tanh_derivative", x, grade)


@functools.cache
def _mantissas(name: str, grade: Grade) -> Integers:
    """Results of a table by index and offset, as what the mantissa is above 1, in its units.

    Those of `reciprocal` and `rsqrt`, which are below 1, are taken twice; where the exact result is
    1, they are 1: so the mantissa is above by the hidden bit. Powers of two have exact results.
    """
    table = tables.load(f"{name}_{grade}")
    results = every_result(table).ravel()
    if name == "exp2":
        result = (results << (_MANTISSA_BITS - table.fraction_bits)) - _HIDDEN
        result[0] = 0
    else:
        result = (results << (_MANTISSA_BITS + 1 - table.fraction_bits)) - _HIDDEN
        result[0] = _HIDDEN
    return result


def _power_of_e(magnitude: Integers, signs: Integers, grade: Grade) -> tuple[Integers, Integers]:
    """``e^x``: exponent, and the mantissa. From 128 on x is some number from 128 to 256.

    Parameters
    ----------
    magnitude : ndarray of int32
        The words of x without their sign.
    signs : ndarray of int32
        -1 where x is below 0, else 0.
    grade : {"compact", "fine"}
    """
    table, widths = tables.load(f"exp2_{grade}"), activation.POWERS[grade]
    fraction_bits = table.index_bits + table.offset_bits
    # Below 2^-20, x counts as 0.
    exponent = np.minimum(np.maximum(magnitude >> _MANTISSA_BITS, _BIAS - 21), _BIAS + 7)
    dropped = _MANTISSA_BITS - widths.argument_bits
    fields = _BIAS - exponent - dropped
    cut = _shared(_MANTISSA_BITS + widths.log2_e_bits - fraction_bits + fields)
    significand = (magnitude & (_HIDDEN - 1) | _HIDDEN) >> dropped
    size = significand.astype(np.int64) * widths.log2_e >> cut
    power = (size.astype(np.int32) ^ signs) - signs
    fraction = power & ((1 << fraction_bits) - 1)
    return power >> fraction_bits, _mantissas("exp2", grade).take(fraction)


@checked
def exp(x: Numbers, grade: Grade = "compact") -> Floats:
    """``e^x``; +0 below 2^-126. It never falls."""
    words = _words(x)
    exponent, mantissa = _power_of_e(_magnitudes(words), _signs(words), grade)
    field = np.minimum(np.maximum(exponent + _BIAS, 0), _TOP_FIELD)
    mantissa = mantissa & np.int32(-1 << _MANTISSA_BITS - activation.BASE_BITS[grade])
    result = np.minimum((field << _MANTISSA_BITS) + mantissa, _INFINITY)
    return _floats(_flushed(result), words)


def _reciprocal(fraction: Integers, grade: Grade) -> Integers:
    """``1 / s`` of a significand with 23 bits below 1: the mantissa of twice that."""
    table = tables.load(f"reciprocal_{grade}")
    cut = _MANTISSA_BITS - table.index_bits - table.offset_bits
    return _mantissas("reciprocal", grade).take(fraction >> cut)


@checked
def reciprocal(x: Numbers, grade: Grade = "compact") -> Floats:
    """``1 / x``; of size 0 below 2^-126. Powers of two are exact."""
    words = _words(x)
    size = _magnitudes(words)
    subnormal = size < _HIDDEN
    normal = size
    if subnormal.any():
        # The two upper binades of subnormals have a finite result.
        zeros = np.where(size >> (_MANTISSA_BITS - 1) == 1, 1, 2).astype(np.int32)
        shifted = (size << zeros & (_HIDDEN - 1)) + (1 - zeros) * _HIDDEN
        normal = np.where(subnormal, shifted, size)
    field = 2 * _BIAS - 1 - (normal >> _MANTISSA_BITS)
    result = (field << _MANTISSA_BITS) + _reciprocal(normal & (_HIDDEN - 1), grade)
    result = _flushed(result)
    if subnormal.any():
        result = np.where(size < _HIDDEN >> 2, np.int32(_INFINITY), result)
    return _floats(result | words.view(np.int32) & np.int32(_SIGN), words)


@functools.cache
def _roots(grade: Grade) -> Integers:
    """`_mantissas` of `rsqrt`, by the last bit of the exponent field and then by the mantissa."""
    return np.concatenate(np.split(_mantissas("rsqrt", grade), 2)[::-1])


@checked
def rsqrt(x: Numbers, grade: Grade = "compact") -> Floats:
    """``1 / sqrt(x)``; NaN below 0, and Inf of its sign of a zero.

    Powers of four are exact.
    """
    words = _words(x)
    size = _magnitudes(words)
    table = tables.load(f"rsqrt_{grade}")
    normal = size
    subnormal = size < _HIDDEN
    if subnormal.any():
        shifted = size.astype(np.float32).view(np.int32) + _SUBNORMAL_UNITS * _HIDDEN
        normal = np.where(subnormal, shifted, size)
    bits = table.index_bits + table.offset_bits
    kept = normal >> (_MANTISSA_BITS + 1 - bits) & ((1 << bits) - 1)
    half = (normal >> _MANTISSA_BITS) - _BIAS >> 1
    result = (_BIAS - 1 - half << _MANTISSA_BITS) + _roots(grade).take(kept)
    signs = words.view(np.int32) & np.int32(_SIGN)
    special = (signs < 0) | (size == _INFINITY) | (size == 0)
    if special.any():
        other = np.where(signs < 0, np.int32(_NAN), np.int32(0))
        other = np.where(size == 0, signs | np.int32(_INFINITY), other)
        result = np.where(special, other, result)
    return _floats(result, words)


@checked
def sigmoid(x: Numbers, grade: Grade = "compact") -> Floats:
    """``1 / (1 + e^-x)``, from 0 to 1; subnormal results are cut."""
    words = _words(x)
    exponent, mantissa = _power_of_e(_magnitudes(words), ~_signs(words), grade)
    power = mantissa + _HIDDEN
    # 1 + e^-x, with the larger of both as it is.
    of_one = np.minimum(np.maximum(exponent, 0), _MANTISSA_BITS + 1)
    of_power = np.minimum(np.maximum(-exponent, 0), _MANTISSA_BITS + 1)
    kept = np.int32(-1 << _MANTISSA_BITS - activation.POWERS[grade].sum_bits)
    total = (np.int32(_HIDDEN) >> of_one & kept) + (power >> of_power & kept)
    carry = total >> (_MANTISSA_BITS + 1)
    exponent = np.maximum(exponent, 0) + carry
    inverse = _reciprocal((total >> carry) - _HIDDEN, grade)
    result = (_BIAS - 1 - exponent << _MANTISSA_BITS) + inverse
    subnormal = result < _HIDDEN
    if subnormal.any():
        lost = np.clip(1 - (result >> _MANTISSA_BITS), 0, _MANTISSA_BITS + 1)
        cut = (result & (_HIDDEN - 1) | _HIDDEN) >> lost & kept
        result = np.where(subnormal, cut, result)
    return _floats(result, words)


FUNCTIONS: Mapping[str, Callable[..., Floats]] = MappingProxyType(
    {
        "relu": relu,
        "gelu": gelu,
        "silu": silu,
        "tanh": tanh,
        "exp": exp,
        "sigmoid": sigmoid,
        "reciprocal": reciprocal,
        "rsqrt": rsqrt,
        "relu_derivative": relu_derivative,
        "gelu_derivative": gelu_derivative,
        "silu_derivative": silu_derivative,
        "tanh_derivative": tanh_derivative,
    }
)
"""By name; each takes numbers and a grade."""
