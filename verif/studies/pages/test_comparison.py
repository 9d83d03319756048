"""The comparison: what is good enough, errors of a layer, and the front."""

import re
from dataclasses import replace
from typing import Any

import pytest

from studies.pages import DOCS
from studies.pages.comparison import (
    KINDS,
    LayerError,
    Measured,
    Point,
    area_at_500,
    clock,
    energies,
    energy_limit,
    for_fpgas,
    layer_error,
    least_energy,
    margins,
    pareto,
    points,
    verdict,
)
from studies.pages.synthesis import in_second, vectorless
from studies.synthesised import find, load
from verif.support.tests import raises

RESULT = {"macs": 16, "numbers": {"area": {"ge": 1600.0, "delay_ns": 1.0}}}
POINT = Point(
    format="mxsf",
    arithmetic="exact",
    mac=RESULT,
    unit=RESULT,
    xilinx={},
    ecp5={},
    error=LayerError(relative=0.01, largest=0.1),
    tiled=LayerError(relative=0.01, largest=0.1),
)


def point(ge: float, error: float, **changes: Any) -> Point:
    unit = {"macs": 16, "numbers": {"area": {"ge": 16 * ge, "delay_ns": 1.0}}}
    return replace(POINT, unit=unit, error=LayerError(relative=error, largest=1.0), **changes)


def test_margins() -> None:
    """The smallest netlist that is quick enough, of all configurations of a rate."""
    numbers = {
        "sta_exact 4x4x4x4": {"area": (100, 1.94), "timing": (150, 1.55)},
        "sta_exact 4x4x4x4, most registers": {"area": (130, 1.5), "timing": (190, 1.032)},
        "sta_exact 4x2x4x8, 2 columns a MAC": {"area": (200, 2.1), "timing": (300, 2.0)},
        "pu": {"area": (200, 4.0), "timing": (300, 2.01)},
    }
    synthesis = {
        "results": [
            {
                "configuration": name,
                "technology": "nangate45",
                "format": "mxsf",
                "macs": 10,
                "numbers": {
                    kind: {"ge": 10.0 * ge, "delay_ns": ns} for kind, (ge, ns) in found.items()
                },
            }
            for name, found in numbers.items()
        ]
    }
    array, tiles, unit = margins(synthesis)
    assert (array["smallest"], array["slower"]) == (
        {"ge": 100.0, "ns": 1.94},
        {"ge": 130.0, "ns": 1.5},
    )
    assert array["fastest"] == 1.032
    assert (tiles["smallest"], tiles["slower"]) == ({"ge": 300.0, "ns": 2.0}, None)
    assert (unit["smallest"], unit["slower"], unit["fastest"]) == (None, None, 2.01)


@pytest.mark.parametrize(
    ("value", "more", "expected"),
    [
        (3600.0, False, "required met"),
        (2420.0, False, "aim met"),
        (3600.1, False, "not met"),
        (None, False, "not met"),
        (3000.0, True, "not met"),
        (3600.0, True, "required met"),
        (5000.0, True, "aim met"),
    ],
)
def test_verdicts(value: float | None, more: bool, expected: str) -> None:
    measured = Measured(value=value, text="")
    aim = 5000 if more else 2420
    goal = {"measured": measured, "required": 3600, "aim": aim, "more": more}
    assert verdict(goal) == expected
    without = "aim met" if expected == "aim met" else "aim not met"
    assert verdict({**goal, "required": "none"}) == without


def test_areas_count_at_500_mhz_only() -> None:
    slow = {"ge": 256.0 * 100, "delay_ns": 2.5, "start": "a", "end": "b"}
    fast = {"ge": 256.0 * 150, "delay_ns": 2.0, "start": "a", "end": "b"}
    result = {"macs": 256, "numbers": {"area": slow, "timing": fast}}
    assert area_at_500(result) == Measured(value=150.0, text="150; 100 at 400 MHz")
    result = {"macs": 256, "numbers": {"area": slow, "timing": {**fast, "delay_ns": 2.01}}}
    assert area_at_500(result).value is None
    assert area_at_500(result).text == "none: 100 at 400 MHz"
    fastest = clock(result)
    assert fastest.value == pytest.approx(1000 / 2.01)
    assert fastest.path == "the longest path runs from `a` to `b`"


def test_the_front_is_what_no_other_beats() -> None:
    small, good, both, worse, equal = (
        point(10.0, 0.5),
        point(40.0, 0.1),
        point(20.0, 0.2),
        point(30.0, 0.3),
        point(50.0, 0.1),
    )
    assert pareto([worse, equal, good, both, small]) == [small, both, good]


def test_errors_of_the_layer() -> None:
    """The errors are those that the test of the layer checks too."""
    assert layer_error("mxsf", "exact", 64).relative == pytest.approx(0.014068, rel=1e-3)
    assert layer_error("mxsf", "exact", (8, 8)).relative == pytest.approx(0.012252, rel=1e-3)
    bf16 = layer_error("mxsf", "bf16", 64)
    assert 0.0005 < bf16.relative < 0.004
    assert bf16.relative < bf16.largest


def test_points_are_those_synthesised() -> None:
    synthesis = load()
    found = points(synthesis)
    assert [(p.format, p.arithmetic) for p in found[:1]] == [("mxsf", "exact")]
    units = {
        (r["format"], r["unit"])
        for r in synthesis["results"]
        if r["configuration"] in ("pu", "pu_exact, 1 accumulator", "pu_bf16")
    }
    assert {
        (p.format, {"exact": "pu_exact", "fp12": "pu", "bf16": "pu_bf16"}[p.arithmetic])
        for p in found
    } == units
    with raises(LookupError, "synthesis must have pu for mxint4 on nangate45"):
        find(synthesis, "pu", format="mxint4")


_OF_HARDWARE = re.compile(r"\b(GE|ns|FO4|MHz|pJ|LUTs|LUT4s|DSPs)\b|\bactivity \d")


def test_every_number_of_hardware_says_what_it_is_of() -> None:
    """By a letter in the head of its column, or in its row."""
    page = (DOCS / "comparison.md").read_text()
    letters = set(KINDS)
    heads = 0
    for head, first in re.findall(r"^(\|.*)\n\|---.*\n(\|.*)", page, re.MULTILINE):
        cells = [cell.strip() for cell in head.strip("|").split("|")]
        if "of" in cells:
            assert first.strip("|").split("|")[cells.index("of")].strip() in letters
            continue
        for cell in cells:
            if _OF_HARDWARE.search(cell) and cells[0] != "component":
                heads += 1
                assert re.search(r" \((\w)\)$", cell), f"{cell} of {head}"
                assert cell[-2] in letters
    assert heads > 40
    targets = page.split("## Targets")[1].split("\n\n")[1].splitlines()
    assert {row.split(" | ")[1] for row in targets[2:]} <= letters
    assert "all of netlists (n)" in page.split("## What was tried")[1].split("\n|")[0]


def test_energies_with_and_without_operands() -> None:
    found = energies(load())
    assert None not in found[0]["vectorless"]
    for one in found:
        if None in one["vectorless"]:
            assert set(one["vectorless"]) == {None}  # of an earlier run
            continue
        half, running = one["vectorless"][:2], one["vectorless"][2:]
        assert 0.0 < half[0] < half[1] < one["pj"]
        assert all(less < more for less, more in zip(half, running, strict=True))
    least = least_energy(found)
    assert least.value == min(one["pj"] for one in found if one["pj"] is not None)
    assert least.text.endswith(f"; {found[0]['pj']:.2f} in the usual one")


def test_what_least_energy_is_spent_on() -> None:
    power = {
        "combinational": {"internal_pj": 3.0, "switching_pj": 3.0},
        "sequential": {"internal_pj": 1.0, "switching_pj": 1.0},
        "clock": {"total_pj": 8.0, "changes_per_net": 0.5},
    }
    units = [
        {"pj": 9.0, "result": {}},
        {"pj": 8.0, "result": {"power": power}},
        {"pj": None, "result": {}},
    ]
    assert energy_limit(units) == (
        "75% of it are in logic, whose nets change 0.50 times a cycle on real data, and 25% in "
        "registers and their clocks"
    )


def test_energies_are_shared_as_areas_are() -> None:
    result = {"macs": 16, "parameters": {"lanes": 8}, "power": {"vectorless": {"0.1": 64.0}}}
    assert vectorless(result) == [2.0, None]
    assert vectorless({"macs": 16, "parameters": {}}) == [None, None]


def test_builds_for_fpgas_stand_beside_each_other() -> None:
    ours, *others = for_fpgas()
    assert [one["name"].split(": ")[-1] for one in others] == [
        f"exact dot product of four {name}" for name in ("E2M5", "E4M3")
    ]
    assert others[0]["over"] == 1.0
    assert ours["over"] == ours["luts"] / others[0]["luts"]
    fpga = find(load("fpga"), "safe_mac_exact, 1 stage, no DSPs, for FPGAs", "xilinx")
    assert ours["luts"] == fpga["numbers"]["luts"]["luts"]


def test_units_in_a_second_library() -> None:
    for one in in_second(load()):
        for part in ("first", "second"):
            assert 20 < one[part]["fo4"] < 300
        assert 0.5 < one["second"]["ge"] / one["first"]["ge"] < 2.0
