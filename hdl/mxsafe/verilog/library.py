"""The distinct hardware units that are met while Verilog is generated, by module name."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, ResetSignal, Value
from amaranth.lib.wiring import In

from mxsafe.rtl.unit import Unit, differing


class ModuleLibrary:
    """Units by the name of their module; the platform of `mxsafe.rtl.unit.place`."""

    def __init__(self) -> None:
        self.units: dict[str, Unit[Any]] = {}

    def note(self, unit: Unit[Any]) -> None:
        """Remember a unit.

        Raises
        ------
        ValueError
            If another unit has the same module name but not the same configuration.
        """
        known = self.units.setdefault(unit.module_name, unit)
        if known.config != unit.config:
            raise ValueError(
                f"module {unit.module_name} must have one configuration, not two: "
                f"{differing(known.config.parameters, unit.config.parameters)}"
            )

    def instance(
        self, unit: Unit[Any], name: str, *, reset: bool | Value = True, late: bool = False
    ) -> Instance:
        """An instance of the unit's module, connected to the unit's own port signals."""
        self.note(unit)
        ports: list[tuple[str, str, Any]] = [
            ("p", parameter, value) for parameter, value in unit.verilog_parameters.items()
        ]
        if unit.config.clocked:
            ports.append(("i", "clk", ClockSignal()))
            resets = reset is not False
            own: Value = ResetSignal()
            if isinstance(reset, Value):
                own = reset if late else own | reset
            ports.append(("i", "rst", own if resets else Const(0)))
        for port, member, signal in unit.port_signals():
            # The parent's wires say whose they are; `own_names` undoes it for the module.
            signal.name = f"{name}_{port}"
            ports.append(("i" if member.flow == In else "o", port, signal))
        return Instance(unit.general.module_name, *ports)
