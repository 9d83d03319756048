"""Arrays and layers by their arithmetic, as tests want them: small ones of any format."""

from typing import Any

from mxsafe.formats import MX_FORMATS, FormatSet, MXFormat
from mxsafe.rtl.unit import Unit
from mxsafe.verilog.presets import build

__all__ = ["array_unit", "layer_unit"]

_SUFFIXES = {"fp12": "", "exact": "_exact", "window": "_window", "bf16": "_bf16"}


def array_unit(
    arithmetic: str, format: MXFormat | FormatSet = MX_FORMATS["mxsf"], **options: Any
) -> Unit[Any]:
    """A systolic array; `options` are those of `mxsafe.verilog.presets.build`."""
    return build(f"sta{_SUFFIXES[arithmetic]}", format, **options)


def layer_unit(arithmetic: str, format: MXFormat = MX_FORMATS["mxsf"], **options: Any) -> Unit[Any]:
    """A layer; `options` are those of `mxsafe.verilog.presets.build`."""
    return build(f"layer{_SUFFIXES[arithmetic]}", format, **options)
