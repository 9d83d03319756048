"""Transformers as graphs, with random weights: BERT, ViT and Llama, as PyTorch exports them."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value

Weight = Callable[..., NDArray[np.float32]]
"""Gives the tensor of a name and a shape."""


def drawn(name: str, *shape: int) -> NDArray[np.float32]:
    """A tensor of random numbers, the same for the same name."""
    rng = np.random.default_rng([*name.encode()])
    return (rng.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)


def _linear(
    g: Graph, x: Value, weight: Weight, name: str, features: int, *, biased: bool = True
) -> Value:
    made = g.linear(x, weight(f"{name}.weight", features, x.shape[-1]), name)
    return g.add(made, weight(f"{name}.bias", features)) if biased else made


def _norm(g: Graph, kind: str, x: Value, weight: Weight, name: str, epsilon: float) -> Value:
    features = x.shape[-1]
    bias = weight(f"{name}.bias", features) if kind == "layer_norm" else None
    return g.norm(kind, x, weight(f"{name}.weight", features), bias, epsilon, name)


def _heads(g: Graph, x: Value, count: int) -> Value:
    batch, tokens, features = x.shape
    apart = g.reshape(x, (batch, tokens, count, features // count))
    return g.transpose(apart, (0, 2, 1, 3))


def _rotated(g: Graph, x: Value, tables: list[NDArray[np.float32]]) -> Value:
    half, places = x.shape[-1] // 2, x.places
    left, right = g.gather([x], places[..., :half]), g.gather([x], places[..., half:])
    turned = g.concatenate([g.scale(right, -1.0), left], axis=-1)
    return g.add(g.multiply(x, tables[0]), g.multiply(turned, tables[1]))


def _attention(g: Graph, query: Value, key: Value, value: Value, *, causal: bool = False) -> Value:
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (g.gather([x], np.repeat(x.places, shared, axis=1)) for x in (key, value))
    scores = g.matmul(query, g.transpose(key, (0, 1, 3, 2)))
    shares = g.softmax(scores, 1 / math.sqrt(query.shape[-1]), causal=causal)
    context = g.transpose(g.matmul(shares, value), (0, 2, 1, 3))
    batch, tokens, heads, width = context.shape
    return g.reshape(context, (batch, tokens, heads * width))


def bert(
    tokens: int,
    features: int,
    heads: int,
    hidden: int,
    blocks: int,
    *,
    epsilon: float = 1e-12,
    weight: Weight = drawn,
) -> Graph:
    """An encoder with norms after its sums, and one of embeddings, with the names of MiniLM."""
    g = Graph()

    def norm(x: Value, name: str) -> Value:
        return _norm(g, "layer_norm", x, weight, f"{name}.LayerNorm", epsilon)

    x = norm(g.input("x", (1, tokens, features)), "embeddings")
    for block in range(blocks):
        own = f"encoder.layer.{block}"
        names = (f"{own}.attention.self.{part}" for part in ("query", "key", "value"))
        parts = (_heads(g, _linear(g, x, weight, name, features), heads) for name in names)
        context = _attention(g, *parts)
        made = _linear(g, context, weight, f"{own}.attention.output.dense", features)
        x = norm(g.add(made, x), f"{own}.attention.output")
        up = g.function("gelu", _linear(g, x, weight, f"{own}.intermediate.dense", hidden))
        x = norm(g.add(_linear(g, up, weight, f"{own}.output.dense", features), x), f"{own}.output")
    g.output("y", x)
    return g


def vit(
    tokens: int, features: int, heads: int, hidden: int, blocks: int, *, weight: Weight = drawn
) -> Graph:
    """An encoder with norms before its layers, and one of hidden states."""
    g = Graph()

    def norm(x: Value, name: str) -> Value:
        return _norm(g, "layer_norm", x, weight, name, 1e-6)

    x = g.input("x", (1, tokens, features))
    for block in range(blocks):
        normed = norm(x, f"{block}.norm1")
        names = (f"{block}.{part}" for part in ("query", "key", "value"))
        parts = (_heads(g, _linear(g, normed, weight, name, features), heads) for name in names)
        x = g.add(_linear(g, _attention(g, *parts), weight, f"{block}.out", features), x)
        normed = norm(x, f"{block}.norm2")
        up = g.function("gelu", _linear(g, normed, weight, f"{block}.up", hidden))
        x = g.add(_linear(g, up, weight, f"{block}.down", features), x)
    g.output("y", norm(x, "norm"))
    return g


def llama(
    tokens: int,
    features: int,
    heads: int,
    key_heads: int,
    hidden: int,
    blocks: int,
    *,
    weight: Weight = drawn,
) -> Graph:
    """A decoder: RMS norms, rotated queries and keys, heads that share keys, a gate."""
    g = Graph()
    width = features // heads
    tables = [weight(name, tokens, width) for name in ("cosines", "sines")]

    def norm(x: Value, name: str) -> Value:
        return _norm(g, "rms_norm", x, weight, name, 1e-5)

    def linear(x: Value, name: str, count: int) -> Value:
        return _linear(g, x, weight, name, count, biased=False)

    x = g.input("x", (1, tokens, features))
    for block in range(blocks):
        normed = norm(x, f"{block}.norm1")
        query = _heads(g, linear(normed, f"{block}.query", features), heads)
        key = _heads(g, linear(normed, f"{block}.key", key_heads * width), key_heads)
        value = _heads(g, linear(normed, f"{block}.value", key_heads * width), key_heads)
        query, key = (_rotated(g, one, tables) for one in (query, key))
        context = _attention(g, query, key, value, causal=True)
        x = g.add(x, linear(context, f"{block}.out", features))
        normed = norm(x, f"{block}.norm2")
        gate = g.function("silu", linear(normed, f"{block}.gate", hidden))
        both = g.multiply(gate, linear(normed, f"{block}.up", hidden))
        x = g.add(x, linear(both, f"{block}.down", features))
    g.output("y", norm(x, "norm"))
    return g
