"""Latencies that the timing model takes from units."""

from dataclasses import replace
from itertools import pairwise

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from mxsafe.machine.compiler.timing import Times
from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.rtl.accelerator.accelerator_core import AcceleratorCoreConfiguration
from mxsafe.rtl.accelerator.beat_reader import BeatReader
from mxsafe.rtl.accelerator.times import times_of
from mxsafe.rtl.accelerator.vector_buffer import VectorBuffer
from mxsafe.rtl.accelerator.vector_engine import VectorEngineConfiguration


def test_usual_times_are_those_of_the_usual_machine() -> None:
    assert times_of(MachineConfiguration()) == Times()


def test_times_of_a_machine_for_fpgas() -> None:
    found = times_of(FPGA_MACHINE)
    assert (found.beat, found.parts, found.block) == (2, 8, 16)


@pytest.mark.parametrize("machine", [SMALL_MACHINE, FPGA_MACHINE], ids=["small", "fpga"])
def test_the_pace_of_reads(machine: MachineConfiguration) -> None:
    """What reads operands, with the vector buffer to itself, and somebody who takes every beat."""
    reader = BeatReader(VectorEngineConfiguration.of(machine).reader)
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


def test_times_of_a_machine_without_some_units() -> None:
    bare = MachineConfiguration(functions=(), reductions=(), conversions=())
    absent = {"function": 0, "convert": 0, "softmax": 0, "layer_norm": 0, "rms_norm": 0}
    assert times_of(bare, memory=7) == replace(Times(), memory=7, **absent)
