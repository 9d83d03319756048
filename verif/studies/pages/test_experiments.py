"""Experiments: complete, and shown as they were measured."""

from typing import Any

from studies.pages.experiments import OUTCOMES, cells, highlights, load

FIRST = {"step": "a", "ge": 2000, "ns": 2.5, "outcome": "start", "why": "the first version"}
WORSE = {"step": "b", "ge": 2100, "ns": 2.25, "outcome": "not kept", "why": "larger"}
BETTER = {"step": "c", "ge": 1900, "outcome": "kept", "why": "smaller", "highlight": True}
LAST = {"step": "d", "ge": 1950, "ns": 2.0, "outcome": "not kept", "why": "x", "highlight": True}


def adder(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "Adder", "columns": {"ge": "GE", "ns": "ns"}, "steps": steps}


def test_every_experiment_has_several_steps_that_are_complete() -> None:
    found = load()
    assert len({experiment["name"] for experiment in found}) == len(found)
    for experiment in found:
        steps = experiment["steps"]
        assert len({step["step"] for step in steps}) == len(steps) > 1
        for step in steps:
            numbers = step.keys() - {"step", "outcome", "why", "highlight"}
            assert numbers, step
            assert numbers <= experiment["columns"].keys(), step
            assert step["outcome"] in OUTCOMES, step
            assert step["why"], step
        assert experiment["source"].startswith("hdl/mxsafe/")


def test_rows_have_the_decimals_of_their_column() -> None:
    experiment = adder(FIRST, WORSE, BETTER)
    assert [cells(experiment, step) for step in experiment["steps"]] == [
        ["2,000", "2.50"],
        ["2,100", "2.25"],
        ["1,900", ""],
    ]


def test_a_highlight_stands_beside_the_last_step_that_was_kept() -> None:
    assert highlights([adder(FIRST, WORSE, BETTER, LAST)]) == [
        ("component", "step", "before: GE, ns", "after", "outcome"),
        ("Adder", "c", "2,000, 2.50", "1,900", "kept"),
        ("Adder", "d", "1,900", "1,950, 2.00", "not kept"),
    ]
