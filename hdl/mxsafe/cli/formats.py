"""``mxsafe formats``: the catalogue."""

from argparse import ArgumentParser, Namespace

from mxsafe.analysis import inspection
from mxsafe.cli.command import Command


def _add_arguments(parser: ArgumentParser) -> None:
    """Nothing to add: the command lists all formats."""


def _run(args: Namespace) -> None:
    print(*inspection.format_tables(), sep="\n")


COMMAND = Command(
    summary="List the scalar formats, the MX formats and NVFP4: fields, range, precision, use.",
    add_arguments=_add_arguments,
    run=_run,
)
