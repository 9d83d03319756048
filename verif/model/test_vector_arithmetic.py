"""The model of vector arithmetic: order of roundings, broadcasting, NaN, dtypes.

What NumPy's own operations do is checked against exact integers in `verif.rtl.arithmetic`.
"""

import ml_dtypes
import numpy as np

from mxsafe.model import vector_arithmetic as model
from verif.support.tests import raises


def test_axpy_is_rounded_twice() -> None:
    a = np.float32(1 + 2**-12)
    y = np.float32(-1 - 2**-11)
    assert model.axpy(a, a, y) == 0  # rounded once it would be 2^-24
    assert model.add(model.multiply(a, a), y) == 0


def test_operands_broadcast() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    features, samples = np.array([10, 20, 30], np.float32), np.array([1, 2, 3, 4], np.float32)
    assert np.array_equal(model.add(x, features[:, None]), x + features[:, None])
    assert np.array_equal(model.add(x, samples), x + samples)
    assert np.array_equal(model.multiply(x, samples), x * samples)
    assert np.array_equal(model.axpy(np.float32(0.5), x, x), 1.5 * x)
    assert model.add(x, samples).dtype == np.float32


def test_every_nan_is_the_same() -> None:
    nan = np.array([0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    one, infinite = np.float32(1), np.float32(np.inf)
    results = [
        model.add(nan, one),
        model.multiply(one, nan),
        model.axpy(one, one, nan),
        model.add(infinite, -infinite),
        model.multiply(np.float32(0), infinite),
        model.axpy(infinite, one, -infinite),
    ]
    for result in results:
        assert (np.atleast_1d(result).view(np.uint32) == 0x7FC00000).all()


def test_zeros_keep_their_sign() -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    assert np.signbit(model.multiply(zeros, np.float32(2))).tolist() == [False, True]
    assert np.signbit(model.add(zeros, zeros[1])).tolist() == [False, True]


def test_narrow_floats_are_widened() -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    half = np.array([0.25, 2**-24], np.float16)
    assert model.add(x, half).tolist() == [1.75, -2.0]
    assert model.multiply(x, half).tolist() == [0.375, -(2.0**-23)]


def test_other_dtypes_are_refused() -> None:
    one = np.float32(1)
    for call, name, dtype in (
        (lambda: model.add(1.0, one), "x", "float64"),
        (lambda: model.multiply(one, np.arange(3)), "y", "int64"),
        (lambda: model.axpy(np.float64(2), one, one), "a", "float64"),
    ):
        with raises(TypeError, f"{name} must have dtype float32, float16, bfloat16, not {dtype}"):
            call()


def test_half_sums_add_the_last_half_to_the_first() -> None:
    """Beyond 2^24 sums are rounded, so the order shows."""
    big = 2.0**24
    rows = np.float32([[big, 1, 1, -big], [big, 1, -big, 1], [1, 2, 3, 4]])
    assert model.half_sums(rows).tolist() == [[1], [2], [10]]
    assert model.half_sums(np.float32([1, big, 1, -big, 1])).tolist() == [2]
    assert np.signbit(model.half_sums(np.float32([-0.0]))).tolist() == [True]
    with raises(TypeError, "x must have dtype float32, float16, bfloat16, not float64"):
        model.half_sums(np.zeros(3))
