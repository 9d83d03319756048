"""``mxsafe export``: a compiled model as files for firmware."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UsageError, read_bytes, refused
from mxsafe.cli.command import Command
from mxsafe.cli.outputs import add_force, require_folder, require_new_file, writing_to


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="COMPILED.mxprog", help="the compiled model")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the files")
    parser.add_argument(
        "--name", metavar="NAME", help="of the model in C and of its files (default: model)"
    )
    add_force(parser)


def _run(args: Namespace) -> None:
    from mxsafe.machine.compiled import Compiled
    from mxsafe.machine.flat import flat_files

    if args.model.suffix != ".mxprog":
        raise UsageError(f"COMPILED must end in .mxprog, not {args.model.name!r}")
    read_bytes(args.model)
    with refused(ValueError):
        files = flat_files(Compiled.load(args.model), args.name or "model")
    require_folder(args.out)
    for name in files:
        require_new_file(args.out / name, force=args.force)
    with writing_to(args.out):
        args.out.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomically(args.out / name, data)
            print(f"{args.out / name}: {len(data)} bytes")


COMMAND = Command(
    summary="Write a compiled model as bytes and C for firmware.",
    add_arguments=_add_arguments,
    run=_run,
    description="Write a compiled model as a file of bytes, its program and memory, and C99 that "
    "writes its inputs, runs it by registers of the machine and reads its outputs.",
)
