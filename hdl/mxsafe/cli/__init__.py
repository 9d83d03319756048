"""The `mxsafe` command.

Exit codes: 0 success, 1 the work failed (a file, its contents, a tool), 2 the command line is
wrong.
"""

import argparse
import importlib.util
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe
from mxsafe import codec, vectors
from mxsafe.analysis import inspection
from mxsafe.analysis import report as error_report
from mxsafe.analysis.errors import DISTRIBUTIONS, TensorError, draw_tensor, gap_error, tensor_error
from mxsafe.atomic import write_atomically
from mxsafe.cli.arguments import UsageError, UserError, parse_block, read_array
from mxsafe.codec.blocks import SCALE_MODES
from mxsafe.codec.elements import ROUNDINGS, canonical_rounding
from mxsafe.codec.profiles import PROFILES, divergence
from mxsafe.codec.storage import SUFFIXES
from mxsafe.formats import MX_FORMATS, SCALAR_FORMATS, FloatFormat, MXFormat, ScaleFormat
from mxsafe.model.gemm import ARITHMETICS

__all__ = ["main"]

_EPILOG = """\
examples:
  mxsafe decode 0x5f 0x1f 0x80          what MXSF codes mean
  mxsafe inspect 0.15625 -2.5           bits, value and error of numbers in every scalar format
  mxsafe inspect 0.1 --format mxsf      in one format, step by step
  mxsafe quantize x.npy q.npz           float array to MXSF, blocks of 64 along the last axis
  mxsafe quantize x.npy q.npz --block 8x8
  mxsafe dequantize q.npz y.npy         and back, to float32
  mxsafe analyse x.npy --out errors     what each format makes of it, with pictures
  mxsafe diverge x.npy --profile quark_even
                                        where another library's result is not ours
  mxsafe verilog --out gen              all hardware units as Verilog, with manifest.json
  mxsafe synth safe_mac_exact --target xilinx
                                        its area and timing
  mxsafe vectors --unit mac --out v     test vectors: $readmemh files and vectors.json

exit codes: 0 success, 1 the work failed, 2 the command line is wrong
"""


_UNITS = (
    "decoder",
    "fp_adder",
    "float32_adder",
    "safe_mac",
    "safe_mac_exact",
    "accumulator",
    "pu",
    "pu_exact",
    "sta",
    "sta_exact",
    "bf16_mac",
    "pu_bf16",
    "sta_bf16",
    "converter",
    "converter_8x8",
    "transposer",
    "activation",
    "operand_packer",
    "layer",
    "layer_exact",
    "layer_8x8",
)  # those of mxsafe.verilog.presets, which is imported only where Amaranth is needed


_TARGETS = ("nangate45", "ecp5", "ice40", "xilinx")  # likewise those of mxsafe.synthesis.targets


def _format(name: str) -> MXFormat:
    if name not in MX_FORMATS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(MX_FORMATS)}, not {name!r}")
    return MX_FORMATS[name]


def _any_format(name: str) -> FloatFormat | ScaleFormat | MXFormat:
    formats = {**SCALAR_FORMATS, **MX_FORMATS}
    if name not in formats:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(formats)}, not {name!r}")
    return formats[name]


def _number(text: str) -> float:
    text = text.strip()
    is_hexadecimal = "x" in text.lower()
    try:
        number = float.fromhex(text) if is_hexadecimal else float(text)
    except OverflowError:
        number = math.inf
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number such as -2.5, 1e-3, 0x1.4p-3, nan or inf, not {text!r}"
        ) from None
    if math.isinf(number) and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(f"must lie within the range of float64, not {text!r}")
    return number


def _as_operand(text: str) -> str:
    """What may be a negative number with a space before it, lest argparse take it for an option.

    Left to itself argparse knows ``-2.5``, but neither ``-1e-3`` nor ``-0x1p-3`` nor ``-inf``.
    """
    return f" {text}" if re.match("-[^-h]", text) else text


def _code(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be an integer such as 0x5f, 0b1011111 or 95, not {text!r}"
        ) from None


def _unit(text: str) -> str:
    if text not in _UNITS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(_UNITS)}, not {text!r}")
    return text


def _size(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split("x")]
    except ValueError:
        sizes = []
    if len(sizes) != len(_SIZES) or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"must be four lengths such as 4x4x4x4, not {text!r}")
    return sizes


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a non-negative integer, not {text!r}")
    return int(text)


def _rounding(text: str) -> str:
    try:
        return canonical_rounding(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("rounding ")) from None


def _container(text: str) -> Path:
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"must end in {' or '.join(SUFFIXES)}, not {text!r}")
    return path


def _print(lines: Sequence[str]) -> None:
    print("\n".join(lines))


def _written(path: Path, write: Callable[[], None]) -> None:
    """Call what writes a file, and say what went wrong."""
    try:
        write()
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    except ImportError as error:
        raise UserError(str(error)) from None


def _check_quantisation(args: argparse.Namespace) -> None:
    """Refuse options of `_quantisation_options` that do not go together."""
    if args.seed is not None and args.rounding != "sr":
        raise UsageError("--seed goes with --rounding sr")
    if args.axis is not None and isinstance(args.block, tuple):
        raise UsageError("--axis goes with 1-D blocks, not with tiles")


def _quantize(args: argparse.Namespace) -> None:
    _check_quantisation(args)
    array = read_array(args.input)
    try:
        q = codec.quantize(
            array,
            args.format,
            block=args.block,
            axis=-1 if args.axis is None else args.axis,
            rounding=args.rounding,
            scale_mode=args.scale_mode,
            random=(args.seed or 0) if args.rounding == "sr" else None,
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"{args.input}: {error}") from None
    _written(args.output, lambda: codec.save(args.output, q))
    print(f"{args.output}: {q.codes.size} elements of {q.format.name} in {q.scales.size} blocks")


def _dequantize(args: argparse.Namespace) -> None:
    try:
        q = codec.load(args.input, args.name)
    except OSError as error:
        raise UserError(f"cannot read {args.input}: {error.strerror or error}") from None
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from None
    values = codec.dequantize(q)
    _written(args.output, lambda: write_atomically(args.output, lambda f: np.save(f, values)))
    print(f"{args.output}: float32 of shape {values.shape}")


def _analyse(args: argparse.Namespace) -> None:
    _check_quantisation(args)
    formats = list(dict.fromkeys(args.format or MX_FORMATS.values()))
    rounding: dict[str, Any] = {
        "rounding": args.rounding,
        "scale_mode": args.scale_mode,
        "random": (args.seed or 0) if args.rounding == "sr" else None,
    }
    if args.out is not None and importlib.util.find_spec("matplotlib") is None:
        raise UserError("--out needs matplotlib: pip install 'mxsafe[figures]'")
    tensors: dict[str, list[TensorError]] = {}

    def measure(title: str, array: NDArray[Any]) -> None:
        try:
            tensors[title] = [
                tensor_error(
                    array,
                    fmt,
                    block=args.block,
                    axis=-1 if args.axis is None else args.axis,
                    **rounding,
                )
                for fmt in formats
            ]
        except (TypeError, ValueError) as error:
            raise UserError(f"{title}: {error}") from None

    for path in args.inputs:
        measure(str(path), read_array(path))
    for name in args.distribution:
        measure(name, draw_tensor(name))
    gaps = [gap_error(fmt, **rounding) for fmt in formats] if args.out or not tensors else []
    if tensors:
        print(error_report.aligned(error_report.tensor_rows(tensors), labels=3))
    else:
        print(error_report.aligned(error_report.gap_rows(gaps), labels=0))
    if args.out is not None:
        settings = {**rounding, "axis": -1 if args.axis is None else args.axis}
        try:
            names = error_report.write_report(
                args.out, gaps=gaps, tensors=tensors, settings=settings
            )
        except OSError as error:
            raise UserError(f"cannot write to {args.out}: {error.strerror or error}") from None
        print(*(f"  {args.out / name}" for name in names), sep="\n")


def _decode(args: argparse.Namespace) -> None:
    fmt: MXFormat = args.format
    for code in args.codes:
        if code < 0 or code >> fmt.element.width:
            raise UsageError(
                f"CODE must lie in 0..{(1 << fmt.element.width) - 1} for {fmt.name}, not {code}"
            )
    _print(inspection.decode_table(args.codes, fmt))


def _inspect(args: argparse.Namespace) -> None:
    for position, number in enumerate(args.numbers):
        if position:
            print()
        if args.format is None:
            _print(inspection.number_table(number))
        else:
            _print(inspection.derivation(number, args.format))


def _formats(args: argparse.Namespace) -> None:
    _print(inspection.format_tables())


def _diverge(args: argparse.Namespace) -> None:
    if args.list:
        for profile in PROFILES.values():
            print(f"{profile.name:<20}  {profile.library} {profile.version}")
            print(f"{'':<20}  {profile.description}")
        return
    if args.input is None or args.profile is None:
        raise UsageError("diverge needs X.npy and --profile, or --list")
    array = read_array(args.input)
    try:
        report = divergence(
            array,
            args.profile,
            args.format,
            block=args.block,
            axis=args.axis,
            limit=args.limit,
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"{args.input}: {error}") from None
    print(report)


def _unit_options(args: argparse.Namespace) -> dict[str, int | str]:
    """The options of `_add_unit_options` that were given."""
    given = [name for name in (*_OPTIONS, "size") if getattr(args, name) is not None]
    if given and not args.unit:
        raise UsageError(f"--{given[0]} needs a UNIT that has it")
    options = {name: getattr(args, name) for name in _OPTIONS}
    if args.size is not None:
        options |= dict(zip(_SIZES, args.size, strict=True))
    return {name: value for name, value in options.items() if value is not None}


def _verilog(args: argparse.Namespace) -> None:
    # Amaranth is imported only here: the codec's commands start without it.
    from mxsafe.verilog import presets
    from mxsafe.verilog.generate import generate

    options = _unit_options(args)
    if args.out.exists() and not args.out.is_dir():
        raise UserError(f"cannot write to {args.out}: not a folder")
    try:
        names = args.unit or presets.units_of(args.format)
        units = [presets.build(name, args.format, **options) for name in names]
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        generate(
            units,
            args.out,
            clean=not args.unit,
            progress=lambda line: print(f"  {args.out / line}"),
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"cannot write to {args.out}: {error.strerror or error}") from None
    except (RuntimeError, ValueError) as error:
        raise UserError(str(error)) from None


def _synth(args: argparse.Namespace) -> None:
    from mxsafe.synthesis import power
    from mxsafe.synthesis import report as synthesis_report
    from mxsafe.synthesis import run as synthesis
    from mxsafe.synthesis.configurations import select

    given = _unit_options(args)
    if args.out is not None and importlib.util.find_spec("matplotlib") is None:
        raise UserError("--out needs matplotlib: pip install 'mxsafe[figures]'")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise UserError(f"cannot write to {args.out}: not a folder")
    try:
        chosen = select(
            args.unit,
            formats=[fmt.name for fmt in dict.fromkeys(args.format or [])],
            options=given,
            targets=args.target,
        )
        found = synthesis.synthesise(
            chosen,
            clock=args.clock,
            jobs=args.jobs,
            stimuli=power.read_stimuli(args.activity) if args.activity else None,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    except RuntimeError as error:
        raise UserError(str(error)) from None
    print(synthesis_report.text(found))
    if args.out is not None:
        try:
            names = synthesis_report.write_report(args.out, found)
        except OSError as error:
            raise UserError(f"cannot write to {args.out}: {error.strerror or error}") from None
        print("", *(f"  {args.out / name}" for name in names), sep="\n")


def _vectors(args: argparse.Namespace) -> None:
    options = {
        name: getattr(args, name)
        for name in ("count", "seed", "arithmetic", "lanes", "block", "input")
    }
    try:
        built = vectors.build(args.unit, args.format, **options)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        vectors.write(built, args.out)
    except OSError as error:
        raise UserError(f"cannot write to {args.out}: {error.strerror or error}") from None
    for column in built.columns:
        print(f"  {args.out / column.file}: {built.count} words, width {column.width}")
    print(f"  {args.out / vectors.DESCRIPTION}")


def _quantisation_options(
    parser: argparse.ArgumentParser, *, block: int | None, block_help: str
) -> None:
    parser.add_argument(
        "--block",
        type=parse_block,
        default=block,
        metavar="N|RxC",
        help=f"length of 1-D blocks or shape of 2-D tiles (default: {block_help})",
    )
    parser.add_argument(
        "--axis", type=int, metavar="N", help="axis of 1-D blocks (default: -1, the last)"
    )
    parser.add_argument(
        "--rounding",
        type=_rounding,
        default="rne",
        metavar="ROUNDING",
        help=f"{', '.join(ROUNDINGS)} (default: rne)",
    )
    parser.add_argument(
        "--scale-mode", choices=SCALE_MODES, default="floor", help="(default: floor)"
    )
    parser.add_argument(
        "--seed", type=_seed, metavar="N", help="of the random bits of --rounding sr (default: 0)"
    )


def _add_unit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lanes", type=int, metavar="N", help="products a cycle (default: 4)")
    parser.add_argument(
        "--pipeline", type=int, metavar="N", help="register stages of a MAC (default: its own)"
    )
    parser.add_argument(
        "--size",
        type=_size,
        metavar="RxCxrxc",
        help="of an array: rows and columns of units, rows and columns of MACs in each "
        "(default: 4x4x4x4)",
    )
    parser.add_argument(
        "--block",
        type=int,
        metavar="N",
        help="longest block of an exact array (default: 64); block of a converter, or of a layer "
        "along its features (default: the format's, 64 or 32)",
    )
    parser.add_argument(
        "--units",
        type=int,
        metavar="N",
        help="scale-and-accumulate units for the MACs of one unit of an exact array (default: 1)",
    )
    parser.add_argument(
        "--scale-stages",
        type=int,
        metavar="N",
        help="registers in the scalers of an exact array, 0 to 4",
    )
    parser.add_argument(
        "--add-stages",
        type=int,
        metavar="N",
        help="registers in the shared adders of an exact array, 1 to 4",
    )
    parser.add_argument(
        "--dsp",
        action="store_const",
        const=True,
        help="multiply in DSP blocks of an FPGA instead of by digits",
    )
    parser.add_argument(
        "--width", type=int, metavar="N", help="values a beat of a converter (default: 16)"
    )
    parser.add_argument(
        "--source", choices=vectors.INPUTS, help="input of a converter (default: float32)"
    )
    parser.add_argument("--activation", metavar="NAME", help="of a layer: relu (default) or none")


_OPTIONS = (
    "lanes",
    "pipeline",
    "block",
    "units",
    "scale_stages",
    "add_stages",
    "dsp",
    "width",
    "source",
    "activation",
)
_SIZES = ("pu_rows", "pu_columns", "rows", "columns")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mxsafe",
        description="Microscaling arithmetic whose software and silicon agree on every bit.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mxsafe {mxsafe.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], None], summary: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(run=run)
        sub.add_argument(
            "--format",
            type=_format,
            default="mxsf",
            metavar="FORMAT",
            help=f"element format: {', '.join(MX_FORMATS)} (default: mxsf)",
        )
        return sub

    verilog = command("verilog", _verilog, "Write hardware units as Verilog, with a manifest.")
    verilog.add_argument(
        "unit",
        nargs="*",
        type=_unit,
        metavar="UNIT",
        help=f"one of {', '.join(_UNITS)}. Named units are added to what the folder holds; "
        "without any, the folder is made to hold all of them in their usual configurations",
    )
    verilog.add_argument(
        "--out", type=Path, default=Path("gen"), metavar="DIR", help="folder (default: gen)"
    )
    _add_unit_options(verilog)

    summary = "Measure area and timing of hardware units."
    synth = commands.add_parser(
        "synth",
        help=summary,
        description=f"{summary} Without a UNIT: of the standard configurations.",
    )
    synth.set_defaults(run=_synth)
    synth.add_argument(
        "unit", nargs="*", type=_unit, metavar="UNIT", help=f"one of {', '.join(_UNITS)}"
    )
    synth.add_argument(
        "--target",
        action="append",
        choices=_TARGETS,
        help="technology; may be repeated (default: nangate45; of the standard configurations all)",
    )
    synth.add_argument(
        "--format",
        action="append",
        type=_format,
        metavar="FORMAT",
        help="element format; may be repeated (default: mxsf; of the standard configurations their "
        "own)",
    )
    _add_unit_options(synth)
    synth.add_argument(
        "--clock",
        type=float,
        metavar="NS",
        help="wanted period (default: as short as the tools can make it)",
    )
    synth.add_argument(
        "--jobs", type=int, metavar="N", help="tools side by side (default: one a core)"
    )
    synth.add_argument(
        "--activity",
        type=Path,
        metavar="DIR",
        help="folder with <module>.npz: what the netlists for nangate45 are simulated with, for "
        "power",
    )
    synth.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for synthesis.json, synthesis.md and pictures (needs matplotlib)",
    )

    test_vectors = command(
        "vectors", _vectors, "Write test vectors: $readmemh files and vectors.json."
    )
    test_vectors.add_argument("--unit", required=True, choices=vectors.UNITS)
    test_vectors.add_argument(
        "--out", type=Path, default=Path("vectors"), metavar="DIR", help="folder (default: vectors)"
    )
    test_vectors.add_argument(
        "--count",
        type=int,
        metavar="N",
        help="rows, corner classes first (default: 1024; of a decoder all codes)",
    )
    test_vectors.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="of random rows (default: 0)"
    )
    test_vectors.add_argument("--arithmetic", choices=ARITHMETICS, help="of a MAC (default: fp12)")
    test_vectors.add_argument(
        "--lanes", type=int, metavar="N", help="products of a MAC (default: 4)"
    )
    test_vectors.add_argument(
        "--block",
        type=int,
        metavar="N",
        help="elements a converter takes (default: the format's, 64 or 32)",
    )
    test_vectors.add_argument(
        "--input", choices=vectors.INPUTS, help="of a converter (default: float32)"
    )

    quantize = command(
        "quantize", _quantize, "Quantise a .npy array to an .npz or .safetensors file."
    )
    quantize.add_argument("input", type=Path, metavar="IN.npy")
    quantize.add_argument("output", type=_container, metavar="OUT.npz")
    _quantisation_options(quantize, block=None, block_help="the format's, 64 or 32")

    dequantize = commands.add_parser(
        "dequantize",
        help="Turn a file of quantize back into a float32 .npy array.",
        description="Turn a file of quantize back into a float32 .npy array.",
    )
    dequantize.set_defaults(run=_dequantize)
    dequantize.add_argument("input", type=_container, metavar="IN.npz")
    dequantize.add_argument("output", type=Path, metavar="OUT.npy")
    dequantize.add_argument(
        "--name", metavar="NAME", help="which tensor, if the file holds more than one"
    )

    analyse = commands.add_parser(
        "analyse",
        help="Tabulate the errors of tensors in several formats.",
        description="Tabulate the errors of tensors in several formats; without a tensor, the mean "
        "relative error of an element against the exponent gap to its block's maximum.",
    )
    analyse.set_defaults(run=_analyse)
    analyse.add_argument("inputs", type=Path, nargs="*", metavar="X.npy")
    analyse.add_argument(
        "--distribution",
        action="append",
        default=[],
        choices=DISTRIBUTIONS,
        help="a tensor of 256 x 1024 drawn from it; may be repeated",
    )
    analyse.add_argument(
        "--format",
        action="append",
        type=_format,
        metavar="FORMAT",
        help="element format; may be repeated (default: all of them)",
    )
    _quantisation_options(analyse, block=64, block_help="64 for every format")
    analyse.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for errors.json, errors.md and pictures (needs matplotlib)",
    )

    diverge = commands.add_parser(
        "diverge",
        help="Show where another library's quantiser differs from ours.",
        description="Show where another library's quantiser differs from ours, block by block.",
    )
    diverge.set_defaults(run=_diverge)
    diverge.add_argument("input", type=Path, nargs="?", metavar="X.npy")
    diverge.add_argument("--list", action="store_true", help="show the profiles instead")
    diverge.add_argument(
        "--profile", choices=PROFILES, metavar="NAME", help=f"one of {', '.join(PROFILES)}"
    )
    diverge.add_argument(
        "--format",
        type=_format,
        default="mxfp8_e4m3",
        metavar="FORMAT",
        help="element format, one that the library has (default: mxfp8_e4m3)",
    )
    diverge.add_argument(
        "--block", type=int, metavar="N", help="length of blocks (default: the format's)"
    )
    diverge.add_argument(
        "--axis", type=int, default=-1, metavar="N", help="axis of blocks (default: -1, the last)"
    )
    diverge.add_argument(
        "--limit", type=int, default=20, metavar="N", help="list so many blocks (default: 20)"
    )

    decode = command("decode", _decode, "Show fields, mode and value of element codes.")
    decode.add_argument("codes", type=_code, nargs="+", metavar="CODE", help="such as 0x5f")

    summary = "Show the bits, value and error of numbers in scalar formats."
    inspect = commands.add_parser("inspect", help=summary, description=summary)
    inspect.set_defaults(run=_inspect)
    inspect.add_argument(
        "numbers",
        type=_number,
        nargs="+",
        metavar="NUMBER",
        help="such as -2.5, 1e-3, 0x1.4p-3, nan or inf; read as float64",
    )
    inspect.add_argument(
        "--format",
        type=_any_format,
        metavar="FORMAT",
        help=f"one format, step by step: {', '.join(SCALAR_FORMATS)}; or the elements of an MX "
        f"format under a block scale of 1: {', '.join(MX_FORMATS)}",
    )

    summary = "List the scalar and the MX formats: fields, range, precision, use."
    formats = commands.add_parser("formats", help=summary, description=summary)
    formats.set_defaults(run=_formats)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit code: 0 success, 1 the work failed, 2 the command line is wrong.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["inspect"]:
        words = ["inspect", *map(_as_operand, words[1:])]
    args = _parser().parse_args(words)
    try:
        args.run(args)
    except UserError as error:
        print(f"mxsafe: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0
