"""The bench of moments: what happens at the registers in the very cycle of something else.

Each access is offered alone and as soon as it can be, so that the cycle in which it takes effect is
known: that in which its address is taken.
"""

from collections.abc import Mapping
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log

_START, _RESET = 1, 2
_DONE, _ERROR = 1, 2
"""Of ``interrupt``."""
_MOST = 20
"""Cycles in which anything has to be answered."""


class Moments:
    """The registers, a bus without pauses, and a machine that is played."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: Mapping[str, Any]) -> None:
        self._dut, self._addresses = dut, options["addresses"]
        self._events = options["events"]
        self._step = Stepper(dut)
        self.compared = 0

    async def reset(self) -> None:
        """A reset by the pin; nothing happens in the machine."""
        for channel in ("aw", "w", "ar"):
            getattr(self._dut, f"s_axi_{channel}valid").value = 0
        self._dut.s_axi_bready.value = self._dut.s_axi_rready.value = 1
        for name in ("quiet", "is_done", "stopped", "error", "error_number", *self._events):
            getattr(self._dut, name).value = 0
        await self._step.reset()

    async def clock(self) -> None:
        await self._step.pulse()

    async def write(self, name: str, value: int, **beside: int) -> None:
        """Write a register; in the cycle in which it is written pins of the machine are set."""
        dut = self._dut
        dut.s_axi_awaddr.value, dut.s_axi_wdata.value = self._addresses[name], value
        dut.s_axi_wstrb.value = 0xF
        dut.s_axi_awvalid.value = dut.s_axi_wvalid.value = 1
        for _ in range(_MOST):
            await self._step.settle()
            if dut.s_axi_awready.value == 1:
                break
            await self._step.edge()
        else:
            raise AssertionError(f"the write of {name} is not taken")
        for pin, level in beside.items():
            getattr(dut, pin).value = level
        await self.clock()
        dut.s_axi_awvalid.value = dut.s_axi_wvalid.value = 0
        for pin in beside:
            getattr(dut, pin).value = 0

    async def expect(self, name: str, value: int) -> None:
        """A register has this value."""
        dut = self._dut
        dut.s_axi_araddr.value = self._addresses[name]
        dut.s_axi_arvalid.value = 1
        for _ in range(_MOST):
            await self._step.settle()
            if dut.s_axi_arready.value == 1:
                await self._step.edge()
                dut.s_axi_arvalid.value = 0
                await self._step.settle()
            if dut.s_axi_rvalid.value == 1:
                break
            await self._step.edge()
        else:
            raise AssertionError(f"the read of {name} is not answered")
        got = int(dut.s_axi_rdata.value)
        assert got == value, f"{name} is {got:#x}, not {value:#x}"
        await self._step.edge()
        self.compared += 1

    def _expect_irq(self, level: int) -> None:
        assert int(self._dut.irq.value) == level, f"irq is not {level}"
        self.compared += 1

    async def _start(self) -> None:
        await self.write("control", _START)
        for _ in range(3):
            await self.clock()
        await self.expect("status", 1)

    async def cleared_in_the_clock_of_the_event(self) -> None:
        """An event is never lost: not to a clear of the same cycle, not to one of another bit."""
        for event, pin in ((_DONE, "is_done"), (_ERROR, "stopped")):
            for cleared in (_DONE, _ERROR, _DONE | _ERROR):
                await self.reset()
                await self.write("interrupt_enable", _DONE | _ERROR)
                await self._start()
                await self.write("interrupt", cleared, **{pin: 1})
                await self.clock()
                self._expect_irq(1)
                await self.expect("interrupt", event)
                await self.write("interrupt", ~event & 3)
                await self.expect("interrupt", event)
                await self.write("interrupt", event)
                await self.expect("interrupt", 0)
                self._expect_irq(0)

    async def enabled_later(self) -> None:
        """The interrupt is a level: one that is enabled after its event is raised at once."""
        await self.reset()
        await self._start()
        await self.write("interrupt_enable", 0, is_done=1)
        self._expect_irq(0)
        await self.write("interrupt_enable", _DONE)
        await self._step.settle()
        for _ in range(5):
            self._expect_irq(1)
            await self.clock()
        await self.write("interrupt_enable", _ERROR)
        await self._step.settle()
        self._expect_irq(0)
        await self.expect("interrupt", _DONE)

    async def ended_in_the_clock_of_a_command(self) -> None:
        """The end of a program beside a start, which changes nothing, or a reset."""
        await self.reset()
        await self._start()
        await self.write("control", _START, is_done=1)
        await self.expect("status", 2)
        await self.reset()
        await self._start()
        await self.write("control", _RESET, is_done=1)
        await self.clock()
        await self.expect("status", 1 | 2)  # done, and the reset goes on
        self._dut.quiet.value = 1
        for _ in range(_MOST):
            await self.clock()
        await self.expect("status", 0)
        await self.expect("interrupt", 0)

    async def failed_in_a_reset(self) -> None:
        """Which raises no interrupt, in any of its cycles."""
        for ahead in range(_MOST):
            await self.reset()
            await self.write("interrupt_enable", _DONE | _ERROR)
            await self._start()
            await self.write("control", _RESET)
            for clock in range(ahead + _MOST):
                self._dut.stopped.value = clock == ahead
                self._dut.quiet.value = clock > ahead
                await self.clock()
                self._expect_irq(0)
            await self.expect("status", 0)

    async def started_with_a_reset(self) -> None:
        """A start waits for every moment of a reset, and begins once."""
        dut = self._dut
        for ahead in range(_MOST):
            for commands in ((_RESET, _START), (_RESET | _START,)):
                await self.reset()
                await self.write("program_length", ahead + 1)
                dut.quiet.value = 0
                starts: list[int] = []
                self._step.watch(dut.start, starts)
                for number, command in enumerate(commands):
                    for _ in range(ahead * number):
                        dut.quiet.value = 1
                        await self.clock()
                    await self.write("control", command)
                dut.quiet.value = 1
                for _ in range(_MOST):
                    await self.clock()
                self._step.watch(None, [])
                assert len(starts) == 1, f"{len(starts)} starts, {ahead} cycles after a reset"
                assert int(dut.program_length.value) == ahead + 1
                await self.expect("status", 1)


@cocotb.test()
async def moments(dut: cocotb.handle.HierarchyObject) -> None:
    """Run all of it."""
    bench = Moments(dut, job())
    await bench.cleared_in_the_clock_of_the_event()
    await bench.enabled_later()
    await bench.ended_in_the_clock_of_a_command()
    await bench.failed_in_a_reset()
    await bench.started_with_a_reset()
    write_log({"compared": bench.compared})
