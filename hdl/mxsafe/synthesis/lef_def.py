"""Reading and writing of LEF and DEF, as far as place and route of standard cells takes them.

Lengths are in database units, `UNITS` a micrometre, so that they are integers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mxsafe.synthesis.technologies import SynthesisError

UNITS = 2000
"""Database units of a micrometre, in the LEF of NanGate 45 nm and in our DEF."""
Point = tuple[int, int]
Node = tuple[str, int, int]  # layer and place of a point of a wire


class LayoutError(SynthesisError):
    """A LEF or DEF is not understood, or a layout is not what its netlist says."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A routing layer.

    Attributes
    ----------
    name : str
    horizontal : bool
        Its preferred direction.
    pitch, width, spacing : int
        Between tracks, of a wire, and least between wires of two nets.
    resistance : float
        Ohm a square.
    area_capacitance, edge_capacitance : float
        To what is below, fF a square micrometre, and a micrometre of each edge.
    via_resistance : float
        Of a via to the layer above, ohm.
    """

    name: str
    horizontal: bool
    pitch: int
    width: int
    spacing: int
    resistance: float
    area_capacitance: float
    edge_capacitance: float
    via_resistance: float

    @property
    def ohms(self) -> float:
        """Resistance of a micrometre of a wire, ohm."""
        return self.resistance * UNITS / self.width

    @property
    def femtofarads(self) -> float:
        """Capacitance of a micrometre of a wire, fF: its area's and both edges'."""
        return self.area_capacitance * self.width / UNITS + 2 * self.edge_capacitance


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A cell.

    Attributes
    ----------
    width, height : int
    pins : Mapping
        By name the corners of each of its polygons, and their layers.
    """

    width: int
    height: int
    pins: Mapping[str, Sequence[tuple[str, tuple[Point, ...]]]]


def _found(pattern: str, text: str, what: str, file: str = "LEF") -> re.Match[str]:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise LayoutError(f"the {file} has no {what}")
    return found


def _units(text: str) -> int:
    return round(float(text) * UNITS)


# Of narrow wires: the only one, or the first of a table.
_SPACING = r"(?:^  SPACING|^\s+WIDTH 0\.0+) +([\d.]+) "


def read_layers(lef: str, count: int) -> list[Layer]:
    """The lowest routing layers of a technology LEF.

    Raises
    ------
    LayoutError
        If it has other units, fewer layers, or a layer lacks something.
    """
    _found(rf"^\s*DATABASE MICRONS {UNITS} ;", lef, f"DATABASE MICRONS {UNITS}")
    parts = [
        (name, text, re.search(r"^  TYPE (\w+) ;", text, re.MULTILINE))
        for name, text in re.findall(r"^LAYER (\w+)$(.*?)^END \1$", lef, re.MULTILINE | re.DOTALL)
    ]
    vias = [text for _, text, kind in parts if kind and kind[1] == "CUT"]
    layers: list[Layer] = []
    for name, text, kind in parts:
        if kind is None or kind[1] != "ROUTING":
            continue

        def number(key: str, name: str = name, text: str = text) -> float:
            return float(_found(rf"^  {key} ([\d.e+-]+) ;", text, f"{key} of {name}")[1])

        above = vias[len(layers)] if len(layers) < len(vias) else "  RESISTANCE 0 ;"
        layers.append(
            Layer(
                name=name,
                horizontal="DIRECTION HORIZONTAL" in text,
                pitch=round(UNITS * number("PITCH")),
                width=round(UNITS * number("WIDTH")),
                spacing=_units(_found(_SPACING, text, f"spacing of {name}")[1]),
                resistance=number("RESISTANCE RPERSQ"),
                area_capacitance=1000 * number("CAPACITANCE CPERSQDIST"),
                edge_capacitance=1000 * number("EDGECAPACITANCE"),
                via_resistance=number("RESISTANCE", text=above),
            )
        )
    if len(layers) < count:
        raise LayoutError(f"the LEF must have {count} routing layers, not {len(layers)}")
    return layers[:count]


def read_cells(lef: str) -> dict[str, Macro]:
    """Cells of a LEF by name."""
    macros = {}
    for name, text in re.findall(r"^MACRO (\w+)$(.*?)^END \1$", lef, re.MULTILINE | re.DOTALL):
        size = _found(r"^  SIZE (\S+) BY (\S+) ;", text, f"SIZE of {name}")
        pins = {
            pin: list(_polygons(body))
            for pin, body in re.findall(r"^  PIN (\w+)$(.*?)^  END \1$", text, re.M | re.S)
        }
        macros[name] = Macro(width=_units(size[1]), height=_units(size[2]), pins=pins)
    return macros


def _polygons(pin: str) -> Iterator[tuple[str, tuple[Point, ...]]]:
    layer = ""
    for kind, rest in re.findall(r"^\s+(LAYER|POLYGON|RECT) (.*?)\s*;", pin, re.MULTILINE):
        if kind == "LAYER":
            layer = rest
            continue
        numbers = [_units(word) for word in rest.split()]
        if kind == "RECT":
            left, bottom, right, top = numbers
            numbers = [left, bottom, right, bottom, right, top, left, top]
        yield layer, tuple(zip(numbers[::2], numbers[1::2], strict=True))


@dataclass(frozen=True)
class Placed:
    """A cell or a pin of the whole at its place.

    Attributes
    ----------
    kind : str
        Cell in the LEF, or layer of a pin.
    x, y : int
        Lower left corner, or centre of a pin.
    orientation : str
        ``N``, ``S``, ``FN`` or ``FS``.
    """

    kind: str
    x: int
    y: int
    orientation: str = "N"

    def on_chip(self, corners: Sequence[Point], macro: Macro) -> list[Point]:
        """Corners of a cell, or of a part of it, where it is placed."""
        mirrored = self.orientation in ("FN", "S")
        upside_down = self.orientation in ("FS", "S")
        return [
            (
                self.x + (macro.width - x if mirrored else x),
                self.y + (macro.height - y if upside_down else y),
            )
            for x, y in corners
        ]


@dataclass
class Wires:
    """Wires of a net.

    Attributes
    ----------
    segments : list of tuple
        Both ends of each wire.
    vias : list of tuple
        Ends of each via, on a layer and on the next, and its name.
    """

    segments: list[tuple[Node, Node]] = field(default_factory=list)
    vias: list[tuple[Node, Node, str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Content of a DEF.

    Attributes
    ----------
    top : str
    width, height : int
        Of the die, whose lower left corner is at the origin.
    cells, pins : Mapping
        By name.
    nets : Mapping
        By name the pins: name of a cell and of its pin, or ``PIN`` and that of a pin of the whole.
    wires : Mapping
        By name of a net that is routed.
    pads : Mapping
        By name of a via and layer, how far its metal reaches to both sides, and up and down.
    """

    top: str
    width: int
    height: int
    cells: Mapping[str, Placed]
    pins: Mapping[str, Placed]
    nets: Mapping[str, Sequence[tuple[str, str]]]
    wires: Mapping[str, Wires] = field(default_factory=dict)
    pads: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)


def write_def(layout: Layout, layers: Sequence[Layer]) -> str:
    """A DEF without wires; tracks are half a pitch off the die's lower left corner.

    Higher layers have a track at every so many of the lowest two with the same direction.
    """
    lines = [
        "VERSION 5.6 ;",
        "NAMESCASESENSITIVE ON ;",
        'DIVIDERCHAR "/" ;',
        'BUSBITCHARS "[]" ;',
        f"DESIGN {layout.top} ;",
        f"UNITS DISTANCE MICRONS {UNITS} ;",
        f"DIEAREA ( 0 0 ) ( {layout.width} {layout.height} ) ;",
    ]
    for layer in layers:
        base = next(one.pitch for one in layers if one.horizontal == layer.horizontal)
        step = -(-layer.pitch // base) * base
        length, axis = (layout.height, "Y") if layer.horizontal else (layout.width, "X")
        count = (length - base // 2) // step + 1
        lines.append(f"TRACKS {axis} {base // 2} DO {count} STEP {step} LAYER {layer.name} ;")
    lines.append(f"COMPONENTS {len(layout.cells)} ;")
    for name, cell in layout.cells.items():
        lines.append(f"- {name} {cell.kind} + PLACED ( {cell.x} {cell.y} ) {cell.orientation} ;")
    lines += ["END COMPONENTS", f"PINS {len(layout.pins)} ;"]
    nets = {pin: net for net, pins in layout.nets.items() for cell, pin in pins if cell == "PIN"}
    for name, pin in layout.pins.items():
        half = next(layer.width for layer in layers if layer.name == pin.kind) // 2
        box = f"( {-half} {-half} ) ( {half} {half} )"
        lines.append(f"- {name} + NET {nets[name]} + LAYER {pin.kind} {box}")
        lines.append(f"  + PLACED ( {pin.x} {pin.y} ) N ;")
    lines += ["END PINS", f"NETS {len(layout.nets)} ;"]
    for name, ends in layout.nets.items():
        # qrouter adds wires where a line with a semicolon alone ends a net.
        lines += [f"- {name}", *(f"  ( {cell} {pin} )" for cell, pin in ends), ";"]
    return "\n".join([*lines, "END NETS", "END DESIGN", ""])


_PLACE = r"\+ (?:PLACED|FIXED) \( (-?\d+) (-?\d+) \) (\w+)"


def read_def(text: str) -> Layout:
    """A DEF like those of `write_def`, perhaps with wires as qrouter adds them.

    Raises
    ------
    LayoutError
        If something is missing or not understood.
    """
    top = _found(r"^DESIGN (\S+) ;", text, "DESIGN", "DEF")[1]
    area = _found(r"^DIEAREA \( (\S+) (\S+) \) \( (\S+) (\S+) \) ;", text, "DIEAREA", "DEF")
    cells = {
        name: Placed(kind, int(x), int(y), orientation)
        for name, kind, x, y, orientation in re.findall(
            rf"^\s*- (\S+) (\S+)\s+{_PLACE} ;", _section(text, "COMPONENTS"), re.MULTILINE
        )
    }
    pins = {
        name: Placed(layer, int(x), int(y), orientation)
        for name, layer, x, y, orientation in re.findall(
            rf"^\s*- (\S+) \+ NET \S+[^;]*?\+ LAYER (\w+)[^;]*?{_PLACE} ;",
            _section(text, "PINS"),
            re.MULTILINE,
        )
    }
    nets: dict[str, list[tuple[str, str]]] = {}
    wires = {}
    for name, body in re.findall(r"^\s*- (\S+)([^;]*);", _section(text, "NETS"), re.MULTILINE):
        ends, *routed = body.split("+ ROUTED")
        nets[name] = re.findall(r"\( (\S+) (\S+) \)", ends)
        if routed:
            wires[name] = _read_wires(routed[0].split("+ ")[0])
    pads = {
        via: {layer: (int(x), int(y)) for layer, x, y in _PAD.findall(body)}
        for via, body in re.findall(r"^- (\S+)([^;]*);", _section(text, "VIAS"), re.MULTILINE)
    }
    return Layout(
        top=top,
        width=int(area[3]),
        height=int(area[4]),
        cells=cells,
        pins=pins,
        nets=nets,
        wires=wires,
        pads=pads,
    )


def _section(text: str, name: str) -> str:
    """A section of a DEF; nothing where there is none."""
    found = re.search(rf"^{name} \d+ ;((?s:.*?))^END {name}$", text, re.MULTILINE)
    return found[1] if found else ""


_PAD = re.compile(r"\+ RECT (metal\d+) \( \S+ \S+ \) \( (\S+) (\S+) \)")


_STEP = re.compile(r"\( (\S+) (\S+) (?:\d+ )?\)|([A-Za-z]\S*)")
_VIA = re.compile(r"via(\d+)(?:array)?[-_]", re.IGNORECASE)


def _read_wires(text: str) -> Wires:
    """Wires of routes such as ``metal2 ( 0 0 ) ( * 190 ) via2_8 NEW metal3 ...``."""
    wires = Wires()
    for route in re.split(r"\bNEW\b", text):
        layer, _, path = route.strip().partition(" ")
        last: Node | None = None
        for x, y, via in _STEP.findall(path):
            if via:
                last = _end_of_via(via, last, wires)
                continue
            if last is None:
                last = (layer, int(x), int(y))
                continue
            place = (last[0], last[1] if x == "*" else int(x), last[2] if y == "*" else int(y))
            if place[1] != last[1] and place[2] != last[2]:
                raise LayoutError(f"wires must be horizontal or vertical, not {last} to {place}")
            if place != last:
                wires.segments.append((last, place))
            last = place
    return wires


def _end_of_via(name: str, start: Node | None, wires: Wires) -> Node:
    """The other end of a via, which is added."""
    found = _VIA.match(name)
    if found is None or start is None:
        raise LayoutError(f"{name} must be a via behind a point")
    ends = [(f"metal{int(found[1]) + above}", *start[1:]) for above in (0, 1)]
    if start not in ends:
        raise LayoutError(f"{name} must start on a layer that it connects, not on {start[0]}")
    wires.vias.append((ends[0], ends[1], name))
    return ends[1] if start == ends[0] else ends[0]
