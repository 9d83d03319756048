"""Options that say which machine; shared by commands."""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from mxsafe.cli.arguments import UsageError, parse_integer, refused
from mxsafe.formats import FloatFormat, MXFormat
from mxsafe.machine.configuration import MachineConfiguration, resized

MACHINE_OPTIONS = tuple(f.name for f in fields(MachineConfiguration) if f.name != "target")
"""Sizes of a machine, and how argparse takes them: ``unit_rows`` is ``--unit-rows``.

What it is built for is an option of commands that make hardware.
"""


def add_machine(
    parser: ArgumentParser,
    *,
    description: str = "sizes of the machine that the program is for",
    without: Collection[str] = (),
    default: MachineConfiguration | None = None,
) -> None:
    """Add an option for each size of a machine but some; the help shows the default's."""
    default = default or MachineConfiguration()
    group = parser.add_argument_group("machine", description)
    for name in MACHINE_OPTIONS:
        if name in without:
            continue
        value, option = getattr(default, name), f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            action, shown = argparse.BooleanOptionalAction, "yes" if value else "no"
            group.add_argument(option, action=action, default=None, help=f"(default: {shown})")
            continue
        group.add_argument(
            option,
            type=parse_integer if isinstance(value, int) else str,
            metavar="N" if isinstance(value, int) else "NAME",
            help=f"(default: {_shown(value)})",
        )


def _shown(value: Any) -> str:
    if isinstance(value, MXFormat | FloatFormat):
        return value.name
    return "+".join(value) if isinstance(value, tuple) else str(value)


def machine_values(args: Namespace, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Sizes that the options of `add_machine` give."""
    names = [name for name in MACHINE_OPTIONS if name not in without]
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def machine_of(args: Namespace) -> MachineConfiguration:
    """The machine that the options say.

    Raises
    ------
    UsageError
        If there is none such.
    """
    with refused(ValueError, by=UsageError):
        return resized(MachineConfiguration(), **machine_values(args))
