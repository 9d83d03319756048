"""Models of operators that compile, drawn from a seed."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

LONGEST = 96
"""Values along an axis, at most."""


class Drawn(torch.nn.Module):
    """A model that does what a generator of random numbers says, the same each time.

    Parameters
    ----------
    seed : int
    steps : int
        Operators, about.

    Attributes
    ----------
    counts : Counter
        How often each kind of operator was drawn.
    """

    def __init__(self, seed: int, steps: int = 8) -> None:
        super().__init__()
        self.seed, self.steps = seed, steps
        self.counts: Counter[str] = Counter()
        rng = np.random.default_rng(seed)
        batch = [(), (1,), (2,)][rng.integers(3)]
        tokens, features = int(rng.integers(1, 40)), int(rng.integers(1, 80))
        self.shape = (*batch, tokens, features)

    def example(self) -> torch.Tensor:
        return torch.randn(self.shape, generator=torch.Generator().manual_seed(self.seed))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.counts.clear()
        draw = _Draw(self.seed)
        known = [x]
        for _ in range(self.steps):
            name = str(draw.rng.choice(list(_OPERATORS)))
            made = _OPERATORS[name](draw, known)
            if made is not None and max(made.shape) <= LONGEST:
                self.counts[name] += 1
                known.append(made)
        return known[-1] if len(known) > 1 else torch.relu(x)


class _Draw:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed + 1)

    def of(self, known: list[torch.Tensor]) -> torch.Tensor:
        """One of the last tensors."""
        return known[-1 - int(min(self.rng.geometric(0.6) - 1, len(known) - 1))]

    def constant(self, *shape: int, spread: float = 1.0) -> torch.Tensor:
        return torch.from_numpy(self.rng.normal(0, spread, shape).astype(np.float32))

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))


def _linear(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    features = draw.number(1, 80)
    weight = draw.constant(features, x.shape[-1], spread=1 / math.sqrt(x.shape[-1]))
    bias = draw.constant(features) if draw.number(0, 2) else None
    return functional.linear(x, weight, bias)


def _function(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    functions: list[Callable[..., Any]] = [
        torch.relu,
        functional.gelu,
        lambda x: functional.gelu(x, approximate="tanh"),
        functional.silu,
        torch.tanh,
        torch.sigmoid,
        torch.square,
        torch.neg,
        lambda x: torch.exp(-torch.square(x)),
        lambda x: x / 3 + 1,
        lambda x: 1 - 0.25 * x,
        lambda x: torch.rsqrt(torch.square(x) + 1),
        lambda x: torch.sqrt(torch.square(x) + 0.5),
        lambda x: x / (torch.sigmoid(x) + 0.5),
        lambda x: x**3,
    ]
    return functions[draw.number(0, len(functions))](draw.of(known))


def _residual(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    same = [one for one in known if one.shape == x.shape]
    y = same[draw.number(0, len(same))]
    return x + y if draw.number(0, 2) else x * torch.tanh(y)


def _broadcast(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    shape = [1 if draw.number(0, 2) else size for size in x.shape]
    other = draw.constant(*shape)
    return x + other if draw.number(0, 2) else x * other


def _norm(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    size = x.shape[-1]
    gain = draw.constant(size) if draw.number(0, 2) else None
    if draw.number(0, 2):
        return functional.layer_norm(x, (size,), gain, draw.constant(size))
    return functional.rms_norm(x, (size,), gain)


def _softmax(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    return torch.softmax(draw.of(known), -1)


def _total(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    return x - x.mean(-1, keepdim=True) if draw.number(0, 2) else x * x.sum(-1, keepdim=True) / 64


def _part(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor | None:
    x = draw.of(known)
    if x.shape[-1] < 2:
        return None
    at = draw.number(1, x.shape[-1])
    left, right = x[..., :at], x[..., at:]
    kind = draw.number(0, 3)
    return left if kind == 0 else right if kind == 1 else torch.cat([-right, left], -1)


def _reshape(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor | None:
    x = draw.of(known)
    if x.dim() == 2:
        return x[None]
    return x.reshape(-1, *x.shape[-2:]) if x.dim() > 3 else x


def _attention(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor | None:
    x = draw.of(known)
    if x.dim() != 3:
        return None
    batch, tokens, features = x.shape
    heads = (1, 2, 4)[draw.number(0, 3)]
    shared = heads if draw.number(0, 2) else 1
    width = draw.number(1, 24)

    def part(count: int) -> torch.Tensor:
        weight = draw.constant(count * width, features, spread=1 / math.sqrt(features))
        made = functional.linear(x, weight, draw.constant(count * width))
        return made.view(batch, tokens, count, width).transpose(1, 2)

    mask, causal = None, False
    kind = draw.number(0, 4)
    if kind == 1:
        causal = True
    elif kind == 2:
        mask = draw.constant(tokens, tokens)
    elif kind == 3:
        mask = (
            torch.ones(tokens, tokens, dtype=torch.bool)
            .tril()
            .logical_and(torch.ones(tokens, tokens, dtype=torch.bool).triu(-3))
        )
    made = functional.scaled_dot_product_attention(
        part(heads), part(shared), part(shared), mask, 0.0, causal, enable_gqa=shared != heads
    )
    return made.transpose(1, 2).reshape(batch, tokens, heads * width)


def _matmul(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    x = draw.of(known)
    return x @ (x.transpose(-1, -2) / x.shape[-1])


_OPERATORS: dict[str, Callable[[_Draw, list[torch.Tensor]], torch.Tensor | None]] = {
    "linear": _linear,
    "function": _function,
    "residual": _residual,
    "broadcast": _broadcast,
    "norm": _norm,
    "softmax": _softmax,
    "total": _total,
    "part": _part,
    "reshape": _reshape,
    "attention": _attention,
    "matmul": _matmul,
}
