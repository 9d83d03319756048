"""The hardware units that can be generated, by name."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mxsafe.formats import MXFormat
from mxsafe.rtl.accumulator import Accumulator
from mxsafe.rtl.decoder import Decoder
from mxsafe.rtl.float32_adder import Float32Adder
from mxsafe.rtl.fp_adder import FPAdder
from mxsafe.rtl.pu import PU
from mxsafe.rtl.safe_mac import SafeMac
from mxsafe.rtl.safe_mac_exact import SafeMacExact
from mxsafe.rtl.sta import STA
from mxsafe.rtl.unit import Unit

__all__ = ["UNITS", "build"]

UNITS: Mapping[str, Callable[..., Unit]] = MappingProxyType(
    {
        "decoder": Decoder,
        "fp_adder": FPAdder,
        "float32_adder": Float32Adder,
        "safe_mac": SafeMac,
        "safe_mac_exact": SafeMacExact,
        "accumulator": Accumulator,
        "pu": partial(PU, arithmetic="fp12"),
        "pu_exact": partial(PU, arithmetic="exact"),
        "sta": partial(STA, arithmetic="fp12"),
        "sta_exact": partial(STA, arithmetic="exact"),
    }
)
"""Units by the name they have on the command line."""


def build(name: str, format: MXFormat, **options: int | None) -> Unit:
    """Build a unit by name.

    Parameters
    ----------
    name : str
        One of `UNITS`.
    format : MXFormat
        Element format; a unit that has none (an adder) takes no notice.
    **options : int or None
        Other parameters of the unit; None stands for its usual value.

    Raises
    ------
    ValueError
        If there is no such unit, it has no such parameter, or it does not work with its value.
    """
    if name not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}, not {name!r}")
    accepted = inspect.signature(UNITS[name]).parameters
    parameters: dict[str, Any] = {"format": format} if "format" in accepted else {}
    for option, value in options.items():
        if value is None:
            continue
        if option not in accepted:
            raise ValueError(f"{option} is not a parameter of {name}, but {value} was given")
        parameters[option] = value
    return UNITS[name](**parameters)
