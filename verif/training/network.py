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
from mxsafe.codec.blocks import QuantizedTensor
from mxsafe.formats import MXFormat, mx_format

__all__ = [
    "FLOAT32",
    "Float32",
    "Layer",
    "Measures",
    "Microscaling",
    "Numbers",
    "Optimiser",
    "Product",
    "State",
    "Step",
    "Underflow",
    "evaluate",
    "initial_state",
    "training_step",
]

Matrix = NDArray[np.float32]

Product = Callable[[QuantizedTensor, QuantizedTensor], Matrix]
"""Product of two quantised matrices, in blocks as `mxsafe.matmul` has them."""

_EXACT: Product = partial(mx.matmul, arithmetic="exact")


class Numbers(Protocol):
    """How matrices are stored and multiplied."""

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
        """What became zero."""


@dataclass(frozen=True, kw_only=True)
class Underflow:
    """Elements that are not zero, and those of them that become zero when they are stored.

    Attributes
    ----------
    nonzero, lost : int
        Numbers of elements. Those of a matrix that is stored twice, along both axes, count twice.
    """

    nonzero: int = 0
    lost: int = 0

    def __add__(self, other: "Underflow") -> "Underflow":
        return Underflow(nonzero=self.nonzero + other.nonzero, lost=self.lost + other.lost)

    @property
    def ratio(self) -> float:
        """Share of the elements that are not zero which become zero; 0 if all are zero."""
        return self.lost / self.nonzero if self.nonzero else 0.0


@dataclass(frozen=True)
class _Plain:
    matrix: Matrix

    def along(self, axis: int) -> Matrix:
        return self.matrix

    @property
    def underflow(self) -> Underflow:
        return Underflow(nonzero=int(np.count_nonzero(self.matrix)))


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
        nonzero = self.matrix != 0
        total = Underflow()
        for tensor in self.tensors.values():
            lost = nonzero & (mx.dequantize(tensor, dtype=np.float64) == 0)
            total += Underflow(
                nonzero=int(np.count_nonzero(nonzero)), lost=int(np.count_nonzero(lost))
            )
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
        If `format` is unknown, or `block` is a tile that is not square.
    """

    format: str | MXFormat = "mxsf"
    block: int | tuple[int, int] = (8, 8)
    product: Product = _EXACT

    def __post_init__(self) -> None:
        mx_format(self.format)
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
    """What is learnt, in float32: the master weights, and the velocities of momentum.

    Attributes
    ----------
    layers, velocities : tuple of Layer
        From the input to the output.
    """

    layers: tuple[Layer, ...]
    velocities: tuple[Layer, ...]


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
        velocities = tuple(
            Layer(momentum * v.weights + g.weights, momentum * v.biases + g.biases)
            for v, g in zip(state.velocities, gradients, strict=True)
        )
        layers = tuple(
            Layer(layer.weights - rate * v.weights, layer.biases - rate * v.biases)
            for layer, v in zip(state.layers, velocities, strict=True)
        )
        return State(layers, velocities)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What a training step gives.

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
    """How good a network is.

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
    velocities = tuple(
        Layer(np.zeros_like(layer.weights), np.zeros_like(layer.biases)) for layer in layers
    )
    return State(layers, velocities)


def _softmax(logits: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and their logarithms, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    sums = exponentials.sum(axis=1, keepdims=True)
    return exponentials / sums, shifted - np.log(sums)


def _loss(logarithms: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    return float(-logarithms[np.arange(len(labels)), labels].mean())


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
    optimiser: Optimiser,
) -> Step:
    """One step of stochastic gradient descent, the same in every bit whenever products are.

    Parameters
    ----------
    state : State
        Weights and velocities; never written to.
    inputs : ndarray of float32, shape (batch, pixels)
        Images.
    labels : ndarray of int64, shape (batch,)
        Their classes.
    numbers : Numbers
        `FLOAT32`, or a `Microscaling` with what multiplies.
    optimiser : Optimiser
        Rate and momentum.

    Returns
    -------
    Step
    """
    stored_inputs, stored_weights, outputs = _forward(state.layers, inputs, numbers)
    probabilities, logarithms = _softmax(outputs[-1])
    probabilities[np.arange(len(labels)), labels] -= 1
    dy = (probabilities / len(labels)).astype(np.float32)

    gradients, underflow = [], []
    for place in reversed(range(len(outputs))):
        stored = numbers.store(dy)
        weights = numbers.product(stored_inputs[place].along(-2).T, stored.along(-2))
        biases = dy.sum(axis=0, dtype=np.float64).astype(np.float32)
        gradients.append(Layer(weights, biases))
        if place:
            dx = numbers.product(stored.along(-1), stored_weights[place].along(-1).T)
            dy = np.where(outputs[place - 1] > 0, dx, np.float32(0))
        underflow.append(stored.underflow)
    return Step(
        state=optimiser.update(state, gradients[::-1]),
        logits=outputs[-1],
        loss=_loss(logarithms, labels),
        gradients=tuple(gradients[::-1]),
        underflow=tuple(underflow[::-1]),
    )


def evaluate(
    state: State, inputs: Matrix, labels: NDArray[np.int64], *, numbers: Numbers
) -> Measures:
    """Accuracy and loss on images, with the products of `numbers` as in training."""
    logits = _forward(state.layers, inputs, numbers)[2][-1]
    return Measures(
        accuracy=float(np.mean(logits.argmax(axis=1) == labels)),
        loss=_loss(_softmax(logits)[1], labels),
    )
