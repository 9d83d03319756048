"""Errors, and what limits them: each limit holds, and is near enough to be of use."""

import mpmath
import numpy as np
import pytest

from studies.function_errors.errors import (
    BLOCK,
    BOUNDS,
    Worst,
    check,
    errors,
    limits,
    numbers,
    ranges,
)
from studies.function_errors.models import MODELS, function_of
from studies.function_errors.reference import reference
from verif.studies.function_references import exact_value, unit
from verif.support.tests import some

_BLOCKS = 16


def _uppers(name: str) -> list[int]:
    """Signs and exponents: where results are simple, need a table, are subnormal, or too large."""
    fields = (0, 1, 20, 106, 112, 118, 124, 126, 127, 128, 129, 130, 132, 133, 134, 200, 253)
    sides = (0,) if function_of(name) == "rsqrt" else (0, 256)
    return [field | side for field in fields for side in sides]


@pytest.mark.parametrize("name", some(BOUNDS, 3))
def test_no_error_is_beyond_its_limit(name: str) -> None:
    rng = np.random.default_rng(11)
    close = compared = decided = 0
    for upper in _uppers(name):
        low = int(rng.integers(1, (1 << 23) // (BLOCK * _BLOCKS) - 1)) * BLOCK * _BLOCKS
        first = (upper << 23) + low
        words = np.arange(first, first + BLOCK * _BLOCKS, dtype=np.uint32).reshape(-1, BLOCK)
        got = MODELS[name](words.T.view(np.float32))
        ends = numbers(np.arange(first, first + BLOCK * _BLOCKS + 1, BLOCK, dtype=np.uint32))
        exact = reference(function_of(name), ends)
        pairs = np.stack([ends[:-1], ends[1:]]), np.stack([exact[:-1], exact[1:]])
        part = errors(name, numbers(words.ravel()), got.T.ravel()).reshape(-1, BLOCK).max(axis=1)
        near = limits(name, *pairs, got)
        assert not (part > near).any(), hex(first)
        close += int(np.count_nonzero(near - part < 0.02))
        for known in (0.1, 0.5, 0.9, *(part * 0.999)):
            least, largest = ranges(name, *pairs, known)
            within = (got.min(axis=0) > least) & (got.max(axis=0) < largest)
            assert not (within & (part >= known)).any(), hex(first)
            decided += int(np.count_nonzero(within))
        compared += part.size
    assert compared >= 17 * _BLOCKS
    assert close > 0.9 * compared
    assert decided > compared / 4


@pytest.mark.parametrize("name", some([name for name in BOUNDS if name == function_of(name)], 3))
def test_functions_bend_no_more_than_limits_suppose(name: str) -> None:
    """``abs(x^2 f'')``: at most 2 of the bound's unit; of `exp` and falling `sigmoid` x^2 of it."""
    compared = 0
    with mpmath.workdps(30):
        for exponent in np.arange(-6, 6.5, 0.25):
            for sign in (1, -1) if name != "rsqrt" else (1,):
                x = sign * mpmath.mpf(2) ** float(exponent)
                steep = name == "exp" or (name == "sigmoid" and x < 0)
                most = x**2 if steep else 2
                second = mpmath.diff(lambda at: exact_value(name, at), x, 2)
                size = unit(name, x, exact_value(name, x))
                assert abs(x**2 * second) <= most * size * (1 + mpmath.mpf(10) ** -6), x
                compared += 1
    assert compared >= 50


def test_a_nan_is_infinitely_wrong() -> None:
    x = np.array([1.0, 1.5])
    got = np.array([0.84, np.nan], np.float32)
    assert errors("gelu", x, got)[1] == np.inf


def test_what_is_wrong_by_more_than_the_bound() -> None:
    x = np.array([1.0, 1.5])
    exact = reference("silu", x)
    for part in (0.5, 2.0):
        got = (exact * (1 + part * BOUNDS["silu"])).astype(np.float32)
        assert errors("silu", x, got) == pytest.approx(part, abs=2.0**-7)


def test_the_worst_of_two_is_the_larger_and_else_the_first() -> None:
    small, large, first = Worst(0.25, 1), Worst(0.5, 9), Worst(0.5, 3)
    assert small.over(large) == large.over(small) == large
    assert large.over(first) == first.over(large) == first
    assert str(first) == "0.5000 of the bound at 0x00000003"


def test_check_names_the_worst_argument() -> None:
    words = np.arange(0x3FD74C00, 0x3FD74E00, dtype=np.uint32)
    worst = check("gelu", words)
    part = errors("gelu", numbers(words), MODELS["gelu"](words.view(np.float32)))
    assert part[worst.word - 0x3FD74C00] == worst.error == part.max()
