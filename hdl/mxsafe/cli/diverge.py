"""``mxsafe diverge``: where another library's quantiser differs."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import UsageError, choice, format_of, parse_integer, read_array, refused
from mxsafe.cli.command import Command
from mxsafe.codec.profiles import PROFILES, divergence
from mxsafe.formats import MX_FORMATS


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("input", type=Path, nargs="?", metavar="X.npy")
    parser.add_argument("--list", action="store_true", help="show the profiles instead")
    parser.add_argument(
        "--profile",
        **choice(PROFILES) | {"metavar": "NAME"},
        help=f"one of {', '.join(PROFILES)}",
    )
    parser.add_argument(
        "--format",
        type=format_of(MX_FORMATS),
        default="mxfp8_e4m3",
        metavar="FORMAT",
        help="element format, one that the library has (default: mxfp8_e4m3)",
    )
    parser.add_argument(
        "--block", type=parse_integer, metavar="N", help="length of blocks (default: the format's)"
    )
    parser.add_argument(
        "--axis",
        type=parse_integer,
        default=-1,
        metavar="N",
        help="axis of blocks (default: -1, the last)",
    )
    parser.add_argument(
        "--limit",
        type=parse_integer,
        default=20,
        metavar="N",
        help="list so many blocks (default: 20)",
    )


def _run(args: Namespace) -> None:
    if args.list and (args.input is not None or args.profile is not None):
        raise UsageError("--list goes without X.npy and --profile")
    if args.list:
        for profile in PROFILES.values():
            print(f"{profile.name:<20}  {profile.library} {profile.version}")
            print(f"{'':<20}  {profile.description}")
        return
    if args.input is None or args.profile is None:
        raise UsageError("diverge needs X.npy and --profile, or --list")
    array = read_array(args.input)
    with refused(TypeError, ValueError, about=args.input):
        report = divergence(
            array,
            args.profile,
            args.format,
            block=args.block,
            axis=args.axis,
            limit=args.limit,
        )
    print(report)


COMMAND = Command(
    summary="Show where another library's quantiser differs from ours.",
    description="Show where another library's quantiser differs from ours, block by block.",
    add_arguments=_add_arguments,
    run=_run,
)
