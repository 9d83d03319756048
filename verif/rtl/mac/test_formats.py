"""Every format's decoder and MACs, side by side in one simulation, against the models."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe import model
from mxsafe.formats import MX_FORMATS, IntFormat, has_special_codes
from mxsafe.rtl.mac.bf16_mac import BF16Mac
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.presets import build
from verif.rtl.mac import corner_cases
from verif.support.checkers import assert_equal, check_mac
from verif.support.farm import Farm, farm_of, run_farm
from verif.support.manifest import Module, Words
from verif.support.simulators import lint
from verif.support.tests import Volume

FORMATS = list(MX_FORMATS)
FLOATS = [name for name in FORMATS if not isinstance(MX_FORMATS[name].element, IntFormat)]
PAIRS = list(itertools.permutations(FORMATS, 2))
FOUR_LANES = [  # a narrow and a wide operand in either place, special codes, integers
    ("mxsf", "mxfp4_e2m1"),
    ("mxfp4_e2m1", "mxsf"),
    ("mxfp8_e4m3", "mxfp6_e2m3"),
    ("mxfp6_e3m2", "mxfp8_e5m2"),
    ("mxsf", "mxint8"),
    ("mxint8", "mxfp8_e5m2"),
]
REFERENCES: dict[str, tuple[str, Callable[..., NDArray[Any]]]] = {
    "safe_mac": ("partial_sum", model.safe_mac),
    "safe_mac_exact": ("dot", model.safe_mac_exact),
    "dsp": ("dot", model.safe_mac_exact),
    "fpga": ("dot", model.safe_mac_exact),
    "bf16_mac": ("partial_sum", model.bf16_mac),
    "bf16_mac_deep": ("partial_sum", model.bf16_mac),
}


def macs_in(farm: Farm) -> dict[str, Module]:
    return {key: module for key, module in farm.modules.items() if "decoder" not in key}


def formats_of(key: str) -> tuple[str, str]:
    """Formats of both operands of a unit."""
    first, _, second = key.split(".")[0].partition("+")
    return first, second or first


def macs_of(pairs: list[tuple[str, str]], **options: int) -> dict[str, Unit]:
    """MACs of two formats, in both arithmetics where both operands are floats."""
    units = {}
    for first, second in pairs:
        a, w = MX_FORMATS[first], MX_FORMATS[second]
        for unit in ("safe_mac_exact", "safe_mac"):
            if unit == "safe_mac_exact" or {first, second} <= set(FLOATS):
                units[f"{first}+{second}.{unit}"] = build(unit, a, format_w=w, **options)
    return units


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    units: dict[str, Unit] = {}
    for name in FORMATS:
        fmt = MX_FORMATS[name]
        units[f"{name}.decoder"] = Decoder(format=fmt)
        units[f"{name}.safe_mac_exact"] = build("safe_mac_exact", fmt)
        if name in FLOATS:
            units[f"{name}.safe_mac"] = build("safe_mac", fmt)
    units["bf16.bf16_mac"] = BF16Mac()
    units["bf16.bf16_mac_deep"] = BF16Mac(pipeline=5)
    return farm_of("formats", units)


@pytest.fixture(scope="module")
def one_lane(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    """Every pair of formats that differ, one product at a time."""
    return farm_of("pairs", macs_of(PAIRS, lanes=1))


@pytest.fixture(scope="module")
def four_lanes(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    units = macs_of(FOUR_LANES)
    units["mxsf+mxint8.dsp"] = build(
        "safe_mac_exact", MX_FORMATS["mxsf"], format_w=MX_FORMATS["mxint8"], dsp=True
    )
    # Products with an element of E4M3 or E5M2 are shifted behind the block, operands of the others
    # before it.
    for first, second in [*FOUR_LANES, ("mxfp8_e2m5", "mxfp8_e2m5"), ("mxfp4_e2m1", "mxfp4_e2m1")]:
        units[f"{first}+{second}.fpga"] = build(
            "safe_mac_exact", MX_FORMATS[first], format_w=MX_FORMATS[second], target="fpga"
        )
    return farm_of("four_lanes", units)


def decoder_inputs(farm: Farm) -> dict[str, Words]:
    """All codes of every decoder, in order."""
    inputs = {}
    for key, module in farm.modules.items():
        if "decoder" in key:
            port = module.ports["code"]
            inputs[f"{key}.code"] = port.words(np.arange(1 << port.width))
    return inputs


Draw = Callable[[tuple[str, str], int], tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]]


def mac_inputs(farm: Farm, draw: Draw) -> dict[str, Words]:
    """Operands of every MAC from ``draw(formats, lanes)``."""
    inputs = {}
    for key, module in macs_in(farm).items():
        operands = draw(formats_of(key), module.parameters["lanes"])
        for name, codes in zip(("a", "w"), operands, strict=True):
            inputs[f"{key}.{name}"] = module.ports[name].join(codes)
    return inputs


def check_macs(farm: Farm, log: dict[str, dict[str, Words]]) -> dict[str, int]:
    """Check every MAC against its model; the number of compared vectors of each."""
    counts = {}
    for key, module in macs_in(farm).items():
        output, reference = REFERENCES[key.split(".")[1]]
        first, second = formats_of(key)
        if first == "bf16":
            counts[key] = check_mac(module, log[key], output, reference)
            continue
        formats = {"format": first, "format_w": second}
        counts[key] = check_mac(module, log[key], output, partial(reference, **formats))
        specials = any(has_special_codes(MX_FORMATS[name]) for name in (first, second))
        assert ("nan" in module.ports) == specials
        if specials:
            check_mac(module, log[key], "nan", partial(model.mac_nan, **formats))
    return counts


def check_decoders(farm: Farm, log: dict[str, dict[str, Words]]) -> None:
    """Check every decoder against its model on every row."""
    for key, module in farm.modules.items():
        if "decoder" not in key:
            continue
        fmt = key.split(".")[0]
        codes = module.ports["code"].numbers(log[key]["code"])
        expected = model.decoder_outputs(codes, fmt)
        outputs = {port.name for port in module.ports.values() if port.direction == "output"}
        assert set(expected) == outputs
        for name, values in expected.items():
            got = module.ports[name].numbers(log[key][name])
            assert_equal(f"{key}.{name}", got, values.astype(np.int64), code=codes)
        assert set(codes.tolist()) == set(range(1 << module.ports["code"].width))


@pytest.mark.full
@pytest.mark.parametrize("which", ["farm", "four_lanes", "one_lane"])
def test_lint_clean(which: str, request: pytest.FixtureRequest) -> None:
    assert lint(request.getfixturevalue(which).wrapper) == ""


def pairs_in_a_lane(
    formats: tuple[str, str], lanes: int, every: int = 1
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every pair of codes in one lane; or those whose sum is a multiple of a number."""
    if formats[0] == "bf16":
        return corner_cases.mixed_bf16(16, (1 << 16) // every, lanes)
    lane = min(1, lanes - 1)
    a, w = corner_cases.all_pairs(lanes, lane, *formats)
    chosen = (a[:, lane].astype(np.int64) + w[:, lane]) % every == 0
    return a[chosen], w[chosen]


def check_pairs(farm: Farm, inputs: dict[str, Words], label: str = "", every: int = 1) -> None:
    """Pairs of codes through all units; counted by unit, or together under a label."""
    rows = (1 << 16) // every + 8
    en = np.ones(rows, np.int64)
    en[-1] = 0
    log = run_farm("verilator", farm, inputs, en, np.zeros_like(en))
    if any("decoder" in key for key in farm.modules):
        check_decoders(farm, log)
    for key, compared in check_macs(farm, log).items():
        formats = formats_of(key)
        if formats[0] != "bf16":
            assert compared >= (1 << sum(MX_FORMATS[name].width for name in formats)) // every


def test_all_codes_and_all_pairs(farm: Farm, volume: Volume) -> None:
    """Every code through the decoders, every pair of codes through one lane of every MAC.

    In the default run a quarter of the pairs: those of MXSF are tested by themselves.
    """
    every = volume(4, 1, 1)
    pairs = mac_inputs(farm, partial(pairs_in_a_lane, every=every))
    check_pairs(farm, decoder_inputs(farm) | pairs, every=every)


@pytest.mark.full
def test_all_pairs_of_two_formats(one_lane: Farm) -> None:
    """Every pair of codes of every pair of formats that differ."""
    assert len(macs_in(one_lane)) == 8 * 7 + 7 * 6
    pairs = mac_inputs(one_lane, pairs_in_a_lane)
    check_pairs(one_lane, pairs, "MACs of two formats, all code pairs")


def check_corner_classes(
    simulator: str, farm: Farm, volume: Volume
) -> tuple[dict[str, Any], dict[str, int]]:
    """Operands of every class, with stalls and resets: the log, and what was compared."""
    count = {"icarus": volume(500, 1_500, 1_000), "verilator": volume(5_000, 20_000)}[simulator]
    inputs = decoder_inputs(farm) | mac_inputs(
        farm,
        lambda formats, lanes: (
            corner_cases.mixed_bf16(17, count, lanes)
            if formats[0] == "bf16"
            else corner_cases.mixed(17, count, lanes, *formats)
        ),
    )
    en, rst = corner_cases.stalls(17, count, flush=4, resets=count // 500)
    log = run_farm(simulator, farm, inputs, en, rst)
    compared = check_macs(farm, log)
    assert all(number > count // 3 for number in compared.values())
    return log, compared


@pytest.mark.one_simulator("icarus")
def test_corner_classes(simulator: str, farm: Farm, volume: Volume) -> None:
    log, _ = check_corner_classes(simulator, farm, volume)
    check_decoders(farm, log)


@pytest.mark.one_simulator("icarus")
def test_corner_classes_of_two_formats(simulator: str, four_lanes: Farm, volume: Volume) -> None:
    _, counts = check_corner_classes(simulator, four_lanes, volume)
    assert len(counts) == len(four_lanes.modules)
