"""The bench of every unit without handshakes: apply a row of inputs, let it settle, log all pins.

A driver applies the stimulus and a monitor logs what the pins really carry, inputs included; both
know the unit only by its port names. Comparing with the model is the business of the pytest
process, which reads the log. One row is one clock cycle; units without a clock just settle.
"""

import re

import cocotb
from cocotb.handle import LogicArrayObject, LogicObject
from cocotb.triggers import Timer
from cocotb.types import Logic

from verif.bench.job import job, packed, write_log

Pin = LogicObject | LogicArrayObject
Row = tuple[int | Logic, ...]
LOW, HIGH = Logic(0), Logic(1)
"""Values of pins of one bit, made once: cocotb would make one of a number in every write."""


class Driver:
    """Applies row after row of a stimulus to the inputs: those that change."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, stimulus: dict[str, list[int]]) -> None:
        self._pins: list[Pin] = [getattr(dut, name) for name in stimulus]
        values = [
            map(Logic, numbers) if isinstance(pin, LogicObject) else numbers
            for pin, numbers in zip(self._pins, stimulus.values(), strict=True)
        ]
        self.rows: list[Row] = list(zip(*values, strict=True))
        self.forget()

    def forget(self) -> None:
        """Apply all of the next row."""
        self._applied: tuple[int | Logic | None, ...] = (None,) * len(self._pins)

    def apply(self, row: Row) -> None:
        for pin, value, before in zip(self._pins, row, self._applied, strict=True):
            if value is not before and value != before:  # most are the same object, which is quick
                pin.value = value
        self._applied = row


class Monitor:
    """Logs pins; what is neither 0 nor 1 fails, and counts as 0 in the first `unsettled` rows."""

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, names: list[str], unsettled: int
    ) -> None:
        self._unsettled = unsettled
        self._pins: dict[str, Pin] = {name: getattr(dut, name) for name in names}
        self._numbers: dict[str, list[int]] = {name: [] for name in names}

    def sample(self) -> None:
        for name, pin in self._pins.items():
            text = str(pin.value)
            if self._unsettled > 0:
                text = re.sub("[^01]", "0", text)
            numbers = self._numbers[name]
            try:
                numbers.append(int(text, 2))
            except ValueError:
                raise AssertionError(f"{name} is {text} in row {len(numbers)}") from None
        self._unsettled -= 1

    def words(self) -> dict[str, object]:
        """The log, a row a sample."""
        return {name: packed(len(pin), self._numbers[name]) for name, pin in self._pins.items()}


@cocotb.test()
async def lockstep(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the stimulus of the job and log all pins."""
    given = job()
    driver = Driver(dut, given["stimulus"])
    monitor = Monitor(dut, given["pins"], given["unsettled"])
    clocked = "clk" in dir(dut)
    half = Timer(1, "ns")
    if clocked:
        # Two cycles of reset, unlogged: before them every register is unknown.
        driver.apply(driver.rows[0])
        dut.rst.value = HIGH
        for level in (LOW, HIGH) * 2:
            dut.clk.value = level
            await half
        driver.forget()
    for row in driver.rows:
        if clocked:
            dut.clk.value = LOW
        driver.apply(row)
        await half
        monitor.sample()  # settled, before the rising edge
        if clocked:
            dut.clk.value = HIGH
            await half
    write_log(monitor.words())
