"""Latencies that the timing model takes from units."""

from dataclasses import replace

from mxsafe.machine.compiler.timing import Times
from mxsafe.machine.configuration import FPGA_MACHINE, MachineConfiguration
from mxsafe.rtl.accelerator.times import times_of


def test_usual_times_are_those_of_the_usual_machine() -> None:
    assert times_of(MachineConfiguration()) == Times()


def test_times_of_a_machine_for_fpgas() -> None:
    found = times_of(FPGA_MACHINE)
    assert (found.beat, found.parts, found.block) == (2, 8, 16)


def test_times_of_a_machine_without_some_units() -> None:
    bare = MachineConfiguration(functions=(), reductions=(), conversions=())
    absent = {"function": 0, "convert": 0, "softmax": 0, "layer_norm": 0, "rms_norm": 0}
    assert times_of(bare, memory=7) == replace(Times(), memory=7, **absent)
