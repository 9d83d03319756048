"""Elements of the rows, products and sums of a placement."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.placement import Placement
from mxsafe.machine.graph import Value

Indices = NDArray[np.int32]

_PAIR = 16
"""Columns of two tiles: LOAD begins at such a pair."""


class Factors(NamedTuple):
    """A matrix of a placement as results of one matrix of a product."""

    matrix: int
    lanes: Indices
    beats: Indices
    straight: bool
    """Whether lanes are rows of the product's first operand."""


def factored(value: Value, p: Placement) -> list[Factors] | None:
    """Rows of both operands that a placement of a product consists of; None if there are none."""
    found = []
    _, rows, columns = value.shape
    for index in p.index:
        filled = index >= 0
        lanes = filled.any(axis=1)
        if not lanes.any() or not filled[lanes].all():
            return None
        own = index[lanes]
        matrix = int(own[0, 0]) // (rows * columns)
        first = own - np.int32(matrix * rows * columns)
        for straight in (True, False):
            sides = (first[:, 0], first[0]) if straight else (first[0], first[:, 0])
            row, column = sides[0] // columns, sides[1] % columns
            along, across = (row * columns, column) if straight else (column, row * columns)
            inside = row.min() >= 0 and row.max() < rows
            if inside and np.array_equal(along[:, None] + across, first):
                break
        else:
            return None
        lane, beat = (row, column) if straight else (column, row)
        whole = np.full(len(index), -1, np.int32)
        whole[lanes] = lane
        found.append(Factors(matrix, whole, beat.astype(np.int32), straight))
    if len({one.straight for one in found}) > 1:
        return None
    return found


def taken(value: Value, matrix: int, rows: Indices) -> bytes:
    """Equal for rows of matrices that have the same elements, such as keys that heads share."""
    own = np.where(rows >= 0, matrix * value.shape[1] + rows, -1)
    if value.op != "gather":
        return own.tobytes()
    taken = value.numbers.reshape(-1, value.shape[-1])[np.maximum(own, 0)]
    return np.where(own[:, None] >= 0, taken, -1).tobytes()


def natural(value: Value) -> Placement:
    """The last axis along beats, along lanes the one before it that is longer than 1."""
    *lead, beats = value.shape or (1,)
    lanes = next((size for size in reversed(lead) if size > 1), 1)
    return Placement(value.places.reshape(-1, lanes, beats))


def summed(value: Value, p: Placement) -> Placement:
    """The terms of a sum."""
    length = value.inputs[0].shape[-1]
    along = np.arange(length, dtype=np.int32)
    return Placement(np.where(p.index >= 0, p.index * length + along, np.int32(-1)))


def runs_of(index: Indices, there: Placement) -> list[tuple[int, int, range]] | None:
    """Runs of columns that are those of matrices of a placement; None if there are others.

    Of each its first column, the matrix, and columns of that.
    """
    if len(index) != there.lanes:
        return None
    places = {int(one): at for at, one in enumerate(there.index[:, 0].reshape(-1))}
    found = []
    columns = [*np.flatnonzero((index >= 0).any(axis=0))]
    while columns:
        at = int(columns[0])
        matrix, first = divmod(places.get(int(index[0, at]), -1), there.beats)
        own, wanted = there.index[matrix, :, first:], index[:, at:]
        both = min(own.shape[1], wanted.shape[1])
        same = (own[:, :both] == wanted[:, :both]).all(axis=0)
        length = both if same.all() else int(same.argmin())
        if matrix < 0 or not length or any(one % _PAIR for one in (at, first, length)):
            return None
        found.append((at, matrix, range(first, first + length)))
        columns = columns[length:]
    return found


def matrices_of(own: Placement, there: Placement) -> list[tuple[int, range | None]] | None:
    """The matrix of another placement that each matrix has columns of; None if there is none."""
    if own.key == there.key:
        return [(matrix, None) for matrix in range(own.matrices)]
    found: list[tuple[int, range | None]] = []
    for index in own.index:
        runs = runs_of(index, there)
        if runs is None or len(runs) != 1 or len(runs[0][2]) != own.beats:
            return None
        found.append(runs[0][1:])
    return found


def strips_of(p: Placement, lanes: int) -> range:
    """Strips of a matrix of a placement."""
    return range(-(-p.lanes // lanes))
