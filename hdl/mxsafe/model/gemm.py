"""Matrix product as the array computes it, bit for bit."""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import choice
from mxsafe.codec._scales import scale_values
from mxsafe.codec._subnormals import subnormals
from mxsafe.codec.blocks import Quantized, QuantizedTensor
from mxsafe.formats import FloatFormat, MXFormat, has_special_codes
from mxsafe.model.accumulate import canonical
from mxsafe.model.decoder import element_integers
from mxsafe.model.safe_mac import partial_sums
from mxsafe.model.window import window_matmul
from mxsafe.products import USUAL_INNER, USUAL_WINDOW, OperandFormats, require_float
from mxsafe.validation import (
    AlikePower,
    PositiveInteger,
    about,
    checked,
    other_than,
    require_power_of_two,
)

__all__ = ["Arithmetic", "ProductArithmetic", "inner_block", "matmul"]

Arithmetic = Literal["fp12", "exact"]
"""Arithmetics whose sums are binary32; that of bfloat16 operands is `mxsafe.model.bf16`."""
ARITHMETICS = ("fp12", "exact")
ProductArithmetic = Literal["fp12", "exact", "window"]
"""All arithmetics of MX formats; for ``window`` see `mxsafe.model.window`."""
PRODUCT_ARITHMETICS = (*ARITHMETICS, "window")


def _own_block(q: QuantizedTensor, name: str, inner: int) -> int:
    """Block length of one operand along the inner dimension, or a clear error."""
    if not isinstance(q, QuantizedTensor):
        raise TypeError(
            f"{name} must be a QuantizedTensor, not {other_than('a QuantizedTensor', q)}"
        )
    if q.codes.ndim != 2:
        raise ValueError(f"{name} must be a matrix, not a tensor of rank {q.codes.ndim}")
    if isinstance(q.block, tuple):
        return q.block[inner]
    if q.axis != inner:
        raise ValueError(
            f"{name} must have its blocks along axis {inner}, the inner dimension, "
            f"not along axis {q.axis}"
        )
    return q.block


@checked
def inner_block(
    a: QuantizedTensor, w: QuantizedTensor, *, arithmetic: ProductArithmetic, lanes: AlikePower
) -> int:
    """Block length in k of two operands that fit each other and the arithmetic.

    Raises
    ------
    TypeError, ValueError
        If ranks, shapes, formats or blocks do not fit each other, or `lanes` does not divide the
        length for ``fp12``; the message gives both.
    """
    choice("arithmetic", arithmetic, PRODUCT_ARITHMETICS)
    block_a, block_w = _own_block(a, "a", -1), _own_block(w, "w", -2)
    if a.shape[1] != w.shape[0]:
        raise ValueError(f"w must have the {a.shape[1]} rows that a has columns, not {w.shape[0]}")
    if block_a != block_w:
        raise ValueError(f"w must have blocks of {block_a} in k like a, not {block_w}")
    if arithmetic == "fp12":
        require_float("a", a.format)
        require_float("w", w.format)
    if arithmetic == "fp12" and block_a % lanes:
        raise ValueError(f"lanes must divide the block length {block_a} in k, not {lanes}")
    return block_a


@checked
@subnormals()
def matmul(
    a: Quantized,
    w: Quantized,
    *,
    arithmetic: ProductArithmetic = "fp12",
    lanes: AlikePower = 4,
    start: NDArray[np.float32] | None = None,
    window: int | None = None,
    inner: PositiveInteger | None = None,
) -> NDArray[np.float32]:
    """Matrix product of two quantised matrices, bit for bit what the systolic array produces.

    Parameters
    ----------
    a : QuantizedTensor of shape (M, K)
        Blocks along the last axis, or tiles.
    w : QuantizedTensor of shape (K, N)
        Of any format, the same as `a` or another. Blocks along the first axis, or tiles, of the
        same length in k as those of `a`.
    arithmetic : {"fp12", "exact", "window"}
        ``fp12``, the paper's: `lanes` products at a time through the FP12 adder tree, then scale
        and FP32 accumulate; floating-point elements only. ``exact``: integers within a block,
        scale and FP32 add once a block. ``window``: integers throughout, block sums aligned to the
        largest scales of their row and column, binary32 once at the end; see
        `mxsafe.model.window`.
    lanes : int
        Products that the FP12 adder tree takes at a time, a power of two, which with the format
        decides the tree's bias (`OperandFormats.fp12_format`); no influence on the others.
    start : ndarray of float32, shape (M, N), optional
        Sums of an earlier product that this one continues; by default zeros. Not for ``window``,
        whose sums are integers.
    window, inner : int, optional
        Only for ``window``: bits of an output's integer (by default 32), and most products that it
        holds (4,096).

    Returns
    -------
    ndarray of float32, shape (M, N)
        Sums in ascending order of k. Every NaN is ``0x7fc00000``. An element that is NaN or Inf
        (our quantiser makes none) counts as a NaN scale of its block in its row or column.

        Scales of tensors (NVFP4) count at the end: a sum times the product of both, which float64
        holds exactly, is rounded to float64 and then to float32.

    Raises
    ------
    TypeError
        If an operand is not a QuantizedTensor.
    ValueError
        If ranks, shapes, formats or blocks do not fit each other; the message gives both. Or if
        `start`, `window` or `inner` is given to an arithmetic that has none.
    """
    lanes = require_power_of_two("lanes", lanes)
    block = inner_block(a, w, arithmetic=arithmetic, lanes=lanes)
    if arithmetic == "window":
        if start is not None:
            raise ValueError("start must be None for arithmetic window, not an array")
        window = USUAL_WINDOW if window is None else window
        inner = USUAL_INNER if inner is None else inner
        return canonical(window_matmul(a, w, block=block, window=window, inner=inner))
    for name, value in (("window", window), ("inner", inner)):
        if value is not None:
            raise ValueError(f"{name} must be None for arithmetic {arithmetic}, not {value}")
    formats = OperandFormats(a.format, w.format)
    if arithmetic == "fp12":
        sum_format = formats.fp12_format(lanes)
    else:
        with about(products="a"):
            formats.sum_bits(block)
        # Scales with a mantissa lengthen the sum that is rounded.
        scales = sum(q.format.scale.precision - 1 for q in (a, w))
        bits = formats.sum_bits(max(min(block, a.shape[1]), 1))
        wide = bits > _FLOAT64_BITS
        if scales and bits + scales > _FLOAT64_BITS:
            raise ValueError(
                f"sums of {formats.label} must have at most {_FLOAT64_BITS} bits with their "
                f"scales, not {bits + scales}"
            )

    result = _start(start, (a.shape[0], w.shape[1]))
    chunk = max(_CHUNK // block, 1) * block
    for top in range(0, a.shape[0], _ROWS):
        for left in range(0, w.shape[1], _COLUMNS):
            tile = result[top : top + _ROWS, left : left + _COLUMNS]
            for k in range(0, a.shape[1], chunk):
                part_a = _part(a, slice(top, top + _ROWS), slice(k, k + chunk), 1)
                part_w = _part(w, slice(k, k + chunk), slice(left, left + _COLUMNS), 0)
                if arithmetic == "fp12":
                    _accumulate_lanes(tile, part_a, part_w, lanes, sum_format)
                elif wide:
                    _accumulate_wide_blocks(tile, part_a, part_w, block, formats)
                else:
                    _accumulate_blocks(tile, part_a, part_w, block)
    factors = [float(q.tensor_scale) for q in (a, w) if q.tensor_scale is not None]
    if factors:
        with np.errstate(over="ignore", under="ignore"):
            result = (result.astype(np.float64) * math.prod(factors)).astype(np.float32)
    return canonical(result)


def _start(start: NDArray[np.float32] | None, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Sums to begin with."""
    if start is None:
        return np.zeros(shape, np.float32)
    if start.dtype != np.float32 or start.shape != shape:
        raise ValueError(
            f"start must be of float32 and shape {shape}, not {start.dtype} of {start.shape}"
        )
    return start.copy()


# The result is made in tiles that a core's cache holds, from a stretch of the inner dimension that
# is decoded at a time: beside the result, memory does not grow with the matrices.
_ROWS, _COLUMNS = 64, 512
_CHUNK = 512


_FLOAT64_BITS = 53


class _Part(NamedTuple):
    """A rectangle of an operand: format, element codes, their values, and the scale of each."""

    format: MXFormat
    codes: NDArray[np.uint8]
    values: NDArray[np.float32]
    scales: NDArray[np.float64]


def _part(q: QuantizedTensor, rows: slice, columns: slice, inner: int) -> _Part:
    """Decode a rectangle; NaN and Inf become zeros in a stretch whose scale is NaN."""
    codes = q.codes[rows, columns]
    scales = scale_values(q.element_scales(rows, columns), q.format.scale)
    values = elements.decode(codes, q.format)
    if has_special_codes(q.format):
        special = ~np.isfinite(values)
        # The whole stretch instead of the block alone: the accumulators stay NaN anyway.
        scales[np.broadcast_to(special.any(axis=inner, keepdims=True), scales.shape)] = np.nan
        values[special] = 0
    return _Part(q.format, codes, values, scales)


def _accumulate_blocks(tile: NDArray[np.float32], a: _Part, w: _Part, block: int) -> None:
    """``tile (+)= f32(sum * X)`` for each block: arithmetic `exact`.

    The scales go into the operands. All products of a block then share the factor X, so their sum
    is an integer below 2^53 times a power of two, exact in whatever order BLAS adds.
    """
    scaled_a, scaled_w = a.values * a.scales, w.values * w.scales
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, scaled_a.shape[1], block):
            tile += (scaled_a[:, k : k + block] @ scaled_w[k : k + block]).astype(np.float32)


def _accumulate_wide_blocks(
    tile: NDArray[np.float32], a: _Part, w: _Part, block: int, formats: OperandFormats
) -> None:
    """The same for sums that float64 does not hold: low and high bits apart, joined afterwards.

    Some bits of one operand times some of the other have so few bits that BLAS adds many of their
    products exactly; more are added in turns, as integers. The joined sum is rounded to float64
    towards the odd neighbour, after which rounding it to float32 rounds it as a whole (Boldo and
    Melquiond, "When double rounding is odd", 2005).
    """
    widest = max(formats.element_bits("a"), formats.element_bits("w"))
    half = -(-widest // 2)
    turn = 1 << max(_FLOAT64_BITS - 2 * half, 0)  # products of such parts that BLAS adds exactly
    low_a, high_a = _low_and_high(element_integers(a.codes, a.format), half)
    low_w, high_w = _low_and_high(element_integers(w.codes, w.format), half)
    quantum = 2.0**formats.quantum_exponent
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, a.codes.shape[1], block):
            low, middle, high = (np.zeros(tile.shape, np.int64) for _ in range(3))
            for start in range(k, min(k + block, a.codes.shape[1]), turn):
                stop = min(start + turn, k + block)
                i, j = np.s_[:, start:stop], np.s_[start:stop]
                low += (low_a[i] @ low_w[j]).astype(np.int64)
                middle += (high_a[i] @ low_w[j]).astype(np.int64)
                middle += (low_a[i] @ high_w[j]).astype(np.int64)
                high += (high_a[i] @ high_w[j]).astype(np.int64)
            low += (middle & (1 << half) - 1) << half
            high += (middle >> half) + (low >> 2 * half)
            low &= (1 << 2 * half) - 1
            total = _rounded_to_odd(np.ldexp(high.astype(np.float64), 2 * half), low)
            scale = a.scales[:, k, None] * w.scales[k]
            tile += (total * quantum * scale).astype(np.float32)


def _low_and_high(
    integers: NDArray[np.int64], half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The low bits of integers, not negative, and those above them, with the sign."""
    low = integers & (1 << half) - 1
    return low.astype(np.float64), (integers >> half).astype(np.float64)


def _rounded_to_odd(high: NDArray[np.float64], low: NDArray[np.int64]) -> NDArray[np.float64]:
    """``high + low`` in float64; what lies between two numbers becomes the odd one of them.

    `high` is a multiple of a power of two above every `low`, which is not negative.
    """
    addend = low.astype(np.float64)
    total = high + addend
    error = addend - (total - high)
    moved = np.nextafter(total, np.copysign(np.inf, error))
    even = total.view(np.int64) & 1 == 0
    return np.where((error != 0) & even, moved, total)


def _accumulate_lanes(
    tile: NDArray[np.float32], a: _Part, w: _Part, lanes: AlikePower, sum_format: FloatFormat
) -> None:
    """``tile (+)= f32(partial * X)`` for every few products: arithmetic `fp12`."""
    missing = -a.values.shape[1] % lanes
    columns_a = np.pad(a.values, ((0, 0), (0, missing))).T[:, :, None]
    rows_w = np.pad(w.values, ((0, missing), (0, 0)))[:, None, :]
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, a.values.shape[1], lanes):
            partial = partial_sums(
                list(columns_a[k : k + lanes]), list(rows_w[k : k + lanes]), sum_format
            )
            scale = a.scales[:, k, None] * w.scales[k]
            tile += (partial * scale).astype(np.float32)
