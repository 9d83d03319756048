"""``mxsafe dequantize``: blocks of a format to an array."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from mxsafe import codec
from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UserError, parse_container
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import add_force, require_new_file, require_other_file, write_file


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("input", type=parse_container, metavar="IN.npz")
    parser.add_argument("output", type=Path, metavar="OUT.npy")
    add_force(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="which tensor, if the file holds more than one"
    )


def _run(args: Namespace) -> None:
    require_other_file(args.output, args.input)
    require_new_file(args.output, force=args.force)
    try:
        q = codec.load(args.input, args.name)
    except OSError as error:
        raise UserError(f"cannot read {args.input}: {error.strerror or error}") from None
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from None
    values = codec.dequantize(q)
    write_file(args.output, lambda: write_atomically(args.output, lambda f: np.save(f, values)))
    print(f"{args.output}: float32 of shape {values.shape}")


COMMAND = Command(
    summary="Turn a file of quantize back into a float32 .npy array.",
    add_arguments=_add_arguments,
    run=_run,
    aliases=("dequantise",),
)
