"""Sub-matrix units as they are published: what they pass on, stalls, and products in an array."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mxsafe.verilog.names import PREFIX, part_name, renamed
from verif.rtl.array.array_checks import (
    check_distances,
    check_products,
    large_products,
    near_zero_products,
    random_products,
    small_array,
)
from verif.rtl.array.stall_checks import check_stalls
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, typical
from verif.support.units import random_words

PASSED_ON = ("token", "a", "w", "scale_a", "scale_w")
_PUBLISHED = ("mxsf_pu_exact_fpga", "mxsf_pu_window")
"""Units that other tests give few products."""
_IN_TURN = "mxsf_pu_exact_4x8x4_accumulators16_carry_save_interleave2"
"""That of a machine, whose MACs serve two columns each."""


def _check_passed_on(module: Module) -> None:
    """Every bit comes out an enabled cycle later, whatever the others are; no token in reset.

    But scales of exact units come out when their block has ended, and stay.
    """
    rng = np.random.default_rng(15)
    rows = 200
    stimulus = {pin: random_words(rng, module.ports[pin].width, rows) for pin in PASSED_ON}
    en, rst = rng.random(rows) < 0.8, rng.random(rows) < 0.05
    en[0], rst[0] = True, False
    stimulus["token"][0] = (1 << module.ports["token"].width) - 1  # ends a block: scales are known
    stimulus |= {pin: module.ports[pin].words(on) for pin, on in (("en", en), ("rst", rst))}
    watched = [f"{pin}_next" for pin in PASSED_ON]
    fields = [name for name, _, _ in module.ports["token"].fields]
    token = dict(zip(fields, module.ports["token"].split(stimulus["token"]).T, strict=True))
    ends = en & (token["valid"] & (token["block_last"] | token["last"])).astype(np.bool_)
    log = run_lockstep("icarus", module, stimulus, unsettled=rows, watched=watched)
    is_exact = module.parameters["arithmetic"] == "exact"
    for pin in PASSED_ON:
        # The enabled cycle before each one; the token of a cycle of reset is 0.
        enters = ends if is_exact and pin.startswith("scale") else en
        before = np.maximum.accumulate(np.where(enters, np.arange(rows), 0))
        words = log[pin]
        if pin == "token":
            before = np.maximum.accumulate(np.where(en | rst, np.arange(rows), 0))
            words = words * ~rst[:, None]
        assert_equal(f"{pin}_next", log[f"{pin}_next"][1:], words[before[:-1]])


@pytest.mark.parametrize("name", typical(["mxsf_pu", "mxsf_pu_exact_fpga"]))
def test_operands_and_tokens_are_passed_on(name: str, modules: dict[str, Module]) -> None:
    module = modules[name]
    _check_passed_on(module)


_BEATS = 200


def _beats(module: Module, rng: np.random.Generator) -> dict[str, Words]:
    """Operands of any bits, in blocks and tiles that are as short as they may be, or longer."""
    ports = module.ports
    pins = [name for name in module.inputs if name not in ("clk", "rst", "en", "token")]
    given = {name: random_words(rng, ports[name].width, _BEATS) for name in pins}
    p, clocks = module.parameters, np.arange(_BEATS) + 1
    ends = (clocks % (p["rows"] * p["row_interval"]) == 0) & (rng.random(_BEATS) < 0.7)
    flags = {
        "valid": ends | (rng.random(_BEATS) < 0.8),
        "first": np.concatenate([[True], ends[:-1]]),
        "block_last": clocks % p["block_cycles"] == 0,
        "last": ends,
    }
    if "phase" in ports:  # blocks end in the last one
        given["phase"] = ports["phase"].words((clocks - 1) % p["interleave"])
    given["token"] = ports["token"].join(
        np.stack([flags[name].astype(np.int64) for name, _, _ in ports["token"].fields], axis=1)
    )
    return given


@pytest.mark.parametrize("name", typical([*_PUBLISHED, _IN_TURN], every=3))
def test_clocks_without_enable_change_nothing(name: str, modules: dict[str, Module]) -> None:
    module = modules[name]
    beats = _beats(module, np.random.default_rng(16))
    _, log = check_stalls("icarus", module, beats)
    results = log["results"][log["done"][:, 0] == 1]
    assert len(np.unique(results, axis=0)) > 5 * module.parameters["rows"]


def _as_parts(sources: Sequence[Path]) -> dict[str, str]:
    """Modules without their heads, all of them with names of parts: some are tops in ``gen/``."""
    stems = [source.stem for source in sources]
    names = {name: name if name.startswith(PREFIX) else part_name(name) for name in stems}
    texts = {names[source.stem]: source.read_text() for source in sources}
    return {name: renamed(text[text.index("\nmodule ") :], names) for name, text in texts.items()}


def _array_of(unit: Module) -> Module:
    """An array of a single unit, which is a published one as it is in ``gen/``."""
    p = unit.parameters
    options = {name: p[name] for name in ("rows", "columns", "lanes", "target") if name in p}
    array = small_array(p["arithmetic"], pu_rows=1, pu_columns=1, **options)
    texts = _as_parts(array.sources)
    for name, text in _as_parts(unit.sources).items():
        assert texts[name] == text, f"{array.name} has another {name}"
    return array


@pytest.mark.parametrize("name", typical(_PUBLISHED[::-1]))
def test_products(name: str, modules: dict[str, Module], volume: Volume) -> None:
    """Of any operands, of large ones, and of such near zero, where every bit of a sum is seen."""
    unit = modules[name]
    array = _array_of(unit)
    size = array.parameters["rows"]
    count = volume(8, 20, 20)
    products = random_products(9, count, size, 90, 16)
    products += near_zero_products(10, count, size, 40, 8)
    products += large_products(11, count // 4, size, 200, 16)
    check_products("verilator", array, products, stall=0.1)
    if array.parameters["arithmetic"] == "window":
        check_distances("verilator", array)
