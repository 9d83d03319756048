"""The yardstick multiplies and adds; others' sources are put together."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from studies.fpga_peers import others, yardstick
from verif.support.checkers import assert_equal

_BENCH = """\
module bench;
  reg clk = 0, en = 1, first;
  reg [31:0] a, w, given [0:{last}];
  wire [31:0] sum;
  integer place;
  int8_mac dut (.clk(clk), .rst(1'b0), .en(en), .first(first), .a(a), .w(w), .sum(sum));
  initial begin
    $readmemh("given", given);
    for (place = 0; place < {last}; place = place + 2) begin
      first = place % 32 == 0;
      a = given[place];
      w = given[place + 1];
      #1 clk = 1;
      #1 clk = 0;
      $display("%0d", $signed(sum));
    end
  end
endmodule
"""


def test_the_yardstick_adds_products_of_int8(tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed")
    mac = yardstick()
    beats, latency = 192, 6 - 1  # printed behind the clock's edge
    operands = np.random.default_rng(3).integers(-128, 128, (beats, 2, 4), np.int8)
    (tmp_path / "given").write_text("\n".join(f"{word:08x}" for word in operands.view("<u4").flat))
    sources = {**mac.design.sources, "bench.v": _BENCH.format(last=2 * beats - 1)}
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    command = ["iverilog", "-g2001", "-Wall", "-o", "bench", "-s", "bench", *sources]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = subprocess.run(["vvp", "-n", "bench"], cwd=tmp_path, check=True, capture_output=True)
    found = np.array([int(line) for line in run.stdout.split()[latency:] if line != b"x"])
    wide = operands.astype(np.int64)
    products = (wide[:, 0] * wide[:, 1]).sum(axis=-1).reshape(-1, 16)
    expected = products.cumsum(axis=1).ravel()[: beats - latency]
    assert assert_equal("int8_mac", found, expected) == beats - latency


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
