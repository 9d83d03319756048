"""``python -m studies.training_pass``: a real layer and a network train on simulated hardware.

Compares all results with the model in every bit, and writes ``docs/training_pass.json`` and the
page that is made of it.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.model.gemm import Arithmetic
from studies import pages
from studies.multiply import run_with_progress
from studies.pages import DOCS, keep
from studies.training.array import Hardware, StoredLayer, pass_products, store
from studies.training.checks import check_step
from studies.training.data import load_digits
from studies.training.network import initial_state
from verif.data import minilm
from verif.rtl.array.array_job import Product, Result
from verif.support import manifest
from verif.support.simulators import missing_tools

ARRAYS: Mapping[Arithmetic, str] = {"fp12": "mxsf_sta", "exact": "mxsf_sta_exact"}
TILE = (8, 8)
SIZES = (64, 32, 10)
IMAGES = 32

STEP_NUMBERS = IMAGES * SIZES[-1] + 3 * sum(m * n + n for m, n in pairwise(SIZES))
"""Outputs of a step, and gradients, weights and momentum."""


@dataclass(frozen=True, kw_only=True)
class LayerRun:
    """Cost of a layer on the hardware.

    Attributes
    ----------
    cycles : mapping of str to int
        Cycles of the array for each product: ``y``, ``dx`` and ``dw``.
    transposer_cycles : int
        Cycles of the transposer for W and X.
    """

    cycles: Mapping[str, int]
    transposer_cycles: int


@dataclass(frozen=True, kw_only=True)
class StepRun:
    """Cost of a step of a network on the hardware.

    Attributes
    ----------
    cycles, transposer_cycles : int
        Cycles of the array and of the transposer.
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
    assert compared == STEP_NUMBERS
    print(f"{hardware.array.name:<16}step{numbers.array_cycles:>7} cycles", flush=True)
    return StepRun(cycles=numbers.array_cycles, transposer_cycles=numbers.transposer_cycles)


def main() -> None:
    """Run both arithmetics, then write cycles, page and picture."""
    if missing := missing_tools("verilator"):
        raise SystemExit(f"Verilator needs {', '.join(missing)}: python -m verif.support.tools")
    runs = {
        arithmetic: asdict(Run(layer=measure_layer(arithmetic), step=measure_step(arithmetic)))
        for arithmetic in ARRAYS
    }
    keep(DOCS / "training_pass.json", runs)
    pages.write("training_pass")
    print("all bits are those of the model")


if __name__ == "__main__":
    main()
