"""Functions of binary32 numbers against exact values: bounds, special values and properties."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model import functions
from mxsafe.model.functions import FUNCTIONS
from mxsafe.tables import GRADES, Grade
from studies.function_errors.errors import BOUNDS, check
from studies.function_errors.models import MODELS, function_of
from verif.rtl.vector.function_checks import bfloat16_arguments
from verif.support.tests import raises

Words = NDArray[np.uint32]
INF, NAN = np.float32(np.inf), np.float32(np.nan)
SIGNS = {"exp": range(512), "rsqrt": range(256)}


def _mantissas(seed: int, count: int) -> Words:
    """Of bfloat16, next to borders of segments, at the ends, and so many random ones."""
    borders = np.arange(1 << 5, dtype=np.uint32) << np.uint32(18)
    ends = np.arange(1, 40, dtype=np.uint32)
    parts = [
        np.arange(1 << 7, dtype=np.uint32) << np.uint32(16),
        borders + np.uint32(1),
        borders - np.uint32(1) & np.uint32(0x7FFFFF),
        ends,
        np.uint32(1 << 23) - ends,
        np.random.default_rng(seed).integers(1, 1 << 23, count, np.uint32),
    ]
    return np.unique(np.concatenate(parts))


def _fields(name: str) -> list[int]:
    return [field for field in SIGNS.get(function_of(name), range(512)) if field & 255 != 255]


@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_the_bound(name: str) -> None:
    """Every sign and exponent with all mantissas of bfloat16 and hundreds of others."""
    compared = 0
    for field in _fields(name):
        words = _mantissas(field, 60) | np.uint32(field << 23)
        if function_of(name) in ("reciprocal", "rsqrt"):
            words = words[words & np.uint32(0x7FFFFFFF) > 0]
        worst = check(name, words)
        assert worst.error <= 1, f"{name}: {worst}"
        compared += words.size
    assert compared > 80_000


@pytest.mark.parametrize("grade", GRADES)
def test_exp_never_falls(grade: Grade) -> None:
    rng = np.random.default_rng(6)
    near = np.linspace(-90, 90, 400_000).astype(np.float32)
    small = (rng.random(100_000) * 2.0 ** rng.integers(-24, 2, 100_000)).astype(np.float32)
    x = np.unique(np.concatenate([near, small, -small, near + np.float32(1e-5)]))
    y = functions.exp(x, grade)
    assert (y[1:] >= y[:-1]).all()


@pytest.mark.parametrize("grade", GRADES)
def test_tanh_is_odd_and_bounded(grade: Grade) -> None:
    words = np.random.default_rng(7).integers(0, 0x7F800000, 300_000, np.uint32)
    up = functions.tanh(words.view(np.float32), grade).view(np.uint32)
    down = functions.tanh((words | np.uint32(1 << 31)).view(np.float32), grade).view(np.uint32)
    assert (down == up | np.uint32(1 << 31)).all()
    assert up.max() <= 0x3F800000


@pytest.mark.parametrize("grade", GRADES)
def test_sigmoid_is_within_its_range(grade: Grade) -> None:
    words = np.random.default_rng(8).integers(0, 1 << 32, 300_000, np.uint32)
    x = words.view(np.float32)
    y = functions.sigmoid(x[np.isfinite(x)], grade)
    assert ((y >= 0) & (y <= 1)).all()


_SPECIAL = {
    # 0, -0, 1, -1, Inf, -Inf
    "relu": (0.0, 0.0, 1.0, 0.0, INF, 0.0),
    "gelu": (0.0, -0.0, None, None, INF, -0.0),
    "silu": (0.0, -0.0, None, None, INF, -0.0),
    "tanh": (0.0, -0.0, None, None, 1.0, -1.0),
    "exp": (1.0, 1.0, None, None, INF, 0.0),
    "sigmoid": (0.5, 0.5, None, None, 1.0, 0.0),
    "reciprocal": (INF, -INF, 1.0, -1.0, 0.0, -0.0),
    "rsqrt": (INF, -INF, 1.0, NAN, 0.0, NAN),
    "relu_derivative": (0.0, 0.0, 1.0, 0.0, 1.0, 0.0),
    "gelu_derivative": (0.5, 0.5, None, None, 1.0, 0.0),
    "silu_derivative": (0.5, 0.5, None, None, 1.0, 0.0),
    "tanh_derivative": (1.0, 1.0, None, None, 0.0, 0.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_special_values(name: str) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], np.float32)
    for argument, got, wanted in zip(x, MODELS[name](x), _SPECIAL[function_of(name)], strict=True):
        if wanted is not None:
            words = got.view(np.uint32), np.float32(wanted).view(np.uint32)
            assert words[0] == words[1], f"{name} of {argument} is {got}"


@pytest.mark.parametrize("name", MODELS)
def test_nan_is_the_one(name: str) -> None:
    words = np.array([0x7F800001, 0x7FC00000, 0xFFC00000, 0xFFFFFFFF], np.uint32)
    got = MODELS[name](words.view(np.float32)).view(np.uint32)
    assert (got == (words if name == "relu" else 0x7FC00000)).all()


@pytest.mark.parametrize("grade", GRADES)
def test_powers_of_two_are_exact(grade: Grade) -> None:
    exponents = np.arange(-120, 121)
    x = np.ldexp(np.float32(1), exponents)
    assert (functions.reciprocal(x, grade) == np.ldexp(np.float32(1), -exponents)).all()
    square = np.ldexp(np.float32(1), 2 * np.arange(-74, 64))
    assert (functions.rsqrt(square, grade) == np.ldexp(np.float32(1), -np.arange(-74, 64))).all()


def test_other_dtypes_and_shapes() -> None:
    words = bfloat16_arguments().reshape(256, 256)
    x = words.view(np.float32)
    small = (words >> np.uint32(16)).astype(np.uint16).view(ml_dtypes.bfloat16)
    some = np.array([0.5, -3.0, 2.0**-20], np.float16)
    for function in MODELS.values():
        wide = function(x)
        assert wide.dtype == np.float32
        assert (function(small).view(np.uint32) == wide.view(np.uint32)).all()
        got = function(some).view(np.uint32)
        assert (got == function(some.astype(np.float32)).view(np.uint32)).all()
        assert function(np.float32(1.0)).shape == ()
        assert function(np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_types_are_refused(name: str) -> None:
    with pytest.raises(TypeError) as error:
        FUNCTIONS[name](np.array([1, 2]))
    message = "x must have dtype float64, float32, float16, bfloat16, not int64"
    assert str(error.value) == message
    with raises(TypeError, "x must have dtype float32, bfloat16, float16, not float64"):
        FUNCTIONS[name](np.array([1.0]))


def test_a_grade_that_there_is_not() -> None:
    with raises(ValueError, "grade must be one of compact, fine, not 'rough'"):
        functions.gelu(np.float32(1), "rough")
