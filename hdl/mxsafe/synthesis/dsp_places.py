"""Places for the DSP blocks of an array on an ECP5-85F, in a netlist that Yosys wrote as JSON.

The blocks lie in three rows across the whole device. nextpnr finds places for each of them alone,
and in four sub-matrix units their wires then cross each other's. Here the units stand side by side:
each has some columns of all three rows, and multipliers that follow each other, which are the lanes
of a MAC, lie in one group of four. Logic follows the blocks that it is connected to.

    python -m mxsafe.synthesis.dsp_places NETLIST.json

There are places for that device alone; nextpnr refuses them on smaller ones, which have no such
columns.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from pathlib import Path

from mxsafe.synthesis.netlist_json import in_order, read_netlist, write_json

DSP = "MULT18X18D"
"""Type of a multiplier."""
COLUMNS = (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)
"""Columns of tiles where groups of blocks begin, of multipliers as of memories."""
DSP_ROWS = (10, 34, 58)
DSP_GROUP = (0, 1, 4, 5)
"""Where blocks lie from the beginning of a group; four others of a group are adders."""
_SMALLER_DEVICE = 28
"""DSP blocks of an ECP5-25F, on which these places are not."""
_UNIT = re.compile(r"^(.*\bpu_\d+_\d+)\.")


def dsp_places(cells: Iterable[str]) -> dict[str, str]:
    """Where the DSP blocks of sub-matrix units shall lie.

    Parameters
    ----------
    cells : iterable of str
        Names of all DSP blocks of a netlist.

    Returns
    -------
    dict
        By name nextpnr's name of a place; nothing if they fit a smaller device, if there is one
        unit alone, or if the units do not fit side by side.
    """
    names = sorted(cells, key=in_order)
    units: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if found := _UNIT.match(name):
            units[found.group(1)].append(name)
    widths = [-(-len(own) // (len(DSP_GROUP) * len(DSP_ROWS))) for own in units.values()]
    if len(names) <= _SMALLER_DEVICE or len(units) < 2 or sum(widths) > len(COLUMNS):
        return {}
    places: dict[str, str] = {}
    first = (len(COLUMNS) - sum(widths)) // 2
    for own, width in zip(units.values(), widths, strict=True):
        size = len(DSP_GROUP)
        groups = [own[start : start + size] for start in range(0, len(own), size)]
        free = list(product(DSP_ROWS, COLUMNS[first : first + width]))
        # What is left over lies in the middle, where what the MACs of a unit share will stand.
        before = len(groups) // 2
        taken = free[:before] + free[len(free) - len(groups) + before :]
        for (y, x), group in zip(taken, groups, strict=True):
            for block, name in zip(DSP_GROUP, group, strict=False):
                places[name] = f"X{x + block}/Y{y}/MULT18_{block}"
        first += width
    return places


def main(netlist: str) -> None:
    """Give the DSP blocks of a flat netlist, a file of Yosys's ``write_json``, places in it."""
    file = Path(netlist)
    whole = read_netlist(file, of_cells=("attributes",))
    for module in whole["modules"].values():
        cells = module["cells"]
        blocks = (name for name, cell in cells.items() if cell["type"] == DSP)
        for name, place in dsp_places(blocks).items():
            cells[name]["attributes"]["BEL"] = place
    write_json(file, whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
