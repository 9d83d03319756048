"""Models of the bfloat16 baseline (hardware: `mxsafe.rtl.mac.bf16_mac`).

The product of two bfloat16 numbers has 16 significant bits, so binary32 holds it exactly unless it
is subnormal or overflows; it is rounded once to binary32. The products of a beat are added in
pairs, then pairs of pairs, ``(p0 + p1) + (p2 + p3)``, and the result to a binary32 accumulator that
starts at +0. Every operation is IEEE 754's, rounded to nearest even, with subnormals, Inf and NaN;
every NaN is ``0x7fc00000``. So NumPy's float32 arithmetic is the whole reference.
"""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers, to_codes
from mxsafe.codec._subnormals import subnormals
from mxsafe.model.accumulate import canonical
from mxsafe.validation import AlikePower, about, checked, require_power_of_two


@checked
def bf16_values(codes: Numbers) -> NDArray[np.float32]:
    """Values of bfloat16 codes.

    Parameters
    ----------
    codes : array_like of uint16
        The upper halves of binary32 numbers, any shape.

    Returns
    -------
    ndarray of float32, shape of `codes`

    Raises
    ------
    ValueError
        If a code does not fit 16 bits.
    """
    words = to_codes("codes", codes, 16)
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _sum_of_lanes(products: NDArray[np.float32]) -> NDArray[np.float32]:
    """Tree of sums over the last axis."""
    while products.shape[-1] > 1:
        products = products[..., 0::2] + products[..., 1::2]
    return canonical(products[..., 0])


@checked
def bf16_mac(a: Numbers, w: Numbers) -> NDArray[np.uint32]:
    """Dot products of bfloat16 numbers.

    Parameters
    ----------
    a, w : array_like of uint16, shape (..., lanes)
        bfloat16 codes; the number of lanes is a power of two.

    Returns
    -------
    ndarray of uint32, shape (...)
        Binary32 words, as `partial_sum` of the hardware has them.

    Raises
    ------
    ValueError
        If codes or shapes are not as above.
    """
    with about(codes="a"):
        values_a = bf16_values(a)
    with about(codes="w"):
        values_w = bf16_values(w)
    if values_a.shape != values_w.shape:
        raise ValueError(f"w must have the shape {values_a.shape} of a, not {values_w.shape}")
    require_power_of_two("a: last axis", values_a.shape[-1] if values_a.ndim else 0)
    with np.errstate(all="ignore"):
        return _sum_of_lanes(values_a * values_w).view(np.uint32)


_ROWS, _COLUMNS = 64, 512
"""Of a tile of the result that is made at a time, which a core's cache holds."""


@checked
@subnormals()
def bf16_matmul(
    a: Numbers,
    w: Numbers,
    *,
    lanes: AlikePower = 4,
    start: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Matrix product of two matrices of bfloat16, bit for bit what the array produces.

    Parameters
    ----------
    a : array_like of uint16, shape (M, K)
        bfloat16 codes.
    w : array_like of uint16, shape (K, N)
        bfloat16 codes.
    lanes : int
        Products that are added before the accumulator, a power of two; at the end of K missing
        ones are +0.
    start : ndarray of float32, shape (M, N), optional
        Sums of an earlier product that this one continues; by default zeros.

    Returns
    -------
    ndarray of float32, shape (M, N)
        Sums in ascending order of k. Every NaN is ``0x7fc00000``.

    Raises
    ------
    ValueError
        If shapes do not fit each other, or a parameter is not as above.
    """
    with about(codes="a"):
        values_a = bf16_values(a)
    with about(codes="w"):
        values_w = bf16_values(w)
    for name, values in (("a", values_a), ("w", values_w)):
        if values.ndim != 2:
            raise ValueError(f"{name} must be a matrix, not a tensor of rank {values.ndim}")
    if values_a.shape[1] != values_w.shape[0]:
        raise ValueError(
            f"w must have the {values_a.shape[1]} rows that a has columns, not {values_w.shape[0]}"
        )
    shape = values_a.shape[0], values_w.shape[1]
    if start is not None and (start.dtype != np.float32 or start.shape != shape):
        raise ValueError(
            f"start must be of float32 and shape {shape}, not {start.dtype} of {start.shape}"
        )
    result = np.zeros(shape, np.float32) if start is None else start.copy()
    missing = -values_a.shape[1] % lanes
    columns_a = np.ascontiguousarray(np.pad(values_a, ((0, 0), (0, missing))).T)
    rows_w = np.pad(values_w, ((0, missing), (0, 0)))
    with np.errstate(all="ignore"):
        for top in range(0, shape[0], _ROWS):
            for left in range(0, shape[1], _COLUMNS):
                own, right = np.s_[top : top + _ROWS], np.s_[left : left + _COLUMNS]
                _accumulate(result[own, right], columns_a[:, own], rows_w[:, right], lanes)
    return canonical(result)  # a NaN stays one, so it is enough to choose its bits at the end


def _accumulate(
    sums: NDArray[np.float32],
    columns_a: NDArray[np.float32],
    rows_w: NDArray[np.float32],
    lanes: int,
) -> None:
    """Add the products of columns of a with rows of w to sums, so many at a time."""
    parts = np.empty((lanes, *sums.shape), np.float32)
    for k in range(0, len(columns_a), lanes):
        own = slice(k, k + lanes)
        np.multiply(columns_a[own, :, None], rows_w[own, None, :], out=parts)
        width = lanes
        while width > 1:
            width //= 2
            for at in range(width):
                np.add(parts[2 * at], parts[2 * at + 1], out=parts[at])
        np.add(sums, parts[0], out=sums)
