"""Optimisers as operations of a graph: PyTorch's formulas, made of what the machine has.

Rates and corrections come from memory, so that one program serves all steps; the host computes them
in float64 and rounds them once. What does not change from step to step is part of the program.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mxsafe.machine.graph import Graph, Value
from mxsafe.validation import checked


class Trained(NamedTuple):
    """A weight, and what changes it.

    Attributes
    ----------
    weight, gradient : Value
    moments : sequence of Value
        In the order of `Optimiser.moments`.
    rates : Mapping of str to Value
        Those of `Optimiser.rates`.
    """

    weight: Value
    gradient: Value
    moments: Sequence[Value]
    rates: Mapping[str, Value]


class Optimiser(Protocol):
    """Rule by which weights change."""

    @property
    def moments(self) -> tuple[str, ...]:
        """Names of what is kept for each weight, 0 at first."""

    def rates(self, rate: float, step: int) -> dict[str, np.float32]:
        """Numbers of one step, counted from 1, by name."""

    def update(self, graph: Graph, old: Trained) -> tuple[Value, list[Value]]:
        """The new weight and its new moments."""


def _mixed(graph: Graph, old: Value, share: float, new: Value, other: float) -> Value:
    return graph.add(graph.scale(new, other), graph.scale(old, share))


@checked
@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent: ``torch.optim.SGD`` without dampening.

    ``g += decay * w``; with momentum ``m = momentum * m + g`` and ``g = m``, of Nesterov
    ``g += momentum * m``; ``w += -rate * g``.
    """

    momentum: float = 0.0
    decay: float = 0.0
    nesterov: bool = False

    @property
    def moments(self) -> tuple[str, ...]:
        """The sum of gradients, if there is momentum."""
        return ("momentum_buffer",) if self.momentum else ()

    def rates(self, rate: float, step: int) -> dict[str, np.float32]:
        """The rate, negative."""
        return {"rate": np.float32(-rate)}

    def update(self, graph: Graph, old: Trained) -> tuple[Value, list[Value]]:
        """The new weight and its new moments."""
        weight, gradient, moments, rates = old
        if self.decay:
            gradient = graph.add(graph.scale(weight, self.decay), gradient)
        kept = []
        if self.momentum:
            moment = graph.add(graph.scale(moments[0], self.momentum), gradient)
            kept = [moment]
            nesterov = graph.add(graph.scale(moment, self.momentum), gradient)
            gradient = nesterov if self.nesterov else moment
        return graph.add(weight, graph.multiply(gradient, rates["rate"])), kept


@checked
@dataclass(frozen=True)
class AdamW:
    """``torch.optim.AdamW``, and with `coupled` decay ``torch.optim.Adam``.

    ``m = b1 * m + (1 - b1) * g``; ``v = b2 * v + (1 - b2) * (g * g)``;
    ``d = sqrt(v) / sqrt(1 - b2^t) + epsilon``, where ``sqrt(v) = reciprocal(rsqrt(v))``;
    ``w = w * (1 - rate * decay) + (m * reciprocal(d)) * (-rate / (1 - b1^t))``. Coupled decay is
    ``g += decay * w`` instead.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.01
    coupled: bool = False

    @property
    def moments(self) -> tuple[str, ...]:
        """Means of gradients and of their squares."""
        return ("exp_avg", "exp_avg_sq")

    def rates(self, rate: float, step: int) -> dict[str, np.float32]:
        """The rate over the first correction, negative; the second; what decay leaves."""
        first, second = (1 - beta**step for beta in self.betas)
        return {
            "rate": np.float32(-rate / first),
            "correction": np.float32(1 / math.sqrt(second)),
            "decay": np.float32(1 - (0 if self.coupled else rate * self.decay)),
        }

    def update(self, graph: Graph, old: Trained) -> tuple[Value, list[Value]]:
        """The new weight and its new moments."""
        weight, gradient, moments, rates = old
        g, (first, second) = graph, self.betas
        if self.coupled and self.decay:
            gradient = g.add(g.scale(weight, self.decay), gradient)
        m = _mixed(g, moments[0], first, gradient, 1 - first)
        v = _mixed(g, moments[1], second, g.multiply(gradient, gradient), 1 - second)
        root = g.function("reciprocal", g.function("rsqrt", v))
        epsilon = np.full(1, self.epsilon, np.float32)
        divisor = g.add(g.multiply(root, rates["correction"]), epsilon)
        change = g.multiply(g.multiply(m, g.function("reciprocal", divisor)), rates["rate"])
        if not self.coupled and self.decay:
            weight = g.multiply(weight, rates["decay"])
        return g.add(weight, change), [m, v]
