"""The bench of the machine with a memory beside it: a driver on AXI4-Lite that runs programs.

What is to be done is a list of actions in a file; what came of them is another file. Nothing here
runs while the machine does: the memory is part of the simulated design.
"""

import json
import os
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer

from mxsafe.machine.description import ACCESS_REGISTERS, REGISTERS
from verif.bench.job import begin

_ADDRESSES = {register.name: register.address for register in REGISTERS + ACCESS_REGISTERS}
_READ = [register.name for register in REGISTERS if register.access != "write"]
_HOLDS = "base_low"
"""A register that holds whatever is written to it."""
_ASKED = {f"m_axi_a{way}{pin}": value for way in "rw" for pin, value in (("cache", 3), ("prot", 0))}
"""Normal memory that may be buffered, for anybody's data."""
_OKAY = 0
_PERIOD = 2  # ns
_RESET_CLOCKS = 4
_PATIENCE = 200
"""Cycles after which no answer comes."""


class Driver:
    """Registers of the machine over AXI4-Lite."""

    def __init__(self, dut: cocotb.handle.HierarchyObject) -> None:
        self._dut = dut

    async def write(self, name: str, value: int, strobes: int = 0xF) -> None:
        """Write a register, or bytes of it."""
        dut = self._dut
        await FallingEdge(dut.clk)
        dut.s_axi_awaddr.value = _ADDRESSES[name]
        dut.s_axi_wdata.value = value
        dut.s_axi_wstrb.value = strobes
        dut.s_axi_awvalid.value = dut.s_axi_wvalid.value = 1
        offered = {"aw", "w"}
        for _ in range(_PATIENCE):
            await Timer(1, "step")
            taken = {way for way in offered if getattr(dut, f"s_axi_{way}ready").value == 1}
            await FallingEdge(dut.clk)
            for way in taken:
                getattr(dut, f"s_axi_{way}valid").value = 0
            offered -= taken
            if not offered and dut.s_axi_bvalid.value == 1:
                break
        # The answer waits until it is taken, and comes once.
        await FallingEdge(dut.clk)
        assert dut.s_axi_bvalid.value == 1, f"a write of {name} has no answer"
        assert dut.s_axi_bresp.value == _OKAY
        dut.s_axi_bready.value = 1
        await FallingEdge(dut.clk)
        assert dut.s_axi_bvalid.value == 0, f"a write of {name} has two answers"
        dut.s_axi_bready.value = 0

    async def read(self, name: str) -> int:
        """Read a register twice, the second time before the first answer is taken."""
        dut = self._dut
        await FallingEdge(dut.clk)
        dut.s_axi_araddr.value = _ADDRESSES[name]
        asked, answers = 0, []
        for clock in range(_PATIENCE):
            dut.s_axi_arvalid.value = int(asked < 2)
            dut.s_axi_rready.value = is_ready = clock % 4 // 3
            await Timer(1, "step")
            asked += dut.s_axi_arvalid.value == 1 and dut.s_axi_arready.value == 1
            if is_ready and dut.s_axi_rvalid.value == 1:
                assert dut.s_axi_rresp.value == _OKAY
                answers.append(int(dut.s_axi_rdata.value))
            await FallingEdge(dut.clk)
            if len(answers) == 2:
                break
        dut.s_axi_arvalid.value = dut.s_axi_rready.value = 0
        assert len(answers) == 2, f"reads of {name} have {len(answers)} answers"
        return answers[1]

    async def leave_answers(self) -> None:
        """Read a register and write no byte of one, and take neither answer."""
        dut = self._dut
        dut.s_axi_araddr.value = dut.s_axi_awaddr.value = _ADDRESSES[_HOLDS]
        dut.s_axi_wstrb.value = 0
        for way in ("ar", "aw", "w"):
            getattr(dut, f"s_axi_{way}valid").value = 1
        for _ in range(_PATIENCE):
            await Timer(1, "step")
            taken = [w for w in ("ar", "aw", "w") if getattr(dut, f"s_axi_{w}ready").value == 1]
            await FallingEdge(dut.clk)
            for way in taken:
                getattr(dut, f"s_axi_{way}valid").value = 0
            if dut.s_axi_rvalid.value == 1 and dut.s_axi_bvalid.value == 1:
                return
        raise AssertionError("an access has no answer")

    async def read_counter(self, name: str) -> int:
        """Read both halves of a counter."""
        return await self.read(f"{name}_low") | await self.read(f"{name}_high") << 32


@cocotb.test()
async def run(dut: cocotb.handle.HierarchyObject) -> None:
    """Load memory, run programs one after the other, write memory down."""
    begin()
    job = json.loads(os.environ["MXSAFE_JOB"])
    Path("memory_in.hex").symlink_to(job["memory"])
    Clock(dut.clk, _PERIOD, unit="ns").start(start_high=False)  # pins settle before the first edge
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready", "awprot", "arprot"):
        getattr(dut, f"s_axi_{name}").value = 0
    for name in ("load", "dump", "errors_from", "errors_to"):
        getattr(dut, name).value = 0
    most = ("most_reads", "most_read_beats", "most_writes")
    for name in ("latency", "spread", "pause", "seed", "start", *most):
        getattr(dut, name).value = job[name]
    dut.rst.value = 1
    await ClockCycles(dut.clk, _RESET_CLOCKS)
    await FallingEdge(dut.clk)
    dut.load.value = 1
    await FallingEdge(dut.clk)
    dut.load.value = 0
    dut.rst.value = 0
    driver = Driver(dut)
    known = {name: await driver.read(name) for name in _READ}
    await _write_parts(driver)
    counters = {"counters": job["counters"]}
    results = [await _run(dut, driver, one | counters) for one in job["runs"]]
    for name, value in _ASKED.items():
        assert getattr(dut, name).value == value, f"{name} is {getattr(dut, name).value}"
    await ClockCycles(dut.clk, 2 * (job["latency"] + job["spread"]) + 10)
    results.append({name: int(getattr(dut, name).value) for name in ("broken", "outside")})
    results.append(known)
    await FallingEdge(dut.clk)
    dut.dump.value = 1
    await FallingEdge(dut.clk)
    dut.dump.value = 0
    await FallingEdge(dut.clk)
    Path("memory_out.hex").rename(job["memory_out"])
    Path(job["results"]).write_text(json.dumps(results))


async def _write_parts(driver: Driver) -> None:
    """Write any bytes of a register."""
    expected = await driver.read(_HOLDS)
    for strobes in range(16):
        mask = sum(0xFF << 8 * byte for byte in range(4) if strobes >> byte & 1)
        await driver.write(_HOLDS, expected ^ 0xFFFFFFFF, strobes)
        expected ^= mask
        found = await driver.read(_HOLDS)
        assert found == expected, f"{_HOLDS} is {found:#x}, not {expected:#x}, after {strobes:#x}"


async def _run(
    dut: cocotb.handle.HierarchyObject, driver: Driver, job: dict[str, int]
) -> dict[str, int]:
    """One program, until it ends; or so many cycles, perhaps up to a burst, and then a reset."""
    for name in ("errors_from", "errors_to"):
        getattr(dut, name).value = job.get(name, 0)
    held = {"program_length": job["length"], "interrupt_enable": 3}
    for name, value in (("program", job["program"]), ("base", job["base"])):
        held |= {f"{name}_low": value & 0xFFFFFFFF, f"{name}_high": value >> 32}
    for name, value in held.items():
        await driver.write(name, value)
    await driver.write("interrupt", 3)
    for name, value in held.items():
        found = await driver.read(name)
        assert found == value, f"{name} holds {found:#x}, not {value:#x}"
    await driver.write("control", 1)
    if job["start_again"]:
        await driver.write("control", 1)
    if "pin_clocks" in job:
        await driver.leave_answers()
    clocks = job.get("reset_after", job["limit"])
    if not dut.irq.value:
        # Nobody wants to know more of a machine that breaks a rule of the bus.
        await First(RisingEdge(dut.irq), dut.broken.value_change, Timer(clocks * _PERIOD, "ns"))
    await FallingEdge(dut.clk)
    for _ in range(job["limit"] if job["in_burst"] else 0):
        if dut.in_burst.value or dut.irq.value or dut.broken.value:
            break
        await FallingEdge(dut.clk)
    result = {name: int(getattr(dut, name).value) for name in ("irq", "pending", "in_burst")}
    if "reset_after" not in job:
        for name in ("status", "error", "error_descriptor", "interrupt"):
            result[name] = await driver.read(name)
        for name in job["counters"]:
            result[name] = await driver.read_counter(name)
    if "reset_after" in job or result["error"]:
        told = ["status"]
        if "pin_clocks" in job:
            told = _READ
            await _reset_by_pin(dut, job["pin_clocks"])
        else:
            await _soft_reset(dut, driver, job)
        result["pending_after_reset"] = int(dut.pending.value)
        result |= {f"{name}_after_reset": await driver.read(name) for name in told}
    return result


async def _reset_by_pin(dut: cocotb.handle.HierarchyObject, clocks: int) -> None:
    """A reset of the machine and its memory from this falling edge on; it drops answers too."""
    dut.rst.value = 1
    await ClockCycles(dut.clk, clocks, FallingEdge)
    dut.rst.value = 0
    await FallingEdge(dut.clk)
    for way in "rb":
        assert getattr(dut, f"s_axi_{way}valid").value == 0, f"{way}valid outlives a reset"


async def _soft_reset(
    dut: cocotb.handle.HierarchyObject, driver: Driver, job: dict[str, int]
) -> None:
    """A soft reset, perhaps written twice, until the machine is idle or takes too long."""
    await driver.write("control", 2)
    if "reset_again" in job:
        await ClockCycles(dut.clk, job["reset_again"])
        await driver.write("control", 2)
    for _ in range(100):
        if not await driver.read("status"):
            break
        await ClockCycles(dut.clk, 16)
