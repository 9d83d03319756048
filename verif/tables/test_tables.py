"""The committed tables: what they claim is so, and what is not there is refused."""

import mpmath
import numpy as np
import pytest

from mxsafe import tables
from mxsafe.model.polynomial import evaluate, slopes
from verif.support.tests import raises


@pytest.mark.parametrize("name", tables.names())
def test_results_lie_within_the_bounds(name: str) -> None:
    table = tables.load(name)
    offsets = np.arange(1 << table.offset_bits)
    segments = np.arange(table.segments)[:, None]
    values = evaluate(table, segments, offsets)
    assert (values.min(), values.max()) == table.results
    _, slope, _ = slopes(table, segments, offsets)
    assert (slope.min(), slope.max()) == table.slopes


@pytest.mark.parametrize("name", ["exp2_fine", "reciprocal_fine", "rsqrt_fine"])
def test_errors_are_what_the_table_says(name: str) -> None:
    """A few thousand places, against mpmath."""
    table = tables.load(name)
    rng = np.random.default_rng(1)
    segments = np.repeat(np.arange(table.segments), 60)
    offsets = rng.integers(0, 1 << table.offset_bits, segments.size)
    offsets[::60], offsets[1::60] = 0, (1 << table.offset_bits) - 1
    got = evaluate(table, segments, offsets)
    worst = 0.0
    for segment, offset, result in zip(segments, offsets, got, strict=True):
        place = int(segment) + mpmath.ldexp(int(offset), -table.offset_bits)
        exact = {
            "exp2_fine": lambda x: mpmath.mpf(2) ** (x / 16),
            "reciprocal_fine": lambda x: 1 / (1 + x / 32),
            "rsqrt_fine": lambda x: 1 / mpmath.sqrt(1 + x / 16 if x < 16 else x / 8),
        }[name](place)
        error = abs(mpmath.ldexp(int(result), -table.fraction_bits) / exact - 1)
        worst = max(worst, float(error))
    assert table.error / 2 < worst <= table.error * (1 + 1e-9)
    assert table.error < 2.0**-17.5


def test_a_table_that_there_is_not() -> None:
    with raises(ValueError, f"name must be one of {', '.join(tables.names())}, not 'sine'"):
        tables.load("sine")


def test_a_table_has_shifts_and_widths() -> None:
    table = tables.load("exp2_fine")
    assert table.segments == 16
    assert table.index_bits == 4
    assert table.distance_cut == table.offset_bits - table.high_bits
    low, high = table.slopes
    assert 0 < low < high < 1 << (table.slope_bits - 2)
    assert tables.from_parameters(vars(table)) == table
