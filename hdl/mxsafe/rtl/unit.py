"""Base class of hardware units: a component that becomes exactly one Verilog module.

A unit is made from a frozen `Configuration`, which knows the module's name, its parameters and its
latency; nothing has to be built to read them. A unit places others inside itself with `place`. In a
simulation (`amaranth.sim`) they become ordinary submodules. When Verilog is generated, the
*platform* handed down by Amaranth is a `ModulePlatform`: it notes each distinct unit once, and
`place` instantiates it by name, a parametric one with its parameters. So a module that is used a
thousand times is elaborated, written and compiled once.

Tested by `verif/verilog/test_generate.py`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, get_args, runtime_checkable

from amaranth.hdl import Instance, Module, ResetInserter, Value, ValueCastable
from amaranth.lib import wiring

from mxsafe.rtl.configuration import Configuration

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

    def ports(self) -> Mapping[str, wiring.Member]:
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
