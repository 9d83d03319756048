"""Balanced trees of buffers for nets with many sinks, in a netlist that Yosys wrote as JSON.

ABC puts its buffers in chains: a flag with hundreds of sinks arrives nanoseconds late. Trees that
are there before it maps the logic between them keep that from happening: every flip-flop output and
every input of a module drives a tree whose nets have a limited number of sinks each. A module that
is instantiated often gets one buffer for each input that has more than a few, so that nets outside
drive a pin of each instance.

    python -m mxsafe.synthesis.fanout NETLIST.json RESULT.json SINKS CELL OUTPUT
"""

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

# The bits of a connection, and which of them.
Sink = tuple[list[Any], int]


_FEW = 4
"""Pins inside a module that its input may drive by itself."""
_CLOCKS = ("CK", "CLK", "clk")


def add_trees(
    module: dict[str, Any], sinks: int, cell: str, output: str, *, inside: bool = False
) -> int:
    """Let no flip-flop output and no input of a module drive more than some pins.

    Clock pins are left alone: a clock tree is another matter.

    Parameters
    ----------
    module : dict
        A module of Yosys' JSON; changed.
    sinks : int
        Most pins on a net, 2 or more.
    cell, output : str
        Buffer, with input ``A`` and this output.
    inside : bool
        Whether the module is instantiated: its inputs drive few pins each, or a buffer.

    Returns
    -------
    int
        Buffers added.
    """
    used = (bit for net in module["netnames"].values() for bit in net["bits"])
    free = count(1 + max((bit for bit in used if isinstance(bit, int)), default=1))
    cells = module["cells"]
    before = len(cells)
    entries = set(_inputs(module)) if inside else set()
    for bit, pins in sorted(_sinks(module).items()):
        most = _FEW if bit in entries else sinks
        while len(pins) > most:
            parts = -(-len(pins) // sinks)
            above: list[Sink] = []
            for part in range(parts):
                group = pins[part * len(pins) // parts : (part + 1) * len(pins) // parts]
                driven = next(free)
                for bits, position in group:
                    bits[position] = driven
                connections = {"A": [bit], output: [driven]}
                cells[f"$fanout${len(cells)}"] = {
                    "hide_name": 1,
                    "type": cell,
                    "parameters": {},
                    "attributes": {"keep": "1"},
                    "port_directions": {"A": "input", output: "output"},
                    "connections": connections,
                }
                above.append((connections["A"], 0))
            pins = above
    return len(cells) - before


def _sinks(module: dict[str, Any]) -> dict[int, list[Sink]]:
    """The pins that each flip-flop output and each input of the module drives."""
    found: dict[int, list[Sink]] = {bit: [] for bit in _roots(module)}
    for cell in module["cells"].values():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "input" and pin not in _CLOCKS:
                for position, bit in enumerate(bits):
                    if bit in found:
                        found[bit].append((bits, position))
    return found


def _roots(module: dict[str, Any]) -> Iterator[int]:
    for cell in module["cells"].values():
        if cell["type"].startswith("DFF"):
            for pin in ("Q", "QN"):
                yield from cell["connections"].get(pin, [])
    yield from _inputs(module)


def _inputs(module: dict[str, Any]) -> Iterator[int]:
    for port in module["ports"].values():
        if port["direction"] == "input":
            yield from (bit for bit in port["bits"] if isinstance(bit, int))


def main(source: str, target: str, sinks: str, cell: str, output: str) -> None:
    """Read a netlist, add trees to each of its modules and write it.

    Parameters
    ----------
    source, target : str
        Files: by Yosys, and with buffers.
    sinks : str
        Most pins that a net drives.
    cell, output : str
        The buffer and its output.
    """
    netlist = json.loads(Path(source).read_text())
    for name, module in netlist["modules"].items():
        if not int(module["attributes"].get("blackbox", "0"), 2):
            inside = not int(module["attributes"].get("top", "0"), 2)
            buffers = add_trees(module, int(sinks), cell, output, inside=inside)
            print(f"{name}: {buffers} buffers")
    Path(target).write_text(json.dumps(netlist))


if __name__ == "__main__":
    main(*sys.argv[1:])
