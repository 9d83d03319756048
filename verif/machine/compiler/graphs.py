"""Graphs built by hand, and what the models make of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.model.gemm import ProductArithmetic

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


def layer_result(
    shape: Shape, w: dict[str, Floats], x: Floats, c: MachineConfiguration, block: Block | None = 64
) -> Floats:
    """The same with the models."""
    s = shape

    def product(a: Floats, b: Floats) -> Floats:
        if block is None:
            halves = (one.astype(ml_dtypes.bfloat16).view(np.uint16) for one in (a, b))
            return model.bf16_matmul(*halves)
        sides: Sequence[dict[str, Any]] = [{"block": block}] * 2
        if isinstance(block, int):
            sides = [{"block": block, "axis": axis} for axis in (-1, -2)]
        qa, qb = (
            mx.quantize(np.ascontiguousarray(one), c.conversion_format, **side)
            for one, side in zip((a, b), sides, strict=True)
        )
        arithmetic = cast(ProductArithmetic, c.arithmetic)
        return model.matmul(qa, qb, arithmetic=arithmetic, lanes=c.lanes)

    parts = {n: product(x, w[n].T) for n in ("query", "key", "value")}
    lower = np.tri(s.tokens, dtype=np.bool_) if s.causal else None
    contexts = []
    for head in range(s.heads):
        own = np.s_[:, head * s.width : (head + 1) * s.width]
        scores = product(parts["query"][own], parts["key"][own].T)
        shares = model.softmax(scores, mask=lower, scale=s.width**-0.5, grade=c.grade)
        contexts.append(product(shares, parts["value"][own]))
    total = model.add(x, product(np.hstack(contexts), w["out"].T))
    normed = model.normalise(total, w["gain"], w["bias"], 1e-5, grade=c.grade).result
    up = model.gelu(product(normed, w["up"].T), c.grade)
    return model.add(normed, product(up, w["down"].T))
