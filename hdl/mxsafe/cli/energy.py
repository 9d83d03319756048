"""``mxsafe energy``: where the energy of a program goes."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxsafe.analysis.report import aligned
from mxsafe.cli.arguments import UserError, choice, parse_number, parse_positive, read_bytes
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of, machine_values
from mxsafe.cli.programs import read_descriptors
from mxsafe.machine.configuration import sizes_of
from mxsafe.machine.energy_tables import CLOCKS, DRAMS, NODES, EnergyTables, in_use, own_tables

if TYPE_CHECKING:
    from mxsafe.machine.energy import Energy, Work
    from mxsafe.machine.program import Program

_MICRO = 1e-6
"""Microjoules in a picojoule."""


def _frequency(text: str) -> float:
    number, (low, high) = parse_number(text), CLOCKS
    if not low <= number <= high:
        raise ArgumentTypeError(f"must be a number of MHz from {low:g} to {high:g}, not {text!r}")
    return number


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "program",
        type=Path,
        metavar="PROGRAM",
        help=".mxprog of a compiled model, or file of descriptors",
    )
    parser.add_argument(
        "--dram",
        **choice(DRAMS),
        default=DRAMS[0],
        help="source of the energy of memory off the chip (default: bitmod)",
    )
    parser.add_argument(
        "--sram",
        **choice([str(node) for node in NODES]),
        default=str(NODES[-1]),
        help="process of memories on the chip, in nm (default: 28)",
    )
    parser.add_argument(
        "--static-power",
        action="store_true",
        help="count leakage of memories too, and what a channel of DRAM takes in the background",
    )
    parser.add_argument(
        "--clock-mhz",
        type=_frequency,
        default=EnergyTables.clock_mhz,
        metavar="F",
        help="clock, for time and static power (default: 500)",
    )
    parser.add_argument(
        "--memory-cycles",
        type=parse_positive,
        metavar="N",
        help="cycles after which memory answers (default: 100)",
    )
    parser.add_argument(
        "--table",
        type=Path,
        metavar="FILE.json",
        help="energies of your own, which go before those of the tables",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, in pJ")
    add_machine(parser)


def _programs(args: Namespace) -> "list[Program]":
    from mxsafe.machine.compiled import Compiled
    from mxsafe.machine.program import Program

    if args.program.suffix != ".mxprog":
        programs = [Program(read_descriptors(args.program), machine_of(args))]
    else:
        read_bytes(args.program)
        machine = machine_of(args) if machine_values(args) else None
        try:
            programs = [part.program for part in Compiled.load(args.program, machine).parts]
        except ValueError as error:  # it names the file
            raise UserError(str(error)) from None
    if not any(one.data for one in programs):
        raise UserError(f"{args.program} must have one descriptor at least")
    return programs


def _rows(energy: "Energy") -> Iterator[tuple[str, ...]]:
    from mxsafe.machine.energy import GROUPS

    yield "", "", "counted", "", "pJ each", "uJ", "%"
    for group in GROUPS:
        yield group, "", "", "", "", *_share(energy.groups[group], energy)
        for part in energy.parts:
            if part.group == group and part.count:
                counted = str(part.count), part.unit, f"{part.each:.4g}"
                yield "", part.name, *counted, *_share(part.energy, energy)
    yield "all", "", "", "", "", *_share(energy.total, energy)


def _share(pj: float, energy: "Energy") -> tuple[str, str]:
    share = pj / energy.total if energy.total else 0.0
    return f"{pj * _MICRO:.4g}", f"{100 * share:.2f}"


def shown(energy: "Energy") -> str:
    """Energy as a table, the time beside it, and what it rests on."""
    rows = [(group or f"  {name}", *cells) for group, name, *cells in _rows(energy)]
    lines = [
        aligned(rows),
        f"{energy.cycles} cycles predicted, {energy.milliseconds:.4g} ms at "
        f"{energy.clock_mhz:g} MHz, {energy.bandwidth:.4g} GB/s off chip",
    ]
    lines += ["assumptions:", *(f"  {one}" for one in energy.assumptions)]
    return "\n".join(lines)


def _json(program: Path, work: "Work", tables: EnergyTables, energy: "Energy") -> str:
    found = {
        "program": str(program),
        "machine": sizes_of(work.configuration),
        "tables": in_use(tables, work.configuration),
        "memory": work.memory,
        "cycles": energy.cycles,
        "milliseconds": energy.milliseconds,
        "gigabytes_per_second": energy.bandwidth,
        "total": energy.total,
        "groups": energy.groups,
        "parts": [{**asdict(part), "energy": part.energy} for part in energy.parts],
        "assumptions": energy.assumptions,
    }
    return json.dumps(found, indent=1)


def _own(path: Path) -> dict[str, Any]:
    try:
        return own_tables(read_bytes(path).decode(), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} must be text: {error}") from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _run(args: Namespace) -> None:
    from mxsafe.machine.energy import energy_of, work_of
    from mxsafe.rtl.machine.times import times_of

    own = {} if args.table is None else _own(args.table)
    tables = EnergyTables(
        dram=args.dram,
        sram=int(args.sram),
        static_power=args.static_power,
        clock_mhz=args.clock_mhz,
        own=own,
    )
    try:
        programs = _programs(args)
        times = times_of(programs[0].configuration)
        if args.memory_cycles is not None:
            times = replace(times, memory=args.memory_cycles)
        work = work_of(programs, times)
        energy = energy_of(work, tables)
    except ValueError as error:
        raise UserError(f"{args.program}: {error}") from None
    print(_json(args.program, work, tables, energy) if args.json else shown(energy))


COMMAND = Command(
    summary="Show where the energy of a program goes.",
    add_arguments=_add_arguments,
    run=_run,
    description="Show where the energy of a program goes: accesses of memories and work of units "
    "as the machine would count them, times energies of tables, which can be exchanged. Nothing "
    "is run. All that it rests on is printed below.",
)
