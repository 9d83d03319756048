"""``python -m studies.experiments``: what was tried in the hardware, and what it gave.

Writes ``docs/experiments.md`` from ``docs/experiments.json``. To record a step, add it to the table
of its component in that file, or a new table, and run this program and `studies.comparison_page`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from studies.prose import wrapped

__all__ = ["DOCS", "OUTCOMES", "Experiment", "Step", "highlights", "load", "page"]

DOCS = Path(__file__).parents[1] / "docs"

OUTCOMES: Mapping[str, str] = {
    "start": "start",
    "kept": "kept",
    "option": "kept as an option",
    "not kept": "not kept",
}
"""What became of a step, and what a table calls it."""

_PAGE = """\
# What was tried

Steps that were tried in the hardware and in the synthesis scripts, with what each of them gave.
Written by `python -m studies.experiments`; the numbers are in [experiments.json](experiments.json).
The numbers of today are on [the page on synthesis](synthesis.md).

GE are gate equivalents: an area over that of a two-input NAND. ns is the longest path. LUTs are
look-up tables. Every row was measured when the step was tried, and follows the last step above it
that was kept. Components and scripts have changed since. So rows of one table can be compared, rows
of different tables cannot. An empty cell was not measured.

{experiments}
"""


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
    record = json.loads((DOCS / "experiments.json").read_text() if text is None else text)
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


def rows(experiment: Experiment) -> list[tuple[str, ...]]:
    """The table of an experiment, head first."""
    table: list[tuple[str, ...]] = [("step", *experiment.columns.values(), "outcome", "why")]
    for step in experiment.steps:
        numbers = (_cell(experiment, step, name) for name in experiment.columns)
        table.append((step.step, *numbers, OUTCOMES[step.outcome], step.why))
    return table


def _area_and_time(experiment: Experiment, step: Step) -> str:
    cells = (_cell(experiment, step, name) for name in ("ge", "ns"))
    return ", ".join(filter(None, cells))


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


def page(experiments: Sequence[Experiment]) -> str:
    """The page as Markdown."""
    parts = []
    for experiment in experiments:
        table = rows(experiment)
        # Numbers are aligned to the right, the words around them to the left.
        lines = markdown(table).split("\n")
        lines[1] = "|---|" + "--:|" * len(experiment.columns) + "---|---|"
        source = f"[{Path(experiment.source).name}](../{experiment.source})"
        words = f"{experiment.measured} Source: {source}. Tools: {experiment.tools}."
        parts += [
            f"## {experiment.name}",
            words,
            "\n".join(lines),
        ]
    return wrapped(_PAGE.format(experiments="\n\n".join(parts)))


def main() -> None:
    """Write the page."""
    write_together(DOCS, {"experiments.md": page(load()).encode()})


if __name__ == "__main__":
    main()
