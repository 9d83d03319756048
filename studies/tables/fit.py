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

Floats = NDArray[np.float64]
Function = Callable[[Any], Any]

_DIGITS = 30
_LEAST_TERM = mpmath.mpf(2) ** -64
"""Of a series, relative to the largest: what follows does not matter to float64."""
_MOST_TERMS = 64
_GRID = 1025
"""Points that a polynomial is fitted at, and candidates are compared at."""
_EXCHANGES = 30
_LOWER, _UPPER = -1, 1


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
    floor, ceiling : callable, optional
        What results may reach and not fall below, or not exceed. A segment has one of them.
    rising : bool
        Slopes are not to be negative.
    """

    function: Function
    weight: Function | None = None
    degree: int = 2
    floor: Function | None = None
    ceiling: Function | None = None
    rising: bool = False


@dataclass(frozen=True, kw_only=True)
class Specification:
    """Specification of a table; see `mxsafe.tables.Table` for the widths.

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


def empty(**widths: Any) -> Table:
    """A table without segments."""
    return Table(**widths, coefficients=(), bounds=(), error=0.0)


def build(specification: Specification) -> Table:
    """Fit all segments and measure the error at every offset."""
    spec = specification
    table = empty(
        name=spec.name,
        offset_bits=spec.offset_bits,
        high_bits=spec.high_bits,
        fraction_bits=spec.fraction_bits,
        slope_bits=spec.slope_bits,
        curvature_bits=spec.curvature_bits,
    )
    found = [fitted(table, piece, truncated=spec.truncated) for piece in spec.pieces]
    return joined(table, found)


def fitted(table: Table, piece: Piece, *, truncated: bool) -> Table:
    """One segment of a table, as a table of its own, with the widths of `table`."""
    fit = _Fit(table, piece, truncated)
    return fit.measure(fit.best())


def joined(table: Table, found: Sequence[Table]) -> Table:
    """Segments, each a table of its own, in one table with the widths of `table`."""
    return replace(
        table,
        coefficients=tuple(each.coefficients[0] for each in found),
        bounds=tuple(each.bounds[0] for each in found),
        error=max(each.error for each in found),
    )


class _Fit:
    """One segment of a table."""

    def __init__(self, table: Table, piece: Piece, truncated: bool) -> None:
        self._table, self._piece, self._truncated = table, piece, truncated
        self._value = series(piece.function)
        self._weight = self._value if piece.weight is None else series(piece.weight)
        bounds = (_LOWER, piece.floor), (_UPPER, piece.ceiling)
        self._bounds = [(side, series(bound)) for side, bound in bounds if bound is not None]
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
                c1 = self._raised(c1, c2)
                middle = self._middle((0, c1, c2))
                candidates += [
                    (self._errors((c0, c1, c2), self._grid), (c0, c1, c2))
                    for c0 in self._allowed(_near(middle, 0), c1, c2)
                ]
        return min(candidates)[1]

    def measure(self, coefficients: Coefficients) -> Table:
        """The segment as a table of its own, with bounds and error over all offsets."""
        offsets = np.arange(1 << self._table.offset_bits)
        single = replace(self._table, coefficients=(coefficients,))
        slope = self._slopes(coefficients)
        results = _evaluate(self._table, coefficients, offsets)
        ends = slope.min(), slope.max(), results.min(), results.max()
        bounds = (int(ends[0]), int(ends[1]), int(ends[2]), int(ends[3]))
        return replace(single, bounds=(bounds,), error=self._errors(coefficients, offsets))

    def _slopes(self, coefficients: Coefficients) -> NDArray[np.int64]:
        cut = self._table.distance_cut
        offsets = np.arange(0, 1 << self._table.offset_bits, 1 << cut)
        single = replace(self._table, coefficients=(coefficients,))
        return slopes(single, np.zeros(1, np.int64), offsets)[1]

    def _raised(self, c1: int, c2: int) -> int:
        """`c1`, or what it takes for no slope to be negative, if the piece wants that."""
        if not self._piece.rising:
            return c1
        return c1 - min(0, int(self._slopes((0, c1, c2)).min()))

    def _allowed(self, choices: list[int], c1: int, c2: int) -> list[int]:
        """Choices of `c0`, moved to what keeps all results within the bounds."""
        for side, bound in self._bounds:
            # All offsets are tried only where the bound is near.
            if side * (self._end(side, bound, c1, c2, self._grid) - max(choices)) > _GRID:
                continue
            end = self._end(side, bound, c1, c2, np.arange(1 << self._table.offset_bits))
            choices = sorted({side * min(side * choice, side * end) for choice in choices})
        return choices

    def _end(
        self,
        side: int,
        bound: Callable[[Floats], Floats],
        c1: int,
        c2: int,
        offsets: NDArray[np.int64],
    ) -> int:
        """The last `c0` that keeps results at these offsets on the right side of a bound."""
        limit = side * bound(offsets / 2.0**self._table.offset_bits)
        # The series is off by much less than what is added.
        units = np.floor(limit * 2.0**self._table.fraction_bits + 2.0**-20)
        return side * int((units - side * _evaluate(self._table, (0, c1, c2), offsets)).min())

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
        low, high = -float(difference.max()) - 1.0, -float(difference.min()) + 1.0
        for _ in range(50):
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


def series(function: Function) -> Callable[[Floats], Floats]:
    """The function in float64, to about 2^-50: a series of Chebyshev polynomials."""
    with mpmath.workdps(_DIGITS):
        count = 16
        while True:
            series = _chebyshev(function, count)
            sizes = [abs(term) for term in series]
            if max(sizes[-3:]) <= _LEAST_TERM * max(sizes):
                break
            count += 16
            if count > _MOST_TERMS:
                raise ValueError("function must be smooth on its segment")
        terms = [float(term) for term in series]

    def value(places: Floats) -> Floats:
        doubled = 4.0 * places - 2.0
        following, total = np.zeros_like(places), np.zeros_like(places)
        for term in reversed(terms[1:]):
            following, total = total, doubled * total - following + term
        return doubled / 2.0 * total - following + terms[0]

    return value


def _chebyshev(function: Function, count: int) -> list[Any]:
    """Terms of the series that meets the function at so many nodes from 0 to 1."""
    angles = [mpmath.pi * (2 * i + 1) / (2 * count) for i in range(count)]
    cosines = [mpmath.cos(mpmath.pi * i / (2 * count)) for i in range(4 * count)]
    values = [function((1 + mpmath.cos(angle)) / 2) for angle in angles]
    terms = [
        mpmath.fdot(
            (value, cosines[k * (2 * i + 1) % (4 * count)]) for i, value in enumerate(values)
        )
        for k in range(count)
    ]
    return [terms[0] / count, *(2 * term / count for term in terms[1:])]


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
