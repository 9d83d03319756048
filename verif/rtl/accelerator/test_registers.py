"""The registers against the description: values, strobes, programs that end or fail, resets."""

from pathlib import Path

import pytest

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import COUNTERS, REGISTERS, constant_registers
from mxsafe.rtl.accelerator.registers import Registers, RegistersConfiguration
from verif.support.bench_job import run_bench
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.tests import Tally

HELD = (
    "interrupt_enable",
    "program_low",
    "program_high",
    "program_length",
    "base_low",
    "base_high",
)
OTHER = MachineConfiguration(rows=8, unit_rows=2, arithmetic="fp12", a_beats=64, data_width=64)


def check_registers(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    *,
    sources: list[Path] | None = None,
) -> int:
    """Run the bench; returns how many reads were compared."""
    masks = {}
    for register in REGISTERS:
        if register.name in HELD:
            bits = sum(((1 << field.width) - 1) << field.offset for field in register.fields)
            masks[register.name] = bits or 0xFFFF_FFFF
    options = {
        "seed": 2,
        "addresses": {register.name: register.address for register in REGISTERS},
        "constants": constant_registers(machine),
        "held": masks,
        "counters": list(COUNTERS),
    }
    compared = run_bench(simulator, module, "registers", options, sources=sources)["compared"]
    assert compared > 0
    return int(compared)


@pytest.mark.parametrize("machine", [MachineConfiguration(), OTHER], ids=["usual", "other"])
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
