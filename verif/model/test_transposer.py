"""The transposer's model against transposed tensors."""

import numpy as np

import mxsafe as mx
from mxsafe.model import transpose_beats
from verif.support.tests import raises


def test_tiles_of_a_tensor() -> None:
    """The tiles of a strip of 8 columns, from top to bottom, are those of a strip of its T."""
    x = np.random.default_rng(1).standard_normal((40, 8)).astype(np.float32)
    q = mx.quantize(x, block=(8, 8))
    columns, last = transpose_beats(q.codes, np.arange(40) == 39)
    tiles = np.concatenate([q.T.codes[:, i : i + 8] for i in range(0, 40, 8)])
    assert np.array_equal(columns, tiles)
    assert np.flatnonzero(last).tolist() == [39]


def test_short_tiles_are_filled_with_zeros() -> None:
    rows = np.arange(1, 13).reshape(3, 4)
    columns, last = transpose_beats(rows, [False, False, True])
    assert columns.tolist() == [[1, 5, 9, 0], [2, 6, 10, 0], [3, 7, 11, 0], [4, 8, 12, 0]]
    assert last.tolist() == [False, False, False, True]


def test_a_packet_that_goes_on() -> None:
    rows = np.arange(36).reshape(9, 4)
    columns, last = transpose_beats(rows, np.zeros(9, np.bool_))
    whole, _ = transpose_beats(rows[:8], np.arange(8) == 7)
    assert np.array_equal(columns, whole[:5])
    assert not last.any()


def test_flags_that_do_not_fit() -> None:
    with raises(ValueError, "last must have one flag a row, not (1,) for (4, 4)"):
        transpose_beats(np.zeros((4, 4)), [True])
