"""Every format's decoder and MACs, side by side in one simulation, against the models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe import model
from mxsafe.formats import MX_FORMATS, IntFormat, has_special_codes
from mxsafe.rtl.mac.bf16_mac import BF16Mac
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate
from mxsafe.verilog.presets import build
from verif.support import corner_cases, manifest
from verif.support.checkers import assert_equal, check_mac
from verif.support.manifest import Module, Words
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available
from verif.support.wrappers import SHARED, beside

FORMATS = list(MX_FORMATS)
FLOATS = [name for name in FORMATS if not isinstance(MX_FORMATS[name].element, IntFormat)]
REFERENCES: dict[str, tuple[str, Callable[..., NDArray[Any]]]] = {
    "safe_mac": ("partial_sum", model.safe_mac),
    "safe_mac_exact": ("dot", model.safe_mac_exact),
    "bf16_mac": ("partial_sum", model.bf16_mac),
    "bf16_mac_deep": ("partial_sum", model.bf16_mac),
}


@dataclass(frozen=True)
class Farm:
    """The units of all formats under ``<format>.<unit>``, and the wrapper around them."""

    wrapper: Module
    modules: dict[str, Module]

    @property
    def macs(self) -> dict[str, Module]:
        return {key: module for key, module in self.modules.items() if "mac" in key}


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Farm:
    folder = tmp_path_factory.mktemp("formats")
    units: dict[str, Unit] = {}
    for name in FORMATS:
        fmt = MX_FORMATS[name]
        units[f"{name}.decoder"] = Decoder(format=fmt)
        units[f"{name}.safe_mac_exact"] = build("safe_mac_exact", fmt)
        if name in FLOATS:
            units[f"{name}.safe_mac"] = build("safe_mac", fmt)
    units["bf16.bf16_mac"] = BF16Mac()
    units["bf16.bf16_mac_deep"] = BF16Mac(pipeline=5)
    generate(units.values(), folder, in_one_run=True)
    loaded = manifest.load(folder)
    modules = {key: loaded[unit.module_name] for key, unit in units.items()}
    return Farm(beside(folder, "formats", modules), modules)


def run(
    simulator: str,
    farm: Farm,
    inputs: dict[str, Words],
    en: NDArray[np.int64],
    rst: NDArray[np.int64],
    sources: list[Path] | None = None,
) -> dict[str, dict[str, Words]]:
    """What every pin of every unit carried, by unit and port; short inputs begin again."""
    ports = farm.wrapper.ports
    rows = len(en)
    stimulus = {
        "en": ports["en"].words(en),
        "rst": ports["rst"].words(rst),
        "inputs": ports["inputs"].join_words(
            {name: np.resize(words, (rows, words.shape[1])) for name, words in inputs.items()}
        ),
    }
    log = run_lockstep(simulator, farm.wrapper, stimulus, sources=sources)
    pins = ports["inputs"].split_words(log["inputs"]) | ports["outputs"].split_words(log["outputs"])
    shared = {name: log[name] for name in SHARED if name in log}
    return {
        key: shared | {name: pins[f"{key}.{name}"] for name in module.ports if name not in SHARED}
        for key, module in farm.modules.items()
    }


def decoder_inputs(farm: Farm) -> dict[str, Words]:
    """All codes of every decoder, in order."""
    inputs = {}
    for key, module in farm.modules.items():
        if "decoder" in key:
            port = module.ports["code"]
            inputs[f"{key}.code"] = port.words(np.arange(1 << port.width))
    return inputs


Draw = Callable[[str, int], tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]]


def mac_inputs(farm: Farm, draw: Draw) -> dict[str, Words]:
    """Operands of every MAC from ``draw(format, lanes)``."""
    inputs = {}
    for key, module in farm.macs.items():
        operands = draw(key.split(".")[0], module.parameters["lanes"])
        for name, codes in zip(("a", "w"), operands, strict=True):
            inputs[f"{key}.{name}"] = module.ports[name].join(codes)
    return inputs


def check_macs(farm: Farm, log: dict[str, dict[str, Words]]) -> dict[str, int]:
    """Hold every MAC to its model; the number of compared vectors of each."""
    counts = {}
    for key, module in farm.macs.items():
        fmt, unit = key.split(".")
        output, reference = REFERENCES[unit]
        if fmt == "bf16":
            counts[key] = check_mac(module, log[key], output, reference)
            continue
        counts[key] = check_mac(module, log[key], output, partial(reference, format=fmt))
        assert ("nan" in module.ports) == has_special_codes(MX_FORMATS[fmt])
        if "nan" in module.ports:
            check_mac(module, log[key], "nan", partial(model.mac_nan, format=fmt))
    return counts


def check_decoders(farm: Farm, log: dict[str, dict[str, Words]]) -> int:
    """Hold every decoder to its model on every row."""
    compared = 0
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
        compared += 1 << module.ports["code"].width
    return compared


def test_lint_clean(farm: Farm) -> None:
    available("verilator")
    assert lint(farm.wrapper) == ""


def test_all_codes_and_all_pairs(farm: Farm, tally: Tally) -> None:
    """Every code through the decoders, every pair of codes through one lane of every MAC."""
    inputs = decoder_inputs(farm) | mac_inputs(
        farm,
        lambda fmt, lanes: (
            corner_cases.mixed_bf16(16, 1 << 16, lanes)
            if fmt == "bf16"
            else corner_cases.all_pairs(lanes, 1, fmt)
        ),
    )
    rows = (1 << 16) + 8
    en = np.ones(rows, np.int64)
    en[-1] = 0
    log = run(available("verilator"), farm, inputs, en, np.zeros_like(en))
    tally("verilator", "decoders of all formats", check_decoders(farm, log))
    for key, compared in check_macs(farm, log).items():
        fmt, _ = key.split(".")
        if fmt != "bf16":
            assert compared >= 1 << 2 * MX_FORMATS[fmt].element.width
        tally("verilator", key.replace(".", " "), compared)


def test_corner_classes(simulator: str, farm: Farm, tally: Tally) -> None:
    count = {"icarus": 3_000, "verilator": 20_000}[simulator]
    inputs = decoder_inputs(farm) | mac_inputs(
        farm,
        lambda fmt, lanes: (
            corner_cases.mixed_bf16(17, count, lanes)
            if fmt == "bf16"
            else corner_cases.mixed(17, count, lanes, fmt)
        ),
    )
    en, rst = corner_cases.stalls(17, count, flush=4, resets=count // 500)
    log = run(simulator, farm, inputs, en, rst)
    tally(simulator, "decoders of all formats", check_decoders(farm, log))
    for key, compared in check_macs(farm, log).items():
        assert compared > count // 3
        tally(simulator, key.replace(".", " "), compared)
