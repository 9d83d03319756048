"""The `mxsafe` command.

Exit codes: 0 success, 1 the work failed (a file, its contents, a tool), 2 the command line is
wrong; 130 after Ctrl-C and 141 when nobody reads the output any more, as shells count signals.
Each command is a module of this package with a `mxsafe.cli.command.Command`.
"""

import argparse
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import mxsafe
from mxsafe.cli.arguments import UsageError, UserError
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import standard_output
from mxsafe.validation import one_of

_COMMANDS: Mapping[str, Command] = {
    name: import_module(f"{__name__}.{name}").COMMAND
    for name in (
        "verilog",
        "synth",
        "vectors",
        "quantize",
        "dequantize",
        "analyse",
        "diverge",
        "decode",
        "inspect",
        "formats",
        "disassemble",
        "compile",
        "run",
        "energy",
        "export",
        "bitstream",
    )
}
"""Commands in the order of the help. A name added here is a module with a ``COMMAND``."""
_NAMED = {alias: c for name, c in _COMMANDS.items() for alias in (name, *c.aliases)}
"""Commands by their names and their other names."""

_EPILOG = """\
examples:
  mxsafe decode 0x5f 0x1f 0x80          what MXSF codes mean
  mxsafe inspect 0.15625 -2.5           bits, value and error of numbers in every scalar format
  mxsafe inspect 0.1 --format mxsf      in one format, step by step
  mxsafe quantize x.npy q.npz           float array to MXSF, blocks of 64 along the last axis
  mxsafe quantize x.npy q.npz --block 8x8
  mxsafe dequantize q.npz y.npy         and back, to float32
  mxsafe analyse x.npy                  what each format makes of it
  mxsafe analyse x.npy --out errors     with pictures too (pip install '.[figures]')
  mxsafe diverge x.npy --profile quark_even
                                        where another library's result is not ours
  mxsafe verilog --out gen              all hardware units as Verilog, with manifest.json
  mxsafe synth safe_mac_exact --technology xilinx
                                        its area and timing (pip install '.[synth]')
  mxsafe vectors --unit mac --out v     test vectors: $readmemh files and vectors.json
  mxsafe disassemble program.bin        a program of the machine as text
  mxsafe compile model.pt2 --out model.mxprog
                                        a PyTorch model as a program (pip install '.[torch]')
  mxsafe compile model.onnx --out model.mxprog
                                        an ONNX model as a program (pip install '.[onnx]')
  mxsafe run model.mxprog --input x.npy --out y.npy
                                        what it makes of an array
  mxsafe energy model.mxprog --dram ddr3 --sram 65
                                        where its energy goes, and by which assumptions
  mxsafe export model.mxprog --out firmware
                                        its bytes and C99 that runs it
  mxsafe run program.bin memory.bin     what it makes of an image of memory
  mxsafe run program.bin memory.bin --backend verilog
                                        the same on the machine's simulated Verilog
                                        (pip install '.[simulate]')
  mxsafe run program.bin memory.bin --backend serial --port /dev/ttyUSB0
                                        the same on a board (pip install '.[serial]')
  mxsafe bitstream                      the machine as a bitstream for that board
                                        (pip install '.[synth]')

exit codes: 0 success, 1 the work failed, 2 the command line is wrong
"""


_SIGNALLED = 128


class _Parser(argparse.ArgumentParser):
    """A parser that does not keep quiet about a help that cannot be written."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse; ``--option=--`` is refused, of which some versions make an empty list."""
        for word in args or ():
            if word.startswith("--") and word.endswith("=--"):
                self.error(f"argument {word[:-3]}: must be a value, not '--'")
        return super().parse_known_args(args, namespace)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is sys.stdout is not None:
            file.write(message)
        else:
            super()._print_message(message, file)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line; what other commands take is not asked for."""
    parser = _Parser(
        prog="mxsafe",
        description="Microscaling arithmetic whose software and silicon agree on every bit.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mxsafe {mxsafe.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in _COMMANDS.items():
        added = commands.add_parser(
            name,
            aliases=command.aliases,
            help=command.summary,
            description=command.description or command.summary,
        )
        added.set_defaults(run=command.run)
        if words and _NAMED.get(words[0]) is command:
            command.add_arguments(added)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit code: 0 success, 1 the work failed, 2 the command line is wrong, and 128 and the number
        of the signal for Ctrl-C and a closed pipe.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in _NAMED:
        words[1:] = map(_NAMED[words[0]].prepare, words[1:])
    try:
        with standard_output():
            parser = _parser(words)
            if words and words[0] not in _NAMED and not words[0].startswith("-"):
                parser.error(f"COMMAND must be {one_of(_COMMANDS, words[0])}")
            args = parser.parse_args(words)
            args.run(args)
    except UserError as error:
        _allow_unfinished()
        print(f"mxsafe: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        _allow_unfinished()
        return _SIGNALLED + signal.SIGPIPE
    except KeyboardInterrupt:
        _allow_unfinished()
        print("mxsafe: interrupted", file=sys.stderr)
        return _SIGNALLED + signal.SIGINT
    return 0


def _allow_unfinished() -> None:
    """Let no warnings of hardware that an error left unfinished stand beside the error.

    Amaranth sees to that itself where nothing catches the error.
    """
    if "amaranth.hdl" in sys.modules:
        from amaranth.hdl import UnusedElaboratable

        warnings.simplefilter("ignore", UnusedElaboratable)
