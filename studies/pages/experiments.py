"""Experiments with hardware and compiler, and their results, from ``docs/experiments.json``.

To record a step, add it to the table of its component in that file, or a new table, and write the
pages `experiments` and `comparison`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.pages import kept

OUTCOMES: Mapping[str, str] = {
    "start": "start",
    "kept": "kept",
    "option": "kept as an option",
    "not kept": "not kept",
}
"""Outcomes of a step, and their names in tables."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that was tried.

    Attributes
    ----------
    step : str
        What was changed.
    numbers : Mapping
        What was measured, by the names in `Experiment.columns`.
    outcome : str
        One of `OUTCOMES`.
    why : str
        The reason for the outcome.
    highlight : bool
        Whether the comparison page shows it.
    """

    step: str
    numbers: Mapping[str, float]
    outcome: str
    why: str
    highlight: bool = False


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Steps that were tried on a component, in order.

    Attributes
    ----------
    name : str
        The component.
    source : str
        The file that has the component, from the root of the repository.
    measured : str
        What was measured, in a sentence.
    tools : str
        Tools and scripts.
    columns : Mapping
        Heads of the columns of numbers, by name.
    steps : tuple of Step
        The first is the start.
    """

    name: str
    source: str
    measured: str
    tools: str
    columns: Mapping[str, str]
    steps: tuple[Step, ...]


def _step(record: Mapping[str, Any], where: str, columns: Mapping[str, str]) -> Step:
    fields = dict(record)
    step, outcome, why = (fields.pop(name) for name in ("step", "outcome", "why"))
    highlight = fields.pop("highlight", False)
    if outcome not in OUTCOMES:
        raise ValueError(f"outcome of {where} must be one of {', '.join(OUTCOMES)}, not {outcome}")
    if unknown := sorted(fields.keys() - columns.keys()):
        raise ValueError(f"{where} must have numbers for {', '.join(columns)}, not {unknown[0]}")
    return Step(step=step, numbers=fields, outcome=outcome, why=why, highlight=highlight)


def load(text: str | None = None) -> list[Experiment]:
    """Read experiments.

    Parameters
    ----------
    text : str, optional
        JSON; by default ``docs/experiments.json``.

    Raises
    ------
    ValueError
        If a step has an unknown outcome or a number without a column.
    """
    record = kept("experiments") if text is None else json.loads(text)
    experiments = []
    for entry in record["experiments"]:
        steps = tuple(
            _step(step, f"step {number} of {entry['name']}", entry["columns"])
            for number, step in enumerate(entry["steps"], 1)
        )
        experiments.append(Experiment(**{**entry, "steps": steps}))
    return experiments


def _decimals(value: float) -> int:
    return len(str(value).partition(".")[2])


def _cell(experiment: Experiment, step: Step, name: str) -> str:
    """A number with as many decimals as any in its column; empty where nothing was measured."""
    column = [each.numbers[name] for each in experiment.steps if name in each.numbers]
    if name not in step.numbers:
        return ""
    return f"{step.numbers[name]:,.{max(map(_decimals, column))}f}"


def cells(experiment: Experiment, step: Step) -> list[str]:
    """The numbers of a step, as a table shows them."""
    return [_cell(experiment, step, name) for name in experiment.columns]


def _area_and_time(experiment: Experiment, step: Step) -> str:
    return ", ".join(filter(None, (_cell(experiment, step, name) for name in ("ge", "ns"))))


def highlights(experiments: Sequence[Experiment]) -> list[tuple[str, ...]]:
    """The steps that the comparison page shows, head first; the first two columns are words."""
    table: list[tuple[str, ...]] = [("component", "step", "before: GE, ns", "after", "outcome")]
    for experiment in experiments:
        before = experiment.steps[0]
        for step in experiment.steps[1:]:
            if step.highlight:
                numbers = (_area_and_time(experiment, each) for each in (before, step))
                table.append((experiment.name, step.step, *numbers, OUTCOMES[step.outcome]))
            if step.outcome == "kept":
                before = step
    return table


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    return {"experiments": load(), "outcomes": OUTCOMES, "cells": cells}
