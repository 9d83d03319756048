"""Resistances and capacitances of the wires in a DEF, by those of the layers in the LEF.

A wire is as long as its centre line. Its resistance is that of its length at the layer's width, its
capacitance that of its area and its two edges, half of it at each end. A via has the resistance in
the LEF, and no capacitance. Wires and pins that touch are connected, as in the metal.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, pairwise, product
from operator import itemgetter
from typing import Literal

from mxsafe.synthesis.lef_def import (
    UNITS,
    Layer,
    Layout,
    LayoutError,
    Macro,
    Node,
    Point,
    Wires,
)

Box = tuple[int, int, int, int]  # left, lower, right and upper edge
_CONTACT = 0.001
"""Resistance between a pin and a wire that touches it, ohm."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Resistors and capacitors of a net; its nodes have numbers.

    Attributes
    ----------
    nodes : collection of int
    resistors : sequence of tuple
        Both nodes and ohms.
    capacitances : Mapping
        fF by node.
    pins : Mapping
        Node of each pin that a wire touches.
    lengths : Mapping
        Micrometres of wire by layer.
    """

    nodes: Collection[int]
    resistors: Sequence[tuple[int, int, float]]
    capacitances: Mapping[int, float]
    pins: Mapping[tuple[str, str], int]
    lengths: Mapping[str, float]

    @property
    def capacitance(self) -> float:
        """Capacitance of all wires of the net, fF."""
        return sum(self.capacitances.values())

    @property
    def parts(self) -> int:
        """Parts of the net that are not connected with each other."""
        group = _Groups()
        for one, other, _ in self.resistors:
            group.join(one, other)
        return len({group.of(node) for node in self.nodes})

    def reaches(self, pins: Sequence[tuple[str, str]]) -> bool:
        """Whether all wires are connected with each other and touch all of these pins."""
        return self.parts == 1 and all(pin in self.pins for pin in pins)


class _Groups:
    """Sets of numbers that are joined."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def of(self, number: int) -> int:
        """The number that stands for the set of another."""
        while number in self._above:
            number = self._above[number]
        return number

    def join(self, one: int, other: int) -> None:
        one, other = self.of(one), self.of(other)
        if one != other:
            self._above[max(one, other)] = min(one, other)


def _apart(one: Box, other: Box) -> bool:
    """Whether there is room between two rectangles."""
    return any(one[axis + 2] < other[axis] or other[axis + 2] < one[axis] for axis in (0, 1))


def _touches(box: Box, corners: Sequence[Point]) -> bool:
    """Whether a rectangle touches a polygon of horizontal and vertical edges, or a point."""
    edges = list(pairwise([*corners, corners[0]]))
    if any(not _apart(box, _box(*edge)) for edge in edges):
        return True
    x, y = box[:2]
    right = [edge for edge in edges if edge[0][0] > x and (edge[0][1] > y) != (edge[1][1] > y)]
    return len(right) % 2 == 1


def _wider(box: Box, room: int) -> Box:
    return box[0] - room, box[1] - room, box[2] + room, box[3] + room


def _box(one: Point, other: Point, across: int = 0, up: int = 0) -> Box:
    """The rectangle around two points, and so much around them."""
    (left, right), (bottom, top) = (sorted(values) for values in zip(one, other, strict=True))
    return left - across, bottom - up, right + across, top + up


def _nodes(layout: Layout, wires: Wires, known: Mapping[str, Layer]) -> dict[Node, Box]:
    """Ends of wires and vias, with their metal."""
    nodes: dict[Node, Box] = {}
    for node in chain.from_iterable(wires.segments):
        half = known[node[0]].width // 2
        nodes[node] = _box(node[1:], node[1:], half, half)
    for low, high, name in wires.vias:
        if name not in layout.pads:
            raise LayoutError(f"the DEF must say how large {name} is")
        for node in (low, high):
            nodes[node] = _box(node[1:], node[1:], *layout.pads[name][node[0]])
    return nodes


def _shapes(
    layout: Layout, macros: Mapping[str, Macro], cell: str, pin: str
) -> Iterator[tuple[str, Sequence[Point]]]:
    """Layers and polygons of a pin, where it is."""
    if cell == "PIN":
        place = layout.pins[pin]
        yield place.kind, [(place.x, place.y)]
        return
    place = layout.cells[cell]
    for layer, corners in macros[place.kind].pins[pin]:
        yield layer, place.on_chip(corners, macros[place.kind])


def extract(
    layout: Layout,
    net: str,
    macros: Mapping[str, Macro],
    layers: Sequence[Layer],
    *,
    across_gaps: bool = False,
) -> Network:
    """Resistors and capacitors of a net.

    Parameters
    ----------
    layout : Layout
        With wires.
    net : str
    macros : Mapping
        Cells of the LEF.
    layers : sequence of Layer
        All that have wires.
    across_gaps : bool
        Whether metal that is nearer than a wire is wide counts as touching. qrouter leaves such
        gaps between vias beside the tracks; nothing else has room in them.
    """
    known = {layer.name: layer for layer in layers}
    wires = layout.wires.get(net, Wires())
    nodes = _nodes(layout, wires, known)
    number = {node: index for index, node in enumerate(nodes)}
    groups = _Groups()
    for one, other in combinations(nodes, 2):
        room = known[one[0]].width - 1 if across_gaps else 0
        if one[0] == other[0] and not _apart(_wider(nodes[one], room), nodes[other]):
            groups.join(number[one], number[other])
    touched: dict[tuple[str, str], int] = {}
    for pin in layout.nets[net]:
        for layer, corners in _shapes(layout, macros, *pin):
            for node, box in nodes.items():
                if node[0] == layer and _touches(box, corners):
                    groups.join(number[node], touched.setdefault(pin, number[node]))
    capacitances: dict[int, float] = {}
    lengths: dict[str, float] = {}
    resistors = []
    for wire in wires.segments:
        metal = known[wire[0][0]]
        for start, stop in pairwise(_along(*wire, nodes, metal.width // 2)):
            part = max(abs(stop[1] - start[1]), abs(stop[2] - start[2])) / UNITS
            lengths[metal.name] = lengths.get(metal.name, 0.0) + part
            places = groups.of(number[start]), groups.of(number[stop])
            for place in places:
                half = part * metal.femtofarads / 2
                capacitances[place] = capacitances.get(place, 0.0) + half
            if places[0] != places[1]:
                resistors.append((*places, part * metal.ohms))
    for low, high, _ in wires.vias:
        places = groups.of(number[low]), groups.of(number[high])
        resistors.append((*places, known[low[0]].via_resistance))
    return Network(
        nodes={groups.of(index) for index in number.values()},
        resistors=resistors,
        capacitances=capacitances,
        pins={pin: groups.of(index) for pin, index in touched.items()},
        lengths=lengths,
    )


def _along(start: Node, end: Node, nodes: Mapping[Node, Box], half: int) -> list[Node]:
    """Both ends of a wire and what touches it between them, in order."""
    axis: Literal[1, 2] = 1 if start[1] != end[1] else 2
    wire = _box(start[1:], end[1:], half, half)
    low, high = sorted((start[axis], end[axis]))
    between = [
        node
        for node, box in nodes.items()
        if node[0] == start[0] and low < node[axis] < high and not _apart(wire, box)
    ]
    return sorted({start, *between, end}, key=itemgetter(axis))


_CELL = 4000
"""Edge of the squares in which metal is compared, database units."""


def near_nets(
    layout: Layout, layers: Sequence[Layer], *, touching: bool
) -> set[tuple[str, str, str]]:
    """Layer and names of two nets whose wires touch, or are nearer than the layer's spacing.

    Parameters
    ----------
    layout : Layout
        With wires; pins of cells are not compared.
    layers : sequence of Layer
    touching : bool
        Whether only those that touch are meant.
    """
    known = {layer.name: layer for layer in layers}
    found: set[tuple[str, str, str]] = set()
    squares: dict[tuple[str, int, int], list[tuple[Box, str]]] = {}
    for net, wires in layout.wires.items():
        for layer, box in _metal(layout, wires, known):
            room = 0 if touching else known[layer].spacing - 1
            left, low, right, high = wide = _wider(box, room)
            for x, y in product(
                range(left // _CELL, right // _CELL + 1), range(low // _CELL, high // _CELL + 1)
            ):
                others = squares.setdefault((layer, x, y), [])
                found.update(
                    (layer, other, net)
                    for there, other in others
                    if other != net and not _apart(wide, there)
                )
                others.append((box, net))
    return found


def _metal(layout: Layout, wires: Wires, known: Mapping[str, Layer]) -> Iterator[tuple[str, Box]]:
    """Layer and rectangle of each wire and of each end of a via."""
    for start, end in wires.segments:
        half = known[start[0]].width // 2
        yield start[0], _box(start[1:], end[1:], half, half)
    for (layer, *_), box in _nodes(layout, Wires(vias=wires.vias), known).items():
        yield layer, box


_HEAD = """\
*SPEF "IEEE 1481-1998"
*DESIGN "{top}"
*DATE ""
*VENDOR ""
*PROGRAM "mxsafe"
*VERSION ""
*DESIGN_FLOW "NETLIST_TYPE_VERILOG"
*DIVIDER /
*DELIMITER :
*BUS_DELIMITER [ ]
*T_UNIT 1 NS
*C_UNIT 1 FF
*R_UNIT 1 OHM
*L_UNIT 1 HENRY
*NAME_MAP
"""


def write_spef(
    layout: Layout, networks: Mapping[str, Network], directions: Mapping[str, str]
) -> str:
    """Wires in the Standard Parasitic Exchange Format.

    Parameters
    ----------
    layout : Layout
    networks : Mapping
        By net.
    directions : Mapping
        Of each pin of the whole, ``I`` or ``O``.
    """
    ports = set(layout.pins)
    # Names that Verilog has to escape have brackets and points that are no part of a bus.
    names = {net: net if net in ports else re.sub(r"\W", r"\\\g<0>", net) for net in networks}
    numbers = {net: f"*{number}" for number, net in enumerate(networks, 1)}
    lines = [f"{numbers[net]} {name}" for net, name in names.items()]
    for net, network in networks.items():
        at = numbers[net]
        lines += [f"*D_NET {at} {network.capacitance:.5f}", "*CONN"]
        places = {}
        for (cell, pin), node in network.pins.items():
            if cell == "PIN":
                places[pin] = node
                lines.append(f"*P {pin} {directions[pin]}")
            else:
                name = f"{re.sub(r'[^A-Za-z0-9_]', lambda sign: chr(92) + sign[0], cell)}:{pin}"
                places[name] = node
                lines.append(f"*I {name} B")
        lines.append("*CAP")
        capacitors = network.capacitances.items()
        lines += [f"{i} {at}:{node} {size:.5f}" for i, (node, size) in enumerate(capacitors, 1)]
        lines.append("*RES")
        # A pin is a node of its own, next to that of the wire.
        ends = [(f"{at}:{a}", f"{at}:{b}", ohms) for a, b, ohms in network.resistors]
        ends += [(name, f"{at}:{node}", _CONTACT) for name, node in places.items()]
        lines += [f"{i} {a} {b} {ohms:.5f}" for i, (a, b, ohms) in enumerate(ends, 1)]
        lines.append("*END")
    return _HEAD.format(top=layout.top) + "\n".join([*lines, ""])


def read_loads(spef: str) -> dict[str, float]:
    """Capacitances of nets by their names without backslashes, fF, of what `write_spef` writes."""
    names = dict(re.findall(r"^(\*\d+) (\S+)$", spef, re.MULTILINE))
    return {
        names[net].replace("\\", ""): float(load)
        for net, load in re.findall(r"^\*D_NET (\*\d+) (\S+)$", spef, re.MULTILINE)
    }
