"""The comparison: what is good enough, errors of a layer, and the front."""

from dataclasses import replace
from typing import Any

import pytest

from studies.pages.comparison import (
    LayerError,
    Measured,
    Point,
    area_at_500,
    clock,
    layer_error,
    margins,
    pareto,
    points,
    verdict,
)
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
