"""The model of a table against the definition, in Python's own integers."""

from dataclasses import replace

import numpy as np
import pytest

from mxsafe.model.polynomial import evaluate, every_result
from mxsafe.tables import Table
from verif.support.tests import raises

TABLE = Table(
    name="example",
    offset_bits=5,
    high_bits=3,
    fraction_bits=8,
    slope_bits=8,
    curvature_bits=7,
    coefficients=((3, -70, 9), (100, 51, -13), (-5, 0, 0)),
    bounds=(),
    error=0.0,
)


def _product(a: int, b: int, bits: int, shift: int) -> int:
    total = 0
    for low in range(0, bits, 2):
        digit = (b >> low & 1) + (b >> low - 1 & 1 if low else 0)
        if b >> low + 1 & 1:
            total += ~((2 - digit) * a << low >> shift)
        else:
            total += digit * a << low >> shift
    return total


def test_every_segment_and_offset() -> None:
    assert (TABLE.distance_cut, TABLE.slope_shift, TABLE.result_shift) == (2, 2, 5)
    segments, offsets = np.divmod(np.arange(3 * 32), 32)
    got = evaluate(TABLE, segments, offsets)
    for segment, offset, result in zip(segments.tolist(), offsets.tolist(), got, strict=True):
        c0, c1, c2 = TABLE.coefficients[segment]
        slope = c1 + _product(c2, offset - 16 >> 2, 3, 2)
        assert result == c0 + _product(slope, offset - 16, 5, 5)
        exact = c0 + slope * (offset - 16) / 32
        assert exact - 4 < result <= exact


def test_all_results_at_once() -> None:
    table = replace(TABLE, coefficients=TABLE.coefficients * 3)
    segments, offsets = np.divmod(np.arange(9 * 32), 32)
    got = every_result(table)
    assert (got == evaluate(table, segments, offsets).reshape(9, 32)).all()
    assert got.dtype == np.int32


def test_shapes_are_broadcast() -> None:
    got = evaluate(TABLE, [[0], [1]], [0, 16, 31])
    assert got.shape == (2, 3)
    assert got[1, 1] == 100
    assert evaluate(TABLE, [], []).shape == (0,)


@pytest.mark.parametrize(
    ("segment", "offset", "message"),
    [
        ([0, 3], 0, "segment must lie in 0..2, not 0..3"),
        (0, 32, "offset must lie in 0..31, not 32..32"),
        (0, -1, "offset must lie in 0..31, not -1..-1"),
    ],
)
def test_what_is_out_of_range(segment: int, offset: int, message: str) -> None:
    with raises(ValueError, message):
        evaluate(TABLE, segment, offset)
