"""The page on training, its pictures and tables, from what `studies.training.comparison` recorded.

``python -m studies.training.page`` writes it anew from the numbers kept, ``docs/training.json``.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from mxsafe.analysis.errors import block_name
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from studies.prose import wrapped
from studies.training.comparison import EIGHT_BITS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DOCS", "accuracy_rows", "draw_curves", "draw_weights", "files", "page", "weight_rows"]

DOCS = Path(__file__).parents[2] / "docs"

Record = Mapping[str, Any]
"""What `studies.training.comparison.record` returns."""
Kind = tuple[str, str]
"""Format and arithmetic."""

_FLOAT32: Kind = ("float32", "float32")
# Okabe and Ito's colours, those of the formats in the other pictures.
_COLOURS = {
    "float32": "#000000",
    "mxsf": "#0072b2",
    "mxfp8_e2m5": "#e69f00",
    "mxfp8_e4m3": "#009e73",
    "mxint8": "#d55e00",
}


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


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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


def settings_line(experiment: Record) -> str:
    """What was learnt, and how, in a sentence."""
    setting = experiment["setting"]
    heads = len(setting["weights"])
    block = setting["block"]
    optimiser = setting["optimiser"]
    rule = (
        f"SGD with a rate of {optimiser['rate']:g} and a momentum of {optimiser['momentum']:g}"
        if optimiser["name"] == "Optimiser"
        else f"Adam with a rate of {optimiser['rate']:g}"
    )
    seeds = len(runs_of(experiment)[_FLOAT32])
    return (
        f"{setting['data']}{', two side by side' if heads == 2 else ''}, hidden layers of "
        f"{', '.join(map(str, setting['hidden']))}, blocks of "
        f"{block_name(block if isinstance(block, int) else tuple(block))}, batches of "
        f"{setting['batch']}, {_counted(setting['epochs'], 'epoch')}, {rule}, "
        f"{_counted(seeds, 'seed')}"
    )


def _new_panels(rows: int, columns: int, width: float, height: float) -> tuple["Figure", Any]:
    figure = figures.new_figure(width, height)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey="row")
    for axes in panels.flat:
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, panels


def _draw_band(
    axes: Any, places: Sequence[float], values: NDArray[np.float64], name: str, marker: str = ""
) -> None:
    """A line through the means of the columns, within a band from the least to the most."""
    colour = _COLOURS[name]
    axes.fill_between(places, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.13)
    axes.plot(
        places,
        values.mean(axis=0),
        color=colour,
        linewidth=1.6,
        linestyle=(0, (2, 1.5)) if name == "float32" else "-",
        marker=marker,
        markersize=4,
        label=name,
        zorder=4 if name == "float32" else 3,
    )


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
            if own not in (arithmetic, "float32") or name not in _COLOURS:
                continue
            for axes, (measure, _, seen) in zip(panels[:, column], _CURVES, strict=True):
                if (name, measure) != ("float32", "underflow"):
                    _draw_band(axes, epochs, seen(np.array([run[measure] for run in runs])), name)
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
        _draw_band(left, places, values["accuracy"], kind[0], marker="o")
        if kind != _FLOAT32:
            _draw_band(right, places, values["underflow"], kind[0], marker="o")
    for axes, label, top in (
        (left, "second digit: test accuracy", 1.0),
        (right, "underflow of gradients, last epoch", 0.5),
    ):
        axes.set_xticks(places, [_power(weight) for weight in weights], fontsize=8)
        axes.set_xlabel("weight of the second digit's loss")
        axes.set_ylabel(label)
        axes.set_ylim(0.0, top)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    left.legend(frameon=False, loc="lower left", fontsize=9)
    return figure


_OWN_PAGE = """\
# {title}

{settings}.

{table}

![Test errors, losses and underflow by epoch](training.svg)
"""

_PAGE = """\
# A network that learns

`python -m studies.training` (`make train`) wrote this page; the numbers are in
[training.json](training.json). A multi-layer perceptron learns real
[handwritten digits](../verif/support/data/digits/README.md), 1,437 to train on and 360 to test
with.

Each layer has three matrix products in a step: `X W` forward, `dY W^T` backward, and `X^T dY` for
the weights. All of them are those of the array, bit for bit (`mxsafe.matmul`). Inputs, weights and
gradients are quantised once a step, in tiles of 8x8, and the same codes serve both ways (paper,
Fig. 4b). Biases, activation (ReLU), softmax, gradients of weights, updates and the master weights
are float32. Testing uses the products of training.

`dY` are the gradients by the outputs of each layer before the activation. *Underflow* is the share
of their elements that are not zero and become zero when they are quantised, over all layers and
steps of an epoch. *Its magnitude* is the sum of the magnitudes of these elements over that of all
elements. Spreads are standard deviations over the seeds; those of differences are over pairs with
the same seed. `python -m studies.training --help` lists other settings and images.

## Where formats do not differ

Three layers ({shallow}):

{shallow_table}

Seven layers ({deep}):

{deep_table}

![Test errors, losses and underflow by epoch](training.svg)

Lines are means over the seeds; bands reach from the least to the most. One test image is 0.28
points. **With eight bits this task hardly tells a format from float32.** In three layers all means
lie within {shallow_gap:.1f} points of it, in seven within {deep_gap:.1f}. That is less than the
largest spread of such a difference over the seeds. No order of the formats holds in both networks
and both arithmetics, and FP12 sums do as well as exact ones. Six bits cost at most
{six_shallow:.1f} and {six_deep:.1f} points, four bits {four_shallow:.1f} and {four_deep:.1f}.

Underflow is as the paper found it for ResNet-18 (section III-B): MXINT8 and E2M5 have most of it,
E4M3 has least, MXSF lies between. It grows as the network learns. The gradients of an image that
has been learnt vanish, and fall far below those of other images in the same tile. Underflow does no
harm here, and it takes away little: MXINT8 zeroes {int8_underflow:.0f} % of the elements in the
last epoch of three layers, which hold {int8_magnitude:.1f} % of the magnitude. In the worst tile,
63 of the 64 elements are just below what the format keeps. There MXINT8 would take away a third of
the magnitude, E2M5 a fifth and MXSF a 66th.

Dividing by the size of the batch, or scaling the loss, changes no code as long as the factor is a
power of two, since each tile has its own scale. So small gradients alone are no trouble for a block
format; small gradients beside large ones are.

The paper's networks lose much on ImageNet (Table III: up to 39 points with MXINT8). A perceptron on
digits can neither confirm nor refute that.

## Where range decides

This task has small gradients beside large ones, and the small ones matter. It shows two digits side
by side, with ten outputs for each. The loss of the second digit has a small weight, as auxiliary
losses do. Adam divides by the size of the gradients, so that float32 learns the second digit too.
The arithmetic is exact; {heads}. Test accuracy of the second digit:

{weight_table}

The last column is the accuracy of the first digit in the format that does worst.

![Accuracy of the second digit by the weight of its loss](training_weights.svg)

The outputs of both digits share tiles, in which the gradients of the second are smaller by the
weight. Each format follows float32 as far as its range reaches, and then falls: **MXINT8 from 2^-6
on, E2M5 from 2^-8, MXSF from 2^-12, E4M3 not at all**. Rounding to nearest, they keep what is more
than 2^-7, 2^-8, 2^-12 and 2^-18 of the power of two at or below the largest element of the tile.
The elements that are lost here are those that should be learnt, though they are a small share of
all (right). So underflow alone does not tell whether it does harm. Four of the second digit's ten
outputs lie in a tile of their own, with its own scale, so every format still learns something. The
first digit does not suffer. float32 falls too, because the first digit shapes the hidden layer.

So MXSF has 4 binades more than E2M5 for small gradients, with E2M5's mantissa for large ones, as it
was designed to. E4M3 reaches further still, and nothing on this page needs a longer mantissa than
its own. Formats cannot be ranked for large networks from here.
"""


def page(record: Record, *, standard: bool = True) -> str:
    """The page as Markdown.

    Parameters
    ----------
    record : Mapping
        What `studies.training.comparison.record` returns.
    standard : bool
        Whether the experiments are `studies.training.comparison.STANDARD`, which the page's prose
        is about; of others, of which the first counts, it has table and picture alone.
    """
    experiments = record["experiments"]
    if not standard:
        return _OWN_PAGE.format(
            title=experiments[0]["title"],
            settings=settings_line(experiments[0]),
            table=markdown(accuracy_rows(experiments[0]), labels=2),
        )
    networks, heads = split(record)
    int8 = runs_of(networks[0])["mxint8", "exact"]
    bits: dict[str, float] = {}
    for network, depth in zip(networks, ("shallow", "deep"), strict=True):
        points = {name: -value for (name, _), value in points_above_float32(network).items()}
        bits[f"six_{depth}"] = max(points["mxfp6_e3m2"], points["mxfp6_e2m3"])
        bits[f"four_{depth}"] = points["mxfp4_e2m1"]
    text = _PAGE.format(
        shallow=settings_line(networks[0]),
        deep=settings_line(networks[1]),
        shallow_table=markdown(accuracy_rows(networks[0]), labels=2),
        deep_table=markdown(accuracy_rows(networks[1]), labels=2),
        shallow_gap=largest_gap(networks[0]),
        deep_gap=largest_gap(networks[1]),
        **bits,
        int8_underflow=100 * last(int8, "underflow").mean(),
        int8_magnitude=100 * last(int8, "lost").mean(),
        heads=settings_line(heads[0]),
        weight_table=markdown(weight_rows(heads)),
    )
    return wrapped(text)


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


def pictures(record: Record) -> dict[str, "Figure"]:
    """The pictures of the page by file name."""
    one, two = split(record)
    drawn = {"training.svg": draw_curves(one)}
    return drawn | ({"training_weights.svg": draw_weights(two)} if two else {})


def _text(record: Record) -> str:
    """JSON with a line for each run."""
    experiments = []
    for experiment in record["experiments"]:
        head = json.dumps({"title": experiment["title"], "setting": experiment["setting"]})
        runs = ",\n".join(json.dumps(run, separators=(",", ":")) for run in experiment["runs"])
        experiments.append(f'{head[:-1]}, "runs": [\n{runs}\n]}}')
    joined = ",\n".join(experiments)
    return f'{{"numpy": {json.dumps(record["numpy"])}, "experiments": [\n{joined}\n]}}\n'


def files(record: Record, *, standard: bool = True) -> dict[str, bytes]:
    """The page, its pictures and its numbers by file name."""
    written = {
        "training.json": _text(record).encode(),
        "training.md": page(record, standard=standard).encode(),
    }
    return written | {
        name: figures.render(figure, ".svg") for name, figure in pictures(record).items()
    }


def main() -> None:
    """Write the page and its pictures from the numbers kept."""
    write_together(DOCS, files(json.loads((DOCS / "training.json").read_text())))


if __name__ == "__main__":
    main()
