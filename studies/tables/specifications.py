"""Which tables there are: functions, segments and widths."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import mpmath

from mxsafe.tables import Table
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


def _exp2() -> Specification:
    """``2^f``, f from 0 to 1: 16 segments."""
    return Specification(
        name="exp2_fine",
        pieces=[_on(lambda x: mpmath.mpf(2) ** x, i / 16, 1 / 16, least=1) for i in range(16)],
        offset_bits=14,
        high_bits=10,
        fraction_bits=22,
        slope_bits=21,
        curvature_bits=18,
    )


def _reciprocal() -> Specification:
    """``1 / s`` of a significand from 1 to 2: 32 segments."""
    return Specification(
        name="reciprocal_fine",
        pieces=[_on(lambda x: 1 / x, 1 + i / 32, 1 / 32, least=0.5) for i in range(32)],
        offset_bits=14,
        high_bits=10,
        fraction_bits=22,
        slope_bits=21,
        curvature_bits=18,
    )


def _rsqrt() -> Specification:
    """``1 / sqrt(s)`` of a significand from 1 to 4: 16 segments each below and above 2."""
    pieces = [
        _on(lambda x: 1 / mpmath.sqrt(x), binade + binade * i / 16, binade / 16, least=0.5)
        for binade in (1, 2)
        for i in range(16)
    ]
    return Specification(
        name="rsqrt_fine",
        pieces=pieces,
        offset_bits=14,
        high_bits=10,
        fraction_bits=22,
        slope_bits=21,
        curvature_bits=18,
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


def _log2() -> Specification:
    """Logarithm of a significand from 1 to 2, cut off after 19 bits: 32 segments.

    Never above the exact one in the last segment, where the sum of a row of one value lies: so what
    `mxsafe.model.softmax` subtracts from its exponent is no more than that.
    """

    def piece(index: int) -> Piece:
        def exact(place: Any) -> Any:
            return mpmath.log(1 + (index + place) / 32, 2)

        ceiling = exact if index == 31 else None
        return Piece(function=exact, weight=lambda place: mpmath.mpf(1), ceiling=ceiling)

    return Specification(
        name="log2_fine",
        pieces=[piece(index) for index in range(32)],
        offset_bits=14,
        high_bits=9,
        fraction_bits=23,
        slope_bits=22,
        curvature_bits=19,
        truncated=True,
    )


SPECIFICATIONS: Mapping[str, Callable[[], Specification]] = MappingProxyType(
    {
        "exp2_fine": _exp2,
        "reciprocal_fine": _reciprocal,
        "rsqrt_fine": _rsqrt,
        "softmax_exp2_fine": _softmax_exp2,
        "log2_fine": _log2,
    }
)
"""By the name of its table what makes a specification."""
NAMES = (*SPECIFICATIONS, "activation_fine")
"""Names of all tables."""


def make(name: str) -> Table:
    """The table of that name, made anew."""
    return activation.make() if name == "activation_fine" else build(SPECIFICATIONS[name]())
