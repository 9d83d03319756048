"""The hardware units that can be generated, by name: from flat options to configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from mxsafe.formats import FormatSet, MXFormat
from mxsafe.machine.configuration import FPGA_MACHINE, SMALL_MACHINE, MachineConfiguration, resized
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
from mxsafe.rtl.machine.layer import Layer
from mxsafe.rtl.stream.converter import Converter
from mxsafe.rtl.stream.operand_packer import OperandPacker
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.stream.transposer import Transposer
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.activation import FUNCTIONS, Activation, ActivationConfiguration
from mxsafe.rtl.vector.normalise import Normalise
from mxsafe.rtl.vector.normalise_backward import NormaliseBackward
from mxsafe.rtl.vector.row_dot import RowDot
from mxsafe.rtl.vector.softmax import Softmax
from mxsafe.rtl.vector.softmax_backward import SoftmaxBackward
from mxsafe.rtl.vector.vector_arithmetic import VectorArithmetic
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.validation import about, checked, require_one_of
from mxsafe.verilog.units import CATALOGUE

__all__ = ["PRESETS", "Preset", "build", "rate_of_blocks", "usual_block"]


_STRUCTURE = frozenset({"arithmetic", "shape", "format", "formats", "sum_format", "machine"})
"""Fields of configurations that are made here, not given."""
_MACHINE_FORMATS = frozenset({"format_a", "format_w"})
_FP12_LANES = 4


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How the flat options of a named unit become its configuration.

    Attributes
    ----------
    unit : type of Unit
    arithmetic : type of Arithmetic, optional
        Of an array and what is in it.
    shape : type of ArrayShape or UnitShape, optional
        Size of the same.
    fixed : Mapping
        Fields of the unit's configuration that the name stands for.
    usual : Mapping
        Fields that have other values than the unit's own where no option gives them.
    renamed : Mapping
        Options by the field that they set, where that is called otherwise.
    machine : MachineConfiguration, optional
        Of a machine its usual sizes, which are its options.
    """

    unit: type[Unit[Any]]
    arithmetic: type[Arithmetic] | None = None
    shape: type[ArrayShape] | type[UnitShape] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    machine: MachineConfiguration | None = None

    @property
    def options(self) -> dict[str, tuple[str, str]]:
        """For each option the part of the configuration that it belongs to, and its field there."""
        parts = {"shape": self.shape, "arithmetic": self.arithmetic, "": self.unit.configuration()}
        found = {
            option.name: (part, option.name)
            for part, owner in parts.items()
            if owner is not None
            for option in fields(owner)
            if option.name not in _STRUCTURE
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
        given[""] = {**self.usual, **self.fixed}
        for option, value in options.items():
            part, name = known[option]
            given[part][name] = value
        own = given[""]
        needed = {f.name for f in fields(self.unit.configuration())}
        if self.arithmetic is not None:
            if "formats" in {f.name for f in fields(self.arithmetic)}:
                given["arithmetic"]["formats"] = formats
            own["arithmetic"] = self.arithmetic(**given["arithmetic"])
        if self.shape is not None:
            own["shape"] = self.shape(**given["shape"])
        if self.machine is not None:
            of_operands = {"format_a": formats.a, "format_w": formats.w}
            own["machine"] = resized(self.machine, **of_operands, **given["machine"])
        if "format" in needed:
            own["format"] = formats.a
        if "formats" in needed:
            own["formats"] = formats
        if "sum_format" in needed:
            own["sum_format"] = formats.fp12_format(_FP12_LANES)
        with about(**{name: option for option, name in self.renamed.items()}):
            return self.unit(**own)


def _array(arithmetic: type[Arithmetic]) -> Preset:
    return Preset(unit=SystolicArray, arithmetic=arithmetic, shape=ArrayShape)


def _sub_matrix_unit(arithmetic: type[Arithmetic]) -> Preset:
    return Preset(unit=SubMatrixUnit, arithmetic=arithmetic, shape=UnitShape)


def _layer(arithmetic: type[Arithmetic], **fixed: Any) -> Preset:
    return Preset(
        unit=Layer,
        arithmetic=arithmetic,
        shape=ArrayShape,
        fixed=fixed,
        renamed={"block": "result_block"},
    )


def _functions(names: str) -> Preset:
    return Preset(unit=VectorFunction, fixed={"lanes": ActivationConfiguration(functions=names)})


def _normalisation(*, bias: bool = True, **fixed: Any) -> Preset:
    return Preset(unit=Normalise, fixed=fixed, usual={"gain": True, "bias": bias})


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "decoder": Preset(unit=Decoder),
        "fp_adder": Preset(unit=FPAdder),
        "float32_adder": Preset(unit=Float32Adder),
        "float32_multiplier": Preset(unit=Float32Multiplier),
        "safe_mac": Preset(unit=SafeMac),
        "safe_mac_exact": Preset(unit=SafeMacExact),
        "accumulator": Preset(unit=Accumulator),
        "pu": _sub_matrix_unit(Fp12),
        "pu_exact": _sub_matrix_unit(Exact),
        "sta": _array(Fp12),
        "sta_exact": _array(Exact),
        "pu_window": _sub_matrix_unit(Window),
        "sta_window": _array(Window),
        "bf16_mac": Preset(unit=BF16Mac),
        "pu_bf16": _sub_matrix_unit(Bf16),
        "sta_bf16": _array(Bf16),
        "converter": Preset(unit=Converter),
        "converter_8x8": Preset(unit=Converter, fixed={"block": (8, 8)}),
        "transposer": Preset(unit=Transposer),
        "activation": Preset(unit=Activation),
        "vector_activation": _functions("relu+gelu+silu+tanh"),
        "vector_function": _functions("+".join(FUNCTIONS)),
        "vector_arithmetic": Preset(unit=VectorArithmetic),
        "row_dot": Preset(unit=RowDot),
        "row_replay": Preset(unit=RowReplay),
        "softmax": Preset(unit=Softmax),
        "softmax_beats": Preset(unit=Softmax, fixed={"along": "beats"}),
        "softmax_backward": Preset(unit=SoftmaxBackward),
        "softmax_backward_beats": Preset(unit=SoftmaxBackward, fixed={"along": "beats"}),
        "layer_norm": _normalisation(),
        "layer_norm_beats": _normalisation(along="beats"),
        "rms_norm": _normalisation(centre=False, bias=False),
        "layer_norm_backward": Preset(unit=NormaliseBackward, fixed={"gain": True}),
        "rms_norm_backward": Preset(unit=NormaliseBackward, fixed={"gain": True, "centre": False}),
        "operand_packer": Preset(unit=OperandPacker),
        "layer": _layer(Fp12),
        "layer_exact": _layer(Exact),
        "layer_8x8": _layer(Fp12, result_block=(8, 8)),
        "accelerator": Preset(unit=Accelerator, machine=MachineConfiguration()),
        "accelerator_small": Preset(unit=Accelerator, machine=SMALL_MACHINE),
        "accelerator_fpga": Preset(unit=Accelerator, machine=FPGA_MACHINE),
    }
)
"""Units by the name they have on the command line: those of `mxsafe.verilog.units.CATALOGUE`."""

if PRESETS.keys() != CATALOGUE.keys():
    raise AssertionError(f"presets and catalogue differ in {PRESETS.keys() ^ CATALOGUE.keys()}")


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
        Other parameters of the unit; None stands for its usual value.

    Raises
    ------
    TypeError
        If a format is not a specification.
    ValueError
        If there is no such unit, it has no such parameter or only with another value, or it does
        not work with its value.
    """
    preset, entry = _preset(name), CATALOGUE[name]
    for parameter, fmt in (("format", format), ("format_w", format_w)):
        if fmt is None and parameter == "format_w":
            continue
        if not isinstance(fmt, MXFormat | FormatSet):
            raise TypeError(
                f"{parameter} must be an MXFormat or a FormatSet, not {type(fmt).__name__}"
            )
        if parameter == "format_w" and not entry.has_operands:
            raise ValueError(f"format_w is not a parameter of {name}, but {fmt.name} was given")
        if isinstance(fmt, FormatSet) and not entry.has_format_sets:
            raise ValueError(f"{parameter} must be a single one in {name}, not the set {fmt.name}")
        if entry.has_format:
            require_scale(parameter, fmt)
    formats = OperandFormats(format, format if format_w is None else format_w)
    known = preset.options
    given = {option: value for option, value in options.items() if value is not None}
    for option, value in given.items():
        if option not in known:
            raise ValueError(f"{option} is not a parameter of {name}, but {value} was given")
        part, own = known[option]
        if not part and own in preset.fixed:
            raise ValueError(f"{option} is {preset.fixed[own]} in {name}, but {value} was given")
    return preset.build(formats, given)


def _preset(name: str) -> Preset:
    return PRESETS[require_one_of("name", name, PRESETS)]


@checked
def usual_block(
    name: str, format: MXFormat | FormatSet, format_w: MXFormat | FormatSet | None = None
) -> int | None:
    """The longest block that the usual blocks of the formats need of a unit's sums.

    Parameters
    ----------
    name : str
        One of `PRESETS`.
    format, format_w : MXFormat or FormatSet
        As of `build`.

    Returns
    -------
    int or None
        The usual length of a block of the formats, the longer one of two; None of a unit whose sums
        hold any block, or that has no such parameter.

    Raises
    ------
    ValueError
        If there is no such unit.
    """
    if _preset(name).options.get("block", ("", ""))[0] != "arithmetic":
        return None
    return max(_block(each) for each in (format, format_w or format))


def _block(format: MXFormat | FormatSet) -> int:
    """The usual length of a block, of a set that of the longest ones."""
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
