"""``mxsafe disassemble``: a program of the machine as text."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import UserError, refused
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of
from mxsafe.cli.programs import begins_with_a_descriptor, read_descriptors
from mxsafe.machine.assembler import disassemble


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="file of descriptors")
    add_machine(parser)


def _run(args: Namespace) -> None:
    configuration = machine_of(args)
    program = read_descriptors(args.program)
    with refused(ValueError, about=args.program):
        text = disassemble(program, configuration)
    if not begins_with_a_descriptor(program):
        raise UserError(f"{args.program} must be a file of descriptors: it begins with none")
    print(text, end="")


COMMAND = Command(
    summary="Show a program of the machine as text.",
    add_arguments=_add_arguments,
    run=_run,
    description="Show a program of the machine as text, a line for each descriptor: its number, "
    "its kind and the fields that are not 0. What the machine does not take is marked, "
    "and where a program would wait for ever.",
)
