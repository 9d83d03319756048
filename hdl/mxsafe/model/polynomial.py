"""Model of the evaluation of a table (`mxsafe.rtl.vector.polynomial`)."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers, integers, require_broadcast
from mxsafe.tables import Table
from mxsafe.validation import checked

Integers = NDArray[np.int64]

_ROWS = 4
"""Segments that are evaluated together: as many as a cache holds numbers of."""


@checked
def evaluate(table: Table, segment: Numbers, offset: Numbers) -> Integers:
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
    segments, offsets = integers("segment", segment), integers("offset", offset)
    require_broadcast(segment=segments, offset=offsets)
    for name, values, count in (
        ("segment", segments, table.segments),
        ("offset", offsets, 1 << table.offset_bits),
    ):
        if values.size and not 0 <= values.min() <= values.max() < count:
            raise ValueError(
                f"{name} must lie in 0..{count - 1}, not {values.min()}..{values.max()}"
            )
    c0, slope, distance = slopes(table, segments, offsets)
    return c0 + _product(slope, distance, table.offset_bits, table.result_shift)


@checked
def every_result(table: Table) -> NDArray[np.int32]:
    """Values at all offsets of all segments: a row for each segment."""
    offsets = np.arange(1 << table.offset_bits)
    result = np.empty((table.segments, offsets.size), np.int32)
    for first in range(0, table.segments, _ROWS):
        segments = np.arange(first, min(first + _ROWS, table.segments))
        result[segments] = evaluate(table, segments[:, np.newaxis], offsets)
    return result


@checked
def slopes(
    table: Table, segments: Integers, offsets: Integers
) -> tuple[Integers, Integers, Integers]:
    """On the way to values: `c0`, the slope, and the distance from the middle of the segment."""
    require_broadcast(segments=segments, offsets=offsets)
    c0, c1, c2 = (np.array(table.column(power), np.int64)[segments] for power in range(3))
    distance = offsets - (1 << (table.offset_bits - 1))
    high = distance >> table.distance_cut
    return c0, c1 + _product(c2, high, table.high_bits, table.slope_shift), distance


def _product(a: Integers, b: Integers, bits: int, shift: int) -> Integers:
    """A product by a signed factor of so many bits, row by row: each is cut by itself."""
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.int64)
    for low in range(0, bits, 2):
        below = (b >> (low - 1)) & 1 if low else 0
        negative = (b >> (low + 1)) & 1
        times = ((b >> low) & 1) + below - 2 * negative
        row = (np.abs(times) * a << low) >> shift
        total += row ^ -negative
    return total
