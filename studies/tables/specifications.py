"""Specifications of tables: functions, segments and widths."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import mpmath

from mxsafe.tables import GRADES, Grade, Table
from studies.tables import activation
from studies.tables.fit import Piece, Specification, build


def _on(
    function: Callable[[Any], Any], start: float, length: float, *, least: float | None = None
) -> Piece:
    """A function on the segment that starts there, with a relative error, and never below `least`.

    Then all results have the same leading one.
    """
    return Piece(
        function=lambda place: function(start + length * place),
        floor=None if least is None else lambda place: mpmath.mpf(least),
    )


_FINE = {
    "offset_bits": 14,
    "high_bits": 10,
    "fraction_bits": 22,
    "slope_bits": 21,
    "curvature_bits": 18,
}
_LINES = {
    "offset_bits": 8,
    "high_bits": 0,
    "fraction_bits": 16,
    "slope_bits": 14,
    "curvature_bits": 14,
}
"""Widths of `compact`, where a segment is a straight line."""


def _grades(
    name: str,
    function: Callable[[Any], Any],
    binades: Sequence[int],
    segments: Mapping[Grade, int],
    least: float,
) -> dict[str, Callable[[], Specification]]:
    """A function from 0 to 1, or on binades, of which each has so many segments in a grade."""

    def pieces(grade: Grade) -> list[Piece]:
        count = segments[grade]
        return [
            _on(function, start + (start or 1) * i / count, (start or 1) / count, least=least)
            for start in binades
            for i in range(count)
        ]

    def lines() -> Specification:
        straight = [replace(piece, degree=1) for piece in pieces("compact")]
        return Specification(name=f"{name}_compact", pieces=straight, truncated=True, **_LINES)

    def parabolas() -> Specification:
        return Specification(name=f"{name}_fine", pieces=pieces("fine"), **_FINE)

    return {f"{name}_compact": lines, f"{name}_fine": parabolas}


def _inverse_root(x: Any) -> Any:
    return 1 / mpmath.sqrt(x)


def _softmax_line() -> Specification:
    """``2^f``, f from 0 to 1 in steps of 2^-11, cut off: 32 lines."""
    pieces = [_on(lambda x: mpmath.mpf(2) ** x, i / 32, 1 / 32) for i in range(32)]
    return Specification(
        name="softmax_exp2_compact",
        pieces=[replace(piece, degree=1) for piece in pieces],
        offset_bits=6,
        high_bits=0,
        fraction_bits=14,
        slope_bits=12,
        curvature_bits=12,
        truncated=True,
    )


def _softmax_exp2() -> Specification:
    """``2^f``, f from 0 to 1 in steps of 2^-17, cut off: 32 segments."""
    return Specification(
        name="softmax_exp2_fine",
        pieces=[_on(lambda x: mpmath.mpf(2) ** x, i / 32, 1 / 32) for i in range(32)],
        offset_bits=12,
        high_bits=6,
        fraction_bits=20,
        slope_bits=19,
        curvature_bits=16,
        truncated=True,
    )


def _log2(grade: Grade) -> Specification:
    """Logarithm of a significand from 1 to 2, cut off after 19 or 13 bits: 32 segments.

    Never above the exact one in the last segment, where the sum of a row of one value lies: so what
    `mxsafe.model.softmax` subtracts from its exponent is no more than that.
    """

    def piece(index: int) -> Piece:
        def exact(place: Any) -> Any:
            return mpmath.log(1 + (index + place) / 32, 2)

        ceiling = exact if index == 31 else None
        return Piece(
            function=exact,
            weight=lambda place: mpmath.mpf(1),
            degree=1 if grade == "compact" else 2,
            floor=(lambda place: mpmath.mpf(0)) if index == 0 else None,
            ceiling=ceiling,
        )

    fine = {
        "offset_bits": 14,
        "high_bits": 9,
        "fraction_bits": 23,
        "slope_bits": 22,
        "curvature_bits": 19,
    }
    return Specification(
        name=f"log2_{grade}",
        pieces=[piece(index) for index in range(32)],
        truncated=True,
        **(_LINES if grade == "compact" else fine),
    )


SPECIFICATIONS: Mapping[str, Callable[[], Specification]] = MappingProxyType(
    {
        **_grades("exp2", lambda x: mpmath.mpf(2) ** x, [0], {"compact": 16, "fine": 16}, 1),
        **_grades("reciprocal", lambda x: 1 / x, [1], {"compact": 16, "fine": 32}, 0.5),
        **_grades("rsqrt", _inverse_root, [1, 2], {"compact": 8, "fine": 16}, 0.5),
        "softmax_exp2_compact": _softmax_line,
        "softmax_exp2_fine": _softmax_exp2,
        "log2_compact": lambda: _log2("compact"),
        "log2_fine": lambda: _log2("fine"),
    }
)
"""By the name of its table what makes a specification."""
NAMES = (*SPECIFICATIONS, *(f"activation_{grade}" for grade in GRADES))
"""Names of all tables."""


def make(name: str) -> Table:
    """The table of that name, made anew."""
    if name in SPECIFICATIONS:
        return build(SPECIFICATIONS[name]())
    (grade,) = (grade for grade in GRADES if name == f"activation_{grade}")
    return activation.make(grade)
