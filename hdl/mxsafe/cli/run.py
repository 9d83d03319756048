"""``mxsafe run``: a program of the machine over an image of memory."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import (
    UsageError,
    UserError,
    choice,
    parse_integer,
    read_array,
    read_bytes,
    refused,
)
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of, machine_values
from mxsafe.cli.outputs import add_force, require_new_file, write_file
from mxsafe.cli.programs import read_descriptors
from mxsafe.cli.progress import CycleLine, note
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import COUNTERS

if TYPE_CHECKING:
    from mxsafe.host.host import Backend, Ended, Host
    from mxsafe.machine.compiler.timing import Times
    from mxsafe.machine.program import Program
    from mxsafe.machine.trace import Traced

_BACKENDS = ("interpreter", "verilog", "serial")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "program",
        type=Path,
        metavar="PROGRAM",
        help="file of descriptors, or .mxprog of a compiled model",
    )
    parser.add_argument(
        "memory",
        type=Path,
        nargs="?",
        metavar="MEMORY",
        help="file of bytes; a compiled model has its own",
    )
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        default=[],
        metavar="X.npy",
        help="array for a compiled model; again for each further input",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="memory after the run (default: MEMORY), or output of a compiled model: .npy, and "
        ".npz of several",
    )
    add_force(parser)
    parser.add_argument(
        "--base",
        type=parse_integer,
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
        "--baud",
        type=parse_integer,
        metavar="N",
        help="bits a second of the port (default: 1000000)",
    )
    parser.add_argument(
        "--limit",
        type=parse_integer,
        metavar="N",
        help="words that the interpreter moves and beats that it computes, at most (default: 2^28)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE.json",
        help="timeline of the queues for Chrome or Perfetto (ui.perfetto.dev): as predicted, and "
        "counters of a backend that counts cycles",
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


def _times(program: "Program") -> "Times":
    from mxsafe.rtl.machine.times import times_of

    return times_of(program.configuration)


class _Watch:
    """Shows the progress of a program, and reads counters meanwhile if a timeline wants them."""

    def __init__(self, args: Namespace, host: "Host", program: "Program") -> None:
        self._args, self._host, self.program = args, host, program
        self._times = None if args.trace is None else _times(program)
        self._counted: list[Mapping[str, int]] = []

    def run(self, **more: Any) -> "Ended":
        """Run it."""
        wanted = self._args.trace is not None
        with CycleLine(self._args.program.name) as line:

            def seen(cycles: int) -> None:
                line(cycles)
                if wanted:
                    self._counted.append({name: self._host.counter(name) for name in COUNTERS})

            more["patience"] = 0.0 if wanted else 0.5
            ended = self._host.run(self.program, progress=seen, **more)
        self._counted.append(ended.counters)
        return ended

    def traced(self, labels: Sequence[str] = ()) -> "Traced":
        """The program with what was counted."""
        from mxsafe.machine.trace import Traced

        return Traced(self.program, labels, self._counted, self._times)


def _write_trace(args: Namespace, traced: "Sequence[Traced]") -> None:
    if args.trace is None:
        return
    from mxsafe.machine.trace import write_timeline

    write_file(args.trace, lambda: write_timeline(args.trace, traced))
    print(f"{args.trace}: timeline")


def _check_compiled(args: Namespace) -> None:
    """Refuse arguments that a compiled model does not take, or lacks."""
    if args.memory is not None:
        raise UsageError(f"MEMORY must not be given with a compiled model, not {args.memory}")
    if args.base:
        raise UsageError(f"base must be 0 with a compiled model, not {args.base}")
    if args.out is None:
        raise UsageError("out must be given with a compiled model")
    if args.out.suffix not in (".npy", ".npz"):
        raise UsageError(f"out must end in .npy or .npz, not {args.out.name!r}")
    require_new_file(args.out, force=args.force)


def _run_compiled(args: Namespace) -> None:
    """Run a compiled model over arrays."""
    from mxsafe.host.host import Ended, Host
    from mxsafe.machine.compiled import Compiled
    from mxsafe.machine.program import Program

    _check_compiled(args)
    ends: list[Ended] = []
    watches: list[_Watch] = []

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        host = Host(_backend(args, program.configuration))
        host.memory = memory
        watches.append(_Watch(args, host, program))
        ends.append(watches[-1].run())
        if ends[-1].code:
            raise RuntimeError(f"{args.program}: {ends[-1].error}: {ends[-1].reason}")

    read_bytes(args.program)
    if args.backend == "interpreter" and args.limit is None:
        args.limit = 1 << 32
    with refused(RuntimeError, TypeError, ValueError):
        model = Compiled.load(args.program, machine_of(args) if machine_values(args) else None)
        if args.out.suffix == ".npy" and len(model.outputs) > 1:
            count = len(model.outputs)
            raise UsageError(f"out must end in .npz for {count} outputs, not {args.out.name!r}")
        found = model.run([read_array(path) for path in args.input], run)
    several = found if isinstance(found, tuple) else (found,)
    names = [port.name for port in model.outputs]
    data = BytesIO()
    if args.out.suffix == ".npy":
        np.save(data, several[0])
    else:
        np.savez(data, **dict(zip(names, several, strict=True)))
    write_file(args.out, lambda: write_atomically(args.out, data.getvalue()))
    for name, array in zip(names, several, strict=True):
        print(f"{args.out}: {name}, {array.dtype} of shape {array.shape}")
    labels = {id(part.program): part.labels for part in model.parts}
    _write_trace(args, [watch.traced(labels[id(watch.program)]) for watch in watches])
    if cycles := sum(ended.counters["cycles"] for ended in ends):
        busy = sum(ended.counters["array_busy"] for ended in ends)
        print(f"{cycles} cycles, array busy {busy / cycles:.1%}")


def _run(args: Namespace) -> None:
    from mxsafe.host.host import Host
    from mxsafe.machine.program import Program

    _check_backend(args)
    if args.trace is not None:
        require_new_file(args.trace, force=args.force)
    if args.program.suffix == ".mxprog":
        _run_compiled(args)
        return
    if args.memory is None:
        raise UsageError("MEMORY must be given with a file of descriptors")
    if args.input:
        raise UsageError(f"input must be given with a compiled model alone, not {args.input[0]}")
    if args.out not in (None, args.memory):
        require_new_file(args.out, force=args.force)
    configuration = machine_of(args)
    data = read_descriptors(args.program)
    memory = np.frombuffer(read_bytes(args.memory), np.uint8).copy()
    with refused(ValueError, about=args.program):
        program = Program(data, configuration)  # before what may take minutes
    with refused(RuntimeError, ValueError):
        host = Host(_backend(args, configuration))
        if args.backend == "serial" and not machine_values(args):
            # A board says itself what it is; sizes that are given must be its own.
            program = Program(data, host.configuration)
        host.memory = memory
        watch = _Watch(args, host, program)
        ended = watch.run(base=args.base)
    if ended.code:
        raise UserError(
            f"{args.program}: error {ended.code}, {ended.error}, at descriptor "
            f"{ended.descriptor}: {ended.reason}"
        )
    out = args.out or args.memory
    write_file(out, lambda: write_atomically(out, memory.tobytes()))
    counted = ended.counters
    print(
        f"{out}: {program.length} descriptors, {counted['words_read']} words read, "
        f"{counted['words_written']} written"
    )
    _write_trace(args, [watch.traced()])
    if cycles := counted["cycles"]:
        print(f"{cycles} cycles, array busy {counted['array_busy'] / cycles:.1%}")


COMMAND = Command(
    summary="Run a program of the machine over an image of memory.",
    add_arguments=_add_arguments,
    run=_run,
    description="Run a program of the machine over an image of memory, bit for bit as the hardware "
    "does, and write the image. Or run a compiled model over arrays. After an error nothing is "
    "written. The first run of a machine on Verilog compiles it, which takes minutes for the "
    "default sizes.",
)
