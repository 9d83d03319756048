"""The bench of the engine of products: memories of operands, a vector buffer that makes it wait.

Comparing is the business of the pytest process, which gets the writes in their order.
"""

import random
from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log
from verif.bench.memory import Sink

MEMORIES = ("a_codes", "a_scales", "w_codes", "w_scales")
_IDLE = 80
"""Cycles after the last descriptor in which nothing may be written."""


class Bench:
    """The engine, its memories and its queue."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict[str, Any]) -> None:
        self._dut, self._options = dut, options
        self._random = random.Random(options["seed"])
        pins = ["result_address", "result_halves", "result_data"]
        self._results = Sink(dut, "result", options["seed"] + 1, options["stall"], pins)
        self._step = Stepper(dut)
        self._ports = {
            name: tuple(getattr(dut, f"{name}_{pin}") for pin in ("en", "address", "data"))
            for name in MEMORIES
        }
        self._shown = dict.fromkeys(MEMORIES, 0)
        self.log: dict[str, list[Any]] = {"writes": [], "done": [], "busy": [], "taken": []}
        self.error = 0
        self._last_move = 0

    async def begin(self) -> None:
        """Reset."""
        for name in ("engine_valid", "engine_descriptor", "engine_stop", "result_ready"):
            getattr(self._dut, name).value = 0
        for *_, data in self._ports.values():
            data.value = 0
        await self._step.reset()

    async def clock(self, descriptor: int | None, *, stop: bool = False) -> bool:
        """A cycle with a descriptor on offer, or none; whether it is taken."""
        dut, rng, log = self._dut, self._random, self.log
        dut.engine_valid.value = int(descriptor is not None)
        noise = rng.getrandbits(len(dut.engine_descriptor))
        dut.engine_descriptor.value = noise if descriptor is None else descriptor
        dut.engine_stop.value = int(stop)
        self._results.show()
        if stop:  # which withdraws what is offered
            self._results.stable.forget()
        await self._step.settle()
        clock = self._step.clocks
        written = self._results.settle()
        assert not (stop and self._results.stable.offered), "something is written after the stop"
        if written is not None:
            address, halves, data = written.values()
            assert halves == 0b11, "half a beat is written"
            log["writes"].append((address, f"{data:x}"))
            self._last_move = clock
        if dut.engine_done.value == 1:
            log["done"].append(clock)
            self._last_move = clock
        if dut.array_busy.value == 1:
            log["busy"].append(clock)
        self.error = int(dut.engine_error.value)
        taken = descriptor is not None and dut.engine_ready.value == 1
        if taken:
            log["taken"].append(clock)
        for name, (en, address, _) in self._ports.items():
            if en.value == 1:
                place = int(address.value)
                assert place < len(self._options[name]), f"{name} {place} is read"
                self._shown[name] = self._options[name][place]
        await self._step.edge()
        for name, (*_, data) in self._ports.items():
            data.value = self._shown[name]
        return taken

    async def run(self) -> None:
        """Offer all descriptors, until all are done or there is an error."""
        options, waiting = self._options, list(self._options["descriptors"])
        count, offered = len(waiting), None
        for _ in range(options["limit"]):
            idle = self._step.clocks - self._last_move
            assert idle <= options["patience"], f"nothing is written or done for {idle} cycles"
            if offered is None and waiting and self._random.random() >= options["pause"]:
                offered = waiting.pop(0)
            if await self.clock(offered):
                offered = None
            if self.error or len(self.log["done"]) == count:
                return
        raise AssertionError("not all descriptors are done")


@cocotb.test()
async def gemm_engine(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the descriptors of the job."""
    options = job()
    bench = Bench(dut, options)
    await bench.begin()
    await bench.run()
    error = bench.error
    for _ in range(_IDLE):
        await bench.clock(None, stop=bool(error))
    write_log(bench.log | {"error": error})
