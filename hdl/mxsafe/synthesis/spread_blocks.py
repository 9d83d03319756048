"""Places for memories and multipliers across an ECP5-85F, from a first placement of a netlist.

nextpnr draws all logic together, as near as its cells can lie, though half of them may be free.
What has beats of hundreds of bits is then placed so densely that its wires find no way. How densely
is fixed in nextpnr for these devices (``--placer-heap-beta`` changes nothing there). Here memories
and multipliers keep their order of the first placement, but are spread evenly over their rows and
columns: over so many in the middle that the logic fills about half of what lies there. They hold
the logic apart when it is placed a second time.

    python -m mxsafe.synthesis.spread_blocks PLACED.json NETLIST.json

``PLACED.json`` is what ``nextpnr-ecp5 --no-route --write`` wrote. There are places for that device
alone. Blocks that have places in the netlist keep them.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Container, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

from mxsafe.synthesis.dsp_places import COLUMNS, DSP, DSP_GROUP, DSP_ROWS
from mxsafe.synthesis.netlist_json import read_netlist, write_json


class _Sites(NamedTuple):
    """Where blocks of a type lie: x and end of the name in each row, and logic rows about a row."""

    in_row: tuple[tuple[int, str], ...]
    rows: Mapping[int, int]


_MEMORY_BLOCKS = {0: "EBR0", 2: "EBR1", 4: "EBR2", 6: "EBR3"}
_SITES = {
    "DP16KD": _Sites(
        tuple((x + at, name) for x, (at, name) in product(COLUMNS, _MEMORY_BLOCKS.items())),
        {22: 32, 46: 23, 70: 17, 82: 17},
    ),
    DSP: _Sites(
        tuple((x + at, f"MULT18_{at}") for x, at in product(COLUMNS, DSP_GROUP)),
        {DSP_ROWS[0]: 20, DSP_ROWS[1]: 23, DSP_ROWS[2]: 23},
    ),
}
_PLACE = re.compile(r"X(\d+)/Y(\d+)/")
_LOGIC = "TRELLIS_COMB"
"""Type of a look-up table, once packed."""
_LOOK_UP_TABLES = 83_640
_FILLED = 0.5
"""Share of look-up tables in use about the blocks: with more wires find no way, with less they are
longer."""


def columns_for(tables: int) -> int:
    """How many columns of blocks a design shall have, of `COLUMNS`.

    Parameters
    ----------
    tables : int
        Look-up tables that it takes.
    """
    return min(len(COLUMNS), max(1, -(-tables * len(COLUMNS) // int(_LOOK_UP_TABLES * _FILLED))))


def spread_blocks(
    placed: Mapping[str, tuple[int, int]],
    kind: str,
    taken: Container[str] = (),
    columns: int = len(COLUMNS),
) -> dict[str, str]:
    """Where blocks of a type shall lie.

    Those that lie higher in the device come to higher rows, and each row has its share of them, as
    it has rows of logic about it, unless other rows would be too full. In a row they stand from
    left to right as they did, with equal distances.

    Parameters
    ----------
    placed : Mapping
        For each block by name the column and the row of tiles in which it lies.
    kind : {"DP16KD", "MULT18X18D"}
        What they are.
    taken : container of str
        Places that they cannot have.
    columns : int
        How many of `COLUMNS` they are spread over, those in the middle, unless they are too many.

    Returns
    -------
    dict
        By name nextpnr's name of a place; nothing if there are more blocks than places.
    """
    sites = _SITES[kind]
    of_column = len(sites.in_row) // len(COLUMNS)
    begin = (len(COLUMNS) - columns) // 2 * of_column
    middle = sites.in_row[begin : begin + columns * of_column]
    free = {
        y: [name for x, site in middle if (name := f"X{x}/Y{y}/{site}") not in taken]
        for y in sites.rows
    }
    left = sum(map(len, free.values()))
    if len(placed) > left:
        return spread_blocks(placed, kind, taken) if columns < len(COLUMNS) else {}
    ordered = sorted(placed, key=lambda name: (placed[name][1], placed[name][0], name))
    about = sum(sites.rows.values())
    places: dict[str, str] = {}
    first = rows = 0
    for y, own in sites.rows.items():
        rows += own
        left -= len(free[y])
        share = max(round(len(ordered) * rows / about), len(ordered) - left)
        end = min(share, first + len(free[y]))
        line = sorted(ordered[first:end], key=lambda name: (*placed[name], name))
        first = end
        for number, name in enumerate(line):
            places[name] = free[y][(2 * number + 1) * len(free[y]) // (2 * len(line))]
    return places


def main(placed: str, netlist: str) -> None:
    """Give blocks of a netlist places, by a first placement: both files of nextpnr and Yosys.

    Parameters
    ----------
    placed : str
        By nextpnr's ``--no-route`` and ``--write``.
    netlist : str
        What was placed; changed.
    """
    whole = read_netlist(Path(netlist), of_cells=("attributes",))
    cells = {
        name: cell for module in whole["modules"].values() for name, cell in module["cells"].items()
    }
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    tables = 0
    for module in read_netlist(Path(placed), of_cells=("attributes",))["modules"].values():
        for name, cell in module["cells"].items():
            tables += cell["type"] == _LOGIC
            place = _PLACE.match(str(cell["attributes"].get("NEXTPNR_BEL", "")))
            mine = cells.get(name)
            if place and mine and cell["type"] in _SITES and "BEL" not in mine["attributes"]:
                found[cell["type"]][name] = (int(place[1]), int(place[2]))
    if not found:
        sys.exit(f"{placed} has no placed memory or multiplier of {netlist}")
    taken = {cell["attributes"].get("BEL") for cell in cells.values()}
    columns = columns_for(tables)
    for kind, blocks in found.items():
        for name, site in spread_blocks(blocks, kind, taken, columns).items():
            cells[name]["attributes"]["BEL"] = site
    write_json(Path(netlist), whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
