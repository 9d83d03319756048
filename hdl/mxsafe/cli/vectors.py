"""``mxsafe vectors``: test vectors for other hardware."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe import vectors
from mxsafe.cli.arguments import (
    UsageError,
    add_format,
    choice,
    format_of,
    parse_integer,
    parse_seed,
    refused,
)
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import writing_to
from mxsafe.formats import MX_FORMATS
from mxsafe.model.gemm import ARITHMETICS


def _add_arguments(parser: ArgumentParser) -> None:
    add_format(parser, hardware=True)
    parser.add_argument(
        "--format-w",
        type=format_of(MX_FORMATS),
        metavar="FORMAT",
        help="element format of a MAC's operand w (default: that of --format)",
    )
    parser.add_argument("--unit", required=True, **choice(vectors.UNITS))
    parser.add_argument(
        "--out", type=Path, default=Path("vectors"), metavar="DIR", help="folder (default: vectors)"
    )
    parser.add_argument(
        "--count",
        type=parse_integer,
        metavar="N",
        help="rows, corner classes first (default: 1024; of a decoder all codes)",
    )
    parser.add_argument(
        "--seed", type=parse_seed, default=0, metavar="N", help="of random rows (default: 0)"
    )
    parser.add_argument("--arithmetic", **choice(ARITHMETICS), help="of a MAC (default: fp12)")
    parser.add_argument(
        "--lanes", type=parse_integer, metavar="N", help="products of a MAC (default: 4)"
    )
    parser.add_argument(
        "--block",
        type=parse_integer,
        metavar="N",
        help="elements a converter takes (default: the format's, 64 or 32)",
    )
    parser.add_argument(
        "--input", **choice(vectors.INPUTS), help="of a converter (default: float32)"
    )


def _run(args: Namespace) -> None:
    with refused(ValueError, by=UsageError):
        built = vectors.build(
            args.unit,
            args.format,
            format_w=args.format_w,
            count=args.count,
            seed=args.seed,
            arithmetic=args.arithmetic,
            lanes=args.lanes,
            block=args.block,
            input=args.input,
        )
    with writing_to(args.out):
        vectors.write(built, args.out)
    for column in built.columns:
        print(f"  {args.out / column.file}: {built.count} words, width {column.width}")
    print(f"  {args.out / vectors.DESCRIPTION}")


COMMAND = Command(
    summary="Write test vectors: $readmemh files and vectors.json.",
    add_arguments=_add_arguments,
    run=_run,
)
