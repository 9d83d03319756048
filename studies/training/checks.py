"""Checks of training on hardware: layers of every kind, and the model's answers."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from studies.training.array import Hardware, PassRun, StoredLayer, run_passes, store
from studies.training.array_numbers import ArrayNumbers
from studies.training.network import Microscaling, Optimiser, State, Step, training_step
from verif.support.checkers import assert_equal

Layer = tuple[mx.QuantizedTensor, mx.QuantizedTensor, mx.QuantizedTensor]
"""X, W and dY."""


def random_layer(
    rng: np.random.Generator,
    batch: int,
    inputs: int,
    outputs: int,
    *,
    extreme: float = 0.06,
    nan: str = "",
) -> Layer:
    """A layer with elements of every class.

    A share `extreme` of the tiles gets a scale near the least or the largest, and one tile of the
    tensor called `nan` the scale NaN.
    """
    tensors = []
    for name, shape in (("x", (batch, inputs)), ("w", (inputs, outputs)), ("dy", (batch, outputs))):
        values = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))
        values[rng.random(shape) < 0.1] = 0.0
        q = mx.quantize(values, block=(8, 8))
        chosen = rng.random(q.scales.shape) < extreme
        ends = np.where(
            rng.random(chosen.shape) < 0.5,
            rng.integers(0, 8, chosen.shape),
            rng.integers(247, 255, chosen.shape),
        )
        scales = np.where(chosen, ends, q.scales).astype(np.uint8)
        if name == nan:
            scales.flat[rng.integers(scales.size)] = 255
        tensors.append(mx.QuantizedTensor(q.codes, scales, q.format, q.block, q.axis))
    x, w, dy = tensors
    return x, w, dy


def stored(layer: Layer) -> StoredLayer:
    """The tensors of a layer in memory."""
    x, w, dy = layer
    return StoredLayer(x=store(x, "x"), w=store(w, "w"), dy=store(dy, "dy"))


def check_passes(hardware: Hardware, layers: Sequence[Layer]) -> tuple[PassRun, int]:
    """Results are what `training_pass` has, bit for bit; returns how many were compared too."""
    run = run_passes(hardware, [stored(layer) for layer in layers])
    parameters = hardware.array.parameters
    compared = 0
    for (x, w, dy), got in zip(layers, run.passes, strict=True):
        expected = model.training_pass(
            x, w, dy, arithmetic=parameters["arithmetic"], lanes=parameters["lanes"]
        )
        for name in ("y", "dx", "dw"):
            mine, wanted = (getattr(one, name).view(np.uint32) for one in (got, expected))
            compared += assert_equal(name, mine, wanted)
    return run, compared


def _arrays(step: Step) -> dict[str, NDArray[np.float32]]:
    """Everything that a step gives, by name."""
    found = {"logits": step.logits}
    for kind, layers in (
        ("gradient", step.gradients),
        ("weights", step.state.layers),
        ("velocity", step.state.velocities),
        ("square", step.state.squares),
    ):
        for place, layer in enumerate(layers):
            found |= {f"{kind} {place}": layer.weights, f"{kind} {place} of biases": layer.biases}
    return found


def check_step(
    hardware: Hardware, state: State, inputs: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[ArrayNumbers, int]:
    """A training step is that with `mxsafe.matmul`, bit for bit.

    Returns
    -------
    numbers : ArrayNumbers
        What was stored, and the cycles that it took.
    compared : int
        Numbers compared: outputs, gradients, weights and what the optimiser keeps.
    """
    parameters = hardware.array.parameters
    product = partial(mx.matmul, arithmetic=parameters["arithmetic"], lanes=parameters["lanes"])
    numbers = ArrayNumbers(hardware)
    got, expected = (
        training_step(state, inputs, labels, numbers=each, optimiser=Optimiser())
        for each in (numbers, Microscaling(product=product))
    )
    compared = 0
    for (name, mine), wanted in zip(_arrays(got).items(), _arrays(expected).values(), strict=True):
        compared += assert_equal(name, mine.view(np.uint32), wanted.view(np.uint32))
    assert got.loss == expected.loss
    assert got.underflow == expected.underflow
    return numbers, compared
