"""The page on utilisation: what its prose claims is so."""

import pytest

from studies.pages import kept
from studies.utilisation import CASES, SHAPES

TABLE = kept("utilisation")["utilisation"]


def test_numbers_are_those_of_the_cases() -> None:
    assert [label for label, *_ in CASES] == list(TABLE)


def test_claims() -> None:
    """Rates of large products by accumulators and blocks."""
    largest = {label: values[SHAPES.index((256, 256, 1024))] for label, values in TABLE.items()}
    full = ("fp12, 1x64", "fp12, 8x8", "exact, 1x64", "exact, 8 accumulators, 8x8")
    assert all(largest[label] > 0.99 for label in full)
    assert largest["exact, 1x32"] == pytest.approx(1 / 2, rel=0.01)
    assert largest["exact, 8x8"] == pytest.approx(1 / 8, rel=0.01)
    short = {label: values[SHAPES.index((100, 50, 200))] for label, values in TABLE.items()}
    assert short["exact, 1x64"] == pytest.approx(50 / 64, rel=0.02)
    assert short["fp12, 1x64"] > 0.98
