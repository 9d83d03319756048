"""The network: gradients, what is quantised and how often, what is lost, and that it learns."""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.model.gemm import Arithmetic
from studies.training import network
from studies.training.data import load_digits
from studies.training.network import (
    FLOAT32,
    Adam,
    Layer,
    Microscaling,
    Numbers,
    Optimiser,
    State,
    Step,
    Underflow,
    evaluate,
    evaluate_heads,
    initial_state,
    training_step,
)
from verif.support.tests import raises

SIZES = (64, 24, 16, 10)
FORMATS = ("mxsf", "mxfp8_e2m5", "mxfp8_e4m3", "mxint8")
BLOCKS: tuple[int | tuple[int, int], ...] = ((8, 8), 32, 64)
ARITHMETICS: dict[str, Arithmetic] = {"exact": "exact", "fp12": "fp12"}
DATA = load_digits()
INPUTS, LABELS = DATA.train_inputs[:40], DATA.train_labels[:40]


def one_step(numbers: Numbers, state: State | None = None, **options: float) -> Step:
    start = initial_state(SIZES, 3) if state is None else state
    return training_step(start, INPUTS, LABELS, numbers=numbers, optimiser=Optimiser(**options))


def bits(layers: Sequence[Layer]) -> list[bytes]:
    return [part.tobytes() for layer in layers for part in (layer.weights, layer.biases)]


def reference_loss(layers: Sequence[Layer]) -> float:
    """The loss in float64, written down anew."""
    x = INPUTS.astype(np.float64)
    for place, layer in enumerate(layers):
        x = x @ layer.weights + layer.biases
        if place < len(layers) - 1:
            x = x * (x > 0)
    return float(np.mean(np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(LABELS)), LABELS]))


def test_gradients_are_slopes() -> None:
    state = initial_state(SIZES, 3)
    rng = np.random.default_rng(0)
    biased = [
        Layer(layer.weights, rng.normal(0, 0.1, len(layer.biases)).astype(np.float32))
        for layer in state.layers
    ]
    step = one_step(FLOAT32, State(tuple(biased), state.velocities))
    assert step.loss == pytest.approx(reference_loss(biased), rel=1e-6)
    for place, (layer, gradient) in enumerate(zip(biased, step.gradients, strict=True)):
        for name in ("weights", "biases"):
            values = getattr(layer, name).astype(np.float64)
            for index in rng.integers(0, values.size, 12):
                losses = []
                for sign in (1, -1):
                    moved = values.copy()
                    moved.flat[index] += sign * 1e-6
                    parts = {"weights": layer.weights, "biases": layer.biases, name: moved}
                    losses.append(
                        reference_loss([*biased[:place], Layer(**parts), *biased[place + 1 :]])
                    )
                slope = (losses[0] - losses[1]) / 2e-6
                assert getattr(gradient, name).flat[index] == pytest.approx(
                    slope, rel=1e-4, abs=1e-7
                )


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("arithmetic", "format"),
    [(a, f) for a in ARITHMETICS for f in FORMATS if (a, f) != ("fp12", "mxint8")],
)
def test_a_step_that_every_format_does_exactly(
    arithmetic: str, format: str, block: int | tuple[int, int]
) -> None:
    """Weights of zero and four classes: all probabilities are 1/4."""
    rng = np.random.default_rng(1)
    inputs = rng.choice(np.float32([0, 0.5, 1]), (8, 16))
    labels = rng.integers(0, 4, 8)
    state = State(
        (Layer(np.zeros((16, 4), np.float32), np.zeros(4, np.float32)),),
        (Layer(np.ones((16, 4), np.float32), np.ones(4, np.float32)),),
    )
    product = partial(mx.matmul, arithmetic=ARITHMETICS[arithmetic])
    step = training_step(
        state,
        inputs,
        labels,
        numbers=Microscaling(format=format, block=block, product=product),
        optimiser=Optimiser(rate=0.5, momentum=0.25),
    )
    (gradient,), (layer,), (velocity,) = step.gradients, step.state.layers, step.state.velocities
    for c in range(4):
        slope = [(Fraction(1, 4) - (label == c)) / 8 for label in labels.tolist()]
        for pixel in range(16):
            expected = sum(
                Fraction(float(x)) * s for x, s in zip(inputs[:, pixel], slope, strict=True)
            )
            assert Fraction(float(gradient.weights[pixel, c])) == expected
            assert Fraction(float(velocity.weights[pixel, c])) == Fraction(1, 4) + expected
            assert Fraction(float(layer.weights[pixel, c])) == -(Fraction(1, 4) + expected) / 2
        assert Fraction(float(gradient.biases[c])) == sum(slope)
        assert Fraction(float(layer.biases[c])) == -(Fraction(1, 4) + sum(slope)) / 2
    assert step.loss == pytest.approx(np.log(4), rel=1e-15)
    assert step.underflow[0].lost == 0


class Recorder:
    """Everything that is quantised, and everything that is multiplied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.quantised: list[tuple[NDArray[np.float32], mx.QuantizedTensor]] = []
        self.products: list[tuple[mx.QuantizedTensor, mx.QuantizedTensor]] = []

        def quantize(x: NDArray[np.float32], *args: Any, **options: Any) -> mx.QuantizedTensor:
            self.quantised.append((x, mx.quantize(x, *args, **options)))
            return self.quantised[-1][1]

        monkeypatch.setattr(
            network,
            "mx",
            type("Module", (), {"quantize": quantize, "dequantize": staticmethod(mx.dequantize)}),
        )

    def product(self, a: mx.QuantizedTensor, w: mx.QuantizedTensor) -> NDArray[np.float32]:
        self.products.append((a, w))
        return mx.matmul(a, w, arithmetic="exact")

    def stored(self, q: mx.QuantizedTensor) -> tuple[int, bool]:
        """Quantisation that an operand comes from, and whether it is transposed."""
        for place, (_, tensor) in enumerate(self.quantised):
            if np.shares_memory(tensor.codes, q.codes):
                assert np.shares_memory(tensor.scales, q.scales)
                transposed = tensor.codes.strides != q.codes.strides
                expected = tensor.T if transposed else tensor
                assert (expected.shape, expected.block, expected.axis) == (q.shape, q.block, q.axis)
                np.testing.assert_array_equal(expected.codes, q.codes)
                return place, transposed
        raise AssertionError("operand must be quantised by mx.quantize")


def test_a_tile_is_quantised_once_and_serves_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    step = one_step(Microscaling(product=recorder.product))
    layers = len(SIZES) - 1
    assert len(recorder.quantised) == 3 * layers
    assert len(recorder.products) == 3 * layers - 1
    used = [(recorder.stored(a), recorder.stored(w)) for a, w in recorder.products]
    # X0 W0 X1 W1 X2 W2 forward, then the gradients from the last layer to the first.
    assert used == [
        ((0, False), (1, False)),
        ((2, False), (3, False)),
        ((4, False), (5, False)),
        ((4, True), (6, False)),
        ((6, False), (5, True)),
        ((2, True), (7, False)),
        ((7, False), (3, True)),
        ((0, True), (8, False)),
    ]
    start = initial_state(SIZES, 3)
    for place, layer in enumerate(start.layers):
        np.testing.assert_array_equal(recorder.quantised[2 * place + 1][0], layer.weights)
    np.testing.assert_array_equal(recorder.quantised[0][0], INPUTS)
    np.testing.assert_array_equal(
        step.gradients[0].weights, mx.matmul(*recorder.products[-1], arithmetic="exact")
    )


def test_one_dimensional_blocks_are_quantised_for_each_axis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder(monkeypatch)
    one_step(Microscaling(block=32, product=recorder.product))
    layers = len(SIZES) - 1
    # The first layer needs no gradient of its inputs, so its weights and dY go one way only.
    assert len(recorder.quantised) == 6 * layers - 2
    used = [place for pair in recorder.products for place, _ in map(recorder.stored, pair)]
    assert sorted(used) == list(range(6 * layers - 2))
    for a, w in recorder.products:
        assert (a.axis, w.axis, a.block, w.block) == (-1, -2, 32, 32)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("format", "half"), [("mxsf", -12), ("mxint8", -7), ("mxfp8_e2m5", -8)])
def test_underflow_is_what_halves_the_smallest_number(
    format: str, half: int, block: int | tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in rationals: half the smallest value, under the block's scale, rounds to zero."""
    recorder = Recorder(monkeypatch)
    state = initial_state(SIZES, 3)
    grown = tuple(Layer(layer.weights * 4, layer.biases) for layer in state.layers)
    numbers = Microscaling(format=format, block=block, product=recorder.product)
    step = one_step(numbers, State(grown, state.velocities))

    layers = len(SIZES) - 1
    forward, backward = recorder.quantised[: 2 * layers], recorder.quantised[2 * layers :]
    copies: dict[int, list[tuple[NDArray[np.float32], mx.QuantizedTensor]]] = {}
    for x, q in backward:
        if not any(x is seen for seen, _ in forward):
            copies.setdefault(id(x), []).append((x, q))
    assert len(copies) == layers
    total = 0
    for found, gradients in zip(step.underflow, reversed(copies.values()), strict=True):
        magnitudes, small = [], []
        for x, q in gradients:
            if isinstance(block, tuple):
                down, across = block
            else:
                down, across = (1, block) if q.axis == -1 else (block, 1)
            for top in range(0, x.shape[0], down):
                for left in range(0, x.shape[1], across):
                    part = x[top : top + down, left : left + across].ravel().tolist()
                    found_here = [abs(Fraction(value)) for value in part if value]
                    if found_here:
                        unit = Fraction(2) ** (math.frexp(max(found_here))[1] - 1 + half)
                        magnitudes += found_here
                        small += [value for value in found_here if value <= unit]
        assert (found.nonzero, found.lost) == (len(magnitudes), len(small))
        assert found.magnitude == pytest.approx(float(sum(magnitudes)), rel=1e-12)
        assert found.lost_magnitude == pytest.approx(float(sum(small)), rel=1e-12)
        total += len(small)
    assert total > 0
    assert sum(step.underflow, Underflow()).ratio == total / sum(
        found.nonzero for found in step.underflow
    )


def test_nothing_underflows_in_float32() -> None:
    step = one_step(FLOAT32)
    assert [found.lost for found in step.underflow] == [0, 0, 0]
    assert min(found.nonzero for found in step.underflow) > 0
    assert [found.lost_magnitude for found in step.underflow] == [0.0, 0.0, 0.0]
    assert (Underflow().ratio, Underflow().lost_share) == (0.0, 0.0)
    half = Underflow(nonzero=2, lost=1, magnitude=8.0, lost_magnitude=1.0)
    assert (half.ratio, half.lost_share) == (0.5, 0.125)


def test_adam_is_the_published_rule() -> None:
    """Against Algorithm 1 of Kingma and Ba in float64, over three steps."""
    adam = Adam(rate=0.01, first=0.75, second=0.875, epsilon=1e-6)
    rng = np.random.default_rng(0)
    weights, biases = rng.standard_normal((3, 2)), np.zeros(2)
    zero = Layer(np.zeros((3, 2), np.float32), np.zeros(2, np.float32))
    state = State((Layer(weights.astype(np.float32), biases.astype(np.float32)),), (zero,))
    first = second = np.zeros((3, 2))
    expected = state.layers[0].weights.astype(np.float64)
    for step in range(1, 4):
        gradient = rng.standard_normal((3, 2)).astype(np.float32)
        state = adam.update(state, [Layer(gradient, np.zeros(2, np.float32))])
        slope = gradient.astype(np.float64)
        first, second = 0.75 * first + 0.25 * slope, 0.875 * second + 0.125 * slope**2
        size = np.sqrt(second / (1 - 0.875**step)) + 1e-6
        expected = expected - 0.01 * first / (1 - 0.75**step) / size
        assert state.steps == step
        np.testing.assert_allclose(state.layers[0].weights, expected, rtol=3e-6)
        for stack in (state.layers, state.velocities, state.squares):
            assert stack[0].weights.dtype == stack[0].biases.dtype == np.float32
    assert state.layers[0].biases.tolist() == [0, 0]


def test_heads_are_networks_of_their_own_where_they_share_nothing() -> None:
    """A layer without hidden ones: each head's weights learn as if the other were not there."""
    rng = np.random.default_rng(0)
    labels = np.stack([LABELS, rng.permutation(LABELS)], axis=1)
    state = initial_state((64, 20), 0)
    optimiser = Optimiser(rate=0.5)
    both = training_step(
        state, INPUTS, labels, numbers=FLOAT32, optimiser=optimiser, weights=(1.0, 0.25)
    )
    losses, measures = [], []
    for head, weight in enumerate((1.0, 0.25)):
        columns = slice(10 * head, 10 * head + 10)
        parts = [
            Layer(layer.weights[:, columns], layer.biases[columns])
            for layer in (*state.layers, *state.velocities)
        ]
        own = State((parts[0],), (parts[1],))
        alone = training_step(
            own,
            INPUTS,
            labels[:, head],
            numbers=FLOAT32,
            optimiser=optimiser,
            weights=(weight,),
        )
        np.testing.assert_allclose(
            both.gradients[0].weights[:, columns], alone.gradients[0].weights, rtol=1e-4, atol=1e-8
        )
        np.testing.assert_allclose(
            both.gradients[0].biases[columns], alone.gradients[0].biases, rtol=1e-4, atol=1e-8
        )
        losses.append(alone.loss)
        measures.append(evaluate(own, INPUTS, labels[:, head], numbers=FLOAT32))
    assert both.loss == pytest.approx(sum(losses), rel=1e-6)
    for found, own_measures in zip(
        evaluate_heads(state, INPUTS, labels, numbers=FLOAT32), measures, strict=True
    ):
        assert found.accuracy == own_measures.accuracy
        assert found.loss == pytest.approx(own_measures.loss, rel=1e-6)


def test_a_small_weight_scales_the_slope_alone() -> None:
    labels = np.stack([LABELS, LABELS], axis=1)
    steps = [
        training_step(
            initial_state((64, 20), 0),
            INPUTS,
            labels,
            numbers=Microscaling(block=(2, 2)),
            optimiser=Optimiser(),
            weights=(1.0, weight),
        )
        for weight in (1.0, 2.0**-20)
    ]
    one, small = (step.gradients[0] for step in steps)
    np.testing.assert_array_equal(one.weights[:, :10], small.weights[:, :10])
    # No tile has outputs of both heads, so the codes are the same under smaller scales.
    np.testing.assert_array_equal(one.weights[:, 10:] * np.float32(2.0**-20), small.weights[:, 10:])


def test_steps_are_deterministic_and_leave_their_inputs_alone() -> None:
    for numbers in (Microscaling(), FLOAT32):
        state, other = initial_state(SIZES, 3), initial_state(SIZES, 3)
        before = bits(state.layers)
        first, second = one_step(numbers, state), one_step(numbers, other)
        assert bits(state.layers) == before
        assert bits(first.state.layers) == bits(second.state.layers) != before
        assert bits(first.state.velocities) == bits(second.state.velocities)
        assert first.loss == second.loss
        for layer in first.state.layers:
            assert layer.weights.dtype == layer.biases.dtype == np.float32


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_a_few_steps_learn(arithmetic: str) -> None:
    product = partial(mx.matmul, arithmetic=ARITHMETICS[arithmetic])
    numbers = Microscaling(product=product)
    state = initial_state(SIZES, 0)
    before = evaluate(state, DATA.test_inputs, DATA.test_labels, numbers=numbers)
    for start in range(0, 960, 32):
        batch = slice(start, start + 32)
        state = training_step(
            state,
            DATA.train_inputs[batch],
            DATA.train_labels[batch],
            numbers=numbers,
            optimiser=Optimiser(),
        ).state
    after = evaluate(state, DATA.test_inputs, DATA.test_labels, numbers=numbers)
    assert before.accuracy < 0.3 < 0.7 < after.accuracy
    assert after.loss < before.loss / 2


def test_errors() -> None:
    with raises(ValueError, "sizes must be two or more positive integers, not (64,)"):
        initial_state((64,), 0)
    with raises(ValueError, "block must be a length or a square tile, not 8x16"):
        Microscaling(block=(8, 16))
    with pytest.raises(ValueError, match=r"^block must be a positive integer or a pair .*, not 0$"):
        Microscaling(block=0)
    with raises(ValueError, f"format must be one of {', '.join(mx.BLOCK_FORMATS)}, not 'mxfp9'"):
        Microscaling(format="mxfp9")
