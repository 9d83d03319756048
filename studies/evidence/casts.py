"""Direct casts compared, from results of `studies.evidence.direct_cast`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mxsafe.analysis import figures
from studies.drawing import plain
from studies.evidence.formats import BLOCKS, FLOATS, MX, NAMES, Configuration, configurations
from studies.evidence.statistics import Interval, Measure, difference, interval, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Sequence[Mapping[str, Any]]
Table = list[tuple[str, ...]]

PAPER_FORMATS = ("float32", "mxint8", "mxfp8_e4m3", "mxfp8_e2m5", "mxsf")
PAPER = {
    "ResNet-18": (73.14, 73.15, 72.27, 73.14, 73.05),
    "MobileNetV2": (72.95, 72.48, 66.27, 72.51, 72.46),
    "MNv4-Conv-S": (74.58, 73.18, 61.80, 73.89, 73.60),
    "DeiT-B": (81.97, 81.91, 81.75, 81.95, 81.94),
    "Swin-T": (81.36, 81.35, 81.09, 81.32, 81.36),
    "EfficientViT-B3": (83.35, 82.69, 74.64, 83.04, 82.79),
    "FastViT-S12": (79.89, 77.91, 38.25, 79.00, 78.84),
    "Llama3.2-3B, BoolQ": (72.94, 72.42, 70.46, 72.78, 73.03),
    "Llama3.2-3B, ARC-e": (74.49, 74.71, 74.07, 74.33, 74.28),
    "Llama3.2-3B, ARC-c": (42.66, 42.41, 41.98, 42.06, 42.32),
    "Llama3.2-3B, WikiText2 perplexity": (9.27, 9.30, 9.36, 9.28, 9.28),
}
"""Its Table II, in the order of `PAPER_FORMATS`: accuracy in per cent, and a perplexity."""

STATEMENTS = (
    ("mxsf", "mxfp8_e4m3"),
    ("mxfp8_e2m5", "mxfp8_e4m3"),
    ("mxint8", "mxfp8_e4m3"),
    ("mxfp8_e2m5", "mxsf"),
    ("mxsf", "mxint8"),
)
"""The better and the worse format in most rows of that table."""


@dataclass(frozen=True)
class Kind:
    """Kind of measurement of a model.

    Attributes
    ----------
    title, task, unit : str
        What it is, what it is asked, and what the bootstrap draws.
    form : str
        Of the task's number.
    better : int
        1 where a larger number is the better one, else -1.
    number, error : Measure
        Of the task; and of what distinguishes formats where the task does not: the distance from
        float32.
    error_title : str
        What that is.
    """

    title: str
    task: str
    unit: str
    form: str
    better: int
    number: Measure
    error: Measure
    error_title: str


def _share(name: str, of: str) -> Measure:
    return lambda sums: 100 * sums[name] / sums[of]


def _mean(name: str, of: str) -> Measure:
    return lambda sums: sums[name] / sums[of]


_NOISE = _mean("noise", "signal")
_NOISE_TITLE = "noise over signal of the logits"


def _images(title: str) -> Kind:
    return Kind(
        title,
        "images judged as labelled, %",
        "200 images",
        ".2f",
        1,
        _share("right", "images"),
        _NOISE,
        _NOISE_TITLE,
    )


KINDS = {
    "smollm2": Kind(
        "SmolLM2-135M",
        "perplexity",
        "document",
        ".3f",
        -1,
        lambda sums: np.exp(sums["loss"] / sums["tokens"]),
        _mean("divergence", "tokens"),
        "divergence from float32's predictions, nat a token",
    ),
    "minilm-sentences": Kind(
        "MiniLM, sentences",
        "rank correlation with float32",
        "group of 16 sentences",
        ".4f",
        1,
        _mean("correlation", "groups"),
        _mean("turn", "groups"),
        "1 less the cosine to float32's vector",
    ),
    "minilm-words": Kind(
        "MiniLM, words",
        "rank correlation with people",
        "group of 35 pairs",
        ".4f",
        1,
        _mean("correlation", "groups"),
        lambda sums: 0 * sums["groups"],
        "",
    ),
    "efficientnet": Kind(
        "EfficientNet-Lite0",
        "crops judged as by float32, %",
        "photograph",
        ".1f",
        1,
        _share("same", "crops"),
        _NOISE,
        _NOISE_TITLE,
    ),
    "magika": Kind(
        "Magika",
        "files recognised, %",
        "suffix in a package",
        ".1f",
        1,
        _share("right", "files"),
        _NOISE,
        _NOISE_TITLE,
    ),
    "resnet18": _images("ResNet-18"),
    "mobilenetv2": _images("MobileNetV2"),
    "deit": _images("DeiT"),
}
"""By the names of `studies.evidence.direct_cast.MODELS`."""


class Casts:
    """Results by model and configuration."""

    def __init__(self, results: Results) -> None:
        self._found: dict[tuple[str, Configuration], Mapping[str, Any]] = {}
        for result in results:
            part, _, rest = result["name"].partition("/")
            if part == "direct-cast" and not rest.endswith("/quick"):
                given = result["parameters"]
                configuration = Configuration(given["format"], given["block"])
                self._found[rest.split("/")[0], configuration] = result["numbers"]

    @cached_property
    def models(self) -> list[str]:
        """Models that have results, in the order of `KINDS`."""
        return [name for name in KINDS if (name, Configuration("float32")) in self._found]

    @property
    def blocks(self) -> list[str]:
        """Kinds of blocks of which something has been measured."""
        return [
            block
            for block in BLOCKS
            if any((model, Configuration("mxsf", block)) in self._found for model in self.models)
        ]

    @property
    def networks(self) -> dict[str, str]:
        """Titles of those that `studies.evidence.training` has made."""
        return {n: KINDS[n].title for n in self.models if KINDS[n].unit == "200 images"}

    @property
    def planned(self) -> int:
        """How many results there may be."""
        return len(KINDS) * len(list(configurations()))

    @property
    def missing(self) -> int:
        """How many of them there are not."""
        return self.planned - len(self._found)

    def numbers(self, model: str, one: Configuration) -> Mapping[str, Any] | None:
        """A result, if it is there."""
        return self._found.get((model, one))

    def shown(self, model: str, one: Configuration, measure: Measure, form: str) -> str:
        """A measure of a result; nothing where there is no result."""
        numbers = self.numbers(model, one)
        return "" if numbers is None else f"{measured(numbers, measure):{form}}"

    def units(self, model: str) -> int:
        """How many the bootstrap draws from."""
        return len(self._found[model, Configuration("float32")]["rows"])

    def total(self, model: str, column: str) -> int:
        """The sum of a column in float32's result."""
        numbers = self._found[model, Configuration("float32")]
        return round(sum(row[numbers["columns"].index(column)] for row in numbers["rows"]))

    def better_by(self, model: str, pair: tuple[Configuration, Configuration]) -> Interval | None:
        """How much better the task's number of the first is, if both are there."""
        kind = KINDS[model]
        return self._compared(model, pair, lambda sums: kind.better * kind.number(sums))

    def nearer_by(self, model: str, pair: tuple[Configuration, Configuration]) -> Interval | None:
        """How much nearer to float32 the first is, if both are there and it is measured."""
        kind = KINDS[model]
        if not kind.error_title:
            return None
        return self._compared(model, pair, lambda sums: -kind.error(sums))

    def _compared(
        self, model: str, pair: tuple[Configuration, Configuration], measure: Measure
    ) -> Interval | None:
        first, second = (self.numbers(model, one) for one in pair)
        if first is None or second is None:
            return None
        return difference(first, second, measure)


def paper_rows() -> Table:
    """The paper's table, head first."""
    head = ("the paper's Table II", *(NAMES[name] for name in PAPER_FORMATS))
    return [head, *((title, *(f"{v:.2f}" for v in row)) for title, row in PAPER.items())]


def _columns(block: str) -> list[Configuration]:
    return [*map(Configuration, FLOATS), *(Configuration(name, block) for name in MX)]


def task_rows(casts: Casts, block: str) -> Table:
    """Return the score of each model on its task, head first."""
    columns = _columns(block)
    rows: Table = [("model", "measure", *(NAMES[one.format] for one in columns))]
    for model in casts.models:
        kind = KINDS[model]
        cells = (casts.shown(model, one, kind.number, kind.form) for one in columns)
        rows.append((kind.title, kind.task, *cells))
    return rows


def error_rows(casts: Casts, block: str) -> Table:
    """How far each model is from float32, head first."""
    columns = _columns(block)[1:]
    rows: Table = [("model", "measure", *(NAMES[one.format] for one in columns))]
    for model in casts.models:
        kind = KINDS[model]
        if kind.error_title:
            cells = (casts.shown(model, one, kind.error, ".2g") for one in columns)
            rows.append((kind.title, kind.error_title, *cells))
    return rows


_WORDS = {1: "yes", 0: "open", -1: "no"}

Comparison = Callable[[str, tuple[Configuration, Configuration]], Interval | None]


def order_rows(casts: Casts, block: str) -> Table:
    """Each statement of the paper against each model: by the task, and by the distance."""
    head = [NAMES[better] + " before " + NAMES[worse] for better, worse in STATEMENTS]
    rows: Table = [("model", *head)]
    for model in casts.models:
        cells = []
        for better, worse in STATEMENTS:
            pair = Configuration(better, block), Configuration(worse, block)
            found = [casts.better_by(model, pair), casts.nearer_by(model, pair)]
            cells.append(", ".join("-" if one is None else _WORDS[one.sign] for one in found))
        rows.append((KINDS[model].title, *cells))
    return rows


def loss_rows(casts: Casts) -> Table:
    """Return the loss of MXSF against other formats, in blocks of 64: with intervals."""
    one = Configuration("mxsf", "1x64")
    others = (*map(Configuration, FLOATS), Configuration("mxfp8_e2m5", "1x64"))
    rows: Table = [("model", "measure", *(f"MXSF less {NAMES[other.format]}" for other in others))]
    for model in casts.models:
        kind, cells = KINDS[model], []
        for other in others:
            first, second = casts.numbers(model, one), casts.numbers(model, other)
            if first is None or second is None:
                cells.append("")
                continue
            found = difference(first, second, kind.number)
            form = f"+{kind.form}"
            cells.append(f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]")
        rows.append((kind.title, kind.task, *cells))
    return rows


@dataclass(frozen=True)
class Tally:
    """How often an order is seen, of how many models, by one measure."""

    yes: int
    no: int
    open: int

    def __str__(self) -> str:
        if not self.yes + self.no + self.open:
            return "not measured"
        return f"{self.verdict}: yes {self.yes}, no {self.no}, open {self.open}"

    @property
    def verdict(self) -> str:
        """Return the verdict of the models together."""
        if self.yes and self.no:
            return "by model"
        return "confirmed" if self.yes else "refuted" if self.no else "open"


def tally(casts: Casts, pair: tuple[str, str], compare: Comparison, *blocks: str) -> Tally:
    """Count the verdicts on an order over models and blocks."""
    signs = []
    for model in casts.models:
        for block in blocks:
            found = compare(model, (Configuration(pair[0], block), Configuration(pair[1], block)))
            if found is not None:
                signs.append(found.sign)
    return Tally(signs.count(1), signs.count(-1), signs.count(0))


def summary_rows(casts: Casts) -> Table:
    """The verdicts on each statement, head first."""
    rows: Table = [("order", "rows of the paper", "by the task", "by the distance from float32")]
    for better, worse in STATEMENTS:
        holds, fails = _in_paper(better, worse)
        rows.append(
            (
                f"{NAMES[better]} before {NAMES[worse]}",
                f"{holds} of {len(PAPER)}" + (f", against it {fails}" if fails else ""),
                str(tally(casts, (better, worse), casts.better_by, *BLOCKS)),
                str(tally(casts, (better, worse), casts.nearer_by, *BLOCKS)),
            )
        )
    return rows


def _in_paper(better: str, worse: str) -> tuple[int, int]:
    """In how many rows of the paper's table a format is better than another, and worse."""
    places = PAPER_FORMATS.index(better), PAPER_FORMATS.index(worse)
    signs = [
        np.sign(row[places[0]] - row[places[1]]) * (-1 if "perplexity" in title else 1)
        for title, row in PAPER.items()
    ]
    return signs.count(1), signs.count(-1)


def paper_gain(other: str) -> float:
    """By how many points MXSF lies above a format in the accuracies of the paper's table."""
    rows = [row for title, row in PAPER.items() if "perplexity" not in title]
    sf, other_column = PAPER_FORMATS.index("mxsf"), PAPER_FORMATS.index(other)
    return float(np.mean([row[sf] - row[other_column] for row in rows]))


_STYLES = {
    "mxint8": ("#d55e00", "s"),
    "mxfp8_e4m3": ("#009e73", "^"),
    "mxfp8_e2m5": ("#e69f00", "D"),
    "mxsf": ("#0072b2", "o"),
    "bf16": ("#000000", "x"),
}
"""Okabe and Ito's colours, those of the formats in the other pictures."""


def draw_errors(casts: Casts) -> "Figure":
    """Draw the distance from float32 of 8-bit formats and bfloat16: a panel a kind of block."""
    models = [model for model in casts.models if KINDS[model].error_title]
    figure = figures.new_figure(10.0, 1.1 + 0.42 * len(models))
    panels = figure.subplots(1, len(BLOCKS), sharex=True, sharey=True)
    for axes, block in zip(panels, BLOCKS, strict=True):
        for name, (colour, marker) in _STYLES.items():
            _draw_format(axes, casts, models, Configuration(name, "" if name == "bf16" else block))
            axes.plot([], [], marker, color=colour, label=NAMES[name], markersize=5)
        axes.set_title(f"blocks of {block}", loc="left", fontsize=10, fontweight="bold")
        axes.set_xscale("log")
        plain(axes, "line", axis="x")
        axes.set_yticks(range(len(models)), [KINDS[model].title for model in models])
        axes.set_ylim(len(models) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    panels[1].set_xlabel("distance from float32; bars: 99 % of the resamples")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(_STYLES), frameon=False)
    return figure


def _draw_format(axes: Any, casts: Casts, models: Sequence[str], one: Configuration) -> None:
    colour, marker = _STYLES[one.format]
    place = (list(_STYLES).index(one.format) - (len(_STYLES) - 1) / 2) * 0.13
    for row, model in enumerate(models):
        numbers = casts.numbers(model, one)
        if numbers is None:
            continue
        found = interval(numbers, KINDS[model].error)
        low, high = found.value - found.low, found.high - found.value
        axes.errorbar(
            [found.value],
            [row + place],
            xerr=[[max(low, 0)], [max(high, 0)]],
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.2,
        )


def pictures(results: Results) -> dict[str, bytes]:
    """The pictures of this part by file name."""
    return {"evidence_casts.svg": figures.render(draw_errors(Casts(results)), ".svg")}
