"""Scale and accumulate: IEEE 754 binary32, one rounding each, NaN that stays."""

from fractions import Fraction

import numpy as np
import pytest

from mxsafe.model.accumulate import scale_and_accumulate, scaled
from verif.support.exact import nearest_float


def bits(value: np.ndarray) -> list[int]:
    return np.asarray(value, np.float32).view(np.uint32).ravel().tolist()


def test_scaling_rounds_once() -> None:
    rng = np.random.default_rng(9)
    sums = rng.integers(-(1 << 30), 1 << 30, 3000)
    a, w = rng.integers(0, 255, (2, 3000))
    a[:1000] = rng.integers(0, 12, 1000)  # subnormal results
    w[:1000] = rng.integers(96, 112, 1000)
    got = scaled(np.ldexp(sums.astype(np.float64), -22), a.astype(np.uint8), w.astype(np.uint8))
    subnormals = 0
    for value, x, y, result in zip(sums.tolist(), a.tolist(), w.tolist(), got, strict=True):
        exact = Fraction(value, 1 << 22) * Fraction(2) ** (x + y - 254)
        nearest = nearest_float(abs(exact), mantissa_bits=23, min_exponent=-126)
        if nearest >= Fraction(2) ** 128:
            assert np.isinf(result)
        else:
            assert abs(Fraction(float(result))) == nearest
            subnormals += 0 < nearest < Fraction(2) ** -126
        assert np.signbit(result) == (value < 0)
    assert subnormals > 100


def test_sums_are_binary32() -> None:
    rng = np.random.default_rng(10)
    acc = rng.standard_normal(2000).astype(np.float32)
    partial = rng.standard_normal(2000).astype(np.float32)
    got = scale_and_accumulate(acc, partial, np.uint8(127), np.uint8(127))
    for x, y, result in zip(acc, partial, got, strict=True):
        exact = Fraction(float(x)) + Fraction(float(y))
        nearest = nearest_float(abs(exact), mantissa_bits=23, min_exponent=-126)
        assert abs(Fraction(float(result))) == nearest


ZERO = np.zeros(1, np.float32)


@pytest.mark.parametrize(("a", "w"), [(255, 0), (0, 255), (255, 255), (127, 255)])
def test_nan_scale_is_one_nan_and_stays(a: int, w: int) -> None:
    acc = scale_and_accumulate(ZERO, ZERO, np.uint8(a), np.uint8(w))
    assert bits(acc) == [0x7FC00000]
    acc = scale_and_accumulate(acc, np.float32([1.0]), np.uint8(127), np.uint8(127))
    assert bits(acc) == [0x7FC00000]


def test_inf_minus_inf_is_the_same_nan() -> None:
    big = np.float32([8.0])
    acc = scale_and_accumulate(ZERO, big, np.uint8(254), np.uint8(254))
    assert bits(acc) == [0x7F800000]
    assert bits(scale_and_accumulate(acc, -big, np.uint8(254), np.uint8(254))) == [0x7FC00000]


def test_an_accumulator_is_never_minus_zero() -> None:
    minus = np.float32([-0.0])
    acc = scale_and_accumulate(ZERO, minus, np.uint8(127), np.uint8(127))
    assert bits(acc) == [0]
    acc = scale_and_accumulate(acc, -np.float32([2.0**-18]), np.uint8(0), np.uint8(0))
    assert bits(acc) == [0]  # what underflows to -0 adds nothing
