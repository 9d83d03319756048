"""Netlists and delays are read right, and cells do in simulation what the library says."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from mxsafe.synthesis import gates
from mxsafe.synthesis.liberty import Cell, LibertyError, Pin, read_cells
from verif.support.tests import raises
from verif.synthesis.cells import LIBRARY, NETLIST

# As OpenSTA 2.0.17 writes it.
SDF = """\
(DELAYFILE
 (DIVIDER /)
 (TIMESCALE 1ns)
 (CELL
  (CELLTYPE "unit")
  (INSTANCE)
  (DELAY
   (ABSOLUTE
    (INTERCONNECT a[0] _1_/A1 (0.000::0.000) (0.000::0.000))
   )
  )
 )
 (CELL
  (CELLTYPE "NAND2_X1")
  (INSTANCE _1_)
  (DELAY
   (ABSOLUTE
    (COND (A2 == 1'b1)
     (IOPATH A1 ZN (0.013::0.013) (0.007::0.007)))
    (IOPATH A2 ZN (0.017::0.017) (0.009::0.009))
   )
  )
 )
 (CELL
  (CELLTYPE "DFF_X1")
  (INSTANCE _4_)
  (DELAY
   (ABSOLUTE
    (IOPATH CK QN (0.056::0.056) (0.057::0.057))
    (IOPATH CK Q (0.090::0.090) (0.083::0.083))
   )
  )
  (TIMINGCHECK
    (SETUP (posedge D) (posedge CK) (0.032::0.032))
  )
 )
)
"""


@pytest.fixture
def cells() -> dict[str, Cell]:
    return read_cells(LIBRARY, ["NAND2_X1", "DFF_X1", "CLKGATE_X1"])


def test_a_netlist_is_read() -> None:
    nand, gate, flip_flop = gates.read_instances(NETLIST)
    assert (nand.name, nand.kind) == ("_1_", "NAND2_X1")
    assert nand.pins == {"A1": "a[0]", "A2": "a[1]", "ZN": "_0_"}
    assert gate.pins["E"] == "1'h1"
    assert flip_flop.pins == {"CK": "_3_", "D": "_0_", "Q": "\\held.q[3]", "QN": ""}
    assert gates.kinds([nand, gate, flip_flop, nand]) == ["CLKGATE_X1", "DFF_X1", "NAND2_X1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("A1(a[0])", "A1({ a[0] })"),
            "netlist must have single bits at its cells, not '{ a[0] }'",
        ),
        (("endmodule", "endmodule\nmodule two;\nendmodule"), "netlist must have one module"),
    ],
)
def test_a_netlist_is_refused(change: tuple[str, str], message: str) -> None:
    with raises(ValueError, message):
        gates.read_instances(NETLIST.replace(*change))


def test_delays_are_read() -> None:
    delays = gates.read_delays(SDF)
    assert delays["_1_"]["ZN"] == pytest.approx((0.015, 0.008))
    assert delays["_4_"] == {"QN": (0.056, 0.057), "Q": (0.090, 0.083)}


def test_names_of_flattened_parts_are_read() -> None:
    """OpenSTA escapes the points in them."""
    sdf = r"""(CELL (CELLTYPE "INV_X1") (INSTANCE core\.lane_0\._1_)
 (DELAY (ABSOLUTE (IOPATH A ZN (0.1::0.1) (0.2::0.2))))) """
    assert gates.read_delays(sdf) == {"core.lane_0._1_": {"ZN": (0.1, 0.2)}}


def test_instances_get_their_delays(cells: dict[str, Cell]) -> None:
    text = gates.annotated(NETLIST, gates.read_delays(SDF), cells)
    assert "  NAND2_X1 #(0.015, 0.008) _1_ (\n" in text
    assert "  DFF_X1 #(0.090, 0.083, 0.056, 0.057) _4_ (\n" in text
    assert "  CLKGATE_X1 _2_ (\n" in text  # the clock is ideal
    early = SDF.replace("0.007::0.007", "-0.020::-0.020")  # the mean of it and 0.009 is negative
    text = gates.annotated(NETLIST, gates.read_delays(early), cells)
    assert "  NAND2_X1 #(0.015, 0.000) _1_ (\n" in text
    with raises(ValueError, "NAND2_X1 _1_ must have a delay for ZN"):
        gates.annotated(NETLIST, gates.read_delays(SDF.replace("_1_", "_9_")), cells)


FUNCTIONS = (
    "A",
    "!A",
    "(A & B)",
    "!((A & B) & C)",
    "!A & B",
    "!(A) & (B)",
    "(C ^ (A ^ B))",
    "!(A ^ B)",
    "!((A | B) | C)",
    "((C & B) | (A & !C))",
    "!(!(!((A | B) & C)))",
)


def _combinational(function: str) -> Cell:
    def pin(direction: str, function: str | None = None) -> Pin:
        return Pin(direction=direction, capacitance=1.0, function=function, role=None, energies=())

    pins = {"Z": pin("output", function), **{name: pin("input") for name in "ABC"}}
    return Cell(name="CELL", leakage=0.0, pins=pins)


def _simulate(folder: Path, text: str) -> list[str]:
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    (folder / "t.v").write_text(text)
    for words in (["iverilog", "-g2005", "-o", "t.vvp", "t.v"], ["vvp", "-n", "t.vvp"]):
        run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_cells_compute_their_function(function: str, tmp_path: Path) -> None:
    bench = """
module bench; reg [3:0] i; wire z;
  CELL #(0.5, 0.25) unit (.A(i[0]), .B(i[1]), .C(i[2]), .Z(z));
  initial for (i = 0; i < 8; i = i + 1) begin #2; $display("%b", z); end
endmodule
"""
    found = _simulate(tmp_path, gates.models([_combinational(function)]) + bench)
    python = function.replace("!", "~")
    expected = [
        str(eval(python, {"A": a, "B": b, "C": c}) & 1)
        for c, b, a in itertools.product((0, 1), repeat=3)
    ]
    assert found == expected


def test_registers_start_at_0_and_gated_ones_keep_their_value(
    cells: dict[str, Cell], tmp_path: Path
) -> None:
    bench = """
module bench; reg clk = 0, e = 1, d = 1; wire gck, q, qn;
  CLKGATE_X1 gate (.CK(clk), .E(e), .GCK(gck));
  DFF_X1 #(0.1, 0.1, 0.1, 0.1) unit (.CK(gck), .D(d), .Q(q), .QN(qn));
  task beat; begin #1 clk = 1; #0.5 $display("%b%b", q, qn); #0.5 clk = 0; end endtask
  initial begin
    #0.5 $display("%b%b", q, qn);
    beat; e = 0; d = 0; beat; clk = 1; e = 1; #0.2 $display("%b%b", q, qn); clk = 0; beat;
  end
endmodule
"""
    found = _simulate(tmp_path, gates.models(cells.values()) + bench)
    assert found == ["01", "10", "10", "10", "01"]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            ("latch_posedge", "latch_negedge"),
            "CLKGATE_X1",
            "CLKGATE_X1 must gate rising edges, not be latch_negedge",
        ),
        (
            ('clocked_on : "CK"', 'clocked_on : "CK"; clear : "!RN"'),
            "DFF_X1",
            "DFF_X1 must be without clear and preset",
        ),
        (
            ("!(A1 & A2)", "(A1 A2)'"),
            "NAND2_X1",
            'NAND2_X1 must have a function of ! & | ^, not "(A1 A2)\'"',
        ),
        (('function : "IQN";', ""), "DFF_X1", "DFF_X1 must have a function for QN"),
    ],
)
def test_cells_of_other_kinds_are_refused(change: tuple[str, str], kind: str, message: str) -> None:
    with raises(LibertyError, message):
        gates.models(read_cells(LIBRARY.replace(*change), [kind]).values())


def test_buses_are_taken_apart() -> None:
    parts = "  assign bus = { \\held.q[3] , a[1:0] };\n  assign y = bus[2];\n"
    netlist = NETLIST.replace("  assign y = \\held.q[3] ;\n", parts).replace(
        ".A1(a[0])", ".A1(bus[1])"
    )
    nand, _, flip_flop = gates.read_instances(netlist)
    assert nand.pins == {"A1": "a[1]", "A2": "a[1]", "ZN": "_0_"}
    assert flip_flop.pins["Q"] == "\\held.q[3]"


def test_constants_are_taken_apart() -> None:
    parts = "  assign bus = 3'b010;\n  assign y = bus[2];\n"
    netlist = NETLIST.replace("  assign y = \\held.q[3] ;\n", parts).replace("(a[0])", "(bus[1])")
    nand, *_ = gates.read_instances(netlist)
    assert nand.pins["A1"] == "1'b1"
