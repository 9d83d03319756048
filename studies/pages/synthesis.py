"""Areas and times beside published ones, from ``docs/synthesis.json`` and ``docs/fpga.json``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mxsafe.analysis import figures
from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis.cases import IN_SECOND
from mxsafe.synthesis.vectorless import ACTIVITIES
from studies.fan_out_of_four import FO4_PS
from studies.synthesised import PAPER_GE, PAPER_NS, PAPER_PJ, Result, Synthesis, find, load


@dataclass(frozen=True)
class PublishedLuts:
    """A published design with four lanes, by ``synth_xilinx -flatten -nodsp`` of the same Yosys.

    Attributes
    ----------
    name : str
        The design.
    unit : str
        The unit of ours that does its work.
    luts, depth : int
        Look-up tables and logic depth.
    """

    name: str
    unit: str
    luts: int
    depth: int


_UNITS = {
    "four E4M5 multipliers, three E4M7 adders, recoded operands": "safe_mac",
    "exact dot product of four E2M5": "safe_mac_exact",
    "exact dot product of four E4M3": "safe_mac_exact",
}
"""Units of ours that do the work of those of others in ``docs/fpga.json``, by their names."""


def published_luts() -> list[PublishedLuts]:
    """Others' units of four lanes."""
    others = []
    for peer in load("fpga")["peers"]:
        if peer["name"] in _UNITS:
            numbers = peer["numbers"]["xilinx"]["luts"]
            name = f"{peer['origin']}: {peer['name']}"
            unit = _UNITS[peer["name"]]
            others.append(PublishedLuts(name, unit, numbers["luts"], numbers["depth"]))
    return others


def own_luts(unit: str) -> Mapping[str, Any]:
    """Numbers of a MAC of one stage that is built for FPGAs without DSP blocks, on Xilinx."""
    numbers: Mapping[str, Any] = _own(unit)["numbers"]["luts"]
    return numbers


def _own(unit: str) -> Result:
    return find(load("fpga"), f"{unit}, 1 stage, no DSPs, for FPGAs", "xilinx")


_MULTIPLIER = (r"/[aw]_next to .*/mac.*_sums", "a multiplier, its shifter and two additions")
LIMITS: Mapping[str, tuple[str, str]] = {
    "sta_exact 4x4x4x4": (
        r"starts to .*\.sum_",
        "a chain of carries through 31 bits in each cycle of a block",
    ),
    "sta_exact 4x4x4x4, formats at run time": (
        r"add\.total_added to .*add\.negative_normalised",
        "normalising in the shared binary32 adder; sums of blocks and MACs are hardly faster",
    ),
    "sta_exact 4x2x4x8, 2 columns a MAC": (
        r"scale\.below_shifted_1 to .*add\.b",
        "rounding behind the one register of a scaler; normalising in the adder, with the way of a "
        "row of results to the output, and a MAC are hardly faster",
    ),
    "sta_exact 4x4x4x4, 8 lanes": _MULTIPLIER,
    "sta_exact 4x4x4x4, 16 lanes": (
        r"sequencer\.goes_on_after_1 to .*\.sum_",
        "a flag that all bits of the sums of four MACs see, and the chain of carries behind it",
    ),
    "sta_exact 4x4x4x4, 8 lanes, carry-save sums": (
        r"scale\..* to .*scale\.",
        "the one scaler of an accumulator",
    ),
    "sta_exact 4x4x4x4, 8 lanes, most registers": (
        r"sequencer\.goes_on_after_3 to .*\.sum_",
        "in the fastest netlist a register that says to all bits of the sums of eight MACs that a "
        "block starts, and the chain of carries behind it",
    ),
    "sta_window 4x4x4x4, 8 lanes": _MULTIPLIER,
    "sta_exact 4x4x4x4, most registers": (
        r"sequencer\.starts_after_1 to .*\.sum_",
        "in the fastest netlist four registers that say to all bits of all sums that a block "
        "starts, and the chain of carries behind them",
    ),
}
"""By configuration of an array what the names of the ends of its longest path, without numbers of
bits, are like if its clock is still limited by this, and by what."""


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    synthesis = load()
    return {
        "tools": synthesis_report.tools_line(synthesis),
        "paper_ge": PAPER_GE,
        "paper_ns": PAPER_NS,
        "paper_pj": PAPER_PJ,
        "activities": ACTIVITIES,
        "areas": _areas(synthesis),
        "second": in_second(synthesis),
        "fo4": FO4_PS,
        "luts": [(own_luts(other.unit), other) for other in published_luts()],
        "limits": limits(synthesis),
        # One level below the page's own headings.
        "tables": synthesis_report.tables(synthesis).replace("## ", "### "),
    }


def _results_on(synthesis: Synthesis, technology: str) -> list[Result]:
    return [result for result in synthesis["results"] if result["technology"] == technology]


def _netlist(result: Result, variant: str) -> dict[str, Any]:
    """A netlist with its gate equivalents for each MAC of four lanes."""
    numbers = result["numbers"][variant]
    share = numbers["ge"] / (synthesis_report.macs_of_four_lanes(result) or 1)
    return {
        "ge": share,
        "ns": numbers["delay_ns"],
        "start": numbers["start"],
        "end": numbers["end"],
    }


def _areas(synthesis: Synthesis) -> list[dict[str, Any]]:
    """Sub-matrix units and arrays."""
    return [
        {
            "title": synthesis_report.title(result),
            "area": _netlist(result, "area"),
            "timing": _netlist(result, "timing"),
            "pj": synthesis_report.pj_of_four_lanes(result, result["power"])
            if result.get("power")
            else None,
            "vectorless": vectorless(result),
        }
        for result in _results_on(synthesis, "nangate45")
        if (result["macs"] or 0) > 1
    ]


def vectorless(result: Result, name: str = "vectorless") -> list[float | None]:
    """Energies of a MAC of four lanes without operands, by activity, pJ; None where not measured.

    Parameters
    ----------
    result : Mapping
    name : {"vectorless", "vectorless_gates_open"}
    """
    found = result.get("power", {}).get(name, {})
    share = synthesis_report.macs_of_four_lanes(result) or 1
    energies = (found.get(str(activity)) for activity in ACTIVITIES)
    return [None if energy is None else energy / share for energy in energies]


def in_second(synthesis: Synthesis) -> list[dict[str, Any]]:
    """The smallest netlists of units in both libraries of cells."""

    def smallest(name: str, technology: str) -> dict[str, Any]:
        area = find(synthesis, name, technology)["numbers"]["area"]
        return {**area, "fo4": 1000 * area["delay_ns"] / FO4_PS[technology]}

    return [
        {
            "title": second.removesuffix(", in osu018"),
            "first": smallest(first, "nangate45"),
            "second": smallest(second, "osu018"),
        }
        for first, second in IN_SECOND.items()
    ]


def limits(synthesis: Synthesis) -> list[dict[str, Any]]:
    """The smallest netlist of each array, or the fastest of that with the most registers."""
    table = []
    for result in _results_on(synthesis, "nangate45"):
        if result["configuration"] not in LIMITS:
            continue
        path, limit = LIMITS[result["configuration"]]
        one = _netlist(result, "timing" if "most registers" in result["configuration"] else "area")
        ends = re.sub(r"\[\d+\]", "", f"{one['start']} to {one['end']}")
        known = {"title": synthesis_report.title(result), "limit": limit}
        table.append(one | known if re.search(path, ends) else one | known | {"limit": ""})
    return table


def pictures() -> dict[str, bytes]:
    """The pictures of areas and look-up tables."""
    synthesis = load()
    areas = [result for result in _results_on(synthesis, "nangate45") if result["macs"]]
    luts = [
        result
        for result in _results_on(synthesis, "xilinx")
        if result["macs"] and "DSPs" not in result["configuration"]
    ]
    luts += [_own(unit) for unit in dict.fromkeys(_UNITS.values())]
    drawn = {
        "synthesis.svg": synthesis_report.draw_areas(
            areas, references=[("the paper's core (65 nm netlist), mxsf", PAPER_GE, PAPER_NS)]
        ),
        "synthesis_luts.svg": synthesis_report.draw_luts(
            luts, references=[(other.name, other.luts) for other in published_luts()]
        ),
    }
    return {name: figures.render(figure, ".svg") for name, figure in drawn.items()}
