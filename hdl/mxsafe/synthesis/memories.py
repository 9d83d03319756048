"""Memories out of a netlist that Yosys wrote as JSON: what they are connected to becomes ports.

A macro stands in the place of each in a chip. So a netlist without them has what they put out for
inputs and what they take for outputs, which are timed and loaded like all others.

    python -m mxsafe.synthesis.memories NETLIST.json RESULT.json MACROS.json TOP MODULE...
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_CLOCKING = ("clk", "rst")


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A memory beside a netlist.

    Attributes
    ----------
    path : str
        Its instance in the Verilog of the unit, ``replay.memory``.
    name : str
        What the names of its ports of the netlist begin with, ``replay_memory``.
    module : str
    inputs, outputs : Mapping
        Widths of its own ports but clock and reset.
    """

    path: str
    name: str
    module: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]

    @property
    def into_unit(self) -> dict[str, int]:
        """Widths of the inputs that the netlist has instead."""
        return {f"{self.name}_{pin}": width for pin, width in self.outputs.items()}

    @property
    def out_of_unit(self) -> dict[str, int]:
        """Widths of the outputs that it has instead."""
        return {f"{self.name}_{pin}": width for pin, width in self.inputs.items()}


def detach(module: dict[str, Any], kinds: Sequence[str]) -> list[Macro]:
    """Take the memories out of a module.

    Parameters
    ----------
    module : dict
        A module of Yosys' JSON; changed.
    kinds : sequence of str
        Modules that are memories.

    Returns
    -------
    list of Macro
        In order of their paths.

    Raises
    ------
    ValueError
        If the module has a port with the name of one of theirs.
    """
    macros = []
    for path in sorted(path for path, cell in module["cells"].items() if cell["type"] in kinds):
        cell = module["cells"].pop(path)
        name = re.sub(r"\W", "_", path)
        widths: dict[str, dict[str, int]] = {"input": {}, "output": {}}
        for pin, direction in cell["port_directions"].items():
            if pin in _CLOCKING:
                continue
            bits, port = cell["connections"][pin], f"{name}_{pin}"
            if port in module["ports"]:
                raise ValueError(f"{port} is a port already, but should be one of {path}")
            widths[direction][pin] = len(bits)
            outward = "output" if direction == "input" else "input"
            module["ports"][port] = {"direction": outward, "bits": bits}
        macros.append(
            Macro(
                path=path,
                name=name,
                module=cell["type"],
                inputs=widths["input"],
                outputs=widths["output"],
            )
        )
    return macros


def read_macros(text: str) -> list[Macro]:
    """Return the macros that `main` wrote."""
    return [Macro(**entry) for entry in json.loads(text)]


def main(source: str, target: str, listed: str, top: str, *kinds: str) -> None:
    """Read a netlist, take memories out of its top and write it, and what they were.

    Parameters
    ----------
    source, target, listed : str
        Files: by Yosys, the one without memories, and what they were.
    top : str
        Module that they are in.
    *kinds : str
        Modules that are memories.
    """
    netlist = json.loads(Path(source).read_text())
    macros = detach(netlist["modules"][top], kinds)
    for kind in kinds:
        netlist["modules"].pop(kind, None)
    Path(target).write_text(json.dumps(netlist))
    Path(listed).write_text(json.dumps([asdict(macro) for macro in macros]))
    print(f"{top}: {len(macros)} memories")


if __name__ == "__main__":
    main(*sys.argv[1:])
