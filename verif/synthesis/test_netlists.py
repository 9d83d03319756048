"""Netlists for FPGAs do what the models say; some are proved to do what their Verilog does."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe import model
from mxsafe.synthesis.technologies import ECP5, NETLIST, Design
from mxsafe.verilog.names import part_name
from verif.rtl.array.array_checks import check_products, random_products, small_array
from verif.rtl.mac import corner_cases
from verif.support.checkers import check_mac
from verif.support.manifest import Module, mac_stimulus
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, raises, some
from verif.support.units import mutated
from verif.synthesis.netlists import NETLISTS, netlist_of, prove_netlist

pytestmark = pytest.mark.yosys

MACS = [
    ("safe_mac_exact", "ecp5"),
    ("safe_mac_exact", "xilinx"),
    ("safe_mac_exact_fpga", "ecp5"),
    ("safe_mac_exact_fpga", "xilinx"),
    ("safe_mac_exact_fpga", "xilinx, no DSPs"),
    ("safe_mac_fpga", "ecp5"),
]


def drive(module: Module, count: int) -> int:
    """Operand vectors of all corner classes, stalls and resets; how many were compared."""
    a, w = corner_cases.mixed(31, count, module.parameters["lanes"])
    rows = corner_cases.with_stalls(31, a, w, flush=module.latency - 1, resets=3)
    stimulus = mac_stimulus(module, *rows)
    log = run_lockstep("icarus", module, stimulus)
    if "dot" in module.ports:
        return check_mac(module, log, "dot", model.safe_mac_exact)
    return check_mac(module, log, "partial_sum", model.safe_mac)


@pytest.mark.parametrize("case", some(MACS, every=6), ids=str)
def test_mac(case: tuple[str, str], modules: dict[str, Module], volume: Volume) -> None:
    name, kind = case
    count = volume(300, 4_000)
    compared = drive(netlist_of(modules[name], kind), count)
    assert compared > count // 2


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ecp5", "xilinx"])
def test_sub_matrix_unit_for_fpgas(kind: str) -> None:
    """It is a netlist; the array around it is not."""
    size = {"pu_rows": 1, "pu_columns": 1, "rows": 4, "columns": 4, "lanes": 4}
    module = small_array("exact", **size, target="fpga")
    module = netlist_of(module, kind, part_name("mxsf_pu_exact_fpga"))
    products = random_products(17, 3, 4, 40, 8)
    check_products("icarus", module, products, stall=0.2)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["ecp5", "xilinx"])
def test_array(kind: str) -> None:
    module = netlist_of(small_array("exact"), kind)
    products = random_products(18, 2, 3, 24, 8)
    check_products("icarus", module, products, stall=0.2, resets_after=[20])


def broken(module: Module, folder: Path) -> Module:
    """A netlist one of whose look-up tables is inverted, and its cells."""
    netlist, cells = module.sources
    text = netlist.read_text()
    table = list(re.finditer(r"INIT\(16'h([0-9a-f]{4})\)", text))[300]
    wrong = folder / NETLIST
    wrong.write_text(
        f"{text[: table.start(1)]}{int(table[1], 16) ^ 0xFFFF:04x}{text[table.end(1) :]}"
    )
    return replace(module, sources=(wrong, cells))


def test_broken_netlist_is_found(modules: dict[str, Module], tmp_path: Path) -> None:
    module = broken(netlist_of(modules["safe_mac_exact"], "ecp5"), tmp_path)
    with pytest.raises(AssertionError, match="differ"):
        drive(module, 100)


@pytest.mark.full
def test_proof_finds_a_broken_netlist(modules: dict[str, Module], tmp_path: Path) -> None:
    module = modules["safe_mac_exact"]
    netlist = broken(netlist_of(module, "ecp5"), tmp_path)
    with pytest.raises(AssertionError, match="Yosys failed"):
        prove_netlist(module, netlist, tmp_path / "proof")


PROVED = [
    ("mxsf_decoder", "ecp5"),
    ("safe_mac_exact", "ecp5"),
    ("fp12_adder", "ecp5"),
    ("mxsf_decoder", "xilinx"),
    ("safe_mac_exact", "xilinx"),
    ("fp12_adder", "xilinx"),
    ("safe_mac", "ecp5"),
    ("float32_adder_fpga", "ecp5"),
    ("float32_adder_fpga", "xilinx"),
]


@pytest.mark.parametrize("case", some(PROVED, every=9), ids=str)
def test_netlist_is_proved(
    case: tuple[str, str], modules: dict[str, Module], tmp_path: Path
) -> None:
    name, kind = case
    prove_netlist(modules[name], netlist_of(modules[name], kind), tmp_path)


def test_a_change_of_the_verilog_is_found_by_proof(
    modules: dict[str, Module], tmp_path: Path
) -> None:
    module = modules["mxsf_decoder"]
    right, wrong = "assign sign = code[7]", "assign sign = code[6]"
    changed = mutated(module, right, wrong)
    with pytest.raises(AssertionError, match="Yosys failed"):
        prove_netlist(changed, netlist_of(module, "ecp5"), tmp_path / "proof")


def test_ecp5_has_one_netlist() -> None:
    design = Design(top="unit", sources={}, clocked=True, inputs={}, outputs={})
    with raises(ValueError, "variant must be luts, not 'dsps'"):
        ECP5.netlist(design, "dsps")
    assert all(technology.netlist(design, kind) for technology, kind in NETLISTS.values())
