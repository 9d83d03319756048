"""``mxsafe run``: a program of the machine over an image of memory."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UsageError, UserError, choice, read_bytes
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of, machine_values
from mxsafe.cli.outputs import add_force, require_new_file, write_file
from mxsafe.cli.progress import CycleLine, note
from mxsafe.machine.configuration import MachineConfiguration

if TYPE_CHECKING:
    from mxsafe.host.host import Backend

_BACKENDS = ("interpreter", "verilog", "serial")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="file of descriptors")
    parser.add_argument("memory", type=Path, metavar="MEMORY", help="file of bytes")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="memory after the run (default: MEMORY)"
    )
    add_force(parser)
    parser.add_argument(
        "--base",
        type=int,
        default=0,
        metavar="BYTE",
        help="where in memory addresses of the program count from (default: 0)",
    )
    parser.add_argument(
        "--backend",
        **choice(_BACKENDS),
        default=_BACKENDS[0],
        help="what runs the program: the interpreter, or the machine's Verilog on Verilator, or a "
        "board at a serial port, which count cycles (default: interpreter)",
    )
    parser.add_argument("--port", metavar="NAME", help="the serial port, such as /dev/ttyUSB0")
    parser.add_argument(
        "--baud", type=int, metavar="N", help="bits a second of the port (default: 1000000)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="words that the interpreter moves and beats that it computes, at most (default: 2^28)",
    )
    add_machine(parser)


def _backend(args: Namespace, configuration: MachineConfiguration) -> "Backend":
    """The machine, on what the user wants."""
    if args.backend == "interpreter":
        from mxsafe.host.interpreter import Interpreted

        return Interpreted(configuration, **({} if args.limit is None else {"limit": args.limit}))
    if args.backend == "serial":
        from mxsafe.host import serial

        return serial.Serial(serial.open_port(args.port, args.baud or serial.BAUD))
    from mxsafe.host.simulated import Simulated

    return Simulated(configuration, note=note)


def _check_backend(args: Namespace) -> None:
    """Refuse options of another backend, and a serial one without a port."""
    if args.limit is not None and args.backend != "interpreter":
        raise UsageError(f"limit must be given with backend interpreter alone, not {args.backend}")
    if args.backend == "serial":
        if not args.port:
            raise UsageError("port must be given with backend serial")
        if args.baud is not None and args.baud < 1:
            raise UsageError(f"baud must be a positive integer, not {args.baud}")
        return
    for name in ("port", "baud"):
        if getattr(args, name) is not None:
            raise UsageError(f"{name} must be given with backend serial alone")


def _run(args: Namespace) -> None:
    from mxsafe.host.host import Host
    from mxsafe.machine.program import Program

    _check_backend(args)
    if args.out not in (None, args.memory):
        require_new_file(args.out, force=args.force)
    configuration = machine_of(args)
    data = read_bytes(args.program)
    memory = np.frombuffer(read_bytes(args.memory), np.uint8).copy()
    try:
        if args.backend != "serial":
            program = Program(data, configuration)  # before what may take minutes
        host = Host(_backend(args, configuration))
        if args.backend == "serial":
            # A board says itself what it is; sizes that are given must be its own.
            program = Program(data, configuration if machine_values(args) else host.configuration)
        host.memory = memory
        with CycleLine(args.program.name) as line:
            ended = host.run(program, base=args.base, progress=line)
    except (RuntimeError, ValueError) as error:
        raise UserError(str(error)) from None
    if ended.code:
        raise UserError(
            f"{args.program}: error {ended.code}, {ended.error}, at descriptor "
            f"{ended.descriptor}: {ended.reason}"
        )
    out = args.out or args.memory
    write_file(out, lambda: write_atomically(out, lambda f: f.write(memory.tobytes())))
    counted = ended.counters
    print(
        f"{out}: {program.length} descriptors, {counted['words_read']} words read, "
        f"{counted['words_written']} written"
    )
    if cycles := counted["cycles"]:
        print(f"{cycles} cycles, array busy {counted['array_busy'] / cycles:.1%}")


COMMAND = Command(
    summary="Run a program of the machine over an image of memory.",
    add_arguments=_add_arguments,
    run=_run,
    description="Run a program of the machine over an image of memory, bit for bit as the hardware "
    "does, and write the image. After an error nothing is written. The first run of a machine on "
    "Verilog compiles it, which takes minutes for the default sizes.",
)
