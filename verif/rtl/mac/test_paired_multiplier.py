"""Two products in one DSP block: every pair of significands with every third one."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.multiplier import PairedMultiplier
from verif.support.checkers import assert_equal
from verif.support.farm import copies_of, run_farm
from verif.support.simulators import lint
from verif.support.tests import raises
from verif.support.units import generated


def unit(name: str = "mxsf") -> PairedMultiplier:
    """The multiplier of a format."""
    return PairedMultiplier(formats=OperandFormats(MX_FORMATS[name], MX_FORMATS[name]))


COPIES = {"icarus": 1, "verilator": 16}
"""Copies in a simulation: most of a cycle's time on Verilator is the bench's."""


def check(simulator: str, every: int) -> int:
    """All triples of significands, or one of every so many; how many were compared.

    In cycles that are not enabled inputs are noise.
    """
    module = generated(unit())
    bits = len(unit().w)
    triples = np.arange(0, 1 << 3 * bits, every)
    rng = np.random.default_rng(18)
    rng.shuffle(triples)
    farm = copies_of(module, COPIES[simulator])
    shares = {key: triples[at :: len(farm.modules)] for at, key in enumerate(farm.modules)}
    parts = {key: _significands(share, bits) for key, share in shares.items()}
    needed = -(-len(triples) // len(parts)) + module.latency
    en = (rng.random(needed + needed // 3 + 20) < 0.8).astype(np.int64)
    enabled = np.flatnonzero(en)
    assert len(enabled) >= needed
    inputs = {}
    for key, (first, second, third) in parts.items():
        for pin, values in (("a", first | second << bits), ("w", third)):
            offered = rng.integers(0, 1 << module.ports[pin].width, len(en))
            offered[enabled[: len(values)]] = values
            inputs[f"{key}.{pin}"] = module.ports[pin].words(offered)
    unsettled = int(enabled[module.latency])
    logs = run_farm(simulator, farm, inputs, en, np.zeros_like(en), unsettled=unsettled)
    compared = 0
    for key, (first, second, third) in parts.items():
        carried = module.ports["products"].numbers(logs[key]["products"])
        products = carried[enabled[module.latency :]][: len(first)]
        expected = first * third | second * third << 2 * bits
        compared += assert_equal(module.name, products, expected, first=first, second=second)
    return compared


def _significands(triples: NDArray[np.int64], bits: int) -> tuple[NDArray[np.int64], ...]:
    mask = (1 << bits) - 1
    return triples & mask, triples >> bits & mask, triples >> 2 * bits


@pytest.mark.parametrize(("simulator", "every"), [("verilator", 1), ("icarus", 61)])
def test_all_triples(simulator: str, every: int) -> None:
    compared = check(simulator, every)
    assert compared == -(-(1 << 18) // every)


def test_lint_clean() -> None:
    assert lint(generated(unit())) == ""


@pytest.mark.parametrize("name", ["mxint8", "mxfp8_e2m5"])
def test_what_fits(name: str) -> None:
    if name == "mxfp8_e2m5":
        assert unit(name).latency == 3
        return
    with raises(
        ValueError,
        "paired must be False where a significand of A and a product have more than 18 bits or "
        "both operands are integers, not True with mxint8",
    ):
        unit(name)
