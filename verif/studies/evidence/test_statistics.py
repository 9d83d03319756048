"""Spreads by Student's t and by bootstrap: against what is known of them."""

import numpy as np
import pytest

from studies.evidence.statistics import Interval, difference, interval, measured, student
from verif.support.tests import raises


def numbers(rows: object) -> dict[str, object]:
    return {"columns": ["sum", "count"], "rows": np.asarray(rows, dtype=float).tolist()}


def mean(sums: dict[str, np.ndarray]) -> np.ndarray:
    return sums["sum"] / sums["count"]


def test_intervals_of_few_values() -> None:
    """Of 2, 3, 4 and 7: a mean of 4, a deviation of 2.160, a t of 3.182."""
    mean_of_four, half = student(np.array([2.0, 3.0, 4.0, 7.0]))
    assert mean_of_four == 4.0
    assert half == pytest.approx(3.182 * 2.1602 / 2, abs=1e-3)
    assert student(np.array([3.0])) == (3.0, np.inf)


def test_a_mean_has_the_spread_of_its_units() -> None:
    """Units of unequal counts; the interval is that of a normal distribution, within a few %."""
    random = np.random.default_rng(0)
    values = random.normal(3.0, 2.0, 400)
    found = interval(numbers([[value * 5, 5] for value in values]), mean)
    assert found.value == pytest.approx(values.mean())
    half = 2.5758 * values.std() / np.sqrt(len(values))
    assert found.high - found.value == pytest.approx(half, rel=0.05)
    assert found.value - found.low == pytest.approx(half, rel=0.05)
    assert measured(numbers([[1, 1], [9, 3]]), mean) == 2.5


def test_differences_are_paired() -> None:
    """Two results that vary together differ by little more than nothing."""
    random = np.random.default_rng(1)
    values = random.normal(0.0, 10.0, 50)
    first = numbers([[value + 0.1 + 0.01 * random.normal(), 1] for value in values])
    second = numbers([[value, 1] for value in values])
    found = difference(first, second, mean)
    assert found.sign == 1
    assert 0.09 < found.low < found.value < found.high < 0.11
    assert difference(second, first, mean).sign == -1
    assert interval(first, mean).sign == 0
    assert difference(first, first, mean) == Interval(0.0, 0.0, 0.0)


def test_units_must_be_the_same() -> None:
    with raises(ValueError, "results must be of the same units, not of 1 and 2"):
        difference(numbers([[1, 1]]), numbers([[1, 1], [2, 1]]), mean)
