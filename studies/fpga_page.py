"""``python -m studies.fpga_page [synthesis.json peers.json]``: units on FPGAs, in figures.

Writes ``docs/fpga_figures.md`` and its floor plans from what ``mxsafe synth --case '*for FPGAs'
--out`` and `studies.fpga_peers` wrote, and puts both into ``docs/fpga.json``, where others' units
stay whose sources were not there. Without files it reads that.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.synthesis import report as synthesis_report
from mxsafe.synthesis.floor_plan import PARTS
from studies.prose import wrapped
from studies.synthesis_page import DOCS

__all__ = ["PLANS", "draw", "merged", "other_rows", "page", "peer_rows", "placed_rows"]

Figures = Mapping[str, Any]
Table = list[tuple[str, ...]]

_PAGE = """\
# FPGA figures

`make fpga` wrote this page with {tools}. [FPGAs](fpga.md) says how units for FPGAs differ.

## Lattice ECP5

{placed}

Speed grade 6, the unit between registers for every input and output, which are not in the counts. A
carry cell counts as two LUT4s, 16 words of four bits of memory as six. The clock is that of
nextpnr's own timing after routing: the median and the best of so many placements. Products a second
are those of the median. Placement aims at 200 MHz. Sub-matrix units of an array are synthesised
once, and their DSP blocks have places (`mxsafe.synthesis.dsp_places`).

## Where the parts lie

{plans}

A picture has a square for each tile of the device down to the last one with a cell, in the colour
of the part that most cells in it belong to. Cells are those of nextpnr after packing.

## Other families

{others}

Xilinx 7: `synth_xilinx -flatten`, not placed. iCE40: `synth_ice40`, placed on an HX8K.
Gowin: `synth_gowin`, placed on a GW2A-18 of speed grade 7.

## Beside others

{peers}

All are placed and counted as ours are. Yardsticks are the least that integers take: operands of
int8 without scales, sums of 32 bits, and the same multipliers with their registers. Two products of
int8 do not fit a multiplier, so an array of them has twice the DSP blocks of a sub-matrix unit,
which is as large; its sums are outputs side by side. Our MAC adds four products of MXSF, whose
elements have exponents; our sub-matrix unit multiplies by their scales too, and accumulates in
binary32. Berkeley HardFloat (a mirror of Release 1 with changes for speed, bsg-external/HardFloat)
and MX-for-FPGA are gates without registers, as published; registers inside would make them faster.
Their sources are not part of this project: `python -m studies.fpga_peers peers.json --peer-sources
DIR` reads copies of them.
"""


def _results(figures: Figures, technology: str) -> Iterator[Mapping[str, Any]]:
    return (result for result in figures["results"] if result["technology"] == technology)


def _name(result: Mapping[str, Any]) -> str:
    return str(result["configuration"]).removesuffix(" for FPGAs").removesuffix(",")


def _products(result: Mapping[str, Any]) -> int:
    return int((result["macs"] or 0) * result["parameters"].get("lanes", 0))


def _rates(products: int, numbers: Mapping[str, Any]) -> tuple[str, str, str]:
    """Products a second: in all, of a look-up table, and of a DSP block."""
    if not products:
        return ("", "", "")
    rate = products * numbers["fmax_mhz"]
    dsps = numbers.get("dsps", 0)
    each = f"{rate / dsps:,.0f}" if dsps else ""
    return f"{rate / 1000:.2f}", f"{rate / numbers['luts']:.2f}", each


def _clock(numbers: Mapping[str, Any]) -> tuple[str, str, str]:
    """Median, best and number of placements; empty where nothing was placed."""
    if "fmax_mhz" not in numbers:
        return ("", "", "")
    best = numbers.get("best_mhz", numbers["fmax_mhz"])
    return f"{numbers['fmax_mhz']:.0f}", f"{best:.0f}", str(numbers.get("seeds", 1))


_RATES = ("10^9 products/s", "10^6 a LUT4", "10^6 a DSP")


def placed_rows(figures: Figures) -> Table:
    """Units on ECP5, head first."""
    rows: Table = [
        (
            "unit",
            "stages",
            "products a clock",
            "LUT4s",
            "FFs",
            "DSPs",
            "block RAMs",
            "MHz, median",
            "best",
            "of",
            *_RATES,
        )
    ]
    for result in _results(figures, "ecp5"):
        numbers, products = result["numbers"]["luts"], _products(result)
        rows.append(
            (
                f"`{_name(result)}`",
                str(result["latency"]),
                f"{products or ''}",
                f"{numbers['luts']:,}",
                f"{numbers['ffs']:,}",
                f"{numbers['dsps'] or ''}",
                f"{numbers['rams'] or ''}",
                *_clock(numbers),
                *_rates(products, numbers),
            )
        )
    return rows


def other_rows(figures: Figures) -> Table:
    """Units on other families, head first."""
    rows: Table = [("unit", "family", "LUTs", "FFs", "DSPs", "MHz, median", "best", "of")]
    titles = {"xilinx": "Xilinx 7", "ice40": "iCE40", "gowin": "Gowin"}
    for technology, title in titles.items():
        for result in _results(figures, technology):
            numbers = result["numbers"].get("dsps") or result["numbers"]["luts"]
            counts = f"{numbers['luts']:,}", f"{numbers['ffs']:,}", f"{numbers.get('dsps') or ''}"
            rows.append((f"`{_name(result)}`", title, *counts, *_clock(numbers)))
    return rows


def peer_rows(figures: Figures) -> Table:
    """Others' units and a yardstick beside ours, head first."""
    rows: Table = [
        (
            "unit",
            "of",
            "ECP5: LUT4s",
            "FFs",
            "DSPs",
            "MHz, median",
            "best",
            "of",
            *_RATES,
            "Xilinx: LUTs",
            "DSPs",
        )
    ]
    xilinx = {result["configuration"]: result["numbers"] for result in _results(figures, "xilinx")}
    ours = [
        (f"`{_name(result)}`", "MX-SAFE", _products(result), result["numbers"], result)
        for result in _results(figures, "ecp5")
        if result["macs"] and result["configuration"] in xilinx
    ]
    both = [
        (name, origin, products, {"ecp5": numbers, "xilinx": xilinx[result["configuration"]]})
        for name, origin, products, numbers, result in ours
    ]
    both += [
        (peer["name"], peer["origin"], peer["products"], peer["numbers"])
        for peer in figures["peers"]
    ]
    for name, origin, products, numbers in both:
        placed = numbers["ecp5"]["luts"]
        counted = numbers["xilinx"]["dsps"]
        rows.append(
            (
                name,
                origin,
                f"{placed['luts']:,}",
                f"{placed['ffs']:,}",
                f"{placed['dsps'] or ''}",
                *_clock(placed),
                *_rates(products, placed),
                f"{counted['luts']:,}",
                f"{counted['dsps'] or ''}",
            )
        )
    return rows


PLANS = {"pu_exact": "fpga_floor_plan.svg", "sta_exact": "fpga_array_floor_plan.svg"}
"""Files of the floor plans, by unit."""


def _planned(figures: Figures) -> Iterator[Mapping[str, Any]]:
    """Results that have a floor plan."""
    return (result for result in figures["results"] if "floor_plan" in result)


def _plan(result: Mapping[str, Any]) -> str:
    """A floor plan with what stands beside it."""
    picture = f"![Floor plan: the part that fills each tile]({PLANS[result['unit']]})"
    return f"{_sentence(result)}\n\n{picture}\n\n{markdown(_part_rows(result))}"


def _sentence(result: Mapping[str, Any]) -> str:
    numbers = result["numbers"]["luts"]
    rate, *_ = _rates(_products(result), numbers)
    return (
        f"`{_name(result)}` on an ECP5-85F takes {numbers['luts']:,} of "
        f"{numbers['device_luts']:,} LUT4s ({numbers['luts'] / numbers['device_luts']:.0%}), "
        f"{numbers['ffs']:,} flip-flops and {numbers['dsps']} of 156 DSP blocks, and runs at "
        f"{numbers['fmax_mhz']:.0f} MHz: {rate} * 10^9 products a second."
    )


def _part_rows(result: Mapping[str, Any]) -> Table:
    cells = result["floor_plan"]["cells"]
    whole = sum(cells.values())
    rows: Table = [("part", "cells", "share")]
    for letter, count in cells.items():
        rows.append((PARTS[letter][0], f"{count:,}", f"{count / whole:.1%}"))
    return rows


def page(figures: Figures) -> str:
    """The page as Markdown.

    Parameters
    ----------
    figures : Mapping
        What ``docs/fpga.json`` holds.
    """
    text = _PAGE.format(
        tools=synthesis_report.tools_line(figures),
        placed=markdown(placed_rows(figures)),
        plans="\n\n".join(map(_plan, _planned(figures))),
        others=markdown(other_rows(figures), labels=2),
        peers=markdown(peer_rows(figures), labels=2),
    )
    return wrapped(text)


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


def merged(
    synthesis: Figures, peers: Sequence[Mapping[str, Any]], earlier: Figures
) -> dict[str, Any]:
    """What ``docs/fpga.json`` shall hold: others that were not measured again stay."""
    measured = {peer["name"] for peer in peers}
    kept = [peer for peer in earlier.get("peers", []) if peer["name"] not in measured]
    return {**synthesis, "peers": [*peers, *kept]}


def main(arguments: Sequence[str]) -> None:
    """Write the page, its picture and its numbers."""
    path = DOCS / "fpga.json"
    figures = json.loads(path.read_text()) if path.exists() else {}
    if arguments:
        synthesis, peers = (json.loads(Path(name).read_text()) for name in arguments)
        figures = merged(synthesis, peers, figures)
    texts = {
        "fpga.json": json.dumps(figures, indent=2) + "\n",
        "fpga_figures.md": page(figures),
        **{PLANS[result["unit"]]: draw(result["floor_plan"]) for result in _planned(figures)},
    }
    write_together(DOCS, {name: text.encode() for name, text in texts.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
