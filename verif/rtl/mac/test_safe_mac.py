"""Both SAFE-MACs: all code pairs in each lane, corner classes, stalls, resets, pipeline depths."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe import model
from mxsafe.formats import MX_FORMATS
from mxsafe.verilog.presets import build
from verif.rtl.mac import corner_cases
from verif.support.checkers import check_mac
from verif.support.farm import Farm, copies_of, farm_of, run_farm
from verif.support.manifest import Module
from verif.support.tests import INTEGERS, Volume, raises
from verif.support.units import generated

SEED = 20260

Codes = NDArray[np.uint8]
Model = Callable[..., NDArray[np.integer[Any]]]
UNITS: dict[str, tuple[str, Model]] = {
    "safe_mac": ("partial_sum", model.safe_mac),
    "safe_mac_exact": ("dot", model.safe_mac_exact),
}
MODULES = UNITS | {f"{name}_fpga": each for name, each in UNITS.items()}
unit_under_test = pytest.mark.parametrize("unit", UNITS)
module_under_test = pytest.mark.parametrize(
    "unit",
    [*UNITS, *(pytest.param(f"{name}_fpga", marks=pytest.mark.full) for name in UNITS)],
)


COPIES = {"icarus": 1, "verilator": 16}
"""Copies of a MAC in a simulation: most of a cycle's time on Verilator is the bench's."""


def drive(
    simulator: str,
    module: Module,
    unit: str,
    operands: list[tuple[Codes, Codes]],
    en: NDArray[np.int64],
    rst: NDArray[np.int64],
    *,
    fmt: str = "mxsf",
) -> int:
    """Run operands, one row a cycle, through a copy of a MAC each; how many were compared."""
    farm = copies_of(module, len(operands))
    inputs = {
        f"{key}.{name}": module.ports[name].join(codes)
        for key, pair in zip(farm.modules, operands, strict=True)
        for name, codes in zip(("a", "w"), pair, strict=True)
    }
    output, reference = MODULES[unit]
    logs = run_farm(simulator, farm, inputs, en, rst)
    return sum(
        check_mac(module, log, output, lambda a, w: reference(a, w, fmt)) for log in logs.values()
    )


def corner_classes(
    simulator: str, module: Module, unit: str, count: int, *, seed: int = SEED, resets: int = 0
) -> int:
    """Operand vectors of all corner classes under random stalls; how many were compared."""
    a, w = corner_cases.mixed(seed, count, module.parameters["lanes"])
    copies = COPIES[simulator]
    rows = -(-len(a) // copies)
    en, rst = corner_cases.stalls(seed, rows, flush=module.latency - 1, resets=resets // copies)
    parts = [(a[i::copies], w[i::copies]) for i in range(copies)]
    return drive(simulator, module, unit, parts, en, rst)


@pytest.mark.both_simulators
@module_under_test
def test_all_code_pairs(simulator: str, unit: str, modules: dict[str, Module]) -> None:
    """All 65,536 code pairs in every lane, a new one every cycle.

    On Icarus a quarter of them in one lane, with all codes of both operands.
    """
    module = modules[unit]
    count = module.parameters["lanes"]
    lanes = range(count) if simulator == "verilator" else range(count - 1, count)
    pairs = [corner_cases.all_pairs(count, lane) for lane in lanes]
    if simulator == "icarus":
        quarters = [(a[:, -1].astype(np.int64) + w[:, -1]) % 4 == 0 for a, w in pairs]
        pairs = [(a[some], w[some]) for (a, w), some in zip(pairs, quarters, strict=True)]
    rows = corner_cases.without_stalls(*pairs[0], flush=module.latency - 1)
    compared = drive(simulator, module, unit, pairs, *rows[2:])
    expected = {"icarus": 1 << 14, "verilator": len(lanes) << 16}[simulator]
    assert compared >= expected


@pytest.mark.full
@unit_under_test
def test_all_code_pairs_without_dsp_blocks(unit: str) -> None:
    """In two lanes: the first has a negated factor, or neither has."""
    mac = build(unit, MX_FORMATS["mxsf"], target="fpga", dsp=False, pipeline=1)
    module = generated(mac)
    pairs = [corner_cases.all_pairs(4, lane) for lane in (0, 3)]
    rows = corner_cases.without_stalls(*pairs[0], flush=module.latency - 1)
    compared = drive("verilator", module, unit, pairs, *rows[2:])
    assert compared >= 2 << 16


@pytest.mark.both_simulators
@module_under_test
def test_corner_classes(
    simulator: str, unit: str, modules: dict[str, Module], volume: Volume
) -> None:
    count = {"icarus": volume(3_000, 8_000), "verilator": volume(40_000, 420_000, 100_000)}[
        simulator
    ]
    compared = corner_classes(simulator, modules[unit], unit, count, resets=count // 1000)
    assert compared >= count // 2


VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "safe_mac_stages1": ("safe_mac", "mxsf", {"pipeline": 1}),
    "safe_mac_dsp": ("safe_mac", "mxsf", {"dsp": True}),
    "safe_mac_exact_dsp": ("safe_mac_exact", "mxsf", {"dsp": True}),
    "safe_mac_stages2": ("safe_mac", "mxsf", {"pipeline": 2}),
    "safe_mac_lanes1": ("safe_mac", "mxsf", {"lanes": 1, "pipeline": 1}),
    "safe_mac_lanes2": ("safe_mac", "mxsf", {"lanes": 2, "pipeline": 2}),
    "safe_mac_lanes8": ("safe_mac", "mxsf", {"lanes": 8}),
    "safe_mac_e5m2_lanes1": ("safe_mac", "mxfp8_e5m2", {"lanes": 1, "pipeline": 1}),
    "safe_mac_e4m3_finite": ("safe_mac", "mxfp8_e4m3", {"finite": True}),
    "safe_mac_exact_stages1": ("safe_mac_exact", "mxsf", {"pipeline": 1}),
    "safe_mac_exact_stages3": ("safe_mac_exact", "mxsf", {"pipeline": 3}),
    "safe_mac_exact_lanes1": ("safe_mac_exact", "mxsf", {"lanes": 1}),
    "safe_mac_exact_lanes8": ("safe_mac_exact", "mxsf", {"lanes": 8}),
    "safe_mac_exact_fpga": ("safe_mac_exact", "mxsf", {"target": "fpga"}),
    "safe_mac_exact_fpga_stages4": ("safe_mac_exact", "mxsf", {"target": "fpga", "pipeline": 4}),
    "safe_mac_exact_fpga_lanes1": ("safe_mac_exact", "mxfp8_e5m2", {"lanes": 1, "target": "fpga"}),
    "safe_mac_exact_fpga_int8_lanes2": ("safe_mac_exact", "mxint8", {"lanes": 2, "target": "fpga"}),
    "safe_mac_fpga": ("safe_mac", "mxsf", {"target": "fpga"}),
    "safe_mac_fpga_stages4": ("safe_mac", "mxsf", {"target": "fpga", "pipeline": 4}),
    "safe_mac_fpga_lanes1": ("safe_mac", "mxfp8_e5m2", {"lanes": 1, "target": "fpga"}),
    "safe_mac_fpga_lanes8": ("safe_mac", "mxfp8_e4m3", {"lanes": 8, "target": "fpga"}),
    "safe_mac_fpga_no_dsp": ("safe_mac", "mxsf", {"target": "fpga", "dsp": False}),
    "safe_mac_fpga_no_dsp_stages1": (
        "safe_mac",
        "mxsf",
        {"target": "fpga", "dsp": False, "pipeline": 1},
    ),
    "safe_mac_fpga_no_dsp_lanes2": (
        "safe_mac",
        "mxfp8_e4m3",
        {"lanes": 2, "target": "fpga", "dsp": False},
    ),
    "safe_mac_exact_fpga_no_dsp": ("safe_mac_exact", "mxsf", {"target": "fpga", "dsp": False}),
    "safe_mac_exact_fpga_no_dsp_stages1": (
        "safe_mac_exact",
        "mxsf",
        {"target": "fpga", "dsp": False, "pipeline": 1},
    ),
    "safe_mac_exact_fpga_no_dsp_lanes2": (
        "safe_mac_exact",
        "mxfp6_e2m3",
        {"lanes": 2, "target": "fpga", "dsp": False, "pipeline": 3},
    ),
    "safe_mac_exact_fpga_no_dsp_lanes1": (
        "safe_mac_exact",
        "mxfp8_e5m2",
        {"lanes": 1, "target": "fpga", "dsp": False},
    ),
    "safe_mac_exact_fpga_no_dsp_lanes8": (
        "safe_mac_exact",
        "mxfp4_e2m1",
        {"lanes": 8, "target": "fpga", "dsp": False},
    ),
    "safe_mac_exact_fpga_no_dsp_int8": (
        "safe_mac_exact",
        "mxint8",
        {"target": "fpga", "dsp": False},
    ),
    "safe_mac_exact_e2m1": ("safe_mac_exact", "mxfp4_e2m1", {"lanes": 2}),
    "safe_mac_exact_int8_lanes1": ("safe_mac_exact", "mxint8", {"lanes": 1, "pipeline": 1}),
    "safe_mac_exact_int8_stages3": ("safe_mac_exact", "mxint8", {"pipeline": 3}),
}


FULL_VARIANTS = {
    "safe_mac_fpga_stages4",
    "safe_mac_fpga_lanes8",
    "safe_mac_fpga_no_dsp_stages1",
    "safe_mac_exact_fpga_no_dsp_stages1",
    "safe_mac_exact_fpga_no_dsp_lanes1",
    "safe_mac_exact_fpga_no_dsp_lanes8",
    "safe_mac_exact_fpga_no_dsp_int8",
}
"""Those of `VARIANTS` that only `make test-full` has."""


@pytest.fixture(scope="module")
def variants(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config, volume: Volume
) -> Farm:
    """In the default run every other one."""
    left_out = set() if pytestconfig.getoption("--full") else FULL_VARIANTS
    names = [name for name in VARIANTS if name not in left_out][:: volume(2, 1, 1)]
    units = {
        name: build(unit, MX_FORMATS[fmt], **options)
        for name, (unit, fmt, options) in VARIANTS.items()
        if name in names
    }
    return farm_of("mac_variants", units)


def test_other_configurations(variants: Farm, volume: Volume) -> None:
    """Side by side, every corner class in each."""
    count = volume(300, 3_000, 1_200)
    inputs = {}
    for key, module in variants.modules.items():
        a, w = corner_cases.mixed(SEED, count, module.parameters["lanes"], module.format)
        if module.parameters.get("finite"):
            keep = ~model.mac_nan(a, w, module.format)
            a, w = a[keep], w[keep]
        for name, codes in (("a", a), ("w", w)):
            inputs[f"{key}.{name}"] = module.ports[name].join(codes)
    latest = max(module.latency for module in variants.modules.values())
    en, rst = corner_cases.stalls(SEED, count, flush=latest - 1, resets=3)
    logs = run_farm("icarus", variants, inputs, en, rst)
    for key, module in variants.modules.items():
        unit = "safe_mac" if module.parameters["arithmetic"] == "fp12" else "safe_mac_exact"
        output, reference = UNITS[unit]
        compared = check_mac(module, logs[key], output, partial(reference, format=module.format))
        assert compared > 0.4 * count


@unit_under_test
@pytest.mark.parametrize("lanes", [0, 3, -4, True, 4.0])
def test_lanes_not_a_power_of_two(unit: str, lanes: int) -> None:
    with raises(ValueError, f"lanes must be a power of two, not {lanes}"):
        build(unit, MX_FORMATS["mxsf"], lanes=lanes)


@unit_under_test
@pytest.mark.parametrize("pipeline", [0, 4])
def test_pipeline_out_of_range(unit: str, pipeline: int) -> None:
    with raises(
        ValueError,
        f"pipeline must be an integer from 1 to 3 (products, sums, output), not {pipeline}",
    ):
        build(unit, MX_FORMATS["mxsf"], pipeline=pipeline)


def test_integers_have_no_adder_tree() -> None:
    with raises(ValueError, INTEGERS):
        build("safe_mac", MX_FORMATS["mxint8"])


@pytest.mark.full
@module_under_test
def test_many_vectors(unit: str, modules: dict[str, Module]) -> None:
    module = modules[unit]
    for seed in range(10):
        corner_classes(
            "verilator", module, unit, 500_000, seed=seed, resets=10 * COPIES["verilator"]
        )


@pytest.mark.full
@module_under_test
def test_all_code_pairs_in_every_lane_on_icarus(unit: str, modules: dict[str, Module]) -> None:
    module = modules[unit]
    count = module.parameters["lanes"]
    pairs = [corner_cases.all_pairs(count, lane) for lane in range(count)]
    rows = corner_cases.without_stalls(*pairs[0], flush=module.latency - 1)
    compared = drive("icarus", module, unit, pairs, *rows[2:])
    assert compared >= count << 16
