"""Where place and route has put the parts of a sub-matrix unit or an array: a letter for each tile.

``python -m mxsafe.synthesis.floor_plan PLACED.json FLOOR_PLAN.json`` reads the netlist that nextpnr
writes, in which every cell has its place. Flattening has kept instances in the names of cells.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from mxsafe.synthesis.netlist_json import read_netlist, write_json

PARTS: Mapping[str, tuple[str, str]] = {
    "m": ("multipliers (DSP blocks)", r"\.multiply_both\b"),
    "s": ("shifters of products", r"\.mac_\d+_\d+\.multiply_\d+\b"),
    "t": ("sums of products", r"\.mac_\d+_\d+\."),
    "f": ("scalers", r"\.accumulate_\d+\.scale\."),
    "b": ("binary32 adders", r"\.accumulate_\d+\.add\."),
    "a": ("block sums, accumulators", r"\.accumulate_\d+\."),
    "d": ("decoders at the edge", r"\bdecode_[aw]_\d+\."),
    "o": ("operands and order", r"^unit\."),
    "r": ("registers around the unit", r""),
}
"""By letter the name of a part and the instances in it; a cell is in the first part that fits."""

_PLACE = re.compile(r"X(\d+)/Y(\d+)/")


def part_of(cell: str) -> str:
    """The letter of the part that a cell with this name is in."""
    return next(letter for letter, (_, names) in PARTS.items() if re.search(names, cell))


def floor_plan(netlist: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of each tile.

    Parameters
    ----------
    netlist : Mapping
        What nextpnr's ``--write`` wrote.

    Returns
    -------
    dict
        `parts`: a string for each row of tiles from the top, with the letter of the part that has
        most cells in the tile, or a space; `cells`: cells of each part.

    Raises
    ------
    ValueError
        If no cell has a place.
    """
    parts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    modules = netlist["modules"].values()
    for name, cell in chain.from_iterable(module.get("cells", {}).items() for module in modules):
        place = _PLACE.match(cell.get("attributes", {}).get("NEXTPNR_BEL", ""))
        if place is not None:
            parts[int(place.group(1)), int(place.group(2))][part_of(name)] += 1
    if not parts:
        raise ValueError("netlist must have cells with a place, but there is none")
    cells: Counter[str] = Counter()
    for counted in parts.values():
        cells.update(counted)
    return {
        "parts": _rows(parts),
        "cells": {letter: cells[letter] for letter in PARTS if cells[letter]},
    }


def _rows(tiles: Mapping[tuple[int, int], Counter[str]]) -> list[str]:
    """The most frequent letter of each tile."""
    columns = range(max(x for x, _ in tiles) + 1)
    return [
        "".join(tiles[x, y].most_common(1)[0][0] if (x, y) in tiles else " " for x in columns)
        for y in range(max(y for _, y in tiles) + 1)
    ]


def main(netlist: str, plan: str) -> None:
    """Read a placed netlist of nextpnr's ``--write`` and write its floor plan, both files."""
    try:
        found = floor_plan(read_netlist(Path(netlist), of_cells=("attributes",)))
    except ValueError as error:
        sys.exit(f"{netlist}: {error}")
    write_json(Path(plan), found)


if __name__ == "__main__":
    main(*sys.argv[1:])
