"""Notes of the sources stand in the Verilog."""

import ast
import re
from pathlib import Path

import pytest
from amaranth.back import rtlil as amaranth
from amaranth.hdl import Module, Signal

import mxsafe
from mxsafe.formats import FORMAT_SETS, MX_FORMATS
from mxsafe.rtl.arithmetic.bits import noted
from mxsafe.verilog.generate import generate
from mxsafe.verilog.notes import with_notes, without_notes
from mxsafe.verilog.presets import build
from verif.support.manifest import GEN

_COMMENT = re.compile(r"(?:^  // .*\n)+", re.MULTILINE)
_MXSF, _E4M3, _INT8 = (MX_FORMATS[name] for name in ("mxsf", "mxfp8_e4m3", "mxint8"))
_ALL = FORMAT_SETS["multi"]
_SMALL = {"pu_rows": 1, "pu_columns": 1, "rows": 2, "columns": 2}

RTLIL = """\
  attribute \\mxsafe_note "It stands before its first net alone."
  wire \\sum
  attribute \\mxsafe_note "It stands before its first net alone."
  attribute \\init 1'0
  wire width 4 \\held
  attribute \\mxsafe_note "An input."
  wire input 1 \\a
  attribute \\mxsafe_note "No such net."
  wire \\b
"""
TEXT = """\
module m(clk, a);
  input a;
  reg [3:0] held;
  wire sum;
  assign { \\b$1 , sum } = a;
  always @(posedge clk)
    if (rst) held <= 4'h0;
    else if (sum <= a) held[0] <= sum;
endmodule
"""


def test_notes_stand_before_what_drives_a_net_or_declares_it() -> None:
    assert with_notes(TEXT, RTLIL) == TEXT.replace("  input", "  // An input.\n  input").replace(
        "  assign", "  // It stands before its first net alone.\n  assign"
    )
    only_held = with_notes(TEXT.replace("sum }", "other }"), RTLIL.replace("\\sum", "\\other_2"))
    assert "alone.\n  always @(posedge clk)\n" in only_held


def test_long_notes_are_in_lines_like_those_of_a_header() -> None:
    text = with_notes(TEXT, RTLIL.replace("An input.", "word " * 40))
    assert max(map(len, text.splitlines())) == len("  // ") + 94


def test_yosys_sees_no_notes() -> None:
    m = Module()
    given, taken = Signal(name="given"), Signal(name="taken")
    m.d.comb += noted(taken, "Taken as given.").eq(given)
    ports = {"given": (given, None), "taken": (taken, None)}
    rtlil = amaranth.convert(m, name="m", ports=ports, emit_src=False)
    assert 'attribute \\mxsafe_note "Taken as given."\n' in rtlil
    assert "note" not in without_notes(rtlil)
    assert "// Taken as given.\n  output taken;" in with_notes("  output taken;\n", rtlil)


def _written() -> dict[str, str]:
    """Where each note is written, by its text."""
    found: dict[str, str] = {}
    for file in (Path(mxsafe.__file__).parent / "rtl").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                notes = [key.value for key in node.keywords if key.arg == "note"]
                if isinstance(node.func, ast.Name) and node.func.id == "noted":
                    notes = node.args[1:]
                for note in notes:
                    if not isinstance(note, ast.Name):  # in `truncated`, which hands one on
                        found[ast.literal_eval(note)] = f"{file.name}:{note.lineno}"
    return found


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Units with steps that no unit of ``gen/`` has."""
    folder = tmp_path_factory.mktemp("variants")
    units = [
        build("decoder", _E4M3),
        build("safe_mac", _E4M3),
        build("safe_mac", _MXSF, dsp=True),
        build("safe_mac", _MXSF, dsp=False, target="fpga"),
        build("safe_mac_exact", _INT8, format_w=_MXSF),
        build("bf16_mac", _MXSF),
        build("pu_bf16", _MXSF),
        build("sta_exact", _E4M3, **_SMALL),
        build("sta_exact", _ALL, **_SMALL),
        build("pu_exact", _MXSF, carry_save=True),
        build("converter", _MXSF, source="bfloat16"),
        build("accelerator_small", _MXSF, rows=4, conversions="blocks", counts=True),
    ]
    generate(units, folder)
    return folder


def test_every_note_arrives(variants: Path) -> None:
    """A net without a name of its own, or one that Yosys puts another in place of, keeps none."""
    comments = "".join(
        f"{found[0].replace('  // ', '').replace(chr(10), ' ')}\n"
        for folder in (GEN, variants)
        for file in folder.rglob("*.v")
        for found in _COMMENT.finditer(file.read_text())
    )
    lost = [f"{place}: {note}" for note, place in _written().items() if note not in comments]
    assert not lost, "these notes are on nets that the Verilog does not have:\n" + "\n".join(lost)
