"""Model of the unit that gives rows several times (hardware: `mxsafe.rtl.stream.row_replay`)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers
from mxsafe.validation import PositiveInteger, checked


@dataclass(frozen=True)
class ReplayedBeats:
    """Beats that leave, in order; an entry for each.

    Attributes
    ----------
    beat : ndarray of int
        Which of the beats that came in it is.
    summary : ndarray of int
        The beat beside which the row's summary came in.
    number : ndarray of int
        The pass, from 0.
    first, last : ndarray of bool
        Whether it begins or ends its pass.
    overlong : ndarray of bool
        Whether the row did not fit.
    """

    beat: NDArray[np.int64]
    summary: NDArray[np.int64]
    number: NDArray[np.int64]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    overlong: NDArray[np.bool_]


@checked
def replay_rows(last: Numbers, *, passes: PositiveInteger, depth: PositiveInteger) -> ReplayedBeats:
    """Every row of beats `passes` times; what does not end within `depth` beats is cut there.

    Parameters
    ----------
    last : array_like of bool, shape (beats,)
        Whether a beat ends its row. Beats of a row that does not end stay where they are.
    passes : int
        How often a row leaves.
    depth : int
        Most beats of a row.

    Raises
    ------
    ValueError
        If `passes` or `depth` is not a positive integer.
    """
    ended = np.asarray(last, np.bool_)
    if ended.ndim != 1:
        raise ValueError(f"last must have one flag a beat, not the shape {ended.shape}")
    pieces = []
    start = 0
    for index, ends in enumerate(ended):
        length = index + 1 - start
        if not ends and length < depth:
            continue
        place = np.tile(np.arange(length), passes)
        pieces.append(
            (
                start + place,
                np.full(len(place), index),
                np.repeat(np.arange(passes), length),
                place == 0,
                place == length - 1,
                np.full(len(place), not ends),
            )
        )
        start = index + 1
    if not pieces:
        none, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return ReplayedBeats(none, none, none, no, no, no)
    return ReplayedBeats(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
