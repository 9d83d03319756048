"""The model of the unit that gives rows several times, on rows that can be read."""

import numpy as np
import pytest

from mxsafe.model.row_replay import replay_rows
from verif.support.tests import raises


def test_rows_come_as_often_as_asked() -> None:
    replayed = replay_rows([False, True, True], passes=2, depth=4)
    assert replayed.beat.tolist() == [0, 1, 0, 1, 2, 2]
    assert replayed.summary.tolist() == [1, 1, 1, 1, 2, 2]
    assert replayed.number.tolist() == [0, 0, 1, 1, 0, 1]
    assert replayed.first.tolist() == [True, False, True, False, True, True]
    assert replayed.last.tolist() == [False, True, False, True, True, True]
    assert not replayed.overlong.any()


def test_a_row_that_does_not_fit_is_cut() -> None:
    replayed = replay_rows([False, False, False, True], passes=1, depth=3)
    assert replayed.beat.tolist() == [0, 1, 2, 3]
    assert replayed.summary.tolist() == [2, 2, 2, 3]
    assert replayed.overlong.tolist() == [True, True, True, False]
    assert replayed.last.tolist() == [False, False, True, True]


def test_a_row_that_does_not_end_stays() -> None:
    assert replay_rows([True, False], passes=1, depth=3).beat.tolist() == [0]
    assert replay_rows(np.zeros(2, np.bool_), passes=1, depth=3).beat.size == 0


@pytest.mark.parametrize("name", ["passes", "depth"])
def test_numbers_that_are_not_positive(name: str) -> None:
    with raises(ValueError, f"{name} must be a positive integer, not 0"):
        replay_rows([True], **{"passes": 1, "depth": 1, name: 0})
