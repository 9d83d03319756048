"""Places of an array's DSP blocks: units beside each other, lanes of a MAC in one group."""

import json
import re
from itertools import pairwise
from pathlib import Path

from mxsafe.synthesis.dsp_places import dsp_places, main

UNITS = [(row, column) for row in range(2) for column in range(2)]
BLOCKS = [
    f"unit.pu_{i}_{j}.multiply_{number}_{lane}.multiply_both.block"
    for i, j in UNITS
    for number in (0, 1, 2, 3, 8, 9, 10, 11)
    for lane in range(4)
]


def at(place: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"X(\d+)/Y(\d+)/MULT18_([0145])", place)
    assert found is not None
    x, y, block = map(int, found.groups())
    return x - block, y, block


def test_lanes_lie_together_and_units_beside_each_other() -> None:
    places = dsp_places(reversed(BLOCKS))
    assert sorted(places) == sorted(BLOCKS)
    assert len(set(places.values())) == len(BLOCKS)
    columns = []
    for i, j in UNITS:
        own = {name: at(place) for name, place in places.items() if f".pu_{i}_{j}." in name}
        columns.append({x for x, _, _ in own.values()})
        for number in (0, 1, 2, 3, 8, 9, 10, 11):
            lanes = [place for name, place in own.items() if f".multiply_{number}_" in name]
            assert len({(x, y) for x, y, _ in lanes}) == 1
        rows = {name.split(".")[2]: y for name, (_, y, _) in own.items()}
        assert [rows["multiply_0_0"], rows["multiply_11_0"]] == [10, 58]
    for left, right in pairwise(columns):
        assert max(left) < min(right)
    # The middle of a unit is left to what its MACs share.
    assert len({at(place)[:2] for place in places.values()}) == 32
    assert not any(at(place)[0] == 13 and at(place)[1] == 34 for place in places.values())


def test_units_that_need_no_place_or_have_none() -> None:
    assert dsp_places(BLOCKS[:28]) == {}
    assert dsp_places([f"unit.pu_0_{unit}.multiply_0_0.block" for unit in range(29)]) == {}
    assert dsp_places([f"unit.multiply_{number}_0.block" for number in range(32)]) == {}
    assert dsp_places([f"unit.pu_0_0.multiply_{number}_0.block" for number in range(32)]) == {}


def test_a_netlist_gets_places(tmp_path: Path) -> None:
    cells = {name: {"type": "MULT18X18D", "attributes": {}} for name in BLOCKS}
    register = {"unit.pu_0_0.register": {"type": "TRELLIS_FF", "attributes": {"src": "a"}}}
    netlist = {"modules": {"top": {"cells": {**cells, **register}}}}
    (tmp_path / "netlist.json").write_text(json.dumps(netlist))
    main(str(tmp_path / "netlist.json"))
    found = json.loads((tmp_path / "netlist.json").read_text())["modules"]["top"]["cells"]
    assert found.keys() == cells.keys() | register.keys()
    places = dsp_places(BLOCKS)
    assert {name: found[name]["attributes"].get("BEL") for name in cells} == places
    assert found["unit.pu_0_0.register"] == register["unit.pu_0_0.register"]
