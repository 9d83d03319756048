"""The bench of fetch: a program in memory, words that come late, a queue that makes it wait."""

import random
from collections import deque
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log
from verif.bench.memory import Sink, Stable

_STALL = 0.45
"""How often the memory takes no run."""


class Memory:
    """Runs of words: they come in order, some time after they are asked for.

    Parameters
    ----------
    program : dict
        ``words`` of the program, the ``address`` of the first in words, numbers of words that are
        answered with ``errors``.
    """

    def __init__(
        self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any], seed: int
    ) -> None:
        self._dut = dut
        self._first_bits, self._word_bits = options["first_bits"], options["word_bits"]
        self._random = random.Random(seed)
        self.begin({"words": [], "address": 0, "errors": []})

    def begin(self, program: dict[str, Any]) -> None:
        """Begin a program."""
        self._words, self._address = program["words"], program["address"]
        self._errors = set(program["errors"])
        self._latency = self._random.choice([0, 5, 60])
        self._density = self._random.choice([0.3, 1.0])
        self._runs = Sink(self._dut, "run", self._random.getrandbits(32), _STALL, ["run_payload"])
        self._coming: deque[tuple[int, int]] = deque()
        self.asked: list[int] = []

    def drive(self, clock: int) -> None:
        """Offer to take a run, and give a word."""
        rng, dut = self._random, self._dut
        self._runs.show()
        came = bool(self._coming) and self._coming[0][0] <= clock
        came = came and rng.random() < self._density
        word = rng.getrandbits(self._word_bits + 1)
        if came:
            _, number = self._coming.popleft()
            word = self._words[number] | (number in self._errors) << self._word_bits
        dut.word_valid.value = int(came)
        dut.word.value = word

    def settle(self, clock: int) -> None:
        """See what is asked for."""
        taken = self._runs.settle()
        if taken is None:
            return
        run = taken["run_payload"]
        first, count = run & (1 << self._first_bits) - 1, run >> self._first_bits
        number = first - self._address
        assert count > 0, "a run of no words"
        assert 0 <= number <= number + count <= len(self._words), "words outside the program"
        self.asked += range(number, number + count)
        self._coming += [(clock + 1 + self._latency, n) for n in range(number, number + count)]


class Bench:
    """Fetch between memory and queues."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut, self._options = dut, options
        self._random = random.Random(options["seed"])
        self._stepper = Stepper(dut)
        self._memory = Memory(dut, options, options["seed"] + 1)

    async def run(self, program: dict[str, Any], *, reset: bool) -> dict[str, Any]:
        """Run a program until all is handed over or there is an error; returns what came."""
        dut, rng, step = self._dut, self._random, self._stepper
        for name in ("start", "stop", "word_valid", "run_ready", "descriptor_ready"):
            getattr(dut, name).value = 0
        if reset:
            await step.reset()
        self._memory.begin(program)
        fine = rng.randrange(self._options["word_bits"] // 8)
        dut.address.value = program["address"] * (self._options["word_bits"] // 8) + fine
        dut.length.value = len(program["words"]) // self._options["words"]
        dut.start.value = 1
        await step.pulse()
        dut.start.value = 0
        dut.address.value = rng.getrandbits(64)
        dut.length.value = rng.getrandbits(32)
        density = rng.choice([0.02, 0.5, 1.0]) if len(program["words"]) < 60 else 1.0
        payload = ("number", "descriptor")
        given = Stable(
            dut, "descriptor", payload, handshake="_", seed=rng.getrandbits(32), stall=1 - density
        )
        descriptors, last_word, shown = [], 0, 0
        for _ in range(self._options["limit"]):
            self._memory.drive(step.clocks)
            dut.descriptor_ready.value = int(rng.random() < density and given.may_take)
            await step.settle()
            self._memory.settle(step.clocks)
            if dut.word_valid.value == 1:
                last_word = step.clocks
            taken = given.settle()
            shown = shown or (step.clocks if given.offered else 0)
            if taken is not None:
                descriptors.append((taken["number"], taken["descriptor"]))
            error, ended = int(dut.error.value), dut.ended.value == 1
            await step.edge()
            if error or ended:
                break
        else:
            raise AssertionError("the program came to no end")
        return {
            "descriptors": descriptors,
            "error": error,
            "number": int(dut.number.value),
            "asked": self._memory.asked,
            "latency": shown - last_word,
        }


@cocotb.test()
async def fetch(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the programs of the job."""
    options = job()
    bench = Bench(dut, options)
    logs: list[dict[str, Any]] = []
    for program in options["programs"]:
        logs.append(await bench.run(program, reset=not logs or logs[-1]["error"] != 0))
    write_log(logs)
