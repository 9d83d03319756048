"""The bench of the memory beside the machine: drives its pins cycle by cycle and logs them."""

import cocotb
from cocotb.triggers import Timer
from cocotb.types import LogicArray

from verif.bench.job import job, write_log

_INPUTS = {
    "latency": 0, "spread": 0, "pause": 0, "seed": 1, "start": 0, "errors_from": 0, "errors_to": 0,
    "most_reads": 0, "most_read_beats": 0, "most_writes": 0,
    "load": 0, "dump": 0, "araddr": 0, "arlen": 0, "arsize": 5, "arburst": 1, "arvalid": 0,
    "rready": 1, "awaddr": 0, "awlen": 0, "awsize": 5, "awburst": 1, "awvalid": 0, "wdata": 0,
    "wstrb": 0xFFFFFFFF, "wlast": 0, "wvalid": 0, "bready": 1, "rst": 1,
}  # fmt: skip
"""Pins, and what they are at first in each job."""
_LOGGED = ("arready", "rvalid", "awready", "wready", "bvalid")


def _set(dut: cocotb.handle.HierarchyObject, name: str, value: int | str) -> None:
    """Set a pin to a number, or to unknown bits."""
    pin = getattr(dut, name)
    pin.value = LogicArray("X" * len(pin)) if value == "X" else value


@cocotb.test()
async def run(dut: cocotb.handle.HierarchyObject) -> None:
    """Each job is a list of cycles, each of them the pins that change."""
    logs = []
    for clocks in job():
        dut.broken.value = dut.outside.value = 0
        log = []
        for changes in [_INPUTS, {}, {}, *clocks]:
            for name, value in changes.items():
                _set(dut, name, value)
            dut.clk.value = 0
            await Timer(1, "ns")
            log.append({name: str(getattr(dut, name).value) for name in _LOGGED})
            dut.clk.value = 1
            await Timer(1, "ns")
        told = {
            name: int(getattr(dut, name).value)
            for name in ("broken", "pending", "in_burst", "outside")
        }
        logs.append({"pins": log, **told})
    write_log(logs)
