"""Two products in one DSP block: every pair of significands with every third one."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.multiplier import PairedMultiplier
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.mutation import mutated
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available


def unit(name: str = "mxsf") -> PairedMultiplier:
    """The multiplier of a format."""
    return PairedMultiplier(formats=OperandFormats(MX_FORMATS[name], MX_FORMATS[name]))


def check(
    simulator: str, folder: Path, every: int = 1, mutation: tuple[str, str] = ("", "")
) -> int:
    """All triples of significands, or one of every so many; how many were compared."""
    module = generated(unit(), folder)
    sources = None
    if mutation[0]:
        (folder / "wrong").mkdir()
        sources = mutated(module, module.name, *mutation, folder / "wrong")
    bits = len(unit().w)
    triples = np.arange(0, 1 << 3 * bits, every)
    rng = np.random.default_rng(18)
    rng.shuffle(triples)
    mask = (1 << bits) - 1
    first, second, third = triples & mask, triples >> bits & mask, triples >> 2 * bits
    held = np.zeros(module.latency, np.int64)
    given = {
        "a": np.concatenate([first | second << bits, held]),
        "w": np.concatenate([third, held]),
    }
    given["en"] = np.ones(len(given["w"]), np.int64)
    given["rst"] = np.zeros_like(given["en"])
    words = {name: module.ports[name].words(values) for name, values in given.items()}
    log = run_lockstep(simulator, module, words, sources=sources, unsettled=module.latency)
    products = module.ports["products"].numbers(log["products"])[module.latency :]
    expected = first * third | second * third << 2 * bits
    return assert_equal(module.name, products, expected, first=first, second=second, w=third)


@pytest.mark.parametrize(("simulator", "every"), [("verilator", 1), ("icarus", 61)])
def test_all_triples(simulator: str, every: int, tmp_path: Path, tally: Tally) -> None:
    compared = check(available(simulator), tmp_path, every)
    assert compared == -(-(1 << 18) // every)
    tally(simulator, "paired multiplier", compared)


def test_lint_clean(tmp_path: Path) -> None:
    available("verilator")
    assert lint(generated(unit(), tmp_path)) == ""


def test_significands_too_close_are_found(tmp_path: Path) -> None:
    right = "{ a[11:6], 6'h00, a[5:0] }"
    with pytest.raises(AssertionError, match="differ"):
        check(
            available("icarus"),
            tmp_path,
            every=61,
            mutation=(right, "{ 1'h0, a[11:6], 5'h00, a[5:0] }"),
        )


@pytest.mark.parametrize("name", ["mxint8", "mxfp8_e2m5"])
def test_what_fits(name: str) -> None:
    if name == "mxfp8_e2m5":
        assert unit(name).latency == 3
        return
    with pytest.raises(ValueError) as error:
        unit(name)
    assert str(error.value) == (
        "paired must be false where a significand of A and a product have more than 18 bits or "
        "both operands are integers, not True with mxint8"
    )
