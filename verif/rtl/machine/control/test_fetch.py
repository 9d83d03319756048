"""Fetch: programs in order, with late words, full queues and errors of every kind."""

import numpy as np
import pytest

from mxsafe.machine.configuration import FPGA_MACHINE, MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES
from mxsafe.rtl.machine.control.descriptor_check import DescriptorCheckConfiguration
from mxsafe.rtl.machine.control.fetch import Fetch
from verif.rtl.machine.control.control_checks import (
    check_fetch,
    programs_at_the_top,
    random_programs,
)
from verif.rtl.machine.descriptor_cases import good_descriptor
from verif.support.tests import some
from verif.support.units import generated

MACHINES = {
    "word": MachineConfiguration(),
    "two words": MachineConfiguration(rows=8),
    "for an FPGA": FPGA_MACHINE,
}


@pytest.mark.parametrize("size", some(MACHINES))
def test_random_programs(size: str, simulator: str) -> None:
    machine = MACHINES[size]
    rng = np.random.default_rng(7)
    programs = random_programs(rng, 40 if simulator == "verilator" else 15, machine)
    word = good_descriptor(rng, "load", machine).to_bytes(DESCRIPTOR_BYTES, "little")
    length = machine.word_bytes
    split = [int.from_bytes(word[i : i + length], "little") for i in range(0, len(word), length)]
    programs.append({"words": split, "address": 5, "errors": []})
    module = generated(Fetch(check=DescriptorCheckConfiguration(machine=machine)))
    check_fetch(simulator, module, machine, programs)


@pytest.mark.parametrize("size", some(MACHINES))
def test_programs_at_the_top(size: str, simulator: str) -> None:
    """Up to the last word of all addresses, and beyond: nothing is asked for at 0."""
    machine = MACHINES[size]
    programs = programs_at_the_top(np.random.default_rng(8), machine)
    module = generated(Fetch(check=DescriptorCheckConfiguration(machine=machine)))
    check_fetch(simulator, module, machine, programs)
