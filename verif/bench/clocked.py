"""What benches that step a design clock by clock have in common."""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import Timer

__all__ = ["Stepper", "job", "write_log"]


class Stepper:
    """A clock that is driven by hand: inputs change while it is low, outputs are read before it rises.

    Parameters
    ----------
    dut : HierarchyObject
    """

    def __init__(self, dut: cocotb.handle.HierarchyObject) -> None:
        self._dut = dut
        self._half = Timer(1, "ns")
        self.clocks = 0

    async def settle(self) -> None:
        """Lower the clock and let outputs follow the inputs."""
        self._dut.clk.value = 0
        await self._half

    async def edge(self) -> None:
        """Raise the clock."""
        self._dut.clk.value = 1
        await self._half
        self.clocks += 1

    async def reset(self, clocks: int = 1) -> None:
        """Reset for some clocks."""
        self._dut.rst.value = 1
        for _ in range(clocks):
            await self.settle()
            await self.edge()
        self._dut.rst.value = 0


def job() -> Any:
    """The job of MXSAFE_JOB."""
    return json.loads(Path(os.environ["MXSAFE_JOB"]).read_text())


def write_log(log: Any) -> None:
    """Write the log to MXSAFE_LOG."""
    Path(os.environ["MXSAFE_LOG"]).write_text(json.dumps(log))
