"""The bench of the LOAD and STORE engines: a queue before them, buffers and memory around them.

The queue shows descriptors as the machine's does, as many in flight as the job says. Memory is what
`AxiReader` and `AxiWriter` make of it: runs that are asked for, and words in their order. Before
the job it may be started and stopped, several times.
"""

import random
from collections import deque
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, packed, write_log
from verif.bench.memory import Handle, Sink, Source
from verif.bench.pacing import pauses
from verif.bench.pins import number

_BURST = 16
_QUIET = 8
"""Cycles after the job in which nothing may move."""


class Queue:
    """Shows descriptors to the engine, and notes what it says of them."""

    def __init__(self, dut: Handle, job: list[int], options: dict[str, Any]) -> None:
        self._dut, self._job = dut, job
        self._most = options["under_way"]
        seed, pins = options["seed"] + 1, ["engine_descriptor"]
        self._shown = Source(dut, "engine", seed, options["stall_in"], pins)
        self.start()

    def start(self) -> None:
        """The whole job is to run."""
        self._shown.drop()
        self._shown.rows.extend((word,) for word in self._job)
        self.left = self.done = self.error = 0

    @property
    def is_done(self) -> bool:
        """Whether all descriptors are done, or one has an error."""
        return self.done == len(self._job) or bool(self.error)

    def show(self, stop: bool) -> None:
        """Show the next descriptor, if it may run."""
        self._shown.show(may=self.left - self.done < self._most)
        self._dut.engine_stop.value = int(stop)

    def settle(self) -> None:
        """Note what is ready and done."""
        if self._shown.settle() is not None:
            self.left += 1
        # What an engine says while it is stopped or after an error does not count.
        if self.error:
            return
        self.error = number(self._dut.engine_error)
        if number(self._dut.engine_done):
            assert not self.error, "a descriptor is done and has an error"
            self.done += 1
            assert self.done <= self.left, "a descriptor is done that was not ready"


class Runs:
    """Takes runs."""

    def __init__(self, dut: Handle, options: dict[str, Any]) -> None:
        self._sink = Sink(
            dut, "run", options["seed"] + 3, options["stall_address"], ["run_payload"]
        )
        self._fields = options["run_fields"]
        self.stable = self._sink.stable

    def show(self) -> None:
        """Say whether a run is taken."""
        self._sink.show()

    def settle(self) -> list[tuple[int, bool]]:
        """Words of the run that is taken: address, and whether it is the last of a descriptor."""
        taken = self._sink.settle()
        if taken is None:
            return []
        run = {
            name: taken["run_payload"] >> offset & (1 << width) - 1
            for name, (offset, width) in self._fields.items()
        }
        assert run["words"] > 0, "a run has no words"
        ends = run["words"] - 1 if run.get("last") else None
        return [(run["first"] + at, at == ends) for at in range(run["words"])]


class Engine:
    """Shared base of both benches."""

    def __init__(self, dut: Handle, arrays: dict[str, list[int]], options: dict[str, Any]) -> None:
        self.dut, self.options = dut, options
        self.clock = Stepper(dut)
        self.queue = Queue(dut, arrays["descriptors"], options)
        self.runs = Runs(dut, options)
        self.base = options["base"]
        self.random = random.Random(options["seed"] + 7)
        self.stopped = False
        dut.base.value = self.base

    def latency(self) -> int:
        """Cycle in which an answer comes."""
        low, high = self.options["latency"]
        return self.clock.clocks + self.random.randint(low, high)

    def show(self) -> None:
        self.queue.show(self.stopped)
        self.runs.show()

    def settle(self) -> None:
        self.queue.settle()

    def forget(self) -> None:
        """Begin anew, after a reset."""
        self.queue.start()
        self.runs.stable.forget()

    async def step(self) -> None:
        await self.clock.pulse(self.show, self.settle)

    async def run(self, clocks: int | None = None) -> None:
        """The whole job, or its first cycles."""
        start = self.clock.clocks
        while not self.queue.is_done if clocks is None else self.clock.clocks - start < clocks:
            await self.step()
            assert self.clock.clocks - start < self.options["limit"], "the job is never done"
        self.clocks = self.clock.clocks - start

    async def stop(self) -> None:
        """Stop the engine, reset it, and forget all that was."""
        self.stopped = True
        for _ in range(_QUIET):
            await self.step()
        await self.clock.reset(1)
        self.stopped = False
        self.forget()


class Loading(Engine):
    """The LOAD engine."""

    def __init__(self, dut: Handle, arrays: dict[str, list[int]], options: dict[str, Any]) -> None:
        super().__init__(dut, arrays, options)
        self._memory = arrays["memory"]
        self._wrong = frozenset(options["errors"])
        self._bits = len(dut.words_payload) - 1  # the top bit says whether the word is wrong
        seed = options["seed"] + 4
        self._words = Source(dut, "words", seed, options["stall_data"], ["words_payload"])
        self._due: deque[int] = deque()
        self.buffers = options["buffers"]
        self._sinks = [
            Sink(
                dut,
                name,
                options["seed"] + 20 + at,
                options["stall_out"],
                [f"{name}_{pin}" for pin in ("address", "halves", "data")],
            )
            for at, name in enumerate(self.buffers)
        ]
        self.writes: list[tuple[int, int, int, int]] = []
        self.done_after: list[int] = []
        self._was_stopped = False

    def forget(self) -> None:
        super().forget()
        self._due.clear()
        self._words.drop()
        for sink in self._sinks:
            sink.stable.forget()
        self.writes.clear()
        self.done_after.clear()

    def show(self) -> None:
        super().show()
        for sink in self._sinks:
            sink.show()
        self._words.show(may=bool(self._due) and self._due[0] <= self.clock.clocks)

    def _word(self, at: int) -> int:
        """A word of memory and whether it is wrong; what an error comes with must not matter."""
        wrong = at in self._wrong
        word = self.random.getrandbits(self._bits) if wrong else self._memory[at]
        return word | wrong << self._bits

    def settle(self) -> None:
        done = self.queue.done
        super().settle()
        if self._words.settle() is not None:
            self._due.popleft()
        words = self.runs.settle()
        self._due.extend([self.latency()] * len(words))
        self._words.rows.extend((self._word(address - self.base),) for address, _ in words)
        may_write = self.options["writes_late"] and self.stopped and not self._was_stopped
        self._was_stopped = self.stopped
        if self.stopped or self.queue.error:
            for name in self.buffers if not may_write else ():
                assert not number(getattr(self.dut, f"{name}_valid")), "a stopped engine writes"
            return
        for index, sink in enumerate(self._sinks):
            taken = sink.settle()
            if taken is not None:
                self.writes.append((index, *taken.values()))
        if self.queue.done > done:
            self.done_after.append(len(self.writes))

    def log(self) -> dict[str, Any]:
        """All writes, and how many there were when each descriptor was done."""
        *places, data = zip(*self.writes, strict=True) if self.writes else [()] * 4
        numbers = dict(zip(("buffer", "address", "halves"), places, strict=True))
        widest = max(len(getattr(self.dut, f"{name}_data")) for name in self.buffers)
        words = packed(widest, data)
        return {"data": words, **numbers, "done_after": [*self.done_after]}


class Held:
    """A buffer of results: its output stays until it is read again.

    What a shared one shows goes through so many registers less one as its `latency` says.
    """

    def __init__(
        self, dut: Handle, name: str, words: list[int], seed: int, stall: float, latency: int
    ) -> None:
        self._pins = {p: getattr(dut, f"{name}_{p}") for p in ("address", "data")}
        self._shared = hasattr(dut, f"{name}_hold")
        self._valid = getattr(dut, f"{name}_{'valid' if self._shared else 'en'}")
        self._rows, self._dut, self._name = words, dut, name
        self._gaps = pauses(seed, stall, _BURST)
        self._random = random.Random(seed)
        self._now = 0
        self._behind = deque([0] * (latency - 1 if self._shared else 0))
        self.reads = 0

    def show(self) -> None:
        """Drive the data that was read; others may read a shared buffer in between."""
        self._behind.append(self._now)
        self._pins["data"].value = self._behind.popleft()
        if self._shared:
            getattr(self._dut, f"{self._name}_ready").value = int(not next(self._gaps))

    def settle(self) -> None:
        """Read, or be read by others."""
        taken = bool(number(self._valid))
        if self._shared:
            hold = number(getattr(self._dut, f"{self._name}_hold"))
            taken = taken and bool(number(getattr(self._dut, f"{self._name}_ready")))
            if not hold and not taken:
                self._now = self._random.getrandbits(len(self._pins["data"]))
        if taken:
            self._now = self._rows[number(self._pins["address"])]
            self.reads += 1


class Storing(Engine):
    """The STORE engine."""

    def __init__(self, dut: Handle, arrays: dict[str, list[int]], options: dict[str, Any]) -> None:
        super().__init__(dut, arrays, options)
        self._before = arrays["memory"]
        self.memory = [*self._before]
        self._wrong = frozenset(options["errors"])
        self._words = Sink(
            dut, "words", options["seed"] + 5, options["stall_data"], ["words_payload"]
        )
        self._buffers = []
        for at, name in enumerate(options["buffers"]):
            seed = options["seed"] + 30 + at
            stall, latency = options["stall_out"], options["read_latency"]
            self._buffers.append(Held(dut, name, arrays[name], seed, stall, latency))
        self._places: deque[tuple[int, bool]] = deque()
        """Where words go, and whether each is the last of a descriptor."""
        self._answers: deque[tuple[int, bool, bool]] = deque()
        self.done_after: list[int] = []
        self._count = 0

    def forget(self) -> None:
        super().forget()
        self.memory[:] = self._before
        self._places.clear()
        self._answers.clear()
        self._words.stable.forget()
        self.done_after.clear()
        self._count = 0

    def show(self) -> None:
        super().show()
        self._words.show(may=bool(self._places))  # it must be known where they go
        for buffer in self._buffers:
            buffer.show()
        last = wrong = False
        if self._answers and self._answers[0][0] <= self.clock.clocks:
            _, last, wrong = self._answers.popleft()
        self.dut.written.value = int(last)
        self.dut.write_error.value = int(wrong)

    def settle(self) -> None:
        done = self.queue.done
        super().settle()
        for buffer in self._buffers:
            buffer.settle()
        taken = self._words.settle()
        if taken is not None:
            address, last = self._places.popleft()
            if not self.queue.error:  # else the machine stops, and its writer drops the word
                at = address - self.base
                self.memory[at] = taken["words_payload"]
                self._answers.append((self.latency(), last, at in self._wrong))
                self._count += 1
        self._places.extend(self.runs.settle())
        if self.queue.done > done:
            assert self._count - len(self._answers) > 0, "a descriptor is done before its words"
            self.done_after.append(self._count - len(self._answers))

    def log(self) -> dict[str, Any]:
        """Memory, and words that had been answered when each descriptor was done."""
        memory = packed(len(self.dut.words_payload), self.memory)
        return {"memory": memory, "done_after": [*self.done_after]}


@cocotb.test()
async def transfers(dut: Handle) -> None:
    """Run the descriptors of the job and log what came."""
    options = job()
    bench = {"load": Loading, "store": Storing}[options["kind"]](dut, options, options)
    bench.show()
    await bench.clock.reset(2)
    for after in options["stops"]:
        await bench.run(after)
        await bench.stop()
    await bench.run()
    log = bench.log()
    error = bench.queue.error
    for _ in range(_QUIET):
        await bench.step()
    assert bench.log() == log, "something came afterwards"
    write_log(log | {"done": bench.queue.done, "error": error, "clocks": bench.clocks})
