"""Options of commands that quantise: blocks, rounding, scales."""

import argparse
from typing import Any

from mxsafe.cli.arguments import (
    UsageError,
    choice,
    parse_block,
    parse_integer,
    parse_rounding,
    parse_seed,
)
from mxsafe.codec.blocks import SCALE_MODES
from mxsafe.codec.elements import ROUNDINGS


def add_quantisation(
    parser: argparse.ArgumentParser, *, block: int | None, block_help: str
) -> None:
    """Add the options of a quantisation.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser of the command.
    block : int, optional
        Length of blocks by default; None for that of the format.
    block_help : str
        The default, in words.
    """
    parser.add_argument(
        "--block",
        type=parse_block,
        default=block,
        metavar="N|RxC",
        help=f"length of 1-D blocks or shape of 2-D tiles (default: {block_help})",
    )
    parser.add_argument(
        "--axis", type=parse_integer, metavar="N", help="axis of 1-D blocks (default: -1, the last)"
    )
    parser.add_argument(
        "--rounding",
        type=parse_rounding,
        default="rne",
        metavar="ROUNDING",
        help=f"{', '.join(ROUNDINGS)} (default: rne)",
    )
    parser.add_argument(
        "--scale-mode",
        **choice(SCALE_MODES),
        help="of scales that are powers of two (default: floor); those of nvfp4 are the nearest",
    )
    parser.add_argument(
        "--seed",
        type=parse_seed,
        metavar="N",
        help="of the random bits of --rounding sr (default: 0)",
    )


def check_quantisation(args: argparse.Namespace) -> None:
    """Raise UsageError if options of a quantisation do not go together."""
    if args.seed is not None and args.rounding != "sr":
        raise UsageError("--seed goes with --rounding sr")
    if args.axis is not None and isinstance(args.block, tuple):
        raise UsageError("--axis goes with 1-D blocks, not with tiles")


def rounding_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options of rounding, as `mxsafe.codec.quantize` takes them."""
    return {
        "rounding": args.rounding,
        "scale_mode": args.scale_mode,
        "random": (args.seed or 0) if args.rounding == "sr" else None,
    }


def axis_of(args: argparse.Namespace) -> int:
    """The axis of blocks, the last one if none was given."""
    return -1 if args.axis is None else int(args.axis)
