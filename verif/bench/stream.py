"""The bench of units with one AXI4-Stream in and one out, each with stalls of its own.

What goes in and what comes out are files; comparing is the business of the pytest process. The
source offers a beat until it is taken and shows noise in between; the sink takes what it likes.
"""

import json
import os
import random
from collections.abc import Iterator

import cocotb
import numpy as np
from cocotb.triggers import Timer

from verif.bench.array import RESET_CLOCKS, pauses

INPUTS = ("s_axis_tdata", "s_axis_tlast", "s_axis_tuser")
OUTPUTS = ("m_axis_tdata", "m_axis_tlast", "m_axis_tuser")
IDLE = 16
"""Clocks without a beat, beyond those that the caller allows for, after which nothing comes."""


class Bench:
    """Source, sink and clock, a clock at a time."""

    def __init__(self, dut: cocotb.handle.HierarchyObject, options: dict) -> None:
        self._dut = dut
        self._half = Timer(1, "ns")
        self._noise = random.Random(options["seed"])
        self._gaps = self._pauses(options["seed"], options["stall_in"])
        self._stalls = self._pauses(options["seed"] + 1, options["stall_out"])
        self.outputs = [getattr(dut, name) for name in OUTPUTS if hasattr(dut, name)]
        self.inputs = [getattr(dut, name) for name in INPUTS if hasattr(dut, name)]
        self.clocks = 0
        self.forget()

    @staticmethod
    def _pauses(seed: int, probability: float) -> Iterator[bool]:
        return pauses(seed, probability) if probability else iter(lambda: False, True)

    def forget(self) -> None:
        """Start the logs afresh, with nothing on offer, as after a reset."""
        self.offered = False
        self.stalled: list[str] | None = None
        self.taken: list[int] = []
        self.left: list[int] = []
        self.results: list[list[str]] = []

    async def _clock(self) -> None:
        self._dut.clk.value = 1
        await self._half
        self.clocks += 1

    async def reset(self, clocks: int) -> None:
        """So many clocks of reset, in which no beat may be taken or come out later."""
        dut = self._dut
        dut.rst.value = 1
        for clock in range(clocks):
            dut.clk.value = 0
            dut.s_axis_tvalid.value = 1
            dut.m_axis_tready.value = self._noise.getrandbits(1)
            await self._half
            assert dut.s_axis_tready.value == 0, f"a beat was taken in clock {clock} of a reset"
            await self._clock()
        dut.rst.value = 0
        self.forget()

    async def clock(self, beat: tuple[int, ...] | None) -> None:
        """One clock with a beat to offer, if there is one left."""
        dut = self._dut
        dut.clk.value = 0
        if not self.offered:
            self.offered = beat is not None and not next(self._gaps)
            noise = [self._noise.getrandbits(len(pin)) for pin in self.inputs]
            values = beat if beat is not None and self.offered else noise
            for pin, value in zip(self.inputs, values, strict=True):
                pin.value = value
            dut.s_axis_tvalid.value = int(self.offered)
        ready = not next(self._stalls)
        dut.m_axis_tready.value = int(ready)
        await self._half
        valid = dut.m_axis_tvalid.value == 1
        now = [str(pin.value) for pin in self.outputs] if valid else None
        if self.stalled is not None:
            assert now == self.stalled, f"a stalled result changed from {self.stalled} to {now}"
        if now is not None and ready:
            self.results.append(now)
            self.left.append(self.clocks)
        self.stalled = now if not ready else None
        assert dut.m_axis_tvalid.value.is_resolvable, "m_axis_tvalid is unknown"
        if self.offered and dut.s_axis_tready.value == 1:
            self.taken.append(self.clocks)
            self.offered = False
        await self._clock()

    async def run(self, beats: list[tuple[int, ...]], clocks_after: int, limit: int) -> None:
        """Offer all beats, and go on until nothing has come out for a while."""
        start = self.clocks
        while len(self.taken) < len(beats):
            taken = len(self.taken)
            await self.clock(beats[taken])
            assert self.clocks - start < limit, f"beat {taken} of {len(beats)} was never taken"
        quiet = 0
        while quiet < clocks_after + IDLE:
            before = len(self.results)
            await self.clock(None)
            waits = self.stalled is not None or len(self.results) > before
            quiet = 0 if waits else quiet + 1
            assert self.clocks - start < 2 * limit, "results never end"


@cocotb.test()
async def stream(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the job of MXSAFE_STIMULUS and write what comes out to MXSAFE_LOG."""
    options = json.loads(os.environ["MXSAFE_OPTIONS"])
    with np.load(os.environ["MXSAFE_STIMULUS"]) as archive:
        job = {name: archive[name] for name in archive.files}
    data = [int.from_bytes(word, "little") for word in map(bytes, job.pop("words"))]
    flags = [job[name].astype(int).tolist() for name in ("last", "user") if name in job]
    beats = list(zip(data, *flags, strict=True))
    bench = Bench(dut, options)
    for pin in bench.inputs:
        pin.value = 0
    await bench.reset(RESET_CLOCKS[0])
    for number, clocks in enumerate(options["resets_after"], start=1):
        for _ in range(clocks):
            done = len(bench.taken)
            await bench.clock(beats[done] if done < len(beats) else None)
        await bench.reset(RESET_CLOCKS[number % len(RESET_CLOCKS)])
        if number < len(options["resets_after"]):  # the job follows the last one at once
            for _ in range(options["clocks_after"] + IDLE):
                await bench.clock(None)
            assert not bench.results, f"beats came out after reset {number}"
            alone = (beats[0][0], 1, *beats[0][2:])
            await bench.run([alone], options["clocks_after"], options["limit"])
            came = len(bench.results)
            assert came == options["alone"], f"{came} beats came out for one after reset {number}"
            bench.forget()
    await bench.run(beats, options["clocks_after"], options["limit"])
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
