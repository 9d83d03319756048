"""The floor plan: which part a cell is in, and what fills a tile."""

import json
from pathlib import Path
from typing import Any

import pytest

from mxsafe.synthesis.floor_plan import PARTS, floor_plan, main, part_of
from verif.support.tests import raises

CELLS = {
    "unit.decode_a_1.codes_TRELLIS_FF_Q": "d",
    "unit.pu_0_1.multiply_0_2.multiply_both.block": "m",
    "unit.pu_0_0.mac_0_3.multiply_2.distance_LUT4_A": "s",
    "unit.pu_0_0.mac_0_3.dot_TRELLIS_FF_Q": "t",
    "unit.pu_1_0.accumulate_0.scale.shift_LUT4_B": "f",
    "unit.pu_1_0.accumulate_0.add.a_LUT4_B": "b",
    "unit.pu_1_0.accumulate_0.accumulators.0.1$dpram_ramw": "a",
    "unit.pu_1_1.sequencer.begins_LUT4_Z": "o",
    "stimulus_TRELLIS_FF_Q": "r",
}


def netlist(*cells: tuple[str, str]) -> dict[str, Any]:
    placed = {
        name: {"type": "TRELLIS_COMB", "attributes": {"NEXTPNR_BEL": place}}
        for name, place in cells
    }
    unplaced = {"constant": {"type": "TRELLIS_COMB", "attributes": {}}}
    return {"modules": {"top": {"attributes": {"top": "1"}, "cells": {**placed, **unplaced}}}}


def test_every_part_has_its_cells() -> None:
    assert {name: part_of(name) for name in CELLS} == CELLS
    assert set(CELLS.values()) == set(PARTS)


def test_a_tile_is_what_most_of_its_cells_are(tmp_path: Path) -> None:
    shifter, adder = "unit.pu_0_0.mac_0_3.multiply_2.", "unit.pu_1_0.accumulate_0.add."
    placed = netlist(
        (f"{shifter}a", "X2/Y0/SLICEA.LUT0"),
        (f"{shifter}b", "X2/Y0/SLICEA.LUT1"),
        (f"{adder}a", "X2/Y0/SLICEB.LUT0"),
        (f"{adder}b", "X0/Y1/SLICEB.LUT0"),
        ("chain_TRELLIS_FF_Q", "X1/Y1/SLICEB.FF0"),
    )
    plan = {
        "parts": ["  s", "br "],
        "cells": {"s": 2, "b": 2, "r": 1},
    }
    assert floor_plan(placed) == plan
    (tmp_path / "placed.json").write_text(json.dumps(placed))
    main(str(tmp_path / "placed.json"), str(tmp_path / "plan.json"))
    assert json.loads((tmp_path / "plan.json").read_text()) == plan


def test_a_netlist_without_places_is_refused(tmp_path: Path) -> None:
    message = "netlist must have cells with a place, but there is none"
    with raises(ValueError, message):
        floor_plan(netlist())
    file = tmp_path / "placed.json"
    file.write_text(json.dumps(netlist()))
    with pytest.raises(SystemExit) as ended:
        main(str(file), str(tmp_path / "plan.json"))
    assert ended.value.code == f"{file}: {message}"
