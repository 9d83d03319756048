"""Modules with DSP blocks of ECP5 in them do what those do whose place they take."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.dsp_multiplier import DspMultiplier
from mxsafe.verilog.ecp5 import DEFINE, FLATTEN, dsp_sources, dsp_units
from mxsafe.verilog.generate import generate
from verif.support import manifest
from verif.support.checkers import assert_equal
from verif.support.manifest import GEN, Module
from verif.support.proof import run_yosys
from verif.support.simulators import run_lockstep
from verif.support.tests import some

BLOCKS = Path(__file__).parents[1] / "synthesis" / "ecp5_blocks.v"


@pytest.mark.parametrize("unit", some(reversed(dsp_units()), every=2))
def test_block_is_the_multiplier(unit: DspMultiplier, tmp_path: Path) -> None:
    """With stalls, and resets where there are some, in every cycle."""
    generate([unit], tmp_path)  # without the prefix of parts of gen/, as boards have it
    module = manifest.load(tmp_path)[unit.module_name]
    ((name, text),) = dsp_sources([source.name for source in module.sources]).items()
    block = tmp_path / "ecp5" / name
    block.parent.mkdir()
    block.write_text(text)
    rng = np.random.default_rng(4)
    count = 600
    given = {
        "a": rng.integers(0, 1 << 18, count),
        "b": rng.integers(0, 1 << 18, count),
        "en": (rng.random(count) < 0.8).astype(np.int64),
        "rst": (rng.random(count) < 0.05).astype(np.int64),
    }
    given["rst"][0] = 1
    words = {
        port: values.astype(np.uint32).view(np.uint8).reshape(-1, 4)[:, : 3 if port in "ab" else 1]
        for port, values in given.items()
    }
    simulator = "icarus"
    products = [
        run_lockstep(simulator, module, words, unsettled=4)["product"][4:]
        for sources in (None, [block, BLOCKS])
    ]
    assert len(np.unique(products[0], axis=0)) > count // 4
    assert assert_equal(unit.module_name, products[1], products[0]) == products[0].size


def test_other_modules_stay() -> None:
    assert dsp_sources(["safe_mac.v", "multiplier_18x18.v"]).keys() == {"multiplier_18x18.v"}


def synthesised(module: Module, folder: Path, *options: str) -> dict[str, int]:
    """Cells by kind of committed files through plain `synth_ecp5`."""
    for source in module.sources:
        shutil.copy(source, folder)
    names = " ".join(source.name for source in module.sources)
    read = f"read_verilog {' '.join(options)} {names}"
    steps = [read, f"synth_ecp5 -top {module.name}", *FLATTEN, "tee -o cells stat"]
    run_yosys(folder, "; ".join(steps))
    said = (folder / "cells").read_text()
    counts = re.findall(r"^ +(\d+) +(?:[\d.]+ +)?(\w+)$", said, re.MULTILINE)
    return {kind: int(count) for count, kind in counts}


@pytest.mark.yosys
def test_generated_files_have_the_registers_of_the_blocks(
    modules: dict[str, Module], tmp_path: Path
) -> None:
    """As their heads say, and without it the registers of factors and products are outside."""
    module = modules["safe_mac_exact_fpga"]
    head = (GEN / "safe_mac_exact_fpga.v").read_text().partition("\nmodule ")[0]
    assert f"For Lattice ECP5 define {DEFINE}" in head
    inside = synthesised(module, tmp_path, f"-D{DEFINE}")
    outside = synthesised(module, tmp_path)
    assert inside["MULT18X18D"] == outside["MULT18X18D"] == module.parameters["lanes"]
    assert inside["TRELLIS_FF"] == 283, inside
    assert outside["TRELLIS_FF"] == 583, outside
