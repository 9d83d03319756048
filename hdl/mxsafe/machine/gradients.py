"""Gradients of a graph, as more operations of the same graph.

Reverse-mode differentiation, operation by operation from the outputs back. With ``dy`` the gradient
of an operation's result, those of its inputs are

============== =====================================================================
``product``    ``da[o] = dy[o] B[o]`` and ``db[o] = dy[o]^T A[o]``: products again, in MX format
``add``        ``dy``
``multiply``   ``dy * y`` and ``dy * x``
``scale``      ``dy * factor``
``function``   ``dy * f'(x)``: the unit's derivative, or of the result ``y`` where that gives it:
               ``y`` of exp, ``y - y * y`` of sigmoid, ``-y * y`` of reciprocal,
               ``-(y * y) * y / 2`` of rsqrt
``softmax``    ``scale * P * (dy - sum(P * dy))``
``layer_norm`` ``r * (g - mean(g) - n * mean(g * n))`` with ``g = dy * gain``, the normalised row
               ``n = c * r``, ``c = x - mean(x)`` and ``r = rsqrt(mean(c * c) + epsilon)``
``rms_norm``   ``r * (g - n * mean(g * n))``, where ``c = x``
``sum``        ``dy``, repeated
``host``       ``rows`` of a table: each row's gradients, added up by the host
``gather``     each element's gradients, added up: see `_scattered`
============== =====================================================================

All but products is binary32, each operation rounded once; sums and means of softmax and norms are
the machine's reduction ``sum``, `mxsafe.model.window_sum`. Where a value has several users their
gradients are added, those of later users first. What a norm needs of the forward pass is computed
again, because rows of the forward pass are not in memory.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value
from mxsafe.validation import checked

Indices = NDArray[np.int64]


@checked
def gradients(graph: Graph, seeds: Mapping[Value, Value], wanted: Sequence[Value]) -> list[Value]:
    """Gradients with respect to some values, as values of the graph.

    Parameters
    ----------
    graph : Graph
        Operations are added to it.
    seeds : Mapping of Value to Value
        Values, each with the gradient of the loss with respect to it, of the same shape.
    wanted : sequence of Value
        Of these the gradients are found.

    Returns
    -------
    list of Value
        Each of the shape of its value.

    Raises
    ------
    ValueError
        If a seed has another shape than its value, or the loss does not depend on what is wanted.
    """
    for value, seed in seeds.items():
        if seed.shape != value.shape:
            raise ValueError(f"seeds must have the shape {value.shape}, not {seed.shape}")
    return _Backward(graph, seeds, wanted).run()


class _Part(NamedTuple):
    """Elements of a gradient that a source gave: their places, and those in the source."""

    gradient: Value
    mine: Indices
    places: Indices


class _Backward:
    def __init__(self, graph: Graph, seeds: Mapping[Value, Value], wanted: Sequence[Value]) -> None:
        self._g, self._wanted = graph, wanted
        self._found: dict[int, Value] = {id(value): seed for value, seed in seeds.items()}
        self._parts: dict[int, list[_Part]] = {}
        # Only what depends on something that is wanted has a gradient that is needed.
        self._needs = {id(value) for value in wanted}
        for value in graph.values:
            if any(id(one) in self._needs for one in value.inputs):
                self._needs.add(id(value))

    def run(self) -> list[Value]:
        for value in reversed([*self._g.values]):
            self._join(value)
            if id(value) in self._needs and id(value) in self._found:
                getattr(self, f"_{value.op}")(value, self._found[id(value)])
        for value in self._wanted:
            if id(value) not in self._found:
                raise ValueError(f"wanted must be what the loss depends on, not {value.name}")
        return [self._found[id(value)] for value in self._wanted]

    def _give(self, value: Value, gradient: Value) -> None:
        """One more gradient of a value."""
        known = self._found.get(id(value))
        self._found[id(value)] = gradient if known is None else self._g.add(known, gradient)

    def _asks(self, value: Value) -> bool:
        return id(value) in self._needs

    def _host(self, value: Value, dy: Value) -> None:
        """Rows of a table: the host adds up their gradients, in the order of the integers.

        A row that is padding has none.
        """
        table, *places = value.inputs
        if value.detail != "rows" or len(places) != 1:
            raise ValueError(f"{value.name}: {value.detail} of the host has no gradient")
        rows = [places[0], dy]
        padding = value.parameter
        self._give(table, self._g.host("add_rows", rows, table.shape, parameter=padding))

    def _input(self, value: Value, dy: Value) -> None:
        """Nothing lies behind it."""

    def _product(self, value: Value, dy: Value) -> None:
        g, (a, b) = self._g, value.inputs
        if self._asks(a):
            self._give(a, g.product(dy, g.transpose(b, (0, 2, 1)), f"gradient of {a.name}"))
        if self._asks(b):
            left, right = (g.transpose(one, (0, 2, 1)) for one in (dy, a))
            self._give(b, g.product(left, right, f"gradient of {b.name}"))

    def _arithmetic(self, value: Value, dy: Value) -> None:
        if value.detail == "scale":
            self._give(value.inputs[0], self._g.scale(dy, value.parameter))
            return
        for one, other in (value.inputs, value.inputs[::-1]):
            if self._asks(one):
                multiplies = value.detail == "multiply"
                self._give(one, self._g.multiply(dy, other) if multiplies else dy)

    def _function(self, value: Value, dy: Value) -> None:
        g, (x,), y = self._g, value.inputs, value
        if value.detail in ("relu", "gelu", "silu", "tanh"):
            slope = g.function(f"{value.detail}_derivative", x)
        elif value.detail == "exp":
            slope = y
        elif value.detail == "sigmoid":
            slope = g.add(y, g.scale(g.multiply(y, y), -1.0))
        elif value.detail == "reciprocal":
            slope = g.scale(g.multiply(y, y), -1.0)
        elif value.detail == "rsqrt":
            slope = g.scale(g.multiply(g.multiply(y, y), y), -0.5)
        else:
            raise ValueError(f"{value.name}: {value.detail} has no derivative")
        self._give(x, g.multiply(dy, slope))

    def _softmax(self, value: Value, dy: Value) -> None:
        g, (x,) = self._g, value.inputs
        total = g.sum(g.multiply(value, dy), window=True)
        less = g.add(dy, g.scale(total, -1.0))
        self._give(x, g.scale(g.multiply(value, less), value.parameter))

    def _layer_norm(self, value: Value, dy: Value) -> None:
        g, (x,) = self._g, value.inputs
        self._norm(value, dy, g.add(x, g.scale(self._mean(x), -1.0)), centred=True)

    def _rms_norm(self, value: Value, dy: Value) -> None:
        self._norm(value, dy, value.inputs[0], centred=False)

    def _norm(self, value: Value, dy: Value, differences: Value, *, centred: bool) -> None:
        g = self._g
        gain = value.numbers[0]
        if (gain != 1).any():
            dy = g.multiply(dy, gain)
        variance = self._mean(g.multiply(differences, differences))
        shift = np.full(variance.shape, value.parameter, np.float32)
        r = g.function("rsqrt", g.add(variance, shift))
        normalised = g.multiply(differences, r)
        share = g.multiply(normalised, self._mean(g.multiply(dy, normalised)))
        less = g.add(dy, g.scale(share, -1.0))
        if centred:
            less = g.add(less, g.scale(self._mean(dy), -1.0))
        self._give(value.inputs[0], g.multiply(less, r))

    def _mean(self, x: Value) -> Value:
        return self._g.scale(self._g.sum(x, window=True), 1 / x.shape[-1])

    def _sum(self, value: Value, dy: Value) -> None:
        (x,) = value.inputs
        self._give(x, self._g.broadcast(dy, x.shape))

    def _gather(self, value: Value, dy: Value) -> None:
        index = value.numbers.reshape(-1).astype(np.int64)
        start = 0
        for source in value.inputs:
            if self._asks(source):
                mine = np.flatnonzero((index >= start) & (index < start + source.size))
                part = _Part(dy, mine, index[mine] - start)
                self._parts.setdefault(id(source), []).append(part)
            start += source.size

    def _join(self, source: Value) -> None:
        """Give what gathers give: parts that cover a source, each element once, as one gather."""
        parts = self._parts.pop(id(source), [])
        covered = np.concatenate([one.places for one in parts]) if parts else np.zeros(0, int)
        if len(parts) > 1 and np.array_equal(np.sort(covered), np.arange(source.size)):
            starts = np.cumsum([0, *(one.gradient.size for one in parts)])
            index = np.empty(source.size, np.int64)
            for one, start in zip(parts, starts, strict=False):
                index[one.places] = one.mine + start
            made = [one.gradient for one in parts]
            self._give(source, self._g.gather(made, index.reshape(source.shape)))
            return
        for one in parts:
            self._give(source, self._scattered(source, *one))

    def _scattered(self, source: Value, dy: Value, mine: Indices, places: Indices) -> Value:
        """The sum of the gradients of each element of a source, of all the places it went to.

        An element that went nowhere has a gradient of 0. Where all others went to as many places:
        rows that it filled are summed first; then of a vector that went to many rows a product with
        ones; of anything else the last half of the copies is added to the first one, until one is
        left. So are first places, second places and so on, where they went to unlike numbers.
        """
        g = self._g
        counts = np.bincount(places, minlength=source.size)
        copies = int(counts.max())
        by_place = np.argsort(places, kind="stable")
        order, there = mine[by_place], places[by_place]
        used = np.flatnonzero(counts)
        if copies == 1 and len(used) == source.size:
            return g.gather([dy], order.reshape(source.shape))
        if copies > 1 and (counts[used] == copies).all():
            each = order.reshape(len(used), copies)
            if len(used) == source.size:
                return self._summed(source.name, source.shape, dy, each)
            length = source.shape[-1]
            rows = len(np.unique(used // length))
            shape = (rows, length) if rows * length == len(used) else (len(used),)
            part = self._summed(source.name, shape, dy, each)
            return self._scattered(source, part, np.arange(len(used)), used)
        if copies > 1:
            number = np.arange(len(there)) - np.repeat(np.cumsum(counts) - counts, counts)
            kinds = [number == one for one in range(copies)]
            return self._added([self._scattered(source, dy, order[k], there[k]) for k in kinds])
        whole = np.full(source.shape, -1, np.int64)
        whole.reshape(-1)[places] = mine
        if not _finite(dy):
            zero = g.constant(np.zeros(1, np.float32))
            return g.gather([dy, zero], np.where(whole < 0, dy.size, whole))
        # A vector beat can have no zeros beside numbers. So all is computed, from zeros where there
        # is nothing, and multiplied by 0; +0 is added, for what was negative is -0 then.
        mask = (whole >= 0).astype(np.float32)
        part = g.multiply(g.spread(dy, whole), mask)
        return g.add(part, np.zeros(source.shape, np.float32))

    def _summed(self, name: str, shape: tuple[int, ...], dy: Value, each: Indices) -> Value:
        """Sums of the gradients of elements that went to equally many places, in a shape."""
        g, copies, count = self._g, each.shape[1], each.shape[0]
        length = dy.shape[-1] if dy.shape else 1
        if length > 1 and copies % length == 0:
            along = each.reshape(-1, length)
            if (along == along[:, :1] // length * length + np.arange(length)).all():
                sums, rows = g.sum(dy), along[:, 0] // length
                return self._gathered(name, shape, sums, rows.reshape(count, copies // length))
        return self._gathered(name, shape, dy, each)

    def _gathered(self, name: str, shape: tuple[int, ...], dy: Value, each: Indices) -> Value:
        g, (count, copies) = self._g, each.shape
        if copies == 1:
            return g.gather([dy], each.reshape(shape))
        if count > (shape[-1] if shape else 1) or (np.diff(each, axis=0) != 1).any():
            parts = [g.gather([dy], each[:, at].reshape(shape)) for at in range(copies)]
            return self._added(parts)
        each = _with_rows_of_zeros(dy, each)
        ones = g.constant(np.ones((1, 1, each.shape[1]), np.float32))
        made = g.product(g.gather([dy], each[None]), ones, f"gradient of {name}")
        return g.reshape(made, shape)

    def _added(self, parts: list[Value]) -> Value:
        g = self._g
        while len(parts) > 1:
            half = -(-len(parts) // 2)
            parts = [
                g.add(one, parts[half + at]) if half + at < len(parts) else one
                for at, one in enumerate(parts[:half])
            ]
        return parts[0]


def _with_rows_of_zeros(dy: Value, each: Indices) -> Indices:
    """Elements that are added up, and those of other rows if they are zeros and not many.

    Rows that begin anywhere are in other tiles than those of the whole tensor. For these alone
    all that it is made of would be computed once more, in the other orientation.
    """
    count, copies = each.shape
    whole = np.arange(dy.size).reshape(-1, dy.shape[-1]).T
    if len(whole) != count or not copies < whole.shape[1] < 2 * copies:
        return each
    others = np.full(dy.size, True)
    others[each] = False
    is_of_columns = (each % count == np.arange(count)[:, None]).all()
    return whole if is_of_columns and _is_zero(dy, others) else each


def _is_zero(value: Value, some: NDArray[np.bool_]) -> bool:
    """Whether some elements were multiplied by 0."""
    return value.detail == "multiply" and any(
        one.data is not None and one.size == value.size and not one.data.reshape(-1)[some].any()
        for one in value.inputs
        if one.op == "constant"
    )


def _finite(value: Value) -> bool:
    """Whether rows of zeros of the inputs certainly give finite rows."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.op != "function" or one.detail not in ("reciprocal", "rsqrt"):
            waiting += one.inputs
            continue
        (x,) = one.inputs
        positive = (other.data is not None and np.all(other.data > 0) for other in x.inputs)
        if x.op != "arithmetic" or not any(positive):
            return False
    return True
