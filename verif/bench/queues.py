"""The bench of the queues: programs of descriptors, engines that take their time, what came of it.

A descriptor is offered until it is taken. An engine is ready when it likes to be, now and then only
when it has seen a descriptor, since a queue must not wait for that; each descriptor
is done, or fails, some cycles later. Comparing is the business of the pytest process.
"""

import random
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log
from verif.bench.pacing import ReadyAfterValid

_LATER = 6
"""Cycles after an error in which there are others."""


class Engine:
    """An engine as the queue sees it.

    Parameters
    ----------
    under_way : int
        Most descriptors that it has in flight.
    """

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, name: str, under_way: int, seed: int
    ) -> None:
        self.name, self._under_way = name, under_way
        pins = ("valid", "descriptor", "ready", "done", "error", "stop")
        self._pins = {pin: getattr(dut, f"{name}_{pin}") for pin in pins}
        self._random = random.Random(seed)
        self.begin({}, 0, 1.0)

    def begin(self, errors: dict[int, int], longest: int, readiness: float) -> None:
        """Begin a program: errors by what is in the descriptor, the longest time of a run."""
        self._errors, self._longest, self._readiness = errors, longest, readiness
        self._ready_after_valid = ReadyAfterValid(self._random.getrandbits(32), 1 - readiness)
        self._flight: list[list[int]] = []
        self._shown: int | None = None
        self.started: list[tuple[int, int]] = []
        self.done: list[int] = []
        self.most = 0

    @property
    def moves(self) -> int:
        """How many descriptors have started in a program, and how many are done."""
        return len(self.started) + len(self.done)

    def drive(self) -> None:
        """Say what it does in this cycle."""
        free = len(self._flight) < self._under_way
        self._is_ready = free and self._random.random() < self._readiness
        self._is_ready = self._is_ready and self._ready_after_valid.may_take
        oldest = self._flight[0] if self._flight else None
        self._is_done = oldest is not None and oldest[1] <= 0
        if oldest is None and self._shown is not None and self._is_ready:
            # It takes the descriptor in this cycle, and is done with it at once.
            self._is_done = self._random.random() < 0.2 and self._shown not in self._errors
        code = self._errors.get(oldest[0], 0) if oldest is not None and self._is_done else 0
        self._pins["ready"].value = int(self._is_ready)
        self._pins["done"].value = int(self._is_done and not code)
        self._pins["error"].value = code
        self._failed = bool(code)

    def fail(self, code: int) -> None:
        """Have an error, or none if it is 0, and nothing else."""
        self._pins["ready"].value = self._pins["done"].value = 0
        self._pins["error"].value = code

    def settle(self, clock: int) -> None:
        """See what the queue shows in this cycle."""
        valid = self._pins["valid"].value == 1
        self._ready_after_valid.see(valid=valid, ready=self._is_ready)
        if valid:
            word = int(self._pins["descriptor"].value)
            assert self._shown in (None, word), f"{self.name} changed what it showed"
            if self._shown is None:
                self.started.append((clock, word))
            self._shown = word
        assert valid or self._shown is None, f"{self.name} took back what it showed"
        for flying in self._flight:
            flying[1] -= 1
        if valid and self._is_ready:
            assert self._shown is not None
            self._flight.append([self._shown, self._random.randint(0, self._longest)])
            self._shown = None
            self.most = max(self.most, len(self._flight))
        if self._is_done and not self._failed:
            self._flight.pop(0)
            self.done.append(clock)


class Bench:
    """The queues between a program and four engines."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut, self._options = dut, options
        self._random = random.Random(options["seed"])
        self.stepper = Stepper(dut)
        self.engines = [
            Engine(dut, name, under_way, options["seed"] + index)
            for index, (name, under_way) in enumerate(options["engines"].items())
        ]

    async def begin(self, *, reset: bool) -> None:
        """Reset, or only begin a program."""
        dut = self._dut
        for name in ("start", "descriptor_valid", "ended", "fetch_error", "stop"):
            getattr(dut, name).value = 0
        for engine in self.engines:
            engine.begin({}, 0, 0.0)
            engine.drive()
        if reset:
            await self.stepper.reset()
        dut.start.value = 1
        await self.stepper.pulse()
        dut.start.value = 0

    async def run(self, program: dict[str, Any]) -> dict[str, Any]:
        """Run a program until it is done or has stopped; returns what happened."""
        dut, rng = self._dut, self._random
        errors = {int(word): code for word, code in program["errors"].items()}
        for engine in self.engines:
            engine.begin(errors, rng.choice([0, 3, 30]), rng.choice([0.2, 0.6, 1.0]))
        density = rng.choice([0.1, 0.5, 1.0])
        descriptors = program["descriptors"]
        number, offered, lacks = 0, False, [0] * len(self.engines)
        moves, last_move = 0, self.stepper.clocks
        while self.stepper.clocks - last_move < self._options["patience"]:
            ends = number == len(descriptors)
            offered = not ends and (offered or rng.random() < density)
            dut.descriptor_valid.value = int(offered)
            dut.descriptor.value = descriptors[number] if offered else rng.getrandbits(256)
            dut.number.value = program["first_number"] + number
            dut.ended.value = int(ends and not program["fetch_error"])
            dut.fetch_error.value = program["fetch_error"] if ends else 0
            for engine in self.engines:
                engine.drive()
            await self.stepper.settle()
            clock = self.stepper.clocks
            ended = dut.is_done.value == 1, dut.stopped.value == 1
            if any(ended):
                break
            for engine in self.engines:
                engine.settle(clock)
            for bit in range(len(lacks)):
                lacks[bit] += int(dut.lacks.value) >> bit & 1
            if offered and dut.descriptor_ready.value == 1:
                number, offered = number + 1, False
            if moves < (now := number + sum(engine.moves for engine in self.engines)):
                moves, last_move = now, clock
                # Each is handed over, started and done once.
                assert moves <= 3 * len(descriptors), "descriptors came again"
            await self.stepper.edge()
        else:
            raise AssertionError("a program neither ended, nor stopped, nor went on")
        log = {
            "done": ended[0],
            "error": int(dut.error.value) if ended[1] else 0,
            "number": int(dut.error_number.value) if ended[1] else 0,
            "handed_over": number,
            "started": [engine.started for engine in self.engines],
            "finished": [engine.done for engine in self.engines],
            "most": [engine.most for engine in self.engines],
            "lacks": lacks,
        }
        # The cycle in which it ended passes like all others.
        await self.stepper.edge()
        if ended[1]:
            await self._fail_again()
        return log

    async def _fail_again(self) -> None:
        """Errors that come later, of engines and of fetching, change nothing."""
        dut, rng = self._dut, self._random
        told = int(dut.error.value), int(dut.error_number.value)
        dut.number.value = rng.getrandbits(len(dut.number))
        for _ in range(_LATER):
            for engine in self.engines:
                engine.fail(rng.getrandbits(4))
            dut.fetch_error.value = rng.getrandbits(4)
            await self.stepper.settle()
            now = int(dut.error.value), int(dut.error_number.value)
            assert dut.stopped.value == 1, "it goes on after an error"
            assert now == told, f"error and number are {now} after a later error, not {told}"
            await self.stepper.edge()


@cocotb.test()
async def queues(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the programs of the job."""
    options = job()
    bench = Bench(dut, options)
    logs: list[dict[str, Any]] = []
    for number, program in enumerate(options["programs"]):
        # After a program that ended without an error the next one may follow without a reset.
        await bench.begin(reset=not logs or not logs[-1]["done"] or number % 2 == 0)
        logs.append(await bench.run(program))
    write_log(logs)
