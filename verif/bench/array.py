"""The bench of systolic tensor arrays: three AXI4-Streams each, with stalls of their own.

Sources and sinks are cocotbext-axi's. What goes in and what comes out are files; comparing is the
business of the pytest process. One job is a list of tiles; a tile is a frame on each stream. Arrays
in one design have ports with prefixes, and jobs that run at the same time.
"""

import itertools
import logging
import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.handle import LogicObject
from cocotb.triggers import ClockCycles, RisingEdge, SimTimeoutError, Timer, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from verif.bench.difference import changed_bits
from verif.bench.job import job, packed, write_log
from verif.bench.pacing import RESET_CLOCKS, pauses

PERIOD_NS = 2

_SHY = (True, False, False, False)
"""Whether a sink that pauses is not ready before it sees a result, in turn."""
_SHY_BURST = 16
"""Cycles of each turn."""


def ready_after_valid(paused: Iterator[bool], valid: LogicObject) -> Iterator[bool]:
    """Pauses of a sink that at times waits for a result first, since an array must not for it."""
    for waits in itertools.cycle(_SHY):
        for _ in range(_SHY_BURST):
            yield next(paused)
            while waits and valid.value != 1:
                yield True


def frames(words: list[int], user: list[int] | None, last: list[int]) -> list[AxiStreamFrame]:
    """Cut beats into frames after each `last`."""
    result = []
    start = 0
    for end in [at + 1 for at, ends in enumerate(last) if ends]:
        flags = None if user is None else user[start:end]
        result.append(AxiStreamFrame(tdata=words[start:end], tuser=flags))
        start = end
    return result


class Array:
    """One array: its streams and its job.

    Parameters
    ----------
    job : dict
        Beats of both operands and their flags.
    """

    def __init__(
        self,
        dut: cocotb.handle.HierarchyObject,
        prefix: str,
        job: dict[str, list[int]],
        options: dict[str, Any],
    ) -> None:
        self._options = options
        self._pins = {
            name: getattr(dut, f"{prefix}{name}")
            for name in (
                "s_axis_a_tvalid",
                "s_axis_w_tvalid",
                *(f"m_axis_c_{pin}" for pin in ("tvalid", "tready", "tdata", "tlast", "tuser")),
            )
        }
        self._dut = dut
        streams = []
        for index, (kind, name) in enumerate(
            (
                (AxiStreamSource, "s_axis_a"),
                (AxiStreamSource, "s_axis_w"),
                (AxiStreamSink, "m_axis_c"),
            )
        ):
            bus = AxiStreamBus.from_prefix(dut, f"{prefix}{name}")
            stream = kind(bus, dut.clk, dut.rst, byte_lanes=1)
            stream.log.setLevel(logging.WARNING)
            stall = options["stall"][kind is AxiStreamSink]
            if stall:
                paused = pauses(options["seed"] + index, stall)
                if kind is AxiStreamSink:
                    paused = ready_after_valid(paused, self._pins["m_axis_c_tvalid"])
                stream.set_pause_generator(paused)
            streams.append(stream)
        self._source_a, self._source_w, self._sink = streams
        flags = zip(job["a_first"], job["a_block_last"], job["a_mode"], strict=True)
        user = [first + 2 * last + 4 * mode for first, last, mode in flags]
        self._frames = (
            (self._source_a, frames(job["a"], user, job["a_last"])),
            (
                self._source_w,
                frames(job["w"], job["w_mode"] if options["w_has_user"] else None, job["w_last"]),
            ),
        )

    def start(self) -> None:
        """Offer the first tiles, of which a reset leaves nothing."""
        for source, queue in self._frames:
            for frame in queue[:4]:
                source.send_nowait(AxiStreamFrame(frame))

    def clear(self) -> None:
        """Forget what the streams hold."""
        for stream in (self._source_a, self._source_w, self._sink):
            stream.clear()

    def show_noise(self, seed: int) -> None:
        """Put random values on the pins of both sources while nothing is valid.

        A source in reset shows zeros, and an array that wrongly took them would add nothing.
        """
        generator = random.Random(seed)
        for source, _ in self._frames:
            for name in ("tdata", "tuser", "tlast"):
                pin = getattr(source.bus, name, None)
                if pin is not None:
                    pin.value = generator.getrandbits(len(pin))

    def check_nothing_came(self, number: int) -> None:
        """Fail when something came out after a reset."""
        assert self._sink.empty(), f"a tile came out after reset {number}"
        assert self._sink.idle(), f"rows came out after reset {number}"

    async def _stays_while_stalled(self) -> None:
        """Fail when a result goes away or changes before it is taken."""
        names = [f"m_axis_c_{name}" for name in ("tvalid", "tdata", "tlast", "tuser")]
        pins = [self._pins[name] for name in names]
        ready = self._pins["m_axis_c_tready"]
        offered = None
        while True:
            await RisingEdge(self._dut.clk)
            if offered is not None:
                now = [str(pin.value) for pin in pins]
                for name, was, value in zip(names, offered, now, strict=True):
                    if value != was:
                        told = changed_bits(name, was, value)
                        raise AssertionError(f"a stalled result changed: {told}")
            stalled = pins[0].value == 1 and ready.value == 0 and self._dut.rst.value == 0
            offered = [str(pin.value) for pin in pins] if stalled else None

    async def _first_beat(self) -> int:
        """Time of the first cycle at which both operands are there."""
        valids = [self._pins[f"{name}_tvalid"] for name in ("s_axis_a", "s_axis_w")]
        while not all(pin.value == 1 for pin in valids):
            await RisingEdge(self._dut.clk)
        return get_sim_time("step")

    async def run(self) -> dict[str, Any]:
        """Send the job; logs the rows that come out, their flags and the cycles it took."""
        options = self._options
        cocotb.start_soon(self._stays_while_stalled())
        begun = cocotb.start_soon(self._first_beat())
        for source, queue in self._frames:
            for frame in queue:
                source.send_nowait(frame)
        tiles = len(self._frames[0][1])
        came, flags, received = [], [], None
        for number in range(tiles):
            try:
                received = await with_timeout(
                    self._sink.recv(compact=False), options["clocks_per_tile"] * PERIOD_NS, "ns"
                )
            except SimTimeoutError:
                raise AssertionError(f"tile {number + 1} of {tiles} never came out") from None
            came += received.tdata
            flags += received.tuser
        await ClockCycles(self._dut.clk, options["clocks_after"])
        assert self._sink.empty(), "more tiles came out than went in"
        assert self._sink.idle(), "rows followed the last tile"
        assert self._source_a.idle(), "beats of the first operand were left over"
        assert self._source_w.idle(), "beats of the second operand were left over"
        assert received is not None
        cycles = 1 + (received.sim_time_end - begun.result()) / (1000 * PERIOD_NS)
        width = len(self._pins["m_axis_c_tdata"])
        return {"rows": packed(width, came), "user": flags, "cycles": cycles}


@cocotb.test()
async def array(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the jobs of all arrays at once and log what comes out."""
    options = job()
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    arrays = [
        Array(dut, prefix, options["beats"][prefix], own)
        for prefix, own in options["arrays"].items()
    ]

    async def reset(clocks: int, number: int) -> None:
        dut.rst.value = 1
        await Timer(PERIOD_NS // 2, "ns")  # sources have seen the reset, and show zeros
        for one in arrays:
            one.show_noise(number)
        await ClockCycles(dut.clk, clocks)
        dut.rst.value = 0
        await RisingEdge(dut.clk)

    await reset(RESET_CLOCKS[0], 0)
    for number, cycles in enumerate(options["resets_after"], start=1):
        for one in arrays:
            one.start()
        await ClockCycles(dut.clk, cycles)
        for one in arrays:
            one.clear()
        await reset(RESET_CLOCKS[number % len(RESET_CLOCKS)], number)
        for one in arrays:
            one.clear()
        if number < len(options["resets_after"]):  # the job follows the last one at once
            await ClockCycles(dut.clk, max(o["clocks_after"] for o in options["arrays"].values()))
            for one in arrays:
                one.check_nothing_came(number)
    tasks = [cocotb.start_soon(one.run()) for one in arrays]
    write_log([await task for task in tasks])
