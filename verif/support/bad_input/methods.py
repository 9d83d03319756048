"""Public methods with parameters, each called on an object that was made for the call."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

from verif.support.bad_input.examples import good_object
from verif.support.bad_input.interface import Target, targets

__all__ = ["EXCEPT", "methods"]

EXCEPT: Mapping[str, str] = {
    "mxsafe.codec.blocks.QuantizedTensor": "takes slices of itself, as an array does",
    "mxsafe.executors.Here": "calls what it is given",
    "mxsafe.machine.description.Condition": "is a part of the description of descriptors",
    "mxsafe.machine.description.Descriptor": "is a part of the description of descriptors",
    "mxsafe.machine.description.Enumeration": "is a part of the description of descriptors",
    "mxsafe.machine.description.Field": "is a part of the description of descriptors",
    "mxsafe.machine.description.Rule": "is a part of the description of descriptors",
    "mxsafe.vectors.corner_classes.InputFormat": "draws what a set of vectors is made of",
    "mxsafe.verilog.library.ModuleLibrary": "takes parts of a design that is being built",
    "mxsafe.verilog.presets.Preset": "takes options that the command has read",
    "mxsafe.verilog.units.CatalogueEntry": "takes options that the command has read",
}
"""Classes whose methods are left out, and why. So are those of all configurations of hardware,
methods that are inherited, and those of which all arguments are fields, as `Assembler.load`."""


def methods() -> Iterator[Target]:
    """Methods of the public classes that `targets` finds, but for those that are left out."""
    for target in targets():
        kind = target.call
        if not isinstance(kind, type) or target.is_hardware or target.name in EXCEPT:
            continue
        for name, member in vars(kind).items():
            is_method = isinstance(member, FunctionType | classmethod | staticmethod)
            if name.startswith("_") or not is_method:
                continue
            method = Target(f"{target.name}.{name}", getattr(kind, name))
            if method.parameters.keys() - {"self"}:
                yield Target(method.name, _on_an_object(kind, name))


def _on_an_object(kind: type, name: str) -> Callable[..., Any]:
    """A method of a class as a function."""

    @wraps(getattr(good_object(kind), name))
    def call(**arguments: Any) -> Any:
        return getattr(good_object(kind), name)(**arguments)

    return call
