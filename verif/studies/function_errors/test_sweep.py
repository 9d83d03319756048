"""Sweeps: no argument is left out, and one wrong result among them is found."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from mxsafe.tables import activation
from studies.function_errors import sweep
from studies.function_errors.errors import BOUNDS, Worst
from studies.function_errors.models import MODELS, function_of, grade_of
from studies.function_errors.promises import BrokenPromiseError
from studies.function_errors.sweep import Found, examine, examine_chunk, sample
from verif.support.tests import some

Function = Callable[[ArrayLike], NDArray[np.float32]]
_NOTHING = Worst(0.0, 0)


@pytest.mark.parametrize("name", some(BOUNDS, 3))
def test_chunks_find_what_checks_find(name: str) -> None:
    """With nothing known each argument is looked at; with more known, fewer, to the same end."""
    first = 0x3F900000
    _, every = examine_chunk(name, first, _NOTHING)
    _, less = examine_chunk(name, first, Worst(every.worst.error * 0.9, 1))
    _, none = examine_chunk(name, first, Worst(1.5, 1))
    assert every.worst == less.worst
    assert every.arguments == every.references == less.arguments
    assert 0 < less.references < every.references
    assert (none.worst, none.references) == (Worst(1.5, 1), 0)


def _broken(function: Function, word: int, bit: int) -> Function:
    """The function, with one bit of the result at one argument inverted."""

    def broken(x: ArrayLike) -> NDArray[np.float32]:
        result = function(x).view(np.uint32).copy()
        result[np.asarray(x).view(np.uint32) == word] ^= np.uint32(bit)
        return result.view(np.float32)

    return broken


@pytest.mark.parametrize(
    ("name", "word", "bit"),
    [
        ("gelu_fine", 0x3FA12345, 1 << 9),
        ("gelu_fine", 0xBFA12345, 1 << 31),
        ("silu_derivative_fine", 0x3FA12345, 1 << 11),
        ("tanh_fine", 0x42F12345, 1),
        ("tanh_fine", 0x3FA12345, 1),
        ("exp_fine", 0xC1012345, 1 << 8),
        ("sigmoid_fine", 0x3FA12345, 1 << 30),
        ("reciprocal_fine", 0x00712345, 1 << 9),
        ("rsqrt_fine", 0x01012345, 1 << 8),
        ("rsqrt_fine", 0xBF812345, 1),
        ("relu", 0x3FA12345, 1),
        ("relu_derivative", 0xFFA12345, 1),
    ],
)
def test_one_wrong_result_is_found(
    name: str, word: int, bit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the largest, or a promise is broken; in the right model neither is."""
    first = word & ~0x7FFF
    monkeypatch.setattr(sweep, "_chunks", lambda field: [first & 0x7FFFFFFF])
    field = word >> 23 & 255
    known = Worst(1.0, 0)
    assert examine(name, field, known).worst == known
    broken = {**MODELS, name: _broken(MODELS[name], word, bit)}
    monkeypatch.setattr(sweep, "MODELS", broken)
    try:
        worst = examine(name, field, known).worst
    except BrokenPromiseError as error:
        assert f"at 0x{word:08x}" in str(error) or f"at 0x{word + 1:08x}" in str(error)
    else:
        assert worst.error > 1
        assert worst.word == word


def test_an_exp_that_falls_between_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_chunks", lambda field: [0x3F808000])
    broken = {**MODELS, "exp_fine": _broken(MODELS["exp_fine"], 0x3F807FFF, 1 << 22)}
    monkeypatch.setattr(sweep, "MODELS", broken)
    with pytest.raises(BrokenPromiseError, match="exp_fine: it never falls, not so at 0x3f808000"):
        examine("exp_fine", 127, Worst(1.0, 0))


def test_every_argument_goes_through_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an exponent field; the fields are those of all words."""
    seen = np.zeros(1 << 24, np.uint8)

    def counted(x: ArrayLike) -> NDArray[np.float32]:
        words = np.asarray(x).view(np.uint32)
        assert (words >> np.uint32(23) & np.uint32(255) == 97).all()
        seen[(words & np.uint32(0x7FFFFF)) | (words >> np.uint32(31) << np.uint32(23))] += 1
        return MODELS["relu"](x)

    monkeypatch.setattr(sweep, "MODELS", {"relu": counted})
    found = examine("relu", 97, _NOTHING)
    assert (seen == 1).all()
    assert found.arguments == 1 << 24
    assert sweep.FIELDS * found.arguments == 1 << 32


def test_samples_are_errors_of_all_exponents() -> None:
    assert 0.05 < sample("reciprocal_fine", 8).error < 0.26
    assert sample("relu", 8) == _NOTHING


def test_sums_of_what_was_found() -> None:
    both = Found(Worst(0.5, 3), 10, 2, 1.5) + Found(Worst(0.25, 1), 20, 0, 0.5)
    assert both == Found(Worst(0.5, 3), 30, 2, 2.0)


def table_fields(name: str) -> list[int]:
    """Exponent fields of arguments whose results need a table.

    Of a reciprocal or its root those of every class: mantissas mean the same at all others.
    """
    function = function_of(name)
    if function in ("reciprocal", "rsqrt"):
        return [0, 1, 2, 126, 127, 128, 253, 254]
    if function in ("exp", "sigmoid"):
        exponents = range(-21, 8)
    else:
        first, last = activation.FUNCTIONS[function].exponents[grade_of(name)]
        exponents = range(first - 1, last + 2)
    return [exponent + 127 for exponent in exponents]


@pytest.mark.full
@pytest.mark.parametrize("name", BOUNDS)
def test_all_numbers_that_need_a_table(name: str) -> None:
    """`make test-full` then sweeps all others too, with `python -m studies.function_errors`."""
    worst = sample(name)
    for field in table_fields(name):
        worst = examine(name, field, worst).worst
    assert 0 < worst.error <= 1
