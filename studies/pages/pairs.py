"""Formats of both operands, from ``docs/synthesis.json`` and the products of real layers."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.analysis import figures
from mxsafe.formats import E8M0, FORMAT_SETS, MX_FORMATS, MXFormat
from mxsafe.synthesis.cases import PAIR_UNIT, SET_UNIT
from studies.drawing import draw_front, front, plain
from studies.pages.window import relative
from studies.synthesised import find, load, usual_numbers
from verif.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLOCK = 32
SINGLE_UNIT = "pu_exact, 1 accumulator"
ARRAYS = ("sta_exact 4x4x4x4", "sta_exact 4x4x4x4, formats at run time")
FORMATS = tuple(MX_FORMATS)


def bits(fmt: MXFormat) -> float:
    """Bits of an element with its share of the scale."""
    return fmt.width + E8M0.width / BLOCK


def product_errors(a: NDArray[np.float32], w: NDArray[np.float32]) -> dict[tuple[str, str], float]:
    """Relative error, in the Frobenius norm, of ``a @ w`` in every pair of formats."""
    reference = a.astype(np.float64) @ w.astype(np.float64)
    operands_a = {name: mx.quantize(a, name, block=BLOCK, axis=-1) for name in FORMATS}
    operands_w = {name: mx.quantize(w, name, block=BLOCK, axis=-2) for name in FORMATS}
    return {
        (first, second): relative(
            mx.matmul(operands_a[first], operands_w[second], arithmetic="exact"), reference
        )
        for first, second in itertools.product(FORMATS, repeat=2)
    }


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Formats of both operands.

    Attributes
    ----------
    a, w : str
        Names of the formats.
    layer, gradient : float
        Relative errors of the layer's product, and of its weights' gradient.
    unit : Mapping, optional
        Result of the sub-matrix unit on NanGate 45 nm, if it was synthesised.
    """

    a: str
    w: str
    layer: float
    gradient: float
    unit: Mapping[str, Any] | None

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.a if self.a == self.w else f"{self.a} x {self.w}"

    @property
    def bits(self) -> float:
        """Bits of an element of both operands, with their shares of the scales."""
        return bits(MX_FORMATS[self.a]) + bits(MX_FORMATS[self.w])

    @property
    def ge(self) -> float | None:
        """Gate equivalents of a MAC."""
        return None if self.unit is None else usual_numbers(self.unit)["ge"] / self.unit["macs"]


@cache
def pairs() -> list[Pair]:
    """Every pair of formats, with the synthesised unit of those that have one."""
    units = {
        result["format"]: result
        for result in load()["results"]
        if result["configuration"] in (PAIR_UNIT, SINGLE_UNIT)
    }
    x, w, dy = minilm.load_training()
    layer, gradient = product_errors(x, w), product_errors(np.ascontiguousarray(x.T), dy)
    return [
        Pair(
            a=first,
            w=second,
            layer=layer[first, second],
            gradient=gradient[first, second],
            unit=units.get(first if first == second else f"{first} x {second}"),
        )
        for first, second in layer
    ]


def _place(cost: str) -> Callable[[Pair], tuple[float, float]]:
    """Where a pair is by ``bits`` or ``ge``, and its error."""
    return lambda pair: (getattr(pair, cost), pair.layer)


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    found, synthesis = pairs(), load()
    synthesised = [pair for pair in found if pair.ge is not None]
    wide = 2 * (16 * 4 * 8 + 16 * 8) // 8
    return {
        "block": BLOCK,
        "formats": FORMATS,
        "by_pair": {(pair.a, pair.w): pair for pair in found},
        "synthesised": sorted(synthesised, key=lambda pair: pair.ge or 0.0),
        "default": usual_numbers,
        "front": front(synthesised, _place("ge")),
        "members": FORMAT_SETS["multi"].members,
        "sets": [
            (find(synthesis, single), find(synthesis, several, format="multi"))
            for single, several in ((SINGLE_UNIT, SET_UNIT), ARRAYS)
        ],
        "wide": wide,
        "dense": wide * 3 // 4,
    }


_LETTER, _LINE = 6.2, 11.0
"""Pixels of a letter and a line of a label, about."""


def _label_points(axes: Any, shown: Sequence[Pair], cost: str) -> None:
    """Write names beside points, each where no other name and no point is yet."""
    at = {id(pair): axes.transData.transform((getattr(pair, cost), pair.layer)) for pair in shown}
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in at.values()]
    for pair in sorted(shown, key=lambda pair: (pair.layer, getattr(pair, cost))):
        text = pair.label.replace("mxfp8_", "").replace("mxfp6_", "").replace("mxfp4_", "")
        x, y = at[id(pair)]
        width = _LETTER * len(text)
        places = [(dx, dy) for dy in (4, -15, 16, -27, 28, -39, 40) for dx in (8, -8 - width)]
        boxes = [(x + dx, y + dy, x + dx + width, y + dy + _LINE) for dx, dy in places]
        free = [not any(_overlap(box, other) for other in taken) for box in boxes]
        chosen = free.index(True) if any(free) else 0
        taken.append(boxes[chosen])
        axes.annotate(
            text,
            (getattr(pair, cost), pair.layer),
            (places[chosen][0] * 0.72, places[chosen][1] * 0.72),  # points of 72 in 100 pixels
            textcoords="offset points",
            fontsize=7.5,
        )


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def draw(found: Sequence[Pair]) -> "Figure":
    """Error of the layer against bits, and against gates."""
    figure = figures.new_figure(11.0, 5.2)
    panels = figure.subplots(1, 2, sharey=True)
    costs = (
        ("bits", "bits of an element of both operands", found),
        (
            "ge",
            "gate equivalents for each MAC, in a sub-matrix unit of 4x4 MACs",
            [pair for pair in found if pair.ge is not None],
        ),
    )
    for axes, (cost, label, shown) in zip(panels, costs, strict=True):
        best = front(shown, _place(cost))
        draw_front(axes, best, _place(cost))
        for same, marker, colour in ((True, "o", "#0072b2"), (False, "D", "#d55e00")):
            own = [pair for pair in shown if (pair.a == pair.w) == same]
            axes.plot(
                [getattr(pair, cost) for pair in own],
                [pair.layer for pair in own],
                linestyle="",
                marker=marker,
                color=colour,
                markersize=6,
                label="one format" if same else "two formats",
                zorder=3,
            )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.yaxis.set_minor_formatter(lambda value, _: "")
        axes.set_xlabel(label)
        low, high = (extreme(getattr(pair, cost) for pair in shown) for extreme in (min, max))
        axes.set_xlim(low - 0.2 * (high - low), high + 0.16 * (high - low))
        plain(axes, which="both")
        axes.set_ylim(0.8 * min(pair.layer for pair in found), 0.2)
        _label_points(axes, shown if cost == "ge" else best, cost)
    panels[0].set_ylabel("relative error of a layer's product")
    panels[0].legend(frameon=False)
    return figure


def pictures() -> dict[str, bytes]:
    """The picture of errors against bits and gates."""
    return {"pairs.svg": figures.render(draw(pairs()), ".svg")}
