"""What every hardware unit is: a component that becomes exactly one Verilog module.

A unit places others inside itself with `place`. In a simulation (`amaranth.sim`) they become
ordinary submodules. When Verilog is generated, the *platform* handed down by Amaranth is a
`ModuleLibrary`: it notes each distinct unit once, and `place` instantiates it by name. So a module
that is used a thousand times is elaborated, written and compiled once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Value, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from mxsafe.formats import FloatFormat, MXFormat

__all__ = [
    "ModuleLibrary",
    "Unit",
    "describe",
    "dsp_parameter",
    "mac_module_name",
    "place",
]


class Unit(wiring.Component):
    """Base of all hardware units.

    Attributes
    ----------
    module_name : str
        Name of the Verilog module. Two units with one name are the same hardware.
    latency : int
        Clock cycles from an input to the output that belongs to it; 0 for combinational units.
    parameters : Mapping
        The configuration, in values that JSON can hold.
    """

    module_name: str
    latency: int = 0
    # Amaranth warns of components that are never elaborated; a unit is also instantiated by name,
    # or built only to read its ports and latency.
    _MustUse__silence = True

    def __init__(
        self,
        signature: Mapping[str, wiring.Member],
        *,
        module_name: str,
        parameters: Mapping[str, Any],
        latency: int = 0,
    ) -> None:
        self.module_name = module_name
        self.parameters = dict(parameters)
        self.latency = latency
        super().__init__(dict(signature))

    @property
    def clocked(self) -> bool:
        """Whether the module has the ports ``clk`` and ``rst``."""
        return self.latency > 0

    def port_signals(self) -> Iterator[tuple[str, wiring.Flow, Value]]:
        """Name, direction and signal of every port apart from ``clk`` and ``rst``."""
        for path, member, value in self.signature.flatten(self):
            signal = value.as_value() if isinstance(value, ValueCastable) else value
            yield "__".join(map(str, path)), member.flow, signal

    def own_names(self) -> None:
        """Give the ports their own names again, whatever instances have called them."""
        for port, _, signal in self.port_signals():
            signal.name = port


class ModuleLibrary:
    """The distinct units met while Verilog is generated, by module name."""

    def __init__(self) -> None:
        self.units: dict[str, Unit] = {}

    def note(self, unit: Unit) -> None:
        """Remember a unit.

        Raises
        ------
        ValueError
            If another unit has the same module name but not the same parameters.
        """
        known = self.units.setdefault(unit.module_name, unit)
        if known.parameters != unit.parameters:
            raise ValueError(
                f"module {unit.module_name} must have one configuration, not both "
                f"{known.parameters} and {unit.parameters}"
            )

    def instance(self, unit: Unit, name: str, *, reset: bool = True) -> Instance:
        """An instance of the unit's module, connected to the unit's own port signals."""
        self.note(unit)
        ports: list[tuple[str, str, Any]] = []
        if unit.clocked:
            ports.append(("i", "clk", ClockSignal()))
            ports.append(("i", "rst", ResetSignal() if reset else Const(0)))
        for port, flow, signal in unit.port_signals():
            # The parent's wires say whose they are; `own_names` undoes it for the module.
            signal.name = f"{name}_{port}"
            ports.append(("i" if flow == In else "o", port, signal))
        return Instance(unit.module_name, *ports)


def place(module: Module, platform: object, name: str, unit: Unit, *, reset: bool = True) -> None:
    """Put `unit` inside `module` under an instance name.

    Parameters
    ----------
    module : amaranth.hdl.Module
        The module being elaborated.
    platform : object
        The platform that `elaborate` was given: a `ModuleLibrary` while Verilog is generated,
        else anything.
    name : str
        Instance name.
    unit : Unit
        The unit; connect its ports before or after.
    reset : bool
        Whether the unit is reset with the module: one that holds data alone need not be.
    """
    if isinstance(platform, ModuleLibrary):
        module.submodules[name] = platform.instance(unit, name, reset=reset)
    else:
        module.submodules[name] = unit


def describe(fmt: FloatFormat) -> dict[str, Any]:
    """What a manifest says of a float format."""
    return {
        "name": fmt.name,
        "exponent_bits": fmt.fields.exponent_bits,
        "mantissa_bits": fmt.fields.mantissa_bits,
        "bias": fmt.fields.bias,
    }


def mac_module_name(
    base: str, *, format: MXFormat, lanes: int, pipeline: int | None, dsp: bool = False
) -> str:
    """Module name of a MAC: the bare base for the usual configuration, else what differs.

    Parameters
    ----------
    base : str
        Name of the usual configuration.
    format : MXFormat
    lanes : int
    pipeline : int or None
        Register stages, None for the usual number.
    dsp : bool
        Whether it multiplies in DSP blocks.
    """
    parts = [base]
    if format.name != "mxsf":
        parts.append(format.name)
    if lanes != 4:
        parts.append(f"lanes{lanes}")
    if pipeline is not None:
        parts.append(f"stages{pipeline}")
    if dsp:
        parts.append("dsp")
    return "_".join(parts)


def dsp_parameter(dsp: bool) -> dict[str, bool]:
    """What the parameters of a unit say of `dsp`: nothing, unless it is set."""
    return {"dsp": True} if dsp else {}
