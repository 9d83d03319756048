"""``mxsafe verilog``: hardware units as Verilog."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import format_of, refused
from mxsafe.cli.command import Command
from mxsafe.cli.hardware import (
    add_unit_options,
    add_units,
    hardware_format_help,
    unit_errors,
    unit_options,
)
from mxsafe.cli.outputs import require_folder, writing_to
from mxsafe.cli.progress import note
from mxsafe.formats import MX_FORMATS, OPERAND_FORMATS
from mxsafe.verilog.names import PREFIX


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        type=format_of(OPERAND_FORMATS),
        metavar="FORMAT",
        help=hardware_format_help(),
    )
    add_units(
        parser,
        remark=". Named units are added to what the folder holds; without any, the folder is made "
        "to hold all of them in their default configurations, some for FPGAs too, and the C header "
        "of the machine",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gen"), metavar="DIR", help="folder (default: gen)"
    )
    parser.add_argument(
        "--prefix",
        default=PREFIX,
        metavar="TEXT",
        help="what names of modules inside units begin with (default: mxsafe_)",
    )
    add_unit_options(parser)


def _run(args: Namespace) -> None:
    # Amaranth is imported only here: the codec's commands start without it.
    from mxsafe.machine.header import HEADER_FILE, c_header
    from mxsafe.verilog import presets
    from mxsafe.verilog.generate import generate

    options = unit_options(args, [args.format] if args.format else [])
    require_folder(args.out)
    format = args.format or MX_FORMATS["mxsf"]
    with unit_errors(args.unit):
        names = args.unit or presets.units_of(format)  # without a UNIT a single format, not a set
        targets: list[tuple[str, dict[str, str]]] = [(name, {}) for name in names]
        if not args.unit:
            targets += [(name, {"target": "fpga"}) for name in presets.FPGA_UNITS if name in names]
        units, commands = [], {}
        for name, target in targets:
            block = presets.default_block(name, format, options.get("format_w"))
            given = options | target if block is None else {"block": block, **options, **target}
            units.append(presets.build(name, format, **given))
            words = [name, *(f"--{option} {value}" for option, value in target.items())]
            commands[units[-1].module_name] = " ".join(words)
    for unit in units:
        if rate := presets.rate_of_blocks(unit):
            beats, cycles, enough = rate
            note(
                f"mxsafe verilog: warning: {unit.module_name} takes {cycles} cycles for a block of "
                f"{beats} beats, {beats / cycles:.0%} of its full rate, which it has with "
                f"--accumulators {enough}"
            )
    written: list[str] = []
    with refused(RuntimeError, ValueError), writing_to(args.out):
        generate(
            units,
            args.out,
            prefix=args.prefix,
            clean=not args.unit,
            beside={} if args.unit else {HEADER_FILE: c_header()},
            commands={} if args.unit else commands,
            workers=1 if args.unit else os.cpu_count() or 1,
            progress=written.append,
        )
    print(*(f"  {args.out / name}" for name in written), sep="\n")


COMMAND = Command(
    summary="Write hardware units as Verilog, with a manifest.",
    add_arguments=_add_arguments,
    run=_run,
)
