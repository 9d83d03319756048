"""The table of activation functions and their derivatives, for floating-point arguments.

How many segments a binade has comes from the errors: a segment is halved until its error is within
the bound, and its slope within the width that the hardware has for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import mpmath

from mxsafe.tables import Grade, Place, Table
from mxsafe.tables.activation import DEPTH, FUNCTIONS
from studies.tables.fit import Piece, empty, fitted, joined

Real = Callable[[Any], Any]

WIDTHS: Mapping[Grade, Mapping[str, int]] = {
    "compact": {
        "offset_bits": 8,
        "high_bits": 0,
        "fraction_bits": 14,
        "slope_bits": 12,
        "curvature_bits": 12,
    },
    "fine": {
        "offset_bits": 14,
        "high_bits": 10,
        "fraction_bits": 20,
        "slope_bits": 19,
        "curvature_bits": 16,
    },
}
DEGREES: Mapping[Grade, int] = {"compact": 1, "fine": 2}
MOST_SLOPE_BITS: Mapping[Grade, int] = {"compact": 9, "fine": 16}
PROMISED: Mapping[Grade, float] = {"compact": 2.0**-10, "fine": 2.0**-16}
"""Errors relative to the function, below 0 of some to the argument."""
LOOSER: Mapping[Grade, int] = {"compact": 2, "fine": 4}
"""How many times as large those of derivatives may be, which are absolute."""
_SHARE: Mapping[Grade, float] = {"compact": 0.9, "fine": 1.0}
"""Part of the promised error that a segment may have: in the compact grade the base is cut too."""
FORMS_OF: Mapping[str, tuple[str, ...]] = {
    "gelu": ("even", "tail"),
    "silu": ("even", "tail"),
    "tanh": ("odd", "one_plus"),
    "gelu_derivative": ("half_plus",),
    "silu_derivative": ("half_plus",),
    "tanh_derivative": ("one_less",),
}
"""Forms that a function's segments may have."""


def _normal(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


_VALUES: Mapping[str, Real] = {
    "gelu": lambda x: x * _normal(x),
    "silu": lambda x: x * _logistic(x),
    "tanh": mpmath.tanh,
    "gelu_derivative": lambda x: _normal(x) + x * mpmath.npdf(x),
    "silu_derivative": lambda x: _logistic(x) * (1 + x * (1 - _logistic(x))),
    "tanh_derivative": lambda x: mpmath.sech(x) ** 2,
}


def value(function: str, x: Any) -> Any:
    """The exact value, to mpmath's precision."""
    return _VALUES[function](x)


def bound(function: str, grade: Grade) -> float:
    """Return the largest error that a segment may have."""
    promised = PROMISED[grade] * (LOOSER[grade] if function.endswith("derivative") else 1)
    return _SHARE[grade] * promised


def piece(function: str, place: Place, degree: int) -> Piece:
    """Return the requirements of the polynomial of a segment."""
    unit = mpmath.mpf(2) ** place.exponent
    step = mpmath.mpf(2) ** -place.depth
    exact = _VALUES[function]

    def significand(t: Any) -> Any:
        return 1 + (place.index + t) * step

    def relative(t: Any) -> Any:
        return exact(significand(t) * unit) / unit

    def absolute(t: Any) -> Any:
        return exact(significand(t) * unit)

    def zero(t: Any) -> Any:
        return mpmath.mpf(0)

    def one(t: Any) -> Any:
        return mpmath.mpf(1)

    pieces = {
        "even": Piece(
            function=lambda t: relative(t) - significand(t) / 2,
            weight=relative,
            ceiling=lambda t: significand(t) / 2,
        ),
        "tail": Piece(
            function=lambda t: relative(t) - significand(t), weight=relative, ceiling=zero
        ),
        "odd": Piece(function=lambda t: significand(t) - relative(t), weight=relative),
        "one_plus": Piece(function=lambda t: absolute(t) - 1, weight=absolute, ceiling=zero),
        "one_less": Piece(function=lambda t: 1 - absolute(t), weight=one, ceiling=one),
        "half_plus": Piece(function=lambda t: absolute(t) - mpmath.mpf(1) / 2, weight=one),
    }
    return replace(pieces[place.form], rising=not function.endswith("derivative"), degree=degree)


def _possible(function: str, exponent: int) -> tuple[str, ...]:
    """Forms that segments of that exponent may have."""
    if function == "tanh":
        return ("odd",) if exponent < 0 else ("one_plus",)
    return FORMS_OF[function]


def _rises(found: Piece) -> bool:
    """Whether the function rises all over the segment, by its values at some places."""
    with mpmath.workdps(30):
        values = [found.function(mpmath.mpf(i) / 16) for i in range(17)]
    slack = mpmath.mpf(2) ** -24
    return all(b >= a - slack for a, b in pairwise(values))


class _Maker:
    """The segments of a grade."""

    def __init__(self, grade: Grade) -> None:
        self._grade = grade
        self.empty = empty(name=f"activation_{grade}", **WIDTHS[grade])

    def segments(
        self, function: str, exponent: int, depth: int = 0, index: int = 0
    ) -> list[tuple[Place, Table]]:
        """The segments of a part of a binade."""
        grade = self._grade
        best: tuple[Place, Table] | None = None
        for form in _possible(function, exponent):
            place = Place(function, exponent, depth, index, form)
            wanted = piece(function, place, DEGREES[grade])
            if wanted.rising and not _rises(wanted):
                continue
            try:
                found = fitted(self.empty, wanted, truncated=True)
            except ValueError:
                continue
            most = 1 << (MOST_SLOPE_BITS[grade] - (not wanted.rising))
            least_slope, largest_slope = found.slopes
            slopes_fit = -most <= least_slope and largest_slope < most
            fits = slopes_fit and found.error <= bound(function, grade)
            if fits and (best is None or largest_slope < best[1].slopes[1]):
                best = place, found
        if best is not None:
            return [best]
        if depth == DEPTH:
            raise ValueError(f"{function} needs more segments at 2^{exponent}")
        return [
            segment
            for half in (0, 1)
            for segment in self.segments(function, exponent, depth + 1, 2 * index + half)
        ]


def make(grade: Grade) -> Table:
    """The table of a grade, made anew."""
    maker = _Maker(grade)
    segments = [
        segment
        for name, function in FUNCTIONS.items()
        for exponent in range(function.exponents[grade][0], function.exponents[grade][1] + 1)
        for segment in maker.segments(name, exponent)
    ]
    table = joined(maker.empty, [found for _, found in segments])
    worst = max(found.error / bound(place.function, grade) for place, found in segments)
    return replace(table, places=tuple(place for place, _ in segments), error=worst)
