"""``mxsafe inspect``: numbers in scalar formats."""

import re
from argparse import ArgumentParser, Namespace

from mxsafe.analysis import inspection
from mxsafe.cli.arguments import format_of, parse_number
from mxsafe.cli.command import Command
from mxsafe.formats import BLOCK_FORMATS, SCALAR_FORMATS


def _as_operand(word: str) -> str:
    """Put a space before a word that may be a negative number, lest argparse take it for an option.

    Left to itself argparse knows ``-2.5``, but neither ``-1e-3`` nor ``-0x1p-3`` nor ``-inf``.
    """
    return f" {word}" if re.match("-[^-h]", word) else word


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "numbers",
        type=parse_number,
        nargs="+",
        metavar="NUMBER",
        help="such as -2.5, 1e-3, 0x1.4p-3, nan or inf; read as float64",
    )
    parser.add_argument(
        "--format",
        type=format_of({**SCALAR_FORMATS, **BLOCK_FORMATS}),
        metavar="FORMAT",
        help=f"one format, step by step: {', '.join(SCALAR_FORMATS)}; or the elements of a format "
        f"of blocks, under scales of 1: {', '.join(BLOCK_FORMATS)}",
    )


def _run(args: Namespace) -> None:
    for position, number in enumerate(args.numbers):
        if position:
            print()
        if args.format is None:
            lines = inspection.number_table(number)
        else:
            lines = inspection.derivation(number, args.format)
        print(*lines, sep="\n")


COMMAND = Command(
    summary="Show the bits, value and error of numbers in scalar formats.",
    add_arguments=_add_arguments,
    run=_run,
    prepare=_as_operand,
)
