"""The judge of descriptors against the assembler's: borders of every field and of every rule."""

import pytest

from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
)
from mxsafe.rtl.machine.control.descriptor_check import (
    DescriptorCheck,
    DescriptorCheckConfiguration,
)
from verif.rtl.machine.control.control_checks import check_verdicts
from verif.support.tests import Volume, raises, typical
from verif.support.units import generated, published

SMALL = MachineConfiguration(
    rows=8,
    unit_rows=4,
    reduction_beats=16,
    functions=("relu", "silu"),
    reductions=("rms_norm",),
    conversions=("tiles",),
    affine=False,
    format_w="mxfp4_e2m1",
)


PUBLISHED = {
    "descriptor_check": MachineConfiguration(),
    "descriptor_check_anchored": WINDOW_MACHINE,
    "descriptor_check_bf16": BF16_MACHINE,
    "descriptor_check_small": SMALL_MACHINE,
    "descriptor_check_small_no_sweeps_fpga": FPGA_MACHINE,
}


@pytest.mark.parametrize("name", typical(published(DescriptorCheck), every=3))
def test_verdicts_are_the_assemblers(name: str, simulator: str, volume: Volume) -> None:
    module = published(DescriptorCheck)[name]
    count = volume(1_000, 8_000, 2_000)
    check_verdicts(simulator, module, PUBLISHED[name], count)


@pytest.mark.full
def test_verdicts_of_another_machine(simulator: str, volume: Volume) -> None:
    module = generated(DescriptorCheck(machine=SMALL))
    check_verdicts(simulator, module, SMALL, volume(2_000, 8_000))


def test_what_a_machine_refuses_is_refused() -> None:
    with raises(ValueError, "rows must be one of 4, 8, 16, not 12"):
        DescriptorCheck(machine=MachineConfiguration(rows=12))


def test_machines_that_differ_have_names_that_differ() -> None:
    """Sizes that the rules depend on are in the name, and no others."""
    names = {
        DescriptorCheckConfiguration(machine=machine).module_name
        for machine in (MachineConfiguration(), SMALL, MachineConfiguration(a_beats=64))
    }
    small = "rows8_reduction_beats16_functions9_reductions4_conversions2_no_affine"
    small += "_nibbles_tiles_nibbles_tiles"
    assert names == {"descriptor_check", f"descriptor_check_{small}"}
