"""A layer built by hand, of any sizes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value

Floats = NDArray[np.float32]
Block = int | tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """Sizes of a layer of a transformer."""

    tokens: int = 21
    features: int = 40
    heads: int = 2
    width: int = 12
    hidden: int = 52
    causal: bool = False


def weights(shape: Shape, seed: int = 0) -> dict[str, Floats]:
    """Random weights, of features out by features in."""
    s, rng = shape, np.random.default_rng(seed)
    inner = s.heads * s.width
    sizes = dict.fromkeys(("query", "key", "value"), (inner, s.features))
    sizes |= {"out": (s.features, inner), "up": (s.hidden, s.features)}
    sizes |= {"down": (s.features, s.hidden)}
    made = {n: rng.standard_normal(size) / np.sqrt(size[1]) for n, size in sizes.items()}
    made |= {n: rng.standard_normal(s.features) for n in ("gain", "bias")}
    return {name: w.astype(np.float32) for name, w in made.items()}


def layer(shape: Shape, w: dict[str, Floats]) -> Graph:
    """Attention and a perceptron, each added to what it takes, and a norm between them."""
    s, g = shape, Graph()
    x = g.input("x", (s.tokens, s.features))

    def heads(name: str) -> Value:
        made = g.reshape(g.linear(x, w[name], name), (s.tokens, s.heads, s.width))
        return g.transpose(made, (1, 0, 2))

    query, key, value = map(heads, ("query", "key", "value"))
    scores = g.matmul(query, g.transpose(key, (0, 2, 1)), "scores")
    shares = g.softmax(scores, s.width**-0.5, causal=s.causal, name="shares")
    context = g.transpose(g.matmul(shares, value, "context"), (1, 0, 2))
    joined = g.reshape(context, (s.tokens, s.heads * s.width))
    total = g.add(x, g.linear(joined, w["out"], "out"), "sum")
    normed = g.norm("layer_norm", total, w["gain"], w["bias"], name="norm")
    up = g.function("gelu", g.linear(normed, w["up"], "up"), "activation")
    g.output("y", g.add(normed, g.linear(up, w["down"], "down"), "y"))
    return g


def given_to(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a graph."""
    rng = np.random.default_rng(seed)
    inputs = [value for value in graph.values if value.op == "input"]
    return {one.name: rng.standard_normal(one.shape).astype(np.float32) for one in inputs}
