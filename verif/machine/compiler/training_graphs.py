"""Training steps by hand, for tests without PyTorch."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph
from mxsafe.machine.updates import Sgd, Trained


def perceptron_step(batch: int, features: Sequence[int], rate: float = 0.125) -> Graph:
    """Forward pass, cross-entropy, gradients and new weights of a perceptron with ReLU."""
    g = Graph()
    x = g.input("x", (batch, features[0]))
    target = g.input("target", (batch, features[-1]))
    weights = [
        g.input(f"weight {layer}", (rows, columns))
        for layer, (columns, rows) in enumerate(pairwise(features))
    ]
    for layer, weight in enumerate(weights):
        x = g.linear(g.function("relu", x) if layer else x, weight)
    seed = g.add(g.scale(g.softmax(x), 1 / batch), target)
    rates = {"rate": g.constant(np.full(1, -rate, np.float32))}
    for weight, gradient in zip(weights, gradients(g, {x: seed}, weights), strict=True):
        g.update(weight, Sgd().update(g, Trained(weight, gradient, (), rates))[0])
    return g
