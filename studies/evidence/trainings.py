"""Trainings compared, from results of `studies.evidence.training`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from studies.drawing import draw_band, plain
from studies.evidence.formats import NAMES
from studies.evidence.statistics import student

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Sequence[Mapping[str, Any]]

ARCHITECTURES = {"resnet18": "ResNet-18", "mobilenetv2": "MobileNetV2", "deit": "DeiT"}
FORMATS = ("float32", "mxint8", "mxfp8_e4m3", "mxfp8_e2m5", "mxsf")

PAPER = {
    "resnet18": (69.0, 56.9, 65.3, 62.2, 68.4),
    "mobilenetv2": (69.9, 31.1, 63.2, 46.2, 69.5),
    "deit": (67.2, 50.3, 65.4, 63.0, 66.7),
}
"""Its Table III: accuracy on ImageNet-1K in per cent, in the order of `FORMATS`."""

PAIRS = (
    ("float32", "mxsf"),
    ("mxsf", "mxfp8_e4m3"),
    ("mxfp8_e4m3", "mxfp8_e2m5"),
    ("mxfp8_e2m5", "mxint8"),
)
"""Neighbours in the paper's order, the better one first: the same order in all its networks."""

_NAMED_LAYER = "layer2.1.conv2"
"""Of ResNet-18: the layer of the paper's Fig. 2b."""


class Difference(NamedTuple):
    """A mean over seeds, and the 95 % interval of Student's t around it; one seed has none."""

    mean: float
    low: float
    high: float
    seeds: int
    digits: int = 2

    @property
    def verdict(self) -> str:
        """Return the verdict of the interval on something that should lie above zero."""
        if self.low > 0:
            return "confirmed"
        return "refuted" if self.high < 0 else "open"

    def __str__(self) -> str:
        mean, low, high = (f"{v:+.{self.digits}f}" for v in (self.mean, self.low, self.high))
        return mean if self.seeds < 2 else f"{mean} [{low}, {high}]"


def spread(values: NDArray[np.float64], digits: int = 2) -> Difference:
    """Mean and interval of differences, one a seed; and digits to print."""
    mean, half = student(values)
    return Difference(mean, mean - half, mean + half, len(values), digits)


def own_results(results: Results, part: str) -> Results:
    """Results of a part of the page, without those of the small subset."""
    return [
        result
        for result in results
        if result["name"].startswith(f"{part}/") and not result["name"].endswith("/quick")
    ]


class Trainings:
    """Results by architecture, format and seed.

    Parameters
    ----------
    results : sequence of Mapping
        Those of `studies.evidence.training` in any order, and others.
    """

    def __init__(self, results: Results) -> None:
        results = own_results(results, "training")
        self.found = {
            tuple(result["parameters"][key] for key in ("architecture", "format", "seed")): result
            for result in results
        }

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Parameters that all runs share, and others."""
        parameters: Mapping[str, Any] = next(iter(self.found.values()))["parameters"]
        return parameters

    def seeds(self, architecture: str, *formats: str) -> list[int]:
        """Seeds that were trained in all of some formats."""
        own = [
            {seed for name, fmt, seed in self.found if (name, fmt) == (architecture, wanted)}
            for wanted in formats
        ]
        return sorted(set.intersection(*own))

    @property
    def architectures(self) -> list[str]:
        """Architectures that have results."""
        return [name for name in ARCHITECTURES if any(key[0] == name for key in self.found)]

    def numbers(self, architecture: str, fmt: str, measure: str) -> list[Any]:
        """A measure of every seed."""
        seeds = self.seeds(architecture, fmt)
        return [self.found[architecture, fmt, seed]["numbers"][measure] for seed in seeds]

    def accuracies(self, architecture: str, fmt: str, seeds: Sequence[int]) -> NDArray[np.float64]:
        """Per cent after the last epoch, of some seeds."""
        runs = [self.found[architecture, fmt, seed]["numbers"] for seed in seeds]
        return np.array([100 * run["accuracy"][-1] for run in runs])

    def difference(self, architecture: str, better: str, worse: str) -> Difference:
        """How much more accurate one format is than another, of the seeds that have both."""
        seeds = self.seeds(architecture, better, worse)
        ours = self.accuracies(architecture, better, seeds)
        return spread(ours - self.accuracies(architecture, worse, seeds))


def _paper(architecture: str, fmt: str) -> float:
    return PAPER[architecture][FORMATS.index(fmt)]


def accuracy_rows(runs: Trainings) -> list[tuple[str, ...]]:
    """Accuracies, the paper's and ours, head first."""
    table: list[tuple[str, ...]] = [("network", "", *(NAMES[fmt] for fmt in FORMATS))]
    for name in runs.architectures:
        table.append(
            (ARCHITECTURES[name], "paper, ImageNet-1K", *(f"{v:.1f}" for v in PAPER[name]))
        )
        cells = []
        for fmt in FORMATS:
            values = runs.accuracies(name, fmt, runs.seeds(name, fmt))
            if not len(values):
                cells.append("")
            elif len(values) == 1:
                cells.append(f"{values[0]:.2f} (1)")
            else:
                cells.append(f"{values.mean():.2f} ± {values.std(ddof=1):.2f} ({len(values)})")
        table.append((ARCHITECTURES[name], "here, Fashion-MNIST", *cells))
    return table


def order_rows(runs: Trainings) -> list[tuple[str, ...]]:
    """The paper's orderings, and what is to be said of each, head first."""
    table: list[tuple[str, ...]] = [
        ("network", "the paper's order", "paper, points", "here, points", "order", "size")
    ]
    for name in runs.architectures:
        for better, worse in PAIRS:
            if not runs.seeds(name, better, worse):
                continue
            theirs = _paper(name, better) - _paper(name, worse)
            ours = runs.difference(name, better, worse)
            size = "open" if ours.low <= theirs <= ours.high else "refuted"
            table.append(
                (
                    ARCHITECTURES[name],
                    f"{NAMES[better]} > {NAMES[worse]}",
                    f"{theirs:+.1f}",
                    str(ours),
                    ours.verdict,
                    size,
                )
            )
    return table


def gradient_rows(runs: Trainings) -> list[tuple[str, ...]]:
    """Underflow and error of gradients after the last epoch, head first: means over seeds."""
    formats = FORMATS[1:]
    head = ("gradients of", *(NAMES[fmt] for fmt in formats))
    table: list[tuple[str, ...]] = [(*head[:1], "", *head[1:])]
    for name in runs.architectures:
        own = runs.numbers(name, "float32", "medians")
        if not own:
            continue
        rows = [(f"{ARCHITECTURES[name]}, median layer", [run[-1] for run in own])]
        if name == "resnet18":
            layers = runs.numbers(name, "float32", "layers")
            named = [{fmt: run[fmt][_NAMED_LAYER] for fmt in formats} for run in layers]
            rows.append((f"{ARCHITECTURES[name]}, {_NAMED_LAYER}", named))
        for title, found in rows:
            for place, label in enumerate(("underflow", "relative error")):
                values = [np.mean([run[fmt][place] for run in found]) for fmt in formats]
                table.append((title, label, *(f"{100 * value:.2f} %" for value in values)))
    return table


def _panels(runs: Trainings, rows: int, height: float) -> tuple[Figure, Any]:
    figure = figures.new_figure(1.0 + 3.3 * len(runs.architectures), height)
    panels = figure.subplots(rows, len(runs.architectures), squeeze=False)
    for axes, name in zip(panels[0], runs.architectures, strict=True):
        axes.set_title(ARCHITECTURES[name], loc="left", fontsize=10, fontweight="bold")
    for axes in panels.flat:
        plain(axes)
    return figure, panels


def _legend(figure: Figure, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)


def draw_curves(results: Results) -> Figure:
    """Test errors and training losses by epoch, a column a network: the paper's Figs. 1d and 2a."""
    runs = Trainings(results)
    figure, panels = _panels(runs, 2, 5.2)
    for column, name in enumerate(runs.architectures):
        for fmt in FORMATS:
            for row, (measure, sign) in enumerate((("accuracy", -100), ("training_loss", 1))):
                curves = runs.numbers(name, fmt, measure)
                if curves:
                    values = sign * np.array(curves) + (100 if sign < 0 else 0)
                    epochs = range(1, values.shape[1] + 1)
                    draw_band(panels[row, column], list(epochs), values, fmt, NAMES[fmt])
        panels[1, column].set_xlabel("epoch")
        for axes in panels[:, column]:
            axes.locator_params(axis="x", integer=True)
    panels[0, 0].set_ylabel("test images misjudged, %")
    panels[1, 0].set_ylabel("training loss")
    _legend(figure, panels[0, 0])
    return figure


def draw_underflow(results: Results) -> Figure:
    """Underflow of gradients by layer, first layer first: of results, and of weights."""
    runs = Trainings(results)
    figure, panels = _panels(runs, 2, 5.2)
    for column, name in enumerate(runs.architectures):
        for row, measure in enumerate(("layers", "weights")):
            found = runs.numbers(name, "float32", measure)
            layers = [] if not found else list(found[0]["mxsf"])
            if measure == "layers":  # in the order of the backward pass
                layers.reverse()
            for fmt in FORMATS[1:] if found else ():
                rows = np.array([[100 * run[fmt][layer][0] for layer in layers] for run in found])
                places = range(1, len(layers) + 1)
                draw_band(panels[row, column], places, rows, fmt, NAMES[fmt])
            panels[row, column].set_ylim(0, None)
        panels[1, column].set_xlabel("layer")
    panels[0, 0].set_ylabel("gradients by results\nthat become 0, %")
    panels[1, 0].set_ylabel("gradients by weights\nthat become 0, %")
    _legend(figure, panels[0, 0])
    return figure


def pictures(results: Results) -> dict[str, bytes]:
    """The pictures of the section, by file name."""
    return {
        "evidence_training.svg": figures.render(draw_curves(results), ".svg"),
        "evidence_underflow.svg": figures.render(draw_underflow(results), ".svg"),
    }


def averages(runs: Trainings) -> list[tuple[str, Difference, float]]:
    """How much MXSF is better over all networks: than what, here, and in the paper."""
    found = []
    for worse in ("mxfp8_e4m3", "mxfp8_e2m5"):
        seeds = set.intersection(*(set(runs.seeds(name, "mxsf", worse)) for name in ARCHITECTURES))
        if not seeds:
            continue
        chosen = sorted(seeds)
        values = np.mean(
            [
                runs.accuracies(name, "mxsf", chosen) - runs.accuracies(name, worse, chosen)
                for name in ARCHITECTURES
            ],
            axis=0,
        )
        theirs = np.mean([_paper(name, "mxsf") - _paper(name, worse) for name in ARCHITECTURES])
        found.append((worse, spread(values), float(theirs)))
    return found


def largest_losses(runs: Trainings) -> dict[str, Any]:
    """The most that a format loses, here and in the paper, and MXINT8's largest underflow."""
    lost = [
        (runs.difference(name, "float32", fmt).mean, name, fmt)
        for name in runs.architectures
        for fmt in FORMATS[1:]
        if runs.seeds(name, "float32", fmt)
    ]
    theirs = [
        (_paper(name, "float32") - _paper(name, fmt), name, fmt)
        for name in runs.architectures
        for fmt in FORMATS[1:]
    ]
    found = [
        np.mean([run[-1]["mxint8"][0] for run in runs.numbers(name, "float32", "medians")])
        for name in runs.architectures
        if runs.seeds(name, "float32")
    ]
    if not lost:
        return {}
    return {"here": max(lost), "paper": max(theirs), "underflow": max(found)}


def underflow_order(runs: Trainings) -> dict[str, int]:
    """In how many layers the formats are in the paper's order, and E4M3 has the largest error."""
    order = ("mxint8", "mxfp8_e2m5", "mxsf", "mxfp8_e4m3")
    held = coarsest = layers = 0
    for name in runs.architectures:
        for run in runs.numbers(name, "float32", "layers"):
            for layer in run["mxsf"]:
                shares, errors = zip(*(run[fmt][layer] for fmt in order), strict=True)
                held += shares == tuple(sorted(shares, reverse=True))
                coarsest += errors[-1] == max(errors)
                layers += 1
    return {"held": held, "coarsest": coarsest, "layers": layers}
