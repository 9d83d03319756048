"""The model of softmax: within its bound of exact values, and exact where it has to be."""

import math
from collections.abc import Iterator

import ml_dtypes
import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.softmax import (
    softmax,
    softmax_by_factor,
    softmax_factor,
)
from mxsafe.tables import GRADES, Grade
from mxsafe.tables.softmax import FLOAT_BITS, LONGEST_ROW, ROOM_BITS, WIDTHS
from verif.support.tests import raises

Floats = NDArray[np.float32]
NAN = 0x7FC00000
Q: dict[Grade, float] = {"compact": 2.0**-12, "fine": 2.0**-18}
"""The unit of the derivation in the model's docstring."""
BOUND: dict[Grade, float] = {"compact": 2.0**-9, "fine": 2.0**-15}
SUM: dict[Grade, float] = {"compact": 2.0**-8, "fine": 2.0**-12}
BOTH = pytest.mark.parametrize("grade", GRADES)


def _exact(x: Floats, scale: float) -> NDArray[np.float64]:
    """Softmax in float64: the difference and its product add 2^-45 or so to what NumPy does."""
    values = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exponents = (values - values.max(axis=-1, keepdims=True)) * scale
    powers = np.exp(np.where(np.isneginf(values), -np.inf, exponents))
    return powers / powers.sum(axis=-1, keepdims=True)


def _share(x: Floats, scale: float = 1.0, *, grade: Grade) -> float:
    """The largest error of a result, as a share of the bound; sums and range are checked too."""
    x = np.asarray(x, np.float32)
    got, exact = softmax(x, scale=scale, grade=grade).astype(np.float64), _exact(x, scale)
    assert np.abs(got.sum(axis=-1) - 1).max() <= SUM[grade]
    assert got.max() <= 1
    assert (got[np.isneginf(x)].view(np.int64) == 0).all()
    return float((np.abs(got - exact) / (BOUND[grade] * exact + 2.0**-40)).max())


LIMITS: dict[Grade, dict[str, float]] = {
    "compact": {
        "window": 0.75,
        "factor": 4.04,
        "rows": 0.71,
        "powers": 3.52,
        "terms": 1.45,
        "logarithm": 0.94,
    },
    "fine": {
        "window": 1.5,
        "factor": 0.3,
        "rows": 2.68,
        "powers": 4.83,
        "terms": 0.73,
        "logarithm": 0.9,
    },
}
"""Of each part, in units of `Q`."""
TOGETHER: dict[Grade, float] = {"compact": 0.99, "fine": 0.949}


@BOTH
def test_the_derivation(grade: Grade) -> None:
    """The errors of the parts add up to less than the bound: the docstring's numbers."""
    widths, bound, limits = WIDTHS[grade], BOUND[grade], LIMITS[grade]
    power, fractions = widths.power, widths.factor_fraction_bits
    shifts = widths.digit_shifts[:-1]
    unit = 2.0**-widths.product_fraction_bits
    # Where u is larger, less of the bound is relative.
    exponents = np.arange(0, 42, 0.125)
    spare = np.log2(1 + 2.0 ** (exponents - 40) / bound) * 0.9 * bound
    lost = 2.0**-24
    if fractions < FLOAT_BITS:
        lost += 2.0 ** -(fractions + 1) / 0.75
    parts = {
        "window": 1.5 * 2.0**-widths.window_fraction_bits,
        "factor": float((exponents * lost - spare).max()),
        "rows": unit * sum(1 - 2.0**-shift for shift in shifts if shift > 0),
        "powers": np.log2((1 + power.error) / (1 - power.error)),
        "terms": 4095 * 2.0**-widths.term_fraction_bits / np.log(2) * 1.0001,
        "logarithm": widths.logarithm.error + unit,
    }
    for name, limit in limits.items():
        assert parts[name] <= limit * Q[grade], name
    assert 2 ** (sum(limits.values()) * Q[grade]) - 1 < TOGETHER[grade] * bound


def _largest_exponents(grade: Grade) -> dict[int, np.float32]:
    """All exponents of largest values in a first pass, in units of products: a factor for each.

    Such an exponent is a sum over the radix-4 digits of the factor's significand, of what each row
    of the product leaves out. Lower digits with the same sum are one case from there on, so that
    all ``2^23`` significands are looked at.
    """
    widths = WIDTHS[grade]
    difference = (1 << widths.window_bits) - 1
    unit = 1 << ROOM_BITS + widths.product_fraction_bits - widths.factor_fraction_bits
    lost = FLOAT_BITS - widths.factor_fraction_bits

    def left_out(digit: int, place: int) -> int:
        row = abs(digit) * difference << 2 * place >> widths.digit_shifts[0]
        return (row if digit >= 0 else ~row) - unit * digit * 4**place

    # By the bit below the next digit, the lowest bit, and the sum so far. Of what is lost only the
    # highest bit counts.
    significands = {(0, 0, 0): 0}
    if lost:
        significands[1, 0, 0] = 1 << lost - 1
    last = widths.digits - 1
    for place in range(last):
        longer = {}
        for (below, _, total), lower in significands.items():
            for two in range(4):
                digit = below + (two & 1) - (two & 2)
                found = lower | two << lost + 2 * place
                longer[two >> 1, found & 1, total + left_out(digit, place)] = found
        significands = longer
    exponents = {}
    for (below, odd, total), lower in significands.items():
        # From 0.75 to 1.5. From 1 on, the lowest bit is 0.
        for top in (3,) if odd else (3, 4, 5):
            digits = below + (top & 1) - (top & 2), (top >> 1 & 1) + (top >> 2)
            exponent = total + left_out(digits[0], last) + left_out(digits[1], last + 1)
            exponents[exponent] = np.float32((lower | top << 22) * 2.0**-24)
    return exponents


def _classes(rng: np.random.Generator) -> Iterator[tuple[str, NDArray[np.floating], float]]:
    normal = rng.normal(size=(60, 512))
    yield "usual", normal, 1.0
    yield "wide", normal * 10, 1.0
    yield "scaled", normal * 100, 0.08838834764831845
    yield "far from 0", 1e6 + normal * 10, 1.0
    yield "huge mean", 1e30 * (1 + normal * 1e-6), 1e-24
    yield "at the largest numbers", np.clip(normal * 1e38, -3.4e38, 3.4e38), 1e-36
    yield "below 0", -np.abs(normal) * 30, 1.0
    yield "subnormals", normal * 1e-41, 1.0
    yield "subnormals that differ", normal * 1e-41, 2.0**120
    yield "exponents of all sizes", normal * 2.0 ** rng.integers(-149, 127, normal.shape), 1.0
    yield "some of them -Inf", np.where(normal > 1, -np.inf, normal), 1.0
    for exponent in range(-119, 120, 14):
        scale = 2.0**exponent * rng.uniform(0.7, 1.9)
        yield f"scale {scale}", np.clip(normal * 8 / scale, -3e38, 3e38), scale
    for scale in 2.0 ** np.arange(0, 2, 1 / 16):
        yield f"scale {scale}", rng.normal(size=(10, 2000)) * 5 / scale, float(scale)


@BOTH
def test_every_class_is_within_the_bound(grade: Grade) -> None:
    rng = np.random.default_rng(8)
    with np.errstate(over="ignore"):
        shares = {
            name: _share(x.astype(np.float32), scale, grade=grade)
            for name, x, scale in _classes(rng)
        }
    assert len(shares) > 50
    assert max(shares.values()) < 0.9, shares


def _long_rows() -> Iterator[NDArray[np.float64]]:
    count = LONGEST_ROW
    places = np.arange(count)
    yield np.full(count, 3.0)
    for below in (0.1, 5.0, 8.3, 13.0, 19.0, 20.0, 20.79, 20.795, 21.0, 27.0, 28.0, 40.0):
        yield np.where(places == 77, 0.0, -below) - 100.0
    yield -places / 64
    yield -np.log1p(places)
    yield np.where(places % 2, 1000.0, -1000.0)


@BOTH
def test_long_rows(grade: Grade) -> None:
    """All equal, one dominant value, sums of nothing but lost bits."""
    for row in _long_rows():
        for scale in (1.0, 0.7, 1.04):
            assert _share(row[None].astype(np.float32), scale, grade=grade) < 0.9


@BOTH
@pytest.mark.full
def test_a_search_for_large_errors(grade: Grade) -> None:
    """Rows whose error is largest are changed at random, and the worse ones kept."""
    rng = np.random.default_rng(15)
    worst = 0.0
    for _ in range(60):
        scale = float(rng.uniform(0.5, 2.0))
        count = int(rng.choice([2, 3, 8, 64, 4096]))
        row = (rng.normal(size=count) * rng.choice([1.0, 5.0])).astype(np.float32)
        share = _share(row[None], scale, grade=grade)
        for _ in range(300):
            changed = row + rng.normal(size=count) * (rng.random(count) < 0.3) * 0.01
            found = _share(changed[None].astype(np.float32), scale, grade=grade)
            if found > share:
                share, row = found, changed.astype(np.float32)
        worst = max(worst, share)
    assert 0.3 < worst < 1.0


def test_some_rows_in_high_precision() -> None:
    """The float64 reference is exact enough to judge by."""
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(20, 16)) * 10 + 1e3).astype(np.float32)
    with mpmath.workdps(40):
        for row, got in zip(x, _exact(x, 0.3), strict=True):
            powers = [mpmath.exp(mpmath.mpf("0.3") * (float(v) - float(row.max()))) for v in row]
            total = mpmath.fsum(powers)
            assert all(
                abs(float(power / total) - value) <= 2.0**-44 * value
                for power, value in zip(powers, got, strict=True)
            )


def _every_size(rng: np.random.Generator) -> Floats:
    """Finite numbers of both signs and all exponents, zeros, and the extremes of each exponent."""
    fields = np.arange(2 * 256, dtype=np.uint32) << 23
    mantissas = np.array([0, 1, 0x7FFFFF, rng.integers(1 << 23)], np.uint32)
    values = (fields[:, None] | mantissas).ravel().view(np.float32)
    return values[np.isfinite(values)]


@BOTH
def test_a_row_of_one_value_is_1(grade: Grade) -> None:
    """The result is 1 for every value and factor, and where it is the only one that counts."""
    factors = _largest_exponents(grade)
    assert sorted(factors) == list(range({"compact": -11, "fine": -15}[grade], -3))
    values = _every_size(np.random.default_rng(11))
    others = np.full((len(values), 3), -np.inf, np.float32)
    others[:, 0] = np.finfo(np.float32).max
    others[:, 1] = np.nan
    row = np.insert(others, 2, values, axis=1)
    mask = np.array([False, False, True, True])
    compared = 0
    for exponent, factor in factors.items():
        for moved in (factor, np.ldexp(factor, -119), np.ldexp(factor, 120)):
            got = softmax_by_factor(values[:, None], moved, grade=grade)
            assert (got == 1).all(), (exponent, moved)
            compared += got.size
        got = softmax_by_factor(row, factor, mask=mask, grade=grade)
        assert (got == [0, 0, 1, 0]).all(), exponent
        compared += got.size
    assert compared == len(factors) * 7 * 2040


@BOTH
def test_no_result_is_above_1(grade: Grade) -> None:
    """Rows of any length, and one value with a little beside it, for all exponents of the first."""
    rng = np.random.default_rng(12)
    ones = compared = 0
    for count in range(1, 65):
        for spread in (0.1, 1.0, 3.0, 10.0, 30.0, 1000.0):
            x = (rng.normal(size=(8, count)) * spread).astype(np.float32)
            got = softmax(x, grade=grade)
            assert _share(x, grade=grade) < 0.9
            ones += int(np.count_nonzero(got == 1))
            compared += got.size
    below = np.arange(0, 45, 1 / 64, dtype=np.float32)
    for count in (1, 2, 9):
        rows = np.concatenate([np.zeros((len(below), 1)), -np.tile(below[:, None], count)], axis=1)
        for exponent, factor in _largest_exponents(grade).items():
            got = softmax_by_factor(rows.astype(np.float32), factor, grade=grade)
            assert got.max() == 1, (count, exponent)
            assert (got.sum(axis=-1, dtype=np.float64) >= 1 - BOUND[grade]).all()
            ones += int(np.count_nonzero(got == 1))
            compared += got.size
    assert 0 < ones < compared


def _words(values: list[list[float]], grade: Grade) -> list[list[int]]:
    return softmax(np.array(values, np.float32), grade=grade).view(np.uint32).tolist()


@BOTH
def test_special_values(grade: Grade) -> None:
    inf, nan = np.inf, np.nan
    rows = [[1.0, nan, -inf], [1.0, inf, 0.0], [-inf, inf, nan], [-inf, -inf, -inf]]
    assert _words(rows, grade) == [[NAN] * 3] * 3 + [[0] * 3]
    negative = np.array([0xFFC00001, 0x3F800000], np.uint32).view(np.float32)
    assert softmax(negative, grade=grade).view(np.uint32).tolist() == [NAN, NAN]
    ((first, second, third),) = softmax(np.array([[-inf, 0.0, -0.0]], np.float32), grade=grade)
    assert (first, np.signbit(first)) == (0.0, False)
    assert abs(second - 0.5) < BOUND[grade] / 2
    assert abs(third - 0.5) < BOUND[grade] / 2


@BOTH
def test_masks(grade: Grade) -> None:
    """A masked value counts as -Inf, NaN included; a row of nothing else is +0."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5, 7, 40)).astype(np.float32)
    mask = rng.random((7, 40)) < 0.5
    mask[3] = False
    expected = softmax(np.where(mask, x, np.float32(-np.inf)), grade=grade)
    x[:, ~mask] = rng.choice(np.array([np.nan, np.inf, 1e30], np.float32), (~mask).sum())
    got = softmax(x, mask=mask, grade=grade)
    assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))
    assert (got[:, ~mask].view(np.uint32) == 0).all()
    assert (got[:, 3].view(np.uint32) == 0).all()


@BOTH
def test_no_order_matters(grade: Grade) -> None:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(1, 4096)) * 3).astype(np.float32)
    order = rng.permutation(4096)
    found = softmax(x[:, order], grade=grade)
    assert np.array_equal(softmax(x, grade=grade)[:, order], found)


@BOTH
def test_powers_of_two_may_move_between_scale_and_values(grade: Grade) -> None:
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(4, 100)) * 3).astype(np.float32)
    expected = softmax(x, scale=0.6, grade=grade)
    for exponent in (-100, -7, 3, 100):
        found = softmax(np.ldexp(x, exponent), scale=0.6 * 2.0**-exponent, grade=grade)
        assert np.array_equal(found, expected)


def test_axes_and_types() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3, 5, 4)).astype(np.float16)
    expected = np.moveaxis(softmax(np.moveaxis(x.astype(np.float32), 1, -1)), -1, 1)
    assert np.array_equal(softmax(x, axis=1), expected)
    short = x.astype(ml_dtypes.bfloat16)
    assert np.array_equal(softmax(short), softmax(short.astype(np.float32)))
    assert softmax(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert softmax(np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_factors_are_rounded_to_nearest() -> None:
    rng = np.random.default_rng(9)
    scales = [1.0, 0.125, 2.0**-120, 2.0**120, *(rng.uniform(0.5, 1, 200) * 2.0**10)]
    with mpmath.workdps(60):
        for scale in scales:
            exact = mpmath.mpf(float(scale)) * mpmath.log(mpmath.e, 2)
            found = softmax_factor(scale)
            away = abs(mpmath.mpf(float(found)) - exact)
            for other in (np.float32(-np.inf), np.float32(np.inf)):
                assert away < abs(mpmath.mpf(float(np.nextafter(found, other))) - exact)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**121])
def test_scales_that_cannot_be(scale: float) -> None:
    with raises(ValueError, f"scale must be a number from 2^-120 to 2^120, not {scale!r}"):
        softmax_factor(scale)


def test_factors_instead_of_scales() -> None:
    x = np.random.default_rng(9).normal(size=(5, 30)).astype(np.float32)
    for scale in (2.0**-120, 0.125, 1.0, 2.0**120):
        for grade in GRADES:
            found = softmax_by_factor(x, softmax_factor(scale), 0, x > -1, grade=grade)
            assert np.array_equal(found, softmax(x, 0, x > -1, scale, grade=grade))
    for factor in (0.0, 2.0**-121, 2.0**122, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"factor must be a number from 2\^-120 to 2\^121"):
            softmax_by_factor(x, np.float32(factor))


def test_inputs_that_cannot_be() -> None:
    with raises(TypeError, "x must have dtype float32, float16, bfloat16, not float64"):
        softmax(np.zeros(3))
    with raises(ValueError, "x must have at most 65536 values in a row, not 65537"):
        softmax(np.zeros((2, 65537), np.float32))
    for scale in (0.0, -1.0, 1e53, np.nan):
        with pytest.raises(
            ValueError, match="scale must be a number from 2\\^-120 to 2\\^120, not"
        ):
            softmax(np.ones((1, 3), "f4"), scale=scale)
