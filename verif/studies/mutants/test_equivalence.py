"""Proofs of equivalence: they succeed where nobody can see a difference, and only there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from studies.mutants.equivalence import is_equivalent, unread
from studies.mutants.mutation import Mutants, mutate
from verif.studies.counting_stream import counting_stream
from verif.support.manifest import Module

pytestmark = pytest.mark.yosys

CASES = {
    "nobody sees a result that is not valid": (
        "if (moves) m_axis_tdata <=",
        "if (moves & s_axis_tvalid) m_axis_tdata <=",
        True,
    ),
    "the same in other words": ("~ m_axis_tvalid |", "~ (m_axis_tvalid & ~ m_axis_tready) |", True),
    "a beat is counted twice after 200": ("beats + 1'h1", "beats + 1'h1 + (beats == 200)", False),
    "the data are lost": ("{ beats, s_axis_tdata }", "{ beats, s_axis_tdata & 8'h7f }", False),
    "a result goes away": ("assign moves = ~", "assign moves = rst | ~", True),
    "it is ready in reset": ("moves & ~ rst", "moves", False),
}
_AROUND = """\
module around(
  clk, rst, s_axis_tdata, s_axis_tvalid, s_axis_tready, m_axis_tdata, m_axis_tvalid, m_axis_tready
);
  input clk;
  input rst;
  input [7:0] s_axis_tdata;
  input s_axis_tvalid;
  output s_axis_tready;
  output [15:0] m_axis_tdata;
  output m_axis_tvalid;
  input m_axis_tready;
  wire [7:0] high;
  wire [7:0] low;
  wire [15:0] numbered;
  assign high = s_axis_tdata & 8'hf0;
  assign low = s_axis_tdata & 8'h0f;
  assign m_axis_tdata = numbered & {16{m_axis_tvalid}};
  counting_stream counts (
    .clk(clk), .rst(rst), .s_axis_tdata(high | low), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .m_axis_tdata(numbered), .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready)
  );
endmodule
"""
CASES_AROUND = {
    "a wire that has another value and makes no difference": (
        "low = s_axis_tdata & 8'h0f",
        "low = s_axis_tdata",
        True,
    ),
    "nobody sees a result that is not valid": ("numbered & {16{m_axis_tvalid}}", "numbered", True),
    "another number enters the unit inside": ("high | low", "high | low | 8'h01", False),
    "a number is lost that leaves the unit inside": ("numbered &", "numbered[14:0] &", False),
}


def _is_equivalent(
    module: Module, text: str, case: tuple[str, str, bool], folder: Path, *, size: int
) -> bool | None:
    right, wrong, _ = case
    assert text.count(right) == 1
    both = {0: text, 1: text.replace(right, wrong)}

    class Two(Mutants):
        def alone(self, number: int) -> str:
            return both[number]

    two = Two(module.name, (), text)
    return is_equivalent(module, two, 1, folder / "proof", seconds=30.0, size=size)


@pytest.mark.parametrize("case", CASES)
def test_equivalence(case: str, tmp_path: Path) -> None:
    module = counting_stream(tmp_path)
    text = module.sources[0].read_text()
    proved = _is_equivalent(module, text, CASES[case], tmp_path, size=len(text))
    assert proved is CASES[case][2]


@pytest.mark.parametrize("case", CASES_AROUND)
def test_equivalence_around_another_module(case: str, tmp_path: Path) -> None:
    """With that one taken out: as a whole the module is said to be too large."""
    inner = counting_stream(tmp_path)
    source = tmp_path / "around.v"
    module = replace(inner, name=source.stem, sources=(source, *inner.sources))
    proved = _is_equivalent(module, _AROUND, CASES_AROUND[case], tmp_path, size=1_000_000)
    assert proved is CASES_AROUND[case][2]


_PARTS = """\
module parts(clk, choose, data, kept, sum, deep);
  input clk;
  input choose;
  input [7:0] data;
  output [3:0] kept;
  output [3:0] sum;
  output [7:0] deep;
  reg [7:0] register;
  wire [7:0] enters;
  wire [7:0] lost;
  wire [7:0] chosen;
  wire [7:0] added;
  assign chosen = choose ? data : 8'h00;
  assign added = chosen + register;
  always @(posedge clk)
    register <= data ^ 8'h55;
  assign enters = data + 8'h11;
  assign lost = data + 8'h22;
  inside below (.in(enters), .out(deep), .unread(lost));
  assign kept = chosen[3:0];
  assign sum = added[3:0];
endmodule
"""

_BELOW = """\
module inside(in, unread, out);
  input [7:0] in;
  input [7:0] unread;
  output [7:0] out;
  assign out = ~in;
endmodule
"""


def test_a_register_that_is_never_loaded(modules: dict[str, Module], tmp_path: Path) -> None:
    module = modules["register_copy"]
    (source,) = module.sources
    text = source.read_text()
    proved = _is_equivalent(module, text, ("if (en)", "if (en & 1'b0)", False), tmp_path, size=1)
    assert proved is False


def test_bits_that_nothing_reads(tmp_path: Path) -> None:
    """Upper bits of a sum, its register and what is added; the lower ones are read by carries.

    What enters a module inside counts as read if anything there reads it, and so does a bit that
    a mutant of another one depends on: not all are found. Mutants at cells have no names that tell
    whose bits they are: they are left out here.
    """
    source = tmp_path / "parts.v"
    source.write_text(_PARTS)
    below = tmp_path / "inside.v"
    below.write_text(_BELOW)
    module = replace(counting_stream(tmp_path), name="parts", sources=(source, below))
    drawn = mutate(module, tmp_path / "drawn", count=60, seed=1)
    named = [m for m in drawn.mutants if not m.place.startswith("$")]
    lost = {m.number for m in named if m.place.startswith("lost")}
    upper = {m.number for m in named if re.match(r"(register|added|chosen)\[[4-7]\]", m.place)}
    assert any(m.place.startswith("enters") for m in named)
    found = unread(module, drawn, tmp_path / "unread", seconds=60.0) & {m.number for m in named}
    assert found <= upper | lost
    assert len(found & upper) > len(upper) // 2 > 0
    assert len(found & lost) > len(lost) // 2 > 0
