"""A network that learns, from ``docs/training.json``, which `studies.training` measures."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from mxsafe.analysis.errors import block_name
from studies.drawing import COLOURS, draw_band, plain
from studies.pages import kept
from studies.training.comparison import EIGHT_BITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""Result of `studies.training.comparison.record`."""
Kind = tuple[str, str]
"""Format and arithmetic."""

_FLOAT32: Kind = ("float32", "float32")


def runs_of(experiment: Record) -> dict[Kind, list[Record]]:
    """Runs by format and arithmetic, each list in the order of the seeds."""
    found: dict[Kind, list[Record]] = {}
    for run in experiment["runs"]:
        found.setdefault((run["format"], run["arithmetic"]), []).append(run)
    return found


def last(runs: Sequence[Record], measure: str, epoch: int = -1) -> NDArray[np.float64]:
    """A measure of the last epoch, or of another, by seed."""
    return np.array([run[measure][epoch] for run in runs])


def _mean(values: NDArray[np.float64], form: str) -> str:
    """Mean and sample standard deviation; of one value there is none."""
    mean = f"{values.mean():{form}}"
    return f"{mean} ± {values.std(ddof=1):{form.lstrip('+')}}" if len(values) > 1 else mean


def accuracy_rows(experiment: Record) -> list[tuple[str, ...]]:
    """How good each format is at the end, head first; two columns of words."""
    kinds = runs_of(experiment)
    base = last(kinds[_FLOAT32], "accuracy")
    table: list[tuple[str, ...]] = [
        (
            "format",
            "arithmetic",
            "test accuracy",
            "more than float32, points",
            "test loss",
            "training loss",
            "underflow, first epoch",
            "last epoch",
            "its magnitude",
        )
    ]
    for (name, arithmetic), runs in kinds.items():
        right = last(runs, "accuracy")
        more = 100 * (right - base)
        cells = [f"{_mean(100 * right, '.2f')} %"]
        cells.append("" if name == "float32" else _mean(more, "+.2f"))
        cells += [f"{last(runs, 'loss').mean():.3f}", f"{last(runs, 'train_loss').mean():.4f}"]
        if name == "float32":
            cells += ["", "", ""]
        else:
            cells += [f"{last(runs, 'underflow', epoch).mean():.1%}" for epoch in (0, -1)]
            cells.append(f"{last(runs, 'lost').mean():.3%}")
        table.append((name, "" if name == "float32" else arithmetic, *cells))
    return table


def weight_rows(experiments: Sequence[Record]) -> list[tuple[str, ...]]:
    """Accuracy of the second head by the weight of its loss, head first."""
    kinds = runs_of(experiments[0])
    table: list[tuple[str, ...]] = [("weight", *(name for name, _ in kinds), "first digit, least")]
    for experiment in experiments:
        runs = runs_of(experiment)
        cells = []
        for kind in kinds:
            right = 100 * last(runs[kind], "accuracy")
            cells.append(f"{_mean(right, '.1f')} %")
        first = min(last(own, "first_accuracy").mean() for own in runs.values())
        table.append((_power(experiment["setting"]["weights"][-1]), *cells, f"{first:.1%}"))
    return table


def _power(value: float) -> str:
    exponent = round(math.log2(value))
    return "1" if exponent == 0 else f"2^{exponent}"


def _new_panels(rows: int, columns: int, width: float, height: float) -> tuple["Figure", Any]:
    figure = figures.new_figure(width, height)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey="row")
    for axes in panels.flat:
        plain(axes)
    return figure, panels


_CURVES: tuple[tuple[str, str, Callable[[NDArray[np.float64]], NDArray[np.float64]]], ...] = (
    ("accuracy", "test images misjudged", lambda values: 1 - values),
    ("train_loss", "training loss", lambda values: values),
    ("underflow", "underflow of gradients", lambda values: values),
)


def draw_curves(experiments: Sequence[Record]) -> "Figure":
    """Draw errors, losses and underflow by epoch: a column an experiment and arithmetic.

    Formats of eight bits alone, beside float32; a line is the mean over the seeds, a band reaches
    from the least to the most.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    columns = [
        (experiment, arithmetic)
        for experiment in experiments
        for arithmetic in dict.fromkeys(a for _, a in runs_of(experiment) if a != "float32")
    ]
    if not columns:
        raise ValueError("experiments must not be empty")
    figure, panels = _new_panels(len(_CURVES), len(columns), 1.2 + 2.9 * len(columns), 7.6)
    for column, (experiment, arithmetic) in enumerate(columns):
        epochs = list(range(1, experiment["setting"]["epochs"] + 1))
        for (name, own), runs in runs_of(experiment).items():
            if own not in (arithmetic, "float32") or name not in COLOURS:
                continue
            for axes, (measure, _, seen) in zip(panels[:, column], _CURVES, strict=True):
                if (name, measure) != ("float32", "underflow"):
                    draw_band(axes, epochs, seen(np.array([run[measure] for run in runs])), name)
        panels[0, column].set_title(
            f"{experiment['title']}, {arithmetic}", loc="left", fontsize=10, fontweight="bold"
        )
        panels[-1, column].set_xlabel("epoch")
    for axes, (measure, label, _) in zip(panels[:, 0], _CURVES, strict=True):
        axes.set_ylabel(label)
        if measure == "train_loss":
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        if measure == "accuracy":
            axes.set_ylim(0.0, 0.2)
    panels[0, 0].locator_params(axis="x", integer=True)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
    return figure


def draw_weights(experiments: Sequence[Record]) -> "Figure":
    """Draw the second head's accuracy, and the underflow, against the weight of its loss.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not experiments:
        raise ValueError("experiments must not be empty")
    weights = [experiment["setting"]["weights"][-1] for experiment in experiments]
    places = [-math.log2(weight) for weight in weights]
    figure = figures.new_figure(9.0, 4.0)
    left, right = figure.subplots(1, 2)
    for kind in runs_of(experiments[0]):
        values = {
            measure: np.array([last(runs_of(e)[kind], measure) for e in experiments]).T
            for measure in ("accuracy", "underflow")
        }
        draw_band(left, places, values["accuracy"], kind[0], marker="o", markersize=4)
        if kind != _FLOAT32:
            draw_band(right, places, values["underflow"], kind[0], marker="o", markersize=4)
    for axes, label, top in (
        (left, "second digit: test accuracy", 1.0),
        (right, "underflow of gradients, last epoch", 0.5),
    ):
        axes.set_xticks(places, [_power(weight) for weight in weights], fontsize=8)
        axes.set_xlabel("weight of the second digit's loss")
        axes.set_ylabel(label)
        axes.set_ylim(0.0, top)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        plain(axes)
    left.legend(frameon=False, loc="lower left", fontsize=9)
    return figure


def values(record: Record | None = None, *, standard: bool = True) -> dict[str, Any]:
    """Return the values of the page's template.

    Parameters
    ----------
    record : Mapping, optional
        What `studies.training.comparison.record` returns; by default what is kept of that.
    standard : bool
        Whether the experiments are `studies.training.comparison.STANDARD`, which the page's prose
        is about; of others, of which the first counts, it has table and picture alone.
    """
    record = kept("training") if record is None else record
    common = {
        "standard": standard,
        "experiments": record["experiments"],
        "seeds": lambda experiment: len(runs_of(experiment)[_FLOAT32]),
        "block_name": lambda block: block_name(block if isinstance(block, int) else tuple(block)),
        "accuracy_rows": accuracy_rows,
    }
    if not standard:
        return common
    networks, heads = split(record)
    int8 = runs_of(networks[0])["mxint8", "exact"]
    return common | {
        "networks": networks,
        "heads": heads,
        "weight_rows": weight_rows,
        "largest_gap": largest_gap,
        "cost": [_cost(network) for network in networks],
        "int8": {
            "underflow": 100 * last(int8, "underflow").mean(),
            "magnitude": 100 * last(int8, "lost").mean(),
        },
    }


def _cost(network: Record) -> dict[str, float]:
    """The most points that formats of fewer bits cost."""
    points = {name: -value for (name, _), value in points_above_float32(network).items()}
    six = max(points["mxfp6_e3m2"], points["mxfp6_e2m3"])
    return {"six_bits": six, "four_bits": points["mxfp4_e2m1"]}


def points_above_float32(experiment: Record) -> dict[Kind, float]:
    """Mean test accuracy less that of float32, in points, by format and arithmetic."""
    kinds = runs_of(experiment)
    base = last(kinds[_FLOAT32], "accuracy").mean()
    return {
        kind: float(100 * (last(runs, "accuracy").mean() - base))
        for kind, runs in kinds.items()
        if kind != _FLOAT32
    }


def largest_gap(experiment: Record) -> float:
    """The largest distance from float32 of a format of eight bits, in points."""
    points = points_above_float32(experiment)
    return max(abs(value) for (name, _), value in points.items() if name in EIGHT_BITS)


def split(record: Record) -> tuple[list[Record], list[Record]]:
    """Experiments with one head, and those with two."""
    one = [e for e in record["experiments"] if len(e["setting"]["weights"]) == 1]
    return one, [e for e in record["experiments"] if len(e["setting"]["weights"]) == 2]


def pictures(record: Record | None = None) -> dict[str, bytes]:
    """The pictures of the page by file name."""
    one, two = split(kept("training") if record is None else record)
    drawn = {"training.svg": draw_curves(one)}
    if two:
        drawn["training_weights.svg"] = draw_weights(two)
    return {name: figures.render(figure, ".svg") for name, figure in drawn.items()}
