"""Linters find nothing in the generated Verilog, as it is, with all their warnings."""

import shutil
from pathlib import Path

import pytest

from mxsafe.verilog.unread import without_unread
from verif.support.manifest import GEN, Module, named
from verif.support.proof import run_yosys
from verif.support.simulators import lint
from verif.support.units import mutated
from verif.verilog.linters import (
    DISTRIBUTED,
    LINTERS,
    distributed_verilator,
    said_by_verilator,
)

TOPS = [
    "safe_mac",
    "safe_mac_exact_fpga",
    "mxsf_pu_exact",
    "mxsf_operand_writer_width8_64x256x512",
]
"""With a net that older Verilators take for a loop, an assignment that they do, many instances."""


def said(linter: str, files: list[Path], folder: Path) -> str:
    """The first message, and how many there are; empty if there is none."""
    messages = LINTERS[linter](files, folder)
    return f"{linter} says {len(messages)}: {messages[0]}" if messages else ""


@pytest.mark.parametrize(
    "linter",
    [
        # Verilators take ten seconds for all files; the default run lets them read three tops.
        pytest.param(name, marks=pytest.mark.yosys if "verilator" in name else ())
        for name in LINTERS
    ],
)
def test_every_file_is_clean(linter: str, tmp_path: Path) -> None:
    files = sorted(GEN.rglob("*.v"))
    assert len(files) == len(named())
    assert not (found := said(linter, files, tmp_path)), found


@pytest.mark.parametrize("options", [(), ("-Wall",)], ids=["default", "all"])
@pytest.mark.parametrize("linter", ["verilator", DISTRIBUTED])
@pytest.mark.parametrize("name", TOPS)
def test_verilator_takes_files_as_they_are(
    name: str, linter: str, options: tuple[str, ...], modules: dict[str, Module]
) -> None:
    program = distributed_verilator() if linter == DISTRIBUTED else None
    top = ("--top-module", modules[name].name)
    assert not said_by_verilator(modules[name].sources, *top, *options, program=program)


@pytest.mark.full
@pytest.mark.parametrize("linter", ["verilator", DISTRIBUTED])
def test_verilator_takes_all_files_together(linter: str) -> None:
    program = distributed_verilator() if linter == DISTRIBUTED else None
    files = sorted(GEN.rglob("*.v"))
    assert not said_by_verilator(files, "-Wall", "-Wno-MULTITOP", program=program)


@pytest.mark.yosys
def test_yosys_checks_every_file(tmp_path: Path) -> None:
    files = sorted(GEN.rglob("*.v"))
    for path in files:
        shutil.copy(path, tmp_path)
    said = run_yosys(tmp_path, "read_verilog *.v; proc; check -assert")
    assert "Found and reported 0 problems" in said


WRONG = {
    "verilator": ("endmodule\n", "  wire forgotten;\nendmodule\n", "forgotten"),
    DISTRIBUTED: ("endmodule\n", "  wire forgotten;\nendmodule\n", "forgotten"),
    "icarus": ("  wire zero_sign;\n", "", "zero_sign"),
    "slang": ("+ { 22'h000000, total_differ }", "+ total_differ", "arith-op-mismatch"),
}


@pytest.mark.parametrize("linter", WRONG)
def test_a_message_is_a_line(linter: str, modules: dict[str, Module], tmp_path: Path) -> None:
    right, wrong, message = WRONG[linter]
    module = mutated(modules["safe_mac"], right, wrong, name="safe_mac")
    copies = tmp_path / "copies"
    copies.mkdir()
    found = said(linter, module.sources, copies)
    assert found.startswith(f"{linter} says ")
    assert "safe_mac.v" in found
    assert message in found
    assert "\n" not in found


@pytest.mark.parametrize("wrong", ["mxsf_sta", "mxsf_pu", "safe_mac", "fp12_packer"])
def test_lint_finds_what_is_wrong_at_any_depth(wrong: str, modules: dict[str, Module]) -> None:
    """In modules with many instances, in what they are in, and in what is in them."""
    right, text = "endmodule\n", "  wire forgotten;\nendmodule\n"
    found = lint(mutated(modules["mxsf_sta"], right, text, name=wrong))
    assert f"{modules[wrong].name}.v" in found
    assert "'forgotten'" in found


def test_no_net_is_declared_by_its_use() -> None:
    texts = [path.read_text() for path in GEN.rglob("*.v")]
    assert texts
    for text in texts:
        assert text.count("`default_nettype none\n") == 1
        assert text.index("`default_nettype none\n") < text.index("\nmodule ")
        assert text.endswith("endmodule\n`default_nettype wire\n")


UNREAD = """\
module m(clk, rst, a, y);
  wire \\$1 ;
  wire [5:0] \\$2 ;
  wire [4:0] \\$3 ;
  wire [7:0] loop;
  wire [3:0] sum;
  input [3:0] a;
  wire [3:0] a;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output y;
  wire y;
  assign { \\$3 [4], sum } = { 1'h0, a } + 5'h03;
  assign \\$2 [5:4] = sum[1:0];
  assign \\$2 [3:0] = ~ a;
  assign { loop[7:4], loop[0] } = { loop[3:0], a[0] };
  assign loop[3:1] = loop[2:0];
  assign y = \\$2 [2] ^ sum[3] ^ (& loop);
  part inside (
    .given(sum),
    .made(\\$1 )
  );
endmodule
"""


def test_what_nothing_reads_is_left_out_or_named() -> None:
    text = without_unread(UNREAD, {"part": {"made"}})
    assert "\\$2 [5:4]" not in text
    assert "{ unused_0, sum }" in text
    assert ".made(unused_1 )" in text
    for net in ("input clk;\n  wire clk;\n  input rst;\n  wire rst;", "wire [3:0] \\$2 ;"):
        assert f"lint_off UNUSEDSIGNAL */\n  {net}\n  /* verilator lint_on" in text
    assign = "assign { loop[7:4], loop[0] } = { loop[3:0], a[0] };"
    for loop in ("wire [7:0] loop;", assign):
        assert f"lint_off UNOPTFLAT */\n  {loop}\n  /* verilator lint_on" in text
    assert text.count("lint_off UNOPTFLAT") == 2
