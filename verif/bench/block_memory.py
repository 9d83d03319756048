"""The bench of a memory with two users: a master of AXI4 with pauses, and a bridge, at once.

A job is a list of phases. In each, bursts of both directions and words of the bridge go on side by
side; the next one begins when all have been answered.
"""

from typing import Any

import cocotb

from verif.bench.clocked import Stepper
from verif.bench.job import job, write_log
from verif.bench.memory import Sink, Source
from verif.bench.pins import number

_MOST_CLOCKS = 50_000
_STALL = 0.3
"""How often a channel pauses."""


class Bench:
    """A memory and all who use it."""

    def __init__(self, dut: Any, seed: int) -> None:
        self.clock = Stepper(dut)
        self._dut = dut

        def source(number: int, name: str, *pins: str) -> Source:
            named = [f"{name}{pin}" for pin in pins]
            return Source(dut, name, seed + number, _STALL, named, handshake="")

        burst = ("addr", "len", "size", "burst", "cache", "prot")
        self.reads, self.writes = source(0, "s_axi_ar", *burst), source(1, "s_axi_aw", *burst)
        self.beats = source(2, "s_axi_w", "data", "strb", "last")
        self.words = source(3, "access_", "writes", "address", "data")
        pins = ["s_axi_rdata", "s_axi_rresp", "s_axi_rlast"]
        self._found = Sink(dut, "s_axi_r", seed + 4, _STALL, pins, handshake="")
        self._answers = Sink(dut, "s_axi_b", seed + 5, _STALL, ["s_axi_bresp"], handshake="")
        self._wants = False
        self._asked = 0
        self.log: dict[str, list[Any]] = {"read": [], "answers": [], "found": []}

    def show(self) -> None:
        """Drive all pins."""
        self.reads.show()
        self.writes.show()
        # Beats follow their address.
        self.beats.show(may=self._asked > 0)
        self.words.show(may=not self._wants)
        self._found.show()
        self._answers.show()

    def settle(self) -> None:
        """Note what was taken and answered."""
        if self._dut.access_there.value == 1:
            assert self._wants, "a word is there that nobody wanted"
            self.log["found"].append(number(self._dut.access_found))
            self._wants = False
        is_read = bool(self.words.rows) and not self.words.rows[0][0]
        if self.words.settle() is not None:
            self._wants = is_read
        self.reads.settle()
        if self.writes.settle() is not None:
            self._asked += 1
        is_last = bool(self.beats.rows) and self.beats.rows[0][2]
        if self.beats.settle() is not None:
            self._asked -= is_last
        if (beat := self._found.settle()) is not None:
            self.log["read"].append([beat[f"s_axi_{n}"] for n in ("rdata", "rresp", "rlast")])
        if (answer := self._answers.settle()) is not None:
            self.log["answers"].append(answer["s_axi_bresp"])

    async def run(self, phase: dict[str, Any]) -> None:
        """All of a phase."""
        self.reads.rows.extend(phase["reads"])
        self.writes.rows.extend(phase["writes"])
        self.beats.rows.extend(phase["beats"])
        self.words.rows.extend(phase["words"])
        beats = len(self.log["read"]) + sum(row[1] + 1 for row in phase["reads"])
        answers = len(self.log["answers"]) + len(phase["writes"])
        found = len(self.log["found"]) + sum(not row[0] for row in phase["words"])
        wanted = [beats, answers, found]
        for _ in range(_MOST_CLOCKS):
            await self.clock.pulse(self.show, self.settle)
            if [len(some) for some in self.log.values()] == wanted and not self.words.rows:
                return
        raise AssertionError(f"of {wanted} there are {[len(v) for v in self.log.values()]}")


@cocotb.test()
async def memory(dut: cocotb.handle.HierarchyObject) -> None:
    """Run all phases."""
    options = job()
    bench = Bench(dut, options["seed"])
    bench.show()
    for name in ("s_axi_arvalid", "s_axi_awvalid", "s_axi_wvalid", "access_valid"):
        getattr(dut, name).value = 0
    await bench.clock.reset(2)
    for phase in options["phases"]:
        await bench.run(phase)
    write_log(bench.log)
