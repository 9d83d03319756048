"""Experiments with hardware and compiler, and their results, from ``docs/experiments.json``.

To record a step, add it to the table of its component in that file, or a new table, and write the
pages `experiments` and `comparison`. A step has one of `OUTCOMES`, numbers by the names of the
table's columns, and `highlight` if the comparison page is to show it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from studies.pages import kept

OUTCOMES: Mapping[str, str] = {
    "start": "start",
    "kept": "kept",
    "option": "kept as an option",
    "not kept": "not kept",
}
"""Outcomes of a step, and their names in tables."""
Record = Mapping[str, Any]


def load() -> list[Record]:
    """Tables of components, each with its steps."""
    found: list[Record] = kept("experiments")["experiments"]
    return found


def _decimals(value: float) -> int:
    return len(str(value).partition(".")[2])


def _cell(experiment: Record, step: Record, name: str) -> str:
    """A number with as many decimals as any in its column; empty where nothing was measured."""
    column = [each[name] for each in experiment["steps"] if name in each]
    return f"{step[name]:,.{max(map(_decimals, column))}f}" if name in step else ""


def cells(experiment: Record, step: Record) -> list[str]:
    """The numbers of a step, as a table shows them."""
    return [_cell(experiment, step, name) for name in experiment["columns"]]


def _area_and_time(experiment: Record, step: Record) -> str:
    return ", ".join(filter(None, (_cell(experiment, step, name) for name in ("ge", "ns"))))


def highlights(experiments: Sequence[Record]) -> list[tuple[str, ...]]:
    """The steps that the comparison page shows, head first; the first two columns are words."""
    table: list[tuple[str, ...]] = [("component", "step", "before: GE, ns", "after", "outcome")]
    for experiment in experiments:
        before, *steps = experiment["steps"]
        for step in steps:
            if step.get("highlight"):
                numbers = (_area_and_time(experiment, each) for each in (before, step))
                outcome = OUTCOMES[step["outcome"]]
                table.append((experiment["name"], step["step"], *numbers, outcome))
            if step["outcome"] == "kept":
                before = step
    return table


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    return {"experiments": load(), "outcomes": OUTCOMES, "cells": cells}
