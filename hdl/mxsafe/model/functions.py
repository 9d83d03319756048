"""Functions of binary32 numbers, in integers: models of `mxsafe.rtl.vector.activation`.

Each function takes an array of float32, bfloat16 or float16 and any shape, and gives float32. No
library's exponential or the like is called: what comes out is the same everywhere, and what the
hardware computes. Every NaN that comes out is ``0x7fc00000``. Largest errors over all binary32
numbers are in the docstrings; ``python -m studies.function_errors`` measures them.
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe import tables
from mxsafe.codec._inputs import floats, widened
from mxsafe.model.polynomial import evaluate
from mxsafe.tables import activation

__all__ = [
    "FUNCTIONS",
    "exp",
    "gelu",
    "gelu_derivative",
    "reciprocal",
    "relu",
    "relu_derivative",
    "rsqrt",
    "sigmoid",
    "silu",
    "silu_derivative",
    "tanh",
    "tanh_derivative",
]

Words = NDArray[np.uint32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float32]

_NAN = 0x7FC00000
_INFINITY = 0x7F800000
_ONE = 0x3F800000
_SIGN = 1 << 31
_MANTISSA_BITS, _BIAS, _TOP_FIELD = 23, 127, 255
_HIDDEN = 1 << _MANTISSA_BITS
_DTYPES = ("float32", "bfloat16", "float16")
_LOG2_E = 96817625
"""log2(e) in units of 2^-26."""
_LOG2_E_BITS = 26


def _words(x: ArrayLike) -> Words:
    """Bits of the arguments as binary32."""
    array = floats("x", x)
    if array.dtype.name not in _DTYPES:
        raise TypeError(f"x must have dtype {', '.join(_DTYPES)}, not {array.dtype}")
    return np.ascontiguousarray(widened(array, np.float32)).reshape(array.shape).view(np.uint32)


def _floats(words: Integers) -> Floats:
    return words.astype(np.uint32).view(np.float32)


def _split(words: Words) -> tuple[NDArray[np.bool_], Integers, Integers]:
    """Whether the sign is set, the exponent field and the mantissa."""
    wide = words.astype(np.int64)
    return wide >> 31 == 1, wide >> _MANTISSA_BITS & _TOP_FIELD, wide & (_HIDDEN - 1)


def _is_nan(words: Words) -> NDArray[np.bool_]:
    return (words & np.uint32(_SIGN - 1)) > np.uint32(_INFINITY)


def relu(x: ArrayLike) -> Floats:
    """The argument, or +0 where its sign is set; a NaN of either sign keeps its bits.

    Raises
    ------
    TypeError
        If `x` is of another dtype than float32, bfloat16 and float16.
    """
    words = _words(x)
    cleared = (words >> np.uint32(31) == 1) & ~_is_nan(words)
    return np.where(cleared, np.uint32(0), words).view(np.float32)


def relu_derivative(x: ArrayLike) -> Floats:
    """1 for arguments above 0, else +0."""
    words = _words(x)
    above = (words > 0) & (words <= np.uint32(_INFINITY))
    result = np.where(above, np.uint32(_ONE), np.uint32(0))
    return np.where(_is_nan(words), np.uint32(_NAN), result).view(np.float32)


@functools.cache
def _places(name: str) -> tuple[Integers, Integers, Integers]:
    """By exponent and by the highest bits of the mantissa: segment, its depth, and its form."""
    function, depth = activation.FUNCTIONS[name], activation.DEPTH
    shape = (function.last - function.first + 1, 1 << depth)
    segments, depths, forms = (np.full(shape, -1, np.int64) for _ in range(3))
    for number, place in enumerate(tables.load("activation").places):
        if place.function == name:
            first = place.index << (depth - place.depth)
            span = slice(first, first + (1 << (depth - place.depth)))
            row = place.exponent - function.first
            segments[row, span], depths[row, span] = number, place.depth
            forms[row, span] = _FORM_NUMBERS[place.form]
    return segments, depths, forms


_FORM_NUMBERS = {name: number for number, name in enumerate(activation.FORMS)}
_FORM_LIST = tuple(activation.FORMS.values())
_BASE = np.array([form.base for form in _FORM_LIST], np.int64)
_SUBTRACT = np.array([form.subtract for form in _FORM_LIST], np.int64)
_ABSOLUTE = np.array([form.absolute for form in _FORM_LIST], np.bool_)


def _from_table(name: str, x: ArrayLike) -> Floats:
    """One of `mxsafe.tables.activation.FUNCTIONS`."""
    words = _words(x)
    table, function = tables.load("activation"), activation.FUNCTIONS[name]
    negative, field, mantissa = _split(words)
    exponent = field - _BIAS
    polynomial = np.zeros(words.shape, np.int64)
    small, large = _FORM_NUMBERS[function.small], _FORM_NUMBERS[function.large]
    form = np.where(exponent < function.first, small, large)
    within = (exponent >= function.first) & (exponent <= function.last)
    if within.any():
        segments, depths, forms = _places(name)
        some = mantissa[within]
        at = exponent[within] - function.first, some >> (_MANTISSA_BITS - activation.DEPTH)
        offset = (some << depths[at] & (_HIDDEN - 1)) >> (_MANTISSA_BITS - table.offset_bits)
        polynomial[within] = evaluate(table, segments[at], offset)
        form[within] = forms[at]
    side = negative.astype(np.int64)
    absolute = _ABSOLUTE[form]
    significand = np.where(absolute, _HIDDEN, np.where(field > 0, _HIDDEN, 0) | mantissa)
    base = significand * _BASE[form, side] >> 1
    polynomial <<= _MANTISSA_BITS - table.fraction_bits
    total = np.where(_SUBTRACT[form, side] == 1, base - polynomial, base + polynomial)
    # A negative sum loses a unit of its last place: its bits are inverted.
    result = _packed(np.where(total < 0, ~total, total), np.where(absolute, _BIAS, field))
    result |= np.where(negative if function.odd else total < 0, _SIGN, 0)
    return _floats(np.where(_is_nan(words), _NAN, result))


def _packed(magnitude: Integers, field: Integers) -> Integers:
    """Bits of a number of 24 bits, of which the top one has the weight that `field` says.

    It has no more leading zeros than `field` allows, unless that is 0 or 1.
    """
    lowered = np.maximum(field, 1)
    normal = field > 1
    for step in (16, 8, 4, 2, 1):
        moves = normal & (magnitude < 1 << (_MANTISSA_BITS + 1 - step))
        magnitude = np.where(moves, magnitude << step, magnitude)
        lowered -= np.where(moves, step, 0)
    hidden = magnitude >> _MANTISSA_BITS
    return np.where(hidden == 1, lowered << _MANTISSA_BITS, 0) | magnitude & (_HIDDEN - 1)


def gelu(x: ArrayLike) -> Floats:
    """``x * Phi(x)``, Phi the normal distribution: within 2^-16, of the result or of ``abs(x)``.

    Of the result for ``x >= 0``, where subnormal results are cut, and of ``abs(x)`` below, where
    the sign is always set.
    """
    return _from_table("gelu", x)


def silu(x: ArrayLike) -> Floats:
    """``x / (1 + exp(-x))``: within 2^-16, of the result for ``x >= 0``, else of ``abs(x)``."""
    return _from_table("silu", x)


def tanh(x: ArrayLike) -> Floats:
    """Hyperbolic tangent: within 2^-16 of the result, odd, and of size 1 at most."""
    return _from_table("tanh", x)


def gelu_derivative(x: ArrayLike) -> Floats:
    """Derivative of `gelu`, within 2^-14."""
    return _from_table("gelu_derivative", x)


def silu_derivative(x: ArrayLike) -> Floats:
    """Derivative of `silu`, within 2^-14."""
    return _from_table("silu_derivative", x)


def tanh_derivative(x: ArrayLike) -> Floats:
    """Derivative of `tanh`, within 2^-14."""
    return _from_table("tanh_derivative", x)


def _power_of_e(
    negative: NDArray[np.bool_], field: Integers, mantissa: Integers
) -> tuple[Integers, Integers]:
    """``e^x`` of numbers smaller than 128: exponent and significand, from 1 to 2."""
    table = tables.load("exp2")
    fraction_bits = table.index_bits + table.offset_bits
    # Below 2^-20, x counts as 0; from 128 on, the result is not used.
    within = (field >= _BIAS - 20) & (field < _BIAS + 7)
    exponent, significand = np.zeros(field.shape, np.int64), np.zeros(field.shape, np.int64)
    significand[...] = 1 << table.fraction_bits
    size = _HIDDEN | mantissa[within]
    cut = _MANTISSA_BITS + _LOG2_E_BITS - fraction_bits
    size = size * _LOG2_E >> (cut - (field[within] - _BIAS))
    power = np.where(negative[within], -size, size)
    fraction = power & ((1 << fraction_bits) - 1)
    offset = fraction & ((1 << table.offset_bits) - 1)
    value = evaluate(table, fraction >> table.offset_bits, offset)
    exponent[within] = power >> fraction_bits
    # Powers of two are exact.
    significand[within] = np.where(fraction == 0, 1 << table.fraction_bits, value)
    return exponent, significand


def exp(x: ArrayLike) -> Floats:
    """``e^x`` within 2^-16 of the result; +0 below 2^-126. It never falls."""
    words = _words(x)
    negative, field, mantissa = _split(words)
    shift = _MANTISSA_BITS - tables.load("exp2").fraction_bits
    exponent, significand = _power_of_e(negative, field, mantissa)
    result = (exponent + _BIAS << _MANTISSA_BITS) + ((significand << shift) - _HIDDEN)
    far = field >= _BIAS + 7
    too_large = ~negative & (far | (exponent + _BIAS >= _TOP_FIELD))
    too_small = negative & (far | (exponent + _BIAS <= 0))
    result = np.where(too_large, _INFINITY, np.where(too_small, 0, result))
    return _floats(np.where(_is_nan(words), _NAN, result))


def _reciprocal(fraction: Integers) -> tuple[Integers, Integers]:
    """``1 / s`` of a significand with 23 bits below 1: whether it is 1, and mantissa if not."""
    table = tables.load("reciprocal")
    cut = _MANTISSA_BITS - table.index_bits - table.offset_bits
    kept = fraction >> cut
    value = evaluate(table, kept >> table.offset_bits, kept & ((1 << table.offset_bits) - 1))
    return kept == 0, (value << (_MANTISSA_BITS + 1 - table.fraction_bits)) - _HIDDEN


def reciprocal(x: ArrayLike) -> Floats:
    """``1 / x`` within 2^-16 of the result; of size 0 below 2^-126. Powers of two are exact."""
    words = _words(x)
    negative, field, mantissa = _split(words)
    # Of subnormals the two upper binades have a finite result.
    zeros = np.where(field > 0, 0, np.where(mantissa >> 22 == 1, 1, 2))
    fraction = mantissa << zeros & (_HIDDEN - 1)
    exact, below = _reciprocal(fraction)
    exponent = 254 - np.where(field > 0, field, 1 - zeros)
    result = np.where(exact, exponent << _MANTISSA_BITS, (exponent - 1 << _MANTISSA_BITS) + below)
    too_large = (field == 0) & ((mantissa >> 21 == 0) | (exact & (zeros == 2)))
    too_small = np.where(exact, exponent, exponent - 1) <= 0
    result = np.where(too_large, _INFINITY, np.where(too_small, 0, result))
    result |= np.where(negative, _SIGN, 0)
    return _floats(np.where(_is_nan(words), _NAN, result))


def rsqrt(x: ArrayLike) -> Floats:
    """``1 / sqrt(x)`` within 2^-16 of the result; NaN below 0, and Inf of its sign of a zero.

    Powers of four are exact.
    """
    words = _words(x)
    negative, field, mantissa = _split(words)
    table = tables.load("rsqrt")
    # Subnormals are normalised.
    exponent, significand = np.maximum(field, 1), np.where(field > 0, _HIDDEN, 0) | mantissa
    for step in (16, 8, 4, 2, 1):
        moves = significand < 1 << (_MANTISSA_BITS + 1 - step)
        significand = np.where(moves, significand << step, significand)
        exponent = exponent - np.where(moves, step, 0)
    odd = exponent - _BIAS & 1
    kept_bits = table.index_bits - 1 + table.offset_bits
    kept = (significand & (_HIDDEN - 1)) >> (_MANTISSA_BITS - kept_bits)
    segment = odd << (table.index_bits - 1) | kept >> table.offset_bits
    value = evaluate(table, segment, kept & ((1 << table.offset_bits) - 1))
    half = exponent - _BIAS >> 1
    exact = (kept == 0) & (odd == 0)
    below = (value << (_MANTISSA_BITS + 1 - table.fraction_bits)) - _HIDDEN
    below += _BIAS - 1 - half << _MANTISSA_BITS
    result = np.where(exact, _BIAS - half << _MANTISSA_BITS, below)
    result = np.where(words == _INFINITY, 0, result)
    zero = (field == 0) & (mantissa == 0)
    result = np.where(zero, np.where(negative, _SIGN | _INFINITY, _INFINITY), result)
    nan = _is_nan(words) | (negative & ~zero)
    return _floats(np.where(nan, _NAN, result))


def sigmoid(x: ArrayLike) -> Floats:
    """``1 / (1 + e^-x)`` within 2^-16 of the result, from 0 to 1; subnormal results are cut."""
    words = _words(x)
    negative, field, mantissa = _split(words)
    exponent, power = _power_of_e(~negative, field, mantissa)
    power <<= _MANTISSA_BITS - tables.load("exp2").fraction_bits
    # 1 + e^-x, with the larger of both as it is.
    distance = np.minimum(np.abs(exponent), _MANTISSA_BITS + 1)
    total = np.where(exponent < 0, _HIDDEN + (power >> distance), power + (_HIDDEN >> distance))
    carry = total >> (_MANTISSA_BITS + 1)
    exponent = np.maximum(exponent, 0) + carry
    exact, below = _reciprocal((total >> carry) - _HIDDEN)
    field_below = _BIAS - exponent - np.where(exact, 0, 1)
    significand = _HIDDEN + np.where(exact, 0, below)
    lost = np.clip(1 - field_below, 0, _MANTISSA_BITS + 1)
    normal = (np.maximum(field_below, 1) - 1 << _MANTISSA_BITS) + significand
    result = np.where(lost > 0, significand >> lost, normal)
    far = field >= _BIAS + 7
    result = np.where(far, np.where(negative, 0, _ONE), result)
    return _floats(np.where(_is_nan(words), _NAN, result))


FUNCTIONS: Mapping[str, Callable[[ArrayLike], Floats]] = MappingProxyType(
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
"""By name. The order is that of the codes by which the hardware is told the function."""
