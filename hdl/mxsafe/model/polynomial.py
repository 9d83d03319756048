"""Model of the evaluation of a table (`mxsafe.rtl.vector.polynomial`)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.tables import Table

__all__ = ["evaluate"]


def evaluate(table: Table, segment: ArrayLike, offset: ArrayLike) -> NDArray[np.int64]:
    """Values of a piecewise polynomial, in units of ``2^-fraction_bits``.

    Parameters
    ----------
    table : Table
    segment : array_like of int
        Segments, any shape.
    offset : array_like of int
        Offsets in them, of a shape that broadcasts with that of `segment`.

    Raises
    ------
    ValueError
        If there is no such segment, or an offset has too many bits.
    """
    segments, offsets = np.asarray(segment, np.int64), np.asarray(offset, np.int64)
    for name, values, count in (
        ("segment", segments, table.segments),
        ("offset", offsets, 1 << table.offset_bits),
    ):
        if values.size and not 0 <= values.min() <= values.max() < count:
            raise ValueError(
                f"{name} must lie in 0..{count - 1}, not {values.min()}..{values.max()}"
            )
    c0, c1, c2 = (np.array(table.column(power), np.int64)[segments] for power in range(3))
    high = offsets >> table.offset_cut
    slope = c1 + _product(c2, high, table.high_bits, table.slope_shift)
    return c0 + _product(slope, offsets, table.offset_bits, table.result_shift)


def _product(
    a: NDArray[np.int64], b: NDArray[np.int64], bits: int, shift: int
) -> NDArray[np.int64]:
    """A product by an unsigned factor of so many bits, row by row: each is cut by itself."""
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.int64)
    for bit in range(bits):
        total += ((a << bit) >> shift) * ((b >> bit) & 1)
    return total
