"""A transformer encoder as NumPy and the public models compute it, without any machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.model.functions import FUNCTIONS
from verif.machine.compiler.network_weights import (
    NetworkWeights,
    by_rows,
    random_weights,
    write_weights,
)

Floats = NDArray[np.float32]


def random_encoder(encoder: Encoder, seed: int) -> NetworkWeights:
    """Numbers that keep hidden states near 1."""
    shape = encoder.shape
    return random_weights(shape.tokens, shape.features, encoder.embedding, encoder.blocks, seed)


def encoder_memory(encoder: Encoder, weights: NetworkWeights) -> NDArray[np.uint8]:
    """Memory before the program runs."""
    memory = np.zeros(encoder.emitter.memory.used, np.uint8)
    encoder.inputs.write(memory, np.ascontiguousarray(weights.inputs.T))
    write_weights(memory, weights, encoder.embedding, encoder.blocks)
    return memory


def encoder_output(encoder: Encoder, weights: NetworkWeights) -> Floats:
    """Hidden states of the last block, of shape (tokens, features)."""
    configuration = encoder.emitter.configuration
    reference = _Reference(encoder.shape, configuration.arithmetic, configuration.affine)
    x = reference.normalised(weights.inputs, weights.norm["gain"], weights.norm["bias"])
    for matrices, numbers in zip(weights.matrices, weights.numbers, strict=True):
        x = reference.block(x, matrices, numbers)
    return x


def _by_columns(x: Floats) -> Any:
    return mx.quantize(np.ascontiguousarray(x), block=64, axis=0)


@dataclass
class _Reference:
    shape: EncoderShape
    arithmetic: Any
    affine: bool

    def product(self, a: Floats, w: Floats) -> Floats:
        """Of matrices that are converted first, in blocks of 64 along k."""
        return model.matmul(by_rows(a), _by_columns(w), arithmetic=self.arithmetic)

    def layer(self, x: Floats, matrix: Floats, bias: Floats) -> Floats:
        result = self.product(x, matrix.T)
        return model.add(result, np.broadcast_to(bias, result.shape))

    def normalised(self, x: Floats, gain: Floats, bias: Floats) -> Floats:
        epsilon = self.shape.epsilon
        if self.affine:
            return model.layer_norm(x, gain, bias, epsilon=epsilon, grade="fine")
        plain = model.layer_norm(x, epsilon=epsilon, grade="fine")
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
