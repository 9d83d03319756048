"""Transformers as graphs, with random weights: BERT, ViT and Llama, as PyTorch exports them."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value

_RNG = np.random.default_rng(0)


def _drawn(*shape: int) -> NDArray[np.float32]:
    return (_RNG.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)


def _linear(g: Graph, x: Value, features: int, *, biased: bool = True) -> Value:
    made = g.linear(x, _drawn(features, x.shape[-1]))
    return g.add(made, _drawn(features)) if biased else made


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


def bert(tokens: int, features: int, heads: int, hidden: int, blocks: int) -> Graph:
    """An encoder with norms after its sums, and one of embeddings."""
    g = Graph()
    x = g.norm("layer_norm", g.input("x", (1, tokens, features)), _drawn(features))
    for _ in range(blocks):
        parts = (_heads(g, _linear(g, x, features), heads) for _ in range(3))
        x = g.add(_linear(g, _attention(g, *parts), features), x)
        x = g.norm("layer_norm", x, _drawn(features), _drawn(features))
        up = g.function("gelu", _linear(g, x, hidden))
        x = g.add(_linear(g, up, features), x)
        x = g.norm("layer_norm", x, _drawn(features), _drawn(features))
    g.output("y", x)
    return g


def vit(tokens: int, features: int, heads: int, hidden: int, blocks: int) -> Graph:
    """An encoder with norms before its layers, and one of hidden states."""
    g = Graph()
    x = g.input("x", (1, tokens, features))
    for _ in range(blocks):
        normed = g.norm("layer_norm", x, _drawn(features), _drawn(features))
        parts = (_heads(g, _linear(g, normed, features), heads) for _ in range(3))
        x = g.add(_linear(g, _attention(g, *parts), features), x)
        normed = g.norm("layer_norm", x, _drawn(features), _drawn(features))
        x = g.add(_linear(g, g.function("gelu", _linear(g, normed, hidden)), features), x)
    g.output("y", g.norm("layer_norm", x, _drawn(features), _drawn(features)))
    return g


def llama(
    tokens: int, features: int, heads: int, key_heads: int, hidden: int, blocks: int
) -> Graph:
    """A decoder: RMS norms, rotated queries and keys, heads that share keys, a gate."""
    g = Graph()
    x = g.input("x", (1, tokens, features))
    width = features // heads
    tables = [_drawn(tokens, width) for _ in range(2)]
    linear = partial(_linear, biased=False)
    for _ in range(blocks):
        normed = g.norm("rms_norm", x, _drawn(features))
        query = _rotated(g, _heads(g, linear(g, normed, features), heads), tables)
        key = _rotated(g, _heads(g, linear(g, normed, key_heads * width), key_heads), tables)
        value = _heads(g, linear(g, normed, key_heads * width), key_heads)
        x = g.add(x, linear(g, _attention(g, query, key, value, causal=True), features))
        normed = g.norm("rms_norm", x, _drawn(features))
        gate, up = g.function("silu", linear(g, normed, hidden)), linear(g, normed, hidden)
        x = g.add(x, linear(g, g.multiply(gate, up), features))
    g.output("y", g.norm("rms_norm", x, _drawn(features)))
    return g
