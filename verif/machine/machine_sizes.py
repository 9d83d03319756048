"""Machines of all numbers of rows."""

from typing import Any

from mxsafe.machine.configuration import MachineConfiguration

ROWS = (4, 8, 16)


def machine_of(rows: int, **sizes: Any) -> MachineConfiguration:
    """A machine of so many rows, with all conversions that it can have."""
    return MachineConfiguration(rows=rows, **sizes)
