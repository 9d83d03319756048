"""Bits of nets that cannot change, as Yosys finds them in the generated Verilog."""

import json
import re
from pathlib import Path

from verif.support.manifest import GEN
from verif.support.proof import run_yosys

__all__ = ["constants"]

_DECLARED_AT = re.compile(r"gen/(\w+)\.v:(\d+)\.")


def constants(folder: Path, files: str = "gen/*.v") -> set[tuple[str, int, int]]:
    """Module, line of the declaration and number of each bit that its own module makes constant.

    Parameters
    ----------
    folder : Path
        Where the netlist is written, below the folder of ``gen/``.
    files : str
        Modules, as Yosys finds them from there.
    """
    netlist = folder.absolute().relative_to(GEN.parent) / "netlist.json"
    # What is inside a module stays outside: another one may use it in another way.
    run_yosys(GEN.parent, f"read_verilog {files}; proc; opt -full; write_json {netlist}")
    found = set()
    for module in json.loads((GEN.parent / netlist).read_text())["modules"].values():
        for net in module["netnames"].values():
            place = _DECLARED_AT.match(net["attributes"].get("src", ""))
            if place is None:
                continue
            for bit, driver in enumerate(net["bits"], start=net.get("offset", 0)):
                if driver in ("0", "1"):  # others are numbers of nets, or "x" of what is not used
                    found.add((place[1], int(place[2]), bit))
    return found
