"""The judge of descriptors against the assembler's: borders of every field and of every rule."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mxsafe.machine.assembler import fault_of
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES, DESCRIPTORS, ERRORS
from mxsafe.rtl.accelerator.descriptor_check import DescriptorCheck, DescriptorCheckConfiguration
from verif.support.checkers import assert_equal
from verif.support.descriptor_cases import good_descriptor, single_faults, wrong_descriptors
from verif.support.generated import generated
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Tally, Volume

SMALL = MachineConfiguration(
    rows=8,
    unit_rows=4,
    reduction_beats=16,
    functions=("relu", "silu"),
    reductions=("rms_norm",),
    conversions=("tiles",),
    affine=False,
)


def check_verdicts(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    count: int,
    *,
    sources: list[Path] | None = None,
) -> Counter[str]:
    """Verdicts are the assembler's; returns how many there are of each."""
    rng = np.random.default_rng(11)
    words = [good_descriptor(rng, name, machine) for name in DESCRIPTORS for _ in range(count // 8)]
    words += wrong_descriptors(rng, count, machine)
    words += [word for _, word in single_faults(rng, machine)]
    raw = [word.to_bytes(DESCRIPTOR_BYTES, "little") for word in words]
    faults = [fault_of(one, machine) for one in raw]
    names = ["none" if fault is None else fault.error for fault in faults]
    stimulus = {"descriptor": np.frombuffer(b"".join(raw), np.uint8).reshape(len(raw), -1)}
    log = run_lockstep(simulator, module, stimulus, sources=sources)
    got = module.ports["error"].numbers(log["error"])
    model = np.array([ERRORS[name] for name in names])
    assert_equal("verdicts differ", got, model, descriptor=np.array([w.hex() for w in raw]))
    found = Counter(names)
    assert min(found[name] for name in ("none", "malformed", "opcode")) > 0, f"only {found}"
    return found


@pytest.mark.parametrize("machine", [MachineConfiguration(), SMALL], ids=["usual", "small"])
def test_verdicts_are_the_assemblers(
    machine: MachineConfiguration, simulator: str, tmp_path: Path, tally: Tally, volume: Volume
) -> None:
    module = generated(DescriptorCheck(DescriptorCheckConfiguration.of(machine)), tmp_path)
    found = check_verdicts(simulator, module, machine, volume(2_000, 8_000))
    tally(simulator, "descriptors judged", found.total())


def test_what_a_machine_refuses_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        DescriptorCheck(rows=12)
    assert str(error.value) == "rows must be one of 8, 16, not 12"


def test_machines_that_differ_have_names_that_differ() -> None:
    """Those sizes that the rules depend on are in the name, and no others."""
    names = {
        DescriptorCheckConfiguration.of(machine).module_name
        for machine in (MachineConfiguration(), SMALL, MachineConfiguration(a_beats=64))
    }
    small = "rows8_reduction_beats16_functions9_reductions4_conversions2_no_affine"
    assert names == {"descriptor_check", f"descriptor_check_{small}"}
