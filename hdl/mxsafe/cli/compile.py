"""``mxsafe compile``: a model of PyTorch or ONNX as a program of the machine."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from mxsafe.cli.arguments import UsageError, UserError, format_of, parse_block, read_bytes, refused
from mxsafe.cli.command import Command
from mxsafe.cli.machine import add_machine, machine_of
from mxsafe.cli.outputs import add_force, require_new_file, write_file
from mxsafe.formats import BF16, MX_FORMATS
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.contents import ARCHIVE, EXPORTED, contents
from mxsafe.machine.named import machine_named

if TYPE_CHECKING:
    from mxsafe.machine.compiled import Compiled


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help="file of torch.export.save, .pt2, or of ONNX, .onnx",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.mxprog", help="the compiled model"
    )
    add_force(parser)
    parser.add_argument(
        "--block",
        type=parse_block,
        metavar="N",
        help="blocks of operands: 64 along sums, or tiles of 8x8 (default: 64; none with "
        "arithmetic bf16)",
    )
    parser.add_argument(
        "--format",
        type=format_of({**MX_FORMATS, BF16.name: BF16}),
        metavar="FORMAT",
        help="format of both operands, bf16 with arithmetic bf16 (default: those of the machine)",
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
    if args.model.suffix not in (".pt2", ".onnx"):
        raise UsageError(f"MODEL must end in .pt2 or .onnx, not {args.model.name!r}")
    if args.out.suffix != ".mxprog":
        raise UsageError(f"out must end in .mxprog, not {args.out.name!r}")
    require_new_file(args.out, force=args.force)
    configuration = _machine(args)
    _check_contents(args.model)
    with refused(ValueError, about=args.model):
        compiled = _of_onnx if args.model.suffix == ".onnx" else _of_torch
        made = compiled(args, configuration)
    write_file(args.out, lambda: made.save(args.out))
    print(made.report())


def _check_contents(model: Path) -> None:
    """Refuse what is no model before a library is imported, which would say less of it."""
    found = contents(read_bytes(model))
    if model.suffix == ".onnx":
        if found:  # a model of ONNX is of no kind that is known
            raise UserError(f"{model} must be an ONNX model, not {found}")
    elif found not in (EXPORTED, ARCHIVE):
        raise UserError(
            f"{model} must be a file of torch.export.save, not {found or 'something else'}"
        )


def _machine(args: Namespace) -> MachineConfiguration:
    """The machine that the options say, with one format of both operands if that is given."""
    configuration = machine_of(args)
    if args.format is None:
        return configuration
    for name in ("format_a", "format_w"):
        if getattr(args, name) is not None:
            raise UsageError(f"{name} must not be given with format, not {getattr(args, name)}")
    with refused(ValueError, by=UsageError):
        return machine_named(configuration, args.format)


def _of_torch(args: Namespace, configuration: MachineConfiguration) -> "Compiled":
    try:
        import torch

        from mxsafe.torch._compile import compile_exported
    except ImportError as error:
        raise UserError(f"compile needs PyTorch, pip install '.[torch]': {error}") from None
    try:
        exported = torch.export.load(args.model)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{args.model} must be a file of torch.export.save, whose outputs are tensors and "
            f"tuples of them (return_dict=False): {reason}"
        ) from None
    return compile_exported(exported, configuration, args.block, args.keep)


def _of_onnx(args: Namespace, configuration: MachineConfiguration) -> "Compiled":
    try:
        import onnx

        from mxsafe.onnx import compile_model
    except ImportError as error:
        raise UserError(f"compile needs ONNX, pip install '.[onnx]': {error}") from None
    try:
        model = onnx.load(args.model)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{args.model} must be an ONNX model: {reason}") from None
    return compile_model(model, configuration, args.block, args.keep)


COMMAND = Command(
    summary="Compile a model of PyTorch or ONNX to a program of the machine.",
    add_arguments=_add_arguments,
    run=_run,
    description="Compile a model of torch.export.save or ONNX to one file with program, memory and "
    "names, and say what each part of it takes. What cannot be compiled is listed, node by node.",
)
