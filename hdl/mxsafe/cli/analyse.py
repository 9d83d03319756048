"""``mxsafe analyse``: the errors of tensors in several formats."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mxsafe.analysis import report
from mxsafe.analysis.errors import (
    DISTRIBUTIONS,
    GapError,
    TensorError,
    draw_tensor,
    gap_error,
    tensor_error,
)
from mxsafe.cli.arguments import UsageError, choice, format_of, read_array, refused
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import FIGURES, require_matplotlib, writing_to
from mxsafe.cli.quantisation import add_quantisation, axis_of, check_quantisation, rounding_of
from mxsafe.codec.blocks import settled_scale_mode
from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS, MXFormat


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("inputs", type=Path, nargs="*", metavar="X.npy")
    parser.add_argument(
        "--distribution",
        action="append",
        default=[],
        **choice(DISTRIBUTIONS),
        help="a tensor of 256 x 1024 drawn from it; may be repeated",
    )
    parser.add_argument(
        "--format",
        action="append",
        type=format_of(BLOCK_FORMATS),
        metavar="FORMAT",
        help="format; may be repeated (default: all; with --scale-mode all whose scales have it)",
    )
    add_quantisation(parser, block=None, block_help="64, of nvfp4 16")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"folder for errors.json, errors.md and pictures, which need {FIGURES}",
    )


def _arrays(args: Namespace) -> Iterator[tuple[str, NDArray[Any]]]:
    """Tensors with their titles, each read or drawn when it is its turn."""
    for path in args.inputs:
        yield str(path), read_array(path)
    for name in args.distribution:
        yield name, draw_tensor(name)


def _block(format: MXFormat) -> int:
    """Length of blocks if none is given: one for all MX formats, that they can be compared."""
    return 64 if format.name in MX_FORMATS else format.block


def _tensor_errors(
    args: Namespace, formats: Sequence[MXFormat]
) -> dict[str, Sequence[TensorError]]:
    """Errors of a tensor in every format, by title."""
    tensors: dict[str, Sequence[TensorError]] = {}
    settings = {"axis": axis_of(args), **rounding_of(args)}
    for title, array in _arrays(args):
        with refused(TypeError, ValueError, about=title):
            tensors[title] = [
                tensor_error(array, format, block=args.block or _block(format), **settings)
                for format in formats
            ]
    return tensors


def _gap_errors(args: Namespace, formats: Sequence[MXFormat]) -> list[GapError]:
    """Errors by exponent gap, of elements whose blocks have no length."""
    with refused(ValueError, by=UsageError):
        return [gap_error(format, **rounding_of(args)) for format in formats]


def _check_blocks(args: Namespace) -> None:
    """Refuse options of blocks where there is no tensor."""
    if not (args.inputs or args.distribution):
        for name in ("block", "axis"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name} goes with X.npy or --distribution")


def _run(args: Namespace) -> None:
    check_quantisation(args)
    _check_blocks(args)
    every = BLOCK_FORMATS if args.scale_mode is None else MX_FORMATS
    formats = list(dict.fromkeys(args.format or every.values()))
    if args.out is not None:
        require_matplotlib()
    tensors = _tensor_errors(args, formats)
    gaps = _gap_errors(args, formats) if args.out or not tensors else []
    if args.out is not None:
        default = {format.name: settled_scale_mode(None, format) for format in formats}
        settings = {
            **rounding_of(args),
            "scale_mode": args.scale_mode or default,
            "axis": axis_of(args),
        }
        with writing_to(args.out):
            names = report.write_report(args.out, gaps=gaps, tensors=tensors, settings=settings)
    if tensors:
        print(report.aligned(report.tensor_rows(tensors), labels=3))
    else:
        print(report.aligned(report.gap_rows(gaps), labels=0))
    if args.out is not None:
        print(*(f"  {args.out / name}" for name in names), sep="\n")


COMMAND = Command(
    summary="Tabulate the errors of tensors in several formats.",
    description="Tabulate the errors of tensors in several formats; without a tensor, the mean "
    "relative error of an element against the exponent gap to its block's maximum.",
    add_arguments=_add_arguments,
    run=_run,
    aliases=("analyze",),
)
