"""Base of a machine's parts: each gets the whole machine, which alone says the sizes."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.machine.ports import KINDS
from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration


class PartConfiguration(Configuration, eq=False):
    """A part of a machine.

    Its parameters and its name say those `sizes` of the machine that decide it. Parts of which
    these are equal are equal, whatever machines they are of.
    """

    decided_by: ClassVar[tuple[str, ...]]
    """Names of `sizes` that the machine has."""

    machine: MachineConfiguration = field(default_factory=MachineConfiguration)

    @classmethod
    def sizes(cls, machine: MachineConfiguration) -> dict[str, Any]:
        """All of the machine that decides the part, by name; usually what `decided_by` names."""
        return {name: getattr(machine, name) for name in cls.decided_by}

    @property
    def decisive(self) -> dict[str, Any]:
        """Sizes of the machine."""
        return self.sizes(self.machine)

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the default machine."""
        return self.sizes(MachineConfiguration())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartConfiguration) or type(other) is not type(self):
            return NotImplemented
        return self.decisive == other.decisive

    def __hash__(self) -> int:
        return hash((type(self), *self.decisive.values()))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of memories of operands: codes, and scales if the machine has them."""
        return KINDS if self.machine.scaled else KINDS[:1]

    @property
    def _for_target(self) -> list[str]:
        """Last part of a name: the target, unless it is that of the default machine."""
        return [value for name, value in self._unusual().items() if name == "target"]

    @property
    def _shared(self) -> Mapping[str, Any]:
        """The machine, its fields, and the bytes of its words."""
        machine = self.machine
        return {**vars(machine), "machine": machine, "word_bytes": machine.word_bytes}

    @property
    def target(self) -> Target:
        """Target that it is built for."""
        return self.machine.target
