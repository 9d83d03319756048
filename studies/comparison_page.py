"""``python -m studies.comparison_page``: the targets, and the formats beside each other.

Writes ``docs/comparison.md`` and its picture from ``docs/synthesis.json``, which `make synth`
writes, from ``docs/experiments.json``, and from the errors of a real layer, which it computes.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis.power import PERIOD, usual_netlist
from studies import experiments
from studies.fan_out_of_four import FO4_PS
from studies.prose import wrapped
from studies.synthesis_page import PAPER_GE, PAPER_PJ, PAPER_VECTOR
from verif.support.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "GOALS",
    "Goal",
    "LayerError",
    "Point",
    "draw_points",
    "find",
    "layer_error",
    "page",
    "pareto",
    "pictures",
    "points",
    "usual_numbers",
]

DOCS = Path(__file__).parents[1] / "docs"

Result = Mapping[str, Any]
Synthesis = Mapping[str, Any]


def find(
    synthesis: Synthesis, configuration: str, technology: str = "nangate45", format: str = "mxsf"
) -> Result:
    """The result of a standard configuration on a technology.

    Parameters
    ----------
    synthesis : Mapping
        What `mxsafe.synthesis.run.synthesise` returns.
    configuration : str
        Its name, see `mxsafe.synthesis.cases.STANDARD`.
    technology : str
        Name of the technology.
    format : str
        Name of the element format.

    Raises
    ------
    LookupError
        If there is none.
    """
    for result in synthesis["results"]:
        found = (result["configuration"], result["technology"], result["format"])
        if found == (configuration, technology, format):
            return result
    raise LookupError(f"synthesis must have {configuration} for {format} on {technology}")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured value for a target.

    Attributes
    ----------
    value : float or None
        The value; None if no netlist qualifies.
    text : str
        How a table shows it.
    path : str
        Where the longest path runs, if that is known.
    """

    value: float | None
    text: str
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A row of the table of targets.

    Attributes
    ----------
    what : str
        What is measured.
    published, required, aim : float or str
        What others have published, what is required, and what would be good; text if there is no
        number.
    measure : callable
        The value, from what synthesis found.
    more : bool
        More is better; else less.
    limit : str
        What keeps the value from the aim, as far as is known; shown where the aim is missed.
    """

    what: str
    published: float | str
    required: float | str
    aim: float | str
    measure: Callable[[Synthesis], Measured]
    more: bool = False
    limit: str = ""


def _meets(value: float | None, wanted: float | str, *, more: bool) -> bool | None:
    """Whether a value is as good as a wanted one; None if the wanted one is text."""
    if isinstance(wanted, str):
        return None
    return value is not None and (value >= wanted if more else value <= wanted)


def _area_at_500(result: Result) -> Measured:
    """Gate equivalents for each MAC of the smallest netlist that runs at 500 MHz."""
    numbers = result["numbers"]
    best = numbers[usual_netlist(numbers)]
    smallest = min(numbers.values(), key=lambda netlist: float(netlist["ge"]))
    share, least = (netlist["ge"] / result["macs"] for netlist in (best, smallest))
    slower = f"{least:,.0f} at {1000 / smallest['delay_ns']:,.0f} MHz"
    if best["delay_ns"] > PERIOD:
        return Measured(value=None, text=f"none: {slower}")
    return Measured(value=share, text=f"{share:,.0f}" + (f"; {slower}" if best != smallest else ""))


def _clock(result: Result) -> Measured:
    """The fastest netlist's clock, with the area it takes."""
    numbers = min(result["numbers"].values(), key=lambda numbers: float(numbers["delay_ns"]))
    clock = 1000 / numbers["delay_ns"]
    share = numbers["ge"] / result["macs"]
    path = f"the longest path runs from `{numbers['start']}` to `{numbers['end']}`"
    return Measured(value=clock, text=f"{clock:,.0f} with {share:,.0f} GE", path=path)


def _luts(unit: str) -> Callable[[Synthesis], Measured]:
    """The LUTs of a MAC with one stage, on Xilinx without DSPs, built for FPGAs."""

    def measure(synthesis: Synthesis) -> Measured:
        cells = find(synthesis, f"{unit}, 1 stage", "xilinx")["numbers"]["luts"]["luts"]
        on_fpgas = json.loads((DOCS / "fpga.json").read_text())
        found = find(on_fpgas, f"{unit}, 1 stage, no DSPs, for FPGAs", "xilinx")
        luts = found["numbers"]["luts"]["luts"]
        return Measured(value=luts, text=f"{luts:,}; {cells:,} built for standard cells")

    return measure


def _ecp5_clock(unit: str) -> Callable[[Synthesis], Measured]:
    """The clock of the fastest configuration of a MAC on ECP5."""

    def measure(synthesis: Synthesis) -> Measured:
        found = [
            result
            for result in synthesis["results"]
            if (result["unit"], result["technology"], result["format"]) == (unit, "ecp5", "mxsf")
        ]
        if not found:
            raise LookupError(f"synthesis must have {unit} on ecp5")
        best = max(found, key=lambda result: float(result["numbers"]["luts"]["fmax_mhz"]))
        numbers = best["numbers"]["luts"]
        return Measured(
            value=numbers["fmax_mhz"],
            text=f"{numbers['fmax_mhz']:.0f} with {numbers['dsps']} DSPs, "
            f"{numbers['luts']:,} LUT4s",
        )

    return measure


_ARRAY = "sta_exact 4x4x4x4"

GOALS: tuple[Goal, ...] = (
    Goal(
        what="GE per MAC, `exact`, full rate for 1x64",
        published=round(PAPER_GE),
        required=3600,
        aim=2420,
        measure=lambda s: _area_at_500(find(s, _ARRAY)),
        limit="each MAC has four multipliers of 6x6 bits, their shifters and a sum; the shared "
        "accumulators are small beside them",
    ),
    Goal(
        what="GE per MAC, `exact`, full rate for 1x64 and 8x8",
        published=round(PAPER_GE),
        required=4840,
        aim=3600,
        measure=lambda s: _area_at_500(find(s, f"{_ARRAY}, 8 accumulators")),
        limit="a tile of 8x8 ends every two clocks, so 16 MACs need eight scalers and eight "
        "binary32 adders",
    ),
    Goal(
        what="MHz, `exact`, 1x64",
        published=500,
        required=800,
        aim=1200,
        more=True,
        measure=lambda s: _clock(find(s, f"{_ARRAY}, most registers")),
        limit="the sums of blocks: a chain of carries through 31 bits in each clock",
    ),
    Goal(
        what="MHz, `exact`, 1x64 and 8x8",
        published=500,
        required="none",
        aim=500,
        more=True,
        measure=lambda s: _clock(find(s, f"{_ARRAY}, 8 accumulators")),
        limit="the binary32 addition must end before the next block of two clocks ends",
    ),
    Goal(
        what="MHz, `fp12`, a sub-matrix unit",
        published=500,
        required="none",
        aim=500,
        more=True,
        measure=lambda s: _clock(find(s, "pu")),
        limit="every accumulator adds in binary32 in each clock, in a loop",
    ),
    Goal(
        what="LUTs of `safe_mac_exact`, Xilinx without DSPs",
        published=504,
        required=504,
        aim=400,
        measure=_luts("safe_mac_exact"),
        limit="MXSF has two kinds of codes, and its products have twice the range of E2M5's",
    ),
    Goal(
        what="LUTs of `safe_mac`, Xilinx without DSPs",
        published=1307,
        required=900,
        aim=650,
        measure=_luts("safe_mac"),
        limit="three roundings follow each other, each with a shift that aligns and one that "
        "normalises",
    ),
    Goal(
        what="MHz of `safe_mac_exact`, ECP5 with DSPs",
        published="none",
        required="none",
        aim=150,
        more=True,
        measure=_ecp5_clock("safe_mac_exact"),
        limit="a DSP block without its own registers, a shifter and a sum are in one stage; "
        "built for FPGAs the MAC is [above the aim](fpga_figures.md#beside-others)",
    ),
    Goal(
        what="MHz of `safe_mac`, ECP5 with DSPs",
        published="none",
        required="none",
        aim=150,
        more=True,
        measure=_ecp5_clock("safe_mac"),
        limit="an FP12 sum aligns, adds, normalises and rounds in one stage; "
        "built for FPGAs the MAC is [above the aim](fpga_figures.md#beside-others)",
    ),
)
"""The targets. Published values: MX-SAFE's Table IV (65 nm), MX-for-FPGA, HardFloat."""


def _goal_text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,g}"


def _measured(goal: Goal, synthesis: Synthesis) -> Measured | None:
    """The figure; None where its configuration was not synthesised."""
    try:
        return goal.measure(synthesis)
    except LookupError:
        return None


def _verdict(goal: Goal, measured: Measured) -> str:
    if _meets(measured.value, goal.aim, more=goal.more):
        return "aim met"
    met = _meets(measured.value, goal.required, more=goal.more)
    return {True: "required met", False: "not met", None: "aim not met"}[met]


def goal_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """The table of targets, head first."""
    table: list[tuple[str, ...]] = [
        ("target", "published", "required", "aim", "measured", "verdict")
    ]
    for goal in GOALS:
        wanted = [_goal_text(value) for value in (goal.published, goal.required, goal.aim)]
        measured = _measured(goal, synthesis)
        shown = (
            ("not measured", "") if measured is None else (measured.text, _verdict(goal, measured))
        )
        table.append((goal.what, *wanted, *shown))
    return table


def limits(synthesis: Synthesis) -> str:
    """For each target whose aim is missed, the reason, as a Markdown list."""
    lines = []
    for goal in GOALS:
        measured = _measured(goal, synthesis)
        if measured is not None and _verdict(goal, measured) != "aim met":
            reasons = "; ".join(filter(None, (goal.limit, measured.path)))
            lines.append(f"- {goal.what}: {reasons}.")
    return "\n".join(lines)


_SLOWER = 1.3
"""How many times slower the cells of the second table of margins are."""
_RATES: Mapping[str, tuple[str, ...]] = {
    "array, `exact`, full rate for 1x64": (_ARRAY, f"{_ARRAY}, most registers"),
    "array, `exact`, full rate for 1x64 and 8x8": (f"{_ARRAY}, 8 accumulators",),
    "sub-matrix unit, `fp12`": ("pu",),
}
"""Configurations that do the same in a clock."""


def _fo4(nanoseconds: float) -> str:
    return f"{1000 * nanoseconds / FO4_PS:.0f}"


def margin_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """What is left of a clock of 500 MHz, with the library's cells and with slower ones."""
    table: list[tuple[str, ...]] = [
        (
            "of the netlists found",
            "smallest at 500 MHz: GE",
            "ns",
            "FO4",
            f"with cells {_SLOWER:g} times slower: GE",
            "ns",
            "FO4",
            "fastest: ns",
            "FO4",
        )
    ]
    for what, names in _RATES.items():
        found = []
        for name in names:
            result = find(synthesis, name)
            macs = result["macs"]
            found += [(n["ge"] / macs, n["delay_ns"]) for n in result["numbers"].values()]
        cells = []
        for limit in (PERIOD, PERIOD / _SLOWER):
            ge, delay = min((one for one in found if one[1] <= limit), default=(0.0, 0.0))
            cells += [f"{ge:,.0f}", f"{delay:.2f}", _fo4(delay)] if ge else ["none", "", ""]
        fastest = min(delay for _, delay in found)
        table.append((what, *cells, f"{fastest:.2f}", _fo4(fastest)))
    return table


@dataclass(frozen=True, kw_only=True)
class LayerError:
    """Errors of a matrix product against the float64 product of what was quantised.

    Attributes
    ----------
    relative : float
        Frobenius norm of the error over that of the product.
    largest : float
        Largest error over the root mean square of the product.
    """

    relative: float
    largest: float


def layer_error(format: str, arithmetic: str, block: int | tuple[int, int]) -> LayerError:
    """What a format and an arithmetic make of the MiniLM slice.

    Parameters
    ----------
    format : str
        Name of the element format; no matter with ``bf16``.
    arithmetic : {"exact", "fp12", "bf16"}
        ``bf16``: bfloat16 numbers without scales, as `mxsafe.model.bf16_matmul`.
    block : int or tuple of int
        Blocks along the inner dimension, or tiles.

    Raises
    ------
    ValueError
        If the arithmetic does not take the format.
    """
    operands = minilm.load()
    if arithmetic == "bf16":
        a, w = (mx.scalar.encode(x, "bf16").astype(np.uint16) for x in operands)
        return _error(model.bf16_matmul(a, w).astype(np.float64))
    left, right = (
        mx.quantize(x, format, block=block, axis=axis)
        for x, axis in zip(operands, (-1, -2), strict=True)
    )
    product = mx.matmul(left, right, arithmetic=arithmetic)
    return _error(product.astype(np.float64))


def _error(product: NDArray[np.float64]) -> LayerError:
    activations, weights = minilm.load()
    reference = activations.astype(np.float64) @ weights.astype(np.float64)
    error = product - reference
    return LayerError(
        relative=float(np.linalg.norm(error) / np.linalg.norm(reference)),
        largest=float(np.abs(error).max() / np.sqrt(np.mean(np.square(reference)))),
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """A format in an arithmetic.

    Attributes
    ----------
    format, arithmetic : str
    mac, unit : Mapping
        Results on NanGate 45 nm of the MAC alone and of the sub-matrix unit of 4x4 MACs.
    xilinx, ecp5 : Mapping
        Results of the MAC.
    error, tiled : LayerError
        With blocks of 1x64, and with 8x8 tiles.
    """

    format: str
    arithmetic: str
    mac: Result
    unit: Result
    xilinx: Result
    ecp5: Result
    error: LayerError
    tiled: LayerError

    @property
    def ge(self) -> float:
        """Gate equivalents for each MAC in the sub-matrix unit."""
        return usual_numbers(self.unit)["ge"] / float(self.unit["macs"])


def usual_numbers(result: Result) -> Mapping[str, Any]:
    """Numbers of the netlist whose energy is given: the smallest that runs at 500 MHz, if any."""
    numbers: Mapping[str, Any] = result["numbers"]
    chosen: Mapping[str, Any] = numbers[usual_netlist(numbers)]
    return chosen


_CONFIGURATIONS: Mapping[str, tuple[str, str]] = {
    "exact": ("safe_mac_exact, 2 stages", "pu_exact, 1 accumulator"),
    "fp12": ("safe_mac, 3 stages", "pu"),
    "bf16": ("bf16_mac", "pu_bf16"),
}
"""For each arithmetic, its MAC with the register stages of ``gen/``, and its sub-matrix unit."""


def points(synthesis: Synthesis) -> list[Point]:
    """Every format and arithmetic whose sub-matrix unit was synthesised, MXSF first."""
    found = []
    for arithmetic, (mac, unit) in _CONFIGURATIONS.items():
        formats = dict.fromkeys(
            result["format"] for result in synthesis["results"] if result["configuration"] == unit
        )
        with_dsps = mac if arithmetic == "bf16" else f"{mac}, DSPs"
        for name in sorted(formats, key=lambda name: name != "mxsf"):
            found.append(
                Point(
                    format=name,
                    arithmetic=arithmetic,
                    mac=find(synthesis, mac, format=name),
                    xilinx=find(synthesis, mac, "xilinx", name),
                    ecp5=find(synthesis, with_dsps, "ecp5", name),
                    unit=find(synthesis, unit, format=name),
                    error=layer_error(name, arithmetic, 64),
                    tiled=layer_error(name, arithmetic, (8, 8)),
                )
            )
    return found


def pareto(candidates: Iterable[Point]) -> list[Point]:
    """The points that no other point beats in both area and error, the smallest first."""
    front: list[Point] = []
    for point in sorted(candidates, key=lambda point: (point.ge, point.error.relative)):
        if not front or point.error.relative < front[-1].error.relative:
            front.append(point)
    return front


def _name(point: Point) -> str:
    return point.arithmetic if point.arithmetic == "bf16" else f"{point.format}, {point.arithmetic}"


def _energy(result: Result) -> str:
    power = result.get("power")
    return f"{power['mac_pj']:.1f}" if power else ""


def mac_rows(found: Sequence[Point]) -> list[tuple[str, ...]]:
    """The table of MACs alone, head first."""
    table: list[tuple[str, ...]] = [
        (
            "MAC of four lanes",
            "GE",
            "ns",
            "MHz",
            "pJ",
            "Xilinx LUTs",
            "ECP5 LUT4s",
            "DSPs",
            "MHz",
        )
    ]
    for point in found:
        numbers, field = usual_numbers(point.mac), point.ecp5["numbers"]["luts"]
        fastest = min(n["delay_ns"] for n in point.mac["numbers"].values())
        table.append(
            (
                _name(point),
                f"{numbers['ge']:,.0f}",
                f"{numbers['delay_ns']:.2f}",
                f"{1000 / fastest:,.0f}",
                _energy(point.mac),
                f"{point.xilinx['numbers']['luts']['luts']:,}",
                f"{field['luts']:,}",
                f"{field['dsps']}",
                f"{field['fmax_mhz']:.0f}",
            )
        )
    return table


def unit_rows(found: Sequence[Point]) -> list[tuple[str, ...]]:
    """The table of sub-matrix units and errors, head first."""
    table: list[tuple[str, ...]] = [
        (
            "MAC in a sub-matrix unit",
            "GE",
            "ns",
            "MHz",
            "pJ",
            "error, 1x64",
            "largest",
            "error, 8x8",
            "largest",
        )
    ]
    for point in found:
        numbers = usual_numbers(point.unit)
        fastest = min(n["delay_ns"] for n in point.unit["numbers"].values())
        table.append(
            (
                _name(point),
                f"{point.ge:,.0f}",
                f"{numbers['delay_ns']:.2f}",
                f"{1000 / fastest:,.0f}",
                _energy(point.unit),
                *(
                    f"{value:.2%}"
                    for error in (point.error, point.tiled)
                    for value in (error.relative, error.largest)
                ),
            )
        )
    return table


def arithmetic_rows(found: Sequence[Point]) -> list[tuple[str, ...]]:
    """What `fp12` costs beside `exact`, format by format, head first."""
    table: list[tuple[str, ...]] = [
        (
            "fp12 over exact",
            "GE of the MAC",
            "GE in the sub-matrix unit",
            "ns",
            "pJ in the sub-matrix unit",
            "error, 1x64",
        )
    ]
    exact = {point.format: point for point in found if point.arithmetic == "exact"}
    for point in found:
        if point.arithmetic != "fp12" or point.format not in exact:
            continue
        other = exact[point.format]
        pairs = [
            (usual_numbers(point.mac)["ge"], usual_numbers(other.mac)["ge"]),
            (point.ge, other.ge),
            tuple(min(n["delay_ns"] for n in p.unit["numbers"].values()) for p in (point, other)),
        ]
        if "power" in point.unit and "power" in other.unit:
            pairs.append(tuple(p.unit["power"]["mac_pj"] for p in (point, other)))
        cells = [f"{ours / theirs:.2f}" for ours, theirs in pairs]
        cells += [""] * (4 - len(cells))
        error = point.error.relative / other.error.relative
        table.append((point.format, *cells, f"{error:.3f}"))
    return table


def _published(unit: str) -> str:
    return f"{PAPER_VECTOR[unit][0]:g}k"


_AROUND: Mapping[str, tuple[str, str]] = {
    "converter": ("blocks of 64, 16 float32 a clock", "10.4k"),
    "converter_8x8": ("8x8 tiles, 16 float32 a clock", "10.4k"),
    "activation": ("ReLU, 16 float32 a clock", _published("activation")),
    "activation of four functions": (
        "ReLU, GELU, SiLU and tanh, 16 float32 a clock",
        _published("activation"),
    ),
    "softmax": ("rows along 16 lanes", _published("softmax")),
    "softmax_beats": ("16 rows side by side", _published("softmax")),
    "layer_norm, no gain, no bias": ("rows along 16 lanes", _published("normalisation")),
    "layer_norm": ("the same, times gains, plus biases", _published("normalisation")),
    "rms_norm, no gain": ("without a mean", _published("normalisation")),
    "rms_norm": ("the same, times gains", _published("normalisation")),
    "operand_packer": ("four beats of 16 codes to one of operands", ""),
    "transposer": ("8x8 bytes, 8 a clock", ""),
}
"""Configurations around the array: what each does, and gate equivalents of the paper's Table IV."""


def around_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """Sizes of the units around the array, head first."""
    table: list[tuple[str, ...]] = [
        ("unit", "what it does", "smallest: GE", "ns", "fastest: GE", "ns", "the paper: GE")
    ]
    for unit, (what, published) in _AROUND.items():
        numbers = find(synthesis, unit)["numbers"]
        cells = [
            cell
            for variant in ("area", "timing")
            for cell in (
                f"{numbers[variant]['ge']:,.0f}",
                f"{numbers[variant]['delay_ns']:.2f}",
            )
        ]
        table.append((f"`{unit}`", what, *cells, published))
    return table


_FILLS = {"exact": "o", "fp12": "s", "bf16": "D"}
_COLOURS = {"exact": "#0072b2", "fp12": "#d55e00", "bf16": "#666666"}


def draw_points(found: Sequence[Point]) -> "Figure":
    """Draw area against error, and the Pareto front.

    Parameters
    ----------
    found : sequence of Point

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not found:
        raise ValueError("points must not be empty")
    figure = figures.new_figure(9.0, 5.0)
    from matplotlib.ticker import LogLocator, NullLocator

    axes = figure.subplots()
    front = pareto(found)
    axes.plot(
        [point.ge for point in front],
        [point.error.relative for point in front],
        color="#999999",
        linewidth=1.4,
        linestyle=(0, (4, 2)),
        drawstyle="steps-post",
        label="Pareto front",
        zorder=2,
    )
    for arithmetic, marker in _FILLS.items():
        own = [point for point in found if point.arithmetic == arithmetic]
        if not own:
            continue
        axes.plot(
            [point.ge for point in own],
            [point.error.relative for point in own],
            linestyle="",
            marker=marker,
            markersize=8,
            color=_COLOURS[arithmetic],
            label=arithmetic,
            zorder=3,
        )
    for point in found:
        # A label stands right of its point, or left of it where another point is close.
        crowded = any(
            0 < other.ge - point.ge < 0.1 * max(each.ge for each in found)
            and 0.9 < other.error.relative / point.error.relative < 1.2
            for other in found
        )
        axes.annotate(
            "bf16" if point.arithmetic == "bf16" else point.format,
            (point.ge, point.error.relative),
            (-22, 8) if crowded else (7, 5),
            textcoords="offset points",
            fontsize=9,
            color=_COLOURS[point.arithmetic],
        )
    axes.set_yscale("log")
    errors = [point.error.relative for point in found]
    axes.set_ylim(min(errors) / 2, max(errors) * 2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    largest = max(point.ge for point in found)
    axes.set_xlim(0.0, 1.15 * largest)
    axes.set_xlabel("gate equivalents for each MAC, in a sub-matrix unit of 4x4 MACs")
    axes.set_ylabel("relative error of a layer's product")
    axes.grid(alpha=0.3, which="both")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


_PAGE = """\
# Targets, and formats compared

`make synth` wrote this page with {tools}. The numbers are in [synthesis.json](synthesis.json).
[synthesis.md](synthesis.md) describes how areas and times are found.

## Targets

{goals}

Gate equivalents (GE) are NanGate 45 nm areas, typical corner and before layout, over that of a
two-input NAND, for each of the 256 MACs of the array of 4x4 sub-matrix units of 4x4 MACs with four
lanes. Of the netlists that were found, the smallest that runs at 500 MHz counts. A clock is that of
the fastest netlist; its area stands beside it. Published are the area and the clock of MX-SAFE's
core (Table IV, 65 nm, estimated with Synopsys Design Compiler, a netlist before layout as ours),
MX-for-FPGA's exact dot product of E2M5, and four multipliers and three adders of Berkeley
HardFloat. The last two were synthesised by the same Yosys as ours.

What limits those that miss their aim:

{limits}

## What has to be known to judge them

{margins}

- **Cells.** The paper names neither its library nor the corner. An inverter that drives four like
  it (FO4) takes {fo4} ps in ours (`python -m studies.fan_out_of_four`), so 2 ns are {period} of
  them, and as many gate delays of another library may be longer. There is no slow corner in our
  library. The columns in the middle show which of the netlists would still run at 500 MHz if every
  cell were {slower:g} times slower; none of them was made for that.
- **Netlist against netlist.** Areas and clocks of the paper and of ours are those of netlists: no
  wires and no clock tree on either side, and no scan chain in ours. A layout takes more of both.
  Each area is over that of a NAND2 of its own library, in which flip-flops may weigh more or less.
- **Tools.** The paper's netlists are Design Compiler's, ours those of Yosys and ABC. What of the
  difference is due to the tools is not known.
- **HardFloat** takes operands that are recoded already, which our MACs decode first. It carries Inf
  and NaN through every operation, which our FP12 adders have no codes for: NaN is in the scale, and
  no sum can overflow. It has several modes of rounding and reports exceptions by flags. In our
  comparison the rounding is fixed and the flags are left open, so that synthesis takes away what
  only they need. It has no registers: with some its clock would be higher.
- **MX-for-FPGA** reads one kind of codes, MXSF has two; its dot product is as exact as ours, and
  like ours it is without the scales.

## Formats compared

{macs}

{units}

A sub-matrix unit has 4x4 MACs and their accumulators. GE and pJ are those of the smallest netlist
that runs at 500 MHz, or of the fastest where none does; ns is the longest path of that netlist. MHz
is the clock of the fastest netlist. The array adds registers at its edges, some per cent. The error
is that of the product of a [MiniLM layer](../verif/support/data/minilm/README.md), 64 x 384 x 96,
against float64 without any quantisation: norm over norm. *Largest* is the largest error over the
root mean square of the product.{bf16}

![Area against error](comparison.svg)

These are on the Pareto front, the smallest first: {front}. The layer is one of inference.
[formats.md](formats.md) shows what formats lose of gradients; their range is the reason for MXSF's
second kind of codes.

## Exact and FP12 compared

{arithmetics}

## Around the array

{around}

The paper gives the areas of its converter and its vector units (Table IV, 65 nm, 1.44 um2 for a
gate equivalent), but not their widths, and not which functions they are. The array delivers sixteen
values a clock. Ours are without their memories; [the page of vector
units](vector.md#gates-beside-the-paper) has their power too.

## What was tried

These are some of the steps that were tried, on NanGate 45 nm. Both numbers of a row are by the same
script, except for clock gates, which are a step of the script. [experiments.md](experiments.md) has
all steps and the reasons.

{tried}
{energy}"""

_ENERGY = """\

## What the energy is

The netlist is simulated at gate level on the operands of that layer, quantised in the format of the
hardware: a beat every clock without a pause, a MAC for {mac_clocks} clocks, a sub-matrix unit for
{unit_clocks}. Clocks before that, until all results have been written once, do not count. In every
clock the outputs must equal those of the Verilog that the netlist was made from. [Vector
units](vector.md#gates-beside-the-paper) get rows of the same layer; how many clocks count, and how
far the mean over them may be off, stands beside their power.

The energy includes:

- every change of every net, glitches too: every cell has its delay from OpenSTA (0 where the
  library has a negative one), and the energy of a change comes from the cell library, by load and
  transition time;
- the clock pins of the registers;
- the leakage in a clock period of 2 ns, or of the longest path where that is longer.

It leaves out wires, the buffers of the clock tree, memories, and the drivers of the inputs. The
clock is ideal, the corner typical, at 25 degrees and 1.1 V. Paths to the same output of a cell are
averaged, and so are the states of a cell for its leakage. A MAC is four multiplications.

{energies}

The last row is the paper's core: 308.8 mW for 256 MACs at 500 MHz (Table IV). The paper estimated
it with Synopsys Design Compiler and states no further method. The library differs (65 nm, not
named; ours is NanGate 45 nm), and so may the activity (the paper states neither operands nor
switching activity; ours is simulated on a real layer at the full rate, with glitches). The paper's
value includes the registers of the array; ours is that of a sub-matrix unit.
"""

_BF16 = " `bf16` has no block scales; its products are added without rounding."


def energy_rows(found: Sequence[Point]) -> list[tuple[str, ...]]:
    """Which parts of a sub-matrix unit take the energy of a MAC, head first; the paper last."""
    table: list[tuple[str, ...]] = [
        (
            "pJ per MAC in a sub-matrix unit",
            "registers: internal",
            "switching",
            "leakage",
            "logic: internal",
            "switching",
            "leakage",
            "all",
            "per multiplication",
            "changes per net and clock",
        )
    ]
    for point in found:
        power = point.unit.get("power")
        if power is None:
            continue
        macs = point.unit["macs"]
        parts = [
            power[part][f"{kind}_pj"] / macs
            for part in ("sequential", "combinational")
            for kind in ("internal", "switching", "leakage")
        ]
        table.append(
            (
                _name(point),
                *(f"{value:.2f}" for value in parts),
                f"{power['mac_pj']:.2f}",
                f"{power['multiply_pj']:.2f}",
                f"{power['clock']['changes_per_net']:.2f}",
            )
        )
    paper = (f"{PAPER_PJ:.2f}", f"{PAPER_PJ / 4:.2f}")
    table.append(("the paper's core, mxsf", *[""] * 6, *paper, ""))
    return table


def page(synthesis: Synthesis) -> str:
    """The page as Markdown.

    Parameters
    ----------
    synthesis : Mapping
        What `mxsafe.synthesis.run.synthesise` returns for the standard configurations.
    """
    found = points(synthesis)
    front = [
        "`bf16`" if point.arithmetic == "bf16" else f"`{point.format}` with `{point.arithmetic}`"
        for point in pareto(found)
    ]
    counted = {
        kind: {r["power"]["clock"]["clocks"] for r in results if "power" in r}
        for kind, results in (
            ("mac_clocks", [point.mac for point in found]),
            ("unit_clocks", [point.unit for point in found]),
        )
    }
    energy = ""
    if all(counted.values()):
        energy = _ENERGY.format(
            energies=markdown(energy_rows(found)),
            **{kind: " or ".join(map(str, sorted(clocks))) for kind, clocks in counted.items()},
        )
    text = _PAGE.format(
        tools=synthesis_report.tools_line(synthesis),
        goals=markdown(goal_rows(synthesis)),
        limits=limits(synthesis),
        margins=markdown(margin_rows(synthesis)),
        fo4=FO4_PS,
        period=_fo4(PERIOD),
        slower=_SLOWER,
        macs=markdown(mac_rows(found)),
        units=markdown(unit_rows(found)),
        arithmetics=markdown(arithmetic_rows(found)),
        around=markdown(around_rows(synthesis), labels=2),
        tried=markdown(experiments.highlights(experiments.load()), labels=2),
        energy=energy,
        front=", ".join(front),
        bf16=_BF16 if any(point.arithmetic == "bf16" for point in found) else "",
    )
    return wrapped(text)


def pictures(synthesis: Synthesis) -> dict[str, bytes]:
    """The page's picture by file name."""
    return {"comparison.svg": figures.render(draw_points(points(synthesis)), ".svg")}


def main() -> None:
    """Write the page and its picture."""
    synthesis = json.loads((DOCS / "synthesis.json").read_text())
    write_together(DOCS, {"comparison.md": page(synthesis).encode(), **pictures(synthesis)})


if __name__ == "__main__":
    main()
