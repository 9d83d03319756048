"""A compiled training step on the interpreter, against the same step in NumPy."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.training import PerceptronShape, PerceptronStep
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model.functions import FUNCTIONS
from verif.machine.machine_schedules import run_in_any_order
from verif.rtl.machine.power_up import powered_up
from verif.support.tests import raises

Floats = NDArray[np.float32]
MACHINE = MachineConfiguration(a_beats=256, w_beats=256, vector_banks=2, bank_beats=128)


def _tiles(x: Floats) -> Any:
    return mx.quantize(np.ascontiguousarray(x), block=(8, 8))


def _random(shape: PerceptronShape, seed: int) -> tuple[Floats, Floats, list[Floats]]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((shape.batch, shape.features[0])).astype(np.float32)
    labels = rng.integers(shape.features[-1], size=shape.batch)
    targets = -np.eye(shape.features[-1], dtype=np.float32)[labels] / np.float32(shape.batch)
    pairs = zip(shape.features, shape.features[1:], strict=False)
    weights = [(rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for s in pairs]
    return x, targets, weights


def _memory(step: PerceptronStep, x: Floats, targets: Floats, weights: list[Floats]) -> Any:
    memory = np.zeros(step.emitter.memory.used, np.uint8)
    step.inputs[0].write(memory, _tiles(x))
    step.targets.write(memory, np.ascontiguousarray(targets.T))
    for operand, master, w in zip(step.weights, step.masters, weights, strict=True):
        operand.write(memory, _tiles(w.T))
        master.write(memory, w)
    return memory


def _expected(
    shape: PerceptronShape, x: Floats, targets: Floats, weights: list[Floats], arithmetic: Any
) -> tuple[Floats, list[Floats]]:
    """Probabilities, and weights after the step."""

    def product(a: Any, w: Any) -> Floats:
        return model.matmul(a, w, arithmetic=arithmetic)

    inputs, sums = [_tiles(x)], []
    tiles = [_tiles(w) for w in weights]
    for w in tiles:
        sums.append(product(inputs[-1], w))
        inputs.append(_tiles(FUNCTIONS[shape.function](sums[-1])))
    probabilities = model.softmax(sums[-1])
    g = model.axpy(np.float32(1 / shape.batch), probabilities, targets)
    updated = []
    for layer in reversed(range(shape.layers)):
        gradient = _tiles(g)
        dw = product(inputs[layer].T, gradient)
        updated.insert(0, model.axpy(np.float32(-shape.rate), dw, weights[layer]))
        if layer:
            slope = FUNCTIONS[f"{shape.function}_derivative"](sums[layer - 1])
            g = model.multiply(product(gradient, tiles[layer].T), slope)
    return probabilities, updated


@pytest.mark.parametrize(
    "shape",
    [
        PerceptronShape(batch=40, features=(24, 40, 16), rate=0.5),
        PerceptronShape(batch=8, features=(8, 24, 48, 8), rate=0.1, function="gelu"),
        PerceptronShape(batch=16, features=(16, 8, 8), rate=0.1, function="silu"),
        PerceptronShape(batch=16, features=(8, 16, 8), rate=0.1, function="tanh"),
    ],
)
@pytest.mark.parametrize("arithmetic", ["exact", "fp12"])
def test_step_equals_numpy(shape: PerceptronShape, arithmetic: Any) -> None:
    configuration = MachineConfiguration(
        arithmetic=arithmetic, a_beats=256, w_beats=256, vector_banks=2, bank_beats=128
    )
    step = PerceptronStep(shape, configuration)
    given = _random(shape, seed=3)
    memory = _memory(step, *given)
    program = Assembler(configuration).assemble(step.emitter.program())
    outcome = powered_up(configuration, seed=1).run(program, memory)
    assert outcome.error == "none", outcome.reason
    probabilities, weights = _expected(shape, *given, arithmetic)
    got = [step.probabilities.read(memory).T, *(m.read(memory) for m in step.masters)]
    assert len(got) == 1 + shape.layers
    for ours, theirs in zip(got, [probabilities, *weights], strict=True):
        assert np.array_equal(np.ascontiguousarray(ours).view(np.uint32), theirs.view(np.uint32))
    again = _memory(step, given[0], given[1], weights)
    for operand in step.weights:  # the new weights are converted as the host would do it
        layout = operand.layout
        for first, size in (
            (operand.codes, layout.strip_bytes),
            (operand.scales, layout.scale_strip_bytes),
        ):
            at = slice(first, first + layout.strips * size)
            assert np.array_equal(memory[at], again[at])


def _loss(function: str, x: Any, targets: Any, weights: list[Any]) -> float:
    """Cross-entropy in float64, by its definition."""
    for w in weights[:-1]:
        x = _FLOAT64[function](x @ w)
    sums = x @ weights[-1]
    shifted = sums - sums.max(axis=1, keepdims=True)
    return float((targets * (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))).sum())


_FLOAT64: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


@pytest.mark.parametrize(
    ("function", "most"), [("relu", 0.2), ("gelu", 0.06), ("silu", 0.06), ("tanh", 0.06)]
)
def test_step_follows_the_gradient(function: str, most: float) -> None:
    """The change of a step is the slope of the loss in float64, up to what tiles lose.

    With ReLU a sum that changes its sign by rounding changes its slope from 0 to 1.
    """
    shape = PerceptronShape(batch=32, features=(16, 24, 16, 8), rate=0.5, function=function)
    step = PerceptronStep(shape, MACHINE)
    x, targets, weights = _random(shape, seed=6)
    memory = _memory(step, x, targets, weights)
    program = Assembler(MACHINE).assemble(step.emitter.program())
    assert powered_up(MACHINE, seed=1).run(program, memory).error == "none"
    exact = [w.astype(np.float64) for w in weights]
    compared = 0
    for layer, master in enumerate(step.masters):
        change = (master.read(memory) - weights[layer]) / -shape.rate
        slopes = np.zeros_like(exact[layer])
        for at in np.ndindex(slopes.shape):
            ends = []
            for sign in (1, -1):
                moved = [w.copy() for w in exact]
                moved[layer][at] += sign * 1e-5
                ends.append(_loss(function, x.astype(np.float64), targets, moved))
            slopes[at] = (ends[0] - ends[1]) / 2e-5
        error = np.linalg.norm(change - slopes) / np.linalg.norm(slopes)
        assert error < most, (layer, error)
        compared += slopes.size
    assert compared == 16 * 24 + 24 * 16 + 16 * 8


def test_tokens_order_a_step() -> None:
    shape = PerceptronShape(batch=24, features=(24, 40, 16), rate=0.5)
    step = PerceptronStep(shape, MACHINE)
    before = _memory(step, *_random(shape, seed=4))
    images = [before.copy() for _ in range(3)]
    for seed, image in enumerate(images):
        run_in_any_order(step.emitter.program(), image, MACHINE, seed)
    assert not np.array_equal(images[0], before)
    assert all(np.array_equal(image, images[0]) for image in images[1:])


def test_ragged_tiles_are_refused() -> None:
    with raises(CompileError, "batch and features must be multiples of 8, not 20"):
        PerceptronStep(PerceptronShape(batch=20, features=(24, 16), rate=0.5), MACHINE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch": 0}, "batch must be a positive integer, not 0"),
        (
            {"features": (784,)},
            "features must be those of the input and of at least one layer, not (784,)",
        ),
        ({"rate": math.nan}, "rate must be finite, not nan"),
        ({"function": "sigmoid"}, "function must be one of relu, gelu, silu, tanh, not 'sigmoid'"),
        (
            {"features": (16, 520)},
            "features of the output must be at most 512, the longest row that is reduced, not 520",
        ),
    ],
)
def test_shapes_are_checked(changed: Mapping[str, Any], message: str) -> None:
    given: dict[str, Any] = {"batch": 8, "features": (16, 8), "rate": 0.5} | dict(changed)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PerceptronStep(PerceptronShape(**given), MachineConfiguration())


def test_machines_of_8_rows_do_not_transpose() -> None:
    configuration = MachineConfiguration(rows=8)
    with pytest.raises(CompileError, match="and strips of 16 rows to be transposed, not "):
        PerceptronStep(PerceptronShape(batch=16, features=(24, 16, 8), rate=0.5), configuration)
