"""Public methods with parameters, each called on an object that was made for the call."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

from mxsafe.machine.description import DESCRIPTORS
from verif.bad_input.examples import good_object
from verif.bad_input.interface import Target, targets

EXCEPT: Mapping[str, str] = {
    "mxsafe.codec.blocks.QuantizedTensor": "takes slices of itself, as an array does",
    "mxsafe.executors.Here": "calls what it is given",
    "mxsafe.machine.description.Condition": "is a part of the description of descriptors",
    "mxsafe.machine.description.Descriptor": "is a part of the description of descriptors",
    "mxsafe.machine.description.Enumeration": "is a part of the description of descriptors",
    "mxsafe.machine.description.Field": "is a part of the description of descriptors",
    "mxsafe.machine.description.Rule": "is a part of the description of descriptors",
    "mxsafe.machine.updates.AdamW": "takes values of a graph that is being built",
    "mxsafe.machine.updates.Sgd": "takes values of a graph that is being built",
    "mxsafe.tables.normalise.NormaliseWidths": "is asked by hardware and model alone",
    "mxsafe.tables.softmax.SoftmaxWidths": "is asked by hardware and model alone",
    "mxsafe.vectors.corner_classes.InputFormat": "draws what a set of vectors is made of",
    "mxsafe.verilog.library.ModuleLibrary": "takes parts of a design that is being built",
    "mxsafe.verilog.presets.Preset": "takes options that the command has read",
}
"""Classes whose methods are left out, and why. So are those of all configurations of hardware, and
methods that are inherited."""
_FIELDS = tuple(f"mxsafe.machine.assembler.Assembler.{kind}" for kind in DESCRIPTORS)
"""Methods whose arguments are fields of a descriptor."""
_NEEDED: Mapping[str, Mapping[str, int]] = {"vector": {"to_vector": 1}}
"""By the kind of descriptor, what it cannot be without."""


def methods() -> Iterator[Target]:
    """Methods of the public classes that `targets` finds, but for those that are left out.

    Properties that can be set are among them.
    """
    for target in targets():
        kind = target.call
        if not isinstance(kind, type) or target.is_hardware or target.name in EXCEPT:
            continue
        for name, member in vars(kind).items():
            full_name = f"{target.name}.{name}"
            if name.startswith("_"):
                continue
            if isinstance(member, property) and member.fset is not None:
                yield Target(full_name, _set_on_an_object(kind, name))
            elif full_name in _FIELDS:
                yield Target(full_name, _with_fields(kind, name))
            elif isinstance(member, FunctionType | classmethod | staticmethod):
                method = Target(full_name, getattr(kind, name))
                if method.parameters.keys() - {"self"}:
                    yield Target(full_name, _on_an_object(kind, name))


def _on_an_object(kind: type, name: str) -> Callable[..., Any]:
    """A method of a class as a function."""

    @wraps(getattr(good_object(kind), name))
    def call(**arguments: Any) -> Any:
        return getattr(good_object(kind), name)(**arguments)

    return call


def _set_on_an_object(kind: type, name: str) -> Callable[..., Any]:
    """A property of a class as a function of its new value, which has the property's name."""

    def call(**value: Any) -> None:
        setattr(good_object(kind), name, value[name])

    return _with_parameters(call, {name: Parameter.empty})


def _with_fields(kind: type, name: str) -> Callable[..., Any]:
    """A method of a class as a function of a descriptor's fields."""

    def call(**fields: Any) -> Any:
        return getattr(good_object(kind), name)(**{**_NEEDED.get(name, {}), **fields})

    # `from` of STORE cannot be the name of a parameter in Python.
    names = {field.name for field in DESCRIPTORS[name].fields} - {"opcode", "from"}
    return _with_parameters(call, dict.fromkeys(sorted(names)))


def _with_parameters(call: Callable[..., Any], default: Mapping[str, Any]) -> Callable[..., Any]:
    """A function of keywords with names of its parameters, and what they usually are."""
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in default.items()
    ]
    call.__signature__ = Signature(parameters)
    return call
