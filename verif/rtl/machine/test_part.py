"""Parts of a machine: what decides them is in their names and parameters, and nothing else does."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Value
from amaranth.lib import wiring

from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.rtl.machine.control.descriptor_check import DescriptorCheck
from mxsafe.rtl.machine.control.registers import Registers
from mxsafe.rtl.machine.dma.load_engine import LoadEngine
from mxsafe.rtl.machine.dma.store_engine import StoreEngine
from mxsafe.rtl.machine.gemm.gemm_engine import GemmEngine
from mxsafe.rtl.machine.gemm.operand_feed import OperandFeed
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.machine.vector.vector_engine import VectorEngine
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.generate import generate

PARTS: list[type[Unit[Any]]] = [
    DescriptorCheck,
    GemmEngine,
    LoadEngine,
    OperandFeed,
    Registers,
    StoreEngine,
    VectorEngine,
]
MACHINE = MachineConfiguration(rows=4, conversions=("blocks",), functions=(), reductions=())
OTHERS = {
    "rows": 8,
    "unit_rows": 2,
    "array_lanes": 2,
    "arithmetic": "fp12",
    "format_a": "mxfp6_e2m3",
    "format_w": "mxfp6_e2m3",
    "data_width": 64,
    "a_beats": 64,
    "w_beats": 64,
    "out_beats": 64,
    "vector_banks": 2,
    "bank_beats": 512,
    "queue_depth": 4,
    "reduction_beats": 64,
    "functions": ("relu",),
    "reductions": ("rms_norm",),
    "conversions": (),
    "vector_parts": 2,
    "grade": "fine",
    "target": "fpga",
}
"""Another value of each field, apart from those of which there is one."""


def test_every_size_has_another_value() -> None:
    known = {each.name for each in fields(MachineConfiguration)}
    assert known - OTHERS.keys() == {"lanes", "affine", "sweeps", "counts"}


def _text(unit: Unit[Any], folder: Path) -> list[str]:
    """Its ports and its Verilog, made anew: equal parts share what is kept."""
    generate([unit], folder)
    ports = wiring.Signature(dict(unit.ports()))
    widths = [f"{path}: {len(Value.cast(one))}" for path, _, one in ports.flatten(ports.create())]
    return widths + [path.read_text() for path in sorted(folder.glob("*.v"))]


@pytest.mark.parametrize("unit", PARTS, ids=[unit.__name__ for unit in PARTS])
def test_equal_parts_are_the_same_hardware(unit: type[Unit[Any]], tmp_path: Path) -> None:
    """Sizes of the machine that it does not name make no difference to what is generated."""
    default: PartConfiguration = unit(machine=MACHINE).config
    text, compared = _text(unit(default), tmp_path / "default"), 0
    for name, value in OTHERS.items():
        other = unit(machine=replace(MACHINE, **{name: value}))
        if other.config == default:
            compared += 1
            assert hash(other.config) == hash(default)
            assert _text(other, tmp_path / name) == text, f"{name} makes a difference"
        else:
            assert other.module_name != default.module_name
    assert compared


def test_parts_of_other_machines_differ() -> None:
    small, fpga = (LoadEngine(machine=one).config for one in (SMALL_MACHINE, FPGA_MACHINE))
    assert small != fpga
    assert small != StoreEngine(machine=SMALL_MACHINE).config
