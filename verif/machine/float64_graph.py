"""Graphs in float64, without rounding to any format: what their operations mean."""

import math

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value

Wide = NDArray[np.float64]


def evaluate(graph: Graph, inputs: dict[str, Wide]) -> dict[str, Wide]:
    """Outputs of a graph."""
    known: dict[int, Wide] = {}
    for value in graph.values:
        given = [known[id(one)] for one in value.inputs]
        known[id(value)] = inputs[value.name] if value.op == "input" else _of(value, given)
    return {name: known[id(value)] for name, value in graph.outputs.items()}


def _of(value: Value, given: list[Wide]) -> Wide:
    if value.op == "constant":
        return np.asarray(value.data, np.float64)
    if value.op == "gather":
        flat = np.concatenate([one.reshape(-1) for one in given])
        return np.where(value.numbers < 0, 0, flat[value.numbers])
    if value.op == "product":
        return np.einsum("omk,onk->omn", *given)
    x = given[0]
    if value.op == "host":
        if value.detail == "rows":
            return np.asarray(x[given[1].astype(np.int64)])
        assert value.detail == "add_rows"
        total, places = np.zeros(value.shape), x.reshape(-1).astype(np.int64)
        np.add.at(total, places, given[1].reshape(-1, value.shape[1]))
        total[int(value.parameter) :][: value.parameter >= 0] = 0
        return total
    if value.op == "arithmetic":
        if value.detail == "scale":
            return value.parameter * x
        return x + given[1] if value.detail == "add" else x * given[1]
    if value.op == "function":
        with np.errstate(divide="ignore"):
            return _function(value.detail, x)
    if value.op == "sum":
        return x.sum(axis=-1, keepdims=True)
    if value.op == "softmax":
        wide = value.parameter * x
        if value.detail == "causal":
            wide = np.where(np.tri(*x.shape[-2:], dtype=np.bool_), wide, -np.inf)
        powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    if value.op == "layer_norm":
        x = x - x.mean(axis=-1, keepdims=True)
    gain, bias = value.numbers.astype(np.float64)
    root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + value.parameter)
    return x / root * gain + bias


def _function(name: str, x: Wide) -> Wide:
    erf = np.vectorize(math.erf)
    sigmoid = 1 / (1 + np.exp(-x))
    normal = 0.5 * (1 + erf(x / math.sqrt(2)))
    known = {
        "relu": lambda: np.maximum(x, 0),
        "relu_derivative": lambda: (x > 0).astype(np.float64),
        "gelu": lambda: x * normal,
        "gelu_derivative": lambda: normal + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        "silu": lambda: x * sigmoid,
        "silu_derivative": lambda: sigmoid * (1 + x * (1 - sigmoid)),
        "tanh": lambda: np.tanh(x),
        "tanh_derivative": lambda: 1 - np.tanh(x) ** 2,
        "exp": lambda: np.exp(x),
        "sigmoid": lambda: sigmoid,
        "reciprocal": lambda: 1 / x,
        "rsqrt": lambda: 1 / np.sqrt(x),
    }
    made: Wide = known[name]()
    return made
