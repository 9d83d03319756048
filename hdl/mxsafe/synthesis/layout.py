"""Placement and routing of netlists of NanGate 45 nm cells, and what their wires add.

graywolf places the cells in rows, qrouter routes them on the lowest metals. All that is between is
done here: a DEF is written from the placement, and from that with wires resistances and
capacitances by the LEF, for OpenSTA. Every net is traced through its wires and vias: one that does
not reach all its pins is counted as failed, whatever the router says.

Nets whose wires touch or are nearer than the LEF allows are counted, too.

What is not there: a power grid, filler and tap cells, a clock tree, antenna diodes, and further
rules of the process. The LEF has capacitances to what is below a wire alone. Those among other
wires are taken from the library's own model of wires, which has one for all layers.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from mxsafe.synthesis import gates, lef_def, liberty, parasitics
from mxsafe.synthesis.lef_def import (
    UNITS,
    Layer,
    Layout,
    LayoutError,
    Macro,
    Placed,
    read_cells,
    read_def,
    read_layers,
    write_def,
)
from mxsafe.synthesis.liberty import read_cells as read_library
from mxsafe.synthesis.parasitics import extract, near_nets, write_spef
from mxsafe.synthesis.technologies import (
    LOAD_FF,
    Design,
    Nangate45,
    Numbers,
    Recipe,
    Step,
    SynthesisError,
    read_timing,
    timing_script,
)
from mxsafe.verilog.constraints import SUFFIX, constraints

LAYERS = 6
"""Metals that wires are on."""
DEF = "routed.def"
"""File with cells and wires."""
KINDS = ("none", "alone", "dense")
"""Wires that are timed: none, alone above what is below them, and among others.

``<kind>.spef`` has their resistances and capacitances, ``<kind>.sta`` the longest path.
"""


def _ports(widths: Mapping[str, int]) -> list[str]:
    return [
        f"{name}[{bit}]" if width > 1 else name
        for name, width in widths.items()
        for bit in range(width)
    ]


def connections(
    instances: Sequence[gates.Instance], ports: Iterable[str]
) -> dict[str, list[tuple[str, str]]]:
    """Pins of each net: name of a cell and of its pin, or ``PIN`` and that of a port.

    Constants and nets with one pin have no wires. Names have no backslash.
    """
    nets: dict[str, list[tuple[str, str]]] = {port: [("PIN", port)] for port in ports}
    for instance in instances:
        for pin, net in instance.pins.items():
            if net and not net.startswith("1'"):
                ends = nets.setdefault(net.lstrip("\\"), [])
                ends.append((instance.name.lstrip("\\"), pin))
    return {net: ends for net, ends in nets.items() if len(ends) > 1}


def placement_input(
    cells: Mapping[str, str],
    nets: Mapping[str, Sequence[tuple[str, str]]],
    macros: Mapping[str, Macro],
    layers: Sequence[Layer],
) -> str:
    """Cells and pins of the whole for graywolf, ``c`` and ``p`` with their numbers.

    Parameters
    ----------
    cells : Mapping
        Kind by name.
    nets : Mapping
        As `connections` returns them.
    macros : Mapping
        By kind.
    layers : sequence of Layer
    """
    of_pin = {end: number for number, ends in enumerate(nets.values()) for end in ends}
    column, row = layers[1].pitch, layers[0].pitch
    lines = []
    for number, (name, kind) in enumerate(cells.items()):
        macro = macros[kind]
        left, bottom = -(macro.width // 2), -(macro.height // 2)
        right, top = left + macro.width, bottom + macro.height
        lines += [
            f"cell {number} c{number}",
            f"left {left} right {right} bottom {bottom} top {top}",
        ]
        for feed, x in enumerate(range(left + column // 2, right, column), 1):
            lines.append(f"pin name twfeed{feed} signal TW_PASS_THRU layer 1 {x} {bottom}")
            lines.append(f"   equiv name twfeed{feed} layer 1 {x} {top}")
        for pin, shapes in macro.pins.items():
            if (name, pin) in of_pin:
                (_, corners), *_ = shapes
                x, y = ((min(values) + max(values)) // 2 for values in zip(*corners, strict=True))
                net = of_pin[name, pin]
                lines.append(f"pin name {pin} signal n{net} layer 1 {x + left} {y + bottom}")
    pins = [end for end in of_pin if end[0] == "PIN"]
    for number, end in enumerate(pins):
        x, y = column // 2, row // 2
        lines += [
            f"pad {number + 1} name twpin_p{number}",
            f"corners 4 {-x} {-y} {-x} {y} {x} {y} {x} {-y}",
            f"pin name p{number} signal n{of_pin[end]} layer 1 0 0",
        ]
    return "\n".join([*lines, ""])


def placement_parameters(layers: Sequence[Layer]) -> str:
    """Parameters of graywolf for these layers."""
    rules = []
    for layer in layers:
        way = "horizontal" if layer.horizontal else "vertical"
        rules.append(f"layer {layer.name} {layer.resistance} {layer.area_capacitance} {way}")
    for low, high in pairwise(layers):
        rules.append(f"via via_{low.name} {low.name} {high.name}")
    for layer in layers:
        rules.append(f"width {layer.name} {layer.width}")
    for low in layers[:-1]:
        rules.append(f"width via_{low.name} {low.width}")
    for layer in layers:
        rules.append(f"spacing {layer.name} {layer.name} {layer.pitch - layer.width}")
    for low, high in pairwise(layers[:-1]):
        rules.append(f"spacing via_{low.name} via_{high.name} 0")
    column, row = layers[1].pitch, layers[0].pitch
    text = "\n".join(f"    {rule}" for rule in rules)
    return f"""\
RULES
{text}
ENDRULES
*vertical_wire_weight : 1.0
*vertical_path_weight : 1.0
*padspacing           : variable
*rowSep               : 0.0 0
*track.pitch          : {column}
*minimum_pad_space    : {column}
*gridX                : {column}
*gridY                : {row}
*gridOffsetX          : 0
*gridOffsetY          : 0
*graphics.wait        : off
*last_chance.wait     : off
*random.seed          : 12345
TWMC*chip.aspect.ratio : 0.75
TWSC*feedThruWidth    : {column} layer 1
TWSC*do.global.route  : on
TWSC*ignore_feeds     : true
TWSC*call_row_evener  : true
TWSC*even_rows_maximally : true
GENR*row_to_tile_spacing: 1
GENR*flip_alternate_rows : 1
"""


_ORIENTATIONS = ("N", "FS", "FN", "S")
_MARGIN = (10, 10)
"""Columns and rows of tracks around the cells, for wires to the pins of the whole."""
_SIDES = {-1: "left", -2: "right", -3: "bottom", -4: "top"}


def placed(
    positions: str,
    top: str,
    cells: Mapping[str, str],
    nets: Mapping[str, Sequence[tuple[str, str]]],
    layers: Sequence[Layer],
) -> Layout:
    """The layout that graywolf has found, moved so that cells are on tracks.

    Parameters
    ----------
    positions : str
        What graywolf wrote: name, corners, orientation and row of each cell and pin.
    top : str
    cells, nets : Mapping
        As for `placement_input`.
    layers : sequence of Layer

    Raises
    ------
    LayoutError
        If a cell or pin has no place, or one that is not on the tracks.
    """
    column, row = layers[1].pitch, layers[0].pitch
    found: dict[str, list[int]] = {}
    for line in positions.splitlines():
        name, *numbers = line.split()
        found[name] = [int(number) for number in numbers]
    missing = [name for number, name in enumerate(cells) if f"c{number}" not in found]
    if missing:
        raise LayoutError(f"graywolf gave {missing[0]} no place")
    boxes = [place for name, place in found.items() if name.startswith("c")]
    left, bottom = min(box[0] for box in boxes), min(box[1] for box in boxes)
    across, up = _MARGIN[0] * column, _MARGIN[1] * row
    at = {}
    for number, (name, kind) in enumerate(cells.items()):
        x, y, *_, orientation, _ = found[f"c{number}"]
        if (x - left) % column or (y - bottom) % row:
            raise LayoutError(f"graywolf put {name} beside the tracks, at {x}, {y}")
        at[name] = Placed(kind, x - left + across, y - bottom + up, _ORIENTATIONS[orientation])
    width = max(box[2] for box in boxes) - left + 2 * across
    height = max(box[3] for box in boxes) - bottom + 2 * up
    pins: dict[str, Placed] = {}
    taken: set[tuple[int, int]] = set()
    ports = [pin for ends in nets.values() for cell, pin in ends if cell == "PIN"]
    for number, port in enumerate(ports):
        x, y, *_, side = found[f"twpin_p{number}"]
        vertical = _SIDES[side] in ("bottom", "top")
        pitch, length = (column, width) if vertical else (row, height)
        wanted = x - left + across if vertical else y - bottom + up
        # Every other track of the edge may have a pin; the next free one, first upwards.
        tracks = range(pitch // 2, length - pitch, 2 * pitch)
        near = sorted(tracks, key=lambda track: abs(track - wanted))
        along = next(track for track in near if (side, track) not in taken)
        taken.add((side, along))
        edge = {
            "left": (column // 2, along),
            "right": (width - column // 2, along),
            "bottom": (along, row // 2),
            "top": (along, height - row // 2),
        }
        pins[port] = Placed(layers[1 if vertical else 2].name, *edge[_SIDES[side]])
    return Layout(top=top, width=width, height=height, cells=at, pins=pins, nets=nets)


_ROUTE = f"""\
verbose 1
read_lef rtk-tech.lef
read_lef stdcells.lef
catch {{layers {LAYERS}}}
via stack all
vdd VDD
gnd VSS
read_def placed.def
qrouter::standard_route {DEF} false
quit
"""
_PROGRAMS = {"graywolf": "placement", "qrouter": "routing"}
_FILES = ("rtk-tech.lef", "stdcells.lef", "stdcells.lib")


class PlaceAndRoute:
    """Placement and routing of one netlist: a job like those of the technologies.

    Parameters
    ----------
    netlist : str
        Mapped to NanGate 45 nm, flat.
    """

    name = "layout"

    def __init__(self, netlist: str) -> None:
        self._netlist = netlist

    @staticmethod
    def check() -> None:
        """Raise SynthesisError if something is not installed; the message says what to install."""
        for program, use in _PROGRAMS.items():
            if shutil.which(program) is None:
                raise SynthesisError(
                    f"layout needs the program {program} for {use}: "
                    f"install the Debian package {program}"
                )

    @staticmethod
    def versions() -> dict[str, str]:
        """Versions of what the layout depends on beside the tools of synthesis."""
        found = {}
        for program in _PROGRAMS:
            asked = ["dpkg-query", "--show", "--showformat", "${Version}", program]
            run = subprocess.run(asked, capture_output=True, text=True, check=False)
            found[program] = run.stdout.strip()
        for name, path in layout_files().items():
            found[f"{name}_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def recipe(self, design: Design) -> Recipe:
        """Return the recipe for a design.

        Raises
        ------
        ValueError
            If the design has parts that are no cells of its netlist.
        """
        if design.kept or design.memories:
            part = (*design.kept, *design.memories)[0]
            raise ValueError(f"{design.top} must be flat and without memories, not have {part}")
        modules = (gates, lef_def, liberty, parasitics, sys.modules[__name__])
        code = b"".join(Path(str(module.__file__)).read_bytes() for module in modules)
        own = ("-m", "mxsafe.synthesis.layout")
        directions = dict.fromkeys(_ports({"clk": 1, "rst": 1, **design.inputs}), "I")
        directions |= dict.fromkeys(_ports(design.outputs), "O")
        return Recipe(
            files={
                "netlist.v": self._netlist,
                "settings.json": json.dumps({"top": design.top, "pins": directions}),
                # Numbers depend on this code too.
                "code.sha256": hashlib.sha256(code).hexdigest(),
                "route.tcl": _ROUTE,
                f"{design.top}{SUFFIX}": constraints(design.top, clocked=design.clocked),
                **{f"{kind}.tcl": timing_script(design, "netlist", wires=kind) for kind in KINDS},
            },
            copies=layout_files(),
            steps=(
                Step("python", (*own, "place")),
                Step("graywolf", ("-n", "unit")),
                Step("python", (*own, "route")),
                Step("qrouter", ("-nog", "-noc", "-s", "route.tcl")),
                Step("python", (*own, "extract")),
                *(Step("sta", ("-exit", f"{kind}.tcl")) for kind in KINDS),
            ),
            results=(
                DEF,
                "layout.json",
                *(f"{kind}.{end}" for kind in KINDS for end in ("spef", "sta")),
            ),
        )

    def read(self, design: Design, results: Mapping[str, str]) -> dict[str, Numbers]:
        """Sizes, wires by layer, loads, and the longest path with wires."""
        try:
            found: dict[str, Numbers] = json.loads(results["layout.json"])
            failed = found["wires"]["failed_nets"]
        except (ValueError, KeyError, TypeError):
            raise SynthesisError(
                f"no layout of {design.top} in: {results['layout.json'][:200]!r}"
            ) from None
        if failed:
            raise SynthesisError(f"{failed} nets of {design.top} have no wires to all their pins")
        return {**found, **{kind: read_timing(results[f"{kind}.sta"]) for kind in KINDS}}


def layout_files() -> dict[str, Path]:
    """The library and its LEFs in the installed package, by name."""
    library = Nangate45().library()
    assert library is not None
    return {name: library.with_name(name) for name in _FILES}


def _place(folder: Path) -> None:
    """Write what graywolf reads."""
    unit = _Unit(folder)
    text = placement_input(unit.cells, unit.nets, unit.macros, unit.layers)
    (folder / "unit.cel").write_text(text)
    (folder / "unit.par").write_text(placement_parameters(unit.layers))


def _route(folder: Path) -> None:
    """Write what qrouter reads."""
    unit = _Unit(folder)
    positions = folder / "unit.pl1"
    if not positions.exists():
        raise LayoutError("graywolf wrote no placement")
    layout = placed(positions.read_text(), unit.top, unit.cells, unit.nets, unit.layers)
    (folder / "placed.def").write_text(write_def(layout, unit.layers))


def _extract(folder: Path) -> None:
    """Write wires as SPEF, and numbers of the layout, after every net was traced."""
    unit = _Unit(folder)
    path = folder / DEF
    if not path.exists():
        raise LayoutError("qrouter wrote no DEF")
    layout = read_def(path.read_text())
    library = (folder / "stdcells.lib").read_text()
    whole = {
        net: extract(layout, net, unit.macros, unit.layers).reaches(pins)
        for net, pins in unit.nets.items()
    }
    extracted = {}
    for kind, layers in metals(unit.layers, library).items():
        networks = {
            net: extract(layout, net, unit.macros, layers, across_gaps=not whole[net])
            for net in unit.nets
        }
        (folder / f"{kind}.spef").write_text(write_spef(layout, networks, unit.pins))
        extracted[kind] = networks
    networks = extracted["alone"]
    failed = [net for net, pins in unit.nets.items() if not networks[net].reaches(pins)]
    print(f"{len(failed)} of {len(unit.nets)} nets do not reach all their pins", *failed)
    cells = read_library(library, set(unit.cells.values()))
    load = sum(
        LOAD_FF * (unit.pins[pin] == "O")
        if cell == "PIN"
        else cells[unit.cells[cell]].pins[pin].capacitance
        for pins in unit.nets.values()
        for cell, pin in pins
    )
    area = sum(unit.macros[kind].width * unit.macros[kind].height for kind in unit.cells.values())
    lengths = {
        layer.name: sum(network.lengths.get(layer.name, 0.0) for network in networks.values())
        for layer in unit.layers
    }
    numbers: dict[str, Numbers] = {
        "area": {
            "width_um": layout.width / UNITS,
            "height_um": layout.height / UNITS,
            "cells": len(unit.cells),
            "cells_um2": round(area / UNITS**2, 1),
            "utilisation": round(area / (layout.width * layout.height), 4),
        },
        "wires": {
            "nets": len(unit.nets),
            "failed_nets": len(failed),
            "nets_with_gaps": sum(not one for one in whole.values()) - len(failed),
            "touching_nets": len(near_nets(layout, unit.layers, touching=True)),
            "near_nets": len(near_nets(layout, unit.layers, touching=False)),
            "vias": sum(len(wires.vias) for wires in layout.wires.values()),
            "length_um": round(sum(lengths.values()), 1),
        },
        "layers": {name: round(length, 1) for name, length in lengths.items()},
        "load": {
            "pins_ff": round(load, 1),
            **{
                f"{kind}_ff": round(sum(net.capacitance for net in networks.values()), 1)
                for kind, networks in extracted.items()
            },
        },
    }
    (folder / "layout.json").write_text(json.dumps(numbers))


class _Unit:
    """What the steps read of a unit."""

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "settings.json").read_text())
        self.top, self.pins = settings["top"], settings["pins"]
        instances = gates.read_instances((folder / "netlist.v").read_text())
        self.cells = {one.name.lstrip("\\"): one.kind for one in instances}
        self.nets = connections(instances, self.pins)
        self.macros = read_cells((folder / "stdcells.lef").read_text())
        self.layers = read_layers((folder / "rtk-tech.lef").read_text(), LAYERS)


def metals(layers: Sequence[Layer], library: str) -> dict[str, list[Layer]]:
    """The layers for each of `KINDS`, with the text of the library.

    Raises
    ------
    LayoutError
        If the library has no default model of wires.
    """
    nothing = {"area_capacitance": 0.0, "edge_capacitance": 0.0}
    changes: Mapping[str, Mapping[str, Any]] = {
        "none": {**nothing, "resistance": 0.0, "via_resistance": 0.0},
        "alone": {},
        "dense": {**nothing, "edge_capacitance": wire_capacitance(library) / 2},
    }
    return {kind: [replace(layer, **changes[kind]) for layer in layers] for kind in KINDS}


def wire_capacitance(library: str) -> float:
    """Capacitance of a micrometre of wire in the library's default model of wires, fF.

    Raises
    ------
    LayoutError
        If the library has none.
    """
    name = re.search(r'default_wire_load\s*:\s*"(\w+)"', library)
    model = name and re.search(
        rf'wire_load\s*\("{name[1]}"\)\s*{{\s*capacitance\s*:\s*([\d.e+-]+)', library
    )
    if not model:
        raise LayoutError("the library must have a default model of wires")
    return float(model[1])


def main(step: str) -> None:
    """Take a step of the recipe in the folder that is the current one."""
    try:
        {"place": _place, "route": _route, "extract": _extract}[step](Path())
    except (SynthesisError, ValueError) as error:
        sys.exit(f"layout: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
