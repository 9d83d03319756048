"""The part of the page on fine-tuning, from results of `studies.evidence.tuning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from mxsafe.analysis.report import markdown
from studies.evidence.formats import NAMES
from studies.evidence.training_page import COLOURS, FORMATS, Difference, own_results, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_losses", "pictures", "section"]

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


def _orders(runs: Tunings) -> str:
    """Whether MXSF is best, and E2M5 as good as the paper says."""
    found = {
        other: difference
        for other in ("mxint8", "mxfp8_e4m3", "mxfp8_e2m5")
        if (difference := runs.by_document(other, "mxsf")) is not None
    }
    told = ", ".join(
        f"{NAMES[other]} {difference} ({difference.verdict})" for other, difference in found.items()
    )
    paper = "In the paper MXSF is slightly better than the other formats, and E2M5 does well too."
    if not found:
        return paper
    return f"{paper} Here the loss of the others after tuning lies above that of MXSF by: {told}."


def _underflow(runs: Tunings) -> str:
    first = runs.found["float32", runs.seeds[0]]
    told = {
        kind: ", ".join(f"{NAMES[fmt]} {100 * first[kind][fmt][0]:.2f} %" for fmt in FORMATS[1:])
        for kind in ("layers", "weights")
    }
    return (
        "Of the gradients at the first step these shares become zero, in the median layer: by "
        f"results of layers, {told['layers']}; by weights, {told['weights']}."
    )


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
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


def pictures(results: Results) -> dict[str, bytes]:
    """The picture of the section, by file name."""
    return {"evidence_tuning.svg": figures.render(draw_losses(results), ".svg")}


_SECTION = """\
## Fine-tuning (Fig. 6)

The paper tunes nanoVLM-222M, whose language model is SmolLM2-135M. Here SmolLM2-135M-Instruct (its
4-bit file, taken as float32) goes on to learn from news: {steps} documents of gensim's Lee
background corpus, {tokens} tokens of each, one a step, all parameters, AdamW with a rate of 5e-5
and cosine decay. All products, forward and backward, go through the format in tiles of 8 x 8. It is
tested on {documents} other documents of that corpus, in the format it learns in. That is much less
than the paper did, and another task.

The loss is the mean negative logarithm of a token's likelihood, differences are paired by document:
mean over the seeds [95 % interval of Student's t over documents]. How far seeds lie apart is not in
the interval.

{table}

{orders}

{underflow}

![Loss of each step above that of float32](evidence_tuning.svg)
"""


def section(results: Results) -> str:
    """The section of the page, in Markdown.

    Parameters
    ----------
    results : sequence of Mapping
        Those of `studies.evidence.tuning`, of which some may be missing but not all of float32, and
        others.
    """
    runs = Tunings(results)
    return _SECTION.format(
        **{key: runs.parameters[key] for key in ("steps", "tokens", "documents")},
        table=markdown(loss_rows(runs)),
        orders=_orders(runs),
        underflow=_underflow(runs),
    )
