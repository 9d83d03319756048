"""Counters of accesses in the Verilog: those of the interpreter, which are those predicted."""

from dataclasses import replace

import pytest

from mxsafe.machine.configuration import (
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.rtl.board.serial_machine import SerialMachine
from mxsafe.rtl.machine.accelerator import Accelerator
from verif.rtl.machine.accelerator_checks import (
    WINDOW_COUNTING,
    Program,
    check_program,
    perceptron_program,
)
from verif.rtl.machine.random_programs import covering_programs, random_program
from verif.support.tests import raises
from verif.support.units import generated

COUNTING = replace(
    SMALL_MACHINE,
    counts=True,
    rows=16,
    data_width=256,
    functions=("relu", "relu_derivative", "gelu", "gelu_derivative", "exp"),
)
TINY = replace(
    SMALL_MACHINE,
    counts=True,
    rows=4,
    unit_rows=2,
    functions=("relu",),
    reductions=("layer_norm",),
    conversions=("blocks",),
)
OTHERS = {
    "16 rows": COUNTING,
    "window": replace(COUNTING, arithmetic="window", format_w="mxfp4_e2m1"),
    "8 rows in parts": replace(
        COUNTING, rows=8, data_width=64, array_lanes=2, vector_parts=2, functions=("tanh",)
    ),
    "fpga": replace(FPGA_MACHINE, counts=True),
    "bf16": resized(COUNTING, arithmetic="bf16"),
}
_BASE = 37
"""Where memory of programs begins, in words."""


def check(machine: MachineConfiguration, simulator: str, seed: int, program: Program) -> None:
    """A random program in memory that pauses."""
    module = generated(Accelerator(machine=machine))
    check_program(simulator, module, machine, program, latency=(0, 30), pause=0.2, seed=seed)


def check_all_modes(machine: MachineConfiguration, seed: int) -> None:
    """All that descriptors can do."""
    (program,) = covering_programs(machine, [seed], 300, base=_BASE * machine.word_bytes)
    check(machine, "verilator", seed, program)


@pytest.mark.parametrize(
    "machine",
    [WINDOW_COUNTING, pytest.param(TINY, marks=pytest.mark.variant)],
    ids=["window", "4 rows"],
)
def test_random_programs(machine: MachineConfiguration) -> None:
    check_all_modes(machine, 1)


@pytest.mark.full
def test_random_programs_on_icarus() -> None:
    program = random_program(TINY, 2, 60, base=_BASE * TINY.word_bytes)
    check(TINY, "icarus", 2, program)


@pytest.mark.full
def test_a_training_step() -> None:
    module = generated(Accelerator(machine=COUNTING))
    program = perceptron_program(COUNTING)
    check_program("verilator", module, COUNTING, program, latency=20, pause=0.0)


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
def test_random_programs_of_other_machines(name: str) -> None:
    check_all_modes(OTHERS[name], 3)


def test_a_serial_line_has_no_counters() -> None:
    with raises(
        ValueError,
        "counts must be False on a serial line, which reaches none, not True",
    ):
        SerialMachine(machine=TINY)
