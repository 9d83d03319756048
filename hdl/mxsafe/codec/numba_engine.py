"""The fast path: the same bits as `mxsafe.codec.numpy_engine`, compiled by Numba.

Every blocking is one of an array of three axes, (outer, rows, columns), in tiles of rows by
columns: a 1-D block along the last axis is a tile of one row, along another axis a tile of one
column. A kernel reads the bits of numbers of any dtype, finds the scales of a row of tiles, and
then the elements under them. Where blocks run along columns, its inner loop is over a block;
elsewhere it keeps what differs from block to block in a buffer along the columns. So inner loops
run over contiguous columns without a branch, and vectorise whatever the shape of a block. Kernels
take addresses of contiguous memory: to hand over an array takes three times as long, which tells in
small tensors.

An element is rounded in floating point: ``|x|`` over its block's scale is exact, and its exponent
field says which binade of the format it falls in, hence which quantum it is rounded to. To nearest
even, adding a number whose last place is that quantum leaves the integer of quanta in the low bits;
for the other roundings the number of quanta, again exact, is cut to an integer. The code is that
integer plus the codes below the binade, so a carry into the next binade, or over MXSF's seam, is
the ordinary sum. A scale that is a power of two needs no comparison of values: with ``t`` a
constant of format and scale mode, it is the exponent of the largest magnitude, plus one if its
mantissa reaches ``t``.

Scales with a mantissa divide in float64, see `_quotient`, once for the scale of a block and once
for each element. What they round to is found in the same way. Elements of eight magnitudes, as
those of NVFP4, are not divided where blocks lie in rows, but compared with the least number of each
code.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.typing import NDArray

from mxsafe.codec import _parts, elements
from mxsafe.codec._inputs import bfloat16_bits
from mxsafe.codec._scales import scale_values
from mxsafe.formats import E8M0, FloatFormat, IntFormat, MXFormat, ScaleFormat

PART = 1 << 20
"""Elements that are worked on at a time: a third of a millisecond, long beside a call."""

_PLACES = {
    "float64": np.int64,
    "float32": np.int32,
    "float16": np.int16,
    "bfloat16": np.int16,
}
"""Types of the bits of numbers."""

_KINDS = {"d": "float64", "f": "float32", "e": "float16"}

_RUNS = (16, 32, 64)
"""Lengths of blocks whose largest magnitudes are found soonest."""

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


_ADDRESS, _INTEGERS = numba.int64, numba.int64[::1]


def _jit(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compile for types of arguments, without the GIL, and keep the result on disk if it can be."""

    def compiled(function: Callable[..., None]) -> Callable[..., None]:
        signature = numba.void(*arguments)
        try:
            return numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function)
        except (RuntimeError, OSError):  # there is no folder to write to, or it is full
            return numba.njit(signature, nogil=True, error_model="numpy")(function)

    return compiled


def _typed_pointer(context: Any, address: Any) -> Any:
    """Pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        return builder.inttoptr(arguments[0], kind)

    return numba.types.voidptr(address), generate


_pointer: Any = intrinsic(_typed_pointer)


@numba.njit(error_model="numpy")
def _array(address: Any, shape: Any, dtype: Any) -> Any:
    """The numbers at an address, in C order."""
    return numba.carray(_pointer(address), shape, dtype)  # type: ignore[attr-defined]


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
def _larger(values: Any, size: int, out: Any) -> None:
    """Write the larger one of each two neighbours."""
    for i in range(size // 2):
        out[i] = max(values[2 * i], values[2 * i + 1])


@numba.njit(error_model="numpy")
def _largest_of_runs(bits: Any, mask: Any, columns: int, once: Any, twice: Any, out: Any) -> None:
    """Write the largest magnitude of each run of a length in `_RUNS`, halving what is left.

    So nothing waits for the element before, and all rounds vectorise.
    """
    place, size = out.dtype.type, bits.size
    for i in range(size // 2):
        once[i] = max(place(bits[2 * i] & mask), place(bits[2 * i + 1] & mask))
    _larger(once, size // 2, twice)
    _larger(twice, size // 4, once)
    if columns == 16:
        _larger(once, size // 8, out)
    elif columns == 32:
        _larger(once, size // 8, twice)
        _larger(twice, size // 16, out)
    else:
        _larger(once, size // 8, twice)
        _larger(twice, size // 16, once)
        _larger(once, size // 32, out)


@numba.njit(error_model="numpy")
def _largest(
    bits: Any,
    mask: Any,
    top: Any,
    other: Any,
    found: Any,
    segment: int,
    columns: int,
    inner: int,
) -> int:
    """Largest magnitude of each tile of some rows, as bits; returns how many tiles there are."""
    place = found.dtype.type
    if len(bits) == 1 and inner == 1 and columns in _RUNS and segment % columns == 0:
        _largest_of_runs(bits[0], mask, columns, top, other, found)
        return top.size // columns
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


@numba.njit(error_model="numpy")
def _shapes(integers: Any) -> Any:
    """Shape of a tensor, and that of its tiles."""
    outer, height, width = integers[0], integers[1], integers[2]
    runs = integers[3] * integers[4]  # of columns that are cut
    along = -(-(width // max(runs, 1)) // integers[6])
    return (outer, height, width), (outer, -(-height // integers[5]), runs * along)


@numba.njit(error_model="numpy")
def _binades_from(integers: Any, first: int) -> Any:
    """`_Binades` of an array."""
    return (
        np.int32(integers[first]),
        np.int32(integers[first + 1]),
        np.int32(integers[first + 2]),
        np.int32(integers[first + 3]),
        np.int32(integers[first + 4]),
        np.int32(integers[first + 5]),
    )


@numba.njit(error_model="numpy")
def _half(value: Any) -> Any:
    """Bits of the float16 nearest to a float32 that is not negative, a tie to the even one."""
    bits = np.float32(value).view(np.int32)
    # Among the subnormal numbers, adding 1/2 leaves multiples of 2^-24 in the low bits.
    tiny = np.float32(value + np.float32(0.5)).view(np.int32) - 0x3F000000
    half = np.int32((bits - 0x38000000 + 0x0FFF + ((bits >> 13) & 1)) >> 13)
    half = np.int32(tiny) if bits < 0x38800000 else half
    half = np.int32(0x7C00) if bits >= 0x47800000 else half
    return np.int16(0x7E00 if bits > 0x7F800000 else half)


@numba.njit(error_model="numpy")
def _brain(value: Any) -> Any:
    """The same of bfloat16."""
    bits = np.float32(value).view(np.int32)
    short = np.int32(bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.int16(0x7FC0 if bits > 0x7F800000 else short)


@lru_cache(maxsize=64)
def _kernel(  # noqa: C901 - its branches are decided as it is compiled
    kind: str, rounding: str, complement: bool, fused: bool, divided: bool, runs: bool
) -> Callable[..., None]:
    """Kernel for a dtype, a rounding, and sign and magnitude or two's complement.

    It reads the bits of numbers and writes the scale of each tile, and codes or, fused with what
    dequantises them, bits of values. Scales are of E8M0 or, with `divided`, have a mantissa; these,
    and stochastic rounding, whose random bits reach below float32's range, take the arithmetic of
    float64.

    Columns may be of three axes: segments, each cut into tiles of its own, the columns that are
    cut, and `inner` elements of tiles side by side for each of them.
    """
    half, brain, wide = kind == "float16", kind == "bfloat16", kind == "float64"
    place: Any = _PLACES[kind]
    stored: Any = np.float64 if wide else np.float32
    stored_place: Any = np.int64 if wide else np.int32
    stored_bits, stored_bias = (52, 1023) if wide else (23, 127)
    fraction_mask = stored_place((1 << stored_bits) - 1)
    offset = E8M0.bias - stored_bias
    sign_shift = 8 * np.dtype(place).itemsize - 1
    magnitude_mask = place(np.iinfo(place).max)
    infinity = place(_infinity(kind))
    narrow = not wide and rounding != "sr" and not divided
    real: Any = np.float32 if narrow else np.float64
    integer: Any = np.int32 if narrow else np.int64
    result: Any = place if fused else np.uint8
    mantissa_bits, bias = (23, 127) if narrow else (52, 1023)
    exponent_mask = integer((2 * bias + 1) << mantissa_bits)
    twice_bias_field = integer(2 * bias << mantissa_bits)
    shift_mask = integer(8 * np.dtype(integer).itemsize - 1)  # so that shifts stay of that width
    two_to_mantissa = real(2.0**mantissa_bits)
    half_unit = real(0.5)
    two_to_32 = np.float64(2.0**32)
    from_half = np.float32(2.0**112)

    of_scales = numba.from_dtype(np.dtype(real))[::1]

    @_jit(_INTEGERS, numba.float64[::1], of_scales, of_scales, *[_ADDRESS] * 4)
    def kernel(  # noqa: C901
        integers: Any,
        reals: Any,
        factors: Any,
        powers: Any,
        of_numbers: int,
        of_words: int,
        of_scales: int,
        of_results: int,
    ) -> None:
        outer, height, width = integers[0], integers[1], integers[2]
        segments, inner, rows, columns = integers[3], integers[4], integers[5], integers[6]
        shape, blocks = _shapes(integers)
        bits, words = _array(of_numbers, shape, place), _array(of_words, shape, np.uint32)
        scales, results = _array(of_scales, blocks, np.uint8), _array(of_results, shape, result)
        emax, nan_scale, carry = integers[7], integers[8], stored_place(integers[9])
        scale_fmt = _binades_from(integers, 10)
        mantissa, emin, sub_mantissa, sub_emin, largest, code_width = _binades_from(integers, 16)
        unit_of_scales, largest_value = reals[0], real(reals[1])
        # Exponents in place, as fields of the bits of a float, and mantissa bits that are dropped.
        lowest_field = integer(integer(emin + bias) << mantissa_bits)
        sub_lowest_field = integer(integer(sub_emin + bias) << mantissa_bits)
        drop, sub_drop = integer(mantissa_bits - mantissa), integer(mantissa_bits - sub_mantissa)
        code_mask = np.int32((1 << code_width) - 1)
        sign_bit = np.int32(1 << (code_width - 1))
        segment = max(width // segments, 1)  # none are of no width
        top, other, found = np.empty(width, place), np.empty(width, place), np.empty(width, place)
        chosen = np.empty(width, np.uint8)
        factor = np.empty(width, real)  # the reciprocal of the scale, or a scale with a mantissa
        scale = np.empty(width, real)
        for o in range(outer):
            for first in range(0, height, rows):
                last = min(first + rows, height)
                tiles = _largest(
                    bits[o, first:last], magnitude_mask, top, other, found, segment, columns, inner
                )
                special = False
                for tile in range(tiles):
                    if half:
                        field = np.int32(np.int32(found[tile]) << 13).view(np.float32)
                        amax = np.float32(field * from_half).view(np.int32)
                    elif brain:
                        amax = np.int32(np.int32(found[tile]) << 16)
                    else:
                        amax = found[tile]
                    if found[tile] >= infinity:
                        byte = nan_scale
                        special = True
                    elif divided:
                        magnitude = np.float64(stored_place(amax).view(stored))
                        byte = _with_mantissa(magnitude, unit_of_scales, scale_fmt)
                    else:
                        byte = _power_of_two(amax, fraction_mask, stored_bits, carry, offset - emax)
                    chosen[tile] = byte
                if not fused:
                    scales[o, first // rows, :tiles] = chosen[:tiles]
                if not runs:
                    _spread(factors, chosen, factor, segment, columns, inner)
                    if fused:
                        _spread(powers, chosen, scale, segment, columns, inner)
                for r in range(first, last):
                    for tile in range(tiles if runs else 1):
                        left = tile * columns if runs else 0
                        right = min(left + columns, width) if runs else width
                        line, out = bits[o, r, left:right], results[o, r, left:right]
                        own, power = factors[chosen[tile]], powers[chosen[tile]]
                        for c in range(line.size):  # from 0 on, so the loop vectorises
                            sign = line[c]
                            by = own if runs else factor[c]
                            magnitude_bits = place(sign & magnitude_mask)
                            if half:
                                field = np.int32(np.int32(magnitude_bits) << 13).view(np.float32)
                                magnitude = real(np.float32(field * from_half))
                            elif brain:
                                magnitude = real(
                                    np.int32(np.int32(magnitude_bits) << 16).view(np.float32)
                                )
                            else:
                                magnitude = real(magnitude_bits.view(stored))
                            relative = _quotient(magnitude, by) if divided else real(magnitude * by)
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
                                    whole += real(exact - whole >= half_unit)
                                elif rounding == "sr":
                                    chance = np.float64(exact - whole) * two_to_32
                                    whole += real(np.float64(words[o, r, left + c]) < chance)
                                quanta = integer(whole)
                                rounded = real(whole * real(unit.view(real) / two_to_mantissa))
                            if fused:
                                times = power if runs else scale[c]
                                value = stored(min(rounded, largest_value) * times)
                                if half:
                                    signed = _half(value)
                                elif brain:
                                    signed = _brain(value)
                                else:
                                    signed = value.view(place)
                                if not complement or value != 0:  # which has no -0
                                    signed = place(signed | (sign & ~magnitude_mask))
                                out[c] = signed
                            else:
                                steps = integer(field - lowest) >> (dropped & shift_mask)
                                code = min(np.int32(quanta + steps), largest)
                                minus = np.int32(sign >> sign_shift)
                                code = (
                                    ((code ^ minus) - minus) & code_mask
                                    if complement
                                    else code | (minus & sign_bit)
                                )
                                out[c] = np.uint8(code)
                if special and not fused:
                    kept = np.full(256, 255, np.uint8)
                    kept[nan_scale] = 0
                    mask = np.empty(width, np.uint8)
                    _spread(kept, chosen, mask, segment, columns, inner)
                    for r in range(first, last):
                        for c in range(width):
                            results[o, r, c] &= mask[c]

    return kernel


@lru_cache(maxsize=16)
def _short_kernel(kind: str, length: int, fused: bool) -> Callable[..., None]:
    """Kernel for elements of eight magnitudes under scales with a mantissa, in rows of a length.

    Nothing is divided: `_limits` has the least number of each code, as bits that ascend with it.
    """
    half, brain = kind == "float16", kind == "bfloat16"
    place: Any = _PLACES[kind]
    stored: Any = np.float64 if kind == "float64" else np.float32
    mask, infinity = place(np.iinfo(place).max), place(_infinity(kind))
    sign_shift = 8 * np.dtype(place).itemsize - 4
    group = 64  # rows whose scales are found side by side
    table = numba.from_dtype(np.dtype(place))[:, ::1]

    @_jit(_INTEGERS, numba.float64[::1], table, table, *[_ADDRESS] * 4)
    def kernel(
        integers: Any,
        reals: Any,
        limits: Any,
        levels: Any,
        of_numbers: int,
        of_words: int,  # none is taken
        of_scales: int,
        of_results: int,
    ) -> None:
        nan_scale, scale_fmt, unit_of_scales = integers[8], _binades_from(integers, 10), reals[0]
        many_rows = integers[0] * integers[1] * integers[2] // length
        bits = _array(of_numbers, (many_rows, length), place)
        values = _array(of_results, (many_rows, length), place)
        codes = _array(of_results, (many_rows, length), np.uint8)
        scales = _array(of_scales, many_rows, np.uint8)
        once, twice = np.empty(group * length, place), np.empty(group * length, place)
        largest = np.empty(group, place)
        chosen, flat = np.empty(group, np.int64), bits.reshape(-1)
        for first in range(0, len(bits), group):
            many = min(group, len(bits) - first)
            part = flat[first * length : (first + many) * length]
            _largest_of_runs(part, mask, length, once, twice, largest)
            for row in range(many):
                amax = place(largest[row])
                if half:
                    field = np.int32(np.int32(amax) << 13).view(np.float32)
                    top = np.float64(np.float32(field * np.float32(2.0**112)))
                elif brain:
                    top = np.float64(np.int32(np.int32(amax) << 16).view(np.float32))
                else:
                    top = np.float64(place(amax).view(stored))
                byte = np.int64(_with_mantissa(top, unit_of_scales, scale_fmt))
                chosen[row] = byte if amax < infinity else np.int64(nan_scale)
            for row in range(many):
                line, limit, level = bits[first + row], limits[chosen[row]], levels[chosen[row]]
                l1, l2, l3, l4 = limit[0], limit[1], limit[2], limit[3]
                l5, l6, l7 = limit[4], limit[5], limit[6]
                if fused:
                    v0, v1, v2, v3 = level[0], level[1], level[2], level[3]
                    v4, v5, v6, v7 = level[4], level[5], level[6], level[7]
                    out = values[first + row]
                    for i in range(length):
                        magnitude = place(line[i] & mask)
                        value = v1 if magnitude >= l1 else v0
                        value = v2 if magnitude >= l2 else value
                        value = v3 if magnitude >= l3 else value
                        value = v4 if magnitude >= l4 else value
                        value = v5 if magnitude >= l5 else value
                        value = v6 if magnitude >= l6 else value
                        value = v7 if magnitude >= l7 else value
                        out[i] = place(value | (line[i] & ~mask))
                else:
                    own = codes[first + row]
                    scales[first + row] = chosen[row]
                    kept = place(0 if chosen[row] == nan_scale else 15)
                    for i in range(length):
                        magnitude = place(line[i] & mask)
                        code = place(place(magnitude >= l1) + place(magnitude >= l2))
                        code = place(code + place(magnitude >= l3))
                        code = place(code + place(magnitude >= l4))
                        code = place(code + place(magnitude >= l5))
                        code = place(code + place(magnitude >= l6))
                        code = place(code + place(magnitude >= l7))
                        own[i] = np.uint8((code | place((line[i] >> sign_shift) & 8)) & kept)

    return kernel


def _are_rows(shape: tuple[int, ...], columns: tuple[int, int], tile: tuple[int, int]) -> bool:
    """Whether tiles are whole rows of one length."""
    return columns == (1, 1) and tile[0] == 1 and tile[1] in _RUNS and shape[2] % tile[1] == 0


@lru_cache(maxsize=16)
def _dequantize_kernel(kind: str, runs: bool, tables: str) -> Callable[..., None]:
    """Kernel that writes bits of a dtype; with `runs`, blocks run along columns.

    It multiplies what two tables have for codes, in their dtype.
    """
    half, brain = kind == "float16", kind == "bfloat16"
    stored: Any = np.float64 if kind == "float64" else np.float32
    stored_place: Any = np.int64 if kind == "float64" else np.int32

    place: Any = _PLACES[kind]
    of_table = numba.from_dtype(np.dtype(tables))[::1]

    @_jit(_INTEGERS, of_table, of_table, *[_ADDRESS] * 3)
    def kernel(
        integers: Any, table: Any, powers: Any, of_codes: int, of_scales: int, of_values: int
    ) -> None:
        outer, height, width = integers[0], integers[1], integers[2]
        segments, inner, rows, columns = integers[3], integers[4], integers[5], integers[6]
        shape, blocks = _shapes(integers)
        codes, scales = _array(of_codes, shape, np.uint8), _array(of_scales, blocks, np.uint8)
        values = _array(of_values, shape, place)
        step = columns if runs else max(width, 1)
        segment = max(width // segments, 1)
        scale, rounded_later = np.empty(width, table.dtype), np.empty(width, stored_place)
        for o in range(outer):
            for r in range(height):
                row = rounded_later if half or brain else values[o, r]
                tiles = scales[o, r // rows]
                if not runs and r % rows == 0:
                    _spread(powers, tiles, scale, segment, columns, inner)
                for left in range(0, width, step):
                    line, out = codes[o, r, left : left + step], row[left : left + step]
                    power = powers[tiles[left // step if runs else 0]]
                    for c in range(line.size):  # from 0 on, so the loop vectorises
                        value = stored(table[line[c]] * (power if runs else scale[c]))
                        out[c] = value.view(stored_place)
                if half or brain:  # in a loop of its own, which vectorises
                    for c in range(width):
                        bits = row[c]
                        magnitude = np.int32(bits & 0x7FFFFFFF).view(np.float32)
                        sign = np.int16(np.int32(bits >> 31) << 15)
                        short = _half(magnitude) if half else _brain(magnitude)
                        values[o, r, c] = np.int16(short | sign)

    return kernel


@lru_cache(maxsize=4)
def _peak_kernel(kind: str) -> Callable[..., None]:
    """Kernel that writes the bits of the largest finite magnitude of a run of numbers."""
    place: Any = _PLACES[kind]
    mask, infinity = place(np.iinfo(place).max), place(_infinity(kind))

    @_jit(_ADDRESS, _ADDRESS, _ADDRESS)
    def kernel(of_numbers: int, size: int, of_result: int) -> None:
        bits, out = _array(of_numbers, size, place), _array(of_result, 1, place)
        largest = place(0)
        for i in range(bits.size):
            magnitude = place(bits[i] & mask)
            largest = max(largest, magnitude if magnitude < infinity else place(0))
        out[0] = largest

    return kernel


def largest_magnitude(x: NDArray[Any]) -> float:
    """Largest finite magnitude, or 0, as `mxsafe.codec.blocks` finds it."""
    kind, bits = _bits(x)
    out = np.zeros(1, bits.dtype)
    _peak_kernel(kind)(_address(bits), bits.size, _address(out))
    if kind == "bfloat16":
        out = out.astype(np.int32) << 16
    return float(out.view(f"f{out.itemsize}")[0])


def _bits(x: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """Name of the dtype of an array, and its bits as integers, contiguous."""
    shorts = bfloat16_bits(x)
    if shorts is not None:
        return "bfloat16", np.ascontiguousarray(shorts, np.uint16).view(np.int16)
    native = x
    if not (x.flags.c_contiguous and x.dtype.isnative):
        native = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
    kind = _KINDS[native.dtype.char]
    return kind, native.view(_PLACES[kind])


def _infinity(kind: str) -> int:
    """Bits of Inf."""
    if kind == "bfloat16":
        return 0x7F80
    return int(np.array(np.inf, kind).view(f"i{np.dtype(kind).itemsize}"))


def _is_short(fmt: MXFormat) -> bool:
    """Whether scales have a mantissa and elements eight magnitudes: comparing is soonest."""
    element = fmt.element
    if isinstance(fmt.scale, ScaleFormat) or not isinstance(element, FloatFormat):
        return False
    return element.sub is None and element.max_magnitude == 7


@lru_cache(maxsize=8)
def _limits(
    fmt: MXFormat, rounding: str, tensor_scale: float, kind: str
) -> NDArray[np.integer[Any]]:
    """Bits of the least number of a dtype that has each code or one above it, under each scale.

    An element is at least code k if its magnitude lies above a point between two values, times the
    scale, or on that point where a tie goes up. The products are exact, so the bits are.
    """
    values = elements.magnitudes(fmt.element)
    points = values[1:] if rounding == "rtz" else (values[1:] + values[:-1]) / 2
    above = np.arange(len(points)) % 2 == 0 if rounding == "rne" else np.zeros(len(points), bool)
    scales = _scale_table(fmt, tensor_scale)
    exact = points[:, None] * np.where(scales > 0, scales, np.inf)
    with np.errstate(over="ignore", under="ignore"):
        near = exact.astype(np.float32 if kind == "bfloat16" else kind)
    bits = near.view(f"i{near.itemsize}")
    bits = bits + ((near < exact) | (above[:, None] & (near == exact)))
    bits = (bits + 0xFFFF >> 16).astype(np.int16) if kind == "bfloat16" else bits
    return np.ascontiguousarray(bits.T)


@lru_cache(maxsize=8)
def _levels(fmt: MXFormat, tensor_scale: float, kind: str) -> NDArray[np.integer[Any]]:
    """Bits of the value of each magnitude code under each scale."""
    exact = _scale_table(fmt, tensor_scale)[:, None] * elements.magnitudes(fmt.element)
    with np.errstate(over="ignore", under="ignore"):
        values = exact if kind == "float64" else exact.astype(np.float32)
        if kind != "bfloat16":
            return values.astype(kind).view(f"i{np.dtype(kind).itemsize}")
    bits = values.view(np.int32)
    return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.int16)


@lru_cache(maxsize=4)
def _powers(single: bool, sign: int) -> NDArray[Any]:
    """Scale, or with `sign` -1 its reciprocal, of every scale byte; some reciprocal for NaN."""
    exponents = sign * (np.arange(E8M0.nan_code, dtype=np.int32) - E8M0.bias)
    powers = np.ldexp(np.float32(1) if single else np.float64(1), exponents)
    return np.append(powers, powers.dtype.type(np.nan) if sign == 1 else powers[-1])


@lru_cache(maxsize=64)
def _table(element: elements.Element, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Value of every byte, so that no code is beyond the end: NaN above the codes of a format."""
    table = np.full(1 << 8, np.nan)
    values = elements.code_values(element)
    table[: values.size] = values
    return table.astype(dtype)


Call = Callable[..., None]
"""A kernel for a task and a shape: it takes addresses of contiguous memory."""


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
    kind, bits = _bits(x)
    call = quantizer(x.shape, lengths, kind, fmt, rounding, scale_mode, tensor_scale)
    _run(call, (bits, words), (scales, codes))


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
    kind = _KINDS.get(values.dtype.char, "bfloat16")
    call = dequantizer(codes.shape, lengths, kind, fmt, tensor_scale)
    _run(call, (codes, scales), (values,))


def _run(
    call: Call, given: Sequence[NDArray[Any] | None], out: Sequence[NDArray[Any] | None]
) -> None:
    """Call a kernel with arrays that it reads and writes, or copies in C order."""
    read = [None if array is None else np.ascontiguousarray(array) for array in given]
    written = [
        array if array is None or array.flags.c_contiguous else np.empty_like(array, order="C")
        for array in out
    ]
    call(*map(_address, (*read, *written)))
    for array, result in zip(out, written, strict=True):
        if array is not None and array is not result:
            array[...] = result


def _address(array: NDArray[Any] | None) -> int:
    return 0 if array is None else array.ctypes.data


def _five_axes(
    shape: tuple[int, ...], lengths: tuple[int, ...]
) -> tuple[tuple[int, int, int], tuple[int, int], tuple[int, int]]:
    """Shape (outer, rows, columns), rows and columns of a tile, and segments and inner elements.

    As `mxsafe.codec._parts.three_axes`, for tiles of any two axes.
    """
    along = [axis for axis, length in enumerate(lengths) if length > 1]
    if len(along) < 2:
        flat, tile = _parts.three_axes(shape, lengths)
        return flat, tile, (1, 1)
    first, second = along
    outer, segments = math.prod(shape[:first]), math.prod(shape[first + 1 : second])
    inner = math.prod(shape[second + 1 :])
    flat = (outer, shape[first], segments * shape[second] * inner)
    return flat, (lengths[first], lengths[second]), (segments, inner)


@lru_cache(maxsize=1024)
def quantizer(
    shape: tuple[int, ...],
    lengths: tuple[int, ...],
    kind: str,
    fmt: MXFormat,
    rounding: str,
    scale_mode: str,
    tensor_scale: float = 1.0,
    fused: bool = False,
) -> Call:
    """Call that quantises contiguous tensors of a dtype and a shape; see `quantize_part`.

    It takes the addresses of numbers, of random words, of scales and of codes; with `fused`, those
    of values, in the dtype of the numbers, stand for those of codes.
    """
    tables: tuple[NDArray[Any], NDArray[Any]]
    flat, tile, columns = _five_axes(shape, lengths)
    sizes = (*flat, *columns, *tile)
    if _is_short(fmt) and rounding != "sr" and _are_rows(flat, columns, tile):
        kernel = _short_kernel(kind, tile[1], fused)
        tables = _limits(fmt, rounding, tensor_scale, kind), _levels(fmt, tensor_scale, kind)
    else:
        runs = columns == (1, 1) and tile[1] >= min(_RUNS)
        complement, divided = isinstance(fmt.element, IntFormat), isinstance(fmt.scale, FloatFormat)
        kernel = _kernel(kind, rounding, complement, fused, divided, runs)
        if divided:
            powers = _scale_table(fmt, tensor_scale)
            tables = np.where(powers > 0, powers, np.inf), powers
        else:
            single = kind != "float64" and rounding != "sr"
            tables = _powers(single, -1), _powers(single, 1)
    carry = _carry_mantissa(fmt, scale_mode, 52 if kind == "float64" else 23)
    of_scales = fmt.scale if isinstance(fmt.scale, FloatFormat) else fmt.element
    parts = (*sizes, fmt.emax, fmt.nan_scale, carry, *_binades(of_scales), *_binades(fmt.element))
    largest = fmt.element.max_value
    # Two arrays are handed over four times as fast as so many numbers.
    integers, reals = np.array(parts, np.int64), np.array([largest * tensor_scale, largest])
    return partial(kernel, integers, reals, *tables)


@lru_cache(maxsize=1024)
def dequantizer(
    shape: tuple[int, ...],
    lengths: tuple[int, ...],
    kind: str,
    fmt: MXFormat,
    tensor_scale: float = 1.0,
) -> Call:
    """Call that dequantises contiguous tensors of a shape to a dtype; see `dequantize_part`.

    It takes the addresses of codes, of scales and of values.
    """
    flat, tile, columns = _five_axes(shape, lengths)
    if isinstance(fmt.scale, ScaleFormat):
        powers = _powers(kind != "float64", 1)
    else:
        powers = _scale_table(fmt, tensor_scale)
    runs = columns == (1, 1) and tile[1] >= min(_RUNS)
    kernel = _dequantize_kernel(kind, runs, powers.dtype.char)
    table = _table(fmt.element, powers.dtype)
    return partial(kernel, np.array([*flat, *columns, *tile], np.int64), table, powers)


def _scale_table(fmt: MXFormat, tensor_scale: float) -> NDArray[np.float64]:
    """Scales with a mantissa, by bytes, times that of the tensor; exact, and NaN for no scale."""
    table = np.full(1 << 8, np.nan)
    table[: fmt.nan_scale + 1] = scale_values(np.arange(fmt.nan_scale + 1), fmt.scale)
    return table * tensor_scale


def _is_transposed(array: NDArray[Any]) -> bool:
    """Whether a matrix lies column by column in memory; walking it by rows would be slow."""
    return array.ndim == 2 and abs(array.strides[0]) < abs(array.strides[1])
