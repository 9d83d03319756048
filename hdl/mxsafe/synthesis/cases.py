"""Cases of synthesis: configurations of hardware units, and those of ``make synth``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from mxsafe.formats import OPERAND_FORMATS
from mxsafe.rtl.array.sub_matrix_unit import SubMatrixUnit
from mxsafe.rtl.array.systolic_array import SystolicArray
from mxsafe.rtl.mac.bf16_mac import BF16Mac
from mxsafe.rtl.mac.safe_mac import SafeMac
from mxsafe.rtl.mac.safe_mac_exact import SafeMacExact
from mxsafe.rtl.machine.layer import Layer
from mxsafe.rtl.unit import Unit
from mxsafe.synthesis.machine import PARTS
from mxsafe.verilog import presets

_ALL = ("nangate45", "xilinx", "ice40", "ecp5")
_NO_DSP = ("nangate45", "xilinx", "ice40")
_DSP = ("xilinx", "ecp5")
_FPGAS = ("xilinx", "ice40", "ecp5", "gowin")
_OTHER = ("nangate45", "xilinx")
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "exact": (
        "mxfp8_e2m5",
        "mxfp8_e4m3",
        "mxfp8_e5m2",
        "mxfp6_e3m2",
        "mxfp6_e2m3",
        "mxfp4_e2m1",
        "mxint8",
    ),
    "fp12": ("mxfp8_e4m3",),
}
"""For each arithmetic, the formats that MXSF is compared with."""
PAIRS: tuple[tuple[str, str], ...] = (
    ("mxsf", "mxfp8_e4m3"),
    ("mxsf", "mxint8"),
    ("mxsf", "mxfp6_e3m2"),
    ("mxsf", "mxfp6_e2m3"),
    ("mxsf", "mxfp4_e2m1"),
    ("mxfp8_e2m5", "mxfp4_e2m1"),
    ("mxfp8_e4m3", "mxfp6_e2m3"),
    ("mxfp8_e4m3", "mxfp4_e2m1"),
    ("mxint8", "mxfp6_e2m3"),
    ("mxint8", "mxfp4_e2m1"),
    ("mxfp6_e2m3", "mxfp4_e2m1"),
)
"""Operands of two formats: the other way round the hardware is the same, mirrored."""
_FUNCTIONS = "relu+gelu+silu+tanh"
_STREAM = ("converter", "converter_8x8", "transposer", "activation", "operand_packer")
_VECTOR = ("rms_norm", "vector_arithmetic", "row_replay")
_FAST = {"pipeline": 3, "scale_stages": 4, "add_stages": 4}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A unit with its parameters, and the technologies it is synthesised for.

    Attributes
    ----------
    name : str
        What tables call it.
    unit : str
        One of `mxsafe.verilog.presets.PRESETS`.
    format : str
        Name of the element format, or of a set of them; of two operands that of `a`.
    format_w : str, optional
        The same of operand `w`, by default that of `a`.
    options : Mapping
        Other parameters of the unit.
    technologies : tuple of str
        Names in `mxsafe.synthesis.technologies.TECHNOLOGIES`.
    part : str, optional
        Of a machine the part that is meant, one of `mxsafe.synthesis.machine.PARTS`.
    scripts : tuple of str
        Scripts that are run, of a technology that has several for timing or area; none for all.
    seeds : int
        Placements that are tried, where there is place and route.
    floor_plan : bool
        Whether it is kept where the first placement has put the parts of the unit.
    """

    name: str
    unit: str
    format: str = "mxsf"
    format_w: str | None = None
    options: Mapping[str, int | str] = field(default_factory=dict)
    technologies: tuple[str, ...] = _ALL
    part: str | None = None
    scripts: tuple[str, ...] = ()
    seeds: int = 1
    floor_plan: bool = False

    @property
    def without(self) -> tuple[type[Unit[Any]], ...]:
        """Units that are left out: others have them."""
        return () if self.part is None else PARTS[self.part].without

    @property
    def formats(self) -> str:
        """Name of the format in tables, or of both formats."""
        return self.format if self.format_w is None else f"{self.format} x {self.format_w}"

    def build(self) -> Unit[Any]:
        """The hardware unit.

        Raises
        ------
        ValueError
            If there is no such unit, or it does not work with the options.
        """
        format = OPERAND_FORMATS[self.format]
        format_w = None if self.format_w is None else OPERAND_FORMATS[self.format_w]
        whole = presets.build(self.unit, format, format_w=format_w, **self.options)
        return whole if self.part is None else PARTS[self.part].build(whole)


_OF_MACS = (SafeMac, SafeMacExact, BF16Mac, SubMatrixUnit, SystolicArray, Layer)


def macs(unit: Unit[Any]) -> int | None:
    """MACs inside a unit; None for what is smaller than one, or no MAC."""
    if not isinstance(unit, _OF_MACS):
        return None
    parameters = unit.config.parameters
    sizes = ("pu_rows", "pu_columns", "rows", "columns")
    return math.prod(parameters.get(name, 1) for name in sizes)


PAIR_UNIT = "pu_exact of two formats"
SET_UNIT = "pu_exact, formats at run time"


def _cells(name: str, unit: str, format: str = "mxsf", **options: int | str) -> Case:
    """A unit in standard cells alone."""
    return Case(name=name, unit=unit, format=format, options=options, technologies=("nangate45",))


_EXACT_ARRAY = "sta_exact 4x4x4x4"

STANDARD: tuple[Case, ...] = (
    Case(name="decoder", unit="decoder"),
    *(
        Case(
            name=f"{unit}, {stages} stage{'s' if stages > 1 else ''}{', DSPs' if dsp else ''}",
            unit=unit,
            options={"pipeline": stages, **({"dsp": True} if dsp else {})},
            technologies=_DSP if dsp else _NO_DSP,
        )
        for dsp in (False, True)
        for unit in ("safe_mac", "safe_mac_exact")
        for stages in ((2, 3) if dsp else (1, 2, 3))
    ),
    _cells("pu_exact, 1 accumulator", "pu_exact", accumulators=1),
    _cells("pu", "pu"),
    Case(name="bf16_mac", unit="bf16_mac", technologies=("nangate45", *_DSP)),
    _cells("pu_bf16", "pu_bf16"),
    *(
        Case(name=name, unit=unit, format=other, options=options, technologies=technologies)
        for arithmetic, units in {
            "exact": (
                ("safe_mac_exact, 2 stages", "safe_mac_exact", {"pipeline": 2}, _OTHER),
                (
                    "safe_mac_exact, 2 stages, DSPs",
                    "safe_mac_exact",
                    {"pipeline": 2, "dsp": True},
                    ("ecp5",),
                ),
                ("pu_exact, 1 accumulator", "pu_exact", {"accumulators": 1}, ("nangate45",)),
            ),
            "fp12": (
                ("safe_mac, 3 stages", "safe_mac", {"pipeline": 3}, _OTHER),
                ("safe_mac, 3 stages, DSPs", "safe_mac", {"pipeline": 3, "dsp": True}, ("ecp5",)),
                ("pu", "pu", {}, ("nangate45",)),
            ),
        }.items()
        for name, unit, options, technologies in units
        for other in _OTHERS[arithmetic]
    ),
    *(replace(_cells(PAIR_UNIT, "pu_exact", first), format_w=second) for first, second in PAIRS),
    _cells(SET_UNIT, "pu_exact", "multi"),
    _cells(_EXACT_ARRAY, "sta_exact"),
    _cells(f"{_EXACT_ARRAY}, formats at run time", "sta_exact", "multi"),
    _cells(
        "sta_exact 4x2x4x8, 2 columns a MAC",
        "sta_exact",
        pu_columns=2,
        columns=8,
        accumulators=16,
        carry_save=True,
        interleave=2,
    ),
    _cells(f"{_EXACT_ARRAY}, most registers", "sta_exact", "mxsf", **_FAST),
    *map(_cells, _STREAM, _STREAM),
    Case(name="float32_multiplier, 2 stages", unit="float32_multiplier", options={"pipeline": 2}),
    Case(
        name="activation of four functions, 1 lane",
        unit="activation",
        options={"functions": _FUNCTIONS, "width": 1},
    ),
    _cells("activation of four functions", "activation", functions=_FUNCTIONS),
    _cells("softmax", "softmax"),
    _cells("softmax_beats", "softmax_beats"),
    _cells("layer_norm, no gain, no bias", "layer_norm", gain=False, bias=False),
    _cells("layer_norm", "layer_norm"),
    _cells("rms_norm, no gain", "rms_norm", gain=False),
    *map(_cells, _VECTOR, _VECTOR),
)
"""The configurations of ``make synth``: add a line to have another in every table."""

MACHINE: tuple[Case, ...] = tuple(
    Case(
        name=f"{machine}, {part}",
        unit=machine,
        technologies=("nangate45",),
        part=part,
        scripts=("area",),
    )
    for machine, parts in {"accelerator": PARTS, "accelerator_window": ("rest",)}.items()
    for part in parts
)
"""Parts of the machine, and what differs beside the array in that with windows, which are
synthesised where their names are given."""


MORE_LANES: tuple[Case, ...] = (
    *(
        _cells(f"{_EXACT_ARRAY}, {lanes} lanes", "sta_exact", lanes=lanes, accumulators=lanes // 4)
        for lanes in (8, 16)
    ),
    _cells(
        f"{_EXACT_ARRAY}, 8 lanes, most registers",
        "sta_exact",
        "mxsf",
        lanes=8,
        accumulators=2,
        **_FAST,
    ),
    _cells("sta_window 4x4x4x4", "sta_window"),
    _cells("sta_window 4x4x4x4, 8 lanes", "sta_window", lanes=8),
    _cells(
        "sta_window 4x2x4x8, 2 groups of lanes",
        "sta_window",
        pu_columns=2,
        columns=8,
        interleave=2,
    ),
)
"""Arrays of MACs with more lanes, at the full rate for 1x64 blocks, and arrays with windows, which
have that for 8x8 ones too, the last of them that of a machine; synthesised by name too."""


CARRY_SAVE: tuple[Case, ...] = tuple(
    _cells(
        f"{name}{f', {lanes} lanes' if lanes > 4 else ''}, carry-save sums",
        unit,
        lanes=lanes,
        accumulators=lanes // 4,
        carry_save=True,
    )
    for name, unit, lane_counts in (
        ("pu_exact", "pu_exact", (4, 8, 16)),
        (_EXACT_ARRAY, "sta_exact", (4, 8)),
    )
    for lanes in lane_counts
)
"""Sub-matrix units and arrays that take less energy, synthesised by name too."""


FPGA: tuple[Case, ...] = (
    Case(
        name="float32_adder for FPGAs",
        unit="float32_adder",
        options={"target": "fpga"},
        technologies=_FPGAS,
        seeds=3,
    ),
    *(
        Case(
            name=f"{unit}{what} for FPGAs",
            unit=unit,
            options={"target": "fpga", **options},
            technologies=technologies,
            seeds=seeds,
        )
        for what, options, technologies, seeds in (
            ("", {}, ("xilinx", "ecp5", "gowin"), 3),
            (", no DSPs,", {"dsp": False}, ("ice40",), 3),
            (", 1 stage, no DSPs,", {"dsp": False, "pipeline": 1}, ("xilinx",), 1),
        )
        for unit in ("safe_mac", "safe_mac_exact")
    ),
    Case(
        name="pu_exact for FPGAs",
        unit="pu_exact",
        options={"target": "fpga"},
        technologies=_DSP,
        scripts=("dsps",),
        seeds=3,
        floor_plan=True,
    ),
    Case(
        name="sta_exact 2x2x4x4 for FPGAs",
        unit="sta_exact",
        options={"target": "fpga", "pu_rows": 2, "pu_columns": 2, "rows": 4, "columns": 4},
        technologies=("ecp5",),
        floor_plan=True,
    ),
)
"""Units for FPGAs, which are synthesised where their names are given: see ``docs/fpga.md``."""


BF16: tuple[Case, ...] = (
    _cells("pu_bf16 of the machine", "pu_bf16", first_behind=True),
    _cells("sta_bf16 4x4x4x4 of the machine", "sta_bf16", first_behind=True),
    *(
        Case(
            name=f"accelerator_bf16, {part}",
            unit="accelerator_bf16",
            technologies=("nangate45",),
            part=part,
            scripts=("area",),
        )
        for part in ("converter", "rest of the vector engine", "rest")
    ),
)
"""What the machine of bfloat16 has of its own: its array, with the sub-matrix unit of that, and
parts in which scales are missing; synthesised by name too."""


IN_SECOND: Mapping[str, str] = {
    name: f"{name}, in osu018"
    for name in (
        "safe_mac, 3 stages",
        "safe_mac_exact, 2 stages",
        "pu_exact, 1 accumulator",
        "activation of four functions, 1 lane",
    )
}
"""By name of a case, what it is called in a second library of cells."""
SECOND: tuple[Case, ...] = tuple(
    replace(case, name=IN_SECOND[case.name], technologies=("osu018",))
    for case in STANDARD
    if case.name in IN_SECOND and case.formats == "mxsf"
)
"""Units in a second library of cells, synthesised by name too."""


_NAMED = (*MACHINE, *MORE_LANES, *CARRY_SAVE, *FPGA, *BF16, *SECOND)


def select(
    units: Sequence[str] = (),
    *,
    formats: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    technologies: Sequence[str] | None = None,
    names: Sequence[str] = (),
) -> list[Case]:
    """Configurations of named units, or some of the standard ones.

    Parameters
    ----------
    units : sequence of str
        Names of units; none for `STANDARD`.
    formats : sequence of str
        Element formats of the units, by default MXSF, or those that `STANDARD` has. A format given
        replaces MXSF in `STANDARD`, whose other formats are left out then.
    options : Mapping, optional
        Other parameters of the units; ``format_w`` as a specification.
    technologies : sequence of str, optional
        Technologies, by default ``nangate45`` for named units and those of `STANDARD` otherwise; of
        `STANDARD` they select what has them.
    names : sequence of str
        Patterns (``softmax*``) of names in `STANDARD`, `MACHINE`, `MORE_LANES`, `CARRY_SAVE`,
        `FPGA`, `BF16` and `SECOND`; none for all of `STANDARD`.

    Raises
    ------
    ValueError
        If nothing is left, a pattern has no name, or patterns stand beside units.
    """
    if units and names:
        raise ValueError(f"case must be without units, not {names[0]!r} beside {units[0]}")
    for name in names:
        if not any(fnmatchcase(case.name, name) for case in (*STANDARD, *_NAMED)):
            raise ValueError(f"case must be the name of a standard configuration, not {name!r}")
    options = dict(options or {})
    format_w = options.pop("format_w", None)
    if units:
        suffix = "".join(f", {name} {value}" for name, value in options.items())
        return [
            Case(
                name=f"{unit}{suffix}",
                unit=unit,
                format=format,
                format_w=getattr(format_w, "name", None),
                options=options,
                technologies=tuple(technologies or ("nangate45",)),
            )
            for unit in units
            for format in formats or ("mxsf",)
        ]
    wanted = [
        replace(
            configuration,
            format=format or configuration.format,
            technologies=tuple(
                t for t in configuration.technologies if technologies is None or t in technologies
            ),
        )
        for format in formats or ("",)
        for configuration in (*STANDARD, *(_NAMED if names else ()))
        if not format or (configuration.format == "mxsf" and configuration.format_w is None)
        if not names or any(fnmatchcase(configuration.name, name) for name in names)
    ]
    left = [configuration for configuration in wanted if configuration.technologies]
    if not left:
        raise ValueError(
            f"technologies must be among those of the units, not {list(technologies or ())}"
        )
    return left
