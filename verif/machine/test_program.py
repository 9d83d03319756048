"""Programs with the machine that they are for."""

import pytest

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.program import Program

DEFAULT = MachineConfiguration()


def test_length() -> None:
    load = Assembler(DEFAULT).load(buffer="vector", count_0=2)
    program = Program.assembled([load, load], DEFAULT)
    assert program.length == 2
    assert program.data == 2 * load.encoded()
    assert Program(b"", DEFAULT).length == 0


def test_parts_of_descriptors_are_refused() -> None:
    with pytest.raises(ValueError) as error:
        Program(bytes(33), DEFAULT)
    assert str(error.value) == "program must have a multiple of 32 bytes, not 33"
