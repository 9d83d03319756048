"""Latencies that the timing model takes from units."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from mxsafe.machine.compiler.products import Products
from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    BOARD_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.description import REGISTERS
from mxsafe.rtl.machine.accelerator import Accelerator
from mxsafe.rtl.machine.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.machine.buffers.vector_buffer import VectorBuffer
from mxsafe.rtl.machine.dma.load_engine import LoadEngine
from mxsafe.rtl.machine.dma.store_engine import StoreEngine
from mxsafe.rtl.machine.times import BETWEEN, WORD, between, times_of
from mxsafe.rtl.machine.vector.beat_reader import BeatReader
from mxsafe.rtl.machine.vector.vector_engine import VectorEngineConfiguration


@pytest.mark.parametrize("machine", [MachineConfiguration(), BF16_MACHINE], ids=["mxsf", "bf16"])
def test_default_times_are_those_of_the_default_machine(machine: MachineConfiguration) -> None:
    assert times_of(machine) == Times.of(machine)


def test_times_of_a_machine_with_windows() -> None:
    """Its array is no slower; of a product the first tile waits until its anchors are found."""
    found, usual = times_of(WINDOW_MACHINE), Times()
    assert found.tile == usual.tile
    assert found.block <= usual.block
    cycles = {}
    for machine in (MachineConfiguration(), WINDOW_MACHINE):
        products = Products(machine)
        products.product(products.matrix("a", 64, 640), products.matrix("w", 64, 640).T)
        cycles[machine.arithmetic] = predict(products.emitter).cycles
    assert cycles["exact"] < cycles["window"] <= cycles["exact"] + 4 * 640 // 64


def test_blocks_take_a_multiple_of_the_turns() -> None:
    """Five beats of a last block take six cycles where MACs serve two columns in turn."""
    cycles = {}
    for turns in (1, 2):
        products = Products(WINDOW_MACHINE)
        products.product(products.matrix("a", 64, 660), products.matrix("w", 64, 660).T)
        times = replace(times_of(WINDOW_MACHINE), turns=turns)
        cycles[turns] = predict(products.emitter, times).cycles
    assert times_of(WINDOW_MACHINE).turns == 2
    assert cycles[2] == cycles[1] + (64 // 16) ** 2


def test_times_of_a_machine_for_fpgas() -> None:
    found = times_of(FPGA_MACHINE)
    assert (found.beat, found.parts, found.block, found.pace) == (2, 8, 16, 3)
    ways = {way: between(FPGA_MACHINE, way) for way in BETWEEN}
    assert ways == {"load": 5, "store": 7, "gemm": 4, "vector": 4, "convert": 2}


@pytest.mark.parametrize("machine", [SMALL_MACHINE, FPGA_MACHINE], ids=["small", "fpga"])
def test_the_pace_of_reads(machine: MachineConfiguration) -> None:
    """The reader of operands has the vector buffer to itself, and a sink that takes every beat."""
    reader = BeatReader(VectorEngineConfiguration(machine=machine).reader)
    buffer = VectorBuffer(AcceleratorCoreConfiguration(machine=machine).vector_buffer)
    m = Module()
    m.submodules.reader, m.submodules.buffer = reader, buffer
    connect(m, reader.read, buffer.x)
    clocks = []

    async def bench(context: object) -> None:
        for port, value in ((reader.beats, 40), (reader.rows, 1), (reader.start, 1)):
            context.set(port, value)
        context.set(reader.m_axis.tready, 1)
        await context.tick()
        context.set(reader.start, 0)
        for clock in range(150):
            if context.get(reader.m_axis.tvalid):
                clocks.append(clock)
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(clocks) == 40
    assert {later - clock for clock, later in pairwise(clocks)} == {times_of(machine).pace}


class _Transfers:
    """A LOAD or STORE engine alone, to which a descriptor comes in a cycle of its own."""

    def __init__(self, engine: LoadEngine | StoreEngine) -> None:
        self.engine = engine
        self.clocks = 0

    async def bench(self, context: Any) -> None:
        port = self.engine.engine
        for count in range(4):
            context.set(getattr(port.descriptor, f"count_{count}"), 1)
        for _ in range(3):
            await context.tick()
        context.set(port.valid, 1)
        while not context.get(self.engine.run.valid):
            await context.tick()
            self.clocks += 1
            assert self.clocks < 20, "no run comes"


@pytest.mark.parametrize(
    "machine",
    [MachineConfiguration(), SMALL_MACHINE, FPGA_MACHINE, BOARD_MACHINE, BF16_MACHINE],
    ids=["default", "small", "fpga", "board", "bf16"],
)
@pytest.mark.parametrize("name", ["load", "store"])
def test_the_latency_of_transfers(machine: MachineConfiguration, name: str) -> None:
    """The latency is that of the engine in the machine, not of one with other parameters."""
    core = AcceleratorCoreConfiguration(machine=machine)
    unit = {"load": LoadEngine, "store": StoreEngine}[name](getattr(core, name))
    transfers = _Transfers(unit)
    simulator = Simulator(unit)
    simulator.add_clock(1e-8)
    simulator.add_testbench(transfers.bench)
    simulator.run()
    # A STORE has to be taken first.
    measured = transfers.clocks - (name == "store")
    assert measured == unit.config.latency
    to_memory = {"load": core.reader, "store": core.writer}[name].latency
    known = measured + to_memory + WORD[name] + between(machine, name)
    assert getattr(times_of(machine), name) == known


@pytest.mark.full
@pytest.mark.parametrize("target", ["asic", "fpga"])
def test_the_latency_of_a_machine(target: Literal["asic", "fpga"]) -> None:
    """From the write of the start to the address of the program's first word."""
    machine = Accelerator(machine=replace(BOARD_MACHINE, target=target))
    bus, clocks = machine.s_axi, 0
    addresses = {register.name: register.address for register in REGISTERS}

    async def write(context: Any, name: str) -> None:
        for pin, value in (("awaddr", addresses[name]), ("wdata", 1), ("wstrb", 0xF)):
            context.set(getattr(bus, pin), value)
        context.set(bus.bready, 1)
        for level in (1, 0):
            context.set(bus.awvalid, level)
            context.set(bus.wvalid, level)
            while level and not context.get(bus.awready):
                await context.tick()
            await context.tick()

    async def bench(context: Any) -> None:
        nonlocal clocks
        for _ in range(10):
            await context.tick()
        await write(context, "program_length")
        await write(context, "control")
        clocks = 2  # since the write was taken
        while not context.get(machine.m_axi.arvalid):
            await context.tick()
            clocks += 1
            assert clocks < 50, "no word is asked for"

    simulator = Simulator(machine)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert clocks == machine.config.latency


def test_times_of_a_machine_without_some_units() -> None:
    bare = MachineConfiguration(functions=(), reductions=(), conversions=())
    absent = {
        "function": 0,
        "narrow_functions": (),
        "narrow": 0,
        "narrow_pace": 1,
        "convert": 0,
        "softmax": 0,
        "layer_norm": 0,
        "rms_norm": 0,
        "sum": 0,
    }
    assert times_of(bare, memory=7) == replace(Times(), memory=7, **absent)
