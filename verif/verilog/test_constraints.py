"""Timing constraints beside the modules that are meant to be used."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mxsafe.verilog.constraints import SUFFIX, VARIABLE, constraints
from verif.support.manifest import GEN, generated

_CELLS = """library(cells) { time_unit : "1ns"; }
"""


def test_every_top_has_its_own() -> None:
    tops = {path.stem for path in GEN.glob("*.f")}
    assert {path.stem for path in GEN.glob(f"*{SUFFIX}")} == tops
    for name in tops:
        ports = generated()[name].ports
        expected = constraints(name, clocked="clk" in ports)
        assert (GEN / f"{name}{SUFFIX}").read_text() == expected


@pytest.mark.parametrize("clocked", [True, False])
@pytest.mark.parametrize("period", [None, 1.25])
def test_opensta_reads_them(tmp_path: Path, clocked: bool, period: float | None) -> None:
    """Both of a module without cells; the period is the paper's, or that which was set before."""
    if shutil.which("sta") is None:
        pytest.skip("sta is not installed")
    clock = "input clk, " if clocked else ""
    (tmp_path / "cells.lib").write_text(_CELLS)
    (tmp_path / "top.v").write_text(
        f"module top({clock}input a, output b); assign b = a; endmodule"
    )
    (tmp_path / "top.sdc").write_text(constraints("top", clocked=clocked))
    (tmp_path / "top.tcl").write_text(f"""\
read_liberty cells.lib
read_verilog top.v
link_design top
{f"set {VARIABLE} {period}" if period else ""}
source top.sdc
puts "is [get_property [get_clocks clk] period]"
""")
    ran = subprocess.run(
        ["sta", "-exit", "top.tcl"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Error" not in ran.stdout
    assert f"is {period or 2.0:.3f}" in ran.stdout
