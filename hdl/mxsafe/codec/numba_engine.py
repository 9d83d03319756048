"""The fast path: the same bits as `mxsafe.codec.numpy_engine`, compiled by Numba.

Every blocking is one of an array of three axes, (outer, rows, columns), in tiles of rows by
columns: a 1-D block along the last axis is a tile of one row, along another axis a tile of one
column. One kernel finds the scales, another one the elements under them. They walk tiles row by row
and keep what differs from block to block in a buffer along the columns, so that their inner loops
run over contiguous columns without a branch and vectorise whatever the shape of a block.

An element is rounded in floating point: ``|x|`` over its block's scale is exact, and its exponent
field says which binade of the format it falls in, hence which quantum it is rounded to. To nearest
even, adding a number whose last place is that quantum leaves the integer of quanta in the low bits;
for the other roundings the number of quanta, again exact, is cut to an integer. The code is that
integer plus the codes below the binade, so a carry into the next binade, or over MXSF's seam, is
the ordinary sum. A scale that is a power of two needs no comparison of values: with ``t`` a
constant of format and scale mode, it is the exponent of the largest magnitude, plus one if its
mantissa reaches ``t``.

Scales with a mantissa divide in float64, see `_quotient`, once for the scale of a block and once
for each element. What they round to is found in the same way.
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
from mxsafe.codec._inputs import bfloat16_bits, widened
from mxsafe.codec._parts import blocks_shape, three_axes
from mxsafe.codec._scales import scale_values
from mxsafe.formats import E8M0, FloatFormat, IntFormat, MXFormat, ScaleFormat

PART = 1 << 20
"""Elements that are worked on at a time: a third of a millisecond, long beside a call."""

_EMIN, _EMAX = -100, 100  # what is added to elements of these binades is still a float32


def supports(fmt: MXFormat) -> bool:
    """Whether the kernels are exact for a format.

    They are not for powers of two other than E8M0, for binades far from 1, for elements and scales
    without mantissa bits (of which the even one shows only in the exponent), and where a second
    mode leaves a gap below the first.
    """
    element, scale = fmt.element, fmt.scale
    if isinstance(scale, ScaleFormat):
        if scale != E8M0:
            return False
    elif scale.mantissa_bits < 1 or scale.quantum_exponent < _EMIN or scale.emax > _EMAX:
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


_SPLIT, _SIGNIFICANT = np.int64((1 << 31) - 1), np.int64((1 << 9) - 1)
_EXPONENT, _TOP_SCALE = np.int64(0x7FF << 52), E8M0.max_code
_FAR = np.float64(2.0**900)  # beyond all formats, and still a float64 times any scale


@numba.njit(error_model="numpy")
def _quotient(magnitude: Any, divisor: Any) -> Any:
    """A float64 on the same side of all numbers of 44 bits or fewer as the exact quotient.

    It equals such a number only if the exact quotient does. The divisor has at most 31 significant
    bits, or is Inf, which gives 0.

    A quotient rounded to float64 can only be wrong where it is such a number itself. There the
    products of the divisor with both its halves, of 22 bits each, are exact, so they tell whether
    anything is left over, and on which side.
    """
    quotient = np.float64(min(magnitude / divisor, _FAR))
    bits = quotient.view(np.int64)
    high = np.int64(bits & ~_SPLIT).view(np.float64)
    left = (magnitude - high * divisor) - (quotient - high) * divisor
    inexact = np.int64(left > 0) - np.int64(left < 0)
    if bits & _SIGNIFICANT != 0:
        inexact = np.int64(0)
    return np.int64(bits + inexact).view(np.float64)


@numba.njit(error_model="numpy")
def _largest(
    bits: Any, mask: Any, top: Any, found: Any, segment: int, columns: int, inner: int
) -> int:
    """Largest magnitude of each tile of some rows, as bits; returns how many tiles there are."""
    place = found.dtype.type
    line = bits[0] if len(bits) == 1 and inner == 1 else top
    if len(bits) > 1 or inner > 1:
        for c in range(top.size):
            top[c] = bits[0, c] & mask
        for r in range(1, len(bits)):
            for c in range(top.size):
                top[c] = max(top[c], place(bits[r, c] & mask))
    tiles = 0
    for start in range(0, top.size, segment):
        for left in range(start, start + segment, columns * inner):
            right = min(left + columns * inner, start + segment)
            if inner == 1:
                amax = place(0)
                within = line[left:right]  # from 0 on, so the loop vectorises
                for c in range(within.size):
                    amax = max(amax, place(within[c] & mask))
                found[tiles] = amax
            else:
                for i in range(inner):
                    amax = place(0)
                    for c in range(left + i, right, inner):
                        amax = max(amax, line[c])
                    found[tiles + i] = amax
            tiles += inner
    return tiles


@numba.njit(error_model="numpy")
def _spread(table: Any, tiles: Any, out: Any, segment: int, columns: int, inner: int) -> None:
    """Write what a table has for each of a row of tiles to all of its columns."""
    tile = 0
    for start in range(0, out.size, segment):
        for left in range(start, start + segment, columns * inner):
            right = min(left + columns * inner, start + segment)
            for i in range(inner):
                own = table[tiles[tile + i]]
                if inner == 1:
                    spread = out[left:right]
                    for c in range(spread.size):
                        spread[c] = own
                else:
                    for c in range(left + i, right, inner):
                        out[c] = own
            tile += inner


@numba.njit(error_model="numpy")
def _power_of_two(amax: Any, mask: Any, stored_bits: int, carry: Any, offset: int) -> Any:
    """Code of E8M0 for a largest magnitude; `offset` is from its exponent field to a code."""
    field, fraction = amax >> stored_bits, amax & mask
    if amax == 0:
        return 0
    if field == 0:  # a subnormal maximum
        field += 1
        while fraction >> stored_bits == 0:
            fraction <<= 1
            field -= 1
        fraction &= mask
    return min(max(field + (fraction >= carry) + offset, 0), _TOP_SCALE)


@numba.njit(error_model="numpy")
def _with_mantissa(magnitude: Any, divisor: Any, scale_fmt: Any) -> Any:
    """Code of a scale with a mantissa, the nearest to a quotient."""
    lowest, drop = np.int64((scale_fmt[1] + 1023) << 52), np.int64(52 - scale_fmt[0])
    wanted = _quotient(magnitude, divisor)
    field = max(np.int64(np.float64(wanted).view(np.int64) & _EXPONENT), lowest)
    unit = np.int64(field + (drop << 52))
    quanta = np.float64(wanted + unit.view(np.float64)).view(np.int64) - unit
    return min(quanta + ((field - lowest) >> drop), np.int64(scale_fmt[4]))


@lru_cache(maxsize=4)
def _scales_kernel(single: bool, divided: bool) -> Callable[..., None]:
    """Kernel that writes the scale of each tile, for float32 or float64.

    Scales are of E8M0 or, with `divided`, have a mantissa. Columns may be of three axes: segments,
    each cut into tiles of its own, the columns that are cut, and `inner` elements of tiles side by
    side for each of them.
    """
    stored: Any = np.float32 if single else np.float64
    place: Any = np.int32 if single else np.int64
    stored_bits, stored_bias = (23, 127) if single else (52, 1023)
    magnitude_mask = place((1 << (31 if single else 63)) - 1)
    fraction_mask = place((1 << stored_bits) - 1)
    infinity = place(magnitude_mask - fraction_mask)
    offset = E8M0.bias - stored_bias

    @_jit
    def kernel(
        bits: Any,
        scales: Any,
        segments: int,
        inner: int,
        rows: int,
        columns: int,
        carry: Any,
        emax: int,
        scale_fmt: Any,
        nan_scale: int,
        unit_of_scales: Any,
    ) -> None:
        outer, height, width = bits.shape
        segment = max(width // segments, 1)  # none are of no width
        top, largest = np.empty(width, place), np.empty(width, place)
        for o in range(outer):
            for first in range(0, height, rows):
                part = bits[o, first : min(first + rows, height)]
                tiles = _largest(part, magnitude_mask, top, largest, segment, columns, inner)
                for tile in range(tiles):
                    amax = place(largest[tile])
                    if amax >= infinity:
                        byte = nan_scale
                    elif divided:
                        magnitude = np.float64(place(amax).view(stored))
                        byte = _with_mantissa(magnitude, unit_of_scales, scale_fmt)
                    else:
                        byte = _power_of_two(amax, fraction_mask, stored_bits, carry, offset - emax)
                    scales[o, first // rows, tile] = byte

    return kernel


@lru_cache(maxsize=16)
def _elements_kernel(
    single: bool, rounding: str, complement: bool, fused: bool, divided: bool
) -> Callable[..., None]:
    """Kernel for float32 or float64, one rounding, sign and magnitude or two's complement.

    It writes codes or, fused with what dequantises them, values of the same type. Scales with a
    mantissa, and stochastic rounding, whose random bits reach below float32's range, take the
    arithmetic of float64. Columns are those of `_scales_kernel`.
    """
    narrow = single and rounding != "sr" and not divided
    stored: Any = np.float32 if single else np.float64
    place: Any = np.int32 if single else np.int64
    sign_shift = place(31 if single else 63)
    magnitude_mask = place((1 << (31 if single else 63)) - 1)
    real: Any = np.float32 if narrow else np.float64
    integer: Any = np.int32 if narrow else np.int64
    mantissa_bits, bias = (23, 127) if narrow else (52, 1023)
    exponent_mask = integer((2 * bias + 1) << mantissa_bits)
    twice_bias_field = integer(2 * bias << mantissa_bits)
    two_to_mantissa = real(2.0**mantissa_bits)
    half = real(0.5)
    two_to_32 = np.float64(2.0**32)

    @_jit
    def kernel(
        x: Any,
        bits: Any,
        words: Any,
        scales: Any,
        codes: Any,
        values: Any,
        segments: int,
        inner: int,
        rows: int,
        columns: int,
        fmt: Any,
        largest_value: Any,
        factors: Any,
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
        segment = max(width // segments, 1)
        factor = np.empty(width, real)  # the reciprocal of the scale, or a scale with a mantissa
        scale = np.empty(width if fused else 0, real)
        for o in range(outer):
            for r in range(height):
                if r % rows == 0:
                    tiles = scales[o, r // rows]
                    _spread(factors, tiles, factor, segment, columns, inner)
                    if fused:
                        _spread(powers, tiles, scale, segment, columns, inner)
                for c in range(width):
                    magnitude = real(abs(x[o, r, c]))
                    relative = (
                        _quotient(magnitude, factor[c]) if divided else real(magnitude * factor[c])
                    )
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
                    sign = bits[o, r, c]
                    if fused:
                        value = stored(min(rounded, largest_value) * scale[c])
                        if complement:  # which has no -0
                            values[o, r, c] = value if sign >= 0 else stored(0) - value
                        else:
                            signed = stored(value).view(place) | (sign & ~magnitude_mask)
                            values[o, r, c] = place(signed).view(stored)
                    else:
                        code = np.int32(quanta + integer((field - lowest) >> dropped))
                        code = min(code, largest)
                        minus = np.int32(sign >> sign_shift)
                        code = (
                            ((code ^ minus) - minus) & code_mask
                            if complement
                            else code | (minus & sign_bit)
                        )
                        codes[o, r, c] = np.uint8(code)

    return kernel


@_jit
def _widen_float16(halves: Any, out: Any) -> None:
    """Float32 from the bits of float16."""
    for i in range(halves.size):
        magnitude = np.int32(np.int32(halves[i] & 0x7FFF) << 13)
        value = np.float32(magnitude.view(np.float32) * np.float32(2.0**112))
        if magnitude >= 0x0F800000:  # Inf and NaN
            value = np.int32(magnitude | 0x7F800000).view(np.float32)
        sign = np.int32(np.int32(halves[i] & 0x8000) << 16)
        out[i] = np.int32(np.float32(value).view(np.int32) | sign).view(np.float32)


@_jit
def _narrow_float16(values: Any, bits: Any, out: Any) -> None:
    """Bits of float16 nearest to float32, a tie to the even one; NaN is 0x7e00 or 0xfe00."""
    for i in range(bits.size):
        magnitude = np.int32(bits[i] & 0x7FFFFFFF)
        # Among the subnormal numbers, adding 1/2 leaves multiples of 2^-24 in the low bits.
        tiny = np.float32(abs(values[i]) + np.float32(0.5)).view(np.int32) - 0x3F000000
        half = np.int32((magnitude - 0x38000000 + 0x0FFF + ((magnitude >> 13) & 1)) >> 13)
        half = np.int32(tiny) if magnitude < 0x38800000 else half
        half = np.int32(0x7C00) if magnitude >= 0x47800000 else half
        half = np.int32(0x7E00) if magnitude > 0x7F800000 else half
        out[i] = np.uint16(half | ((bits[i] >> 16) & 0x8000))


@_jit
def _narrow_bfloat16(values: Any, bits: Any, out: Any) -> None:
    """Bits of bfloat16 nearest to float32, a tie to the even one; NaN is 0x7fc0 or 0xffc0."""
    for i in range(bits.size):
        odd = np.int32(np.int32(bits[i] >> 16) & 1)
        up = np.int32(np.int32(bits[i] + odd) + np.int32(0x7FFF))
        nan = np.int32(bits[i] | 0x7FC00000)
        # NaN is the only number that is not itself.
        short = up if values[i] == values[i] else nan
        out[i] = np.uint16(np.int32(short >> 16))


@_jit
def _widen_bfloat16(shorts: Any, out: Any) -> None:
    """Bits of float32 from those of bfloat16."""
    for i in range(shorts.size):
        out[i] = np.int32(np.int32(shorts[i]) << 16)


def _floats(x: NDArray[Any]) -> NDArray[Any]:
    """The numbers of an array, contiguous: float64 as they are, all others as float32."""
    shorts = bfloat16_bits(x)
    if shorts is None and x.dtype != np.float16:
        wide = np.float64 if x.dtype.itemsize == np.dtype(np.float64).itemsize else np.float32
        return np.ascontiguousarray(widened(x, wide))
    values = np.empty(x.shape, np.float32)
    flat = values.reshape(-1)
    if shorts is None:
        _widen_float16(np.ascontiguousarray(x).reshape(-1).view(np.uint16), flat)
    else:
        native = np.ascontiguousarray(shorts, np.uint16).reshape(-1)
        _widen_bfloat16(native, flat.view(np.int32))
    return values


@contextmanager
def _float_results(out: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """A contiguous array of float32 or float64 to write to: `out`, or one rounded to it then."""
    shorts = bfloat16_bits(out)
    if shorts is None and out.dtype != np.float16:
        with _contiguous(out) as buffer:
            yield buffer
        return
    values = np.empty(out.shape, np.float32)
    yield values
    flat = values.reshape(-1)
    narrow = _narrow_float16 if shorts is None else _narrow_bfloat16
    with _contiguous(out.view(np.uint16)) as buffer:
        narrow(flat, flat.view(np.int32), buffer.reshape(-1))


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
    """Scale, or with `sign` -1 its reciprocal, of every scale byte; some reciprocal for NaN."""
    exponents = sign * (np.arange(E8M0.nan_code, dtype=np.int32) - E8M0.bias)
    powers = np.ldexp(np.float32(1) if single else np.float64(1), exponents)
    return np.append(powers, powers.dtype.type(np.nan) if sign == 1 else powers[-1])


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
    """Codes and scales of a part of a tensor, as `mxsafe.codec.numpy_engine.quantize_part`."""
    if _is_transposed(x):
        words = None if words is None else words.T
        quantize_part(
            x.T, fmt, lengths[::-1], rounding, scale_mode, words, codes.T, scales.T, tensor_scale
        )
        return
    shape, tile = three_axes(x.shape, lengths)
    with _contiguous(codes) as code_buffer, _contiguous(scales) as scale_buffer:
        _run_kernel(
            _floats(x).reshape(shape),
            None if words is None else words.reshape(shape),
            code_buffer.reshape(shape),
            scale_buffer.reshape(blocks_shape(shape, (1, *tile))),
            None,
            (1, 1),
            tile,
            (fmt, rounding, scale_mode, tensor_scale),
        )


def values_part(
    x: NDArray[Any],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    rounding: elements.Rounding,
    scale_mode: str,
    words: NDArray[np.uint32] | None,
    values: NDArray[Any],
    tensor_scale: float = 1.0,
) -> None:
    """Values of a part of a tensor in a format, without codes: quantised and dequantised.

    Axes may be in any order; `values` has the dtype of `x`. In the 16-bit ones they are rounded
    from float32.
    """
    shape, tile, columns = _five_axes(x.shape, lengths)
    none = np.zeros((1, 1, 1), np.uint8)
    with _float_results(values) as result:
        _run_kernel(
            _floats(x).reshape(shape),
            None if words is None else words.reshape(shape),
            none,
            none,
            result.reshape(shape),
            columns,
            tile,
            (fmt, rounding, scale_mode, tensor_scale),
        )


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
    task: tuple[MXFormat, str, str, float],
) -> None:
    """Call the kernels of a dtype and a rounding, for codes, or for values where there are any."""
    fmt, rounding, scale_mode, tensor_scale = task
    single = x.dtype == np.float32
    place = np.int32 if single else np.int64
    divided = not isinstance(fmt.scale, ScaleFormat)
    real = np.float32 if single and rounding != "sr" and not divided else np.float64
    if divided:
        powers = _scale_table(fmt, tensor_scale)
        factors = np.where(powers > 0, powers, np.inf)
    else:
        powers, factors = (_powers(real is np.float32, sign) for sign in (1, -1))
    if values is not None:
        outer, height, width = x.shape
        tiles = -(-(width // columns[0]) // (tile[1] * columns[1])) * math.prod(columns)
        scales = np.empty((outer, -(-height // tile[0]), tiles), np.uint8)
    _scales_kernel(single, divided)(
        x.view(place),
        scales,
        *columns,
        *tile,
        place(_carry_mantissa(fmt, scale_mode, 23 if single else 52)),
        fmt.emax,
        _binades(fmt.scale) if isinstance(fmt.scale, FloatFormat) else _binades(fmt.element),
        fmt.nan_scale,
        np.float64(fmt.element.max_value * tensor_scale),
    )
    complement = isinstance(fmt.element, IntFormat)
    _elements_kernel(single, rounding, complement, values is not None, divided)(
        x,
        x.view(place),
        np.zeros((1, 1, 1), np.uint32) if words is None else words,
        scales,
        codes,
        np.zeros((1, 1, 1), x.dtype) if values is None else values,
        *columns,
        *tile,
        _binades(fmt.element),
        real(fmt.element.max_value),
        factors,
        powers,
    )
    special = scales == fmt.nan_scale
    if values is None and special.any():
        whole = special.repeat(tile[0], axis=1)[:, : x.shape[1]]
        codes[whole.repeat(tile[1], axis=2)[..., : x.shape[2]]] = 0


def _scale_table(fmt: MXFormat, tensor_scale: float) -> NDArray[np.float64]:
    """Scales with a mantissa, by their codes, times that of the tensor; exact, and NaN for NaN."""
    return scale_values(np.arange(fmt.nan_scale + 1), fmt.scale) * tensor_scale


def dequantize_part(
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    values: NDArray[Any],
    tensor_scale: float = 1.0,
) -> None:
    """Values of a part of a tensor, as `mxsafe.codec.numpy_engine.dequantize_part`.

    `values` may be of float16 or bfloat16 too, to which they are rounded from float32.
    """
    if _is_transposed(codes):
        dequantize_part(codes.T, scales.T, fmt, lengths[::-1], values.T, tensor_scale)
        return
    shape, tile = three_axes(codes.shape, lengths)
    with _float_results(values) as result:
        if isinstance(fmt.scale, ScaleFormat):
            powers = _powers(result.dtype == np.float32, 1)
        else:
            powers = _scale_table(fmt, tensor_scale)
        _dequantize_kernel(
            np.ascontiguousarray(codes).reshape(shape),
            np.ascontiguousarray(scales).reshape(blocks_shape(shape, (1, *tile))),
            _table(fmt.element).astype(powers.dtype),
            powers,
            *tile,
            result.reshape(shape),
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
