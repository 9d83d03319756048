"""The targets, and the formats beside each other.

From ``docs/synthesis.json``, ``docs/fpga.json`` and ``docs/experiments.json``, and from the errors
of a real layer, which it computes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.analysis import figures
from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis.cases import CARRY_SAVE
from mxsafe.synthesis.layout import KINDS as WIRES
from mxsafe.synthesis.power import PERIOD, usual_netlist
from mxsafe.synthesis.vectorless import ACTIVITIES
from studies.drawing import draw_front, front, plain
from studies.fan_out_of_four import FO4_PS
from studies.pages import accelerator, experiments, kept
from studies.pages.synthesis import own_luts, published_luts, vectorless
from studies.pages.window import relative
from studies.synthesised import PAPER_GE, PAPER_PJ, Result, Synthesis, find, load, usual_numbers
from verif.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def area_at_500(result: Result) -> Measured:
    """Gate equivalents for each MAC of the smallest netlist that runs at 500 MHz."""
    numbers = result["numbers"]
    best = numbers[usual_netlist(numbers)]
    smallest = min(numbers.values(), key=lambda netlist: float(netlist["ge"]))
    share, least = (netlist["ge"] / result["macs"] for netlist in (best, smallest))
    slower = f"{least:,.0f} at {1000 / smallest['delay_ns']:,.0f} MHz"
    if best["delay_ns"] > PERIOD:
        return Measured(value=None, text=f"none: {slower}")
    return Measured(value=share, text=f"{share:,.0f}" + (f"; {slower}" if best != smallest else ""))


def clock(result: Result) -> Measured:
    """The fastest netlist's clock, with the area it takes."""
    numbers = min(result["numbers"].values(), key=lambda numbers: float(numbers["delay_ns"]))
    rate = 1000 / numbers["delay_ns"]
    share = numbers["ge"] / result["macs"]
    path = f"the longest path runs from `{numbers['start']}` to `{numbers['end']}`"
    return Measured(value=rate, text=f"{rate:,.0f} with {share:,.0f} GE", path=path)


KINDS: Mapping[str, str] = {
    "n": "a netlist; its times have wires as the library estimates them",
    "s": "a netlist, simulated on real data with glitches, without wires",
    "v": "a netlist without operands: *vectorless*, a sum over the library at an activity",
    "r": "a unit that was placed and routed",
}
"""What numbers are of, by the letters that mark them."""
_USUAL = "pu_exact, 1 accumulator"
_LESS_ENERGY = tuple(case.name for case in CARRY_SAVE if case.unit == "pu_exact")


def energies(synthesis: Synthesis) -> list[dict[str, Any]]:
    """Sub-matrix units for `exact` with MXSF, the usual one first: energies of a MAC, pJ, or None.

    Those that were synthesised.
    """
    by_name = {
        found["configuration"]: found
        for found in synthesis["results"]
        if found["format"] == "mxsf" and found["technology"] == "nangate45"
    }
    return [
        {
            "name": f"`{name}`",
            "ge": usual_numbers(found)["ge"] / (synthesis_report.macs_of_four_lanes(found) or 1),
            "mhz": 1000 / _fastest(found),
            "pj": synthesis_report.pj_of_four_lanes(found, found["power"])
            if "power" in found
            else None,
            "vectorless": [*vectorless(found), *vectorless(found, "vectorless_gates_open")],
            "result": found,
        }
        for name in (_USUAL, *_LESS_ENERGY)
        if (found := by_name.get(name))
    ]


def _least(units: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return min((one for one in units if one["pj"] is not None), key=lambda one: float(one["pj"]))


def least_energy(units: Sequence[Mapping[str, Any]]) -> Measured:
    """The least energy of a MAC, beside that of the usual unit."""
    least = _least(units)
    text = f"{least['pj']:.2f} in {least['name']}; {units[0]['pj']:.2f} in the usual one"
    return Measured(value=least["pj"], text=text)


def energy_limit(units: Sequence[Mapping[str, Any]]) -> str:
    """Where the least energy of a MAC goes."""
    result = _least(units)["result"]
    parts = {
        part: sum(result["power"][part].values()) / result["power"]["clock"]["total_pj"]
        for part in ("combinational", "sequential")
    }
    return (
        f"{parts['combinational']:.0%} of it are in logic, whose nets change "
        f"{result['power']['clock']['changes_per_net']:.2f} times a cycle on real data, and "
        f"{parts['sequential']:.0%} in registers and their clocks"
    )


def for_fpgas() -> list[dict[str, Any]]:
    """Our exact MAC and MX-for-FPGA's dot products, built for FPGAs."""
    fpga = load("fpga")
    ours = "safe_mac_exact for FPGAs"
    found = [
        {
            "name": "`safe_mac_exact`, MXSF",
            "luts": own_luts("safe_mac_exact")["luts"],
            "dsps": find(fpga, ours, "xilinx")["numbers"]["dsps"],
            "ecp5": find(fpga, ours, "ecp5")["numbers"]["luts"],
        }
    ]
    found += [
        {
            "name": f"{peer['origin']}: {peer['name']}",
            "luts": peer["numbers"]["xilinx"]["luts"]["luts"],
            "dsps": peer["numbers"]["xilinx"]["dsps"],
            "ecp5": peer["numbers"]["ecp5"]["luts"],
        }
        for peer in fpga["peers"]
        if peer["origin"] == "MX-for-FPGA"
    ]
    (beside,) = (one["luts"] for one in found if one["name"].endswith("E2M5"))
    return [{**one, "over": one["luts"] / beside} for one in found]


def _laid_out() -> dict[str, float]:
    """Clocks, MHz, and shares of energy that wires add, of the MAC that was placed and routed."""
    (unit,) = kept("layout")["units"].values()
    kinds = [kind for kind in WIRES if kind != "none"]
    clocks = [1000 / unit[kind]["delay_ns"] for kind in kinds]
    energies = [
        unit["power"][kind]["total_pj"] / unit["power"]["none"]["total_pj"] for kind in kinds
    ]
    return {
        "estimated": 1000 / unit["netlist"]["delay_ns"],
        "slowest": min(clocks),
        "fastest": max(clocks),
        "least": min(energies) - 1,
        "most": max(energies) - 1,
    }


def _cells_luts(unit: str) -> int:
    """LUTs of a MAC of one stage that is built for standard cells, on Xilinx without DSPs."""
    return int(find(load(), f"{unit}, 1 stage", "xilinx")["numbers"]["luts"]["luts"])


def _luts(unit: str) -> Measured:
    """The LUTs of a MAC with one stage, on Xilinx without DSPs, built for FPGAs."""
    cells = _cells_luts(unit)
    luts = own_luts(unit)["luts"]
    return Measured(value=luts, text=f"{luts:,}; {cells:,} built for standard cells")


def _ecp5_clock(unit: str) -> Measured:
    """The clock of the fastest configuration of a MAC on ECP5."""
    found = [
        result["numbers"]["luts"]
        for result in load()["results"]
        if (result["unit"], result["technology"], result["format"]) == (unit, "ecp5", "mxsf")
    ]
    best = max(found, key=lambda numbers: float(numbers["fmax_mhz"]))
    text = f"{best['fmax_mhz']:.0f} with {best['dsps']} DSPs, {best['luts']:,} LUT4s"
    return Measured(value=best["fmax_mhz"], text=text)


def verdict(goal: Mapping[str, Any]) -> str:
    """How good a measured value is.

    Parameters
    ----------
    goal : Mapping
        `measured` with what is `required` and what is the `aim`, numbers or text, and whether
        `more` is better.
    """
    value = goal["measured"].value

    def meets(wanted: float | str) -> bool | None:
        if isinstance(wanted, str):
            return None
        return value is not None and (value >= wanted if goal["more"] else value <= wanted)

    if meets(goal["aim"]):
        return "aim met"
    return {True: "required met", False: "not met", None: "aim not met"}[meets(goal["required"])]


_ARRAY = "sta_exact 4x4x4x4"
_SLOWER = 1.3
"""How many times slower the cells of the second table of margins are."""
_RATES: Mapping[str, tuple[str, ...]] = {
    "array, `exact`, full rate for 1x64": (_ARRAY, f"{_ARRAY}, most registers"),
    "array, `exact`, full rate for 1x64 and 8x8": ("sta_exact 4x2x4x8, 2 columns a MAC",),
    "sub-matrix unit, `fp12`": ("pu",),
}
"""Configurations that do the same in a cycle."""


def margins(synthesis: Synthesis) -> list[dict[str, Any]]:
    """Return the margin left at 500 MHz, with the library's cells and with slower ones."""
    table = []
    for what, names in _RATES.items():
        found = [
            {"ge": numbers["ge"] / result["macs"], "ns": numbers["delay_ns"]}
            for result in (find(synthesis, name) for name in names)
            for numbers in result["numbers"].values()
        ]
        smallest, slower = (
            min(
                (one for one in found if one["ns"] <= limit),
                key=lambda one: one["ge"],
                default=None,
            )
            for limit in (PERIOD, PERIOD / _SLOWER)
        )
        fastest = min(one["ns"] for one in found)
        table.append({"what": what, "smallest": smallest, "slower": slower, "fastest": fastest})
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
    """Return the error of a format and an arithmetic on the MiniLM slice.

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
    largest = np.abs(product - reference).max() / np.sqrt(np.mean(np.square(reference)))
    return LayerError(relative=relative(product, reference), largest=float(largest))


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

    @property
    def name(self) -> str:
        """Name in tables."""
        return "bf16" if self.arithmetic == "bf16" else f"{self.format}, {self.arithmetic}"

    @property
    def label(self) -> str:
        """Name where its arithmetic is told otherwise."""
        return "bf16" if self.arithmetic == "bf16" else self.format


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
    """The points that no other beats in both area and error, the smallest first."""
    return front(candidates, _place)


def _place(point: Point) -> tuple[float, float]:
    return point.ge, point.error.relative


_FILLS = {"exact": "o", "fp12": "s", "bf16": "D"}
_COLOURS = {"exact": "#0072b2", "fp12": "#d55e00", "bf16": "#666666"}


def draw(found: Sequence[Point]) -> "Figure":
    """Draw area against error, and the Pareto front."""
    figure = figures.new_figure(9.0, 5.0)
    from matplotlib.ticker import LogLocator, NullLocator

    axes = figure.subplots()
    draw_front(axes, pareto(found), _place, label="Pareto front")
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
            point.label,
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
    plain(axes, which="both")
    axes.legend(frameon=False, loc="upper right")
    return figure


_THREE = ("activation of four functions", "softmax", "layer_norm, no gain, no bias")
"""Units by themselves that do what the paper's three vector units are called after."""


def together(synthesis: Synthesis) -> dict[str, Any]:
    """Gates of these together, and the longest of their paths."""
    areas = [find(synthesis, name)["numbers"]["area"] for name in _THREE]
    return {
        "names": [f"`{name}`" for name in _THREE],
        "ge": sum(area["ge"] for area in areas),
        "ns": max(area["delay_ns"] for area in areas),
    }


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    synthesis = load()
    found = points(synthesis)
    exact = {point.format: point for point in found if point.arithmetic == "exact"}
    units = energies(synthesis)
    return {
        "kinds": KINDS,
        "activities": ACTIVITIES,
        "energies": units,
        "energy": least_energy(units),
        "energy_limit": energy_limit(units),
        "for_fpgas": for_fpgas(),
        "for_cells": _cells_luts("safe_mac_exact"),
        "laid": _laid_out(),
        "tools": synthesis_report.tools_line(synthesis),
        "paper_ge": round(PAPER_GE),
        "area": lambda name: area_at_500(find(synthesis, name)),
        "clock": lambda name: clock(find(synthesis, name)),
        "luts": _luts,
        "published_luts": {one.unit: one.luts for one in reversed(published_luts())},
        "ecp5_clock": _ecp5_clock,
        "verdict": verdict,
        "margins": margins(synthesis),
        "fo4": FO4_PS["nangate45"] / 1000,
        "slower": _SLOWER,
        "points": found,
        "both": [
            (point.format, point, exact[point.format])
            for point in found
            if point.arithmetic == "fp12" and point.format in exact
        ],
        "front": pareto(found),
        "default": usual_numbers,
        "fastest": _fastest,
        "three": together(synthesis),
        "vector": accelerator.vector_gates(synthesis),
        "around": lambda name: find(synthesis, name)["numbers"],
        "tried": experiments.highlights(experiments.load()),
        "mac_clocks": _clocks(point.mac for point in found),
        "unit_clocks": _clocks(point.unit for point in found),
        "paper_pj": PAPER_PJ,
    }


def _fastest(result: Result) -> float:
    return min(float(numbers["delay_ns"]) for numbers in result["numbers"].values())


def _clocks(results: Iterable[Result]) -> list[int]:
    return sorted({result["power"]["clock"]["clocks"] for result in results})


def pictures() -> dict[str, bytes]:
    """The picture of areas and errors."""
    return {"comparison.svg": figures.render(draw(points(load())), ".svg")}
