"""Matrix product as the array computes it, bit for bit."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import e8m0, elements
from mxsafe.codec._inputs import choice
from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.formats import FP12_E4M7, require_power_of_two, require_sum_range
from mxsafe.model.accumulate import canonical
from mxsafe.model.safe_mac import partial_sums

__all__ = ["Arithmetic", "inner_block", "matmul"]

Arithmetic = Literal["fp12", "exact"]
ARITHMETICS = ("fp12", "exact")


def _own_block(q: QuantizedTensor, name: str, inner: int) -> int:
    """Block length of one operand along the inner dimension, or a clear error."""
    if not isinstance(q, QuantizedTensor):
        raise TypeError(f"{name} must be a QuantizedTensor, not {type(q).__name__}")
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


def inner_block(
    a: QuantizedTensor, w: QuantizedTensor, *, arithmetic: Arithmetic, lanes: int
) -> int:
    """Block length in k of two operands that fit each other and the arithmetic.

    Raises
    ------
    TypeError, ValueError
        If ranks, shapes, formats or blocks do not fit each other, or `lanes` does not divide the
        length for ``fp12``; the message gives both.
    """
    choice("arithmetic", arithmetic, ARITHMETICS)
    block_a, block_w = _own_block(a, "a", -1), _own_block(w, "w", -2)
    if a.shape[1] != w.shape[0]:
        raise ValueError(f"w must have the {a.shape[1]} rows that a has columns, not {w.shape[0]}")
    if a.format != w.format:
        raise ValueError(f"w must have the format {a.format.name} of a, not {w.format.name}")
    if block_a != block_w:
        raise ValueError(f"w must have blocks of {block_a} in k like a, not {block_w}")
    if arithmetic == "fp12" and block_a % lanes:
        raise ValueError(f"lanes must divide the block length {block_a} in k, not {lanes}")
    return block_a


def matmul(
    a: QuantizedTensor,
    w: QuantizedTensor,
    *,
    arithmetic: Arithmetic = "fp12",
    lanes: int = 4,
) -> NDArray[np.float32]:
    """Matrix product of two quantised matrices, bit for bit what the systolic array produces.

    Parameters
    ----------
    a : QuantizedTensor of shape (M, K)
        Blocks along the last axis, or tiles.
    w : QuantizedTensor of shape (K, N)
        Blocks along the first axis, or tiles, of the same length in k as those of `a`.
    arithmetic : {"fp12", "exact"}
        ``fp12``, the paper's: `lanes` products at a time through the FP12 adder tree, then scale
        and FP32 accumulate. ``exact``: integers within a block, scale and FP32 add once a block.
    lanes : int
        Products that the FP12 adder tree takes at a time, a power of two; no influence on
        ``exact``.

    Returns
    -------
    ndarray of float32, shape (M, N)
        Sums in ascending order of k. Every NaN is ``0x7fc00000``.

    Raises
    ------
    TypeError
        If an operand is not a QuantizedTensor.
    ValueError
        If ranks, shapes, formats or blocks do not fit each other; the message gives both.
    """
    lanes = require_power_of_two("lanes", lanes)
    block = inner_block(a, w, arithmetic=arithmetic, lanes=lanes)
    if arithmetic == "fp12":
        require_sum_range(a.format, lanes, FP12_E4M7)

    if arithmetic == "exact":
        element = a.format.element
        bits = 2 * (element.emax + 1 - element.quantum_exponent) + (block - 1).bit_length()
        if bits > 53:
            raise ValueError(
                f"the sum of a block of {block} products of {a.format.name} must have at most "
                f"53 bits for arithmetic 'exact', not {bits}"
            )
    result = np.zeros((a.shape[0], w.shape[1]), np.float32)
    chunk = max(_CHUNK // block, 1) * block
    for top in range(0, a.shape[0], _ROWS):
        for left in range(0, w.shape[1], _COLUMNS):
            tile = result[top : top + _ROWS, left : left + _COLUMNS]
            for k in range(0, a.shape[1], chunk):
                part_a = _part(a, slice(top, top + _ROWS), slice(k, k + chunk))
                part_w = _part(w, slice(k, k + chunk), slice(left, left + _COLUMNS))
                if arithmetic == "exact":
                    _accumulate_blocks(tile, part_a, part_w, block)
                else:
                    _accumulate_lanes(tile, part_a, part_w, lanes)
    return canonical(result)


# The result is made in tiles that a core's cache holds, from a stretch of the inner dimension that
# is decoded at a time: beside the result, memory does not grow with the matrices.
_ROWS, _COLUMNS = 64, 512
_CHUNK = 512


class _Part(NamedTuple):
    """A rectangle of an operand: element values, and the scale of each."""

    values: NDArray[np.float32]
    scales: NDArray[np.float64]


def _part(q: QuantizedTensor, rows: slice, columns: slice) -> _Part:
    scales = e8m0.decode(q.element_scales(rows, columns)).astype(np.float64)
    return _Part(elements.decode(q.codes[rows, columns], q.format), scales)


def _accumulate_blocks(tile: NDArray[np.float32], a: _Part, w: _Part, block: int) -> None:
    """``tile (+)= f32(sum * X)`` for each block: arithmetic `exact`.

    The scales go into the operands. All products of a block then share the factor X, so their sum
    is an integer below 2^53 times a power of two, exact in whatever order BLAS adds.
    """
    scaled_a, scaled_w = a.values * a.scales, w.values * w.scales
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, scaled_a.shape[1], block):
            tile += (scaled_a[:, k : k + block] @ scaled_w[k : k + block]).astype(np.float32)


def _accumulate_lanes(tile: NDArray[np.float32], a: _Part, w: _Part, lanes: int) -> None:
    """``tile (+)= f32(partial * X)`` for every few products: arithmetic `fp12`."""
    missing = -a.values.shape[1] % lanes
    columns_a = np.pad(a.values, ((0, 0), (0, missing))).T[:, :, None]
    rows_w = np.pad(w.values, ((0, missing), (0, 0)))[:, None, :]
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, a.values.shape[1], lanes):
            partial = partial_sums(list(columns_a[k : k + lanes]), list(rows_w[k : k + lanes]))
            scale = a.scales[:, k, None] * w.scales[k]
            tile += (partial * scale).astype(np.float32)
