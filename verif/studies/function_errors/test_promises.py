"""Each promise: what keeps it passes, and what breaks it is found and named."""

import numpy as np
import pytest
from numpy.typing import NDArray

from studies.function_errors import promises
from studies.function_errors.models import EXACT, MODELS, function_of
from studies.function_errors.promises import SPECIAL, BrokenPromiseError

Words = NDArray[np.uint32]
_SIGN = np.uint32(1 << 31)


def _at(name: str, words: Words) -> Words:
    return MODELS[name](words.view(np.float32)).view(np.uint32).copy()


def _words(first: int) -> Words:
    """512 arguments that follow one another, down the columns."""
    return np.arange(first, first + 512, dtype=np.uint32).reshape(8, 64).T.copy()


@pytest.mark.parametrize("name", MODELS)
def test_special_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    promises.check_special(name)
    for place in range(4):
        wanted = list(SPECIAL[function_of(name)])
        wanted[place] ^= 1
        monkeypatch.setattr(promises, "SPECIAL", {function_of(name): tuple(wanted)})
        at = ("0x00000000", "0x80000000", "0x7f800000", "0xff800000")[place]
        with pytest.raises(BrokenPromiseError, match=f"{name}: 0, -0, Inf and -Inf .* at {at}"):
            promises.check_special(name)
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("name", "first", "wrong"),
    [
        ("gelu", 0x3F800000, 0x80000001),
        ("gelu", 0xBF800000, 0),
        ("silu", 0xC1F00000, 0xFFC00000),
        ("tanh", 0x41000000, 0x3F800001),
        ("tanh", 0xC1000000, 0xBF800001),
        ("reciprocal", 0x3F800000, 0x7FC00000),
        ("sigmoid", 0x41F00000, 0x3F800001),
        ("exp", 0xC1F00000, 0x80000000),
        ("rsqrt", 0x3F800000, 0x7FC00000),
    ],
)
def test_signs_and_ranges(name: str, first: int, wrong: int) -> None:
    words = _words(first)
    got = _at(name, words)
    promises.check_range(name, words, got)
    got[3, 2] = wrong
    with pytest.raises(BrokenPromiseError, match=f"{name}: results lie in .* 0x{words[3, 2]:08x}"):
        promises.check_range(name, words, got)


@pytest.mark.parametrize("first", [0x3F800000, 0xBF800000])
@pytest.mark.parametrize("place", [(3, 2), (0, 5), (63, 0)])
def test_exp_that_falls(first: int, place: tuple[int, int]) -> None:
    """Within a column, or from one to the next."""
    words = _words(first)
    got = _at("exp", words)
    promises.check_rising("exp", words, got)
    got[place] += np.uint32(1 << 12)
    with pytest.raises(BrokenPromiseError, match="exp: it never falls, not so at 0x"):
        promises.check_rising("exp", words, got)


def test_tanh_that_is_not_odd() -> None:
    words = _words(0x3F900000)
    above, below = _at("tanh", words), _at("tanh", words | _SIGN)
    promises.check_odd("tanh", words, above, below)
    below[1, 1] ^= np.uint32(1)
    with pytest.raises(BrokenPromiseError, match=f"tanh: it is odd, not so at 0x{words[1, 1]:08x}"):
        promises.check_odd("tanh", words, above, below)


@pytest.mark.parametrize(
    ("name", "first"),
    [(name, first) for name in MODELS for first in (0x7F800000, 0xFFC00000)]
    + [("rsqrt", 0x80000000), ("rsqrt", 0xBF800000)]
    + [(name, first) for name in EXACT for first in (0, 0x80000000, 0x40400000)],
)
def test_results_that_are_known(name: str, first: int) -> None:
    words = _words(first)
    got = _at(name, words)
    promises.check_exact(name, words, got)
    got[2, 2] ^= np.uint32(2)
    with pytest.raises(BrokenPromiseError, match=f"{name}: .* at 0x{words[2, 2]:08x}"):
        promises.check_exact(name, words, got)
