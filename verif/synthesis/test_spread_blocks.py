"""Places of memories and multipliers after a first placement: in order, even, each once."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mxsafe.synthesis.spread_blocks import columns_for, main, spread_blocks

KINDS = ("DP16KD", "MULT18X18D")
PLACES = {"DP16KD": 208, "MULT18X18D": 156}
"""Blocks of an LFE5U-85F, by Lattice's data sheet (FPGA-DS-02012)."""


def at(place: str) -> tuple[int, int]:
    found = re.fullmatch(r"X(\d+)/Y(\d+)/(EBR|MULT18_)[0-5]", place)
    assert found is not None, place
    return int(found[1]), int(found[2])


def crowd(count: int) -> dict[str, tuple[int, int]]:
    """Blocks that lie beside each other, as nextpnr places them."""
    random = np.random.default_rng(count)
    return {
        f"block_{number}": (int(x), int(y))
        for number, (x, y) in enumerate(random.integers(20, 50, (count, 2)))
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 3, 36, 83, 140, 156])
def test_blocks_are_spread_in_their_order(kind: str, count: int) -> None:
    placed = crowd(count)
    places = spread_blocks(placed, kind)
    assert sorted(places) == sorted(placed)
    assert len(set(places.values())) == count
    rows: dict[int, list[tuple[int, str]]] = {}
    for name, place in places.items():
        x, y = at(place)
        rows.setdefault(y, []).append((x, name))
    assert len(rows) == min(count, 4 if kind == "DP16KD" else 3)
    for y in rows:
        below = [placed[name][1] for row in rows if row > y for _, name in rows[row]]
        assert all(placed[name][1] <= row for _, name in rows[y] for row in below)
        line = [name for _, name in sorted(rows[y])]
        assert all(placed[left] <= placed[right] for left, right in pairwise(line))
        # From one side of the device to the other.
        if len(line) > 10:
            assert min(rows[y])[0] < 20
            assert max(rows[y])[0] > 100


@pytest.mark.parametrize("kind", KINDS)
def test_few_columns_are_those_in_the_middle(kind: str) -> None:
    """Or all of them, if the blocks do not fit."""
    places = spread_blocks(crowd(30), kind, (), 5)
    x = [at(place)[0] for place in places.values()]
    assert 40 <= min(x) < max(x) < 87
    crowded = crowd(PLACES[kind] // 2)
    assert spread_blocks(crowded, kind, (), 5) == spread_blocks(crowded, kind)


def test_columns_by_the_logic_about_them() -> None:
    assert [columns_for(tables) for tables in (1, 3216, 3217, 41_820, 41_821, 83_640)] == [
        *(1, 1, 2, 13, 13, 13)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_that_is_full(kind: str) -> None:
    """No row has more than its places, though its share would be more."""
    count = PLACES[kind]
    assert len(set(spread_blocks(crowd(count), kind).values())) == count


@pytest.mark.parametrize("kind", KINDS)
def test_more_blocks_than_places(kind: str) -> None:
    assert spread_blocks(crowd(PLACES[kind] + 1), kind) == {}


def test_places_that_are_taken() -> None:
    placed = crowd(40)
    first = set(spread_blocks(placed, "DP16KD").values())
    second = set(spread_blocks(placed, "DP16KD", first).values())
    assert len(first) == len(second) == 40
    assert not first & second


def netlists(folder: Path) -> tuple[str, str]:
    """A first placement and its netlist, in which one multiplier has a place."""
    kinds = {"a": "DP16KD", "b": "DP16KD", "c": "MULT18X18D", "d": "MULT18X18D", "e": "LUT4"}
    sites = {"a": "X4/Y22/EBR0", "b": "X6/Y22/EBR1", "c": "X4/Y10/MULT18_0", "e": "X2/Y2/SLICEA.K0"}
    cells = {name: {"type": kind, "attributes": {}} for name, kind in kinds.items()}
    cells["d"]["attributes"] = {"BEL": "X60/Y34/MULT18_1"}
    (folder / "netlist.json").write_text(json.dumps({"modules": {"top": {"cells": cells}}}))
    placed = {
        name: {"type": kind, "attributes": {"NEXTPNR_BEL": sites.get(name, "X60/Y34/MULT18_1")}}
        for name, kind in {**kinds, "added_by_nextpnr": "DP16KD"}.items()
    }
    (folder / "placed.json").write_text(json.dumps({"modules": {"top": {"cells": placed}}}))
    return str(folder / "placed.json"), str(folder / "netlist.json")


def test_a_netlist_gets_places(tmp_path: Path) -> None:
    files = netlists(tmp_path)
    main(*files)
    cells = json.loads(Path(files[1]).read_text())["modules"]["top"]["cells"]
    places = {name: cell["attributes"].get("BEL") for name, cell in cells.items()}
    assert places.pop("d") == "X60/Y34/MULT18_1"
    assert places.pop("e") is None
    placed = {"a": (4, 22), "b": (6, 22)}
    multiplier = spread_blocks({"c": (4, 10)}, "MULT18X18D", {"X60/Y34/MULT18_1"})
    assert places == {**spread_blocks(placed, "DP16KD"), **multiplier}


def test_a_file_without_places(tmp_path: Path) -> None:
    _, netlist = netlists(tmp_path)
    before = Path(netlist).read_text()
    with pytest.raises(SystemExit) as ended:
        main(netlist, netlist)
    assert ended.value.code == f"{netlist} has no placed memory or multiplier of {netlist}"
    assert Path(netlist).read_text() == before
