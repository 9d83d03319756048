"""Machines of all numbers of rows."""

from typing import Any

from mxsafe.machine.configuration import CONVERSIONS, MachineConfiguration

ROWS = (4, 8, 16)


def machine_of(rows: int, **sizes: Any) -> MachineConfiguration:
    """A machine of so many rows, with all conversions that it can have."""
    conversions = tuple(name for name in CONVERSIONS if rows >= 8 or name != "tiles")
    return MachineConfiguration(**{"rows": rows, "conversions": conversions, **sizes})
