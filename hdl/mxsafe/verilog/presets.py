"""The hardware units that can be generated, by name."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mxsafe.formats import IntFormat, MXFormat
from mxsafe.products import fp12_format
from mxsafe.rtl.accelerator.layer import Layer
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.fp_adder import FPAdder
from mxsafe.rtl.array.accumulator import Accumulator
from mxsafe.rtl.array.sub_matrix_unit import PU
from mxsafe.rtl.array.systolic_array import STA
from mxsafe.rtl.mac.bf16_mac import BF16Mac
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.rtl.mac.safe_mac import SafeMac
from mxsafe.rtl.mac.safe_mac_exact import SafeMacExact
from mxsafe.rtl.stream.converter import Converter
from mxsafe.rtl.stream.operand_packer import OperandPacker
from mxsafe.rtl.stream.transposer import Transposer
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.activation import Activation

__all__ = ["BF16_UNITS", "UNITS", "build", "units_of"]

_FP12_LANES = 4


def _accumulator(*, format: MXFormat, lanes: int = _FP12_LANES) -> Unit:
    return Accumulator(sum_format=fp12_format(format, lanes))


def _fp_adder(*, format: MXFormat, lanes: int = _FP12_LANES) -> Unit:
    return FPAdder(sum_format=fp12_format(format, lanes))


UNITS: Mapping[str, Callable[..., Unit]] = MappingProxyType(
    {
        "decoder": Decoder,
        "fp_adder": _fp_adder,
        "float32_adder": Float32Adder,
        "safe_mac": SafeMac,
        "safe_mac_exact": SafeMacExact,
        "accumulator": _accumulator,
        "pu": partial(PU, arithmetic="fp12"),
        "pu_exact": partial(PU, arithmetic="exact"),
        "sta": partial(STA, arithmetic="fp12"),
        "sta_exact": partial(STA, arithmetic="exact"),
        "bf16_mac": BF16Mac,
        "pu_bf16": partial(PU, arithmetic="bf16"),
        "sta_bf16": partial(STA, arithmetic="bf16"),
        "converter": Converter,
        "converter_8x8": partial(Converter, block=(8, 8)),
        "transposer": Transposer,
        "activation": Activation,
        "operand_packer": OperandPacker,
        "layer": partial(Layer, arithmetic="fp12"),
        "layer_exact": partial(Layer, arithmetic="exact"),
        "layer_8x8": partial(Layer, arithmetic="fp12", block=(8, 8)),
    }
)
"""Units by the name they have on the command line."""


BF16_UNITS: tuple[str, ...] = ("bf16_mac", "pu_bf16", "sta_bf16")
"""Units of bfloat16 numbers; they take no notice of a format."""

_FP12_UNITS = ("fp_adder", "safe_mac", "accumulator", "pu", "sta", "layer", "layer_8x8")


def units_of(format: MXFormat) -> list[str]:
    """Names of the units that a format has: integers none of arithmetic ``fp12``, none ``bf16``."""
    others = BF16_UNITS
    if isinstance(format.element, IntFormat):
        others += _FP12_UNITS
    return [name for name in UNITS if name not in others]


def build(name: str, format: MXFormat, **options: int | str | None) -> Unit:
    """Build a unit by name.

    Parameters
    ----------
    name : str
        One of `UNITS`.
    format : MXFormat
        Element format; a unit that has none (an adder) takes no notice.
    **options : int, str or None
        Other parameters of the unit; None stands for its usual value.

    Raises
    ------
    ValueError
        If there is no such unit, it has no such parameter or only with another value, or it does
        not work with its value.
    """
    if name not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}, not {name!r}")
    accepted = inspect.signature(UNITS[name]).parameters
    fixed = getattr(UNITS[name], "keywords", {})
    formatted = "format" in accepted and name not in BF16_UNITS
    parameters: dict[str, Any] = {"format": format} if formatted else {}
    for option, value in options.items():
        if value is None:
            continue
        if option not in accepted:
            raise ValueError(f"{option} is not a parameter of {name}, but {value} was given")
        if option in fixed:
            raise ValueError(f"{option} is {fixed[option]} in {name}, but {value} was given")
        parameters[option] = value
    return UNITS[name](**parameters)
