"""Matrix product as the array computes it, bit for bit."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import choice
from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.model.accumulate import scale_and_accumulate
from mxsafe.model.safe_mac import partial_sums

__all__ = ["Arithmetic", "matmul"]

Arithmetic = Literal["fp12", "exact"]
ARITHMETICS = ("fp12", "exact")


def _inner_block(q: QuantizedTensor, name: str, inner: int) -> int:
    """Block length along the inner dimension, or a clear error."""
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
    choice("arithmetic", arithmetic, ARITHMETICS)
    if not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1 or lanes & (lanes - 1):
        raise ValueError(f"lanes must be a power of two, not {lanes!r}")
    block_a, block_w = _inner_block(a, "a", -1), _inner_block(w, "w", -2)
    if a.shape[1] != w.shape[0]:
        raise ValueError(f"w must have the {a.shape[1]} rows that a has columns, not {w.shape[0]}")
    if a.format != w.format:
        raise ValueError(f"w must have the format {a.format.name} of a, not {w.format.name}")
    if block_a != block_w:
        raise ValueError(f"w must have blocks of {block_a} in k like a, not {block_w}")
    if arithmetic == "fp12" and block_a % lanes:
        raise ValueError(f"lanes must divide the block length {block_a} in k, not {lanes}")

    element = a.format.element
    step = block_a if arithmetic == "exact" else lanes
    if arithmetic == "exact":
        product_bits = 2 * (element.emax + 1 - element.quantum_exponent)
        if product_bits + (block_a - 1).bit_length() > 53:
            raise ValueError(
                f"a block of {block_a} products of {a.format.name} must fit 53 bits for "
                f"arithmetic 'exact', not {product_bits + (block_a - 1).bit_length()}"
            )
    values_a = elements.decode(a.codes, a.format)
    values_w = elements.decode(w.codes, w.format)
    scales_a, scales_w = a.element_scales(), w.element_scales()
    acc = np.zeros((a.shape[0], w.shape[1]), np.float32)
    for k in range(0, a.shape[1], step):
        left, right = values_a[:, k : k + step], values_w[k : k + step, :]
        if arithmetic == "exact":
            # Integers below 2^53 times a power of two: exact in any order of summation.
            partial: NDArray[np.floating] = left.astype(np.float64) @ right.astype(np.float64)
        else:
            missing = step - left.shape[1]
            left = np.pad(left, ((0, 0), (0, missing)))
            right = np.pad(right, ((0, missing), (0, 0)))
            partial = partial_sums(left[:, None, :], right.T[None, :, :])
        acc = scale_and_accumulate(acc, partial, scales_a[:, k, None], scales_w[None, k, :])
    return acc
