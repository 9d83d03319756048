"""``mxsafe synth``: area and timing of hardware units."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import (
    UsageError,
    choice,
    format_of,
    parse_integer,
    refuse_device,
    refused,
)
from mxsafe.cli.command import Command
from mxsafe.cli.hardware import add_unit_options, add_units, unit_errors, unit_options
from mxsafe.cli.outputs import FIGURES, require_folder, require_matplotlib, writing_to
from mxsafe.cli.progress import note
from mxsafe.formats import OPERAND_FORMATS
from mxsafe.synthesis import TECHNOLOGY_NAMES

_SUMMARY = "Measure area and timing of hardware units."


def _add_arguments(parser: ArgumentParser) -> None:
    add_units(parser)
    parser.add_argument(
        "--technology",
        action="append",
        **choice(TECHNOLOGY_NAMES),
        help="where to: cells or an FPGA family; may be repeated (default: nangate45; of the "
        "standard configurations all)",
    )
    parser.add_argument(
        "--format",
        action="append",
        type=format_of(OPERAND_FORMATS),
        metavar="FORMAT",
        help="element format; may be repeated (default: mxsf; of the standard configurations their "
        "own)",
    )
    add_unit_options(parser)
    parser.add_argument(
        "--case",
        action="append",
        metavar="NAME",
        help="without a UNIT: standard configurations of this name, in which * stands for "
        "anything; may be repeated (default: all)",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="synthesis.json of an earlier run: results of the standard configurations that --case "
        "leaves out",
    )
    parser.add_argument(
        "--clock",
        type=float,
        metavar="NS",
        help="wanted period (default: as short as the tools can make it)",
    )
    parser.add_argument(
        "--jobs", type=parse_integer, metavar="N", help="tools side by side (default: one a core)"
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that runs the tools instead"
    )
    parser.add_argument(
        "--activity",
        type=Path,
        metavar="DIR",
        help="folder with <module>.npz: what the netlists for nangate45 are simulated with, for "
        "power",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"folder for synthesis.json, synthesis.md and pictures, which need {FIGURES}",
    )


def _run(args: Namespace) -> None:
    # Amaranth is imported only here: the codec's commands start without it.
    from mxsafe.synthesis import power, report
    from mxsafe.synthesis.cases import select
    from mxsafe.synthesis.earlier import completed, read_synthesis
    from mxsafe.synthesis.run import synthesise

    formats = list(dict.fromkeys(args.format or []))
    options = unit_options(args, formats)
    if args.out is not None:
        require_matplotlib()
        require_folder(args.out)
    if args.jobs is not None and args.dask is not None:
        raise UsageError("--jobs goes without --dask, whose cluster has as many as it has workers")
    if args.keep is not None and not args.case:
        raise UsageError("--keep needs a --case")
    if args.keep is not None:
        refuse_device(args.keep)
    with refused(RuntimeError, ImportError, ConnectionError), unit_errors(args.unit):
        earlier = None if args.keep is None else read_synthesis(args.keep)
        found = synthesise(
            select(
                args.unit,
                formats=[format.name for format in formats],
                options=options,
                technologies=args.technology,
                names=args.case or (),
            ),
            clock=args.clock,
            jobs=args.jobs,
            dask=args.dask,
            stimuli=power.read_stimuli(args.activity) if args.activity else None,
            progress=note,
        )
        if earlier is not None:
            found = completed(found, earlier)
    names = []
    try:  # what took hours is both written and printed, should one of them fail
        if args.out is not None:
            with writing_to(args.out):
                names = report.write_report(args.out, found)
    finally:
        print(report.text(found))
    if names:
        print("", *(f"  {args.out / name}" for name in names), sep="\n")


COMMAND = Command(
    summary=_SUMMARY,
    description=f"{_SUMMARY} Without a UNIT: of the standard configurations.",
    add_arguments=_add_arguments,
    run=_run,
)
