"""From a function to a table: minimax polynomials whose coefficients are rounded one by one.

Everything is plain IEEE arithmetic in a fixed order, or mpmath with a fixed precision, so that a
table comes out the same wherever it is made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from mxsafe.model.polynomial import evaluate, slopes
from mxsafe.tables import Coefficients, Table

__all__ = ["Piece", "Specification", "build"]

Floats = NDArray[np.float64]
Function = Callable[[Any], Any]

_DIGITS = 50
_LEAST_TERM = mpmath.mpf(2) ** -64
"""Of a Taylor series, relative to the largest: what follows does not matter to float64."""
_MOST_TERMS = 60
_GRID = 1025
"""Points that a polynomial is fitted at, and candidates are compared at."""
_EXCHANGES = 30


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A function on one segment.

    Attributes
    ----------
    function : callable
        Value, as mpmath's number, at a place from 0, where the segment starts, to 1, where it ends.
    weight : callable, optional
        What an error at a place is divided by; by default the value, so that errors are relative.
    degree : int
        Of the polynomial: 2, or less where coefficients are to be 0.
    ceiling : callable, optional
        What results may reach and not exceed.
    """

    function: Function
    weight: Function | None = None
    degree: int = 2
    ceiling: Function | None = None


@dataclass(frozen=True, kw_only=True)
class Specification:
    """What a table is to be; see `mxsafe.tables.Table` for the widths.

    Attributes
    ----------
    pieces : sequence of Piece
        The segments, in the order of their numbers.
    truncated : bool
        An offset stands for everything up to the next one: its lower bits were cut off.
    """

    name: str
    pieces: Sequence[Piece] = field(repr=False)
    offset_bits: int
    high_bits: int
    fraction_bits: int
    slope_bits: int
    curvature_bits: int
    truncated: bool = False


def build(specification: Specification) -> Table:
    """Fit all segments and measure the error at every offset."""
    spec = specification
    table = Table(
        name=spec.name,
        offset_bits=spec.offset_bits,
        high_bits=spec.high_bits,
        fraction_bits=spec.fraction_bits,
        slope_bits=spec.slope_bits,
        curvature_bits=spec.curvature_bits,
        coefficients=(),
        smallest_slope=0,
        largest_slope=0,
        smallest=0,
        largest=0,
        error=0.0,
    )
    fits = [_Fit(table, piece, spec.truncated) for piece in spec.pieces]
    coefficients = tuple(fit.best() for fit in fits)
    found = [fit.measure(each) for fit, each in zip(fits, coefficients, strict=True)]
    return replace(
        table,
        coefficients=coefficients,
        smallest_slope=min(each.smallest_slope for each in found),
        largest_slope=max(each.largest_slope for each in found),
        smallest=min(each.smallest for each in found),
        largest=max(each.largest for each in found),
        error=max(each.error for each in found),
    )


class _Fit:
    """One segment of a table."""

    def __init__(self, table: Table, piece: Piece, truncated: bool) -> None:
        self._table, self._piece, self._truncated = table, piece, truncated
        self._value = _series(piece.function)
        self._weight = self._value if piece.weight is None else _series(piece.weight)
        self._ceiling = None if piece.ceiling is None else _series(piece.ceiling)
        step = max(1, (1 << table.offset_bits) // _GRID)
        last = (1 << table.offset_bits) - 1
        self._grid = np.unique(np.append(np.arange(0, last + 1, step), last))

    def best(self) -> Coefficients:
        """The best of the coefficients near the real ones, of those that were looked at."""
        table = self._table
        units = (2.0**table.fraction_bits, 2.0**table.slope_bits, 2.0**table.curvature_bits)
        places = (self._grid + (0.5 if self._truncated else 0.0)) / 2.0**table.offset_bits
        value, weight = self._value(places), np.abs(self._weight(places))
        places = places - 0.5  # from the middle
        real = _minimax(places, value, weight, self._piece.degree)
        candidates: list[tuple[float, Coefficients]] = []
        for c2 in _near(real[2] * units[2], 0) if self._piece.degree > 1 else [0]:
            rest = value - c2 / units[2] * places**2
            line = _minimax(places, rest, weight, min(self._piece.degree, 1))
            for c1 in _near(line[1] * units[1], 1) if self._piece.degree > 0 else [0]:
                middle = self._middle((0, c1, c2))
                candidates += [
                    (self._errors((c0, c1, c2), self._grid), (c0, c1, c2))
                    for c0 in _near(middle, 0)
                ]
        return min(candidates)[1]

    def measure(self, coefficients: Coefficients) -> Table:
        """The segment as a table of its own, with bounds and error over all offsets."""
        offsets = np.arange(1 << self._table.offset_bits)
        single = replace(self._table, coefficients=(coefficients,))
        _, slope, _ = slopes(single, np.zeros(1, np.int64), offsets)
        results = _evaluate(self._table, coefficients, offsets)
        return replace(
            single,
            smallest_slope=int(slope.min()),
            largest_slope=int(slope.max()),
            smallest=int(results.min()),
            largest=int(results.max()),
            error=self._errors(coefficients, offsets),
        )

    def _allowed(self, choices: list[int], c1: int, c2: int) -> list[int]:
        """Choices of `c0`, lowered to what keeps all results below the ceiling."""
        if self._ceiling is None:
            return choices
        offsets = np.arange(1 << self._table.offset_bits)
        ceiling = self._ceiling(offsets / 2.0**self._table.offset_bits)
        # Half of 2^-40 is more than the series is off.
        units = np.floor(ceiling * 2.0**self._table.fraction_bits + 2.0**-20)
        most = int((units - _evaluate(self._table, (0, c1, c2), offsets)).min())
        return sorted({min(choice, most) for choice in choices})

    def _differences(
        self, coefficients: Coefficients, offsets: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Errors and weights, at both ends of what each offset stands for."""
        places = offsets / 2.0**self._table.offset_bits
        if self._truncated:
            places = np.stack([places, places + 2.0**-self._table.offset_bits])
        result = _evaluate(self._table, coefficients, offsets) / 2.0**self._table.fraction_bits
        return result - self._value(places), np.abs(self._weight(places))

    def _errors(self, coefficients: Coefficients, offsets: NDArray[np.int64]) -> float:
        difference, weight = self._differences(coefficients, offsets)
        return float((np.abs(difference) / weight).max())

    def _middle(self, coefficients: Coefficients) -> float:
        """The real `c0` for which errors to both sides are equal."""
        difference, weight = self._differences(coefficients, self._grid)
        low, high = 0.0, float(-difference.min() * 2) + 1.0
        low = float(-difference.max()) - 1.0
        for _ in range(80):
            middle = (low + high) / 2
            off = (difference + middle) / weight
            if off.max() > -off.min():
                high = middle
            else:
                low = middle
        return (low + high) / 2 * 2.0**self._table.fraction_bits


def _near(value: float, more: int) -> list[int]:
    """Integers around a value: the two next to it, and so many beyond each."""
    below = int(np.floor(value))
    return list(range(below - more, below + 2 + more))


def _evaluate(
    table: Table, coefficients: Coefficients, offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    single = replace(table, coefficients=(coefficients,))
    return evaluate(single, np.zeros(1, np.int64), offsets)


def _series(function: Function) -> Callable[[Floats], Floats]:
    """The function in float64, to about 2^-50: as a series around the middle of the segment."""
    with mpmath.workdps(_DIGITS):
        terms = 8
        while True:
            taylor = mpmath.taylor(function, mpmath.mpf(1) / 2, terms)
            sizes = [abs(term) / 2**power for power, term in enumerate(taylor)]
            if max(sizes[-3:]) <= _LEAST_TERM * max(sizes):
                break
            terms += 8
            if terms > _MOST_TERMS:
                raise ValueError("function must be smooth on its segment")
        series = [float(term) for term in taylor]

    def value(places: Floats) -> Floats:
        total = np.zeros_like(places)
        for term in reversed(series):
            total = total * (places - 0.5) + term
        return total

    return value


def _minimax(places: Floats, value: Floats, weight: Floats, degree: int) -> list[float]:
    """Coefficients of the polynomial with the smallest weighted error, by Remez' exchange."""
    count = degree + 2
    chosen = [
        round((len(places) - 1) * (1 - np.cos(np.pi * i / (count - 1))) / 2) for i in range(count)
    ]
    solution = [0.0] * count
    for _ in range(_EXCHANGES):
        rows = [
            [*(float(places[at]) ** p for p in range(degree + 1)), (-1) ** i * float(weight[at])]
            for i, at in enumerate(chosen)
        ]
        solution = _solve(rows, [float(value[at]) for at in chosen])
        fitted = np.zeros_like(places)
        for coefficient in reversed(solution[:-1]):
            fitted = fitted * places + coefficient
        errors = (value - fitted) / weight
        following = _extremes(errors, count)
        if following is None or following == chosen:
            break
        chosen = following
    return [*solution[:-1], 0.0, 0.0][:3]


def _extremes(errors: Floats, count: int) -> list[int] | None:
    """Where an error of changing sign is largest, once between two changes."""
    signs = np.sign(errors)
    cuts = np.flatnonzero(signs[1:] != signs[:-1]) + 1
    runs = np.split(np.arange(len(errors)), cuts)
    places = [int(run[np.argmax(np.abs(errors[run]))]) for run in runs]
    if len(places) < count:
        return None
    starts = range(len(places) - count + 1)
    best = max(starts, key=lambda start: float(np.abs(errors[places[start : start + count]]).min()))
    return places[best : best + count]


def _solve(rows: list[list[float]], right: list[float]) -> list[float]:
    """A linear system, by elimination with pivots: floats in a fixed order."""
    size = len(rows)
    matrix = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in range(size):
            if row != column:
                factor = matrix[row][column] / matrix[column][column]
                matrix[row] = [
                    a - factor * b for a, b in zip(matrix[row], matrix[column], strict=True)
                ]
    return [matrix[row][-1] / matrix[row][row] for row in range(size)]
