"""What is synthesised: configurations of hardware units, and those of ``make synth``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mxsafe.flow import presets
from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.unit import Unit

__all__ = ["STANDARD", "Configuration", "macs", "select"]

_ALL = ("nangate45", "xilinx", "ice40", "ecp5")
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "exact": ("mxfp8_e2m5", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"),
    "fp12": ("mxfp8_e2m5",),
}
"""For each arithmetic, the formats that MXSF is compared with."""
_TINY = {"pu_rows": 1, "pu_columns": 1, "rows": 2, "columns": 2}


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """A unit with its parameters, and the targets it is synthesised for.

    Attributes
    ----------
    name : str
        What tables call it.
    unit : str
        One of `mxsafe.flow.presets.UNITS`.
    format : str
        Name of the element format.
    options : Mapping
        Other parameters of the unit.
    targets : tuple of str
        Names in `mxsafe.flow.targets.TARGETS`.
    """

    name: str
    unit: str
    format: str = "mxsf"
    options: Mapping[str, int | str] = field(default_factory=dict)
    targets: tuple[str, ...] = _ALL

    def build(self) -> Unit:
        """The hardware unit.

        Raises
        ------
        ValueError
            If there is no such unit, or it does not work with the options.
        """
        return presets.build(self.unit, MX_FORMATS[self.format], **self.options)


def macs(unit: Unit) -> int | None:
    """Multiply-accumulate units inside a unit; None for what is smaller than one."""
    sizes = [unit.parameters.get(name) for name in ("pu_rows", "pu_columns", "rows", "columns")]
    if "lanes" not in unit.parameters:
        return None
    product = 1
    for size in sizes:
        product *= size or 1
    return product


STANDARD: tuple[Configuration, ...] = (
    Configuration(name="decoder", unit="decoder"),
    *(
        Configuration(
            name=f"{unit}, {stages} stage{'s' if stages > 1 else ''}",
            unit=unit,
            options={"pipeline": stages},
        )
        for unit in ("safe_mac", "safe_mac_exact")
        for stages in (1, 2, 3)
    ),
    *(
        Configuration(
            name=f"pu_exact, {units} unit{'s' if units > 1 else ''}",
            unit="pu_exact",
            options={"units": units},
            targets=("nangate45",),
        )
        for units in (1, 2, 8)
    ),
    Configuration(name="pu", unit="pu", targets=("nangate45",)),
    *(
        Configuration(name=name, unit=unit, format=other, options=options, targets=targets)
        for name, unit, options, targets in (
            ("safe_mac_exact, 2 stages", "safe_mac_exact", {"pipeline": 2}, _ALL),
            ("pu_exact, 1 unit", "pu_exact", {"units": 1}, ("nangate45",)),
        )
        for other in _OTHERS["exact"]
    ),
    *(
        Configuration(name=name, unit=unit, format=other, options=options, targets=targets)
        for name, unit, options, targets in (
            ("safe_mac, 3 stages", "safe_mac", {"pipeline": 3}, _ALL),
            ("pu", "pu", {}, ("nangate45",)),
        )
        for other in _OTHERS["fp12"]
    ),
    Configuration(name="sta_exact 4x4x4x4", unit="sta_exact", targets=("nangate45",)),
    Configuration(
        name="sta_exact 4x4x4x4, 8 units",
        unit="sta_exact",
        options={"units": 8},
        targets=("nangate45",),
    ),
    Configuration(name="sta 4x4x4x4", unit="sta", targets=("nangate45",)),
    Configuration(name="sta_exact 1x1x2x2", unit="sta_exact", options=_TINY, targets=("ecp5",)),
)
"""The configurations of ``make synth``: add a line to have another in every table."""


def select(
    units: Sequence[str] = (),
    *,
    formats: Sequence[str] = (),
    options: Mapping[str, int | str] | None = None,
    targets: Sequence[str] | None = None,
) -> list[Configuration]:
    """Configurations of named units, or some of the standard ones.

    Parameters
    ----------
    units : sequence of str
        Names of units; none for `STANDARD`.
    formats : sequence of str
        Element formats of the units, by default MXSF, or those that `STANDARD` has. A format given
        replaces MXSF in `STANDARD`, whose other formats are left out then.
    options : Mapping, optional
        Other parameters of the units.
    targets : sequence of str, optional
        Targets, by default ``nangate45`` for named units and those of `STANDARD` otherwise; of
        `STANDARD` they select what has them.

    Raises
    ------
    ValueError
        If nothing is left.
    """
    options = dict(options or {})
    if units:
        suffix = "".join(f", {name} {value}" for name, value in options.items())
        return [
            Configuration(
                name=f"{unit}{suffix}",
                unit=unit,
                format=format,
                options=options,
                targets=tuple(targets or ("nangate45",)),
            )
            for unit in units
            for format in formats or ("mxsf",)
        ]
    wanted = [
        replace(
            configuration,
            format=format or configuration.format,
            targets=tuple(t for t in configuration.targets if targets is None or t in targets),
        )
        for format in formats or ("",)
        for configuration in STANDARD
        if not format or configuration.format == "mxsf"
    ]
    left = [configuration for configuration in wanted if configuration.targets]
    if not left:
        raise ValueError(f"targets must be among those of the units, not {list(targets or ())}")
    return left
