"""Names of modules whose configuration has sizes of the machine.

Tested by `verif/rtl/machine/test_part.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any

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
from mxsafe.rtl.unit import part_of_name

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
