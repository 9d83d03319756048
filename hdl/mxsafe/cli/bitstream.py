"""``mxsafe bitstream``: the machine as a bitstream for a board."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import UsageError, parse_integer, parse_seed, refused
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_values
from mxsafe.cli.outputs import require_folder, writing_to
from mxsafe.cli.progress import note
from mxsafe.machine.configuration import BOARD_MACHINE, resized

_BOARD = {
    "memory_bytes": (
        1 << 14,
        "bytes of block RAM as the machine's memory, a multiple of 4,096 up to 425,984",
    ),
    "clock_mhz": (80, "the machine's clock in MHz, a multiple of 5"),
    "baud": (1_000_000, "bits a second on the serial line"),
}
"""Parameters of the board with their defaults, and what the help says of them."""
_SEED = 1
"""With it the default machine reaches its clock; with others it may not."""


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/ulx3s"),
        metavar="DIR",
        help="folder for ulx3s.bit, the Verilog and logs (default: build/ulx3s)",
    )
    for name, (value, text) in _BOARD.items():
        option, shown = f"--{name.replace('_', '-')}", f"{text} (default: {value})"
        parser.add_argument(option, type=parse_integer, default=value, metavar="N", help=shown)
    parser.add_argument(
        "--seed",
        type=parse_seed,
        default=_SEED,
        metavar="N",
        help=f"of the placement (default: {_SEED}, which reaches the default clock)",
    )
    add_machine(parser, description="sizes of the machine", default=BOARD_MACHINE)


def _run(args: Namespace) -> None:
    # Amaranth is imported only here: the codec's commands start without it.
    from mxsafe.rtl.board.ulx3s import Ulx3sConfiguration
    from mxsafe.synthesis.bitstream import make_bitstream

    require_folder(args.out)
    with refused(ValueError, by=UsageError):
        machine = resized(BOARD_MACHINE, **machine_values(args))
        given = {name: getattr(args, name) for name in _BOARD}
        configuration = Ulx3sConfiguration(machine=machine, **given)
    with refused(RuntimeError, ValueError), writing_to(args.out):
        made = make_bitstream(configuration, args.out, seed=args.seed, progress=note)
    print(made.text)


COMMAND = Command(
    summary="Make a bitstream of the machine for a ULX3S board.",
    add_arguments=_add_arguments,
    run=_run,
    description="Make a bitstream of the machine for a ULX3S board with an LFE5U-85F, by Yosys, "
    "nextpnr and ecppack (pip install '.[synth]'). The default sizes take 15 to 30 minutes; "
    "larger ones may find no way for all wires. No bitstream is written if a clock is too slow.",
)
