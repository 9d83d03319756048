"""Trees of buffers: no net drives more pins than it may, and all pins see the same bit."""

from typing import Any

import pytest

from mxsafe.synthesis.fanout import add_trees

CELL, OUTPUT = "BUF", "Y"


def netlist(pins: int) -> dict[str, Any]:
    """A module with an input, bit 2, and so many gates on it; their outputs are unused."""
    cells = {
        f"gate_{number}": {
            "type": "INV_X1",
            "port_directions": {"A": "input", "ZN": "output"},
            "connections": {"A": [2], "ZN": [3 + number]},
        }
        for number in range(pins)
    }
    return {
        "ports": {"en": {"direction": "input", "bits": [2]}},
        "netnames": {"en": {"bits": [2]}, "out": {"bits": [3 + n for n in range(pins)]}},
        "cells": cells,
    }


def loads(module: dict[str, Any]) -> dict[int, int]:
    """Pins on each net that gates or buffers hang on."""
    found: dict[int, int] = {}
    for cell in module["cells"].values():
        bit = cell["connections"]["A"][0]
        found[bit] = found.get(bit, 0) + 1
    return found


def root(module: dict[str, Any], bit: int) -> int:
    """Where a net comes from, through buffers."""
    above = {
        cell["connections"][OUTPUT][0]: cell["connections"]["A"][0]
        for cell in module["cells"].values()
        if cell["type"] == CELL
    }
    while bit in above:
        bit = above[bit]
    return bit


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("pins", [1, 4, 5, 24, 25, 100, 700])
def test_trees(pins: int, inside: bool) -> None:
    module = netlist(pins)
    added = add_trees(module, 24, CELL, OUTPUT, inside=inside)
    assert len(module["cells"]) == pins + added
    found = loads(module)
    assert max(found.values()) <= 24
    assert found[2] <= (4 if inside else 24)
    gates = [cell for cell in module["cells"].values() if cell["type"] == "INV_X1"]
    assert {root(module, gate["connections"]["A"][0]) for gate in gates} == {2}
    few = pins <= (4 if inside else 24)
    assert (added == 0) == few


@pytest.mark.parametrize("pin", ["CK", "CLK"])
def test_clocks_have_no_trees(pin: str) -> None:
    module = netlist(100)
    for number in range(100):
        gate = module["cells"][f"gate_{number}"]
        gate["port_directions"] = {pin: "input", "D": "input"}
        gate["connections"] = {pin: [2], "D": [1000 + number]}
    assert add_trees(module, 24, CELL, OUTPUT) == 0
