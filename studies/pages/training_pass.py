"""A training pass, from ``docs/training_pass.json``, which `studies.training_pass` measures."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import mxsafe as mx
from mxsafe import model
from mxsafe.analysis import figures
from mxsafe.model.gemm import Arithmetic
from mxsafe.model.training import PassTraffic
from studies.drawing import plain
from studies.pages import kept
from studies.training_pass import IMAGES, SIZES, STEP_NUMBERS, TILE, training_layer
from verif.data import minilm

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES: Mapping[str, tuple[int | tuple[int, int], bool]] = {
    "1x32": (32, False),
    "1x64": (64, False),
    "1x32, both axes at once": (32, True),
    "1x64, both axes at once": (64, True),
    "8x8": (TILE, False),
}
"""Blocks, and whether a tensor is quantised along both axes when it is first read."""
_NAMES = {"y": "`Y = X W`", "dx": "`dX = dY W^T`", "dw": "`dW = X^T dY`"}


def load() -> dict[Arithmetic, Any]:
    """Cycles of the last run, by arithmetic."""
    return kept("training_pass")


def relative_errors(arithmetic: Arithmetic, block: int | tuple[int, int]) -> dict[str, float]:
    """Errors of the three products against those of unquantised operands, in the Frobenius norm.

    With 1-D blocks each tensor is quantised along the axis of each product.
    """
    x, w, dy = training_layer(arithmetic)
    errors = {}
    for name, (a, b) in {"y": (x, w), "dx": (dy, w.T), "dw": (x.T, dy)}.items():
        reference = a.astype(np.float64) @ b.astype(np.float64)
        product = mx.matmul(
            mx.quantize(a, block=block, axis=-1),
            mx.quantize(b, block=block, axis=-2),
            arithmetic=arithmetic,
        )
        errors[name] = float(np.linalg.norm(product - reference) / np.linalg.norm(reference))
    return errors


def layer_traffic() -> dict[str, PassTraffic]:
    """Return the traffic of the layer in each of `CASES`."""
    return {
        title: model.pass_traffic(*_layer_shape(), block=block, at_once=at_once)
        for title, (block, at_once) in CASES.items()
    }


def _layer_shape() -> tuple[int, int, int]:
    """Batch, inputs and outputs of the layer."""
    x, w = minilm.load()
    return x.shape[0], x.shape[1], w.shape[1]


def _products() -> list[dict[str, Any]]:
    """Return the cost of the three products with each arithmetic."""
    batch, inputs, outputs = _layer_shape()
    shapes = {
        "y": (batch, outputs, inputs),
        "dx": (batch, inputs, outputs),
        "dw": (inputs, outputs, batch),
    }
    table = []
    for arithmetic, run in load().items():
        tiled, rowed = (relative_errors(arithmetic, block) for block in (TILE, 64))
        for name, (m, n, k) in shapes.items():
            cycles = run["layer"]["cycles"][name]
            table.append(
                {
                    "name": _NAMES[name],
                    "shape": (m, n, k),
                    "arithmetic": arithmetic,
                    "cycles": cycles,
                    "utilisation": -(-m // 16) * -(-n // 16) * -(-k // 4) / cycles,
                    "tiled": tiled[name],
                    "rowed": rowed[name],
                }
            )
    return table


def values() -> dict[str, Any]:
    """Return the values of the page's template."""
    batch, inputs, outputs = _layer_shape()
    return {
        "batch": batch,
        "inputs": inputs,
        "outputs": outputs,
        "products": _products(),
        "runs": load(),
        "sizes": SIZES,
        "layers": len(SIZES) - 1,
        "images": IMAGES,
        "step_compared": STEP_NUMBERS,
        "traffic": layer_traffic(),
    }


def draw() -> "Figure":
    """Bars of quantisations, of bytes moved by what moves them, and of bytes kept."""
    costs = layer_traffic()
    figure = figures.new_figure(9, 2.9)
    counts, moved, kept = figure.subplots(1, 3, sharey=True, width_ratios=(1, 2.4, 1.2))
    titles = list(costs)
    counts.barh(titles, [cost.quantisations for cost in costs.values()], color="#666666")
    start = np.zeros(len(costs))
    for label, attribute, colour in (
        ("high-precision values read", "source_read", "#d55e00"),
        ("codes and scales written", "written", "#e69f00"),
        ("codes and scales read as operands", "operands_read", "#0072b2"),
    ):
        sizes = np.array([getattr(cost, attribute) for cost in costs.values()]) / 1000
        moved.barh(titles, sizes, left=start, color=colour, label=label)
        start += sizes
    kept.barh(titles, [cost.kept / 1000 for cost in costs.values()], color="#009e73")
    for axes, values in (
        (counts, [cost.quantisations for cost in costs.values()]),
        (moved, start.tolist()),
        (kept, [cost.kept / 1000 for cost in costs.values()]),
    ):
        for place, value in enumerate(values):
            axes.annotate(
                f"{value:.0f}",
                (value, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        axes.set_xlim(0, 1.18 * max(values))
        plain(axes, axis="x")
    counts.set_xticks(range(0, 7, 2))
    counts.invert_yaxis()
    counts.set_xlabel("quantisations")
    moved.set_xlabel("moved, kB")
    kept.set_xlabel("kept, kB")
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


def pictures() -> dict[str, bytes]:
    """The picture of what blocks cost."""
    return {"training_pass.svg": figures.render(draw(), ".svg")}
