"""Base classes of hardware units: a component that becomes exactly one Verilog module.

A unit is made from a frozen `Configuration`, which names its module, decides it all and knows its
parameters and its latency; nothing has to be built to read them. A unit places others inside itself
with `place`. In a simulation (`amaranth.sim`) they become ordinary submodules. When Verilog is
generated, the *platform* handed down by Amaranth is a `ModulePlatform`: it notes each distinct unit
once, and `place` instantiates it by name, a parametric one with its parameters. So a module that is
used a thousand times is elaborated, written and compiled once.

Tested by `verif/verilog/test_generate.py`.
"""

import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from inspect import Signature, signature
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Generic,
    Protocol,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
    runtime_checkable,
)

from amaranth.hdl import Instance, Module, ResetInserter, Value, ValueCastable
from amaranth.lib import wiring

from mxsafe.formats import FloatFormat, MXFormat, ScaleFormat
from mxsafe.products import OperandFormats, signed_name
from mxsafe.validation import Form, bounded

T = TypeVar("T", bound="Options")


def describe(value: object) -> Any:
    """A field of a configuration in values that JSON can hold: a specification in all its parts."""
    if is_dataclass(value):
        return {each.name: describe(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    return value


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Text of the first few differences of two sets of parameters, however deep."""
    one, other = (dict(_leaves("", values)) for values in (before, now))
    places = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    words = [f"{name} {one.get(name)!r} and {other.get(name)!r}" for name in places[:_MOST_PLACES]]
    return ", ".join(words + ["..."] * (len(places) > _MOST_PLACES))


_MOST_PLACES = 3
_CAPITAL = re.compile("(?<=[a-z0-9])(?=[A-Z])")


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}" if name else str(key), inner)
    else:
        yield name, value


def part_of_name(name: str, value: object) -> str:
    """Return the part of a name for a field that is not at its default."""
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    if isinstance(value, int):
        return f"{name}{signed_name(value)}"
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return "_".join(value) or f"no_{name}"
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    if isinstance(value, OperandFormats):
        return value.name
    if isinstance(value, FloatFormat | MXFormat | ScaleFormat):
        return value.name
    # Names in a list are joined by signs that no name of a module has.
    return str(value).replace("+", "_") or f"no_{name}"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _Checked(ABCMeta):
    """Makes classes frozen dataclasses, and checks the fields of objects against annotations.

    Fields are given by name. With ``eq=False`` a class compares its objects as its base does.
    """

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, eq: bool = True
    ) -> Any:
        made = super().__new__(mcs, name, bases, namespace)
        return dataclass(frozen=True, kw_only=True, eq=eq)(made)

    def __call__(cls, *args: Any, **values: Any) -> Any:
        forms = _forms(cls)
        for name in filter(values.__contains__, forms):
            values[name] = forms[name].settled(name, values[name])
        return super().__call__(*args, **values)

    @property
    def __signature__(cls) -> Signature:
        """Signature of the constructor, not of `__call__`."""
        constructor = signature(cls.__init__)  # type: ignore[misc]
        return constructor.replace(parameters=list(constructor.parameters.values())[1:])


@cache
def _forms(cls: type) -> Mapping[str, Form]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: Form.of(bounded(annotation, _MOST)) for name, annotation in hints.items()}


_MOST = 1 << 16
"""Largest magnitude of an integer whose annotation sets no other bounds."""


class Options(metaclass=_Checked):
    """Fields that know which of them are not at their default: a configuration, or a part of one.

    Classes that derive from this one are frozen dataclasses, without a decorator that says so.
    Fields are checked against their annotations, see `mxsafe.validation`, and against what their
    class says of them: a ValueError names the field and says what it must be.

    A field whose default value depends on others has the default None, and `_settle` replaces that.
    """

    unnamed: ClassVar[frozenset[str]] = frozenset({"format", "formats", "sum_format"})
    """Fields that the name of the module leaves to its base."""
    shown_if_not_default: ClassVar[frozenset[str]] = frozenset({"target"})
    """Fields that the parameters leave out where they are at their default, such as a target."""
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Fields that stay at their default, of a class that has them from another one."""

    def _set(self, **values: object) -> None:
        """Give fields their final values, while the object is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _settle(self, **defaults: object) -> None:
        """Set defaults for fields that have no fixed one, and give them to those not set."""
        known = {**self.__dict__.get("_defaults", {}), **defaults}
        object.__setattr__(self, "_defaults", known)
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @property
    def decisive(self) -> dict[str, Any]:
        """All fields, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def defaults(self) -> dict[str, Any]:
        """Options that have a default, with its value."""
        known = {}
        for each in fields(self):
            if each.default is not MISSING:
                known[each.name] = each.default
            elif each.default_factory is not MISSING:
                known[each.name] = each.default_factory()
        return {**known, **self.__dict__.get("_defaults", {})}

    def _unusual(self) -> dict[str, Any]:
        """Options that are not at their default, and all options within."""
        defaults = self.defaults
        return {
            name: value
            for name, value in self.decisive.items()
            if isinstance(value, Options) or name not in defaults or value != defaults[name]
        }

    def part(self, kind: type[T], **others: Any) -> T:
        """Options of a part, which has all that is called alike, so that nothing is left out.

        Parameters
        ----------
        kind : type of Options
        **others
            Fields of it that are not called alike, or have another value.
        """
        alike = {each.name for each in fields(kind)} - others.keys()
        return kind(**{n: value for n, value in self._shared.items() if n in alike}, **others)

    @property
    def _shared(self) -> Mapping[str, Any]:
        """Options that parts may share."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def differences(self) -> list[str]:
        """Parts of a name: what is not at its default, in the order of the fields."""
        parts: list[str] = []
        for name, value in self._unusual().items():
            if name not in self.unnamed:
                is_inner = isinstance(value, Options)
                parts += value.differences if is_inner else [part_of_name(name, value)]
        return parts

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields, those of options within among them, in values that JSON can hold."""
        found: dict[str, Any] = {}
        left_out = (self.shown_if_not_default | self.fixed) - self._unusual().keys()
        for name, value in self.decisive.items():
            if isinstance(value, Options):
                found |= value.parameters
            elif name not in left_out:
                found[name] = describe(value)
        return found


class Configuration(Options):
    """Configuration of a hardware unit: the values that decide every bit of its Verilog.

    The fields are the parameters in the manifest and in the header of the Verilog. The name of the
    module is `base`, followed by what is not at its default. Two units with equal configurations
    are the same hardware.
    """

    @property
    def base(self) -> str:
        """Name of the module in its default configuration: by default that of the class.

        In front of it stand the names of fields `format`, `formats` and `sum_format`.
        """
        own = _CAPITAL.sub("_", type(self).__name__.removesuffix("Configuration")).lower()
        formats = (getattr(self, name, None) for name in ("format", "formats", "sum_format"))
        return "_".join([*(one.name for one in formats if one is not None), own])

    @property
    def module_name(self) -> str:
        """Name of the Verilog module."""
        return "_".join([self.base, *self.differences])

    @property
    def latency(self) -> int:
        """Cycles, or enabled ones, from an input to the output that belongs to it.

        By default those of a field `pipeline`; 0 of combinational units.
        """
        return getattr(self, "pipeline", None) or 0

    @property
    def clocked(self) -> bool:
        """Whether the module has the ports ``clk`` and ``rst``."""
        return self.latency > 0

    @property
    def properties(self) -> Mapping[str, Any]:
        """Numbers that follow from the fields and that users of the module need."""
        return {}


Ports = Mapping[str, wiring.Member]
"""Ports of a unit by name, in their order."""
C = TypeVar("C", bound=Configuration)


_signatures: dict[tuple[type, Configuration], wiring.Signature] = {}
"""Ports by unit and configuration: an array has hundreds of units that are alike."""


class Unit(wiring.Component, Generic[C]):
    """Base of all hardware units: ``class Adder(Unit[AdderConfiguration])``.

    Parameters
    ----------
    configuration : Configuration, optional
        What the unit is.
    **parameters
        Fields of the configuration instead.
    """

    config: C
    synthesised_once: bool = False
    """Whether synthesis keeps it apart, because a design has many of it that are alike."""
    is_memory: ClassVar[bool] = False
    """Whether an ASIC flow puts a macro in its place, so that its cells do not count."""
    is_parametric: ClassVar[bool] = False
    """Whether one module serves all configurations: see `template`."""
    # Amaranth warns of components that are never elaborated; a unit is also instantiated by name.
    _MustUse__silence = True
    _configuration: type[Configuration]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A unit that is another one of fewer options says its configuration itself.
        for base in vars(cls).get("__orig_bases__", ()):
            cls._configuration = get_args(base)[0]

    def __init__(self, configuration: C | None = None, **parameters: Any) -> None:
        made = self._configuration(**parameters) if configuration is None else configuration
        self.config = made  # type: ignore[assignment]
        recipe = type(self), made
        if recipe not in _signatures:
            _signatures[recipe] = wiring.Signature(dict(self.ports()))
        super().__init__(_signatures[recipe])

    @classmethod
    def configuration(cls) -> type[Configuration]:
        """Class of the unit's configuration."""
        return cls._configuration

    def ports(self) -> Ports:
        """Ports of the unit, apart from ``clk`` and ``rst``."""
        raise NotImplementedError

    def fill(self, m: Module, platform: object) -> None:
        """Fill the module: what is in the unit, and how it is connected.

        Parameters
        ----------
        m : amaranth.hdl.Module
        platform : object
            What `place` wants.
        """
        raise NotImplementedError

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.fill(m, platform)
        return m

    @property
    def module_name(self) -> str:
        """Name of the Verilog module."""
        return self.config.module_name

    @property
    def latency(self) -> int:
        """Cycles from an input to the output that belongs to it."""
        return self.config.latency

    @property
    def general(self) -> Self:
        """The unit whose module this one is: of a parametric one that with default fields."""
        return type(self)() if self.is_parametric else self

    @property
    def verilog_parameters(self) -> dict[str, int]:
        """Parameters of an instance of a parametric unit: its fields, in capitals."""
        if not self.is_parametric:
            return {}
        return {name.upper(): int(value) for name, value in self.config.parameters.items()}

    @property
    def template(self) -> str:
        """Verilog of a parametric unit, which stands beside its class; of others there is none.

        `fill` says the same in Amaranth, for simulations there.
        """
        if not self.is_parametric:
            return ""
        return Path(inspect.getfile(type(self))).with_suffix(".v").read_text()

    def port_signals(self) -> Iterator[tuple[str, wiring.Member, Value]]:
        """Name, member and signal of every port apart from ``clk`` and ``rst``.

        Ports of a stream are called after it: ``s_axis_a_tdata``.
        """
        for path, member, value in self.signature.flatten(self):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            yield "_".join(map(str, path)), member, signal

    def own_names(self) -> None:
        """Give the ports their own names again, whatever instances have called them."""
        for port, _, signal in self.port_signals():
            signal.name = port


class Part(Generic[C]):
    """The configuration of a unit inside, as a property of that of the whole.

    Parameters
    ----------
    unit : type of Unit
        Its configuration has all that is called alike, see `Options.part`.
    **others : callable
        Fields of it that are not called alike, or have another value: each of the whole.
    """

    def __init__(self, unit: type[Unit[C]], **others: Callable[[Any], object]) -> None:
        self._unit, self._others = unit, others

    def __get__(self, whole: Configuration | None, owner: type[Configuration]) -> C:
        if whole is None:  # asked of the class, as pages of the API do
            return self  # type: ignore[return-value]
        given = {name: value(whole) for name, value in self._others.items()}
        return whole.part(self._unit.configuration(), **given)  # type: ignore[return-value]


U = TypeVar("U", bound=Unit[Any])


@runtime_checkable
class ModulePlatform(Protocol):
    """Platform that `fill` is given while Verilog is generated."""

    def instance(
        self, unit: Unit[Any], name: str, *, reset: bool | Value = True, late: bool = False
    ) -> Instance:
        """An instance of the unit's module, connected to the unit's own port signals."""


def place(
    module: Module,
    platform: object,
    name: str,
    unit: U,
    *,
    reset: bool | Value = True,
    late: bool = False,
) -> U:
    """Put `unit` inside `module` under an instance name, and return it.

    Parameters
    ----------
    module : amaranth.hdl.Module
    platform : object
        The platform that `fill` was given: a `ModulePlatform` while Verilog is generated,
        else anything.
    name : str
        Instance name.
    unit : Unit
        The unit; connect its ports before or after.
    reset : bool or Value
        Whether the unit is reset with the module: one that holds data alone need not be. Or what
        resets it beside that.
    late : bool
        Whether the module's reset need not reach the unit, for `reset` follows it. That is so in
        Verilog alone: in a simulation by Amaranth, without a `ModulePlatform`, both reset the unit,
        which enters reset with the module then, and leaves it in the same cycle as in Verilog.
    """
    if isinstance(platform, ModulePlatform):
        module.submodules[name] = platform.instance(unit, name, reset=reset, late=late)
    elif isinstance(reset, Value):
        module.submodules[name] = ResetInserter(reset)(unit)
    else:
        module.submodules[name] = unit
    return unit
