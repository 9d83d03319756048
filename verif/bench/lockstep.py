"""The bench of every unit without handshakes: apply a row of inputs, let it settle, log all pins.

A driver applies the stimulus and a monitor logs what the pins really carry, inputs included; both
know the unit only by its port names. Comparing with the model is the business of the pytest
process, which reads the log. One row is one clock cycle; units without a clock just settle.
"""

import json
import os
import re

import cocotb
import numpy as np
from cocotb.handle import LogicArrayObject, LogicObject
from cocotb.triggers import Timer

Pin = LogicObject | LogicArrayObject


class Driver:
    """Applies row after row of a stimulus to the inputs."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, stimulus: dict[str, np.ndarray]) -> None:
        self._pins: list[Pin] = [getattr(dut, name) for name in stimulus]
        columns = [
            [int.from_bytes(row, "little") for row in map(bytes, words)]
            for words in stimulus.values()
        ]
        self.rows = list(zip(*columns, strict=True))

    def apply(self, row: tuple[int, ...]) -> None:
        for pin, value in zip(self._pins, row, strict=True):
            pin.value = value


class Monitor:
    """Logs pins as text, packed every few thousand rows; what is neither 0 nor 1 fails there.

    Only in the first `unsettled` rows it is logged as 0.
    """

    ROWS = 4096

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, names: list[str], unsettled: int
    ) -> None:
        self._unsettled = unsettled
        self._pins: dict[str, Pin] = {name: getattr(dut, name) for name in names}
        self._texts: dict[str, list[str]] = {name: [] for name in names}
        self._packed: dict[str, list[np.ndarray]] = {name: [] for name in names}

    def sample(self) -> None:
        for name, pin in self._pins.items():
            text = str(pin.value)
            if self._unsettled > 0:
                text = re.sub("[^01]", "0", text)
            self._texts[name].append(text)
        self._unsettled -= 1
        if len(next(iter(self._texts.values()))) == self.ROWS:
            self._pack()

    def _pack(self) -> None:
        for name, texts in self._texts.items():
            bits = np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1) - 48
            unknown = np.flatnonzero((bits > 1).any(axis=1))
            assert not len(unknown), f"{name} is {texts[unknown[0]]} in row {unknown[0]}"
            self._packed[name].append(np.packbits(bits[:, ::-1], axis=1, bitorder="little"))
            texts.clear()

    def words(self) -> dict[str, np.ndarray]:
        """The log as little-endian bytes, one row a sample."""
        if next(iter(self._texts.values())):
            self._pack()
        return {name: np.concatenate(parts) for name, parts in self._packed.items()}


@cocotb.test()
async def lockstep(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the stimulus of MXSAFE_STIMULUS and write the log to MXSAFE_LOG."""
    with np.load(os.environ["MXSAFE_STIMULUS"]) as archive:
        stimulus = {name: archive[name] for name in archive.files}
    driver = Driver(dut, stimulus)
    monitor = Monitor(
        dut, json.loads(os.environ["MXSAFE_PINS"]), int(os.environ["MXSAFE_UNSETTLED"])
    )
    clocked = "clk" in dir(dut)
    half = Timer(1, "ns")
    if clocked:
        # Two clocks of reset, unlogged: before them every register is unknown.
        driver.apply(driver.rows[0])
        dut.rst.value = 1
        for level in (0, 1, 0, 1):
            dut.clk.value = level
            await half
    for row in driver.rows:
        if clocked:
            dut.clk.value = 0
        driver.apply(row)
        await half
        monitor.sample()  # settled, before the rising edge
        if clocked:
            dut.clk.value = 1
            await half
    np.savez(os.environ["MXSAFE_LOG"], **monitor.words())
