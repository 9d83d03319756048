"""Shared parts of the pictures of several pages."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

COLOURS = {
    "float32": "#000000",
    "mxsf": "#0072b2",
    "mxfp8_e2m5": "#e69f00",
    "mxfp8_e4m3": "#009e73",
    "mxint8": "#d55e00",
}
"""Of formats, from Okabe and Ito."""


def plain(axes: Any, below: bool | str = True, **grid: Any) -> None:
    """A pale grid behind all else, or only behind lines, and no frame above and on the right."""
    axes.grid(alpha=0.3, **grid)
    axes.set_axisbelow(below)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


T = TypeVar("T")


def front(points: Iterable[T], place: Callable[[T], tuple[float, float]]) -> list[T]:
    """Points that no other beats in both numbers of its place, cost and error; cheap ones first."""
    best: list[T] = []
    for point in sorted(points, key=place):
        if not best or place(point)[1] < place(best[-1])[1]:
            best.append(point)
    return best


def draw_front(
    axes: Any, best: Iterable[T], place: Callable[[T], tuple[float, float]], **line: Any
) -> None:
    """Dashed steps through the points of a front."""
    axes.plot(
        *zip(*map(place, best), strict=True),
        color="#999999",
        linewidth=1.4,
        linestyle=(0, (4, 2)),
        drawstyle="steps-post",
        zorder=2,
        **line,
    )


def draw_band(
    axes: Any,
    places: Sequence[float],
    values: NDArray[np.float64],
    name: str,
    label: str,
) -> None:
    """A format's line through the means of the columns, within a band from least to most."""
    axes.fill_between(
        places, values.min(axis=0), values.max(axis=0), color=COLOURS[name], alpha=0.13
    )
    axes.plot(
        places,
        values.mean(axis=0),
        color=COLOURS[name],
        linewidth=1.6,
        linestyle=(0, (2, 1.5)) if name == "float32" else "-",
        label=label,
        zorder=4 if name == "float32" else 3,
    )
