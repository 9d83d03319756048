"""Machines by name."""

from typing import Any

from mxsafe.formats import FloatFormat, MXFormat
from mxsafe.machine.configuration import (
    FPGA_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.validation import about, checked, require_one_of

MACHINES = {
    "default": MachineConfiguration(),
    "small": SMALL_MACHINE,
    "fpga": FPGA_MACHINE,
}
"""Machines by name."""
Machine = MachineConfiguration | str
Format = MXFormat | FloatFormat | str
"""Format of operands: `BF16`, or its name, with arithmetic ``bf16``, and an MX format else."""


@checked
def machine_named(
    machine: Machine, format: Format | None = None, arithmetic: str | None = None
) -> MachineConfiguration:
    """A machine by its name, perhaps with another format and arithmetic.

    Raises
    ------
    ValueError
        If there is no machine of that name, or it cannot be so.
    """
    if isinstance(machine, str):
        require_one_of("machine", machine, MACHINES)
        machine = MACHINES[machine]
    values: dict[str, Any] = {}
    if format is not None:
        values |= {"format_a": format, "format_w": format}
    if arithmetic is not None:
        values["arithmetic"] = arithmetic
    with about(format_a="format", format_w="format"):
        return resized(machine, **values)
