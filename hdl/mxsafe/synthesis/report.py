"""Results of synthesis as files: JSON, Markdown tables and pictures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxsafe.analysis import figures
from mxsafe.analysis.report import aligned, markdown
from mxsafe.atomic import write_together
from mxsafe.verilog.presets import PRESETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Result = Mapping[str, Any]
Synthesis = Mapping[str, Any]

_TITLES = {
    "nangate45": "NanGate 45 nm",
    "osu018": "OSU 180 nm",
    "xilinx": "Xilinx 7 series",
    "ice40": "Lattice iCE40",
    "ecp5": "Lattice ECP5, placed and routed",
    "gowin": "Gowin GW2A",
}
_Columns = Sequence[tuple[str, str, str, str]]
_OF_CELLS: _Columns = (
    ("area: GE", "area", "ge", ",.0f"),
    ("registers: GE", "area", "sequential_ge", ",.0f"),
    ("ns", "area", "delay_ns", ".2f"),
    ("timing: GE", "timing", "ge", ",.0f"),
    ("cells", "timing", "cells", ",d"),
    ("ns", "timing", "delay_ns", ".2f"),
    ("from", "timing", "start", "s"),
    ("to", "timing", "end", "s"),
)
_CELLS = ("nangate45", "osu018")
"""Technologies that are standard cells."""
# For each technology, its columns: head, variant, key, format.
_COLUMNS: Mapping[str, _Columns] = {
    **dict.fromkeys(_CELLS, _OF_CELLS),
    "xilinx": (
        ("LUTs", "luts", "luts", ",d"),
        ("FFs", "luts", "ffs", ",d"),
        ("depth of all stages", "luts", "depth", "d"),
        ("with DSPs: LUTs", "dsps", "luts", ",d"),
        ("DSPs", "dsps", "dsps", "d"),
    ),
    "ice40": (
        ("LUT4s", "luts", "luts", ",d"),
        ("FFs", "luts", "ffs", ",d"),
        ("depth of all stages", "luts", "depth", "d"),
    ),
    "ecp5": (
        ("LUT4s", "luts", "luts", ",d"),
        ("FFs", "luts", "ffs", ",d"),
        ("DSPs", "luts", "dsps", "d"),
        ("MHz", "luts", "fmax_mhz", ".1f"),
    ),
    "gowin": (
        ("LUT4s", "luts", "luts", ",d"),
        ("FFs", "luts", "ffs", ",d"),
        ("DSPs", "luts", "dsps", "d"),
        ("depth of all stages", "luts", "depth", "d"),
    ),
}


def title(result: Result) -> str:
    """Return the title of a result: its configuration, and the element format if it has one."""
    if not PRESETS[result["unit"]].has_format:
        return str(result["configuration"])
    return f"{result['configuration']}, {result['format']}"


def _energies(result: Result | None) -> tuple[str, ...]:
    """Cells for energies of a cycle and its parts, and of which netlist; for None, the head."""
    if result is None:
        return ("pJ per cycle", "pJ per MAC", "pJ per multiply", "pJ per result", "of netlist")
    power = result.get("power")
    if power is None:
        return ("",) * 5
    parts = [
        power["clock"]["total_pj"],
        pj_of_four_lanes(result, power) if "mac_pj" in power else None,
        power.get("multiply_pj"),
        power.get("result", {}).get("total_pj"),
    ]
    cells = ["" if part is None else f"{part:,.2f}" for part in parts]
    return (*cells, str(power["netlist"]))


def macs_of_four_lanes(result: Result) -> float | None:
    """MACs that an area is shared among: one of eight lanes counts as two; None without MACs."""
    if not result["macs"]:
        return None
    return float(result["macs"] * max(result["parameters"].get("lanes", 4), 4) / 4)


def pj_of_four_lanes(result: Result, power: Mapping[str, Any]) -> float:
    """Energy of a MAC of four lanes, as areas are shared."""
    share = macs_of_four_lanes(result)
    assert share is not None
    return float(power["mac_pj"]) * float(result["macs"]) / share


def rows(synthesis: Synthesis, technology: str) -> list[tuple[str, ...]]:
    """A technology's table, head first; the first column is words. Empty without results.

    Parameters
    ----------
    synthesis : Mapping
        What `mxsafe.synthesis.run.synthesise` returns.
    technology : str
        Name of the technology.
    """
    results = [result for result in synthesis["results"] if result["technology"] == technology]
    if not results:
        return []
    columns = _COLUMNS[technology]
    per_mac = technology in _CELLS and any((result["macs"] or 0) > 1 for result in results)
    head = ["configuration", *(column[0] for column in columns)]
    table = [head]
    for result in results:
        numbers = result["numbers"]
        cells = (
            format(numbers[v][key], form) if v in numbers else "" for _, v, key, form in columns
        )
        table.append([title(result), *cells])
    if any("power" in result for result in results):
        for row, result in zip(table, [None, *results], strict=True):
            row += _energies(result)
    if per_mac:
        # Beside each area, its share for one MAC.
        for row, result in zip(table, [None, *results], strict=True):
            for place, variant in ((5, "timing"), (2, "area")):
                macs = result and macs_of_four_lanes(result)
                share = f"{result['numbers'][variant]['ge'] / macs:,.0f}" if result and macs else ""
                row.insert(place, share if result else "per MAC")
    return [tuple(row) for row in table]


def tables(synthesis: Synthesis) -> str:
    """All tables as Markdown, a heading each."""
    parts = []
    for technology, heading in _TITLES.items():
        if table := rows(synthesis, technology):
            parts += [f"## {heading}", markdown(table)]
    return "\n\n".join(parts)


def text(synthesis: Synthesis) -> str:
    """All tables for a terminal."""
    parts = []
    for technology, heading in _TITLES.items():
        if table := rows(synthesis, technology):
            parts.append(f"{heading}\n{aligned(table)}")
    return "\n\n".join(parts)


def tools_line(synthesis: Synthesis) -> str:
    """The tools with their versions, as one phrase."""
    tools = synthesis["tools"]
    names = [f"{name} {value}" for name, value in tools.items() if not name.startswith("library")]
    for digest in (name for name in tools if name.endswith("_sha256")):
        title = tools[digest.removesuffix("_sha256")]
        names.append(f"{title} (sha256 {tools[digest][:12]}...)")
    return ", ".join(names)


def _bars(axes: Any, labels: Sequence[str], layers: Sequence[tuple[str, Any, Any]]) -> None:
    """Draw horizontal bars, the first label on top; a layer is name, colour, (lefts, widths)."""
    places = range(len(labels))
    for name, colour, (lefts, widths) in layers:
        axes.barh(places, widths, left=lefts, color=colour, label=name, height=0.62)
    axes.set_yticks(places, labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def draw_areas(
    results: Sequence[Result], *, references: Sequence[tuple[str, float, float | None]] = ()
) -> "Figure":
    """Draw gate equivalents per MAC (or of the whole unit) and longest paths, for both scripts.

    Parameters
    ----------
    results : sequence of Mapping
        Results for standard cells.
    references : sequence of (str, float, float or None)
        Others' figures: name, gate equivalents, nanoseconds; drawn below.

    Returns
    -------
    matplotlib.figure.Figure
        Left, bars of the smaller netlist, registers and logic apart, with a tick for the faster
        one and a line at each reference; right, the longest paths of both.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not results:
        raise ValueError("results must not be empty")
    labels = [title(result) for result in results] + [name for name, *_ in references]
    figure = figures.new_figure(9.5, 1.3 + 0.31 * len(labels))
    left, right = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": (3, 2)})
    area = [result["numbers"]["area"] for result in results]
    timing = [result["numbers"]["timing"] for result in results]
    share = [1.0 / (macs_of_four_lanes(result) or 1) for result in results]
    registers = [n["sequential_ge"] * s for n, s in zip(area, share, strict=True)]
    logic = [n["combinational_ge"] * s for n, s in zip(area, share, strict=True)]
    others = [0.0] * len(references)
    nothing = [0.0] * len(results)
    _bars(
        left,
        labels,
        [
            ("registers", "#56b4e9", (0.0, registers + others)),
            ("logic", "#0072b2", (registers + others, logic + others)),
            ("others", "#999999", (0.0, nothing + [ge for _, ge, _ in references])),
        ],
    )
    fast = [n["ge"] * s for n, s in zip(timing, share, strict=True)]
    style = {"linestyle": "", "marker": "D", "markersize": 6, "color": "#d55e00", "zorder": 4}
    left.plot(fast, range(len(results)), label="fastest netlist", **style)
    for _, ge, _ in references:
        left.axvline(ge, color="#999999", linestyle=(0, (3, 2)), linewidth=1, zorder=3)
    left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    left.locator_params(axis="x", nbins=6)
    left.set_xlabel("gate equivalents (NAND2), for each MAC")
    slow = [n["delay_ns"] for n in area]
    quick = [n["delay_ns"] for n in timing]
    _bars(right, labels, [])
    right.hlines(range(len(results)), quick, slow, color="#bbbbbb", linewidth=2, zorder=2)
    right.plot(
        slow, range(len(results)), linestyle="", marker="o", markersize=6, color="#0072b2", zorder=3
    )
    right.plot(quick, range(len(results)), **style)
    for place, (_, _, delay) in enumerate(references, len(results)):
        if delay is not None:
            right.plot(delay, place, marker="o", markersize=6, color="#999999", zorder=3)
    right.set_xlim(0.0, None)
    right.set_xlabel("longest path, ns")
    figure.legend(*_legend(left), loc="outside upper center", ncols=4, frameon=False)
    return figure


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: labels[place] == "others")
    kept = [p for p in order if labels[p] != "others" or _is_drawn(handles[p])]
    return [handles[place] for place in kept], [labels[place] for place in kept]


def _is_drawn(bars: Any) -> bool:
    return any(bar.get_width() > 0.0 for bar in bars)


def draw_luts(
    results: Sequence[Result], *, references: Sequence[tuple[str, float]] = ()
) -> "Figure":
    """Draw look-up tables, a bar a configuration.

    Parameters
    ----------
    results : sequence of Mapping
        Results for one FPGA technology.
    references : sequence of (str, float)
        Others' figures: name, look-up tables; drawn below.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not results:
        raise ValueError("results must not be empty")
    labels = [title(result) for result in results] + [name for name, _ in references]
    figure = figures.new_figure(9.5, 0.9 + 0.31 * len(labels))
    axes = figure.subplots()
    # Some units are synthesised with DSPs alone.
    luts = [next(iter(result["numbers"].values()))["luts"] for result in results]
    values = luts + [value for _, value in references]
    colours = ["#0072b2"] * len(luts) + ["#999999"] * len(references)
    _bars(axes, labels, [("LUTs", colours, (0.0, values))])
    for place, value in enumerate(values):
        axes.annotate(
            f"{value:,.0f}", (value, place), (5, 0), textcoords="offset points", va="center"
        )
    axes.set_xlim(0.0, 1.12 * max(values))
    axes.set_xlabel(f"look-up tables, {_TITLES[results[0]['technology']]}")
    return figure


def write_report(folder: Path, synthesis: Synthesis) -> list[str]:
    """Write ``synthesis.json``, ``synthesis.md`` and ``<technology>.svg``, all of them or none.

    Parameters
    ----------
    folder : Path
        Folder to write to; it is created.
    synthesis : Mapping
        What `mxsafe.synthesis.run.synthesise` returns.

    Returns
    -------
    list of str
        Names of the files written.

    Raises
    ------
    ModuleNotFoundError
        If there is no matplotlib.
    OSError
        If a file cannot be written.
    """
    files = {"synthesis.json": (json.dumps(synthesis, indent=2) + "\n").encode()}
    page = ["# Synthesis", f"By {tools_line(synthesis)}.", tables(synthesis)]
    for technology in _TITLES:
        results = [r for r in synthesis["results"] if r["technology"] == technology]
        # Where one script was run there is no pair of netlists to draw.
        results = [r for r in results if technology not in _CELLS or "timing" in r["numbers"]]
        if results:
            draw = draw_areas if technology in _CELLS else draw_luts
            files[f"{technology}.svg"] = figures.render(draw(results), ".svg")
            page.append(f"![{_TITLES[technology]}]({technology}.svg)")
    files["synthesis.md"] = ("\n\n".join(page) + "\n").encode()
    write_together(folder, files)
    return sorted(files)
