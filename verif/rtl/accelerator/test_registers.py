"""The registers against the description: values, strobes, programs that end or fail, resets."""

from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.accelerator.registers import Registers, RegistersConfiguration
from verif.support.control_checks import check_registers
from verif.support.generated import generated
from verif.support.tests import Tally

OTHER = MachineConfiguration(rows=8, unit_rows=2, arithmetic="fp12", a_beats=64, data_width=64)


FOR_FPGAS = replace(OTHER, arithmetic="exact", target="fpga")


@pytest.mark.parametrize(
    "machine", [MachineConfiguration(), OTHER, FOR_FPGAS], ids=["usual", "other", "fpga"]
)
def test_registers(
    machine: MachineConfiguration, simulator: str, tmp_path: Path, tally: Tally
) -> None:
    module = generated(Registers(RegistersConfiguration.of(machine)), tmp_path)
    tally(simulator, "registers read", check_registers(simulator, module, machine))


def test_constants_that_cannot_be() -> None:
    usual = RegistersConfiguration().constants
    with pytest.raises(ValueError) as error:
        Registers(constants=usual[1:])
    assert str(error.value) == f"constants must be {len(usual)} numbers, not {len(usual) - 1}"
    with pytest.raises(ValueError) as error:
        Registers(constants=(1 << 32, *usual[1:]))
    assert str(error.value) == "constants must be numbers of 32 bits, not 4294967296"


def test_machines_that_differ_have_names_that_differ() -> None:
    names = [RegistersConfiguration.of(one).module_name for one in (MachineConfiguration(), OTHER)]
    assert names[0] == "registers"
    assert names[1].startswith("registers_array")
