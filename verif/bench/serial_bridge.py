"""The bench of the bridge: bytes of a host, and the registers and memory of a machine.

A job is a list of episodes: bytes with pauses between them, some of them broken, and cycles of
silence behind them. What is sent meanwhile is logged for each episode.
"""

import random
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log

_OKAY, _SLAVE_ERROR = 0, 2


class Registers:
    """A slave of AXI4-Lite that answers late, some addresses with errors."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut, self._errors = dut, set(options["bus_errors"])
        self._random = random.Random(options["seed"])
        self.words: list[int] = options["registers"]
        self.written: list[tuple[int, int]] = []
        self._address: int | None = None
        self._data: int | None = None
        self._read: int | None = None
        self._offered: set[str] = set()

    def show(self) -> None:
        """Drive its pins."""
        dut, rng = self._dut, self._random
        dut.registers_awready.value = int(self._address is None and rng.random() < 0.5)
        dut.registers_wready.value = int(self._data is None and rng.random() < 0.5)
        dut.registers_arready.value = int(self._read is None and rng.random() < 0.5)
        if None not in (self._address, self._data) and rng.random() < 0.5:
            self._offered.add("b")
        if self._read is not None and rng.random() < 0.5:
            self._offered.add("r")
        for channel, address in (("b", self._address), ("r", self._read)):
            offered = channel in self._offered
            wrong = offered and address in self._errors
            getattr(dut, f"registers_{channel}valid").value = int(offered)
            answer = (_SLAVE_ERROR if wrong else _OKAY) if offered else rng.getrandbits(2)
            getattr(dut, f"registers_{channel}resp").value = answer
        known = "r" in self._offered and self._read is not None
        dut.registers_rdata.value = (
            self.words[self._read // 4] if known and self._read is not None else rng.getrandbits(32)
        )

    def settle(self) -> None:
        """Take what is offered."""
        dut = self._dut
        if "b" in self._offered and dut.registers_bready.value == 1:
            assert self._address is not None
            assert self._data is not None
            if self._address not in self._errors:
                self.words[self._address // 4] = self._data
            self.written.append((self._address, self._data))
            self._address = self._data = None
            self._offered.discard("b")
        if "r" in self._offered and dut.registers_rready.value == 1:
            self._read = None
            self._offered.discard("r")
        if dut.registers_awvalid.value == 1 and dut.registers_awready.value == 1:
            self._address = int(dut.registers_awaddr.value)
        if dut.registers_wvalid.value == 1 and dut.registers_wready.value == 1:
            assert dut.registers_wstrb.value == 0xF
            self._data = int(dut.registers_wdata.value)
        if dut.registers_arvalid.value == 1 and dut.registers_arready.value == 1:
            self._read = int(dut.registers_araddr.value)


class Words:
    """A memory whose words are taken when it likes."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut, self._random = dut, random.Random(options["seed"] + 1)
        self.words: list[int] = options["memory"]
        self._found: int | None = None

    def show(self) -> None:
        """Drive its pins."""
        self._dut.access_ready.value = int(self._random.random() < 0.5)
        noise = self._random.getrandbits(32)
        shows = self._found is not None and self._random.random() < 0.5
        self._dut.access_there.value = int(shows)
        self._dut.access_found.value = self._found if shows else noise
        if shows:
            self._found = None

    def settle(self) -> None:
        """Take what is offered."""
        dut = self._dut
        if dut.access_valid.value == 1 and dut.access_ready.value == 1:
            address = int(dut.access_address.value)
            if dut.access_writes.value == 1:
                self.words[address] = int(dut.access_data.value)
            else:
                self._found = self.words[address]


@cocotb.test()
async def bridge(dut: cocotb.handle.HierarchyObject) -> None:
    """Run all episodes."""
    options = job()
    rng = random.Random(options["seed"] + 2)
    step, registers, words = Stepper(dut), Registers(dut, options), Words(dut, options)
    sent: list[int] = []

    async def clock(byte: int | None = None, *, broken: bool = False, listens: bool = True) -> None:
        dut.byte_valid.value = int(byte is not None and not broken)
        dut.byte_error.value = int(broken)
        dut.byte_value.value = rng.getrandbits(8) if byte is None else byte
        dut.send_ready.value = int(rng.random() < 0.5)
        registers.show()
        words.show()
        await step.settle()
        if listens:
            registers.settle()
            words.settle()
        if dut.send_valid.value == 1 and dut.send_ready.value == 1:
            sent.append(int(dut.send_byte.value))
        await step.edge()

    dut.irq.value = 0
    dut.rst.value = 1
    for _ in range(2):  # before the first edge pins carry anything
        await clock(listens=False)
    answers = []
    for episode in options["episodes"]:
        dut.rst.value = int(episode["reset"])
        await clock()
        dut.rst.value = 0
        dut.irq.value = episode["irq"]
        sent.clear()
        for place, byte in enumerate(episode["bytes"]):
            for _ in range(rng.choice(episode["pauses"])):
                await clock()
            await clock(byte, broken=place == episode["broken"])
            if place == episode["resets"]:
                dut.rst.value = 1
                await clock()
                dut.rst.value = 0
        silent = 0
        while silent < episode["silence"]:
            before = len(sent)
            await clock()
            silent = silent + 1 if len(sent) == before else 0
        answers.append(list(sent))
    log = {"answers": answers, "written": registers.written, "registers": registers.words}
    write_log(log | {"memory": words.words, "status": int(dut.status.value)})
