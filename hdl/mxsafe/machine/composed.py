"""Operators of other libraries as operations of a graph, composed as docs/models.md states."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.graph import Graph, Value

Operand = Value | NDArray[Any] | float
Floats = NDArray[np.float32]
LACKS = "the machine lacks the function; the host computes it in a module that keep names"
"""Why functions of the host alone are refused."""


class RefusalError(Exception):
    """A node that cannot be taken, and why."""


class Composer:
    """Adds operators to a graph; operands are its values, arrays and numbers.

    Parameters
    ----------
    graph : Graph
    trained : sequence of Value
        Inputs that stand for parameters, or gathers of them: numbers that the host has, like
        constants.
    """

    def __init__(self, graph: Graph, trained: Sequence[Value] = ()) -> None:
        self.graph, self._trained = graph, trained

    def value(self, x: Operand) -> Value:
        """A value as it is; numbers become a constant of float32."""
        return x if isinstance(x, Value) else self.graph.constant(_floats(x))

    def whole(self, x: Operand) -> Value:
        """The same, and integers and booleans stay what they are."""
        if isinstance(x, Value) or np.asarray(x).dtype.kind == "f":
            return self.value(x)
        array = np.asarray(x)
        return self.graph.constant(array if array.dtype.kind == "b" else np.int64(array))

    def add(self, x: Operand, y: Operand, alpha: float = 1.0, name: str = "") -> Value:
        """``x + alpha * y``."""
        if alpha != 1:
            y = self._scaled(y, alpha)
        return self.graph.add(self.value(x), self.value(y), name)

    def _scaled(self, x: Operand, factor: float) -> Value:
        if isinstance(x, Value) and x.op != "constant":
            return self.graph.scale(x, factor)
        return self.graph.constant(np.asarray(_floats(_data(x)) * np.float32(factor)))

    def multiply(self, x: Operand, y: Operand, name: str = "") -> Value:
        """``x * y``."""
        for one, other in ((x, y), (y, x)):
            rank = len(other.shape) if isinstance(other, Value) else np.ndim(other)
            if not isinstance(one, Value) and np.size(one) == 1 and np.ndim(one) <= rank:
                return self.graph.scale(self.value(other), float(np.ravel(one)[0]), name)
        return self.graph.multiply(self.value(x), self.value(y), name)

    def divide(self, x: Operand, y: Operand, name: str = "") -> Value:
        """``x`` times the reciprocal of ``y``."""
        if isinstance(y, Value):
            return self.graph.multiply(self.value(x), self.graph.function("reciprocal", y), name)
        return self.multiply(x, inverse(y), name)

    def sqrt(self, x: Value, name: str = "") -> Value:
        """The reciprocal of ``rsqrt``."""
        return self.graph.function("reciprocal", self.graph.function("rsqrt", x), name)

    def power(self, x: Operand, exponent: Operand, name: str = "") -> Value:
        """Powers that are made of multiplications, reciprocals and roots."""
        g = self.graph
        if not isinstance(x, Value) or isinstance(exponent, Value):
            raise RefusalError("the exponent must be a constant, and the base not")
        number = float(exponent) if np.size(exponent) == 1 else None
        if number == 1:
            return x
        if number == 2:
            return g.multiply(x, x, name)
        if number == 3:
            return g.multiply(g.multiply(x, x), x, name)
        if number == 0.5:
            return self.sqrt(x, name)
        if number in (-0.5, -1):
            return g.function("rsqrt" if number == -0.5 else "reciprocal", x, name)
        raise RefusalError(f"the exponent must be 1, 2, 3, 0.5, -0.5 or -1, not {exponent}")

    def gelu(self, x: Value, approximate: str = "none", name: str = "") -> Value:
        """GELU, exact or by tanh."""
        g = self.graph
        if approximate == "none":
            return g.function("gelu", x, name)
        cube = g.multiply(g.multiply(x, x), x)
        inner = g.add(g.scale(cube, 0.044715), x)
        half = g.scale(x, 0.5)
        share = g.multiply(half, g.function("tanh", g.scale(inner, math.sqrt(2 / math.pi))))
        return g.add(share, half, name)

    def softmax(self, x: Value, axis: int, name: str = "") -> Value:
        """Along any axis."""
        own = axis % len(x.shape)
        axes = [*(a for a in range(len(x.shape)) if a != own), own]
        made = self.graph.softmax(self.graph.transpose(x, axes), name=name)
        return self.graph.transpose(made, np.argsort(axes).tolist())

    def norm(
        self,
        kind: str,
        x: Value,
        axes: int,
        gain: Operand | None,
        bias: Operand | None,
        epsilon: float,
        name: str = "",
    ) -> Value:
        """``layer_norm`` or ``rms_norm`` over some last axes."""
        lead = x.shape[: len(x.shape) - axes]
        size = math.prod(x.shape[len(lead) :])
        if isinstance(gain, Value) or isinstance(bias, Value):
            flat = self.graph.norm(kind, self.graph.reshape(x, (*lead, size)), epsilon=epsilon)
            made = self.graph.reshape(flat, x.shape)
            made = made if gain is None else self.graph.multiply(made, self.value(gain))
            return made if bias is None else self.graph.add(made, self.value(bias), name)
        gain, bias = (None if one is None else _floats(one).reshape(-1) for one in (gain, bias))
        flat = self.graph.reshape(x, (*lead, size))
        made = self.graph.norm(kind, flat, gain, bias, epsilon, name)
        return self.graph.reshape(made, x.shape)

    def total(
        self, x: Value, axes: Sequence[int], *, keep: bool, mean: bool = False, name: str = ""
    ) -> Value:
        """The sum or the mean over some axes, or all."""
        rank = len(x.shape)
        away = sorted(axis % rank for axis in axes) or [*range(rank)]
        kept = [axis for axis in range(rank) if axis not in away]
        lead = [x.shape[axis] for axis in kept]
        g, turned = self.graph, self.graph.transpose(x, [*kept, *away])
        made = g.sum(g.reshape(turned, [*lead, x.size // math.prod(lead)]), name)
        made = g.reshape(
            made, [1 if a in away else x.shape[a] for a in range(rank)] if keep else lead
        )
        return g.scale(made, float(inverse(x.size // made.size)), name) if mean else made

    def linear(
        self, x: Operand, weight: Operand, bias: Operand | None = None, name: str = ""
    ) -> Value:
        """``X W^T + bias``."""
        x, weight = self.value(x), self.value(weight)
        if len(weight.shape) == 1:
            raise RefusalError("the weight must be a matrix, not a vector")
        made = self.graph.linear(x, weight, name)
        return made if bias is None else self.graph.add(made, self.value(bias), name)

    def matmul(self, a: Operand, b: Operand, name: str = "") -> Value:
        """Products of matrices."""
        a, b = self.value(a), self.value(b)
        if len(a.shape) < 2 or len(b.shape) < 2:
            raise RefusalError("both operands must be matrices, not vectors")
        return self.graph.matmul(a, b, name)

    def convolution(
        self,
        x: Value,
        weight: Operand,
        bias: Operand | None,
        *,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        name: str = "",
    ) -> Value:
        """Over windows that do not overlap: a product of patches."""
        features, channels, *kernel = (
            weight.shape if isinstance(weight, Value) else np.shape(weight)
        )
        given = [[*stride], [*padding], [*dilation]]
        if len(kernel) != 2 or given != [kernel, [0] * len(padding), [1, 1]] or groups != 1:
            raise RefusalError(
                f"the stride must be the kernel {kernel} without padding, dilation and groups, not "
                f"stride {given[0]}, padding {given[1]}, dilation {given[2]}, groups {groups}"
            )
        g, (height, width) = self.graph, kernel
        batch, _, rows, columns = x.shape
        down, across = rows // height, columns // width
        cut = x.places[:, :, : down * height, : across * width]
        tiled = cut.reshape(batch, channels, down, height, across, width)
        patches = tiled.transpose(0, 2, 4, 1, 3, 5).reshape(batch, down * across, -1)
        matrix = g.reshape(self.value(weight), (features, channels * height * width))
        made = self.linear(g.gather([x], patches), matrix, bias, name)
        made = g.reshape(made, (batch, down, across, features))
        return g.transpose(made, (0, 3, 1, 2))

    def attention(
        self,
        query: Value,
        key: Value,
        value: Value,
        mask: Operand | None = None,
        *,
        causal: bool = False,
        scale: float | None = None,
        name: str = "",
    ) -> Value:
        """``softmax(scale * Q K^T + mask) V``; heads of keys and values may serve several."""
        g = self.graph
        if (times := query.shape[-3] // key.shape[-3] if len(key.shape) > 2 else 1) > 1:
            key, value = (
                g.gather([one], np.repeat(one.places, times, axis=-3)) for one in (key, value)
            )
        rank = len(key.shape)
        turned = g.transpose(key, (*range(rank - 2), rank - 1, rank - 2))
        scores = g.matmul(query, turned, name)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        lower = np.tri(*scores.shape[-2:], dtype=np.bool_)
        square = scores.shape[-2] == scores.shape[-1]
        if causal and not square:
            mask, causal = lower, False
        if isinstance(mask, np.ndarray) and mask.dtype == np.bool_:
            if mask.all():
                mask = None
            elif square and bool((mask == lower).all()):
                mask, causal = None, True
            else:
                mask = np.where(mask, np.float32(0), np.float32(-np.inf))
        elif isinstance(mask, Value) and mask.dtype == "bool":
            numbers = [g.constant(np.float32(0)), g.constant(np.float32(-np.inf))]
            mask = g.host("where", [mask, *numbers], mask.shape)
        if mask is not None:
            scores, factor = g.add(g.scale(scores, factor), self.value(mask)), 1.0
        return g.matmul(g.softmax(scores, factor, causal=causal, name=name), value, name)

    def where(self, condition: Operand, x: Operand, y: Operand, name: str = "") -> Value:
        """Of constants the host chooses; else ``x * m + y * (1 - m)``, a constant side added.

        A constant side of -Inf is added without the multiplication.
        """
        g = self.graph
        constant = [not isinstance(one, Value) or one.op == "constant" for one in (x, y)]
        if all(constant) or g.on_host:
            values = [self.whole(condition), self.whole(x), self.whole(y)]
            shape = np.broadcast_shapes(*(one.shape for one in values))
            return g.host("where", values, shape, values[1].dtype, name=name)
        parts = []
        for side, one in enumerate((x, y)):
            if constant[side]:
                parts.append(self._chosen(condition, one, -0.0, side))
                continue
            other = (x, y)[1 - side]
            infinite = constant[1 - side] and bool((_floats(_data(other)) == -np.inf).all())
            chosen = None if infinite else self._chosen(condition, 1.0, 0.0, side)
            parts.append(self.value(one) if chosen is None else self.multiply(one, chosen))
        if constant[0]:
            parts.reverse()
        first, second = parts
        return g.add(first, second, name)

    def _chosen(self, condition: Operand, x: Operand, otherwise: float, side: int) -> Value:
        """A constant where a side is chosen, and a number elsewhere."""
        numbers = [_floats(_data(x)), np.asarray(np.float32(otherwise))]
        if side:
            numbers.reverse()
        if isinstance(condition, Value):
            values = [condition, *(self.graph.constant(one) for one in numbers)]
            shape = np.broadcast_shapes(*(one.shape for one in values))
            return self.graph.host("where", values, shape)
        return self.graph.constant(np.where(condition, *numbers))

    def join(self, values: Sequence[Value], axis: int) -> Value:
        """Tensors along an axis.

        Parts of a vector beat cannot be moved, so where a constant, or what is trained, is put
        before or behind rows that are computed, these are computed with rows of zeros in its place,
        and it is added.
        """
        g, computed = self.graph, [v for v in values if not v.of_host]
        axis %= len(values[0].shape)
        if (
            axis == len(values[0].shape) - 1
            or len(computed) != 1
            or not all(v is computed[0] or self._is_fixed(v) for v in values)
            or not self._linear(computed[0])
        ):
            return g.concatenate(values, axis)
        whole = g.concatenate(values, axis)
        parts, masks, start, first = [], [], 0, 0
        for value in values:
            own = value is computed[0]
            masks.append(np.full(value.shape, float(own), np.float32))
            empty = np.full(value.shape, -0.0, np.float32)
            parts.append(g.constant(empty) if own else value)
            if own:
                first = start
            elif value.op == "constant" and _has_negative_zero(value):
                raise RefusalError("a constant beside computed rows must have no -0")
            start += value.size
        mask: Floats = np.concatenate(masks, axis)
        index = np.where(mask == 1, whole.numbers - first, -1)
        spread = self._spread if self._trained else g.spread
        return g.add(g.multiply(spread(computed[0], index), mask), g.concatenate(parts, axis))

    def _is_fixed(self, value: Value) -> bool:
        """Whether it is a constant, or what is trained."""
        if value.op == "gather":
            return all(self._is_fixed(one) for one in value.inputs)
        return value.op == "constant" or any(value is one for one in self._trained)

    def _linear(self, value: Value) -> bool:
        """Whether rows of zeros of what the host has give finite rows."""
        if value.op == "product":
            return all(one.of_host for one in value.inputs)
        if value.op in ("gather", "arithmetic"):
            return all(self._is_fixed(one) or self._linear(one) for one in value.inputs)
        return value.op == "constant"

    def _spread(self, value: Value, index: NDArray[Any]) -> Value:
        """Elements of a value, and anything finite at -1: computed from rows of zeros there.

        So what is computed has these rows too, and the tiles of its products with them.
        """
        g = self.graph
        if value.op == "gather" and len(value.inputs) == 1:
            inner = np.where(index >= 0, value.numbers.reshape(-1)[index], -1)
            return self._spread(value.inputs[0], inner)
        if value.op == "arithmetic":
            x = self._spread(value.inputs[0], index)
            if value.detail == "scale":
                return g.scale(x, value.parameter)
            y = self._spread(value.inputs[1], index)
            return g.add(x, y) if value.detail == "add" else g.multiply(x, y)
        if value.op == "product":
            (a, b), columns = value.inputs, value.shape[2]
            rows = index.reshape(-1, columns)[:, :1] // columns
            whole = np.where(rows < 0, -1, rows * columns + np.arange(columns))
            if value.shape[0] > 1 or not np.array_equal(whole.reshape(-1), index.reshape(-1)):
                raise RefusalError("constants must be put beside whole rows of what is computed")
            own = np.where(rows < 0, -1, a.places[0][np.maximum(rows[:, 0], 0)])
            return g.reshape(g.product(self._spread(a, own[None]), b, value.name), index.shape)
        zero = g.constant(np.zeros(1, np.float32))
        return g.gather([value, zero], np.where(index < 0, value.size, index))

    def moved(self, x: Value, move: Callable[[NDArray[np.int64]], Any], name: str = "") -> Any:
        """Elements in another order: what a move makes of their numbers, perhaps several arrays."""
        found = move(x.places.astype(np.int64))
        if isinstance(found, np.ndarray):
            return self.graph.gather([x], found, name)
        return [self.graph.gather([x], one, name) for one in found]

    def of_host(
        self,
        operation: str,
        inputs: Sequence[Operand],
        dtype: str,
        name: str = "",
        parameter: int = -1,
    ) -> Value:
        """An operation of the host, on values that it has or in a module that it computes."""
        values = [self.whole(one) for one in inputs]
        if not self.graph.on_host and not all(one.of_host for one in values):
            raise RefusalError(
                "the host computes this, of inputs and constants, or in a module that keep names"
            )
        if operation in ("rows", "index"):
            table, *places = (one.shape for one in values)
            shape = (*np.broadcast_shapes(*places), *table[len(places) :])
        else:
            shape = np.broadcast_shapes(*(one.shape for one in values))
        return self.graph.host(operation, values, shape, dtype, parameter=parameter, name=name)


def require_kept(keep: Collection[str], names: Collection[str]) -> None:
    """Refuse names of what a model lacks, or that computes nothing."""
    for name in keep:
        if name not in names:
            raise ValueError(
                f"keep must name modules that compute something, {', '.join(names)}, not {name!r}"
            )


def inverse(x: Any) -> Floats:
    """``1 / x``, rounded to binary32 once."""
    with np.errstate(all="ignore"):
        return np.asarray(1 / np.float64(x)).astype(np.float32)


def _floats(x: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, np.float32).reshape(np.shape(x))


def _data(x: Operand) -> Any:
    return x.data if isinstance(x, Value) else x


def _has_negative_zero(value: Value) -> bool:
    return bool((value.numbers.view(np.uint32) == 0x80000000).any())
