"""Netlists in JSON, as Yosys and nextpnr write them, for commands of a flow that work on them.

What is wrong with a file ends such a command with one line about it.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mxsafe.atomic import write_atomically


def read_netlist(
    file: Path, *, of_modules: Sequence[str] = (), of_cells: Sequence[str] = ()
) -> dict[str, Any]:
    """The netlist in a file.

    Parameters
    ----------
    file : Path
    of_modules, of_cells : sequence of str
        What each module has to have beside its cells, and each cell beside its type, by names.

    Raises
    ------
    SystemExit
        If it cannot be read, or is none.
    """
    with _told(file):
        text = file.read_bytes()
    try:
        netlist = json.loads(text)
        for module in netlist["modules"].values():
            _ = [module[name].items() for name in of_modules]
            for cell in module["cells"].values():
                _ = cell["type"], [cell[name].items() for name in of_cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sys.exit(f"{file} is no netlist in JSON")
    assert isinstance(netlist, dict)
    return netlist


def write_json(file: Path, value: object) -> None:
    """Write a value to a file, which is there as a whole or as it was before.

    Raises
    ------
    SystemExit
        If it cannot be written.
    """
    with _told(file):
        write_atomically(file, json.dumps(value))


def in_order(name: str) -> list[tuple[int, str]]:
    """Orders names of cells, numbers in them by value."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


@contextmanager
def _told(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        sys.exit(f"{file}: {error.strerror or error}")
