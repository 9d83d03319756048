"""Copies of cells with many sinks, in a netlist of one module that Yosys wrote as JSON.

Yosys makes one flip-flop of all that are equal: one flag of a sequencer then drives hundreds of
cells, even in several sub-matrix units, and has to cross the device to them in one cycle. Here
such a cell becomes several, each for those cells that stand next to each other in the hierarchy,
whose names flattening has kept. Logic stays behind the cell itself. Bits and cycles stay as they
are.

    python -m mxsafe.synthesis.copies NETLIST.json RESULT.json COPIES.json SINKS CELL.OUTPUT...
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

from mxsafe.synthesis.netlist_json import in_order, read_netlist, write_json

_ROUNDS = 3
"""A cell in a loop can have more sinks again, once what it drives is copied."""
_LOGIC = frozenset({"LUT4", "CCU2C", "PFUMX", "L6MUX21"})
_Sink = tuple[str, str, int]
"""The name of a cell, a pin of it, and the bit of the pin."""


def copy_cells(module: dict[str, Any], outputs: Mapping[str, str], sinks: int) -> Counter[str]:
    """Let no cell of some types drive more than some pins that are not logic.

    What a cell drives is copied before the cell itself, which then drives all of the copies.

    Parameters
    ----------
    module : dict
        A flat module of Yosys' JSON; changed.
    outputs : Mapping
        The output of each type of cells that may be copied.
    sinks : int
        Most pins of registers, memories and DSP blocks on such an output.

    Returns
    -------
    Counter
        Cells added, by type.
    """
    cells = module["cells"]
    used = (bit for net in module["netnames"].values() for bit in net["bits"])
    free = count(1 + max((bit for bit in used if isinstance(bit, int)), default=1))
    added: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        drivers = {
            cell["connections"][outputs[cell["type"]]][0]: name
            for name, cell in cells.items()
            if cell["type"] in outputs
        }
        driven = _sinks(cells, drivers)
        for bit in _from_the_end(drivers, driven):
            # Logic behind a copy would be drawn to the place of the copy's own sinks, and back.
            pins = sorted(
                (pin for pin in driven[bit] if cells[pin[0]]["type"] not in _LOGIC), key=_place
            )
            stay = len(driven[bit]) - len(pins)
            parts = -(-len(pins) // sinks)
            # The cell itself keeps a part of them if its logic leaves room for that.
            begin = 0 if stay and stay + -(-len(pins) // max(parts, 1)) > sinks else 1
            for part in range(begin, parts):
                copied = deepcopy(cells[drivers[bit]])
                name = f"{drivers[bit]}$copy${len(cells)}"
                cells[name], output = copied, next(free)
                copied["connections"][outputs[copied["type"]]] = [output]
                added[copied["type"]] += 1
                own = pins[part * len(pins) // parts : (part + 1) * len(pins) // parts]
                for cell, pin, position in own:
                    cells[cell]["connections"][pin][position] = output
                for pin, position, source in _inputs(copied):
                    if source in driven:
                        driven[source].append((name, pin, position))
    return added


def _inputs(cell: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """Each bit of each input, and what drives it."""
    for pin, bits in cell["connections"].items():
        if cell["port_directions"][pin] == "input":
            for position, bit in enumerate(bits):
                yield pin, position, bit


def _sinks(cells: Mapping[str, Any], drivers: Mapping[int, str]) -> dict[int, list[_Sink]]:
    """The pins that each of some nets drives."""
    found: dict[int, list[_Sink]] = {bit: [] for bit in drivers}
    for name, cell in cells.items():
        for pin, position, bit in _inputs(cell):
            if bit in found:
                found[bit].append((name, pin, position))
    return found


def _from_the_end(
    drivers: Mapping[int, str], driven: Mapping[int, Sequence[_Sink]]
) -> Iterator[int]:
    """Nets, each after those that its sinks drive, but where they are in a loop."""
    outputs = {name: bit for bit, name in drivers.items()}

    def following(bit: int) -> Iterator[int]:
        return (outputs[cell] for cell, _, _ in tuple(driven[bit]) if cell in outputs)

    seen: set[int] = set()
    for start in drivers:
        stack = [] if start in seen else [(start, following(start))]
        seen.add(start)
        while stack:
            bit, behind = stack[-1]
            further = next((each for each in behind if each not in seen), None)
            if further is None:
                stack.pop()
                yield bit
            else:
                seen.add(further)
                stack.append((further, following(further)))


def _place(sink: _Sink) -> list[tuple[int, str]]:
    """Orders pins by the names of their cells."""
    cell, pin, position = sink
    return in_order(f"{cell} {pin} {position}")


def main(netlist: str, result: str, copies: str, sinks: str, *outputs: str) -> None:
    """Read a flat netlist, copy cells, write it and how many there are more.

    Parameters
    ----------
    netlist, result, copies : str
        Files: by Yosys's ``write_json``; with copies, perhaps the same; and how many cells of each
        type there are more.
    sinks : str
        Most pins of an output.
    *outputs : str
        What may be copied, a type of cells and its output each: ``LUT4.Z``.
    """
    whole = read_netlist(
        Path(netlist),
        of_modules=("attributes", "netnames"),
        of_cells=("connections", "port_directions"),
    )
    kinds = dict(output.split(".") for output in outputs)
    added: Counter[str] = Counter()
    for module in whole["modules"].values():
        if not int(module["attributes"].get("blackbox", "0"), 2):
            added += copy_cells(module, kinds, int(sinks))
    write_json(Path(result), whole)
    write_json(Path(copies), added)


if __name__ == "__main__":
    main(*sys.argv[1:])
