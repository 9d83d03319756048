"""Model of the transposer of square tiles (`mxsafe.rtl.stream.transposer`)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers
from mxsafe.validation import checked


@checked
def transpose_beats(
    rows: Numbers, last: Numbers
) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_]]:
    """Return the output of a transposer for rows of tiles.

    Parameters
    ----------
    rows : array_like of int, shape (beats, size)
        Rows of square tiles of `size`, one after the other.
    last : array_like of bool, shape (beats,)
        The row ends the last tile of a packet, which zeros fill up to `size` rows. Rows after the
        last packet do not come out, nor does the tile before them, except as far as each of them
        pushes out one of its columns.

    Returns
    -------
    columns : ndarray, shape (beats out, size)
        Columns of every tile, `size` each.
    last : ndarray of bool, shape (beats out,)
        The column is the last of a packet.

    Raises
    ------
    ValueError
        If shapes do not fit each other.
    """
    beats, ends = np.asarray(rows), np.asarray(last, np.bool_)
    if beats.ndim != 2 or ends.shape != beats.shape[:1]:
        raise ValueError(f"last must have one flag a row, not {ends.shape} for {beats.shape}")
    size = beats.shape[1]
    columns, flags = [np.empty((0, size), beats.dtype)], [np.empty(0, np.bool_)]
    start = 0
    for stop in dict.fromkeys([*(np.flatnonzero(ends) + 1).tolist(), len(beats)]):
        packet = beats[start:stop]
        tiles = -(-len(packet) // size)
        whole = np.zeros((tiles * size, size), beats.dtype)
        whole[: len(packet)] = packet
        turned = whole.reshape(tiles, size, size).swapaxes(1, 2).reshape(-1, size)
        if len(packet) and not ends[stop - 1]:
            turned = turned[: max(len(packet) - size, 0)]  # what the rows have pushed out
        flag = np.zeros(len(turned), np.bool_)
        flag[-1:] = bool(len(packet) and ends[stop - 1])
        columns.append(turned)
        flags.append(flag)
        start = stop
    return np.concatenate(columns), np.concatenate(flags)
