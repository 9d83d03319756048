"""Fits: a polynomial is found exactly, and errors are nearly as small as they can be."""

import mpmath
import pytest

from studies.tables.fit import Piece, Specification, build
from verif.support.tests import raises


def _specification(piece: Piece, **changes: int | bool) -> Specification:
    widths = {
        "offset_bits": 10,
        "high_bits": 10,
        "fraction_bits": 24,
        "slope_bits": 26,
        "curvature_bits": 24,
    }
    return Specification(name="example", pieces=[piece], **{**widths, **changes})


def test_a_parabola_is_found() -> None:
    piece = Piece(
        function=lambda t: mpmath.mpf(1) / 4 + t / 8 + t * t / 16,
        weight=lambda t: mpmath.mpf(1),
    )
    table = build(_specification(piece))
    ((c0, c1, c2),) = table.coefficients
    assert abs(c2 - 2**20) <= 16
    assert abs(c1 - 3 * 2**22) <= 64
    assert abs(c0 - 21 * 2**18) <= 16
    assert table.error < 2.0**-20


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_errors_are_those_of_minimax_polynomials(degree: int) -> None:
    """The error of ``exp(t / 8)`` is near that of the first term left out, on Chebyshev's nodes."""
    piece = Piece(
        function=lambda t: mpmath.exp(t / 8), weight=lambda t: mpmath.mpf(1), degree=degree
    )
    table = build(_specification(piece))
    term = 8.0 ** -(degree + 1) / mpmath.factorial(degree + 1)
    expected = float(term) * 2 / 4 ** (degree + 1)
    assert expected < table.error < 1.2 * expected + 2.0**-21


def test_truncated_offsets_stand_for_what_was_cut_off() -> None:
    piece = Piece(function=lambda t: t + 1, weight=lambda t: mpmath.mpf(1))
    exact = build(_specification(piece, offset_bits=6, high_bits=6))
    cut = build(_specification(piece, offset_bits=6, high_bits=6, truncated=True))
    assert exact.error < 2.0**-20
    assert 2.0**-7 <= cut.error < 2.0**-6.9


def test_a_function_that_is_not_smooth() -> None:
    piece = Piece(function=mpmath.sqrt)
    with raises(ValueError, "function must be smooth on its segment"):
        build(_specification(piece))
