"""Spreads of measurements: by Student's t over seeds, or by bootstrap over units of samples.

Each measure is a function of sums over units (documents, photographs), so a resampled one is the
same function of weighted sums. All configurations of a model get the same resamples: differences
between them are paired.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 2026

_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Of Student's t at 97.5 %, for one degree of freedom and more."""


def student(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean, and half of its interval of 95 % by Student's t: infinite of one value.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Differences of pairs, one a seed.
    """
    mean, count = float(values.mean()), len(values)
    if count == 1:
        return mean, math.inf
    quantile = _QUANTILES[min(count - 1, len(_QUANTILES)) - 1]
    return mean, quantile * float(values.std(ddof=1)) / math.sqrt(count)


Sums = Mapping[str, NDArray[np.float64]]
Measure = Callable[[Sums], Any]
"""Makes a number, or an array of them, of sums by name."""


@dataclass(frozen=True)
class Interval:
    """A measure, and where the bootstrap sees it.

    Attributes
    ----------
    value : float
        Of all units.
    low, high : float
        Percentiles of the resamples: 0.5 % and 99.5 %.
    """

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the whole interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def _sums(numbers: Mapping[str, Any], weights: NDArray[np.float64]) -> dict[str, Any]:
    rows = np.array(numbers["rows"], dtype=np.float64)
    return dict(zip(numbers["columns"], (weights @ rows).T, strict=True))


@lru_cache(maxsize=8)
def _weights(units: int) -> NDArray[np.float64]:
    """How often each unit is in each resample; the same whenever there are so many units."""
    random = np.random.default_rng(SEED)
    return random.multinomial(units, np.full(units, 1 / units), size=RESAMPLES).astype(np.float64)


def measured(numbers: Mapping[str, Any], measure: Measure) -> float:
    """A measure of all units of a result."""
    return float(measure(_sums(numbers, np.ones(len(numbers["rows"])))))


def interval(numbers: Mapping[str, Any], measure: Measure) -> Interval:
    """A measure of a result, with its spread.

    Parameters
    ----------
    numbers : Mapping
        `columns` (names) and `rows` (sums of each unit).
    measure : Measure
        What is wanted.
    """
    drawn = measure(_sums(numbers, _weights(len(numbers["rows"]))))
    return _interval(measured(numbers, measure), drawn)


def difference(numbers: Mapping[str, Any], others: Mapping[str, Any], measure: Measure) -> Interval:
    """How much more the measure of a result is than that of another, of the same units.

    Raises
    ------
    ValueError
        If they are not of as many units.
    """
    units, same = len(numbers["rows"]), len(others["rows"])
    if units != same:
        raise ValueError(f"results must be of the same units, not of {units} and {same}")
    weights = _weights(units)
    drawn = measure(_sums(numbers, weights)) - measure(_sums(others, weights))
    return _interval(measured(numbers, measure) - measured(others, measure), drawn)


def _interval(value: float, drawn: Sequence[float] | NDArray[np.float64]) -> Interval:
    low, high = np.percentile(drawn, (0.5, 99.5))
    return Interval(value, float(low), float(high))
