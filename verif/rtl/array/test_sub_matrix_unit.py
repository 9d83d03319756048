"""Sub-matrix units by themselves: what they pass on to their neighbours."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Port, Words
from verif.support.mutation import mutated
from verif.support.simulators import run_lockstep
from verif.support.tests import Tally, available

PASSED_ON = ("token", "a", "w", "scale_a", "scale_w")


def _any_words(rng: np.random.Generator, port: Port, rows: int) -> Words:
    bits = rng.integers(0, 2, (rows, port.width), np.uint8)
    return np.packbits(bits, axis=1, bitorder="little")


def _check_passed_on(module: Module, sources: Sequence[Path]) -> int:
    """Every bit comes out an enabled clock later, whatever the others are; no token in reset."""
    rng = np.random.default_rng(15)
    rows = 200
    stimulus = {pin: _any_words(rng, module.ports[pin], rows) for pin in PASSED_ON}
    en, rst = rng.random(rows) < 0.8, rng.random(rows) < 0.05
    en[0], rst[0] = True, False
    stimulus |= {pin: module.ports[pin].words(on) for pin, on in (("en", en), ("rst", rst))}
    watched = [f"{pin}_next" for pin in PASSED_ON]
    log = run_lockstep(
        available("icarus"), module, stimulus, sources=sources, unsettled=rows, watched=watched
    )
    compared = 0
    for pin in PASSED_ON:
        # The enabled clock before each one; the token of a clock of reset is 0.
        before = np.maximum.accumulate(np.where(en, np.arange(rows), 0))
        words = log[pin]
        if pin == "token":
            before = np.maximum.accumulate(np.where(en | rst, np.arange(rows), 0))
            words = words * ~rst[:, None]
        compared += assert_equal(f"{pin}_next", log[f"{pin}_next"][1:], words[before[:-1]])
    return compared


def test_operands_and_tokens_are_passed_on(modules: dict[str, Module], tally: Tally) -> None:
    module = modules["mxsf_pu"]
    tally("icarus", "mxsf_pu, bytes passed on", _check_passed_on(module, module.sources))


@pytest.mark.full
def test_a_token_that_is_not_passed_on_is_found(modules: dict[str, Module], tmp_path: Path) -> None:
    module = modules["mxsf_pu"]
    wrong = "token_next <= { token[3], token[0], token[1:0] }"
    sources = mutated(module, module.name, "token_next <= token", wrong, tmp_path)
    with pytest.raises(AssertionError, match=r"token_next: .* differ"):
        _check_passed_on(module, sources)
