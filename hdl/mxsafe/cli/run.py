"""``mxsafe run``: a program of the machine over an image of memory."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UserError
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of, read_bytes
from mxsafe.cli.outputs import write_file
from mxsafe.machine.description import DESCRIPTOR_BYTES

__all__ = ["COMMAND"]


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="file of descriptors")
    parser.add_argument("memory", type=Path, metavar="MEMORY", help="file of bytes")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="memory after the run (default: MEMORY)"
    )
    parser.add_argument(
        "--base",
        type=int,
        default=0,
        metavar="BYTE",
        help="where in memory addresses of the program count from (default: 0)",
    )
    add_machine(parser)


def _run(args: Namespace) -> None:
    from mxsafe.model.machine import Machine

    machine = Machine(machine_of(args))
    program = read_bytes(args.program)
    memory = np.frombuffer(read_bytes(args.memory), np.uint8).copy()
    try:
        outcome = machine.run(program, memory, base=args.base)
    except ValueError as error:
        raise UserError(str(error)) from None
    if outcome.code:
        raise UserError(
            f"{args.program}: error {outcome.code}, {outcome.error}, at descriptor "
            f"{outcome.descriptor}: {outcome.reason}"
        )
    out = args.out or args.memory
    write_file(out, lambda: write_atomically(out, lambda f: f.write(memory.tobytes())))
    print(
        f"{out}: {len(program) // DESCRIPTOR_BYTES} descriptors, {outcome.words_read} words read, "
        f"{outcome.words_written} written"
    )


COMMAND = Command(
    summary="Run a program of the machine over an image of memory.",
    add_arguments=_add_arguments,
    run=_run,
    description="Run a program of the machine over an image of memory, bit for bit as the hardware "
    "does, and write the image. After an error nothing is written.",
)
