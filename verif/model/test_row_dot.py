"""The model of sums over rows: order of additions, short rows, error against exact sums."""

import math

import numpy as np
import pytest

from mxsafe.model.row_dot import row_dot, row_sum
from verif.support.tests import raises


def one_by_one(x: np.ndarray, lanes: int, partials: int) -> np.float32:
    """The sum of a row as the order is described, in plain loops."""

    def tree(values: list[np.float32]) -> np.float32:
        half = len(values) // 2
        return values[0] if not half else np.float32(tree(values[:half]) + tree(values[half:]))

    beats = [list(x[i : i + lanes]) for i in range(0, len(x), lanes)]
    beats[-1] += [np.float32(0)] * (lanes - len(beats[-1]))
    beats += [[np.float32(0)] * lanes] * (partials - len(beats))
    sums = [np.float32(0)] * partials
    for number, beat in enumerate(beats):
        sums[number % partials] = np.float32(sums[number % partials] + tree(beat))
    oldest = len(beats) % partials
    return tree(sums[oldest:] + sums[:oldest])


@pytest.mark.parametrize("length", [1, 5, 8, 31, 32, 33, 100, 129])
def test_order(length: int) -> None:
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((20, length)) * 2.0 ** rng.integers(-9, 9, (20, length))).astype(
        np.float32
    )
    expected = [one_by_one(row, 4, 8) for row in x]
    assert row_sum(x, lanes=4, partials=8).tolist() == expected


def test_products_are_rounded_first() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 5, 77)).astype(np.float32)
    assert np.array_equal(row_dot(x, y), row_sum(x * y))
    assert np.array_equal(row_dot(x, y[0]), row_sum(x * y[0]))


def test_error_is_that_of_a_short_tree() -> None:
    """No term takes part in more additions than its tree, its partial sum and theirs have."""
    x = np.abs(np.random.default_rng(2).standard_normal(8192)).astype(np.float32)
    additions = 4 + 8192 // 16 // 8 + 3
    assert abs(float(row_sum(x)) / math.fsum(map(float, x)) - 1) <= additions * 2.0**-24


def test_special_values() -> None:
    row = np.ones(40, np.float32)
    row[3], row[30] = np.inf, -np.inf
    assert row_sum(row).view(np.uint32) == 0x7FC00000
    assert row_sum(-row[:20]) == -np.inf
    assert row_sum(np.full(3, -0.0, np.float32)).view(np.uint32) == 0


def test_arguments_that_do_not_fit() -> None:
    row = np.ones(4, np.float32)
    for call, message in (
        (lambda: row_sum(row, lanes=3), "lanes must be a power of two, not 3"),
        (lambda: row_sum(row, partials=0), "partials must be a power of two, not 0"),
        (lambda: row_sum(row[:0]), "x must have numbers along its last axis, not shape (0,)"),
        (lambda: row_sum(row[0]), "x must have numbers along its last axis, not shape ()"),
    ):
        with raises(ValueError, message):
            call()
    with pytest.raises(
        TypeError, match=r"^y must have dtype float32, float16, bfloat16, not int64"
    ):
        row_dot(row, np.arange(4))
