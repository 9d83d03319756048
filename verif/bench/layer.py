"""The bench of layers: two AXI4-Streams in and one out, each with stalls of its own.

What goes in and what comes out are files; comparing is the business of the pytest process. A source
offers a beat until it is taken and shows noise in between; the sink takes what it likes.
"""

import json
import os
import random
from collections.abc import Iterator

import cocotb
import numpy as np
from cocotb.triggers import Timer

from verif.bench.array import RESET_CLOCKS, pauses

OUTPUTS = ("m_axis_tdata", "m_axis_tlast", "m_axis_tuser")


def _pauses(seed: int, probability: float) -> Iterator[bool]:
    return pauses(seed, probability) if probability else iter(lambda: False, True)


class Source:
    """One operand stream: beats are tuples of a value for each of its pins."""

    def __init__(self, dut, name: str, pins: tuple[str, ...], beats: list, seed: int, stall: float):
        self._valid, self._ready = (getattr(dut, f"{name}_{pin}") for pin in ("tvalid", "tready"))
        self._pins = [getattr(dut, f"{name}_{pin}") for pin in pins]
        self._widths = [len(pin) for pin in self._pins]
        self._name, self._beats = name, beats
        self._noise = random.Random(seed)
        self._gaps = _pauses(seed, stall)
        self.forget()

    def forget(self) -> None:
        """Start with the first beat again, as after a reset."""
        self.taken = 0
        self.offered = False

    def show(self, *, offer: bool) -> None:
        """Put the next beat on the pins, or noise; what is on offer stays."""
        if self.offered:
            return
        self.offered = offer and self.taken < len(self._beats) and not next(self._gaps)
        noise = [self._noise.getrandbits(width) for width in self._widths]
        for pin, value in zip(
            self._pins, self._beats[self.taken] if self.offered else noise, strict=True
        ):
            pin.value = value
        self._valid.value = int(self.offered)

    def settle(self) -> bool:
        """Whether the beat is taken in this clock."""
        assert self._ready.value.is_resolvable or not self.offered, f"{self._name}_tready unknown"
        taken = self.offered and self._ready.value == 1
        if taken:
            self.taken += 1
            self.offered = False
        return taken

    def refuse(self) -> None:
        """Offer a beat in a clock of reset."""
        self._valid.value = 1

    def check_refused(self) -> None:
        """Fail if it was taken."""
        assert self._ready.value == 0, f"a beat of {self._name} was taken during reset"


class Bench:
    """Sources, sink and clock, a clock at a time."""

    def __init__(self, dut, options: dict, sources: list[Source]) -> None:
        self._dut, self._options, self.sources = dut, options, sources
        self._half = Timer(1, "ns")
        self._stalls = _pauses(options["seed"] + 7, options["stall_out"])
        self.outputs = [getattr(dut, name) for name in OUTPUTS]
        self.clocks = 0
        self.forget()

    def forget(self) -> None:
        """Start the logs afresh, with nothing on offer, as after a reset."""
        for source in self.sources:
            source.forget()
        self.stalled: list[str] | None = None
        self.taken: list[int] = []
        self.left: list[int] = []
        self.results: list[list[str]] = []

    async def _rise(self) -> None:
        self._dut.clk.value = 1
        await self._half
        self.clocks += 1

    async def reset(self, clocks: int) -> None:
        """So many clocks of reset, in which no beat may be taken."""
        self._dut.rst.value = 1
        for _ in range(clocks):
            self._dut.clk.value = 0
            for source in self.sources:
                source.refuse()
            self._dut.m_axis_tready.value = 1
            await self._half
            for source in self.sources:
                source.check_refused()
            await self._rise()
        self._dut.rst.value = 0
        self.forget()

    async def clock(self, *, offer: bool = True) -> None:
        """One clock."""
        dut = self._dut
        dut.clk.value = 0
        for source in self.sources:
            source.show(offer=offer)
        ready = not next(self._stalls)
        dut.m_axis_tready.value = int(ready)
        await self._half
        assert dut.m_axis_tvalid.value.is_resolvable, "m_axis_tvalid is unknown"
        now = [str(pin.value) for pin in self.outputs] if dut.m_axis_tvalid.value == 1 else None
        if self.stalled is not None:
            assert now == self.stalled, f"a stalled result changed from {self.stalled} to {now}"
        if now is not None and ready:
            self.results.append(now)
            self.left.append(self.clocks)
        self.stalled = now if not ready else None
        taken = [source.settle() for source in self.sources]
        assert taken[0] == taken[1], "operands were not taken together"
        if taken[0]:
            self.taken.append(self.clocks)
        await self._rise()

    async def run(self, beats: int) -> None:
        """Offer all beats, and go on until nothing has come out for a while."""
        start, limit = self.clocks, self._options["limit"]
        while len(self.taken) < beats:
            await self.clock()
            assert self.clocks - start < limit, f"beat {len(self.taken)} of {beats} was never taken"
        quiet = 0
        while quiet < self._options["clocks_after"]:
            before = len(self.results)
            await self.clock()
            quiet = 0 if self.stalled is not None or len(self.results) > before else quiet + 1
            assert self.clocks - start < 2 * limit, "results never end"
        for source in self.sources:
            assert not source.offered, "operand beats were left over"


@cocotb.test()
async def layer(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the job of MXSAFE_STIMULUS and write what comes out to MXSAFE_LOG."""
    options = json.loads(os.environ["MXSAFE_OPTIONS"])
    with np.load(os.environ["MXSAFE_STIMULUS"]) as archive:
        job = {name: archive[name] for name in archive.files}
    sources = []
    for index, side in enumerate(("a", "w")):
        data = [int.from_bytes(word, "little") for word in map(bytes, job[side])]
        columns = [data, job[f"{side}_last"].astype(int).tolist()]
        pins: tuple[str, ...] = ("tdata", "tlast")
        if side == "a":
            columns.append(job["a_user"].astype(int).tolist())
            pins += ("tuser",)
        beats = list(zip(*columns, strict=True))
        seed = options["seed"] + 1 + index
        sources.append(Source(dut, f"s_axis_{side}", pins, beats, seed, options["stall_in"]))
    bench = Bench(dut, options, sources)
    for source in sources:
        source.show(offer=False)
    await bench.reset(RESET_CLOCKS[0])
    for number, clocks in enumerate(options["resets_after"], start=1):
        for _ in range(clocks):
            await bench.clock()
        await bench.reset(RESET_CLOCKS[number % len(RESET_CLOCKS)])
        if number % 2:  # the job follows every other reset at once
            for _ in range(options["clocks_after"]):
                await bench.clock(offer=False)
            assert not bench.results, f"beats came out after reset {number}"
    await bench.run(len(job["a"]))
    logged = {}
    for column, pin in enumerate(bench.outputs):
        texts = [row[column] for row in bench.results]
        bits = np.frombuffer("".join(texts).encode(), np.uint8).reshape(len(texts), -1) - 48
        assert not (bits > 1).any(), f"{pin._name} is unknown"
        logged[pin._name] = np.packbits(bits[:, ::-1], axis=1, bitorder="little")
    np.savez(
        os.environ["MXSAFE_LOG"],
        taken=np.array(bench.taken),
        left=np.array(bench.left),
        **logged,
    )
