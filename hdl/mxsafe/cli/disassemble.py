"""``mxsafe disassemble``: a program of the machine as text."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import UserError, read_bytes, refused
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of
from mxsafe.machine.assembler import Instruction, disassemble
from mxsafe.machine.description import DESCRIPTOR_BYTES


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="file of descriptors")
    add_machine(parser)


def _begins_with_a_descriptor(program: bytes) -> bool:
    """Whether the first descriptor, if any, is of a known kind and has no bits but its fields'.

    Text and files that begin with a mark of their own, as NumPy's, have none such.
    """
    first = program[:DESCRIPTOR_BYTES]
    try:
        return not first or Instruction.decoded(first).encoded() == first
    except ValueError:
        return False


def _run(args: Namespace) -> None:
    configuration = machine_of(args)
    program = read_bytes(args.program)
    with refused(ValueError, about=args.program):
        text = disassemble(program, configuration)
    if not _begins_with_a_descriptor(program):
        raise UserError(f"{args.program}: not a program: it does not begin with a descriptor")
    print(text, end="")


COMMAND = Command(
    summary="Show a program of the machine as text.",
    add_arguments=_add_arguments,
    run=_run,
    description="Show a program of the machine as text, a line for each descriptor: its number, "
    "its kind and the fields that are not 0. What the machine does not take is marked, "
    "and where a program would wait for ever.",
)
