"""Transformers with normalisations first, by the public models and in float64."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.compiler.transformer_shape import TransformerShape, rotary_tables
from mxsafe.machine.compiler.transformers import Transformer
from mxsafe.model.functions import FUNCTIONS
from verif.machine.compiler.network_weights import (
    NetworkWeights,
    by_rows,
    random_weights,
    write_weights,
)

Floats = NDArray[np.float32]


def random_transformer(transformer: Transformer, seed: int) -> NetworkWeights:
    """Numbers that keep hidden states near 1."""
    shape = transformer.shape
    return random_weights(shape.tokens, shape.features, transformer.final, transformer.blocks, seed)


def transformer_memory(transformer: Transformer, weights: NetworkWeights) -> NDArray[np.uint8]:
    """Memory before the program runs."""
    shape = transformer.shape
    memory = np.zeros(transformer.emitter.memory.used, np.uint8)
    transformer.inputs.write(memory, np.ascontiguousarray(weights.inputs.T))
    for place, table in zip(
        transformer.tables, rotary_tables(shape.tokens, shape.width), strict=False
    ):
        place.write(memory, table)
    write_weights(memory, weights, transformer.final, transformer.blocks)
    return memory


def transformer_output(transformer: Transformer, weights: NetworkWeights) -> Floats:
    """Hidden states, of shape (tokens, features), in every bit."""
    configuration = transformer.emitter.configuration
    reference = _Reference(transformer.shape, configuration.arithmetic, configuration.affine)
    return reference.output(weights)


def transformer_keys(
    transformer: Transformer, weights: NetworkWeights
) -> list[tuple[list[Floats], Floats]]:
    """Of each block the keys of each head, tokens by features, and values, features by tokens."""
    configuration = transformer.emitter.configuration
    reference = _Reference(transformer.shape, configuration.arithmetic, configuration.affine)
    reference.output(weights)
    return reference.kept


def transformer_float64(shape: TransformerShape, weights: NetworkWeights) -> NDArray[np.float64]:
    """Hidden states without MX formats: every operation in float64."""
    return _Float64(shape).output(weights)


class _Blocks:
    """The structure; what its operations compute with is settled below."""

    shape: TransformerShape
    kept: list[tuple[list[Any], Any]]
    """Rotated keys of each head and values of each block."""

    def product(self, a: Any, w: Any) -> Any:
        raise NotImplementedError

    def add(self, x: Any, y: Any) -> Any:
        raise NotImplementedError

    def multiply(self, x: Any, y: Any) -> Any:
        raise NotImplementedError

    def softmax(self, scores: Any, scale: float, mask: Any) -> Any:
        raise NotImplementedError

    def function(self, x: Any) -> Any:
        raise NotImplementedError

    def normalised(self, x: Any, gain: Any, bias: Any) -> Any:
        raise NotImplementedError

    def output(self, weights: NetworkWeights) -> Any:
        x: Any = weights.inputs
        for matrices, numbers in zip(weights.matrices, weights.numbers, strict=True):
            ready = self.normal(x, numbers, "attention_")
            context = self.context(ready, matrices, numbers)
            x = self.added("output", context, x, matrices, numbers)
            ready = self.normal(x, numbers, "perceptron_")
            hidden = self.hidden(ready, matrices, numbers)
            x = self.added("down", hidden, x, matrices, numbers)
        return self.normal(x, weights.norm, "")

    def normal(self, x: Any, numbers: Mapping[str, Floats], prefix: str) -> Any:
        gain = numbers[f"{prefix}gain"]
        return self.normalised(x, gain, numbers.get(f"{prefix}bias", np.zeros_like(gain)))

    def layer(
        self, name: str, x: Any, matrices: Mapping[str, Floats], numbers: Mapping[str, Floats]
    ) -> Any:
        return self.biased(name, self.product(x, matrices[name].T), numbers)

    def added(
        self,
        name: str,
        x: Any,
        around: Any,
        matrices: Mapping[str, Floats],
        numbers: Mapping[str, Floats],
    ) -> Any:
        """A layer's results on what goes around it, which gets the bias first."""
        return self.add(self.product(x, matrices[name].T), self.biased(name, around, numbers))

    def biased(self, name: str, x: Any, numbers: Mapping[str, Floats]) -> Any:
        return self.add(x, np.broadcast_to(numbers[name], x.shape)) if name in numbers else x

    def rotated(self, x: Any) -> Any:
        """Each head of queries or keys by itself, of shape (tokens, features of a head)."""
        if not self.shape.rotary:
            return x
        half = x.shape[1] // 2
        cosines, sines = (np.ascontiguousarray(t.T) for t in rotary_tables(*x.shape))
        exchanged = np.concatenate([x[:, half:], x[:, :half]], axis=1)
        return self.add(self.multiply(x, cosines), self.multiply(exchanged, sines))

    def context(self, x: Any, matrices: Mapping[str, Floats], numbers: Mapping[str, Floats]) -> Any:
        s = self.shape
        query, key, value = (
            self.layer(name, x, matrices, numbers) for name in ("query", "key", "value")
        )
        keys = [self.rotated(part) for part in np.split(key, s.shared_heads, axis=1)]
        self.kept.append((keys, value.T))
        context = np.empty_like(x)
        seen = np.tri(s.tokens, dtype=bool) if s.causal else None
        for head in range(s.heads):
            own = slice(head * s.width, (head + 1) * s.width)
            shared = head // (s.heads // s.shared_heads)
            scores = self.product(self.rotated(query[:, own]), keys[shared].T)
            shares = self.softmax(scores, 1 / math.sqrt(s.width), seen)
            theirs = slice(shared * s.width, (shared + 1) * s.width)
            context[:, own] = self.product(shares, value[:, theirs])
        return context

    def hidden(self, x: Any, matrices: Mapping[str, Floats], numbers: Mapping[str, Floats]) -> Any:
        up = self.layer("up", x, matrices, numbers)
        if not self.shape.gated:
            return self.function(up)
        return self.multiply(self.function(self.layer("gate", x, matrices, numbers)), up)


@dataclass
class _Reference(_Blocks):
    """By the bit-exact models, with operands converted before each product."""

    shape: TransformerShape
    arithmetic: Any
    affine: bool
    kept: list[tuple[list[Any], Any]] = field(default_factory=list)

    def product(self, a: Any, w: Any) -> Any:
        columns = mx.quantize(np.ascontiguousarray(w), block=64, axis=0)
        return model.matmul(by_rows(a), columns, arithmetic=self.arithmetic)

    def add(self, x: Any, y: Any) -> Any:
        return model.add(np.ascontiguousarray(x), np.ascontiguousarray(y))

    def multiply(self, x: Any, y: Any) -> Any:
        return model.multiply(np.ascontiguousarray(x), np.ascontiguousarray(y))

    def softmax(self, scores: Any, scale: float, mask: Any) -> Any:
        return model.softmax(scores, scale=scale, mask=mask)

    def function(self, x: Any) -> Any:
        return FUNCTIONS[self.shape.function](x)

    def normalised(self, x: Any, gain: Any, bias: Any) -> Any:
        kind: Any = {"centre": self.shape.norm == "layer_norm", "grade": "fine"}
        if self.affine:
            return model.normalise(x, gain, bias, self.shape.epsilon, **kind).result
        plain = model.normalise(x, epsilon=self.shape.epsilon, **kind).result
        scaled = model.multiply(plain, np.broadcast_to(gain, x.shape))
        return model.add(scaled, np.broadcast_to(bias, x.shape))


@dataclass
class _Float64(_Blocks):
    """By definition."""

    shape: TransformerShape
    kept: list[tuple[list[Any], Any]] = field(default_factory=list)

    def product(self, a: Any, w: Any) -> Any:
        return np.asarray(a, np.float64) @ np.asarray(w, np.float64)

    def add(self, x: Any, y: Any) -> Any:
        return x + np.float64(y)

    def multiply(self, x: Any, y: Any) -> Any:
        return x * np.float64(y)

    def softmax(self, scores: Any, scale: float, mask: Any) -> Any:
        scaled = scores * scale
        if mask is not None:
            scaled = np.where(mask, scaled, -np.inf)
        shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def function(self, x: Any) -> Any:
        if self.shape.function == "silu":
            return x / (1 + np.exp(-x))
        assert self.shape.function == "gelu"
        erf = np.vectorize(math.erf, otypes=[np.float64])
        return x / 2 * (1 + erf(x / math.sqrt(2)))

    def normalised(self, x: Any, gain: Any, bias: Any) -> Any:
        x = np.float64(x)
        if self.shape.norm == "layer_norm":
            x = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((x**2).mean(axis=1, keepdims=True) + self.shape.epsilon)
        return x / deviation * gain + bias
