"""``mxsafe compile``: a model that PyTorch exported as a program of the machine."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mxsafe.cli.arguments import UsageError, UserError, parse_block, read_bytes
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of
from mxsafe.cli.outputs import add_force, require_new_file, write_file


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL.pt2", help="file of torch.export.save")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.mxprog", help="the compiled model"
    )
    add_force(parser)
    parser.add_argument(
        "--block",
        type=parse_block,
        default=64,
        metavar="N",
        help="blocks of operands: 64 along sums, or tiles of 8x8 (default: 64)",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="MODULE",
        help="module that the host computes in binary32; again for each further one",
    )
    add_machine(parser)


def _run(args: Namespace) -> None:
    for name, path, suffix in (("MODEL", args.model, ".pt2"), ("out", args.out, ".mxprog")):
        if path.suffix != suffix:
            raise UsageError(f"{name} must end in {suffix}, not {path.name!r}")
    require_new_file(args.out, force=args.force)
    configuration = machine_of(args)
    read_bytes(args.model)
    try:
        import torch

        from mxsafe.torch._compile import compile_exported
    except ImportError as error:
        raise UserError(f"compile needs PyTorch, pip install '.[torch]': {error}") from None
    try:
        exported = torch.export.load(args.model)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{args.model} must be a file of torch.export.save: {reason}") from None
    try:
        made = compile_exported(exported, configuration, args.block, args.keep)
    except ValueError as error:
        raise UserError(f"{args.model}: {error}") from None
    write_file(args.out, lambda: made.save(args.out))
    print(made.report())


COMMAND = Command(
    summary="Compile a model that PyTorch exported to a program of the machine.",
    add_arguments=_add_arguments,
    run=_run,
    description="Compile a model that torch.export.save wrote to one file with program, memory and "
    "names, and say what each part of it takes. What cannot be compiled is listed, node by node.",
)
