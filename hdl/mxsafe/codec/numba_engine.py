"""The fast path: the same bits as `mxsafe.codec.numpy_engine`, compiled by Numba.

Every blocking is one of an array of three axes, (outer, rows, columns), in tiles of rows by
columns: a 1-D block along the last axis is a tile of one row, along another axis a tile of one
column. Both kernels walk such a tile row by row and keep what differs from block to block in a
buffer along the columns, so that their inner loops run over contiguous columns without a branch
and vectorise whatever the shape of a block.

An element is rounded in floating point: ``|x|`` over its block's scale is exact, and its exponent
field says which binade of the format it falls in, hence which quantum it is rounded to. To nearest
even, adding a number whose last place is that quantum leaves the integer of quanta in the low bits;
for the other roundings the number of quanta, again exact, is cut to an integer. The code is that
integer plus the codes below the binade, so a carry into the next binade, or over MXSF's seam, is
the ordinary sum. The scale of a block needs no comparison of values: with ``t`` a constant of
format and scale mode, it is the exponent of the largest magnitude, plus one if its mantissa
reaches ``t``.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import widened
from mxsafe.codec._parts import blocks_shape, three_axes
from mxsafe.formats import E8M0, FloatFormat, IntFormat, MXFormat

__all__ = ["PART", "dequantize_part", "quantize_part", "supports", "values_part"]

PART = 1 << 20
"""Elements that are worked on at a time: a third of a millisecond, long beside a call."""

_EMIN, _EMAX = -100, 100  # what is added to elements of these binades is still a float32


def supports(fmt: MXFormat) -> bool:
    """Whether the kernels are exact for a format.

    They are not for scales other than E8M0, for binades far from 1, for elements without mantissa
    bits (of which the even one shows only in the exponent), and where a second mode leaves a gap
    below the first.
    """
    element = fmt.element
    if fmt.scale != E8M0:
        return False
    if element.quantum_exponent < _EMIN or fmt.emax > _EMAX or element.mantissa_bits < 1:
        return False
    if not isinstance(element, FloatFormat) or element.sub is None:
        return True
    top = (1 << element.sub.exponent_bits) - 1 - element.sub.bias
    return element.sub.mantissa_bits >= 1 and top == element.fields.min_exponent - 1


class _Binades(NamedTuple):
    """A format as the kernel needs it: two runs of binades, and how a code is put together.

    Numbers below the binade `emin` have `sub_mantissa` bits in binades from `sub_emin` on; formats
    with one mode say the same twice.
    """

    mantissa: np.int32
    emin: np.int32
    sub_mantissa: np.int32
    sub_emin: np.int32
    largest: np.int32  # magnitude code
    width: np.int32  # of a code


@lru_cache(maxsize=64)
def _binades(element: elements.Element) -> _Binades:
    if isinstance(element, FloatFormat):
        fields, sub = element.fields, element.sub or element.fields
        runs = (fields.mantissa_bits, fields.min_exponent, sub.mantissa_bits, sub.min_exponent)
    else:
        runs = (element.mantissa_bits, element.emax) * 2  # one binade, which all numbers share
    return _Binades(*map(np.int32, (*runs, element.max_magnitude, element.width)))


def _carry_mantissa(fmt: MXFormat, scale_mode: str, mantissa_bits: int) -> int:
    """Smallest mantissa of a block's maximum for which its scale takes the next power of two."""
    element = fmt.element
    if scale_mode == "floor":
        return 1 << mantissa_bits  # none
    if scale_mode == "ceil":
        return 1
    if scale_mode == "even":
        return (1 << mantissa_bits) - (1 << (mantissa_bits - element.mantissa_bits - 1))
    significand = element.max_value / 2.0**element.emax
    return int((significand - 1.0) * 2.0**mantissa_bits) + 1


def _jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the GIL, and keep the result on disk where there is a place for it."""
    compiled = [numba.njit(function, nogil=True, error_model="numpy")]
    with suppress(RuntimeError):  # there is no folder to write to
        compiled.append(numba.njit(function, cache=True, nogil=True, error_model="numpy"))

    def run(*arguments: Any) -> None:
        try:
            compiled[-1](*arguments)
        except OSError:  # the folder is full, say
            del compiled[1:]
            compiled[0](*arguments)

    return run


@lru_cache(maxsize=16)
def _quantize_kernel(
    single: bool, rounding: str, complement: bool, fused: bool
) -> Callable[..., None]:
    """Kernel for float32 or float64, one rounding, sign and magnitude or two's complement.

    It writes codes and scales or, fused with what dequantises them, values.

    Columns may be of three axes: segments, each cut into tiles of its own, the columns that are
    cut, and `inner` elements of tiles side by side for each of them.
    """
    real: Any = np.float32 if single else np.float64
    integer: Any = np.int32 if single else np.int64
    mantissa_bits = 23 if single else 52
    bias = 127 if single else 1023
    sign_shift = integer(31 if single else 63)
    magnitude_mask = integer((1 << (31 if single else 63)) - 1)
    mantissa_mask = integer((1 << mantissa_bits) - 1)
    exponent_mask = integer(magnitude_mask - mantissa_mask)
    twice_bias_field = integer(2 * bias << mantissa_bits)
    two_to_mantissa = real(2.0**mantissa_bits)
    half = real(0.5)
    two_to_32 = np.float64(2.0**32)
    scale_bias, top_scale, nan_scale = E8M0.bias, E8M0.max_code, E8M0.nan_code

    @_jit
    def kernel(
        x: Any,
        bits: Any,
        words: Any,
        codes: Any,
        scales: Any,
        values: Any,
        segments: int,
        inner: int,
        rows: int,
        columns: int,
        carry: Any,
        emax: int,
        fmt: Any,
        largest_value: Any,
        reciprocals: Any,
        powers: Any,
    ) -> None:
        mantissa, emin, sub_mantissa, sub_emin, largest, code_width = fmt
        # Exponents in place, as fields of the bits of a float, and mantissa bits that are dropped.
        lowest_field = integer(integer(emin + bias) << mantissa_bits)
        sub_lowest_field = integer(integer(sub_emin + bias) << mantissa_bits)
        drop, sub_drop = integer(mantissa_bits - mantissa), integer(mantissa_bits - sub_mantissa)
        code_mask = np.int32((1 << code_width) - 1)
        sign_bit = np.int32(1 << (code_width - 1))
        outer, height, width = x.shape
        segment = max(width // segments, 1)  # none are of no width
        top = np.empty(width, integer)  # largest magnitude of a column of tiles, as bits
        reciprocal = np.empty(width, real)  # of the scale
        scale = np.empty(width if fused else 0, real)
        # The same of each tile of a row of tiles.
        largest_of = np.empty(width, integer)
        factor_of = np.empty(width, real)
        power_of = np.empty(width if fused else 0, real)
        for o in range(outer):
            for first in range(0, height, rows):
                last = min(first + rows, height)
                special = False
                line = bits[o, first] if rows == 1 and inner == 1 else top
                if rows > 1 or inner > 1:
                    for c in range(width):
                        top[c] = bits[o, first, c] & magnitude_mask
                    for r in range(first + 1, last):
                        for c in range(width):
                            top[c] = max(top[c], integer(bits[o, r, c] & magnitude_mask))
                tiles = 0
                for start in range(0, width, segment):
                    for left in range(start, start + segment, columns * inner):
                        right = min(left + columns * inner, start + segment)
                        if inner == 1:
                            amax = integer(0)
                            within = line[left:right]  # from 0 on, so the loop vectorises
                            for c in range(within.size):
                                amax = max(amax, integer(within[c] & magnitude_mask))
                            largest_of[tiles] = amax
                        else:
                            for i in range(inner):
                                amax = top[left + i]
                                for c in range(left + inner + i, right, inner):
                                    amax = max(amax, top[c])
                                largest_of[tiles + i] = amax
                        tiles += inner
                for tile in range(tiles):
                    amax = largest_of[tile]
                    exponent = (amax >> mantissa_bits) - bias
                    fraction = amax & mantissa_mask
                    if exponent == -bias and amax != 0:  # a subnormal maximum
                        exponent += 1
                        while fraction >> mantissa_bits == 0:
                            fraction <<= 1
                            exponent -= 1
                        fraction &= mantissa_mask
                    byte = exponent + (fraction >= carry) - emax + scale_bias
                    byte = min(max(byte, 0), top_scale)
                    if amax == 0:
                        byte = 0
                    factor_of[tile] = reciprocals[byte]
                    if amax >= exponent_mask:
                        byte = nan_scale
                        special = True
                    if fused:
                        power_of[tile] = powers[byte]
                    else:
                        scales[o, first // rows, tile] = byte
                tiles = 0
                for start in range(0, width, segment):
                    for left in range(start, start + segment, columns * inner):
                        right = min(left + columns * inner, start + segment)
                        if inner == 1:
                            spread = reciprocal[left:right]
                            for c in range(spread.size):
                                spread[c] = factor_of[tiles]
                            if fused:
                                spread = scale[left:right]
                                for c in range(spread.size):
                                    spread[c] = power_of[tiles]
                        else:
                            for c in range(left, right, inner):
                                for i in range(inner):
                                    reciprocal[c + i] = factor_of[tiles + i]
                                    if fused:
                                        scale[c + i] = power_of[tiles + i]
                        tiles += inner
                for r in range(first, last):
                    for c in range(width):
                        relative = real(abs(x[o, r, c]) * reciprocal[c])
                        field = integer(real(relative).view(integer) & exponent_mask)
                        below = field < lowest_field
                        dropped = sub_drop if below else drop
                        lowest = sub_lowest_field if below else lowest_field
                        field = max(field, lowest)
                        # 2^mantissa_bits quanta of the binade.
                        unit = integer(field + (dropped << mantissa_bits))
                        if rounding == "rne":
                            summed = real(relative + unit.view(real))
                            quanta = summed.view(integer) - unit
                            rounded = real(summed - unit.view(real))
                        else:
                            per_unit = integer(twice_bias_field - unit).view(real)
                            exact = real(real(relative * two_to_mantissa) * per_unit)
                            whole = np.trunc(exact)
                            if rounding == "rna":
                                whole += real(exact - whole >= half)
                            elif rounding == "sr":
                                chance = np.float64(exact - whole) * two_to_32
                                whole += real(np.float64(words[o, r, c]) < chance)
                            quanta = integer(whole)
                            rounded = real(whole * real(unit.view(real) / two_to_mantissa))
                        if fused:
                            value = real(min(rounded, largest_value) * scale[c])
                            if complement:  # which has no -0
                                value = value if bits[o, r, c] >= 0 else real(0) - value
                            else:
                                signed = value.view(integer) | (bits[o, r, c] & ~magnitude_mask)
                                value = integer(signed).view(real)
                            values[o, r, c] = value
                            continue
                        code = np.int32(quanta + integer((field - lowest) >> dropped))
                        code = min(code, largest)
                        sign = np.int32(bits[o, r, c] >> sign_shift)
                        if complement:
                            code = ((code ^ sign) - sign) & code_mask
                        else:
                            code |= sign & sign_bit
                        codes[o, r, c] = np.uint8(code)
                if special and not fused:
                    for tile, left in enumerate(range(0, width, columns)):
                        if scales[o, first // rows, tile] == nan_scale:
                            codes[o, first:last, left : min(left + columns, width)] = 0

    return kernel


@_jit
def _dequantize_kernel(
    codes: Any, scales: Any, table: Any, powers: Any, rows: int, columns: int, out: Any
) -> None:
    outer, height, width = codes.shape
    scale = np.empty(width, table.dtype)
    for o in range(outer):
        for r in range(height):
            if r % rows == 0:
                for tile, left in enumerate(range(0, width, columns)):
                    power = powers[scales[o, r // rows, tile]]
                    spread = scale[left : min(left + columns, width)]
                    for c in range(spread.size):
                        spread[c] = power
            for c in range(width):
                out[o, r, c] = table[codes[o, r, c]] * scale[c]


@lru_cache(maxsize=4)
def _powers(single: bool, sign: int) -> NDArray[Any]:
    """Scale, or with `sign` -1 its reciprocal, of every scale byte."""
    exponents = sign * (np.arange(E8M0.nan_code, dtype=np.int32) - E8M0.bias)
    powers = np.ldexp(np.float32(1) if single else np.float64(1), exponents)
    return np.append(powers, powers.dtype.type(np.nan))


@lru_cache(maxsize=64)
def _table(element: elements.Element) -> NDArray[np.float64]:
    """Value of every byte, so that no code is beyond the end: NaN above the codes of a format."""
    table = np.full(1 << 8, np.nan)
    values = elements.code_values(element)
    table[: values.size] = values
    return table


def quantize_part(
    x: NDArray[Any],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    rounding: elements.Rounding,
    scale_mode: str,
    words: NDArray[np.uint32] | None,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    tensor_scale: float = 1.0,
) -> None:
    """Codes and scales of a part of a tensor, as `mxsafe.codec.numpy_engine.quantize_part`.

    The scale of the tensor is 1 in every format that the kernels support.
    """
    if _is_transposed(x):
        words = None if words is None else words.T
        quantize_part(
            x.T, fmt, lengths[::-1], rounding, scale_mode, words, codes.T, scales.T, tensor_scale
        )
        return
    # Random bits reach below float32's range, so stochastic rounding is float64's.
    single = x.dtype.itemsize < np.dtype(np.float64).itemsize and rounding != "sr"
    values = np.ascontiguousarray(widened(x, np.float32 if single else np.float64))
    shape, tile = three_axes(x.shape, lengths)
    with _contiguous(codes) as code_buffer, _contiguous(scales) as scale_buffer:
        _run_kernel(
            values.reshape(shape),
            None if words is None else words.reshape(shape),
            code_buffer.reshape(shape),
            scale_buffer.reshape(blocks_shape(shape, (1, *tile))),
            None,
            (1, 1),
            tile,
            (fmt, rounding, scale_mode),
        )


def values_part(
    x: NDArray[Any],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    rounding: elements.Rounding,
    scale_mode: str,
    words: NDArray[np.uint32] | None,
    values: NDArray[Any],
) -> None:
    """Values of a part of a tensor in a format, without codes: quantised and dequantised.

    Axes may be in any order; `values` is contiguous, of float64 or else float32 as `x` is wide.
    """
    # Random bits reach below float32's range, so stochastic rounding is float64's.
    real = np.float32 if values.dtype == np.float32 and rounding != "sr" else np.float64
    wide = np.ascontiguousarray(widened(x, real))
    shape, tile, columns = _five_axes(x.shape, lengths)
    contiguous = values.dtype == real and values.flags.c_contiguous
    result = values if contiguous else np.empty(values.shape, real)
    none = np.zeros((1, 1, 1), np.uint8)
    _run_kernel(
        wide.reshape(shape),
        None if words is None else words.reshape(shape),
        none,
        none,
        result.reshape(shape),
        columns,
        tile,
        (fmt, rounding, scale_mode),
    )
    if result is not values:
        with np.errstate(over="ignore"):  # a scale that carries an element beyond float32
            values[...] = result


def _five_axes(
    shape: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[tuple[int, int, int], tuple[int, int], tuple[int, int]]:
    """Shape (outer, rows, columns), rows and columns of a tile, and segments and inner elements.

    As `mxsafe.codec._parts.three_axes`, for tiles of any two axes.
    """
    along = [axis for axis, length in enumerate(lengths) if length > 1]
    if len(along) < 2:
        flat, tile = three_axes(shape, lengths)
        return flat, tile, (1, 1)
    first, second = along
    outer, segments = math.prod(shape[:first]), math.prod(shape[first + 1 : second])
    inner = math.prod(shape[second + 1 :])
    flat = (outer, shape[first], segments * shape[second] * inner)
    return flat, (lengths[first], lengths[second]), (segments, inner)


def _run_kernel(
    x: NDArray[Any],
    words: NDArray[np.uint32] | None,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    values: NDArray[Any] | None,
    columns: tuple[int, int],
    tile: tuple[int, int],
    task: tuple[MXFormat, str, str],
) -> None:
    """Call the kernel of a dtype and a rounding, for codes, or for values where there are any."""
    fmt, rounding, scale_mode = task
    single = x.dtype == np.float32
    integer = np.int32 if single else np.int64
    _quantize_kernel(single, rounding, isinstance(fmt.element, IntFormat), values is not None)(
        x,
        x.view(integer),
        np.zeros((1, 1, 1), np.uint32) if words is None else words,
        codes,
        scales,
        np.zeros((1, 1, 1), x.dtype) if values is None else values,
        *columns,
        *tile,
        integer(_carry_mantissa(fmt, scale_mode, 23 if single else 52)),
        fmt.emax,
        _binades(fmt.element),
        x.dtype.type(fmt.element.max_value),
        _powers(single, -1),
        _powers(single, 1),
    )


def dequantize_part(
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    values: NDArray[Any],
    tensor_scale: float = 1.0,
) -> None:
    """Values of a part of a tensor, as `mxsafe.codec.numpy_engine.dequantize_part`.

    The scale of the tensor is 1 in every format that the kernels support.
    """
    if _is_transposed(codes):
        dequantize_part(codes.T, scales.T, fmt, lengths[::-1], values.T, tensor_scale)
        return
    shape, tile = three_axes(codes.shape, lengths)
    with _contiguous(values) as buffer:
        _dequantize_kernel(
            np.ascontiguousarray(codes).reshape(shape),
            np.ascontiguousarray(scales).reshape(blocks_shape(shape, (1, *tile))),
            _table(fmt.element).astype(values.dtype),
            _powers(values.dtype == np.float32, 1),
            *tile,
            buffer.reshape(shape),
        )


def _is_transposed(array: NDArray[Any]) -> bool:
    """Whether a matrix lies column by column in memory; walking it by rows would be slow."""
    return array.ndim == 2 and abs(array.strides[0]) < abs(array.strides[1])


@contextmanager
def _contiguous(out: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """An array to write to in C order: `out`, or one that is then copied there."""
    buffer = out if out.flags.c_contiguous else np.empty_like(out, order="C")
    yield buffer
    if buffer is not out:
        out[...] = buffer
