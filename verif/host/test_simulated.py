"""Memory beside a simulated machine: what it stores, what it refuses, and the rules it watches."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from mxsafe.host import simulated
from mxsafe.host.simulated import MemoryTiming, Simulated, cache_folder
from mxsafe.host.verilator import build_library
from verif.support.simulators import SCRATCH
from verif.support.tests import available, raises, refused, some

BEAT_BYTES = 8

_MASTER = """\
// Asks memory for what the last write to its registers says.
module machine_top(
  input clk, input rst,
  input [7:0] s_axi_awaddr, input [2:0] s_axi_awprot, input s_axi_awvalid, output s_axi_awready,
  input [31:0] s_axi_wdata, input [3:0] s_axi_wstrb, input s_axi_wvalid, output s_axi_wready,
  output [1:0] s_axi_bresp, output reg s_axi_bvalid, input s_axi_bready,
  input [7:0] s_axi_araddr, input [2:0] s_axi_arprot, input s_axi_arvalid, output s_axi_arready,
  output [31:0] s_axi_rdata, output [1:0] s_axi_rresp, output reg s_axi_rvalid,
  input s_axi_rready,
  output [63:0] m_axi_araddr, output [7:0] m_axi_arlen, output [2:0] m_axi_arsize,
  output [1:0] m_axi_arburst, output [3:0] m_axi_arcache, output [2:0] m_axi_arprot,
  output reg m_axi_arvalid, input m_axi_arready,
  input [63:0] m_axi_rdata, input [1:0] m_axi_rresp, input m_axi_rlast, input m_axi_rvalid,
  output m_axi_rready,
  output [63:0] m_axi_awaddr, output [7:0] m_axi_awlen, output [2:0] m_axi_awsize,
  output [1:0] m_axi_awburst, output [3:0] m_axi_awcache, output [2:0] m_axi_awprot,
  output reg m_axi_awvalid, input m_axi_awready,
  output [63:0] m_axi_wdata, output [7:0] m_axi_wstrb, output m_axi_wlast, output reg m_axi_wvalid,
  input m_axi_wready, input [1:0] m_axi_bresp, input m_axi_bvalid, output m_axi_bready, output irq
);
  reg [31:0] command;
  reg [31:0] clocks;
  reg [31:0] taken;
  wire [7:0] kind = command[7:0];
  wire writes = command[8];
  assign {s_axi_awready, s_axi_wready, s_axi_arready, m_axi_rready, m_axi_bready} = 5'b11111;
  assign {s_axi_bresp, s_axi_rresp} = 0;
  assign s_axi_rdata = taken;
  assign m_axi_araddr = kind == 1 ? 4088 : kind == 2 ? 4 : kind == 5 ? 8 * clocks : 0;
  assign m_axi_awaddr = m_axi_araddr;
  assign m_axi_arlen = 1;
  assign m_axi_awlen = 1;
  assign m_axi_arsize = kind == 3 ? 2 : 3;
  assign m_axi_awsize = m_axi_arsize;
  assign m_axi_arburst = kind == 4 ? 0 : 1;
  assign m_axi_awburst = m_axi_arburst;
  assign {m_axi_arcache, m_axi_arprot, m_axi_awcache, m_axi_awprot} = 0;
  assign m_axi_wdata = 64'h8877665544332211;
  assign m_axi_wstrb = kind == 7 ? 8'h5a : 8'hff;
  assign m_axi_wlast = kind == 6 ? 1 : taken == 1;
  assign irq = kind == 8;
  always @(posedge clk) begin
    clocks <= clocks + 1;
    s_axi_bvalid <= s_axi_wvalid && !s_axi_bvalid;
    s_axi_rvalid <= s_axi_arvalid;
    if (m_axi_arready) m_axi_arvalid <= 0;
    if (m_axi_awready) m_axi_awvalid <= 0;
    if (m_axi_wvalid && m_axi_wready) begin
      taken <= taken + 1;
      if (taken == 1) m_axi_wvalid <= 0;
    end
    if (m_axi_rvalid) taken <= {taken[15:0], 6'b0, m_axi_rresp, m_axi_rdata[7:0]};
    if (s_axi_wvalid) begin
      command <= s_axi_wdata;
      taken <= 0;
      m_axi_arvalid <= s_axi_wdata[7:0] != 0 && !s_axi_wdata[8];
      m_axi_awvalid <= s_axi_wdata[8];
      m_axi_wvalid <= s_axi_wdata[8];
    end
    if (rst) {command, clocks, m_axi_arvalid, m_axi_awvalid, m_axi_wvalid} <= 0;
  end
endmodule
"""
_WRITES = 1 << 8
_IRQ = 8


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A master that breaks a rule on demand, in the place of a machine."""
    available("verilator")
    source = tmp_path_factory.mktemp("master") / "machine_top.v"
    source.write_text(_MASTER)
    folder = SCRATCH / f"machine-{simulated._digest(source, *simulated._HERE)}"
    return build_library(
        folder,
        "machine_top",
        [source],
        simulated._MAIN,
        defines={"BEAT_BYTES": BEAT_BYTES},
        optimisation="-O0",
    )


@pytest.fixture
def master(library: Path) -> Iterator[Simulated]:
    with mock.patch.object(simulated, "_compiled", return_value=library):
        yield Simulated(timing=MemoryTiming(latency=3, pause=128))


@pytest.mark.parametrize("channel", some(["ar", "aw"]))
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (1, "crosses 4 KiB"),
        (2, "asks for something else than whole beats"),
        (3, "asks for something else than whole beats"),
        (4, "has another burst than INCR"),
        (5, "changes before it is taken"),
    ],
)
def test_broken_rules_are_found(master: Simulated, channel: str, kind: int, message: str) -> None:
    master.memory = np.zeros(8192, np.uint8)
    master.write_register(0, kind | _WRITES * (channel == "aw"))
    with raises(RuntimeError, f"the machine breaks AXI4: {channel} {message}"):
        master.work(0.0)


def test_a_burst_that_ends_too_soon_is_found(master: Simulated) -> None:
    master.memory = np.zeros(64, np.uint8)
    master.write_register(0, 6 | _WRITES)
    with raises(
        RuntimeError, "the machine breaks AXI4: wlast is not with the last beat of a burst"
    ):
        master.work(0.0)


def test_bytes_whose_strobes_are_set_are_written(master: Simulated) -> None:
    master.memory = np.full(32, 9, np.uint8)
    master.write_register(0, 7 | _WRITES)
    assert not master.work(0.0)
    bits = [0x5A >> lane & 1 for lane in range(BEAT_BYTES)]
    beat = [0x11 * (lane + 1) if bit else 9 for lane, bit in enumerate(bits)]
    assert master.memory.tolist() == [*beat, *beat, *[9] * 16]


@pytest.mark.parametrize(("size", "answers"), [(16, (0, 0)), (8, (0, 2)), (4, (2, 2))])
def test_beyond_its_end_memory_answers_with_errors(
    master: Simulated, size: int, answers: tuple[int, int]
) -> None:
    master.memory = np.full(size, 7, np.uint8)
    master.write_register(0, 9)
    assert not master.work(0.0)
    found = master.read_register(0)
    data = [0 if answer else 7 for answer in answers]
    assert found == answers[0] << 24 | data[0] << 16 | answers[1] << 8 | data[1]


def test_the_interrupt_ends_the_wait(master: Simulated) -> None:
    master.write_register(0, _IRQ | _WRITES)
    assert master.work(1e9)


test_timing_that_is_refused = refused(
    MemoryTiming,
    [
        ({"latency": -1}, "latency must be an integer from 0 to 4294967295, not -1"),
        ({"pause": 256}, "pause must be an integer from 0 to 255, not 256"),
        ({"seed": -1}, "seed must be an integer from 0 to 4294967295, not -1"),
    ],
)


def test_where_machines_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "mxsafe"
    (tmp_path / "sim_build").mkdir()
    assert cache_folder() == tmp_path / "sim_build"


def test_handles_are_of_the_width_of_pointers(library: Path) -> None:
    functions = simulated._functions(library)
    assert functions.machine_new.restype is ctypes.c_void_p
