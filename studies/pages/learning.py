"""A transformer that learns, from ``docs/learning.json``, which `studies.learning` measures."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.analysis import figures
from mxsafe.formats import MX_FORMATS
from studies.drawing import COLOURS, plain
from studies.evidence.statistics import student
from studies.pages import kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]
"""Result of `studies.learning.record`."""
Kind = tuple[str, str]
"""Engine and format."""

_FLOAT32: Kind = ("float32", "float32")
_MORE_COLOURS = {**COLOURS, "mxfp4_e2m1": "#cc79a7"}


def runs_of(record: Record) -> dict[Kind, list[Record]]:
    """Trainings by engine and format, each list in the order of the seeds."""
    found: dict[Kind, list[Record]] = {}
    for run in record["runs"]:
        found.setdefault((run["engine"], run["format"]), []).append(run)
    return found


def last(record: Record) -> int:
    """How many steps at the end count: a half."""
    return max(int(record["setting"]["steps"]) // 2, 1)


def loss_differences(record: Record, kind: Kind, base: Kind = _FLOAT32) -> NDArray[np.float64]:
    """Losses less those of another kind at the same step of the same seed, over the last steps.

    Returns
    -------
    ndarray of float64
        Of each seed their mean; of one seed those of all steps.
    """
    kinds = runs_of(record)
    count = last(record)
    found = np.array([run["losses"][-count:] for run in kinds[kind]])
    less = found - np.array([run["losses"][-count:] for run in kinds[base]])
    return less[0] if len(less) == 1 else less.mean(axis=1)


def accuracy_differences(record: Record, kind: Kind, base: Kind = _FLOAT32) -> NDArray[np.float64]:
    """Accuracies less those of another kind of the same seed, in points."""
    kinds = runs_of(record)
    found, less = (np.array([run["accuracy"] for run in kinds[one]]) for one in (kind, base))
    return 100 * (found - less)


def parted(record: Record) -> list[str]:
    """Formats of models whose loss differs from float32's by more than the interval."""
    found = []
    for kind in runs_of(record):
        mean, half = student(loss_differences(record, kind))
        if kind[0] == "model" and abs(mean) > half:
            found.append(kind[1])
    return found


def rows(record: Record) -> list[tuple[str, ...]]:
    """Each kind beside float32, head first; two columns of words."""
    kinds = runs_of(record)
    table: list[tuple[str, ...]] = [
        (
            "arithmetic",
            "format",
            "loss, last half",
            "more than float32",
            "more than microscaling",
            "test accuracy",
            "more than float32, points",
            "more than microscaling, points",
        )
    ]
    for kind, runs in kinds.items():
        count = last(record)
        loss = np.mean([run["losses"][-count:] for run in runs])
        losses, points = [], []
        for other in (_FLOAT32, ("microscaling", kind[1])):
            known = other in kinds and other != kind
            losses.append(_shown(loss_differences(record, kind, other), ".4f") if known else "")
            points.append(_shown(accuracy_differences(record, kind, other), ".2f") if known else "")
        right = 100 * np.mean([run["accuracy"] for run in runs])
        table.append((*kind, f"{loss:.4f}", *losses, f"{right:.2f} %", *points))
    return table


def _shown(differences: NDArray[np.float64], form: str) -> str:
    mean, half = student(differences)
    return f"{mean:+{form}} ± {half:{form}}" if 0 < half < math.inf else f"{mean:+{form}}"


def widest(record: Record) -> float:
    """The widest interval of the accuracies of models beside float32's, in points."""
    return 2 * max(student(one)[1] for one in _accuracies(record))


def wanted(record: Record) -> int:
    """Seeds of which these intervals would be a point wide, if they have the spread of those."""
    spread = max(float(one.std(ddof=1)) for one in _accuracies(record))
    return math.ceil((2 * 1.96 * spread) ** 2)


def _accuracies(record: Record) -> list[NDArray[np.float64]]:
    kinds = (kind for kind in runs_of(record) if kind[0] == "model")
    return [accuracy_differences(record, kind) for kind in kinds]


def _measure(setting: str) -> str:
    """Which loss is compared in a setting."""
    return "second" if setting in ("beside", "far") else "loss"


def of_setting(record: Record, setting: str) -> dict[str, NDArray[np.float64]]:
    """By format what is compared, of each seed."""
    name = _measure(setting)
    found: dict[str, list[float]] = {}
    for run in record["apart"]:
        if run["setting"] == setting:
            found.setdefault(run["format"], []).append(run[name])
    return {format: np.array(numbers) for format, numbers in found.items()}


def apart_rows(record: Record) -> list[tuple[str, ...]]:
    """Formats in the other settings: what is compared, and how far from float32; head first."""
    names = list(dict.fromkeys(run["setting"] for run in record["apart"]))
    kinds = {name: of_setting(record, name) for name in names}
    table = [("format", *(f"`{name}`" for name in names))]
    for format in dict.fromkeys(run["format"] for run in record["apart"]):
        cells = []
        for name in names:
            own, base = kinds[name][format], kinds[name]["float32"]
            more = "" if format == "float32" else f" ({_shown(own - base, '.4f')})"
            cells.append(f"{own.mean():.4f}{more}")
        table.append((format, *cells))
    return table


def apart_pairs(record: Record) -> dict[str, list[str]]:
    """Of each of the other settings the pairs of formats of eight bits that part, and how far."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(run["setting"] for run in record["apart"]):
        kinds = of_setting(record, name)
        eight = [format for format in kinds if format not in ("float32", "mxfp4_e2m1")]
        found[name] = []
        for one, other in combinations(eight, 2):
            mean, half = student(kinds[one] - kinds[other])
            if abs(mean) > half:
                found[name].append(f"{one} from {other}")
    return found


def values(record: Record | None = None) -> dict[str, Any]:
    """Return the values of the page's template.

    Parameters
    ----------
    record : Mapping, optional
        By default what is kept.
    """
    record = kept("learning") if record is None else record
    kinds = runs_of(record)
    apart = record["apart"]
    return {
        **record,
        "seeds": len(kinds[_FLOAT32]),
        "formats": [name for engine, name in kinds if engine == "model"],
        "rows": rows(record),
        "last": last(record),
        "parted": parted(record),
        "widest": widest(record),
        "wanted": wanted(record) if len(kinds[_FLOAT32]) > 1 else 0,
        "first_loss": float(np.mean([run["losses"][0] for run in kinds[_FLOAT32]])),
        "apart_rows": apart_rows(record) if apart else [],
        "apart_pairs": apart_pairs(record),
        "apart_sizes": {run["setting"]: (run["steps"], 1 + run["seed"]) for run in apart},
        "replay_rows": _replay_rows(record),
        "lost": {name: lost_below(name) for name in ("mxint8", "mxfp8_e2m5", "mxsf", "mxfp8_e4m3")},
    }


def lost_below(name: str) -> int:
    """Power of two of the largest element's binade up to which an element becomes 0."""
    element = MX_FORMATS[name].element
    return element.quantum_exponent - 1 - element.emax


def _replay_rows(record: Record) -> list[tuple[str, ...]]:
    """Which steps were replayed, head first."""
    table: list[tuple[str, ...]] = [
        ("format", "steps", "images of a step", "descriptors", "numbers compared")
    ]
    for one in record["replays"]:
        steps = ", ".join(map(str, one["steps"]))
        sizes = (f"{one[name]:,}" for name in ("batch", "descriptors", "numbers"))
        table.append((one["format"], steps, *sizes))
    return table


def smoothed(losses: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Means of so many neighbours along the last axis; shorter by one less than these."""
    sums = np.cumsum(np.pad(losses, [(0, 0)] * (losses.ndim - 1) + [(1, 0)]), axis=-1)
    return (sums[..., width:] - sums[..., :-width]) / width


def draw(record: Record) -> "Figure":
    """Draw losses by step, and how far they are from float32's."""
    kinds = runs_of(record)
    width = max(int(record["setting"]["steps"]) // 10, 1)
    figure = figures.new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2)
    base = np.array([run["losses"] for run in kinds[_FLOAT32]])
    for (engine, name), runs in kinds.items():
        losses = np.array([run["losses"] for run in runs])
        by_model = engine != "microscaling"
        style = {
            "color": _MORE_COLOURS[name],
            "linewidth": 1.4 if by_model else 1,
            "linestyle": "-" if by_model else (0, (2, 1.5)),
        }
        for axes, seen in ((left, losses), (right, losses - base)):
            if (axes is left and by_model) or (axes is right and engine != "float32"):
                curve = smoothed(seen, width).mean(axis=0)
                label = name if by_model else None
                axes.plot(np.arange(len(curve)) + (width + 1) / 2, curve, label=label, **style)
    right.plot([], [], color="#666666", linewidth=1, linestyle=(0, (2, 1.5)), label="microscaling")
    left.set_ylabel("training loss")
    right.set_ylabel("loss more than float32")
    for axes in (left, right):
        axes.set_xlabel("step")
        plain(axes)
    known: dict[str, Any] = {}
    for axes in (left, right):
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    figure.legend(
        known.values(), known, loc="outside upper center", ncols=4, frameon=False, fontsize=9
    )
    return figure


def pictures(record: Record | None = None) -> dict[str, bytes]:
    """The picture of the page by file name."""
    figure = draw(kept("learning") if record is None else record)
    return {"learning.svg": figures.render(figure, ".svg")}
