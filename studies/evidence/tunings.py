"""Fine-tunings compared, from results of `studies.evidence.tuning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from studies.drawing import COLOURS, plain
from studies.evidence.formats import NAMES
from studies.evidence.trainings import FORMATS, Difference, own_results, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Sequence[Mapping[str, Any]]


class Tunings:
    """Results by format and seed: only seeds that float32 was tuned with.

    Parameters
    ----------
    results : sequence of Mapping
        Those of `studies.evidence.tuning` in any order, and others.
    """

    def __init__(self, results: Results) -> None:
        results = own_results(results, "tuning")
        found = {
            (result["parameters"]["format"], result["parameters"]["seed"]): result["numbers"]
            for result in results
        }
        self.parameters = results[0]["parameters"]
        self.seeds = sorted(seed for fmt, seed in found if fmt == "float32")
        self.found = {key: numbers for key, numbers in found.items() if key[1] in self.seeds}

    def of(self, fmt: str, measure: str) -> NDArray[np.float64]:
        """A measure, shape (seeds, its own)."""
        return np.array([n[measure] for (name, _), n in self.found.items() if name == fmt])

    def more_than(self, fmt: str, other: str, measure: str) -> NDArray[np.float64]:
        """Differences of two formats, shape (seeds, its own), of the seeds that have both."""
        both = [seed for seed in self.seeds if {(fmt, seed), (other, seed)} <= self.found.keys()]
        return np.array(
            [
                np.subtract(self.found[fmt, seed][measure], self.found[other, seed][measure])
                for seed in both
            ]
        )

    def by_document(self, fmt: str, other: str, measure: str = "after") -> Difference | None:
        """How much larger the loss of unseen documents is, with the spread over documents."""
        differences = self.more_than(fmt, other, measure)
        return spread(differences.mean(axis=0), 4) if len(differences) else None

    @property
    def above_mxsf(self) -> dict[str, Difference]:
        """How much larger than MXSF's the losses of other formats of eight bits are."""
        others = ("mxint8", "mxfp8_e4m3", "mxfp8_e2m5")
        found = {other: self.by_document(other, "mxsf") for other in others}
        return {other: one for other, one in found.items() if one is not None}

    @property
    def first(self) -> Mapping[str, Any]:
        """Numbers of float32 and the first seed."""
        return self.found["float32", self.seeds[0]]


def loss_rows(runs: Tunings) -> list[tuple[str, ...]]:
    """Losses of unseen documents, head first."""
    table: list[tuple[str, ...]] = [
        ("format", "seeds", "before", "above float32", "after", "above float32")
    ]
    for fmt in FORMATS:
        if not len(runs.of(fmt, "after")):
            continue
        row = [NAMES[fmt], str(len(runs.of(fmt, "after")))]
        for measure in ("before", "after"):
            row.append(f"{runs.of(fmt, measure).mean():.4f}")
            row.append("" if fmt == "float32" else str(runs.by_document(fmt, "float32", measure)))
        table.append(tuple(row))
    return table


def draw_losses(results: Results) -> Figure:
    """How far the loss of each step is from that of float32: means over seeds, and their range."""
    runs = Tunings(results)
    figure = figures.new_figure(7.0, 3.2)
    axes = figure.subplots()
    for fmt in FORMATS[1:]:
        differences = runs.more_than(fmt, "float32", "loss")
        if len(differences):
            steps = np.arange(1, differences.shape[1] + 1)
            colour = COLOURS[fmt]
            low, high = differences.min(axis=0), differences.max(axis=0)
            axes.fill_between(steps, low, high, color=colour, alpha=0.13)
            axes.plot(steps, differences.mean(axis=0), color=colour, label=NAMES[fmt])
    axes.axhline(0, color="#000000", linewidth=0.8)
    axes.set_xlabel("step")
    axes.set_ylabel("loss above that of float32")
    plain(axes, below="line")
    axes.legend(frameon=False, fontsize=9)
    return figure


def pictures(results: Results) -> dict[str, bytes]:
    """The picture of the section, by file name."""
    return {"evidence_tuning.svg": figures.render(draw_losses(results), ".svg")}
