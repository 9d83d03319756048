"""Random programs on the interpreter: independent of time, and wrong ones are found."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import FOLLOWING, QUEUES
from mxsafe.model.machine import Machine
from verif.machine.machine_schedules import run_in_any_order
from verif.machine.machine_sizes import ROWS, machine_of
from verif.rtl.machine.accelerator_checks import Program
from verif.rtl.machine.program_faults import (
    address_faults,
    deadlocks,
    malformed,
    misplaced,
    places_of,
    without_tokens,
)
from verif.rtl.machine.random_programs import (
    all_modes,
    covering_programs,
    modes_of,
    random_program,
    run_in_sequence,
)

MACHINES = [
    machine_of(
        rows,
        a_beats=256,
        w_beats=192,
        out_beats=64,
        vector_banks=2,
        bank_beats=128,
        reduction_beats=64,
        functions=("relu", "gelu"),
    )
    for rows in ROWS
]
WINDOW = replace(MACHINES[0], arithmetic="window", format_w="mxfp4_e2m1")
ORDERS = list(permutations(QUEUES))


def program_of(machine: MachineConfiguration, seed: int) -> Program:
    return random_program(machine, seed, 160, base=5 * machine.word_bytes)


@pytest.mark.parametrize(
    "machine",
    [*MACHINES[:-1], WINDOW, pytest.param(MACHINES[-1], marks=pytest.mark.full)],
    ids=lambda machine: f"{machine.rows} rows, {machine.arithmetic}",
)
def test_results_do_not_depend_on_order(machine: MachineConfiguration) -> None:
    """Queues take turns, go first, run ahead; and a second run does the same again."""
    seeds = 1, 2
    programs = covering_programs(machine, seeds, 160, base=5 * machine.word_bytes)
    for seed, program in zip(seeds, programs, strict=True):
        expected, usual = run_in_sequence(program, machine)
        assert usual > 0.5, "too much is NaN, Inf or 0"
        for order in (None, *ORDERS[seed::12]):
            memory = program.memory.copy()
            outcome = Machine(machine).run(program.data, memory, base=program.base, order=order)
            assert outcome.error == "none", outcome.reason
            assert np.array_equal(memory, expected), order
        before = expected.copy()
        Machine(machine).run(program.data, expected, base=program.base)
        assert np.array_equal(before, expected)
        ahead = program.memory.copy()
        words = ahead[program.base :]
        words = words[: len(words) // machine.word_bytes * machine.word_bytes]
        run_in_any_order(list(program.instructions), words, machine, seed)
        assert np.array_equal(ahead, expected)


@pytest.mark.parametrize("reduction", FOLLOWING)
def test_programs_that_do_everything(reduction: str) -> None:
    """One that is too short goes on as it began; the same seed makes the same program."""
    machine = replace(MACHINES[0], reductions=(reduction,))
    base, wanted = 5 * machine.word_bytes, all_modes(machine)
    short = random_program(machine, 3, 40, base=base)
    assert {*modes_of(short.instructions, machine)} < wanted
    made, again = (covering_programs(machine, [3], 40, base=base)[0] for _ in range(2))
    assert made.instructions == again.instructions
    assert modes_of(made.instructions, machine) == wanted
    count = len(short.instructions) - len(machine.store_buffers)  # without what ends a program
    for one, other in zip(short.instructions[:count], made.instructions[:count], strict=True):
        assert {**one.values, "signal": 0} == {**other.values, "signal": 0}
    with pytest.raises(AssertionError):
        covering_programs(machine, [3], 5, base=base)


def test_without_tokens_results_depend_on_order() -> None:
    """Tokens are what keeps a random program right."""
    machine = MACHINES[0]
    program = program_of(machine, 1)
    data = Assembler(machine).assemble(without_tokens(program.instructions))
    found = set()
    for order in ORDERS[::6]:
        memory = program.memory.copy()
        assert Machine(machine).run(data, memory, base=program.base, order=order).error == "none"
        # The bytes of the program are not those with tokens in memory, which nobody reads.
        found.add(memory.tobytes())
    assert len(found) > 1


@pytest.mark.parametrize(
    "machine",
    [MACHINES[0], WINDOW, pytest.param(MACHINES[1], marks=pytest.mark.full)],
    ids=lambda machine: f"{machine.rows} rows, {machine.arithmetic}",
)
def test_errors(machine: MachineConfiguration) -> None:
    """Each way to be malformed, each place that can be missed, tokens that are missing."""
    program = program_of(machine, 3)
    addresses = list(address_faults(program, machine, seed=2))
    assert len(addresses) == 2 * len(places_of(machine))
    stuck = list(deadlocks(program, machine, seed=3, count=8))
    assert len(stuck) > 5
    count, pieces = 0, list(misplaced(program, seed=4))
    assert len(pieces) > 3
    for fault in [*malformed(program, machine, seed=1), *addresses, *stuck, *pieces]:
        assert fault.program is not None
        outcome = Machine(machine).run(fault.program, program.memory.copy(), base=program.base)
        assert (outcome.error, outcome.descriptor) == (fault.error, fault.number), fault.name
        count += 1
    assert count > 300
