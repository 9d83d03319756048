"""Files of descriptors that are given on the command line."""

from pathlib import Path

from mxsafe.cli.arguments import UserError, read_bytes
from mxsafe.machine.assembler import Instruction
from mxsafe.machine.contents import contents
from mxsafe.machine.description import DESCRIPTOR_BYTES


def begins_with_a_descriptor(program: bytes) -> bool:
    """Whether the first descriptor, if any, is of a known kind and has no bits but its fields'.

    Text and files that begin with a mark of their own, as NumPy's, have none such.
    """
    first = program[:DESCRIPTOR_BYTES]
    try:
        return not first or Instruction.decoded(first).encoded() == first
    except ValueError:
        return False


def read_descriptors(path: Path) -> bytes:
    """Return the content of a file of descriptors; it may be empty, or begin with a wrong one.

    Raises
    ------
    UserError
        If it cannot be read, or seems to be of another kind.
    """
    data = read_bytes(path)
    if not begins_with_a_descriptor(data) and (other := contents(data)):
        raise UserError(f"{path} must be a file of descriptors, not {other}")
    return data
