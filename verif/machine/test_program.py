"""Programs with the machine that they are for."""

from mxsafe.machine.assembler import Assembler
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.program import Program
from verif.support.tests import raises

DEFAULT = MachineConfiguration()


def test_length() -> None:
    load = Assembler(DEFAULT).load(buffer="vector", count_0=2)
    program = Program.assembled([load, load], DEFAULT)
    assert program.length == 2
    assert program.data == 2 * load.encoded()
    assert Program(b"", DEFAULT).length == 0


def test_parts_of_descriptors_are_refused() -> None:
    with raises(ValueError, "program must have a multiple of 32 bytes, not 33"):
        Program(bytes(33), DEFAULT)
