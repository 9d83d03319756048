"""The comparison page: fresh, complete, and right about what is good enough."""

import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mxsafe.analysis import figures
from studies import comparison_page, experiments
from studies.comparison_page import GOALS, LayerError, Measured, Point, layer_error, pareto, points

COMMITTED = json.loads((comparison_page.DOCS / "synthesis.json").read_text())
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


def test_the_committed_page_is_fresh() -> None:
    committed = (comparison_page.DOCS / "comparison.md").read_text()
    assert committed == comparison_page.page(COMMITTED), "run `python -m studies.comparison_page`"
    for link in re.findall(r"\]\(([^)#:]+)\)", committed):
        assert (comparison_page.DOCS / link).exists(), link


def test_every_goal_has_a_row() -> None:
    table = comparison_page.goal_rows(COMMITTED)
    assert [row[0] for row in table[1:]] == [goal.what for goal in GOALS]
    assert {len(row) for row in table} == {len(table[0])}
    listed = comparison_page.limits(COMMITTED)
    for row in table[1:]:
        assert (f"- {row[0]}: " in listed) == (row[-1] not in ("aim met", ""))


def test_margins() -> None:
    """The smallest netlist that is quick enough, of all configurations of a rate."""
    numbers = {
        "sta_exact 4x4x4x4": {"area": (100, 1.94), "timing": (150, 1.55)},
        "sta_exact 4x4x4x4, most registers": {"area": (130, 1.5), "timing": (190, 1.032)},
        "sta_exact 4x4x4x4, 8 accumulators": {"area": (200, 2.1), "timing": (300, 2.0)},
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
    rows = [row[1:] for row in comparison_page.margin_rows(synthesis)[1:]]
    assert rows == [
        ("100", "1.94", "75", "130", "1.50", "58", "1.03", "40"),
        ("300", "2.00", "78", "none", "", "", "2.00", "78"),
        ("none", "", "", "none", "", "", "2.01", "78"),
    ]


@pytest.mark.parametrize(
    ("value", "more", "verdict"),
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
def test_verdicts(value: float | None, more: bool, verdict: str) -> None:
    goal = replace(GOALS[0], required=3600, aim=5000 if more else 2420, more=more)
    measured = Measured(value=value, text="")
    assert comparison_page._verdict(goal, measured) == verdict
    reported = replace(goal, required="none")
    expected = "aim met" if verdict == "aim met" else "aim not met"
    assert comparison_page._verdict(reported, measured) == expected


def test_areas_count_at_500_mhz_only() -> None:
    slow = {"ge": 256.0 * 100, "delay_ns": 2.5, "start": "a", "end": "b"}
    fast = {"ge": 256.0 * 150, "delay_ns": 2.0, "start": "a", "end": "b"}
    result = {"macs": 256, "numbers": {"area": slow, "timing": fast}}
    assert comparison_page._area_at_500(result) == Measured(value=150.0, text="150; 100 at 400 MHz")
    result = {"macs": 256, "numbers": {"area": slow, "timing": {**fast, "delay_ns": 2.01}}}
    assert comparison_page._area_at_500(result).value is None
    assert comparison_page._area_at_500(result).text == "none: 100 at 400 MHz"
    clock = comparison_page._clock(result)
    assert clock.value == pytest.approx(1000 / 2.01)
    assert clock.path == "the longest path runs from `a` to `b`"


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
    """Those that the test of the layer holds too."""
    assert layer_error("mxsf", "exact", 64).relative == pytest.approx(0.014068, rel=1e-3)
    assert layer_error("mxsf", "exact", (8, 8)).relative == pytest.approx(0.012252, rel=1e-3)
    bf16 = layer_error("mxsf", "bf16", 64)
    assert 0.0005 < bf16.relative < 0.004
    assert bf16.relative < bf16.largest


def test_points_are_those_synthesised() -> None:
    found = points(COMMITTED)
    assert [(p.format, p.arithmetic) for p in found[:1]] == [("mxsf", "exact")]
    units = {
        (r["format"], r["unit"])
        for r in COMMITTED["results"]
        if r["configuration"] in ("pu", "pu_exact, 1 accumulator", "pu_bf16")
    }
    assert {
        (p.format, {"exact": "pu_exact", "fp12": "pu", "bf16": "pu_bf16"}[p.arithmetic])
        for p in found
    } == units
    for table in (comparison_page.mac_rows(found), comparison_page.unit_rows(found)):
        assert len(table) == 1 + len(found)
        assert {len(row) for row in table} == {len(table[0])}
    with pytest.raises(LookupError) as error:
        comparison_page.find(COMMITTED, "pu", format="mxint4")
    assert str(error.value) == "synthesis must have pu for mxint4 on nangate45"


def test_every_unit_around_the_array_has_a_row() -> None:
    table = comparison_page.around_rows(COMMITTED)
    assert [row[0] for row in table[1:]] == [f"`{unit}`" for unit in comparison_page._AROUND]
    assert {len(row) for row in table} == {len(table[0])}
    assert all(float(row[2].replace(",", "")) > 1000 for row in table[1:])


def test_the_picture_has_every_point() -> None:
    found = [point(10.0, 0.5), point(20.0, 0.2, format="mxint8", arithmetic="fp12")]
    svg = figures.render(comparison_page.draw_points(found), ".svg").decode()
    ElementTree.fromstring(svg)
    labels = set(re.findall(r"<!-- (.*?) -->", svg))
    assert {"mxsf", "mxint8", "Pareto front", "exact", "fp12"} <= labels
    with pytest.raises(ValueError) as error:
        comparison_page.draw_points([])
    assert str(error.value) == "points must not be empty"


def test_energies_are_shares_of_a_mac() -> None:
    part = {"internal_pj": 8.0, "switching_pj": 4.0, "leakage_pj": 1.6}
    energy = {
        "mac_pj": 1.7,
        "multiply_pj": 0.425,
        "sequential": part,
        "combinational": part,
        "clock": {"changes_per_net": 0.75, "clocks": 96},
    }
    rows = comparison_page.energy_rows([replace(POINT, unit={**RESULT, "power": energy})])
    shares = ("0.50", "0.25", "0.10")
    assert rows[1] == ("mxsf, exact", *shares, *shares, "1.70", "0.42", "0.75")
    assert np.isclose(sum(map(float, rows[1][1:7])), 1.7)


def test_the_papers_power_is_beside_ours() -> None:
    """308.845 mW, 500 MHz, 256 MACs of four lanes."""
    rows = comparison_page.energy_rows(points(COMMITTED))
    assert rows[-1] == ("the paper's core, mxsf", *[""] * 6, "2.41", "0.60", "")


def test_what_was_tried_is_on_the_page() -> None:
    committed = (comparison_page.DOCS / "comparison.md").read_text()
    for row in experiments.highlights(experiments.load()):
        assert "| " + " | ".join(row) + " |" in committed


def test_every_target_was_measured() -> None:
    """A configuration that is not in the results would leave its row empty."""
    assert "not measured" not in {row[4] for row in comparison_page.goal_rows(COMMITTED)}
