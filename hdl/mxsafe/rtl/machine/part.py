"""Base of a machine's parts: each gets the whole machine, which alone says sizes and names."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from mxsafe.machine.configuration import (
    BF16_MACHINE,
    CONVERSIONS,
    FPGA_MACHINE,
    FUNCTIONS,
    REDUCTIONS,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.rtl.machine.ports import KINDS
from mxsafe.rtl.timing import Target
from mxsafe.rtl.unit import Configuration, part_of_name

_KNOWN = {"functions": FUNCTIONS, "reductions": REDUCTIONS, "conversions": CONVERSIONS}
"""Allowed entries of each list of a `MachineConfiguration`."""
_FORMATS = frozenset({"format_a", "format_w"})
_MACHINES = (
    ((), MachineConfiguration()),
    (("small",), SMALL_MACHINE),
    (("fpga",), FPGA_MACHINE),
    (("bf16",), BF16_MACHINE),
    (("bf16", "small"), resized(SMALL_MACHINE, arithmetic=BF16_MACHINE.arithmetic)),
)
"""Machines with the words of their names, the default one first."""


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
    def word_bits(self) -> int:
        """Bits of a word of the machine."""
        return 8 * self.machine.word_bytes

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


def shortest(differing: Callable[[MachineConfiguration], list[str]]) -> list[str]:
    """Parts of a module's name: the machine that it differs least from, and how it differs.

    Parameters
    ----------
    differing : callable
        In what the module differs from that of a machine.
    """
    return min(([*words, *differing(machine)] for words, machine in _MACHINES), key=len)


def differing_sizes(sizes: Mapping[str, Any]) -> list[str]:
    """Parts of a module's name: what is not as in the machine that it differs least from.

    Parameters
    ----------
    sizes : Mapping
        Fields of a `MachineConfiguration`, or some of them. Of a list it is told which of its names
        there are, as bits: all names would be too long. Formats are in its base.
    """
    return shortest(lambda machine: _differing(sizes, machine))


def _differing(sizes: Mapping[str, Any], machine: MachineConfiguration) -> list[str]:
    parts = []
    for name, value in sizes.items():
        if name in _FORMATS or value == getattr(machine, name):
            continue
        if name in _KNOWN:
            bits = sum(1 << bit for bit, one in enumerate(_KNOWN[name]) if one in value)
            parts.append(f"{name}{bits:x}")
        else:
            parts.append(part_of_name(name, value))
    return parts
