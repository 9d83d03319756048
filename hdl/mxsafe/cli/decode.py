"""``mxsafe decode``: what element codes mean."""

from argparse import ArgumentParser, Namespace

from mxsafe.analysis import inspection
from mxsafe.cli.arguments import UsageError, add_format, parse_code
from mxsafe.cli.command import Command
from mxsafe.formats import MXFormat


def _add_arguments(parser: ArgumentParser) -> None:
    add_format(parser)
    parser.add_argument("codes", type=parse_code, nargs="+", metavar="CODE", help="such as 0x5f")


def _run(args: Namespace) -> None:
    format: MXFormat = args.format
    for code in args.codes:
        if code < 0 or code >> format.element.width:
            raise UsageError(
                f"CODE must lie in 0..{(1 << format.element.width) - 1} for {format.name}, "
                f"not {code}"
            )
    print(*inspection.decode_table(args.codes, format), sep="\n")


COMMAND = Command(
    summary="Show fields, mode and value of element codes.",
    add_arguments=_add_arguments,
    run=_run,
)
