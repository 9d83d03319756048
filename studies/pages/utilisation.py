"""Utilisation of the array, from ``docs/utilisation.json`` of `studies.utilisation`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mxsafe.analysis import figures
from studies.pages import kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(shapes: Sequence[Sequence[int]], table: Mapping[str, Sequence[float]]) -> "Figure":
    """Bars of utilisation, a group for each shape."""
    figure = figures.new_figure(9, 4, layout="tight")
    axes = figure.subplots()
    width = 0.8 / len(table)
    for index, (label, values) in enumerate(table.items()):
        places = np.arange(len(shapes)) + (index - (len(table) - 1) / 2) * width
        axes.bar(places, [100 * value for value in values], width, label=label)
    axes.set_xticks(range(len(shapes)), [f"{m} x {n} x {k}" for m, n, k in shapes])
    axes.set_xlabel("M x N x K")
    axes.set_ylabel("utilisation, %")
    axes.set_ylim(0, 105)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.22), frameon=False)
    return figure


def pictures() -> dict[str, bytes]:
    """The picture of utilisation by shape."""
    numbers = kept("utilisation")
    drawn = draw(numbers["shapes"], numbers["utilisation"])
    return {"utilisation.svg": figures.render(drawn, ".svg")}
