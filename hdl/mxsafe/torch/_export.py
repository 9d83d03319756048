"""Exported models as graphs of the machine's operations."""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram
from torch.fx import Node

from mxsafe.machine.compiled import Lookup
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.graph import Graph, Value

__all__ = ["Legalised", "legalised"]

_SAME = ("alias", "clone", "contiguous", "detach", "to", "type_as", "_to_copy", "lift_fresh_copy")
"""Operators that give what they take, as long as it stays float32."""
_MOVES = (
    "chunk",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "index_select",
    "movedim",
    "narrow",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat",
    "repeat_interleave",
    "reshape",
    "roll",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "t",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "view",
    "view_as",
    "_unsafe_view",
)
"""Operators that move elements of their first argument and leave each as it is."""
_FUNCTIONS = ("relu", "silu", "tanh", "exp", "sigmoid", "reciprocal", "rsqrt")


class _RefusalError(Exception):
    """A node that cannot be taken, and why."""


@dataclass(frozen=True)
class _Integers:
    """An input of integers, of which each element is somewhere."""

    name: str
    size: int
    index: NDArray[np.int64]


class _Refused:
    """What follows from a node that was refused."""


@dataclass
class Legalised:
    """A graph, and what the host looks up for it."""

    graph: Graph = field(default_factory=Graph)
    lookups: dict[str, Lookup] = field(default_factory=dict)


def legalised(exported: ExportedProgram) -> Legalised:
    """An exported model as a graph.

    Raises
    ------
    CompileError
        If nodes cannot be taken: the message has operator, source line and reason of each.
    """
    return _Legaliser(exported).run()


class _Legaliser:
    def __init__(self, exported: ExportedProgram) -> None:
        self._exported = exported
        self._made = Legalised()
        self._g = self._made.graph
        self._env: dict[Node, Any] = {}
        self._errors: list[str] = []

    def run(self) -> Legalised:
        """Take node after node; say which ones cannot be taken."""
        for node in self._exported.graph.nodes:
            if node.op == "placeholder":
                self._env[node] = self._placeholder(node)
            elif node.op == "call_function":
                self._env[node] = self._call(node)
            elif node.op == "output":
                self._output(node)
        if self._errors:
            raise CompileError(
                f"{len(self._errors)} nodes cannot be compiled:\n" + "\n".join(self._errors)
            )
        return self._made

    def _refuse(self, node: Node, reason: str) -> _Refused:
        target = str(node.target)
        self._errors.append(f"  {node.name}: {target}, {_line(node)}: {reason}")
        return _Refused()

    def _placeholder(self, node: Node) -> Any:
        signature, program = self._exported.graph_signature, self._exported
        for names in (signature.inputs_to_parameters, signature.inputs_to_buffers):
            if node.name in names:
                target = names[node.name]
                found = program.state_dict.get(target)
                return program.constants[target] if found is None else found.detach()
        if node.name in signature.inputs_to_lifted_tensor_constants:
            return program.constants[signature.inputs_to_lifted_tensor_constants[node.name]]
        example = node.meta["val"]
        if not isinstance(example, torch.Tensor):
            return example  # a number that was given with the example
        shape = tuple(example.shape)
        if not all(isinstance(size, int) for size in shape):
            return self._refuse(node, f"shape must be fixed, not {shape}")
        if example.dtype in (torch.int64, torch.int32):
            size = math.prod(shape)
            return _Integers(node.name, size, np.arange(size).reshape(shape))
        if example.dtype != torch.float32:
            return self._refuse(node, f"an input must be float32 or integers, not {example.dtype}")
        return self._g.input(node.name, shape)

    def _output(self, node: Node) -> None:
        for at, one in enumerate(cast(Sequence[Any], node.args[0])):
            value = self._env[one] if isinstance(one, Node) else one
            if isinstance(value, _Refused):
                continue
            if not isinstance(value, Value) or value.of_host:
                reason = "an output must be computed from the inputs by the machine"
                self._refuse(one if isinstance(one, Node) else node, reason)
                continue
            name = one.name if one.name not in self._g.outputs else f"{one.name}_{at}"
            self._g.output(name, value)

    def _call(self, node: Node) -> Any:
        args = torch.fx.map_arg(node.args, lambda one: self._env[one])
        kwargs = torch.fx.map_arg(node.kwargs, lambda one: self._env[one])
        inside = [*_leaves(args), *_leaves(kwargs)]
        if any(isinstance(one, _Refused) for one in inside):
            return _Refused()
        try:
            if node.target is operator.getitem:
                return args[0][args[1]]
            name = str(node.target).removeprefix("aten.").split(".")[0]
            if not any(isinstance(one, Value | _Integers) for one in inside):
                with torch.no_grad():
                    return cast(Callable[..., Any], node.target)(*args, **kwargs)
            if name == "_assert_tensor_metadata":
                return None
            if any(isinstance(one, _Integers) for one in inside):
                return self._of_integers(node, name, args, kwargs)
            if name in _MOVES:
                return self._moved(node, args, kwargs)
            if name in _SAME:
                return self._same(node, args[0])
            handler = getattr(self, f"_op_{name.strip('_')}", None)
            if name in _FUNCTIONS:
                return self._g.function(name, args[0], node.name)
            if handler is None:
                raise _RefusalError("the operator is not compiled")
            return handler(node, *args, **kwargs)
        except (_RefusalError, ValueError) as refusal:
            return self._refuse(node, str(refusal))

    # Moves of elements.

    def _places(self, value: Value) -> torch.Tensor:
        return torch.from_numpy(value.places.astype(np.int64))

    def _moved(self, node: Node, args: Any, kwargs: Any) -> Any:
        source = args[0]
        if any(isinstance(one, Value) for one in _leaves((args[1:], kwargs))):
            if str(node.target).split(".")[1] not in ("view_as", "expand_as"):
                raise _RefusalError("elements must be chosen by constants")
            args = (source, self._places(args[1]))
        found = cast(Callable[..., Any], node.target)(self._places(source), *args[1:], **kwargs)
        if isinstance(found, torch.Tensor):
            return self._g.gather([source], found.numpy(), node.name)
        return [self._g.gather([source], one.numpy(), node.name) for one in found]

    def _same(self, node: Node, x: Value) -> Value:
        example = node.meta["val"]
        if example.dtype != torch.float32:
            raise _RefusalError(f"tensors must stay float32, not become {example.dtype}")
        return x

    def _op_cat(self, node: Node, parts: Sequence[Any], dim: int = 0) -> Value:
        values = [self._value(part) for part in parts]
        return self._joined(values, dim % len(values[0].shape))

    def _op_stack(self, node: Node, parts: Sequence[Any], dim: int = 0) -> Value:
        values = [self._value(part) for part in parts]
        rank = len(values[0].shape) + 1
        shape = [*values[0].shape]
        shape.insert(dim % rank, 1)
        return self._joined([self._g.reshape(v, shape) for v in values], dim % rank)

    def _joined(self, values: list[Value], axis: int) -> Value:
        """Tensors along an axis.

        Parts of a vector beat cannot be moved, so where a constant is put before or behind rows
        that are computed, these are computed with rows of zeros in its place, and it is added.
        """
        g, computed = self._g, [v for v in values if not v.of_host]
        rank = len(values[0].shape)
        if (
            axis == rank - 1
            or len(computed) != 1
            or not all(v is computed[0] or v.op == "constant" for v in values)
        ):
            return g.concatenate(values, axis)
        if not _linear(computed[0]):
            return g.concatenate(values, axis)
        whole = g.concatenate(values, axis)
        parts, masks, start, first = [], [], 0, 0
        for value in values:
            own = value is computed[0]
            masks.append(np.full(value.shape, float(own), np.float32))
            empty = np.full(value.shape, -0.0, np.float32)
            parts.append(empty if value.data is None or own else value.data)
            if own:
                first = start
            start += value.size
        mask: NDArray[np.float32] = np.concatenate(masks, axis)
        added: NDArray[np.float32] = np.concatenate(parts, axis)
        if (added[mask == 0].view(np.uint32) == 0x80000000).any():
            raise _RefusalError("a constant beside computed rows must have no -0")
        assert whole.data is not None
        index = np.where(mask == 1, whole.data - first, -1)
        spread = g.spread(computed[0], index)
        return g.add(g.multiply(spread, mask), added)

    # Operations.

    def _value(self, x: Any, shape: Sequence[int] = ()) -> Value:
        """A value of the graph; constants and numbers become one."""
        if isinstance(x, Value):
            return x
        if isinstance(x, torch.Tensor):
            array = x.detach().cpu().numpy()
            if array.dtype.kind == "b":
                raise _RefusalError("operands must be numbers, not booleans")
            with np.errstate(over="ignore"):
                return self._g.constant(
                    np.ascontiguousarray(array, np.float32).reshape(array.shape)
                )
        with np.errstate(over="ignore"):
            return self._g.constant(np.full(tuple(shape), x, np.float32))

    def _scalar(self, x: Any) -> float | None:
        """The number that a constant is, None if it has several."""
        if isinstance(x, torch.Tensor):
            return float(x) if x.dim() == 0 else None
        return float(x) if isinstance(x, int | float) else None

    def _op_add(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        if alpha != 1:
            y = self._scaled(y, float(alpha))
        return self._g.add(self._value(x), self._value(y), node.name)

    def _op_sub(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return self._g.add(self._value(x), self._scaled(y, -float(alpha)), node.name)

    def _op_rsub(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return self._op_sub(node, y, x, alpha)

    def _scaled(self, x: Any, factor: float) -> Value:
        if isinstance(x, Value) and not x.of_host:
            return self._g.scale(x, factor)
        if isinstance(x, Value) and x.op != "constant":
            return self._g.scale(x, factor)
        value = self._value(x)
        assert value.data is not None
        return self._g.constant(value.data * np.float32(factor))

    def _op_mul(self, node: Node, x: Any, y: Any) -> Value:
        for one, other in ((x, y), (y, x)):
            if (number := self._scalar(one)) is not None:
                return self._g.scale(self._value(other), number, node.name)
        return self._g.multiply(self._value(x), self._value(y), node.name)

    def _op_div(self, node: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
        if rounding_mode is not None:
            raise _RefusalError(f"rounding_mode must be None, not {rounding_mode}")
        if (number := self._scalar(y)) is not None:
            return self._g.scale(self._value(x), float(_inverse(number)), node.name)
        if isinstance(y, torch.Tensor):
            inverse = self._g.constant(_inverse(y.numpy()))
        else:
            inverse = self._g.function("reciprocal", y)
        return self._g.multiply(self._value(x), inverse, node.name)

    def _op_neg(self, node: Node, x: Value) -> Value:
        return self._g.scale(x, -1.0, node.name)

    def _op_sqrt(self, node: Node, x: Value) -> Value:
        return self._g.function("reciprocal", self._g.function("rsqrt", x), node.name)

    def _op_pow(self, node: Node, x: Any, exponent: Any) -> Value:
        g = self._g
        if not isinstance(x, Value) or isinstance(exponent, Value):
            raise _RefusalError("the exponent must be a constant, and the base not")
        number = self._scalar(exponent)
        if number == 1:
            return x
        if number == 2:
            return g.multiply(x, x, node.name)
        if number == 3:
            return g.multiply(g.multiply(x, x), x, node.name)
        if number == 0.5:
            return self._op_sqrt(node, x)
        if number in (-0.5, -1):
            return g.function("rsqrt" if number == -0.5 else "reciprocal", x, node.name)
        raise _RefusalError(f"the exponent must be 1, 2, 3, 0.5, -0.5 or -1, not {exponent}")

    def _op_square(self, node: Node, x: Value) -> Value:
        return self._g.multiply(x, x, node.name)

    def _op_gelu(self, node: Node, x: Value, approximate: str = "none") -> Value:
        g = self._g
        if approximate == "none":
            return g.function("gelu", x, node.name)
        cube = g.multiply(g.multiply(x, x), x)
        inner = g.add(g.scale(cube, 0.044715), x)
        half = g.scale(x, 0.5)
        share = g.multiply(half, g.function("tanh", g.scale(inner, math.sqrt(2 / math.pi))))
        return g.add(share, half, node.name)

    def _op_dropout(self, node: Node, x: Value, p: float, train: bool) -> Value:
        if train and p > 0:
            raise _RefusalError("dropout must be off: call model.eval()")
        return x

    def _op_softmax(self, node: Node, x: Value, dim: int, dtype: Any = None) -> Value:
        if dtype not in (None, torch.float32, False):
            raise _RefusalError(f"dtype must be float32, not {dtype}")
        axes = _last(len(x.shape), dim)
        made = self._g.softmax(self._g.transpose(x, axes), name=node.name)
        return self._g.transpose(made, np.argsort(axes).tolist())

    def _norm(
        self, node: Node, kind: str, x: Value, shape: Any, gain: Any, bias: Any, epsilon: float
    ) -> Value:
        lead = x.shape[: len(x.shape) - len(shape)]
        gains, biases = (None if n is None else self._constant(n).reshape(-1) for n in (gain, bias))
        flat = self._g.reshape(x, (*lead, math.prod(shape)))
        made = self._g.norm(kind, flat, gains, biases, epsilon, node.name)
        return self._g.reshape(made, x.shape)

    def _constant(self, x: Any) -> NDArray[np.float32]:
        if not isinstance(x, torch.Tensor):
            raise _RefusalError("weights must be constants, not computed")
        return x.detach().cpu().numpy().astype(np.float32)

    def _op_layer_norm(
        self,
        node: Node,
        x: Value,
        shape: Any,
        weight: Any = None,
        bias: Any = None,
        eps: float = 1e-5,
        cudnn_enable: bool = True,
    ) -> Value:
        return self._norm(node, "layer_norm", x, shape, weight, bias, eps)

    def _op_rms_norm(
        self, node: Node, x: Value, shape: Any, weight: Any = None, eps: float | None = None
    ) -> Value:
        epsilon = torch.finfo(torch.float32).eps if eps is None else eps
        return self._norm(node, "rms_norm", x, shape, weight, None, epsilon)

    def _op_sum(
        self, node: Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        return self._total(node, x, dim, keepdim)

    def _op_mean(
        self, node: Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        made = self._total(node, x, dim, keepdim)
        return self._g.scale(made, float(_inverse(x.size // made.size)), node.name)

    def _total(self, node: Node, x: Value, dim: Any, keepdim: bool) -> Value:
        rank = len(x.shape)
        dims = range(rank) if dim in (None, []) else [dim] if isinstance(dim, int) else dim
        away = sorted(d % rank for d in dims)
        kept = [d for d in range(rank) if d not in away]
        lead = [x.shape[d] for d in kept]
        turned = self._g.transpose(x, [*kept, *away])
        made = self._g.sum(self._g.reshape(turned, [*lead, x.size // math.prod(lead)]), node.name)
        shape = [1 if d in away else x.shape[d] for d in range(rank)] if keepdim else lead
        return self._g.reshape(made, shape)

    # Products.

    def _op_linear(self, node: Node, x: Any, weight: Any, bias: Any = None) -> Value:
        g = self._g
        x, weight = self._value(x), self._value(weight)
        if len(weight.shape) == 1:
            raise _RefusalError("the weight must be a matrix, not a vector")
        made = g.linear(x, weight, node.name)
        return made if bias is None else g.add(made, self._value(bias), node.name)

    def _op_matmul(self, node: Node, a: Any, b: Any) -> Value:
        a, b = self._value(a), self._value(b)
        if len(a.shape) < 2 or len(b.shape) < 2:
            raise _RefusalError("both operands must be matrices, not vectors")
        return self._g.matmul(a, b, node.name)

    _op_mm = _op_bmm = _op_matmul

    def _op_addmm(
        self, node: Node, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1
    ) -> Value:
        if (alpha, beta) != (1, 1):
            raise _RefusalError(f"alpha and beta must be 1, not {alpha} and {beta}")
        return self._g.add(self._op_matmul(node, a, b), self._value(bias), node.name)

    _op_baddbmm = _op_addmm

    def _op_conv2d(
        self,
        node: Node,
        x: Value,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Value:
        features, channels, *kernel = weight.shape
        steps, added, spread = (_pair(one) for one in (stride, padding, dilation))
        if steps != kernel or any(added) or spread != [1, 1] or groups != 1:
            raise _RefusalError(
                f"the stride must be the kernel {kernel} without padding, dilation and groups, not "
                f"stride {steps}, padding {added}, dilation {spread}, groups {groups}"
            )
        g, (height, width) = self._g, kernel
        batch, _, rows, columns = x.shape
        down, across = rows // height, columns // width
        cut = self._places(x)[:, :, : down * height, : across * width].numpy()
        tiled = cut.reshape(batch, channels, down, height, across, width)
        patches = tiled.transpose(0, 2, 4, 1, 3, 5).reshape(batch, down * across, -1)
        flat = g.gather([x], patches)
        made = self._op_linear(node, flat, weight.reshape(features, -1), bias)
        made = g.reshape(made, (batch, down, across, features))
        return g.transpose(made, (0, 3, 1, 2))

    def _op_scaled_dot_product_attention(
        self,
        node: Node,
        query: Value,
        key: Value,
        value: Value,
        mask: Any = None,
        dropout: float = 0.0,
        is_causal: bool = False,
        *,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Value:
        g = self._g
        mask = attn_mask if mask is None else mask
        if dropout or dropout_p:
            raise _RefusalError("dropout must be off: call model.eval()")
        if enable_gqa:
            times = query.shape[-3] // key.shape[-3]
            key, value = (
                g.gather([one], np.repeat(one.places, times, axis=-3)) for one in (key, value)
            )
        rank = len(key.shape)
        turned = g.transpose(key, (*range(rank - 2), rank - 1, rank - 2))
        scores = g.matmul(query, turned, node.name)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        length, seen = scores.shape[-2:]
        if is_causal and length != seen:
            mask, is_causal = torch.ones(length, seen, dtype=torch.bool).tril(), False
        if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
            lower = torch.ones(length, seen, dtype=torch.bool).tril()
            if mask.all():
                mask = None
            elif length == seen and bool((mask == lower).all()):
                mask, is_causal = None, True
            else:
                mask = torch.where(mask, 0.0, -math.inf)
        if mask is not None:
            shifted = g.add(g.scale(scores, factor), self._value(mask))
            scores, factor = shifted, 1.0
        weights = g.softmax(scores, factor, causal=is_causal, name=node.name)
        return g.matmul(weights, value, node.name)

    # Integers.

    def _of_integers(self, node: Node, name: str, args: Any, kwargs: Any) -> Any:
        if name == "embedding":
            return self._embedding(node, *args[:2])
        if name in (*_MOVES, *_SAME) and isinstance(args[0], _Integers):
            source = args[0]
            if name in _SAME:
                return source
            target = cast(Callable[..., Any], node.target)
            found = target(torch.from_numpy(source.index), *args[1:], **kwargs)
            if isinstance(found, torch.Tensor):
                return _Integers(source.name, source.size, found.numpy())
            return [_Integers(source.name, source.size, one.numpy()) for one in found]
        raise _RefusalError("integers of an input may only choose rows of an embedding")

    def _embedding(self, node: Node, weight: Any, ids: Any) -> Value:
        if not isinstance(ids, _Integers) or not isinstance(weight, torch.Tensor):
            raise _RefusalError("an embedding must be a constant table, chosen from by integers")
        if ids.name in self._made.lookups:
            raise _RefusalError("integers of an input may choose rows of one embedding")
        table = self._constant(weight)
        place = next(n for n in self._exported.graph.nodes if n.name == ids.name)
        shape = tuple(place.meta["val"].shape)
        self._made.lookups[ids.name] = Lookup(ids.name, shape, table)
        rows = self._g.input(ids.name, (*shape, table.shape[1]))
        index = rows.places.reshape(ids.size, -1)[ids.index]
        return self._g.gather([rows], index, node.name)


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, tuple | list):
        return [leaf for one in tree for leaf in _leaves(one)]
    if isinstance(tree, dict):
        return _leaves(list(tree.values()))
    return [tree]


def _linear(value: Value) -> bool:
    """Whether rows of zeros of the inputs give finite rows."""
    if value.op == "product":
        return all(_moved_input(one) or one.op == "constant" for one in value.inputs)
    if value.op in ("gather", "arithmetic"):
        return all(one.op == "constant" or _linear(one) for one in value.inputs)
    return value.op == "constant"


def _moved_input(value: Value) -> bool:
    return value.op == "input" or (
        value.op == "gather" and all(_moved_input(one) for one in value.inputs)
    )


def _inverse(x: Any) -> NDArray[np.float32]:
    """1 / x, rounded to binary32 once."""
    with np.errstate(all="ignore"):
        return np.asarray(1 / np.float64(x)).astype(np.float32)


def _last(rank: int, axis: int) -> list[int]:
    """All axes, with one of them at the end."""
    own = axis % rank
    return [*(a for a in range(rank) if a != own), own]


def _pair(x: Any) -> list[Any]:
    if isinstance(x, int):
        return [x, x]
    return [*x] * (2 if len(x) == 1 else 1)


def _line(node: Node) -> str:
    """The line of the model's source that a node comes from."""
    found = re.findall(
        r'File "(.*?)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or ""
    )
    if not found:
        return "no source line"
    file, line, text = found[-1]
    return f"{file}:{line} ({text.strip()})"
