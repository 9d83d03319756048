"""Predicted accesses: those that the interpreter counts as it runs."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mxsafe.machine.accesses import predicted_accesses
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.description import ACCESSES, counted_accesses
from mxsafe.machine.program import Program
from verif.rtl.machine.accelerator_checks import Program as Bench
from verif.rtl.machine.accelerator_checks import encoder_program, perceptron_program
from verif.rtl.machine.random_programs import covering_programs
from verif.support.tests import raises

ALL = replace(SMALL_MACHINE, rows=16, data_width=256, functions=MachineConfiguration().functions)
MACHINES = {
    "16 rows": ALL,
    "window": replace(ALL, arithmetic="window", format_w="mxfp4_e2m1"),
    "parts": replace(ALL, vector_parts=4),
    "8 rows": replace(ALL, rows=8),
    "4 rows": replace(ALL, rows=4, conversions=("blocks",)),
    "fpga": FPGA_MACHINE,
    "bf16": resized(ALL, arithmetic="bf16"),
}


def compared(program: Bench, machine: MachineConfiguration) -> Mapping[str, int]:
    """Accesses of a program, which must be those predicted."""
    _, outcome = program.expected(machine)
    assert outcome.error == "none", outcome.reason
    assert outcome.accesses == predicted_accesses(Program(program.data, machine))
    return outcome.accesses


@pytest.mark.parametrize("name", MACHINES)
def test_random_programs(name: str) -> None:
    machine = MACHINES[name]
    (program,) = covering_programs(machine, [8], 300, base=5 * machine.word_bytes)
    counted = compared(program, machine)
    assert {name for name, count in counted.items() if count} == set(counted_accesses(machine))


def test_compiled_models() -> None:
    for make in (encoder_program, perceptron_program):
        program = make(ALL)
        counted = compared(program, ALL)
        assert program.emitter is not None
        assert predict(program.emitter).accesses == counted
        assert counted["descriptors"] == len(program.instructions)


def test_counters_are_of_one_program() -> None:
    program = perceptron_program(ALL)
    assert compared(program, ALL) == compared(program, ALL)


def test_names_of_other_machines() -> None:
    numbers = counted_accesses(BF16_MACHINE)
    assert {*counted_accesses(ALL), *numbers} == set(ACCESSES)
    assert not any("scales" in name for name in numbers)
    assert "affine" not in counted_accesses(replace(ALL, affine=False))


def test_a_descriptor_that_is_none() -> None:
    program = Program(bytes(32), ALL)
    with raises(ValueError, "descriptor 0: opcode must be one of 1, 2, 3, 4, not 0"):
        predicted_accesses(program)
