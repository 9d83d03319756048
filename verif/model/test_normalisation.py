"""The model of normalisation against exact arithmetic: its bound, special rows."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.normalisation import (
    layer_norm,
    normalise,
    rms_norm,
    window_sum,
)
from mxsafe.tables import GRADES, Grade
from mxsafe.tables.normalise import WIDTHS
from verif.rtl.vector.normalise_checks import SPECIAL, kinds_of_rows
from verif.support.tests import raises

Reals = NDArray[np.longdouble]
BOUND: dict[Grade, float] = {"compact": 2.0**-9.38, "fine": 2.0**-14.1}
LEAST: dict[Grade, float] = {"compact": 2.0**-136, "fine": 2.0**-149}
BOTH = pytest.mark.parametrize("grade", GRADES)
MOST_MEAN = 256


def _exact(
    words: NDArray[np.uint32], epsilon: float, centre: bool
) -> tuple[Reals, NDArray[np.bool_]]:
    """Normalised rows, and whether the bound holds for them."""
    values = words.view(np.float32).astype(np.longdouble)
    mean = values.mean(axis=1, keepdims=True)
    rest = values - mean
    mean += rest.mean(axis=1, keepdims=True)
    differences = values - mean if centre else values
    square = (differences * differences).mean(axis=1, keepdims=True)
    bounded = np.logical_not(centre) | (np.abs(mean) < MOST_MEAN * np.sqrt(square))
    # Rows of nothing but subnormals have fewer bits.
    bounded &= np.abs(values).max(axis=1, keepdims=True) >= 2.0**-126
    with np.errstate(divide="ignore", invalid="ignore"):
        result = differences / np.sqrt(square + np.longdouble(np.float32(epsilon)))
    return np.where(square + epsilon == 0, 0, result), bounded[:, 0]


@BOTH
@pytest.mark.parametrize(("length", "rows"), [(1, 20), (7, 40), (300, 4)])
def test_sums_are_exact_but_for_what_is_cut(length: int, rows: int, grade: Grade) -> None:
    """Every kind of row: the bound against fractions, and no error where nothing is cut."""
    rng, exact, bounded = np.random.default_rng(length), 0, 0
    for name, words in kinds_of_rows(rng, rows, length).items():
        found = window_sum(words.view(np.float32), grade=grade)
        assert found.shape == (rows,)
        if name == "not finite":
            assert (found.view(np.uint32) == 0x7FC00000).all()
            continue
        for row, result in zip(words.view(np.float32), found, strict=True):
            values = [Fraction(float(value)) for value in row]
            exponent = max(np.frexp(np.abs(row).max())[1], -125)
            unit = Fraction(2) ** (int(exponent) - 24 - 2 * (grade == "fine"))
            total = sum(values, Fraction(0))
            with np.errstate(over="ignore"):
                near = np.float32(float(total))
            if all(value % unit == 0 for value in values):
                assert result.view(np.uint32) == (near + np.float32(0)).view(np.uint32), name
                exact += 1
            elif np.isfinite(result):
                half = Fraction(float(np.spacing(np.abs(result)))) / 2
                room = (length - 1) * unit + half
                assert abs(Fraction(float(result)) - total) <= room, name
                bounded += 1
    assert exact > rows
    assert (bounded > rows) == (length > 1)


def test_sums_of_many_values() -> None:
    """The longest row; ties to even, cancelling, a sum too large, zeros of either sign."""
    ones = np.full(65536, 3.0, np.float32)
    assert window_sum(ones) == 3 * 65536
    ones[1:] = -ones[1]
    assert window_sum(ones) == -3 * 65534
    cases = {
        (2.0**24, 1.0): 2.0**24,
        (2.0**24, 1.0, 2.0): 2.0**24 + 4,  # of which 3 is a tie with an odd number
        (-(2.0**24), -2.0, -1.0): -(2.0**24) - 4,
        (1.0, -1.0, 2.0**-30): 0.0,
        (3e38, 3e38): np.inf,
        (-3e38, -3e38): -np.inf,
        (2.0**-149, 2.0**-149): 2.0**-148,
        (-0.0, -0.0): 0.0,
    }
    for row, wanted in cases.items():
        found = window_sum(np.array(row, np.float32), grade="fine")
        assert found.view(np.uint32) == np.float32(wanted).view(np.uint32), row


@BOTH
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize(("length", "rows"), [(4, 200), (96, 60), (8192, 2)])
def test_errors_are_bounded(length: int, rows: int, centre: bool, grade: Grade) -> None:
    """Every kind of row, without gain and with one, for no, a small and a large epsilon."""
    rng = np.random.default_rng(length)
    gain = rng.standard_normal(length).astype(np.float32)
    compared = 0
    for name, words in kinds_of_rows(rng, rows, length).items():
        if name == "not finite":
            continue
        for epsilon in (0.0, 1e-5, 3.0):
            exact, bounded = _exact(words, epsilon, centre)
            largest = np.abs(exact).max(axis=1, keepdims=True)
            for factor in (None, gain):
                options: dict[str, Any] = {"epsilon": epsilon, "centre": centre, "grade": grade}
                found = normalise(words.view(np.float32), factor, **options)
                scale = (np.ones(length) if factor is None else factor).astype(np.longdouble)
                error = np.abs(found.result - exact * scale)
                room = BOUND[grade] * largest * np.abs(scale) + LEAST[grade]
                assert (error <= room)[bounded].all(), f"{name}, epsilon {epsilon}"
                compared += int(bounded.sum()) * length
    assert compared > 100 * length


def test_compact_errors_with_biases_are_bounded() -> None:
    """Biases of all sizes, many of which cancel a result; outliers and far means among rows."""
    rng, length, compared = np.random.default_rng(9), 48, 0
    for name, words in kinds_of_rows(rng, 100, length).items():
        if name == "not finite":
            continue
        for epsilon in (0.0, 3.0):
            exact, bounded = _exact(words, epsilon, centre=True)
            for number in np.flatnonzero(bounded):
                gain = rng.standard_normal(length).astype(np.float32)
                scaled = exact[number] * gain
                bias = -scaled * (1 + rng.choice([0, 2.0**-6, 1e3], length) * rng.random(length))
                bias = bias.astype(np.float32)
                row = words[number].view(np.float32)
                found = layer_norm(row, gain, bias, epsilon, grade="compact")
                wanted = scaled + bias
                largest = np.maximum(np.abs(bias), np.abs(wanted)).astype(np.longdouble)
                largest = np.maximum(largest, np.abs(exact[number]).max() * np.abs(gain))
                error = np.abs(found - wanted)
                assert (error <= 2.0**-9 * largest + LEAST["compact"]).all(), name
                compared += length
    assert compared > 1000 * length


def test_compact_products_lose_what_the_bound_says() -> None:
    """All squares, and their products with reciprocal deviations."""
    widths = WIDTHS["compact"]
    # Rows of two values: a difference of the significand, and the same with the other sign.
    numbers = np.arange(1 << widths.number - 1, 1 << widths.number)
    rows = np.stack([numbers, -numbers], axis=1).astype(np.float32)
    found = normalise(rows, epsilon=0.0, centre=False, grade="compact")
    assert np.abs(found.reciprocal_deviation[:, 0] * numbers.astype(float) - 1).max() < 4.8 / 8192
    assert 2 / 8192 <= np.abs(np.abs(found.result) - 1).max() < 11 / 8192


@BOTH
@pytest.mark.parametrize("length", [1, 7, 8192])
def test_constant_rows_are_the_bias(length: int, grade: Grade) -> None:
    rng = np.random.default_rng(1)
    bias = rng.standard_normal(length).astype(np.float32)
    gain = rng.standard_normal(length).astype(np.float32)
    numbers = [0.0, 1e-45, -1e-40, 3.3, -7e20, 3.4e38]
    x = np.broadcast_to(np.array(numbers, np.float32)[:, None], (len(numbers), length))
    for epsilon in (0.0, 1e-5):
        result = layer_norm(x, gain, bias, epsilon, grade=grade)
        assert (result == bias).all()
        assert (layer_norm(x, epsilon=epsilon, grade=grade) == 0).all()
    mixed = np.where(np.arange(length) % 2, np.float32(-0.0), np.float32(0.0))
    assert (layer_norm(mixed[None], gain, bias, 0.0, grade=grade) == bias).all()


@BOTH
def test_what_is_not_finite_spoils_its_row_alone(grade: Grade) -> None:
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    clean = layer_norm(x, grade=grade)
    for word in SPECIAL:
        x[3, 17] = word.view(np.float32)
        for result in (
            layer_norm(x, bias=np.ones(64), grade=grade),
            rms_norm(x, grade=grade),
        ):
            assert (result[3].view(np.uint32) == 0x7FC00000).all()
            assert np.isfinite(np.delete(result, 3, axis=0)).all()
        assert (np.delete(layer_norm(x, grade=grade) == clean, 3, axis=0)).all()
    assert np.isnan(normalise(np.full((2, 64), np.inf), grade=grade).mean).all()


@BOTH
def test_gains_that_are_special(grade: Grade) -> None:
    x = np.array([[9, -9, 9, -9, 1, 1, 1, -1], [3] * 8], np.float32)
    gain = np.array([np.inf, np.inf, np.nan, 3e38, 1e-45, 0.0, -0.0, -2e-38], np.float32)
    result, constant = layer_norm(x, gain, grade=grade)
    assert result[[0, 1, 3]].tolist() == [np.inf, -np.inf, -np.inf]
    assert np.isnan(result[2])
    assert result[4:7].tolist() == [0, 0, 0]
    assert 0 < result[7] < 1.17e-38  # a subnormal
    assert np.isnan(constant).tolist() == [True, True, True] + [False] * 5


@BOTH
def test_order_does_not_matter(grade: Grade) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((20, 300)) ** 5).astype(np.float32)
    order = rng.permutation(300)
    found = layer_norm(x, grade=grade)
    assert (found[:, order] == layer_norm(x[:, order], grade=grade)).all()
    assert (found == layer_norm(x.T, axis=0, grade=grade).T).all()


@pytest.mark.parametrize(("grade", "mean", "deviation"), [("fine", 23, 14), ("compact", 21, 10)])
def test_mean_and_reciprocal_deviation(grade: Grade, mean: int, deviation: int) -> None:
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((50, 200)) + rng.standard_normal((50, 1)) * 9).astype(np.float32)
    found = normalise(x, epsilon=1e-3, grade=grade)
    values = x.astype(np.float64)
    largest = np.abs(values).max(axis=1, keepdims=True)
    error = np.abs(found.mean - values.mean(axis=1, keepdims=True))
    assert (error < 2.0**-mean * largest).all()
    factor = found.reciprocal_deviation * np.sqrt(values.var(axis=1, keepdims=True) + 1e-3)
    assert (np.abs(factor - 1) < 2.0**-deviation).all()
    constant = normalise(-np.ones((1, 4)), epsilon=0.0, grade=grade)
    assert np.isinf(constant.reciprocal_deviation).all()
    assert (constant.mean == -1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((2, 0))}, "x must have rows of 1 to 65536 values, not of 0"),
        ({"x": np.zeros(65537)}, "x must have rows of 1 to 65536 values, not of 65537"),
        ({"gain": np.ones(3)}, "gain must have shape (4,), not (3,)"),
        ({"bias": np.ones((1, 4))}, "bias must have shape (4,), not (1, 4)"),
        ({"grade": "coarse"}, "grade must be one of compact, fine, not 'coarse'"),
        ({"epsilon": -1.0}, "epsilon must be a finite number from 0, not -1.0"),
        ({"epsilon": np.inf}, "epsilon must be a finite number from 0, not inf"),
        ({"epsilon": 1e39}, "epsilon must be a finite number from 0, not 1e+39"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with raises(ValueError, message):
        layer_norm(**{"x": np.zeros((2, 4)), **arguments})
