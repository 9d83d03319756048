"""Experiments: complete, and what is not a record of one is refused."""

import json
from typing import Any

import pytest

from studies.pages.experiments import cells, highlights, load
from verif.support.tests import raises

FIRST = {"step": "a", "ge": 2000, "ns": 2.5, "outcome": "start", "why": "the first version"}
WORSE = {"step": "b", "ge": 2100, "ns": 2.25, "outcome": "not kept", "why": "larger"}
BETTER = {"step": "c", "ge": 1900, "outcome": "kept", "why": "smaller", "highlight": True}
LAST = {"step": "d", "ge": 1950, "ns": 2.0, "outcome": "not kept", "why": "x", "highlight": True}


def record(*steps: dict[str, Any]) -> str:
    entry = {
        "name": "Adder",
        "source": "hdl/mxsafe/formats.py",
        "measured": "An adder.",
        "tools": "Yosys",
        "columns": {"ge": "GE", "ns": "ns"},
        "steps": steps,
    }
    return json.dumps({"experiments": [entry]})


def test_every_experiment_has_a_start_and_names_of_its_own() -> None:
    found = load()
    assert len({experiment.name for experiment in found}) == len(found)
    for experiment in found:
        assert len(experiment.steps) > 1
        assert len({step.step for step in experiment.steps}) == len(experiment.steps)
        assert all(step.numbers and step.why for step in experiment.steps)
        assert experiment.source.startswith("hdl/mxsafe/")


def test_rows_have_the_decimals_of_their_column() -> None:
    (adder,) = load(record(FIRST, WORSE, BETTER))
    assert [cells(adder, step) for step in adder.steps] == [
        ["2,000", "2.50"],
        ["2,100", "2.25"],
        ["1,900", ""],
    ]


def test_a_highlight_stands_beside_the_last_step_that_was_kept() -> None:
    assert highlights(load(record(FIRST, WORSE, BETTER, LAST))) == [
        ("component", "step", "before: GE, ns", "after", "outcome"),
        ("Adder", "c", "2,000, 2.50", "1,900", "kept"),
        ("Adder", "d", "1,900", "1,950, 2.00", "not kept"),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"outcome": "perhaps"},
            "outcome of step 2 of Adder must be one of start, kept, option, not kept, not perhaps",
        ),
        ({"luts": 5}, "step 2 of Adder must have numbers for ge, ns, not luts"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with raises(ValueError, message):
        load(record(FIRST, {**WORSE, **changes}))
