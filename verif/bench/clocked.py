"""Shared parts of benches that step a design cycle by cycle."""

from collections.abc import Callable

import cocotb
from cocotb.triggers import Timer

from verif.bench.pins import Input


class Stepper:
    """A clock driven by hand: inputs change while it is low, outputs are read before it rises."""

    def __init__(self, dut: cocotb.handle.HierarchyObject) -> None:
        self._clk, self._rst = Input(dut.clk), dut.rst
        self._half = Timer(1, "ns")
        self.clocks = 0

    async def settle(self) -> None:
        """Lower the clock and let outputs follow the inputs."""
        self._clk.write(0)
        await self._half

    async def edge(self) -> None:
        """Raise the clock."""
        self._clk.write(1)
        await self._half
        self.clocks += 1

    async def pulse(
        self, show: Callable[[], None] | None = None, settle: Callable[[], None] | None = None
    ) -> None:
        """One cycle of those who show their inputs, and read outputs when these have settled."""
        if show is not None:
            show()
        await self.settle()
        if settle is not None:
            settle()
        await self.edge()

    async def reset(self, clocks: int = 1) -> None:
        """Reset for some cycles."""
        self._rst.value = 1
        for _ in range(clocks):
            await self.pulse()
        self._rst.value = 0
