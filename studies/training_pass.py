"""``python -m studies.training_pass``: a real layer and a network train on simulated hardware.

Compares all results with the model in every bit, counts what the blocks cost, and writes
``docs/training_pass.md`` and ``docs/training_pass.svg`` (which needs matplotlib: the extra
``figures``).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.analysis import figures
from mxsafe.analysis.errors import block_name
from mxsafe.analysis.report import markdown
from mxsafe.atomic import write_together
from mxsafe.model.gemm import Arithmetic
from mxsafe.model.training import PassTraffic
from studies.multiply import run_with_progress
from studies.prose import wrapped
from studies.training.array import Hardware, StoredLayer, pass_products, store
from studies.training.checks import check_step
from studies.training.data import load_digits
from studies.training.network import initial_state
from verif.support import manifest
from verif.support.array_job import Product, Result
from verif.support.data import minilm
from verif.support.simulators import missing_tools

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ARRAYS",
    "CASES",
    "LayerRun",
    "Run",
    "StepRun",
    "layer_shape",
    "layer_traffic",
    "measure_layer",
    "measure_step",
    "page",
    "picture",
    "relative_errors",
    "training_layer",
]

DOCS = Path(__file__).parents[1] / "docs"
ARRAYS: Mapping[Arithmetic, str] = {"fp12": "mxsf_sta", "exact": "mxsf_sta_exact"}
TILE = (8, 8)
CASES: Mapping[str, tuple[int | tuple[int, int], bool]] = {
    "1x32": (32, False),
    "1x64": (64, False),
    "1x32, both axes at once": (32, True),
    "1x64, both axes at once": (64, True),
    "8x8": (TILE, False),
}
"""Blocks, and whether a tensor is quantised along both axes when it is first read."""

SIZES = (64, 32, 10)
IMAGES = 32

_NAMES = {"y": "`Y = X W`", "dx": "`dX = dY W^T`", "dw": "`dW = X^T dY`"}

_PAGE = """\
# A training pass from bytes that are stored once

A linear layer in training has three products, `Y = X W`, `dX = dY W^T` and `dW = X^T dY`. They
contract each tensor along both of its axes. A 1-D block serves one axis. A square tile serves both,
so each tensor is quantised once (paper, section IV-B and Fig. 4). Here the three products of a
[MiniLM layer](../verif/support/data/minilm/README.md) run on the simulated array in MXSF with 8x8
tiles, all from the same stored bytes. `python -m studies.training_pass` wrote this page.

X ({batch} x {inputs}) and W ({inputs} x {outputs}) are those of the layer. dY is the gradient of
`|Y - Z|^2 / 2`, where Y is the array's product of the quantised X and W, and Z is the product
without quantisation. So dY is `Y - Z`: the gradient of a real loss, but not of the one that the
model was trained with.

## What is stored, and how it becomes operands

A tensor lies in memory tile after tile, in the C order of tiles. A tile is a scale byte and then
eight rows of eight bytes, 65 bytes (`mxsafe.packing`, layout `inline`). Tiles at an edge are filled
up with zero codes.

- For operand A of [the array](array.md) the columns of a tile are k, for operand W its rows. X, W
  and dY enter as they are stored in four of the six places.
- `W^T` and `X^T` are read tile by tile in the order of the transposed matrix. The rows of each tile
  go through the [transposer](converter.md#transposer), the scale byte does not. Nothing is decoded
  or quantised.

## On the array

All {compared} results are those of `mxsafe.model.training_pass` in every bit. Cycles are those of
the 16x16 arrays of `gen/` on Verilator. Utilisation is ideal beats over cycles. Errors are against
the products of X, W and dY without quantisation, in the Frobenius norm. The errors of 1x64 are for
tensors that are quantised once more for their other axis.

{run_table}

The transposer takes {transposer_cycles} cycles for the {tiles} tiles of `W^T` and `X^T`: eight for
each tile and eight more for each matrix. The array takes {fp12_cycles} cycles for all three
products with `fp12`. So one transposer is slower than the array, and two side by side are not.

With `exact`, an 8x8 tile lasts two beats, but the accumulator that 16 MACs share needs 16 cycles
for it. [Eight accumulators](utilisation.md) take tiles at the full rate.

## A training step of a network

This is one step of gradient descent of a network with {sizes} neurons on {images} handwritten
digits. It has {products} products; in {transposed} of them an operand goes through the transposer.
The {stored} tensors are quantised once each. Biases, ReLU, softmax and the update of the float32
weights are software. All {step_compared} numbers of the step (outputs, gradients, and weights and
momentum afterwards) are the same as with `mxsafe.matmul` in every bit.

{step_table}

## What the blocks cost

The same layer, with X, W and dY in bfloat16 before they are quantised, in bytes:

{traffic_table}

![Quantisations, bytes moved and bytes kept](training_pass.svg)

*Moved* are the values that the quantiser reads, the codes and scales that it writes, and the codes
and scales that the six operands of the three products read, each once. *Kept* is what must stay of
X and W from the forward product to the gradients. A tensor in 1-D blocks is quantised a second time
for its other axis from its high-precision values. So these values are kept, and read once more.
Quantising along both axes when a tensor is first read saves that, but not the second quantisation
and not the writing of its codes. Results, and what an array reads again for other tiles of a
result, are the same for all blocks and are not counted. `mxsafe.model.pass_traffic` counts for any
shape, format and source.

Tiles save quantisations and memory traffic, but not always error. For this layer 8x8 tiles have the
smaller error in the forward product, and 1x64 in both gradients.
"""


@dataclass(frozen=True, kw_only=True)
class LayerRun:
    """What the hardware took for a layer.

    Attributes
    ----------
    cycles : mapping of str to int
        Clocks of the array for each product: ``y``, ``dx`` and ``dw``.
    transposer_cycles : int
        Clocks of the transposer for W and X.
    """

    cycles: Mapping[str, int]
    transposer_cycles: int


@dataclass(frozen=True, kw_only=True)
class StepRun:
    """What the hardware took for a step of a network.

    Attributes
    ----------
    cycles, transposer_cycles : int
        Clocks of the array and of the transposer.
    """

    cycles: int
    transposer_cycles: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """All that is simulated with an arithmetic."""

    layer: LayerRun
    step: StepRun


def _gradient(y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gradient of half the squared error of the layer's output against float32 operands."""
    x, w = minilm.load()
    return (y - x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)


def training_layer(
    arithmetic: Arithmetic,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """X, W and dY in float32; dY follows from the forward product of 8x8 tiles."""
    x, w = minilm.load()
    y = mx.matmul(mx.quantize(x, block=TILE), mx.quantize(w, block=TILE), arithmetic=arithmetic)
    return x, w, _gradient(y)


def _on_array(
    name: str, hardware: Hardware, operands: Product, expected: NDArray[np.float32]
) -> Result:
    result = run_with_progress(hardware.array, *operands, f"{hardware.array.name}, {name}")
    if not np.array_equal(result.products[0].view(np.uint32), expected.view(np.uint32)):
        raise SystemExit(f"{hardware.array.name}: {name} is not what the model says")
    print(f"{hardware.array.name:<16}{name:<4}{result.cycles:>7} cycles", flush=True)
    return result


def measure_layer(arithmetic: Arithmetic) -> LayerRun:
    """Run the layer's training pass on Verilator, and compare it with the model in every bit.

    Each tensor is quantised once, dY when the forward product is there.

    Raises
    ------
    SystemExit
        If a bit differs.
    """
    modules = manifest.generated()
    hardware = Hardware("verilator", modules[ARRAYS[arithmetic]], modules["transposer"])
    x, w = (mx.quantize(values, block=TILE) for values in minilm.load())
    stored_x, stored_w = store(x), store(w)
    forward = (stored_x.tensor(), stored_w.tensor())
    y = _on_array("y", hardware, forward, mx.matmul(x, w, arithmetic=arithmetic))
    dy = mx.quantize(_gradient(y.products[0]), block=TILE)
    layer = StoredLayer(stored_x, stored_w, store(dy))
    print("transposing W and X ...", end="\r", file=sys.stderr, flush=True)
    (products,), transposer_cycles = pass_products(hardware, [layer])
    print(f"{'transposer':<20}{transposer_cycles:>7} cycles", flush=True)
    expected = model.training_pass(x, w, dy, arithmetic=arithmetic)
    return LayerRun(
        cycles={
            "y": y.cycles,
            "dx": _on_array("dx", hardware, products.dx, expected.dx).cycles,
            "dw": _on_array("dw", hardware, products.dw, expected.dw).cycles,
        },
        transposer_cycles=transposer_cycles,
    )


def measure_step(arithmetic: Arithmetic) -> StepRun:
    """Run a training step on Verilator, and compare it with the model in every bit.

    Raises
    ------
    AssertionError
        If a bit differs.
    """
    modules = manifest.generated()
    hardware = Hardware("verilator", modules[ARRAYS[arithmetic]], modules["transposer"])
    data = load_digits()
    print("training step ...", end="\r", file=sys.stderr, flush=True)
    numbers, compared = check_step(
        hardware,
        initial_state(SIZES, 0),
        data.train_inputs[:IMAGES],
        data.train_labels[:IMAGES],
    )
    assert compared == _step_numbers()
    print(f"{hardware.array.name:<16}step{numbers.array_cycles:>7} cycles", flush=True)
    return StepRun(cycles=numbers.array_cycles, transposer_cycles=numbers.transposer_cycles)


def _step_numbers() -> int:
    """Outputs of a step, and gradients, weights and momentum."""
    return IMAGES * SIZES[-1] + 3 * sum(m * n + n for m, n in pairwise(SIZES))


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


def layer_shape() -> tuple[int, int, int]:
    """Batch, inputs and outputs of the layer."""
    x, w = minilm.load()
    return x.shape[0], x.shape[1], w.shape[1]


def layer_traffic() -> dict[str, PassTraffic]:
    """What each of `CASES` costs for the layer."""
    return {
        title: model.pass_traffic(*layer_shape(), block=block, at_once=at_once)
        for title, (block, at_once) in CASES.items()
    }


def _run_table(runs: Mapping[Arithmetic, Run]) -> str:
    batch, inputs, outputs = layer_shape()
    shapes = {
        "y": (batch, outputs, inputs),
        "dx": (batch, inputs, outputs),
        "dw": (inputs, outputs, batch),
    }
    rows = [
        (
            "product",
            "M x N x K",
            "arithmetic",
            "cycles",
            "utilisation",
            *(f"error, {block_name(block)}" for block in (TILE, 64)),
        )
    ]
    for arithmetic, run in runs.items():
        tiled, rowed = (relative_errors(arithmetic, block) for block in (TILE, 64))
        for name, (m, n, k) in shapes.items():
            ideal = -(-m // 16) * -(-n // 16) * -(-k // 4)
            rows.append(
                (
                    _NAMES[name],
                    f"{m} x {n} x {k}",
                    arithmetic,
                    f"{run.layer.cycles[name]}",
                    f"{ideal / run.layer.cycles[name]:.1%}",
                    f"{tiled[name]:.2%}",
                    f"{rowed[name]:.2%}",
                )
            )
    return markdown(rows, labels=3)


def _step_table(runs: Mapping[Arithmetic, Run]) -> str:
    rows = [("arithmetic", "cycles of the array", "of the transposer")]
    for arithmetic, run in runs.items():
        rows.append((arithmetic, f"{run.step.cycles}", f"{run.step.transposer_cycles}"))
    return markdown(rows)


def _traffic_table() -> str:
    rows = [
        ("blocks", "quantisations", "values read", "written", "operands read", "moved", "kept"),
    ]
    for title, cost in layer_traffic().items():
        numbers = (cost.source_read, cost.written, cost.operands_read, cost.moved, cost.kept)
        rows.append((title, f"{cost.quantisations}", *(f"{number:,}" for number in numbers)))
    return markdown(rows)


def page(runs: Mapping[Arithmetic, Run]) -> str:
    """Text of ``docs/training_pass.md``."""
    batch, inputs, outputs = layer_shape()
    layers = len(SIZES) - 1
    text = _PAGE.format(
        batch=batch,
        inputs=inputs,
        outputs=outputs,
        compared=f"{batch * outputs + batch * inputs + inputs * outputs:,}",
        run_table=_run_table(runs),
        transposer_cycles=f"{runs['fp12'].layer.transposer_cycles:,}",
        fp12_cycles=f"{sum(runs['fp12'].layer.cycles.values()):,}",
        tiles=f"{(batch + outputs) * inputs // 64:,}",
        sizes="-".join(map(str, SIZES)),
        images=IMAGES,
        products=3 * layers - 1,
        transposed=2 * layers - 1,
        stored=3 * layers,
        step_compared=f"{_step_numbers():,}",
        step_table=_step_table(runs),
        traffic_table=_traffic_table(),
    )
    return wrapped(text)


def picture() -> "Figure":
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
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    counts.set_xticks(range(0, 7, 2))
    counts.invert_yaxis()
    counts.set_xlabel("quantisations")
    moved.set_xlabel("moved, kB")
    kept.set_xlabel("kept, kB")
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Run both arithmetics, then write the page and its picture."""
    drawing = figures.render(picture(), ".svg")
    if missing := missing_tools("verilator"):
        raise SystemExit(f"Verilator needs {', '.join(missing)}: python -m verif.support.tools")
    runs = {
        arithmetic: Run(layer=measure_layer(arithmetic), step=measure_step(arithmetic))
        for arithmetic in ARRAYS
    }
    write_together(DOCS, {"training_pass.md": page(runs).encode(), "training_pass.svg": drawing})
    print("all bits are those of the model")


if __name__ == "__main__":
    main()
