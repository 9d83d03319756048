"""The hardware units that can be generated, by name: from flat options to configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from mxsafe.formats import FormatSet, IntFormat, MXFormat
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.products import OperandFormats, require_scale
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.float32_multiplier import Float32Multiplier
from mxsafe.rtl.arithmetic.fp_adder import FPAdder
from mxsafe.rtl.array.accumulator import Accumulator
from mxsafe.rtl.array.arithmetic import Arithmetic
from mxsafe.rtl.array.bf16 import Bf16
from mxsafe.rtl.array.exact import Exact
from mxsafe.rtl.array.fp12 import Fp12
from mxsafe.rtl.array.shape import ArrayShape, UnitShape
from mxsafe.rtl.array.sub_matrix_unit import SubMatrixUnit
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.rtl.array.window import Window
from mxsafe.rtl.mac.bf16_mac import BF16Mac
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.rtl.mac.safe_mac import SafeMac
from mxsafe.rtl.mac.safe_mac_exact import SafeMacExact
from mxsafe.rtl.machine.accelerator import Accelerator
from mxsafe.rtl.machine.gemm.gemm_engine import array_of
from mxsafe.rtl.machine.layer import Layer
from mxsafe.rtl.stream.converter import Converter
from mxsafe.rtl.stream.operand_packer import OperandPacker
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.stream.transposer import Transposer
from mxsafe.rtl.unit import Configuration, Unit
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration
from mxsafe.rtl.vector.function_lane import FUNCTIONS
from mxsafe.rtl.vector.normalise import Normalise
from mxsafe.rtl.vector.softmax import Softmax
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.validation import about, checked, require_one_of

Kind = Literal["arithmetic", "stream", "vector", "layer", "machine"]
"""Kinds of units, by which the help of commands groups them."""

_FORMATS = frozenset({"format", "formats", "sum_format"})
_STRUCTURE = _FORMATS | {"arithmetic", "shape", "machine"}
"""Fields of configurations that are made here, not given."""
_MACHINE_FORMATS = frozenset({"format_a", "format_w"})
_FP12_LANES = 4
_SHAPES: Mapping[type[Unit[Any]], type[ArrayShape] | type[UnitShape]] = {
    SystolicArray: ArrayShape,
    SubMatrixUnit: UnitShape,
}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How the flat options of a named unit become its configuration.

    Attributes
    ----------
    unit : type of Unit
    kind : str
        ``arithmetic`` for MACs, arrays and what is in them, ``stream`` for what converts between
        layers, ``vector``, ``layer``, or ``machine`` for a whole one, whose sizes are parameters.
    arithmetic : type of Arithmetic, optional
        That in which a unit multiplies or adds, if it is one of these.
    shape : type of ArrayShape or UnitShape, optional
        Size of the same.
    fixed : Mapping
        Fields of the unit's configuration that the name stands for.
    defaults : Mapping
        Fields that have other values than the unit's own where no option gives them.
    renamed : Mapping
        Options by the field that they set, where that is called otherwise.
    machine : MachineConfiguration, optional
        Of a machine its default sizes, which are its options.
    """

    unit: type[Unit[Any]]
    kind: Kind
    arithmetic: type[Arithmetic] | None = None
    shape: type[ArrayShape] | type[UnitShape] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    machine: MachineConfiguration | None = None

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields of the unit's configuration."""
        return frozenset(each.name for each in fields(self.unit.configuration()))

    @property
    def inner(self) -> type[Arithmetic] | None:
        """The arithmetic, of a unit whose configuration has that as a part."""
        return self.arithmetic if "arithmetic" in self.fields else None

    @property
    def takes_formats(self) -> bool:
        """Whether the arithmetic within has formats."""
        return self.inner is not None and "formats" in {each.name for each in fields(self.inner)}

    @property
    def has_format(self) -> bool:
        """Whether the element format is a parameter of the unit."""
        of_machine = self.machine is not None and self.machine.scaled
        return bool(_FORMATS & self.fields) or self.takes_formats or of_machine

    @property
    def has_operands(self) -> bool:
        """Whether the unit multiplies operands of two formats."""
        return self.has_format and self.arithmetic is not None

    @property
    def has_size(self) -> bool:
        """Whether the unit contains an array, whose rows and columns are parameters."""
        return self.shape is ArrayShape

    @property
    def has_format_sets(self) -> bool:
        """Whether operands can have one of several formats at run time, see `FormatSet`."""
        return self.unit in (SubMatrixUnit, SystolicArray) and self.arithmetic is Exact

    @property
    def is_machine(self) -> bool:
        """Whether the unit is a whole machine."""
        return self.machine is not None

    def suits(self, format: MXFormat) -> bool:
        """Whether the unit is among those of an MX format.

        Arithmetic ``fp12`` takes no integers, and ``bf16`` none of the MX formats; but a whole
        machine of it is what those of all formats are compared with. A unit without a format or an
        arithmetic serves every format.
        """
        if self.arithmetic is Fp12:
            return not isinstance(format.element, IntFormat)
        return self.arithmetic is not Bf16 or self.is_machine

    @property
    def options(self) -> dict[str, tuple[str, str]]:
        """For each option the part of the configuration that it belongs to, and its field there."""
        parts = {"shape": self.shape, "arithmetic": self.inner, "": self.unit.configuration()}
        found = {
            option.name: (part, option.name)
            for part, owner in parts.items()
            if owner is not None
            for option in fields(owner)
            if option.name not in _STRUCTURE | owner.fixed
        }
        for option, name in self.renamed.items():
            found[option] = found.pop(name)
        if self.machine is not None:
            sizes = [each.name for each in fields(self.machine)]
            found |= {name: ("machine", name) for name in sizes if name not in _MACHINE_FORMATS}
        return found

    def build(self, formats: OperandFormats, options: Mapping[str, Any]) -> Unit[Any]:
        """The unit of these formats, with options all of which it has."""
        known = self.options
        given: dict[str, dict[str, Any]] = {"shape": {}, "arithmetic": {}, "machine": {}}
        given[""] = {**self.defaults, **self.fixed}
        for option, value in options.items():
            part, name = known[option]
            given[part][name] = value
        own = given[""]
        if self.inner is not None:
            if self.takes_formats:
                given["arithmetic"]["formats"] = formats
            own["arithmetic"] = self.inner(**given["arithmetic"])
        if self.shape is not None:
            own["shape"] = self.shape(**given["shape"])
        if self.machine is not None:
            made = resized(self.machine, **given["machine"])
            if made.scaled:
                made = resized(made, format_a=formats.a, format_w=formats.w)
            own["machine"] = made
        if "format" in self.fields:
            own["format"] = formats.a
        if "formats" in self.fields:
            own["formats"] = formats
        if "sum_format" in self.fields:
            own["sum_format"] = formats.fp12_format(_FP12_LANES)
        with about(**{name: option for option, name in self.renamed.items()}):
            return self.unit(**own)


def _arithmetic(unit: type[Unit[Any]], arithmetic: type[Arithmetic] | None = None) -> Preset:
    return Preset(unit=unit, kind="arithmetic", arithmetic=arithmetic, shape=_SHAPES.get(unit))


def _stream(unit: type[Unit[Any]], **fixed: Any) -> Preset:
    return Preset(unit=unit, kind="stream", fixed=fixed)


def _vector(unit: type[Unit[Any]], **fixed: Any) -> Preset:
    return Preset(unit=unit, kind="vector", fixed=fixed)


def _functions(names: str) -> Preset:
    return _vector(VectorFunction, lanes=ActivationConfiguration(functions=names))


def _normalisation(*, bias: bool = True, **fixed: Any) -> Preset:
    return replace(_vector(Normalise, **fixed), defaults={"gain": True, "bias": bias})


def _layer(arithmetic: type[Arithmetic], **fixed: Any) -> Preset:
    return Preset(
        unit=Layer,
        kind="layer",
        arithmetic=arithmetic,
        shape=ArrayShape,
        fixed=fixed,
        renamed={"block": "result_block"},
    )


def _machine(machine: MachineConfiguration) -> Preset:
    arithmetic = type(array_of(machine).arithmetic)
    return Preset(unit=Accelerator, kind="machine", arithmetic=arithmetic, machine=machine)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "decoder": _arithmetic(Decoder),
        "fp_adder": _arithmetic(FPAdder, Fp12),
        "float32_adder": _arithmetic(Float32Adder),
        "float32_multiplier": _arithmetic(Float32Multiplier),
        "safe_mac": _arithmetic(SafeMac, Fp12),
        "safe_mac_exact": _arithmetic(SafeMacExact, Exact),
        "accumulator": _arithmetic(Accumulator, Fp12),
        "pu": _arithmetic(SubMatrixUnit, Fp12),
        "pu_exact": _arithmetic(SubMatrixUnit, Exact),
        "sta": _arithmetic(SystolicArray, Fp12),
        "sta_exact": _arithmetic(SystolicArray, Exact),
        "pu_window": _arithmetic(SubMatrixUnit, Window),
        "sta_window": _arithmetic(SystolicArray, Window),
        "bf16_mac": _arithmetic(BF16Mac, Bf16),
        "pu_bf16": _arithmetic(SubMatrixUnit, Bf16),
        "sta_bf16": _arithmetic(SystolicArray, Bf16),
        "converter": _stream(Converter),
        "converter_8x8": _stream(Converter, block=(8, 8)),
        "transposer": _stream(Transposer),
        "activation": _stream(Activation),
        "vector_activation": _functions("relu+gelu+silu+tanh"),
        "vector_function": _functions("+".join(FUNCTIONS)),
        "vector_arithmetic": _vector(VectorArithmetic),
        "row_replay": _vector(RowReplay),
        "softmax": _vector(Softmax),
        "softmax_beats": _vector(Softmax, along="beats"),
        "layer_norm": _normalisation(),
        "layer_norm_beats": _normalisation(along="beats"),
        "rms_norm": _normalisation(centre=False, bias=False),
        "operand_packer": _stream(OperandPacker),
        "layer": _layer(Fp12),
        "layer_exact": _layer(Exact),
        "layer_8x8": _layer(Fp12, result_block=(8, 8)),
        "accelerator": _machine(MachineConfiguration()),
        "accelerator_window": _machine(WINDOW_MACHINE),
        "accelerator_small": _machine(SMALL_MACHINE),
        "accelerator_fpga": _machine(FPGA_MACHINE),
        "accelerator_bf16": _machine(BF16_MACHINE),
    }
)
"""Units by the name they have on the command line, in the order in which they are generated."""

FPGA_UNITS = ("float32_adder", "safe_mac", "safe_mac_exact", "pu_exact")
"""Units that are written for FPGAs too, where all are: see `mxsafe.rtl.timing`."""


@checked
def units_of(format: MXFormat) -> list[str]:
    """Names of the units that an MX format has, in the order of `PRESETS`."""
    return [name for name, preset in PRESETS.items() if preset.suits(format)]


@checked
def build(
    name: str,
    format: MXFormat | FormatSet,
    *,
    format_w: MXFormat | FormatSet | None = None,
    **options: int | str | None,
) -> Unit[Any]:
    """Build a unit by name.

    Parameters
    ----------
    name : str
        One of `PRESETS`.
    format : MXFormat or FormatSet
        Element format, of two operands that of `a`; a unit that has none (an adder) takes no
        notice. A set is for exact arrays and their sub-matrix units.
    format_w : MXFormat or FormatSet, optional
        Element format of operand `w`, by default that of `a`.
    **options : int, str or None
        Other parameters of the unit; None stands for its default value.

    Raises
    ------
    TypeError
        If a format is not a specification.
    ValueError
        If there is no such unit, it has no such parameter or only with another value, or it does
        not work with its value.
    """
    preset = _preset(name)
    for parameter, fmt in (("format", format), ("format_w", format_w)):
        if fmt is None and parameter == "format_w":
            continue
        if not isinstance(fmt, MXFormat | FormatSet):
            raise TypeError(
                f"{parameter} must be an MXFormat or a FormatSet, not {type(fmt).__name__}"
            )
        if parameter == "format_w" and not preset.has_operands:
            raise ValueError(f"format_w is not a parameter of {name}, but {fmt.name} was given")
        if isinstance(fmt, FormatSet) and not preset.has_format_sets:
            raise ValueError(f"{parameter} must be a single one in {name}, not the set {fmt.name}")
        if preset.has_format:
            require_scale(parameter, fmt)
    formats = OperandFormats(format, format if format_w is None else format_w)
    known = preset.options
    given = {option: value for option, value in options.items() if value is not None}
    for option, value in given.items():
        if option not in known:
            raise ValueError(f"{option} is not a parameter of {name}, but {value} was given")
        part, own = known[option]
        if not part and own in preset.fixed:
            fixed = preset.fixed[own]
            said = "decided by its functions" if isinstance(fixed, Configuration) else fixed
            raise ValueError(f"{option} is {said} in {name}, but {value} was given")
    return preset.build(formats, given)


def _preset(name: str) -> Preset:
    return PRESETS[require_one_of("name", name, PRESETS)]


@checked
def default_block(
    name: str, format: MXFormat | FormatSet, format_w: MXFormat | FormatSet | None = None
) -> int | None:
    """The longest block that the default blocks of the formats need of a unit's sums.

    Parameters
    ----------
    name : str
        One of `PRESETS`.
    format, format_w : MXFormat or FormatSet
        As of `build`.

    Returns
    -------
    int or None
        The default length of a block of the formats, the longer one of two; None of a unit whose
        sums hold any block, or that has no such parameter.

    Raises
    ------
    ValueError
        If there is no such unit.
    """
    if _preset(name).options.get("block", ("", ""))[0] != "arithmetic":
        return None
    return max(_block(each) for each in (format, format_w or format))


def _block(format: MXFormat | FormatSet) -> int:
    """The default length of a block, of a set that of the longest ones."""
    members = format.members if isinstance(format, FormatSet) else (format,)
    return max(member.block for member in members)


@checked
def rate_of_blocks(unit: Unit[Any]) -> tuple[int, int, int] | None:
    """How fast a unit takes its blocks, where they are too short for its full rate.

    Parameters
    ----------
    unit : Unit
        One with an array or a sub-matrix unit inside; others are never too slow.

    Returns
    -------
    tuple of int or None
        Beats of a block, cycles that it takes, and the number of accumulators with which it takes
        no more cycles than beats; None if that is so already.
    """
    arithmetic = getattr(unit.config, "arithmetic", None)
    if not isinstance(arithmetic, Exact):
        return None
    whole = unit.config.shape
    shape = whole.unit if isinstance(whole, ArrayShape) else whole
    block = arithmetic.block
    if isinstance(unit, Layer):  # whose sums hold more than they are given
        block = min(block, max(map(_block, (arithmetic.formats.a, arithmetic.formats.w))))
    beats = -(-block // shape.lanes)
    cycles = arithmetic.block_cycles(shape)
    if cycles <= beats:
        return None
    enough = (
        n for n in range(1, shape.macs + 1) if not shape.macs % n and shape.macs // n <= beats
    )
    return beats, cycles, next(enough)
