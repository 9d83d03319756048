"""Options that say which machine, and files that hold programs; shared by commands."""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

from mxsafe.cli.arguments import UsageError, UserError
from mxsafe.formats import MXFormat
from mxsafe.machine.configuration import MachineConfiguration

__all__ = ["add_machine", "machine_of", "read_bytes"]

_NONE = "none"


def add_machine(parser: ArgumentParser) -> None:
    """Add an option for each size of a machine."""
    usual = MachineConfiguration()
    group = parser.add_argument_group("machine", "sizes of the machine that the program is for")
    for field in fields(MachineConfiguration):
        value = getattr(usual, field.name)
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int if isinstance(value, int) else str,
            metavar="N" if isinstance(value, int) else "NAME",
            help=f"(default: {_shown(value)})",
        )


def _shown(value: Any) -> str:
    if isinstance(value, MXFormat):
        return value.name
    return "+".join(value) if isinstance(value, tuple) else str(value)


def machine_of(args: Namespace) -> MachineConfiguration:
    """The machine that the options say.

    Raises
    ------
    UsageError
        If there is none such.
    """
    usual = MachineConfiguration()
    given: dict[str, Any] = {}
    for field in fields(MachineConfiguration):
        value = getattr(args, field.name)
        if value is not None and isinstance(getattr(usual, field.name), tuple):
            value = () if value == _NONE else tuple(value.split("+"))
        if value is not None:
            given[field.name] = value
    try:
        return MachineConfiguration(**given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_bytes(path: Path) -> bytes:
    """What a file holds.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
