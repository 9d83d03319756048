"""Bits that cannot change: as Yosys finds them, and as ABC proves them, and none that can."""

import tempfile
from pathlib import Path

import pytest

from studies.coverage import constants as ours
from studies.coverage.constants import constants, proved
from verif.support.manifest import Module, generated
from verif.support.simulators import SCRATCH

INNER = """\
module inner(clk, d, sum, flag);
  input clk;
  wire clk;
  input [1:0] d;
  wire [1:0] d;
  output [3:0] sum;
  reg [3:0] sum;
  output flag;
  wire flag;
  always @(posedge clk)
    sum <= d + 2'h1;
  assign flag = sum > 4'h4;
endmodule
"""
OUTER = """\
module outer(clk, d, any);
  input clk;
  wire clk;
  input [1:0] d;
  wire [1:0] d;
  output any;
  wire any;
  wire [3:0] sum;
  wire flag;
  reg [1:0] count;
  reg [7:0] words [3:0];
  wire \\of.word ;
  always @(posedge clk)
    count <= count == 2'h2 ? 2'h0 : count + 1'h1;
  assign \\of.word = &count | flag;
  assign any = |sum;
  inner part (
    .clk(clk),
    .d(d),
    .flag(flag),
    .sum(sum)
  );
endmodule
"""


def _line(text: str, declared: str) -> int:
    return text.splitlines().index(f"  {declared};") + 1


@pytest.mark.yosys
def test_bits_of_the_encoder() -> None:
    """Two of its shifted significands have zeros above."""
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="constants-") as folder:
        found = constants(Path(folder), "gen/parts/mxsafe_mxsf_encoder.v")
    texts = generated()["mxsf_encoder"].sources[0].read_text().splitlines()
    named = {(texts[line - 1].split()[-1], bit) for line, bit in found["mxsf_encoder"]}
    assert set(found["mxsf_encoder"].values()) == {0}
    assert named == {("subnormal_1;", 3), ("subnormal_2;", 2), ("subnormal_2;", 3)}
    assert found.keys() == {"mxsf_encoder"}


@pytest.mark.yosys
def test_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of three bits, a flag of it outside, and a counter that never reaches 3."""
    (tmp_path / "inner.v").write_text(INNER)
    (tmp_path / "outer.v").write_text(OUTER)
    modules = {
        name: Module(name, tmp_path, (tmp_path / f"{name}.v",), {}, 0, {}, name)
        for name in ("inner", "outer")
    }
    monkeypatch.setattr(ours, "named", lambda: modules)
    inner = {(_line(INNER, "output [3:0] sum"), bit) for bit in range(4)}
    flag = (_line(INNER, "output flag"), 0)
    count = {(_line(OUTER, "reg [1:0] count"), bit) for bit in range(2)}
    word = (_line(OUTER, "wire \\of.word "), 0)
    asked = {"inner": {*inner, flag}, "outer": {*count, word}}
    assert proved(asked, {}, tmp_path / "kept", 0.0) == {}
    found = proved(asked, {}, tmp_path / "kept", 60.0)
    assert found == {"inner": {(max(inner)[0], 3), flag}, "outer": {word}}
    assert len(list((tmp_path / "kept").iterdir())) == 2
    monkeypatch.setattr(ours, "_values", None)  # nothing is proved again
    assert proved(asked, {}, tmp_path / "kept", 0.0) == found
