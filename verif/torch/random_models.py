"""Models of operators that compile, drawn from a seed."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

LONGEST = 96
"""Values along an axis, at most."""
WORDS = 17
"""Rows of tables that integers choose from."""
aten = torch.ops.aten


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

    def examples(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers, and integers below `WORDS`."""
        generator = torch.Generator().manual_seed(self.seed)
        ids = torch.randint(0, WORDS, self.shape[:-1], generator=generator)
        return torch.randn(self.shape, generator=generator), ids

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.counts.clear()
        draw = _Draw(self.seed, x, ids)
        known = [x]
        for _ in range(self.steps):
            name = str(draw.rng.choice(list(_OPERATORS)))
            made = _OPERATORS[name](draw, known)
            if made is not None and max(made.shape) <= LONGEST:
                self.counts[name] += 1
                known.append(made)
        return (torch.relu(x), *known[-2:])


class _Draw:
    def __init__(self, seed: int, x: torch.Tensor, ids: torch.Tensor) -> None:
        self.rng = np.random.default_rng(seed + 1)
        self.x, self.ids = x, ids

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[self.number(0, len(choices))]

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
        lambda x: (torch.square(x) + 0.5) ** draw.one([0.5, -0.5, -1, 2, 1]),
        lambda x: torch.reciprocal(torch.square(x) + 1),
        lambda x: aten.rsub(x, 1.5),
        lambda x: x * torch.ones_like(x) + torch.zeros_like(x) + x.new_ones(1),
        lambda x: torch.full_like(x, 0.5) * x + x.new_full((1,), 2.0) + x.new_zeros(1),
        lambda x: functional.dropout(x, 0.5, training=False) + torch.empty_like(x).fill_(1.0),
        lambda x: aten.alias(aten.detach(aten.lift_fresh_copy(x))),
        lambda x: aten._to_copy(x.clone().contiguous().to(torch.float32)).type_as(x),
    ]
    return draw.one(functions)(draw.of(known))


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


def _moved(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    """Something of the input in another order, which the host moves: two axes, or three."""
    x, last = draw.x, draw.x.shape[-1]
    rows = x.reshape(-1, last)
    count = rows.shape[0]
    image = rows[:1, :1].expand(8, 18).reshape(1, 8, 3, 6)
    moves: list[Callable[[], Any]] = [
        lambda: rows.t(),
        lambda: rows.transpose(0, 1).flip(0),
        lambda: rows.swapaxes(0, 1).roll(1, 1),
        lambda: x.movedim(-1, 0).flatten(1),
        lambda: rows.repeat(1, 2).permute(1, 0),
        lambda: rows.index_select(1, torch.arange(last).flip(0)),
        lambda: rows.narrow(1, last // 2, last - last // 2),
        lambda: rows.chunk(2, 1)[0],
        lambda: rows.split(-(-last // 2), 1)[-1],
        lambda: torch.split(rows, [1, last - 1], 1)[0],
        lambda: rows.select(0, 0)[None],
        lambda: torch.stack(rows.unbind(1), 1),
        lambda: rows.unflatten(0, (1, count)).squeeze(0),
        lambda: rows.repeat_interleave(2, 1),
        lambda: rows.unsqueeze(0).expand(2, count, last),
        lambda: rows[:1].expand_as(rows),
        lambda: rows.view(last, count),
        lambda: rows.view_as(torch.empty(count, last)),
        lambda: rows.reshape(last, count),
        lambda: aten._unsafe_view(rows, (last, count)),
        lambda: functional.pixel_shuffle(image, 2).reshape(2, -1),
        lambda: functional.pixel_unshuffle(image, 3).reshape(9, -1),
        lambda: rows[torch.arange(count).flip(0)],
    ]
    return torch.sigmoid(draw.one(moves)())


def _chosen(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    """By masks that are constants, or that the host makes of integers."""
    x = draw.of(known)
    mask = draw.constant(*x.shape[-2:]) > 0
    integers = draw.ids.reshape(-1)
    if x.shape[-2] == integers.shape[0] and draw.number(0, 2):
        mask = draw.one(
            [
                integers.eq(3) | integers.ge(9),
                integers.ne(3) & (integers * 2 - 1).le(9),
                torch.logical_or(integers > 4, integers < 2),
                torch.logical_and(integers > 4, ~(integers == 7)),
                torch.logical_not(torch.cumsum(integers + 1, 0) >= 40),
                torch.bitwise_or(integers.lt(5), torch.bitwise_not(integers.gt(2))),
                aten.__and__(integers.lt(5), aten.__or__(integers.gt(2), integers.eq(0))),
                torch.bitwise_and(integers.lt(9), integers.gt(2)),
            ]
        )[:, None]
    choices: list[Callable[[], torch.Tensor]] = [
        lambda: x.masked_fill(mask, -2.0),
        lambda: torch.where(mask, x, torch.tanh(x)),
        lambda: torch.where(mask, 0.5, x),
        lambda: torch.where(mask, 1.0, 0.25) * x,
        lambda: x * mask.to(torch.float32),
    ]
    return draw.one(choices)()


def _rows_of(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor:
    """Rows of tables by integers, of which several may be asked for."""
    features = draw.number(1, 40)
    table, other = draw.constant(WORDS, features), draw.constant(WORDS, 2, features)
    if draw.number(0, 2):
        return functional.embedding(draw.ids, table) + table[0]
    return functional.embedding(draw.ids, table) * other[draw.ids, torch.zeros_like(draw.ids)]


def _matrices(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor | None:
    x = draw.of(known)
    features = draw.number(1, 40)
    weight = draw.constant(x.shape[-1], features, spread=1 / math.sqrt(x.shape[-1]))
    if x.dim() == 2:
        bias = draw.constant(features)
        return torch.mm(x, weight) if draw.number(0, 2) else torch.addmm(bias, x, weight)
    if x.dim() == 3:
        many = weight.expand(x.shape[0], *weight.shape)
        bias = draw.constant(x.shape[0], 1, features)
        return torch.bmm(x, many) if draw.number(0, 2) else torch.baddbmm(bias, x, many)
    return None


def _patches(draw: _Draw, known: list[torch.Tensor]) -> torch.Tensor | None:
    rows = draw.x.reshape(1, 1, -1, draw.x.shape[-1])
    size = [min(draw.number(1, 5), side) for side in rows.shape[2:]]
    weight = draw.constant(draw.number(1, 20), 1, *size)
    made = functional.conv2d(rows, weight, draw.constant(len(weight)), stride=size)
    return made.flatten(2).transpose(1, 2)


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
    "moved": _moved,
    "chosen": _chosen,
    "rows": _rows_of,
    "matrices": _matrices,
    "patches": _patches,
}
