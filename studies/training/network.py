"""A multi-layer perceptron whose matrix products are those of a number format.

Three products a layer and step, each of two matrices as they are stored: ``X W`` forward,
``dY W^T`` backward and ``X^T dY`` for the weights. All else is float32, element by element; sums,
exponentials and logarithms are taken in float64 and rounded once, so that no result hangs on the
order in which NumPy adds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.codec.blocks import QuantizedTensor, blocked_axes
from mxsafe.formats import MXFormat, mx_format

Matrix = NDArray[np.float32]

Product = Callable[[QuantizedTensor, QuantizedTensor], Matrix]
"""Product of two quantised matrices, in blocks as `mxsafe.matmul` has them."""

_EXACT: Product = partial(mx.matmul, arithmetic="exact")


class Numbers(Protocol):
    """Storage and multiplication of matrices."""

    def store(self, x: Matrix) -> "Stored":
        """Keep a matrix for products in which it stands left or right, transposed or not."""

    def product(self, a: Any, w: Any, /) -> Matrix:
        """Product of two matrices out of `Stored.along`, or their transposes."""


class Stored(Protocol):
    """A matrix in some number format."""

    def along(self, axis: int) -> Any:
        """The matrix for a product over `axis`, -1 or -2; ``.T`` transposes what is returned."""

    @property
    def underflow(self) -> "Underflow":
        """Numbers that became zero."""


@dataclass(frozen=True, kw_only=True)
class Underflow:
    """Underflow of a stored matrix; twice the numbers if it is stored along both axes.

    Attributes
    ----------
    nonzero, lost : int
        Elements that are not zero, and those of them that become zero.
    magnitude, lost_magnitude : float
        Sums of their magnitudes.
    """

    nonzero: int = 0
    lost: int = 0
    magnitude: float = 0.0
    lost_magnitude: float = 0.0

    def __add__(self, other: "Underflow") -> "Underflow":
        return Underflow(
            nonzero=self.nonzero + other.nonzero,
            lost=self.lost + other.lost,
            magnitude=self.magnitude + other.magnitude,
            lost_magnitude=self.lost_magnitude + other.lost_magnitude,
        )

    @property
    def ratio(self) -> float:
        """Share of the elements that are not zero which become zero; 0 if all are zero."""
        return self.lost / self.nonzero if self.nonzero else 0.0

    @property
    def lost_share(self) -> float:
        """Share of the sum of magnitudes that is lost so; 0 if all are zero."""
        return self.lost_magnitude / self.magnitude if self.magnitude else 0.0


def _underflow(x: Matrix, stored: NDArray[np.float64]) -> Underflow:
    magnitudes = np.abs(x.astype(np.float64))
    lost = (magnitudes != 0) & (stored == 0)
    return Underflow(
        nonzero=int(np.count_nonzero(magnitudes)),
        lost=int(np.count_nonzero(lost)),
        magnitude=float(magnitudes.sum()),
        lost_magnitude=float(magnitudes[lost].sum()),
    )


@dataclass(frozen=True)
class _Plain:
    matrix: Matrix

    def along(self, axis: int) -> Matrix:
        return self.matrix

    @property
    def underflow(self) -> Underflow:
        return _underflow(self.matrix, self.matrix.astype(np.float64))


class Float32:
    """float32 matrices, multiplied by NumPy."""

    def store(self, x: Matrix) -> _Plain:
        """Keep a matrix as it is."""
        return _Plain(x)

    def product(self, a: Matrix, w: Matrix, /) -> Matrix:
        """``a @ w``."""
        return a @ w


FLOAT32 = Float32()


@dataclass(frozen=True, eq=False)
class _Quantised:
    matrix: Matrix
    numbers: "Microscaling"
    tensors: dict[int, QuantizedTensor] = field(default_factory=dict)

    def along(self, axis: int) -> QuantizedTensor:
        """The one tensor in tiles; in 1-D blocks one for each axis, quantised on first use."""
        key = -1 if isinstance(self.numbers.block, tuple) else axis
        if key not in self.tensors:
            self.tensors[key] = mx.quantize(
                self.matrix, self.numbers.format, block=self.numbers.block, axis=key
            )
        return self.tensors[key]

    @property
    def underflow(self) -> Underflow:
        total = Underflow()
        for tensor in self.tensors.values():
            total += _underflow(self.matrix, mx.dequantize(tensor, dtype=np.float64))
        return total


@dataclass(frozen=True, kw_only=True)
class Microscaling:
    """Matrices in an MX format.

    Parameters
    ----------
    format : str or MXFormat
        Format of weights, activations and gradients.
    block : int or tuple of int
        Square tiles, in which a matrix is quantised once and its transpose has the same codes; or
        the length of 1-D blocks, for which it is quantised along each axis that a product needs.
    product : callable, optional
        What multiplies; by default `mxsafe.matmul` with arithmetic ``exact``.

    Raises
    ------
    ValueError
        If `format` is unknown, or `block` is neither a length nor a tile that is square.
    """

    format: str | MXFormat = "mxsf"
    block: int | tuple[int, int] = (8, 8)
    product: Product = _EXACT

    def __post_init__(self) -> None:
        mx_format(self.format)
        blocked_axes(2, self.block, -1)
        if isinstance(self.block, tuple) and self.block[0] != self.block[1]:
            raise ValueError(
                f"block must be a length or a square tile, not {self.block[0]}x{self.block[1]}"
            )

    def store(self, x: Matrix) -> _Quantised:
        """Keep a matrix, to be quantised when a product first needs it."""
        return _Quantised(x, self)


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights and biases, or what belongs to them one by one: gradients or velocities.

    Attributes
    ----------
    weights : ndarray of float32, shape (inputs, outputs)
    biases : ndarray of float32, shape (outputs,)
    """

    weights: Matrix
    biases: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class State:
    """Training state in float32: the master weights, and what the optimiser keeps.

    Attributes
    ----------
    layers, velocities : tuple of Layer
        From the input to the output.
    squares : tuple of Layer
        Second moments, of `Adam` only.
    steps : int
        Steps so far.
    """

    layers: tuple[Layer, ...]
    velocities: tuple[Layer, ...]
    squares: tuple[Layer, ...] = ()
    steps: int = 0


def _each(function: Callable[..., Matrix], *stacks: Sequence[Layer]) -> tuple[Layer, ...]:
    """Apply a function to weights, and to biases, of the layers of some stacks."""
    return tuple(
        Layer(
            function(*(layer.weights for layer in layers)),
            function(*(layer.biases for layer in layers)),
        )
        for layers in zip(*stacks, strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Stochastic gradient descent: ``v = momentum v + g``, then ``w = w - rate v``, in float32.

    Parameters
    ----------
    rate, momentum : float
        Rounded to float32.
    """

    rate: float = 0.1
    momentum: float = 0.9

    def update(self, state: State, gradients: Sequence[Layer]) -> State:
        """The state after a step."""
        rate, momentum = np.float32(self.rate), np.float32(self.momentum)
        velocities = _each(lambda v, g: momentum * v + g, state.velocities, gradients)
        layers = _each(lambda w, v: w - rate * v, state.layers, velocities)
        return State(layers, velocities, steps=state.steps + 1)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma and Ba, 2015), in float32: every weight moves as fast as its gradient is steady.

    Parameters
    ----------
    rate, first, second, epsilon : float
        Step size, decays of both moments, and what keeps the divisor from zero; rounded to float32.
    """

    rate: float = 0.001
    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-12

    def update(self, state: State, gradients: Sequence[Layer]) -> State:
        """The state after a step."""
        steps = state.steps + 1
        first, second, epsilon = map(np.float32, (self.first, self.second, self.epsilon))
        fresh, fresh_squares = np.float32(1 - self.first), np.float32(1 - self.second)
        rate = np.float32(self.rate / (1 - self.first**steps))
        correction = np.float32(1 / (1 - self.second**steps))
        squares = state.squares or _each(np.zeros_like, state.layers)
        velocities = _each(lambda v, g: first * v + fresh * g, state.velocities, gradients)
        squares = _each(lambda q, g: second * q + fresh_squares * (g * g), squares, gradients)
        layers = _each(
            lambda w, v, q: w - rate * v / (np.sqrt(correction * q) + epsilon),
            state.layers,
            velocities,
            squares,
        )
        return State(layers, velocities, squares, steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """Result of a training step.

    Attributes
    ----------
    state : State
        Weights and velocities afterwards.
    logits : ndarray of float32, shape (batch, classes)
        The output before the step.
    loss : float
        Mean cross-entropy of the batch before the step.
    gradients : tuple of Layer
        Of the loss, by weights and biases.
    underflow : tuple of Underflow
        By layer: of the gradients of the loss by its outputs, before the activation, as they go
        into the products of the backward pass.
    """

    state: State
    logits: Matrix
    loss: float
    gradients: tuple[Layer, ...]
    underflow: tuple[Underflow, ...]


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Loss and accuracy of a network.

    Attributes
    ----------
    accuracy : float
        Share of the images whose largest output is that of their class, the first of equals.
    loss : float
        Mean cross-entropy.
    """

    accuracy: float
    loss: float


def initial_state(sizes: Sequence[int], seed: int) -> State:
    """Normal weights with the variance ``2 / inputs`` (He et al., 2015), biases of zero.

    Parameters
    ----------
    sizes : sequence of int
        Pixels, outputs of each hidden layer, classes.
    seed : int
        Seed of the weights.

    Raises
    ------
    ValueError
        If there are fewer than two sizes, or one is not positive.
    """
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(f"sizes must be two or more positive integers, not {tuple(sizes)}")
    rng = np.random.default_rng(seed)
    layers = tuple(
        Layer(
            (rng.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32),
            np.zeros(outputs, np.float32),
        )
        for inputs, outputs in pairwise(sizes)
    )
    return State(layers, _each(np.zeros_like, layers))


def _softmax(logits: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and their logarithms, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    return exponentials / sums, shifted - np.log(sums)


def _loss(logarithms: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    return float(-logarithms[np.arange(len(labels)), labels].mean())


def _loss_and_slope(
    logits: Matrix, labels: NDArray[np.int64], weights: Sequence[float]
) -> tuple[float, Matrix]:
    """Sum of the weighted losses of the heads, and its slope by each output."""
    loss, slopes = 0.0, []
    heads = np.split(logits, len(weights), axis=1)
    for head, own, weight in zip(heads, labels.T, weights, strict=True):
        probabilities, logarithms = _softmax(head)
        loss += weight * _loss(logarithms, own)
        probabilities[np.arange(len(own)), own] -= 1
        slopes.append((probabilities * weight / len(own)).astype(np.float32))
    return loss, np.concatenate(slopes, axis=1)


def _forward(
    layers: Sequence[Layer], inputs: Matrix, numbers: Numbers
) -> tuple[list[Stored], list[Stored], list[Matrix]]:
    """Stored inputs and weights of every layer, and its outputs before the activation."""
    stored_inputs, stored_weights, outputs = [], [], []
    x = inputs
    for layer in layers:
        left, right = numbers.store(x), numbers.store(layer.weights)
        y = numbers.product(left.along(-1), right.along(-2)) + layer.biases
        stored_inputs.append(left)
        stored_weights.append(right)
        outputs.append(y)
        x = np.maximum(y, np.float32(0))
    return stored_inputs, stored_weights, outputs


def training_step(
    state: State,
    inputs: Matrix,
    labels: NDArray[np.int64],
    *,
    numbers: Numbers,
    optimiser: Optimiser | Adam,
    weights: Sequence[float] = (1.0,),
) -> Step:
    """One step of stochastic gradient descent, the same in every bit whenever products are.

    Parameters
    ----------
    state : State
        Weights and velocities; never written to.
    inputs : ndarray of float32, shape (batch, pixels)
        Images.
    labels : ndarray of int64, shape (batch,) or (batch, heads)
        Their classes, one for each head.
    numbers : Numbers
        `FLOAT32`, or a `Microscaling` with what multiplies.
    optimiser : Optimiser or Adam
        What makes an update of the gradients.
    weights : sequence of float
        Weight of each head's loss. Heads share the outputs evenly, in order.
    """
    stored_inputs, stored_weights, outputs = _forward(state.layers, inputs, numbers)
    loss, dy = _loss_and_slope(outputs[-1], labels.reshape(len(inputs), -1), weights)

    gradients, underflow = [], []
    for place in reversed(range(len(outputs))):
        stored = numbers.store(dy)
        dw = numbers.product(stored_inputs[place].along(-2).T, stored.along(-2))
        gradients.append(Layer(dw, dy.sum(axis=0, dtype=np.float64).astype(np.float32)))
        if place:
            dx = numbers.product(stored.along(-1), stored_weights[place].along(-1).T)
            dy = np.where(outputs[place - 1] > 0, dx, np.float32(0))
        underflow.append(stored.underflow)
    return Step(
        state=optimiser.update(state, gradients[::-1]),
        logits=outputs[-1],
        loss=loss,
        gradients=tuple(gradients[::-1]),
        underflow=tuple(underflow[::-1]),
    )


def evaluate(
    state: State, inputs: Matrix, labels: NDArray[np.int64], *, numbers: Numbers
) -> Measures:
    """Accuracy and loss on images, with the products of `numbers` as in training."""
    (measures,) = evaluate_heads(state, inputs, labels[:, None], numbers=numbers)
    return measures


def evaluate_heads(
    state: State, inputs: Matrix, labels: NDArray[np.int64], *, numbers: Numbers
) -> tuple[Measures, ...]:
    """Accuracy and loss of each head, whose labels are a column each."""
    logits = _forward(state.layers, inputs, numbers)[2][-1]
    return tuple(
        Measures(
            accuracy=float(np.mean(head.argmax(axis=1) == own)),
            loss=_loss(_softmax(head)[1], own),
        )
        for head, own in zip(np.split(logits, labels.shape[1], axis=1), labels.T, strict=True)
    )
