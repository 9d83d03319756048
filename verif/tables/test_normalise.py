"""Widths of normalisation: what grade ``compact`` cuts is no more than its bound has room for."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.tables import GRADES, Grade
from mxsafe.tables.normalise import MOST_VALUES, WIDTHS

Integers = NDArray[np.int64]
U = 2.0**13
"""Errors are in units of ``2^-13``: 16 of them are allowed."""
WIDTH = WIDTHS["compact"]


def _product(a: Integers, b: Integers, bits: int, cut: int) -> Integers:
    """Rows for digits of `b` from -2 to 2, cut one by one."""
    total = np.full(np.broadcast_shapes(a.shape, b.shape), WIDTH.correction, np.int64)
    for place in range(0, bits + 1, 2):
        low, high, minus = ((b << 1 >> place + index) & 1 for index in range(3))
        digit = low + high - 2 * minus
        row = np.abs(digit) * a << place >> cut
        total += np.where(digit < 0, ~row if place < cut else -row, row)
    return total >> 2


def _significands(bits: int, step: int = 1) -> Integers:
    """Some, the least and the largest ones among them."""
    every = np.arange(1 << bits - 1, 1 << bits)
    return np.unique(np.concatenate([every[::step], every[-8:]]))


@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.full)])
def test_compact_errors_add_up_to_less_than_the_bound(step: int) -> None:
    """As the table in `mxsafe.model.normalisation.normalise` has it; with `full` all factors."""
    small, large = [], []

    def lost(least: float, most: float) -> None:
        small.append(-least * U)
        large.append(most * U)

    # Largest values are below (256 + M/s) s; M is the largest difference.
    reach = 256 + np.sqrt(MOST_VALUES - 1)
    unit = 2.0 ** (1 - WIDTH.window)
    most = unit * (2 * 257 + reach / 4)
    lost(-most, most)
    lost(0, 2.0**-WIDTH.square * (4 * reach) ** 2 / 2)
    lost(-(2.0 ** (1 - WIDTH.number)), 2.0 ** (1 - WIDTH.number))
    lost(0, 1.5 * 2.0**-WIDTH.point)
    numbers = _significands(WIDTH.number)
    errors = []
    for factor in _significands(WIDTH.reciprocal, step):
        found = _product(factor, numbers, WIDTH.number, WIDTH.cut)
        assert 1 << WIDTH.product - 2 <= found.min() <= found.max() < 1 << WIDTH.product
        # A product is cut to the bits of a result: it has one more with a carry.
        assert WIDTH.product == WIDTH.result + 1
        carry = found >> WIDTH.product - 1
        errors.append((found >> carry << carry + WIDTH.cut + 2) / (factor * numbers) - 1)
    lost(np.min(errors), np.max(errors))
    roots = numbers << WIDTH.reciprocal - WIDTH.number
    squares = _product(roots, numbers, WIDTH.number, WIDTH.cut)
    error = (squares << WIDTH.cut + 2) / (roots * numbers) - 1
    lost(-error.max() / 2, -error.min() / 2)
    # The reciprocal is rounded, from a root that is exact but for its last bit.
    assert WIDTH.root > WIDTH.reciprocal
    lost(-(2.0**-WIDTH.reciprocal), 2.0**-WIDTH.reciprocal)
    assert 11.5 < sum(small) < 12.5
    assert 13.5 < sum(large) < 14.1


@pytest.mark.parametrize("grade", GRADES)
def test_what_units_need_of_widths(grade: Grade) -> None:
    widths = WIDTHS[grade]
    assert widths.window >= 24
    assert widths.square % 2 == widths.point % 2
    assert widths.point >= widths.root - 1
    assert widths.root >= widths.reciprocal >= widths.number
    assert widths.square > widths.window
    assert widths.product <= widths.result + 1
