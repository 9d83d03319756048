"""The bench of units that read or write memory for others: `AxiReader` and `AxiWriter`.

Runs go in, words come out or go in, and a memory is on the other side. Before the job the unit may
be stopped in the middle of it, several times: it then has to finish its bursts and be idle.
"""

from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, packed, write_log
from verif.bench.memory import Handle, Memory, ReadPort, Sink, Source, WritePort
from verif.bench.pins import number

_QUIET = 8
"""Cycles in which nothing may move after a unit has been stopped."""


class Bench:
    """A unit, its memory, and a cycle at a time."""

    def __init__(self, dut: Handle, options: dict[str, Any], memory: Memory) -> None:
        self.dut, self.options, self.memory = dut, options, memory
        self.clock = Stepper(dut)
        self.stopped = False
        self.sources = [
            Source(dut, name, options["seed"] + 10 + at, options["stall_in"], pins)
            for at, (name, pins) in enumerate(options["sources"].items())
        ]

    def start(self) -> None:
        """Have the whole job to offer."""
        for source in self.sources:
            source.drop()
            source.rows.extend(map(tuple, self.options["rows"][source.name]))

    @property
    def unit_is_done(self) -> bool:
        """Whether nothing of the job is left."""
        raise NotImplementedError

    @property
    def memory_is_busy(self) -> bool:
        """Whether the memory waits for something, or has something to give."""
        raise NotImplementedError

    def show(self) -> None:
        """Drive the inputs."""
        self.dut.stop.value = int(self.stopped)
        for source in self.sources:
            source.show()

    def settle(self) -> None:
        """Read the outputs."""
        for source in self.sources:
            source.settle()

    async def step(self) -> None:
        """One cycle."""
        await self.clock.pulse(self.show, self.settle)

    async def stop(self, after: int) -> None:
        """Start the job, stop it after so many cycles, and wait until the unit is idle.

        After an odd number nothing comes any more but what is offered.
        """
        self.start()
        for _ in range(after):
            await self.step()
        self.stopped = True
        for source in self.sources if after % 2 else ():
            source.offer_no_more()
        start = self.clock.clocks
        await self.step()
        while not number(self.dut.idle):
            await self.step()
            assert self.clock.clocks - start < self.options["limit"], (
                "the stopped unit is never idle"
            )
        for _ in range(_QUIET):
            await self.step()
            assert number(self.dut.idle), "the stopped unit does not stay idle"
        assert not self.memory_is_busy, "the unit was idle before its bursts were complete"
        self.forget()
        await self.clock.reset(1)
        self.stopped = False

    def forget(self) -> None:
        """Begin the logs anew."""

    async def run(self) -> None:
        """The whole job."""
        self.start()
        start = self.clock.clocks
        while any(source.rows for source in self.sources) or not self.unit_is_done:
            await self.step()
            assert self.clock.clocks - start < self.options["limit"], "the job is never done"
        self.clocks = self.clock.clocks - start
        for _ in range(_QUIET):
            await self.step()
        assert number(self.dut.idle), "the unit is not idle after the job"


class Reading(Bench):
    """A reader."""

    def __init__(self, dut: Handle, options: dict[str, Any], memory: Memory) -> None:
        super().__init__(dut, options, memory)
        seed = options["seed"]
        self.port = ReadPort(dut, memory, options, seed)
        pins = ["words_payload"]
        self.sink = Sink(dut, "words", seed + 5, options["stall_out"], pins)
        self.words: list[int] = []
        self._was_stopped = False

    @property
    def unit_is_done(self) -> bool:
        return len(self.words) >= self.options["words"]

    @property
    def memory_is_busy(self) -> bool:
        return self.port.busy

    def forget(self) -> None:
        self.words.clear()
        self.sink.stable.forget()

    def show(self) -> None:
        super().show()
        self.sink.show()
        self.port.show(self.clock.clocks)

    def settle(self) -> None:
        super().settle()
        request = self.port.channel.stable
        waited = request.waits
        self.port.settle(self.clock.clocks)
        asks = request.offered and not waited
        assert not (asks and self._was_stopped), "a stopped reader asks for more"
        self._was_stopped = self.stopped
        if self.stopped:
            assert not number(self.dut.words_valid), "a stopped reader gives words"
            return
        taken = self.sink.settle()
        if taken is not None:
            self.words.append(taken["words_payload"])

    def log(self) -> dict[str, Any]:
        """Words as they came."""
        return {"words": packed(len(self.dut.words_payload), self.words)}


class Writing(Bench):
    """A writer."""

    def __init__(self, dut: Handle, options: dict[str, Any], memory: Memory) -> None:
        super().__init__(dut, options, memory)
        self.port = WritePort(dut, memory, options, options["seed"])
        self.untouched = bytes(memory.content)
        self.answered = 0
        self.done: list[int] = []
        self.errors: list[int] = []

    @property
    def unit_is_done(self) -> bool:
        return len(self.done) >= self.options["ends"]

    @property
    def memory_is_busy(self) -> bool:
        return self.port.busy

    def forget(self) -> None:
        self.done.clear()
        self.errors.clear()
        size = self.options["data_bits"] // 8
        right = self.options["after"]
        for at in range(0, len(right), size):
            now = self.memory.content[at : at + size].hex()
            before = self.untouched[at : at + size].hex()
            wanted = right[at : at + size].hex()
            assert now in (before, wanted), (
                f"the beat at byte {at} was written wrongly: {now}, not {wanted} or still {before}"
            )
        self.memory.content[:] = self.untouched
        self.port.answered = self.answered = 0

    def show(self) -> None:
        super().show()
        self.port.show(self.clock.clocks)

    def settle(self) -> None:
        super().settle()
        # What is told in a cycle is what came in the cycle before.
        if number(self.dut.done):
            self.done.append(self.answered)
        if number(self.dut.error):
            self.errors.append(self.answered)
        self.port.settle(self.clock.clocks)
        self.answered = self.port.answered

    def log(self) -> dict[str, Any]:
        """Memory, and beats that had been answered when an end or an error was told."""
        memory = packed(8, self.memory.content)
        return {"memory": memory, "done": self.done, "errors": self.errors}


@cocotb.test()
async def memory_ports(dut: Handle) -> None:
    """Run the job and log what came."""
    options = job()
    memory = Memory(options["start"], options["memory"], options["errors"])
    options["after"] = bytes(options.get("after", ()))
    if "data" in options:
        options["rows"]["words"] = [(word,) for word in options["data"]]
    bench = {"read": Reading, "write": Writing}[options["kind"]](dut, options, memory)
    bench.show()
    await bench.clock.reset(2)
    for after in options["stops"]:
        await bench.stop(after)
    await bench.run()
    write_log(bench.log() | {"clocks": bench.clocks, "longest": bench.port.channel.longest})
