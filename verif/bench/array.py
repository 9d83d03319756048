"""The bench of the systolic tensor array: three AXI4-Streams with stalls of their own.

Sources and sink are cocotbext-axi's. What goes in and what comes out are files; comparing is the
business of the pytest process. One job is a list of tiles; a tile is a frame on each stream.
"""

import json
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, SimTimeoutError, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

PERIOD_NS = 2
RESET_CLOCKS = (4, 1)
"""Lengths of resets, in turn; before the first one every register is unknown."""


def pauses(seed: int, probability: float) -> Iterator[bool]:
    """Whether a stream pauses, cycle by cycle: random, in bursts of random density."""
    generator = random.Random(seed)
    while True:
        density = generator.choice((0.0, probability, 2 * probability))
        for _ in range(64):
            yield generator.random() < density


def frames(words: np.ndarray, user: np.ndarray | None, last: np.ndarray) -> list[AxiStreamFrame]:
    """Cut beats into frames after each `last`."""
    result = []
    start = 0
    for end in (np.flatnonzero(last) + 1).tolist():
        data = [int.from_bytes(bytes(word), "little") for word in words[start:end]]
        flags = None if user is None else [int(value) for value in user[start:end]]
        result.append(AxiStreamFrame(tdata=data, tuser=flags))
        start = end
    return result


async def stays_while_stalled(dut: cocotb.handle.HierarchyObject) -> None:
    """Fail when a result goes away or changes before it is taken."""
    offered = None
    while True:
        await RisingEdge(dut.clk)
        pins = (dut.m_axis_c_tvalid, dut.m_axis_c_tdata, dut.m_axis_c_tlast, dut.m_axis_c_tuser)
        if offered is not None:
            now = [str(pin.value) for pin in pins]
            assert now == offered, f"a stalled result changed from {offered} to {now}"
        stalled = dut.m_axis_c_tvalid.value == 1 and dut.m_axis_c_tready.value == 0
        offered = [str(pin.value) for pin in pins] if stalled and dut.rst.value == 0 else None


@cocotb.test()
async def array(dut: cocotb.handle.HierarchyObject) -> None:
    """Run the job of MXSAFE_STIMULUS and write what comes out to MXSAFE_LOG."""
    options = json.loads(os.environ["MXSAFE_OPTIONS"])
    with np.load(os.environ["MXSAFE_STIMULUS"]) as archive:
        job = {name: archive[name] for name in archive.files}
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    streams = {}
    for index, (kind, name) in enumerate(
        ((AxiStreamSource, "s_axis_a"), (AxiStreamSource, "s_axis_w"), (AxiStreamSink, "m_axis_c"))
    ):
        stream = kind(AxiStreamBus.from_prefix(dut, name), dut.clk, dut.rst, byte_lanes=1)
        stream.log.setLevel(logging.WARNING)
        if options["stall"]:
            stream.set_pause_generator(pauses(options["seed"] + index, options["stall"]))
        streams[name] = stream
    source_a, source_w, sink = streams.values()

    async def reset(clocks: int) -> None:
        dut.rst.value = 1
        await ClockCycles(dut.clk, clocks)
        dut.rst.value = 0
        await RisingEdge(dut.clk)

    a_frames = frames(job["a"], job["a_first"] + 2 * job["a_block_last"], job["a_last"])
    w_frames = frames(job["w"], None, job["w_last"])
    await reset(RESET_CLOCKS[0])
    for number, cycles in enumerate(options["resets_after"], start=1):
        for source, queue in ((source_a, a_frames), (source_w, w_frames)):
            for frame in queue[:4]:
                source.send_nowait(AxiStreamFrame(frame))
        await ClockCycles(dut.clk, cycles)
        for stream in streams.values():
            stream.clear()
        await reset(RESET_CLOCKS[number % len(RESET_CLOCKS)])
        for stream in streams.values():
            stream.clear()
        if number < len(options["resets_after"]):  # the job follows the last one at once
            await ClockCycles(dut.clk, options["clocks_after"])
            assert sink.empty(), f"a tile came out after reset {number}"
            assert sink.idle(), f"rows came out after reset {number}"

    async def first_beat() -> int:
        """Time of the first clock at which both operands are there."""
        while not (dut.s_axis_a_tvalid.value == 1 and dut.s_axis_w_tvalid.value == 1):
            await RisingEdge(dut.clk)
        return get_sim_time("step")

    cocotb.start_soon(stays_while_stalled(dut))
    begun = cocotb.start_soon(first_beat())
    for source, queue in ((source_a, a_frames), (source_w, w_frames)):
        for frame in queue:
            source.send_nowait(frame)
    rows, flags, received = [], [], None
    for number in range(len(a_frames)):
        try:
            received = await with_timeout(
                sink.recv(compact=False), options["clocks_per_tile"] * PERIOD_NS, "ns"
            )
        except SimTimeoutError:
            raise AssertionError(f"tile {number + 1} of {len(a_frames)} never came out") from None
        rows += received.tdata
        flags += received.tuser
        if options["progress"] and (number % 8 == 0 or number + 1 == len(a_frames)):
            Path(options["progress"]).write_text(f"{number + 1}")
    await ClockCycles(dut.clk, options["clocks_after"])
    assert sink.empty(), "more tiles came out than went in"
    assert sink.idle(), "rows followed the last tile"
    assert source_a.idle(), "beats of the first operand were left over"
    assert source_w.idle(), "beats of the second operand were left over"
    assert received is not None
    cycles = 1 + (received.sim_time_end - begun.result()) / (1000 * PERIOD_NS)
    width = -(-len(dut.m_axis_c_tdata) // 8)
    np.savez(
        os.environ["MXSAFE_LOG"],
        rows=np.array([np.frombuffer(row.to_bytes(width, "little"), np.uint8) for row in rows]),
        user=np.array(flags),
        cycles=np.array(cycles),
    )
