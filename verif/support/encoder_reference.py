"""A transformer encoder as NumPy and the public models compute it, without any machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.compiler.networks import BlockTensors, Encoder, EncoderShape
from mxsafe.model.functions import FUNCTIONS

__all__ = ["EncoderWeights", "encoder_memory", "encoder_output", "random_encoder"]

Floats = NDArray[np.float32]


@dataclass
class EncoderWeights:
    """Numbers of an encoder: matrices of features out by features in.

    Attributes
    ----------
    inputs : ndarray of float32, shape (tokens, features)
    embedding : dict of str to ndarray
        ``gain`` and ``bias``.
    matrices, numbers : list of dict of str to ndarray
        Of each block, by the names of `BlockTensors`.
    """

    inputs: Floats
    embedding: dict[str, Floats]
    matrices: list[dict[str, Floats]] = field(default_factory=list)
    numbers: list[dict[str, Floats]] = field(default_factory=list)


def random_encoder(encoder: Encoder, seed: int) -> EncoderWeights:
    """Numbers that keep hidden states near 1."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Floats:
        return rng.standard_normal(shape).astype(np.float32)

    def numbers(name: str, count: int) -> Floats:
        return (normal(count) / 8 + name.endswith("gain")).astype(np.float32)

    shape = encoder.shape
    weights = EncoderWeights(
        inputs=normal(shape.tokens, shape.features),
        embedding={name: numbers(name, v.count) for name, v in encoder.embedding.items()},
    )
    for block in encoder.blocks:
        sizes = {n: (o.layout.rows, o.layout.columns) for n, o in block.operands.items()}
        weights.matrices.append(
            {n: normal(*size) / np.float32(math.sqrt(size[1])) for n, size in sizes.items()}
        )
        weights.numbers.append({n: numbers(n, v.count) for n, v in block.numbers.items()})
    return weights


def encoder_memory(encoder: Encoder, weights: EncoderWeights) -> NDArray[np.uint8]:
    """Memory before the program runs."""
    memory = np.zeros(encoder.emitter.memory.used, np.uint8)
    encoder.inputs.write(memory, np.ascontiguousarray(weights.inputs.T))
    for name, values in weights.embedding.items():
        encoder.embedding[name].write(memory, values)
    parts: zip[tuple[BlockTensors, Mapping[str, Any], Mapping[str, Any]]]
    parts = zip(encoder.blocks, weights.matrices, weights.numbers, strict=True)
    for block, matrices, numbers in parts:
        for name, matrix in matrices.items():
            block.operands[name].write(memory, _by_rows(matrix))
        for name, values in numbers.items():
            block.numbers[name].write(memory, values)
    return memory


def encoder_output(encoder: Encoder, weights: EncoderWeights) -> Floats:
    """Hidden states of the last block, of shape (tokens, features)."""
    configuration = encoder.emitter.configuration
    reference = _Reference(encoder.shape, configuration.arithmetic, configuration.affine)
    x = reference.normalised(weights.inputs, weights.embedding["gain"], weights.embedding["bias"])
    for matrices, numbers in zip(weights.matrices, weights.numbers, strict=True):
        x = reference.block(x, matrices, numbers)
    return x


def _by_rows(x: Floats) -> Any:
    return mx.quantize(np.ascontiguousarray(x), block=64, axis=-1)


def _by_columns(x: Floats) -> Any:
    return mx.quantize(np.ascontiguousarray(x), block=64, axis=0)


@dataclass
class _Reference:
    shape: EncoderShape
    arithmetic: Any
    affine: bool

    def product(self, a: Floats, w: Floats) -> Floats:
        """Of matrices that are converted first, in blocks of 64 along k."""
        return model.matmul(_by_rows(a), _by_columns(w), arithmetic=self.arithmetic)

    def layer(self, x: Floats, matrix: Floats, bias: Floats) -> Floats:
        result = self.product(x, matrix.T)
        return model.add(result, np.broadcast_to(bias, result.shape))

    def normalised(self, x: Floats, gain: Floats, bias: Floats) -> Floats:
        if self.affine:
            return model.layer_norm(x, gain, bias, epsilon=self.shape.epsilon)
        plain = model.layer_norm(x, epsilon=self.shape.epsilon)
        scaled = model.multiply(plain, np.broadcast_to(gain, x.shape))
        return model.add(scaled, np.broadcast_to(bias, x.shape))

    def block(
        self, x: Floats, matrices: Mapping[str, Floats], numbers: Mapping[str, Floats]
    ) -> Floats:
        def layer(name: str, values: Floats) -> Floats:
            return self.layer(values, matrices[name], numbers[name])

        query, key, value = (layer(name, x) for name in ("query", "key", "value"))
        context = np.empty_like(x)
        width = self.shape.features // self.shape.heads
        for first in range(0, self.shape.features, width):
            head = slice(first, first + width)
            scores = self.product(query[:, head], key[:, head].T)
            shares = model.softmax(scores, scale=1 / math.sqrt(width))
            context[:, head] = self.product(shares, value[:, head])

        def added(name: str, values: Floats, around: Floats) -> Floats:
            """A layer's results on what goes around it, which gets the bias first."""
            biased = model.add(around, np.broadcast_to(numbers[name], around.shape))
            return model.add(self.product(values, matrices[name].T), biased)

        x = self.normalised(
            added("output", context, x), numbers["attention_gain"], numbers["attention_bias"]
        )
        hidden = FUNCTIONS[self.shape.function](layer("up", x))
        return self.normalised(
            added("down", hidden, x), numbers["output_gain"], numbers["output_bias"]
        )
