"""Matrix product as the array computes it, bit for bit."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._subnormals import subnormals
from mxsafe.codec.blocks import Quantized, QuantizedTensor
from mxsafe.formats import MXFormat
from mxsafe.model.accumulate import canonical
from mxsafe.model.sums import FLOAT64_BITS, Decoded, Exact, Fp12, Place, Sums, WideExact
from mxsafe.model.window import Window
from mxsafe.products import DEFAULT_INNER, DEFAULT_WINDOW, OperandFormats, require_float
from mxsafe.validation import (
    AlikePower,
    PositiveInteger,
    about,
    checked,
    other_than,
)

__all__ = ["Arithmetic", "ProductArithmetic", "inner_block", "matmul"]

Arithmetic = Literal["fp12", "exact"]
"""Arithmetics whose sums are binary32; that of bfloat16 operands is `mxsafe.model.bf16`."""
ARITHMETICS = ("fp12", "exact")
ProductArithmetic = Literal["fp12", "exact", "window"]
"""All arithmetics of MX formats; for ``window`` see `mxsafe.model.window`."""

_ROWS, _COLUMNS = 64, 512
"""Of a tile of the result that is made at a time."""
_CHUNK = 512
"""Of the inner dimension, decoded at a time."""


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
    block = inner_block(a, w, arithmetic=arithmetic, lanes=lanes)
    if arithmetic == "window":
        if start is not None:
            raise ValueError("start must be None for arithmetic window, not an array")
    else:
        for name, value in (("window", window), ("inner", inner)):
            if value is not None:
                raise ValueError(f"{name} must be None for arithmetic {arithmetic}, not {value}")
        start = _start(start, (a.shape[0], w.shape[1]))
    sums: Sums
    if arithmetic == "window":
        sums = Window(
            a,
            w,
            block=block,
            window=DEFAULT_WINDOW if window is None else window,
            inner=DEFAULT_INNER if inner is None else inner,
        )
    elif arithmetic == "fp12":
        sums = Fp12(start, lanes, OperandFormats(a.format, w.format).fp12_format(lanes))
    else:
        sums = _exact(a, w, block, start)
    return canonical(_with_tensor_scales(_product(a, w, block, sums), a, w))


@checked
def fits_float64(format: MXFormat, block: PositiveInteger) -> bool:
    """Whether float64 holds the sum of a block of products of one format, with its scales."""
    formats = OperandFormats(format, format)
    scales = 2 * (format.scale.precision - 1)
    return not format.tensor_scale and formats.sum_bits(block) + scales <= FLOAT64_BITS


def _start(start: NDArray[np.float32] | None, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """Sums to begin with, if there are any."""
    if start is not None and (start.dtype != np.float32 or start.shape != shape):
        raise ValueError(
            f"start must be of float32 and shape {shape}, not {start.dtype} of {start.shape}"
        )
    return start


def _exact(
    a: QuantizedTensor, w: QuantizedTensor, block: int, start: NDArray[np.float32] | None
) -> Sums:
    """Arithmetic ``exact``, by float64 where that holds the sum of a block."""
    formats = OperandFormats(a.format, w.format)
    with about(products="a"):
        formats.sum_bits(block)
    # Scales with a mantissa lengthen the sum that is rounded.
    scales = sum(q.format.scale.precision - 1 for q in (a, w))
    bits = formats.sum_bits(max(min(block, a.shape[1]), 1))
    if bits + scales <= FLOAT64_BITS:
        return Exact(start, block)
    if scales:
        raise ValueError(
            f"sums of {formats.label} must have at most {FLOAT64_BITS} bits with their "
            f"scales, not {bits + scales}"
        )
    return WideExact(start, block, formats)


def _product(a: QuantizedTensor, w: QuantizedTensor, block: int, sums: Sums) -> NDArray[np.float32]:
    """The product in tiles that a core's cache holds.

    A stretch of the inner dimension is decoded at a time: beside the result, memory does not grow
    with the matrices.
    """
    result = np.empty((a.shape[0], w.shape[1]), np.float32)
    chunk = max(_CHUNK // block, 1) * block
    for top in range(0, a.shape[0], _ROWS):
        for left in range(0, w.shape[1], _COLUMNS):
            place = Place(slice(top, top + _ROWS), slice(left, left + _COLUMNS))
            tile = sums.begin(place, result[place].shape)
            for start in range(0, a.shape[1], chunk):
                k = slice(start, start + chunk)
                sums.add(
                    tile, Decoded.of(a, place.rows, k, 1), Decoded.of(w, k, place.columns, 0), place
                )
            result[place] = sums.result(tile, place)
    return result


def _with_tensor_scales(
    result: NDArray[np.float32], a: QuantizedTensor, w: QuantizedTensor
) -> NDArray[np.float32]:
    """Sums times the scales that whole tensors have, rounded once."""
    factors = [float(q.tensor_scale) for q in (a, w) if q.tensor_scale is not None]
    if not factors:
        return result
    with np.errstate(over="ignore", under="ignore"):
        return (result.astype(np.float64) * math.prod(factors)).astype(np.float32)
