"""``python -m studies.synthesis_page [synthesis.json]``: areas and times beside those of others.

Writes ``docs/synthesis.md`` and its pictures from what `mxsafe synth --out` found, and keeps that
as ``docs/synthesis.json``; without a file, from the one kept.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.synthesis import report as synthesis_report

__all__ = ["DOCS", "page", "pictures"]

DOCS = Path(__file__).parents[1] / "docs"

Synthesis = Mapping[str, Any]

PAPER_GE = 1_784_575 / 256 / 1.44
"""Gate equivalents for each MAC of the paper's core: Table IV, um2 over MACs over a 65 nm NAND2."""
PAPER_NS = 2.0


@dataclass(frozen=True)
class Luts:
    """Someone else's four-lane unit, by ``synth_xilinx -flatten -nodsp`` of the same Yosys.

    Attributes
    ----------
    name, unit : str
        What it is, and the unit of ours that does its work.
    luts, depth : int
        Look-up tables and logic depth.
    """

    name: str
    unit: str
    luts: int
    depth: int


ELSEWHERE = (
    Luts("Berkeley HardFloat: four E4M5 multipliers, three E4M7 adders", "safe_mac", 1307, 158),
    Luts("MX-for-FPGA: exact dot product, E2M5", "safe_mac_exact", 504, 49),
    Luts("MX-for-FPGA: exact dot product, E4M3", "safe_mac_exact", 590, 95),
)

_PAGE = """\
# Area and timing

By {tools}; written by `make synth`.

## Beside others

{areas}

Gate equivalents for each MAC, an area divided by that of a two-input NAND, so that processes
compare. The paper's figure is its core of 256 MACs of four lanes, accumulators and registers
included (Table IV: 1,784,575 um2 in 65 nm, with 1.44 um2 for a NAND2), laid out, at 500 MHz. Ours
are 45 nm netlists before layout: typical corner, no wire loads, clock ideal.

![Gate equivalents for each MAC, and longest paths](synthesis.svg)

The bars of `safe_mac` and `safe_mac_exact` are MACs alone; those of `pu` and `sta` have the
accumulators, scales and registers of results too, as the paper's has.

{luts}

LUTs by `synth_xilinx -flatten -nodsp`, logic depth by `ltp -noff`, which adds up register stages;
ours has one. An E2M5 or E4M3 unit reads fewer kinds of codes than an MXSF unit does.

![Look-up tables](synthesis_luts.svg)

## How to read the tables

The NanGate tables have two netlists of every unit. *Area* is the smallest found, its gates sized
for 2 ns, *timing* the fastest; in both, registers with an enable have clock gates and no net drives
more than 24 pins. Times run from register or input to register or
output. `from` and `to` are the ends of the longest path of the fast netlist. Sub-matrix units of an
array are synthesised once and counted as often as they are there; timing runs through all of them.
Scripts, and what they were chosen from, are in the docstring of
[`targets.py`](../hdl/mxsafe/synthesis/targets.py); the units and parameters in
[`configurations.py`](../hdl/mxsafe/synthesis/configurations.py). On ECP5 the clock is that of the
placed and routed unit between registers. Energies, where there are any, are those of a layer of
MiniLM at the full rate; what they include, the targets, and format against format are in
[comparison.md](comparison.md).

{tables}
"""


def _of(synthesis: Synthesis, target: str) -> list[Mapping[str, Any]]:
    return [result for result in synthesis["results"] if result["target"] == target]


def _against(value: float, other: float) -> str:
    return f"{value / other:.2f}"


def _area_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """Whole units with their accumulators, beside the paper's core."""
    table: list[tuple[str, ...]] = [
        (
            "",
            "area: GE per MAC",
            "of the paper's",
            "ns",
            "timing: GE per MAC",
            "of the paper's",
            "ns",
        ),
        ("paper, core", f"{PAPER_GE:,.0f}", "1", f"{PAPER_NS:.1f}", "", "", ""),
    ]
    for result in _of(synthesis, "nangate45"):
        if (result["macs"] or 0) > 1:
            cells = [result["configuration"]]
            for variant in ("area", "timing"):
                numbers = result["numbers"][variant]
                share = numbers["ge"] / result["macs"]
                cells += [f"{share:,.0f}", _against(share, PAPER_GE), f"{numbers['delay_ns']:.1f}"]
            table.append(tuple(cells))
    return table


def _least_pipelined(synthesis: Synthesis, unit: str) -> Mapping[str, Any]:
    found = [result for result in _of(synthesis, "xilinx") if result["unit"] == unit]
    return min(found, key=lambda result: int(result["latency"]))


def _lut_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [
        ("unit", "LUTs", "depth", "beside", "LUTs", "depth", "LUTs, ours of theirs")
    ]
    for other in ELSEWHERE:
        own = _least_pipelined(synthesis, other.unit)["numbers"]["luts"]
        table.append(
            (
                other.unit,
                f"{own['luts']:,}",
                str(own["depth"]),
                other.name,
                f"{other.luts:,}",
                str(other.depth),
                _against(own["luts"], other.luts),
            )
        )
    return table


def page(synthesis: Synthesis) -> str:
    """The page as Markdown.

    Parameters
    ----------
    synthesis : Mapping
        What `mxsafe.synthesis.run.synthesise` returns for the standard configurations.
    """
    return _PAGE.format(
        tools=synthesis_report.tools_line(synthesis),
        areas=markdown(_area_rows(synthesis)),
        luts=markdown(_lut_rows(synthesis)),
        # One level below this page's own headings.
        tables=synthesis_report.tables(synthesis).replace("## ", "### "),
    )


def pictures(synthesis: Synthesis) -> dict[str, bytes]:
    """The page's pictures by file name."""
    areas = [result for result in _of(synthesis, "nangate45") if result["macs"]]
    luts = [result for result in _of(synthesis, "xilinx") if result["macs"]]
    drawn = {
        "synthesis.svg": synthesis_report.draw_areas(
            areas, references=[("paper, core (65 nm, laid out)", PAPER_GE, PAPER_NS)]
        ),
        "synthesis_luts.svg": synthesis_report.draw_luts(
            luts, references=[(other.name, other.luts) for other in ELSEWHERE]
        ),
    }
    return {name: figures.render(figure, ".svg") for name, figure in drawn.items()}


def main(arguments: Sequence[str]) -> None:
    """Write the page, its pictures and its numbers."""
    source = Path(arguments[0]) if arguments else DOCS / "synthesis.json"
    text = source.read_bytes()
    synthesis = json.loads(text)
    files = {"synthesis.json": text, "synthesis.md": page(synthesis).encode()}
    write_together(DOCS, files | pictures(synthesis))


if __name__ == "__main__":
    main(sys.argv[1:])
