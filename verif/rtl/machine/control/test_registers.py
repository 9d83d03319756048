"""The registers against the description: values, strobes, programs that end or fail, resets.

`verif/rtl/specifications/registers.v` says what they do at every moment of a command and of an
event, with counters of all 64 bits, which no simulation can count up to.
"""

import pytest

from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration
from mxsafe.rtl.machine.control.registers import Registers, RegistersConfiguration
from verif.rtl.machine.control.register_checks import check_registers
from verif.support.units import generated

OTHER = MachineConfiguration(rows=8, unit_rows=2, arithmetic="fp12", a_beats=64, data_width=64)

MACHINES = {
    "default": MachineConfiguration(),
    "small": SMALL_MACHINE,
    "fpga": FPGA_MACHINE,
    "other": OTHER,
}


@pytest.mark.parametrize("name", MACHINES)
def test_registers(name: str, simulator: str) -> None:
    machine = MACHINES[name]
    module = generated(Registers(machine=machine))
    check_registers(simulator, module, machine, 5_000)


def test_machines_that_differ_have_names_that_differ() -> None:
    names = [
        RegistersConfiguration(machine=one).module_name for one in (MachineConfiguration(), OTHER)
    ]
    assert names[0] == "registers"
    assert names[1].startswith("registers_array")
