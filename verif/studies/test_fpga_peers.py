"""Yardsticks multiply and add; others' sources are put together."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.synthesis.technologies import Design
from studies.fpga_peers import others, yardsticks
from verif.support.checkers import assert_equal

_BENCH = """\
module bench;
  reg clk = 0, en = 1, first;
  reg [{bits}:0] a, w, given [0:{last}];
  wire [{sums}:0] sum;
  integer place;
  {top} dut (.clk(clk), .rst(1'b0), .en(en), .first(first), .a(a), .w(w), .{sum}(sum));
  initial begin
    $readmemh("given", given);
    for (place = 0; place < {last}; place = place + 2) begin
      first = place % 32 == 0;
      a = given[place];
      w = given[place + 1];
      #1 clk = 1;
      #1 clk = 0;
      $display("%0h", sum);
    end
  end
endmodule
"""
_BEATS = 192


@pytest.mark.parametrize("place", [0, 1])
def test_yardsticks_add_products_of_int8(place: int, tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed")
    design = yardsticks()[place].design
    side = design.inputs["a"] // 32
    operands = np.random.default_rng(3).integers(-128, 128, (_BEATS, 2, side, 4), np.int8)
    found = _run(design, operands, tmp_path)
    wide = operands.astype(np.int64)
    for row in range(side):
        for column in range(side):
            # Printed behind the clock's edge; an array has a register at its edge, and others on.
            latency = 6 - 1 + (row + column + 1 if side > 1 else 0)
            products = (wide[:, 0, row] * wide[:, 1, column]).sum(axis=-1).reshape(-1, 16)
            expected = products.cumsum(axis=1).ravel()[: _BEATS - latency]
            own = found[latency:, side * row + column]
            assert assert_equal(design.top, own, expected) == _BEATS - latency


def _run(design: Design, operands: NDArray[np.int8], folder: Path) -> NDArray[np.int64]:
    """Sums in every cycle; 0 where there is none yet."""
    ((name, width),) = design.outputs.items()
    words = operands.reshape(2 * len(operands), -1)
    (folder / "given").write_text("\n".join(row[::-1].tobytes().hex() for row in words))
    bench = _BENCH.format(
        top=design.top,
        sum=name,
        bits=design.inputs["a"] - 1,
        sums=width - 1,
        last=len(words) - 1,
    )
    sources = {**design.sources, "bench.v": bench}
    for file, text in sources.items():
        (folder / file).write_text(text)
    command = ["iverilog", "-g2001", "-Wall", "-o", "bench", "-s", "bench", *sources]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    run = subprocess.run(["vvp", "-n", "bench"], cwd=folder, check=True, capture_output=True)
    lines = run.stdout.decode().lower().replace("x", "0").split()
    sums = [bytes.fromhex(line.zfill(width // 4))[::-1] for line in lines]
    return np.frombuffer(b"".join(sums), "<i4").reshape(len(lines), -1).astype(np.int64)


def test_sources_of_others_are_put_together(tmp_path: Path) -> None:
    source = tmp_path / "HardFloat" / "source"
    arithmetic = tmp_path / "MX-for-FPGA" / "src" / "util" / "arith"
    (source / "RISCV").mkdir(parents=True)
    arithmetic.mkdir(parents=True)
    (source / "RISCV" / "HardFloat_specialize.vi").write_text("// specialised\n")
    for name in ("HardFloat_primitives", "isSigNaNRecFN", "HardFloat_rawFN", "addRecFN"):
        (source / f"{name}.v").write_text(f"module {name}; endmodule\n")
    with pytest.raises(FileNotFoundError, match=r"mulRecFN\.v"):
        list(others(tmp_path))
    (source / "mulRecFN.v").write_text('`include "HardFloat_specialize.vi"\n')
    for name in ("mul_int", "mul_fp"):
        (arithmetic / f"{name}.sv").write_text(f"module {name}; endmodule\n")
    hardfloat, *dots = others(tmp_path)
    (text,) = hardfloat.design.sources.values()
    assert "// specialised" in text
    assert "`include" not in text
    assert [sum(dot.design.outputs.values()) for dot in dots] == [20, 40]
