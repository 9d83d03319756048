"""Arguments of commands that build hardware units: their names, formats and parameters."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mxsafe import vectors
from mxsafe.cli.arguments import UsageError, choice, format_of, parse_size
from mxsafe.cli.machine import MACHINE_OPTIONS, add_machine, machine_values
from mxsafe.formats import FORMAT_SETS, MX_FORMATS, OPERAND_FORMATS, FormatSet, MXFormat
from mxsafe.machine.configuration import MachineConfiguration, resized
from mxsafe.tables import GRADES

if TYPE_CHECKING:
    from mxsafe.verilog.presets import Kind, Preset


def _number(words: str) -> Mapping[str, Any]:
    return {"type": int, "metavar": "N", "help": words}


def _flag(words: str) -> Mapping[str, Any]:
    return {"action": "store_const", "const": True, "help": words}


UNIT_OPTIONS: Mapping[tuple["Kind", ...], Mapping[str, Mapping[str, Any]]] = {
    (): {
        "lanes": _number(
            "products a cycle (default: 4), or numbers a beat of a vector unit (default: 16)"
        ),
        "pipeline": _number(
            "register stages of a MAC, an adder or an activation (default: its own)"
        ),
        "block": _number(
            "longest block of an exact array, or one with windows; block of a converter, "
            "or of a layer along its features (default: the format's, 64 or 32)"
        ),
        "add_stages": _number(
            "registers in the shared adders of an exact array, 1 to 4, and for an FPGA as "
            "many as there are cycles between two sums into one accumulator (14 with 16 "
            "MACs); or in the adders of a vector unit"
        ),
        "target": {
            "metavar": "TARGET",
            "help": "what a unit is built for: asic, which is standard cells (default), or fpga, "
            "with carry chains and DSP blocks, see docs/fpga.md",
        },
    },
    ("arithmetic", "layer"): {
        "format_w": {
            "type": format_of(OPERAND_FORMATS),
            "metavar": "FORMAT",
            "help": "element format of operand w: of the columns of an array, of the samples and "
            "results of a layer (default: that of --format)",
        },
        "size": {
            "type": parse_size,
            "metavar": "RxCxrxc",
            "help": "of an array: rows and columns of units, rows and columns of MACs in each "
            "(default: 4x4x4x4)",
        },
        "window": _number(
            "bits of the integer of an output in an array with windows (default: 32)"
        ),
        "inner": _number("most products of an output in an array with windows (default: 4096)"),
        "interleave": _number(
            "columns that each MAC of an exact array, or one with windows, serves in turn, 1 "
            "(default) or 2; those of --size are then columns of results"
        ),
        "accumulators": _number(
            "scale-and-accumulate units, here called accumulators, that the MACs of one "
            "sub-matrix unit of an exact array share (default: 1)"
        ),
        "scale_stages": _number(
            "registers in the scalers of an exact array, or one with windows, 0 to 4, and "
            "for an FPGA up to 16"
        ),
        "dsp": {
            "action": argparse.BooleanOptionalAction,
            "help": "multiply in an FPGA's DSP blocks, not by digits: the default for --target "
            "fpga, where MACs go without by --no-dsp",
        },
        "carry_save": _flag(
            "of an exact array for standard cells: add products without chains of "
            "carries, for less energy"
        ),
    },
    ("stream",): {
        "width": _number("values a beat of a converter (default: 16)"),
        "source": {
            **choice(vectors.INPUTS),
            "help": "input of a converter (default: float32)",
        },
    },
    ("stream", "vector"): {
        "grade": {
            **choice(GRADES),
            "help": "how exact functions, softmax and norms are, see docs/vector.md (default: "
            "compact)",
        },
    },
    ("vector",): {
        "operations": {
            "metavar": "NAMES",
            "help": "of vector_arithmetic: of add, multiply, axpy and scale, joined by + "
            "(default: add+multiply+axpy)",
        },
        "operand": {
            **choice(("lanes", "beat", "both")),
            "help": "of vector_arithmetic: a second operand for each lane (default), for a whole "
            "beat, or either by a flag",
        },
        "depth": _number("beats in the memory of a unit that stores rows (default: 512)"),
        "statistics": _flag("let mean and reciprocal deviation of rows leave a normalisation too"),
    },
    ("layer",): {
        "activation": {
            "metavar": "NAME",
            "help": "of a layer: relu (default), gelu, silu, tanh, sigmoid or none",
        },
        "stages": {
            "metavar": "NAMES",
            "help": "of a layer: what happens to results, of bias, activation and residual, "
            "joined by + (default: activation)",
        },
    },
}
"""Parameters by the kinds of units that have them, () for most, and how argparse takes them.

``scale_stages`` is ``--scale-stages``.
"""

_OPTIONS = [name for options in UNIT_OPTIONS.values() for name in options]

_SHARED = tuple({"lanes", "format_a", "format_w", "grade"} & set(MACHINE_OPTIONS))
"""Parameters of the machine that other units have too; its format of operand a is ``--format``."""

_LENGTHS = {"pu_rows": "R", "pu_columns": "C", "rows": "r", "columns": "c"}
"""The parameters that ``--size`` gives, and their letters in its help."""

_LENGTH = re.compile(
    rf"\b(?:{'|'.join(_LENGTHS)})\b(?= \*| must| is)|(?<=\* )(?:{'|'.join(_LENGTHS)})\b"
)
"""A length in an expression or at the head of a message: not the word *rows* in a sentence."""


def _presets() -> "Mapping[str, Preset]":
    # Amaranth is imported only here: the codec's commands start without it.
    from mxsafe.verilog.presets import PRESETS

    return PRESETS


def add_units(parser: argparse.ArgumentParser, *, remark: str = "") -> None:
    """Add names of units as positional arguments, with a remark behind what the help says."""
    parser.add_argument(
        "unit",
        nargs="*",
        type=choice(_presets())["type"],
        metavar="UNIT",
        help=f"a unit of those listed below by kind{remark}",
    )


def add_unit_options(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of units as options, in a group for each kind of unit."""
    for kinds, options in UNIT_OPTIONS.items():
        title = f"{' and '.join(kinds)} units" if kinds else "units of several kinds"
        group = parser.add_argument_group(title, _units_of(*kinds) or None)
        for name, settings in options.items():
            group.add_argument(f"--{name.replace('_', '-')}", **settings)
    add_machine(
        parser,
        description=f"{_units_of('machine')}; shown are the sizes of accelerator",
        without=_SHARED,
    )


def _units_of(*kinds: "Kind") -> str:
    return ", ".join(name for name, preset in _presets().items() if preset.kind in kinds)


def hardware_format_help() -> str:
    """Help of ``--format``."""
    sets = "; ".join(
        f"{name}: {', '.join(fmt.name for fmt in formats.members)}, chosen at run time, for exact "
        "arrays"
        for name, formats in FORMAT_SETS.items()
    )
    return f"element format: {', '.join(MX_FORMATS)}; {sets} (default: mxsf)"


def _require_parameter(units: Sequence[str], option: str, attribute: str, value: object) -> None:
    """Raise UsageError if an option was given to a unit whose preset denies it."""
    for unit in units:
        if not getattr(_presets()[unit], attribute):
            raise UsageError(f"{option} is not a parameter of {unit}, but {value} was given")


def _require_formats(units: Sequence[str], arithmetic: str) -> None:
    """Raise UsageError if a machine's operands are of one format alone."""
    with unit_errors(units):
        machine = resized(MachineConfiguration(), arithmetic=arithmetic)
    if not machine.scaled:
        raise UsageError(f"format must not be given with arithmetic {arithmetic}, which has one")


def unit_options(
    args: argparse.Namespace, formats: Sequence[MXFormat | FormatSet]
) -> dict[str, Any]:
    """The parameters of units that a command line gives, by the names that the units have.

    Parameters
    ----------
    args : argparse.Namespace
        What `add_units` and `add_unit_options` have added.
    formats : sequence of MXFormat
        Formats that were given, not those taken by default.

    Raises
    ------
    UsageError
        If an option was given without a unit, a set of formats without one, or a format or a size
        with a unit that has none.
    """
    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    sizes = machine_values(args, without=_SHARED)
    given |= sizes
    if given and not args.unit:
        raise UsageError(f"--{next(iter(given)).replace('_', '-')} needs a UNIT that has it")
    for format in formats:
        if isinstance(format, FormatSet) and not args.unit:
            raise UsageError(f"--format {format.name} needs a UNIT that has it")
        _require_parameter(args.unit, "format", "has_format", format.name)
    if "format_w" in given:
        _require_parameter(args.unit, "format_w", "has_operands", given["format_w"].name)
    for name, value in sizes.items():
        _require_parameter(args.unit, name, "is_machine", value)
    if (formats or "format_w" in given) and "arithmetic" in sizes:
        _require_formats(args.unit, sizes["arithmetic"])
    size = given.pop("size", None)
    if size is not None:
        _require_parameter(args.unit, "size", "has_size", "x".join(map(str, size)))
        given |= dict(zip(_LENGTHS, size, strict=True))
    return given


@contextmanager
def unit_errors(units: Sequence[str] = ()) -> Iterator[None]:
    """Turn a ValueError while units are built into a UsageError that speaks of options.

    The parameters that ``--size`` gives get the letters that they have in its help. A machine has
    an option ``--rows`` instead.
    """
    try:
        yield
    except ValueError as error:
        if any(_presets()[unit].is_machine for unit in units):
            raise UsageError(str(error)) from None
        letters = "x".join(_LENGTHS.values())
        message = _LENGTH.sub(lambda match: _LENGTHS[match.group()], str(error))
        if message != str(error):
            message = f"--size {letters}: {message}"
        raise UsageError(message) from None
