"""Programs with the machine that they are for."""

from collections.abc import Iterable
from dataclasses import dataclass

from mxsafe.machine.assembler import Assembler, Fault, Instruction, decoded, split
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTOR_BYTES
from mxsafe.validation import about, checked


@checked
@dataclass(frozen=True)
class Program:
    """The bytes of a program, and the sizes of the machine that it is for.

    Attributes
    ----------
    data : bytes
        Descriptors, one after the other.
    configuration : MachineConfiguration

    Raises
    ------
    ValueError
        If the bytes are not whole descriptors.
    """

    data: bytes
    configuration: MachineConfiguration

    def __post_init__(self) -> None:
        split(self.data)

    @classmethod
    @checked
    def assembled(
        cls, instructions: Iterable[Instruction], configuration: MachineConfiguration
    ) -> "Program":
        """Instructions as a program.

        Raises
        ------
        TypeError
            If one of them is something else.
        ValueError
            If the machine would not take one of them.
        """
        with about(program="instructions"):
            return cls(Assembler(configuration).assemble(instructions), configuration)

    def instructions(self) -> list[Instruction]:
        """Its descriptors.

        Raises
        ------
        ValueError
            If the machine does not take one of them; the message gives its number.
        """
        found = []
        for number, one in enumerate(decoded(self.data, self.configuration)):
            if isinstance(one, Fault):
                raise ValueError(f"descriptor {number}: {one.reason}")
            found.append(one)
        return found

    @property
    def length(self) -> int:
        """Number of its descriptors."""
        return len(self.data) // DESCRIPTOR_BYTES
