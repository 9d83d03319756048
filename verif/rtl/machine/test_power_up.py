"""Power-up: what registers and buffers hold at first changes no byte of memory.

The simulated machine begins at random, and so does the interpreter, each by a seed of its own.
"""

import pytest

from mxsafe.machine.configuration import (
    BOARD_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
)
from mxsafe.rtl.machine.accelerator import Accelerator
from verif.rtl.machine.accelerator_checks import Program, check_program
from verif.rtl.machine.network_programs import (
    converted_program,
    decoder_program,
    product_program,
)
from verif.support.manifest import Module
from verif.support.units import generated

PUBLISHED = {
    Accelerator(machine=machine).module_name: machine
    for machine in (MachineConfiguration(), SMALL_MACHINE, FPGA_MACHINE)
}
"""Published machines by the names of their modules."""


def check(module: Module, machine: MachineConfiguration, program: Program) -> None:
    """Memory must be the interpreter's from two states."""
    for seed in (1, 2):
        check_program("verilator", module, machine, program, latency=20, pause=0.2, seed=seed)


def check_buffers(module: Module, machine: MachineConfiguration) -> None:
    """Every buffer is loaded, read, written by VECTOR and stored, where a machine can do that.

    Shapes are ragged, and scales of a strip end with half a word.
    """
    for program in (product_program(machine), converted_program(machine)):
        check(module, machine, program)


# The small machine runs in `make test`, too; the others take up to ten seconds to build.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if machine is SMALL_MACHINE else pytest.mark.yosys)
        for name, machine in PUBLISHED.items()
    ],
)
def test_published_machines(name: str, modules: dict[str, Module]) -> None:
    check_buffers(modules[name], PUBLISHED[name])


@pytest.mark.yosys
def test_machine_of_a_board() -> None:
    """The machine of a board has four rows."""
    check_buffers(generated(Accelerator(machine=BOARD_MACHINE)), BOARD_MACHINE)


def test_decoder(modules: dict[str, Module]) -> None:
    """Keys and values that go to memory and come back: of 21 tokens, so with half a word free."""
    program = decoder_program((21, 48, 3, 1, 56, 2), SMALL_MACHINE)
    check(modules["mxsf_accelerator_small"], SMALL_MACHINE, program)
