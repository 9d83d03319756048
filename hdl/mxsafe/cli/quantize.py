"""``mxsafe quantize``: an array to blocks of a format."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe import codec
from mxsafe.cli.arguments import add_format, parse_container, read_array, refused
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import add_force, require_new_file, require_other_file, write_file
from mxsafe.cli.quantisation import add_quantisation, axis_of, check_quantisation, rounding_of


def _add_arguments(parser: ArgumentParser) -> None:
    add_format(parser)
    parser.add_argument("input", type=Path, metavar="IN.npy")
    parser.add_argument("output", type=parse_container, metavar="OUT.npz")
    add_force(parser)
    add_quantisation(parser, block=None, block_help="the format's, 64, 32 or 16")


def _run(args: Namespace) -> None:
    check_quantisation(args)
    require_other_file(args.output, args.input)
    require_new_file(args.output, force=args.force)
    array = read_array(args.input)
    with refused(TypeError, ValueError, about=args.input):
        q = codec.quantize(
            array, args.format, block=args.block, axis=axis_of(args), **rounding_of(args)
        )
    write_file(args.output, lambda: codec.save(args.output, q))
    print(f"{args.output}: {q.codes.size} elements of {q.format.name} in {q.scales.size} blocks")


COMMAND = Command(
    summary="Quantise a .npy array to an .npz or .safetensors file.",
    add_arguments=_add_arguments,
    run=_run,
    aliases=("quantise",),
)
