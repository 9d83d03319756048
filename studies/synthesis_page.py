"""``python -m studies.synthesis_page [synthesis.json]``: areas and times beside published ones.

Writes ``docs/synthesis.md`` and its pictures from the file that `mxsafe synth --out` wrote, and
copies the file to ``docs/synthesis.json``. Without a file it reads that copy.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.synthesis import report as synthesis_report
from studies.prose import wrapped
from studies.synthesised import PAPER_GE, PAPER_NS, PAPER_PJ, Synthesis

__all__ = ["DOCS", "page", "pictures"]

DOCS = Path(__file__).parents[1] / "docs"


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


PUBLISHED_LUTS = (
    PublishedLuts(
        "Berkeley HardFloat: four E4M5 multipliers, three E4M7 adders", "safe_mac", 1307, 158
    ),
    PublishedLuts("MX-for-FPGA: exact dot product, E2M5", "safe_mac_exact", 504, 49),
    PublishedLuts("MX-for-FPGA: exact dot product, E4M3", "safe_mac_exact", 590, 95),
)

_MULTIPLIER = (r"/[aw]_next to .*/mac.*_sums", "a multiplier, its shifter and two additions")
LIMITS: Mapping[str, tuple[str, str]] = {
    "sta_exact 4x4x4x4": (
        r"starts to .*\.sum_",
        "a chain of carries through 31 bits in each clock of a block",
    ),
    "sta_exact 4x4x4x4, formats at run time": (
        r"add\.total_added to .*add\.negative_normalised",
        "normalising in the shared binary32 adder; sums of blocks and MACs are hardly faster",
    ),
    "sta_exact 4x4x4x4, 8 accumulators": (
        r"scale\.below_shifted_1 to .*add\.b",
        "rounding behind the one register of a scaler; MACs and the addition of significands are "
        "hardly faster",
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

_PAGE = """\
# Area and timing

`make synth` wrote this page with {tools}.

## Beside others

{areas}

A gate equivalent (GE) is the area of a two-input NAND, so that different processes compare. The
paper's core has 256 MACs of four lanes with their accumulators and registers. Its area is
1,784,575 um2 in 65 nm (Table IV), which is divided by 1.44 um2 for a NAND2. The paper synthesised
for 500 MHz and estimated area and power with Synopsys Design Compiler (section VI-A). So both sides
are netlists before layout. Ours are in 45 nm: typical corner, no wire loads, ideal clock. A MAC of
eight lanes counts as two.

The paper's core takes 308.8 mW (Table IV), which is {paper_pj:.2f} pJ for each MAC of four lanes at
500 MHz. The paper states the tool, but not how the power was estimated with it. Two things differ
from ours:

- The library. The paper's is a 65 nm one, which it does not name, and whose voltage it does not
  state. Ours is NanGate 45 nm at 1.1 V.
- The activity. The paper states neither operands nor switching activity. Ours is that of the
  netlist with all its glitches, simulated on a layer of MiniLM at the full rate.

Our energies are of the sub-matrix unit alone, without the array's registers and a clock tree. They
are those of the smallest netlist that runs at 500 MHz, or of the fastest where none does.
[What the energy is](comparison.md#what-the-energy-is) lists what they include.

![Gate equivalents for each MAC, and longest paths](synthesis.svg)

`pu` is a sub-matrix unit of 4x4 MACs, `sta` the systolic array of 4x4 such units. Both include
accumulators, scales and the registers of results, as the paper's core does. `safe_mac`,
`safe_mac_exact` and `bf16_mac` are MACs alone. Bars and circles show the smallest netlist, diamonds
the fastest. The dashed line is the area of the paper's core.

{luts}

LUTs are those of `synth_xilinx -flatten -nodsp`. Logic depth is that of `ltp -noff`, which adds up
register stages; ours has one stage, and is built for standard cells. The same unit [built for
FPGAs](fpga_figures.md#other-families) takes fewer LUTs. A unit for E2M5 or E4M3 reads fewer kinds
of codes than one for MXSF.

![Look-up tables](synthesis_luts.svg)

## What limits the arrays

{limits}

GE are for four products a clock, with decoders, the registers of skewed beats and of results. Both
ends are those of the longest path of that netlist.

## How to read the tables

The NanGate tables have two netlists of every unit. *Area* is the smallest that was found, with
gates sized for 2 ns. *Timing* is the fastest. In both, clock gates replace the enables of
registers, and no net drives more than 24 pins. Times run from a register or input to a register or
output. `from` and `to` are the ends of the longest path of the fastest netlist. The sub-matrix unit
of an array is synthesised once and counted as often as it occurs; timing runs through all of them.

The docstring of [`technologies.py`](../hdl/mxsafe/synthesis/technologies.py) describes the scripts,
[experiments.md](experiments.md) shows what they were chosen from, and
[`cases.py`](../hdl/mxsafe/synthesis/cases.py) has the units and their parameters.
On ECP5 the clock is that of the placed and routed unit between registers. Energies are those of a
layer of MiniLM at the full rate; of [vector units](vector.md#gates-beside-the-paper) a result is a
number. Memories do not count: their pins are inputs and outputs of the netlist.
[comparison.md](comparison.md) has the targets, and compares formats.

{tables}
"""


def _results_on(synthesis: Synthesis, technology: str) -> list[Mapping[str, Any]]:
    return [result for result in synthesis["results"] if result["technology"] == technology]


def _area_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """Sub-matrix units and arrays, beside the paper's core."""
    table: list[tuple[str, ...]] = [
        (
            "",
            "area: GE per MAC",
            "over the paper's",
            "ns",
            "timing: GE per MAC",
            "over the paper's",
            "ns",
            "pJ per MAC",
        ),
        (
            "the paper's core, mxsf",
            f"{PAPER_GE:,.0f}",
            "1",
            f"{PAPER_NS:.1f}",
            "",
            "",
            "",
            f"{PAPER_PJ:.2f}",
        ),
    ]
    for result in _results_on(synthesis, "nangate45"):
        if (result["macs"] or 0) > 1:
            cells = [synthesis_report.title(result)]
            macs = synthesis_report.macs_of_four_lanes(result) or 1
            for variant in ("area", "timing"):
                numbers = result["numbers"][variant]
                share = numbers["ge"] / macs
                ratio = f"{share / PAPER_GE:.2f}"
                cells += [f"{share:,.0f}", ratio, f"{numbers['delay_ns']:.1f}"]
            energy = ""
            if power := result.get("power"):
                energy = f"{synthesis_report.pj_of_four_lanes(result, power):.2f}"
            table.append((*cells, energy))
    return table


def _limit_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    """The smallest netlist of each array, or the fastest of that with the most registers."""
    table: list[tuple[str, ...]] = [("array", "GE", "ns", "MHz", "from", "to", "what limits it")]
    for result in _results_on(synthesis, "nangate45"):
        if result["configuration"] not in LIMITS:
            continue
        path, limit = LIMITS[result["configuration"]]
        fast = "most registers" in result["configuration"]
        numbers = result["numbers"]["timing" if fast else "area"]
        start, end = numbers["start"], numbers["end"]
        share = numbers["ge"] / (synthesis_report.macs_of_four_lanes(result) or 1)
        table.append(
            (
                synthesis_report.title(result),
                f"{share:,.0f}",
                f"{numbers['delay_ns']:.2f}",
                f"{1000 / numbers['delay_ns']:,.0f}",
                f"`{start}`",
                f"`{end}`",
                limit if re.search(path, re.sub(r"\[\d+\]", "", f"{start} to {end}")) else "",
            )
        )
    return table


def _least_pipelined(synthesis: Synthesis, unit: str) -> Mapping[str, Any]:
    found = [result for result in _results_on(synthesis, "xilinx") if result["unit"] == unit]
    return min(found, key=lambda result: int(result["latency"]))


def _lut_rows(synthesis: Synthesis) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [
        ("unit", "LUTs", "depth", "published", "LUTs", "depth", "LUTs, ours over theirs")
    ]
    for other in PUBLISHED_LUTS:
        own = _least_pipelined(synthesis, other.unit)["numbers"]["luts"]
        table.append(
            (
                other.unit,
                f"{own['luts']:,}",
                str(own["depth"]),
                other.name,
                f"{other.luts:,}",
                str(other.depth),
                f"{own['luts'] / other.luts:.2f}",
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
    text = _PAGE.format(
        tools=synthesis_report.tools_line(synthesis),
        areas=markdown(_area_rows(synthesis)),
        paper_pj=PAPER_PJ,
        luts=markdown(_lut_rows(synthesis)),
        limits=markdown(_limit_rows(synthesis)),
        # One level below this page's own headings.
        tables=synthesis_report.tables(synthesis).replace("## ", "### "),
    )
    return wrapped(text)


def pictures(synthesis: Synthesis) -> dict[str, bytes]:
    """The page's pictures by file name."""
    areas = [result for result in _results_on(synthesis, "nangate45") if result["macs"]]
    luts = [
        result
        for result in _results_on(synthesis, "xilinx")
        if result["macs"] and "DSPs" not in result["configuration"]
    ]
    drawn = {
        "synthesis.svg": synthesis_report.draw_areas(
            areas, references=[("the paper's core (65 nm netlist), mxsf", PAPER_GE, PAPER_NS)]
        ),
        "synthesis_luts.svg": synthesis_report.draw_luts(
            luts, references=[(other.name, other.luts) for other in PUBLISHED_LUTS]
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
