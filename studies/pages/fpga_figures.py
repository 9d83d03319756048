"""Units on FPGAs, in figures, from ``docs/fpga.json``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis.floor_plan import PARTS
from studies.synthesised import Result, load

_FAMILIES = {"xilinx": "Xilinx 7", "ice40": "iCE40", "gowin": "Gowin"}
PLANS = {"pu_exact": "fpga_floor_plan.svg", "sta_exact": "fpga_array_floor_plan.svg"}
"""Files of the floor plans, by unit."""


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    figures = load("fpga")
    ecp5, xilinx = _on("ecp5"), {one["configuration"]: one["numbers"] for one in _on("xilinx")}
    ours = [
        {
            "name": f"`{_name(result)}`",
            "origin": "MX-SAFE",
            "products": _products(result),
            "numbers": {"ecp5": result["numbers"], "xilinx": xilinx[result["configuration"]]},
        }
        for result in ecp5
        if result["macs"] and result["configuration"] in xilinx
    ]
    return {
        "tools": synthesis_report.tools_line(figures),
        "name": _name,
        "products": _products,
        "ecp5": ecp5,
        "others": {title: _on(technology) for technology, title in _FAMILIES.items()},
        "beside": [*ours, *figures["peers"]],
        "planned": _planned(),
        "plans": PLANS,
        "parts": PARTS,
    }


def _on(technology: str) -> list[Result]:
    return [result for result in load("fpga")["results"] if result["technology"] == technology]


def _planned() -> list[Result]:
    """Results that have a floor plan."""
    return [result for result in load("fpga")["results"] if "floor_plan" in result]


def _name(result: Result) -> str:
    return str(result["configuration"]).removesuffix(" for FPGAs").removesuffix(",")


def _products(result: Result) -> int:
    """Products a cycle."""
    return int((result["macs"] or 0) * result["parameters"].get("lanes", 0))


_COLOURS: Mapping[str, str] = {
    "m": "#000000",
    "s": "#0072b2",
    "t": "#56b4e9",
    "f": "#e69f00",
    "b": "#d55e00",
    "a": "#cc79a7",
    "o": "#009e73",
    "d": "#f0e442",
    "r": "#bbbbbb",
}
_TILE = 6


def draw(plan: Mapping[str, Any]) -> str:
    """A floor plan as SVG."""
    height, width = len(plan["parts"]), max(map(len, plan["parts"]))
    side, top = width * _TILE, height * _TILE
    legend = []
    for number, letter in enumerate(plan["cells"]):
        y = 30 + 24 * number
        legend += [
            f'  <rect x="{side + 30}" y="{y - 11}" width="12" height="12" '
            f'fill="{_COLOURS[letter]}"/>',
            f'  <text x="{side + 50}" y="{y}">{PARTS[letter][0]}</text>',
        ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 260} {top + 20}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="14">',
            f'  <rect width="{side + 260}" height="{top + 20}" fill="#ffffff"/>',
            *_tiles(plan["parts"]),
            f'  <rect x="10" y="10" width="{side}" height="{top}" fill="none" stroke="#999999"/>',
            *legend,
            "</svg>\n",
        ]
    )


def _tiles(rows: Sequence[str]) -> Iterator[str]:
    """A path for each colour; neighbours of a colour in a row are one rectangle."""
    yield f'  <g transform="translate(10,10) scale({_TILE})">'
    for letter, colour in _COLOURS.items():
        runs = "".join(
            f"M{match.start()},{y}h{len(match.group())}v1h-{len(match.group())}z"
            for y, row in enumerate(rows)
            for match in re.finditer(f"{letter}+", row)
        )
        if runs:
            yield f'    <path fill="{colour}" d="{runs}"/>'
    yield "  </g>"


def pictures() -> dict[str, bytes]:
    """The floor plans."""
    return {PLANS[one["unit"]]: draw(one["floor_plan"]).encode() for one in _planned()}
