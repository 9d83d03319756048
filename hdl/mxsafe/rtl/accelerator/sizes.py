"""Names of modules whose configuration has sizes of the machine."""

from dataclasses import fields
from typing import Any

from mxsafe.machine.configuration import CONVERSIONS, FUNCTIONS, REDUCTIONS, MachineConfiguration
from mxsafe.rtl.configuration import part_of_name

__all__ = ["KNOWN", "differing_sizes"]

KNOWN = {"functions": FUNCTIONS, "reductions": REDUCTIONS, "conversions": CONVERSIONS}
"""What may be in each list of a `MachineConfiguration`."""


def differing_sizes(sizes: Any) -> list[str]:
    """Parts of a module's name: what is not as in the usual machine.

    Parameters
    ----------
    sizes : dataclass
        A `MachineConfiguration`, or something with some of its fields. Of a list it is told which
        of its names there are, as bits: all names would be too long.
    """
    usual, parts = MachineConfiguration(), []
    for each in fields(sizes):
        value = getattr(sizes, each.name)
        if value == getattr(usual, each.name):
            continue
        if each.name in KNOWN:
            bits = sum(1 << bit for bit, one in enumerate(KNOWN[each.name]) if one in value)
            parts.append(f"{each.name}{bits:x}")
        else:
            parts.append(part_of_name(each.name, value))
    return parts
