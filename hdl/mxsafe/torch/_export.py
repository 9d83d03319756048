"""Exported models as graphs of the machine's operations."""

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.composed import LACKS, Composer, RefusalError, require_kept
from mxsafe.machine.configuration import FUNCTIONS
from mxsafe.machine.graph import Graph, Value
from mxsafe.model import host

_SAME = ("alias", "clone", "contiguous", "detach", "to", "type_as", "_to_copy", "lift_fresh_copy")
"""Operators that give what they take; of what the host has perhaps as another type."""
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
_LIKE = ("empty_like", "full_like", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
"""Operators whose result depends on the shape of what they take alone."""
_OF_HOST = {
    "__and__": "logical_and",
    "__or__": "logical_or",
    "add": "add",
    "bitwise_and": "logical_and",
    "bitwise_not": "logical_not",
    "bitwise_or": "logical_or",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "lt": "less",
    "mul": "multiply",
    "ne": "not_equal",
    "sub": "subtract",
}
"""Operators of integers and booleans, by their names in NumPy."""
INPUT_DTYPES = {torch.float32: "float32", torch.bool: "bool"} | dict.fromkeys(
    (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), "int64"
)
"""Types of a graph's inputs, by those of tensors."""


def legalised(
    exported: ExportedProgram,
    keep: Collection[str] = (),
    known: Mapping[str, Value] | None = None,
    inputs: Mapping[str, Value] | None = None,
    graph: Graph | None = None,
) -> Graph:
    """An exported model as a graph, of which the host computes the modules that are named.

    Parameters
    ----------
    exported : ExportedProgram
    keep : collection of str
    known, inputs : Mapping of str to Value, optional
        What parameters, and what inputs, of these names are. Other parameters are constants, other
        inputs are inputs of the graph.
    graph : Graph, optional
        That they are of, to which operations are added; by default a new one.

    Raises
    ------
    CompileError
        If nodes cannot be taken: the message has operator, source line and reason of each.
    ValueError
        If there is no such module.
    """
    names = dict.fromkeys(name for node in exported.graph.nodes for name in _modules(node))
    require_kept(keep, names)
    return _Legaliser(exported, keep, known or {}, inputs or {}, graph or Graph()).run()


def operators() -> frozenset[str]:
    """Names of the operators that are taken, of ``torch.ops.aten``, without underscores before."""
    own = [name.split("_", 2)[2] for name in vars(_Legaliser) if name.startswith(("_op_", "_any_"))]
    functions = [name for name in host.FUNCTIONS if name in FUNCTIONS]
    every = (*_SAME, *_MOVES, *_LIKE, *_OF_HOST, *functions, *own)
    return frozenset(name.strip("_") for name in every)


def is_kept(node: Node, keep: Collection[str]) -> bool:
    """Whether the host computes a node."""
    return any(name in keep for name in _modules(node))


def _modules(node: Node) -> list[str]:
    """Names of the modules that a node is part of, the model itself aside."""
    stack = node.meta.get("nn_module_stack") or {}
    return [name for name, _ in stack.values() if name]


def _composed(make: Callable[..., Value]) -> Callable[..., Value]:
    return lambda own, node, *args, **kwargs: make(own._c, *args, **kwargs, name=node.name)


class _Legaliser:
    def __init__(
        self,
        exported: ExportedProgram,
        keep: Collection[str],
        known: Mapping[str, Value],
        inputs: Mapping[str, Value],
        graph: Graph,
    ) -> None:
        self._exported, self._keep, self._known, self._g = exported, keep, known, graph
        self._inputs = inputs
        self._c = Composer(graph, list(known.values()))
        self._env: dict[Node, Any] = {}
        self._memories: set[int] = set()
        self._errors: list[str] = []

    def run(self) -> Graph:
        """Take node after node; say which ones cannot be taken."""
        for node in self._exported.graph.nodes:
            if node.op == "placeholder":
                self._env[node] = self._placeholder(node)
            elif node.op == "get_attr":
                reason = (
                    "a graph within the graph is not compiled: no_grad, autocast and cond in a "
                    "model, or modules of quantize_, which are compiled before they are quantised"
                )
                self._env[node] = self._refuse(node, reason)
            elif node.op == "call_function":
                self._g.on_host = is_kept(node, self._keep)
                self._env[node] = self._call(node)
            elif node.op == "output":
                self._output(node)
        if self._errors:
            raise CompileError(
                f"{len(self._errors)} nodes cannot be compiled:\n" + "\n".join(self._errors)
            )
        return self._g

    def _refuse(self, node: Node, reason: str) -> "_Refused":
        target = str(node.target)
        self._errors.append(f"  {node.name}: {target}, {_line(node)}: {reason}")
        return _Refused()

    def _placeholder(self, node: Node) -> Any:
        signature, program = self._exported.graph_signature, self._exported
        for names in (signature.inputs_to_parameters, signature.inputs_to_buffers):
            if node.name in names:
                target = names[node.name]
                if target in self._known:
                    return self._known[target]
                found = program.state_dict.get(target)
                tensor = program.constants[target] if found is None else found.detach()
                self._memories.add(tensor.untyped_storage().data_ptr())
                return tensor
        if node.name in signature.inputs_to_lifted_tensor_constants:
            return program.constants[signature.inputs_to_lifted_tensor_constants[node.name]]
        if node.name in self._inputs:
            return self._inputs[node.name]
        example = node.meta["val"]
        if not isinstance(example, torch.Tensor):
            return example  # a number that was given with the example
        shape = tuple(example.shape)
        if not all(isinstance(size, int) for size in shape):
            return self._refuse(node, f"shape must be fixed, not {shape}")
        if example.dtype not in INPUT_DTYPES:
            wanted = "float32, integers or booleans"
            return self._refuse(node, f"an input must be {wanted}, not {example.dtype}")
        return self._g.input(node.name, shape, INPUT_DTYPES[example.dtype])

    def _output(self, node: Node) -> None:
        for at, one in enumerate(cast(Sequence[Any], node.args[0])):
            value = self._env[one] if isinstance(one, Node) else one
            if isinstance(value, _Refused):
                continue
            if not isinstance(one, Node) or not isinstance(value, Value | torch.Tensor):
                self._refuse(node, f"an output must be a tensor, not {value}")
                continue
            name = one.name if one.name not in self._g.outputs else f"{one.name}_{at}"
            self._g.output(name, self._c.whole(_operand(value)))

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
            target = cast(Callable[..., Any], node.target)
            if not any(isinstance(one, Value) for one in inside):
                if name.endswith("_") and self._is_of_model(args[0]):
                    raise RefusalError("a parameter or buffer is changed, and a program keeps it")
                with torch.no_grad():
                    return target(*args, **kwargs)
            if name == "_assert_tensor_metadata":
                return None
            return self._taken(node, name, args, kwargs)
        except (RefusalError, ValueError) as refusal:
            return self._refuse(node, str(refusal))

    def _is_of_model(self, one: object) -> bool:
        """Whether it is a parameter or buffer of the model, or a view of one."""
        return isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() in self._memories

    def _taken(self, node: Node, name: str, args: Any, kwargs: Any) -> Any:
        target, example = cast(Callable[..., Any], node.target), node.meta["val"]
        if name in _LIKE:
            shaped = torch.empty(args[0].shape, dtype=getattr(torch, args[0].dtype))
            return target(shaped, *args[1:], **kwargs)
        if name in _MOVES:
            return self._moved(node, args, kwargs)
        if name == "detach" and self._known:
            raise RefusalError("gradients cannot be cut in a training step")
        if name in _SAME:
            return self._same(node, args[0], _dtype(example))
        given = [one for one in _leaves((args, kwargs)) if isinstance(one, Value)]
        args, kwargs = _mapped(args), _mapped(kwargs)
        if handler := getattr(self, f"_any_{name}", None):
            return handler(node, *args, **kwargs)
        if _dtype(example) != "float32" or any(one.dtype != "float32" for one in given):
            if name not in _OF_HOST or kwargs:
                raise RefusalError("the operator is not compiled for integers and booleans")
            return self._c.of_host(_OF_HOST[name], args, _dtype(example), node.name)
        if name in host.FUNCTIONS:
            if name not in FUNCTIONS and not self._g.on_host:
                raise RefusalError(LACKS)
            if name != "gelu":
                return self._g.function(name, args[0], node.name)
        handler = getattr(self, f"_op_{name.strip('_')}", None)
        if handler is None:
            raise RefusalError("the operator is not compiled")
        return handler(node, *args, **kwargs)

    # Moves of elements, and what the host has.

    def _moved(self, node: Node, args: Any, kwargs: Any) -> Any:
        source, *rest = args
        if any(isinstance(one, Value) for one in _leaves((rest, kwargs))):
            if str(node.target).split(".")[1] not in ("view_as", "expand_as"):
                raise RefusalError("elements must be chosen by constants")
            rest = [torch.empty(rest[0].shape)]
        target = cast(Callable[..., Any], node.target)
        if isinstance(source, torch.Tensor):  # like something that is computed
            return target(source, *rest, **kwargs)

        def move(places: Any) -> Any:
            found = target(torch.from_numpy(places), *rest, **kwargs)
            several = not isinstance(found, torch.Tensor)
            return [one.numpy() for one in found] if several else found.numpy()

        return self._c.moved(source, move, node.name)

    def _same(self, node: Node, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        return self._c.of_host("cast", [x], dtype, node.name)

    def _any_where(self, node: Node, condition: Any, x: Any, y: Any) -> Value:
        if _dtype(node.meta["val"]) != "float32":
            return self._c.of_host("where", [condition, x, y], _dtype(node.meta["val"]), node.name)
        return self._c.where(condition, x, y, node.name)

    def _any_masked_fill(self, node: Node, x: Any, mask: Any, value: Any) -> Value:
        return self._any_where(node, mask, value, x)

    def _any_cumsum(self, node: Node, x: Value, dim: int, dtype: Any = None) -> Value:
        if x.dtype != "int64":
            raise RefusalError(f"the operator is compiled for integers, not {x.dtype}")
        return self._c.of_host("cumsum", [x], "int64", node.name, dim % len(x.shape))

    def _any_embedding(
        self,
        node: Node,
        weight: Any,
        ids: Any,
        padding_idx: int = -1,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Value:
        if not isinstance(ids, Value):
            if self._known and padding_idx >= 0:
                raise RefusalError(
                    "padding_idx must be None where constants choose rows that are trained"
                )
            return self._any_index(node, weight, [ids])
        if self._known and scale_grad_by_freq:
            raise RefusalError("scale_grad_by_freq must be off in a training step")
        return self._c.of_host("rows", [weight, ids], "float32", node.name, padding_idx)

    def _any_index(self, node: Node, x: Any, indices: Sequence[Any]) -> Value:
        if isinstance(x, Value) and not any(isinstance(one, Value) for one in indices):
            chosen = tuple(slice(None) if one is None else one for one in indices)
            return cast(Value, self._c.moved(x, lambda places: places[chosen], node.name))
        if any(one is None for one in indices):
            raise RefusalError("integers must choose along the first axes")
        kind = "rows" if len(indices) == 1 else "index"
        return self._c.of_host(kind, [x, *indices], _dtype(node.meta["val"]), node.name)

    # Operations.

    _op_linear = _composed(Composer.linear)
    _op_matmul = _op_mm = _op_bmm = _composed(Composer.matmul)
    _op_mul = _composed(Composer.multiply)
    _op_pow = _composed(Composer.power)
    _op_sqrt = _composed(Composer.sqrt)

    def _op_add(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return self._c.add(x, y, float(alpha), node.name)

    def _op_sub(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return self._c.add(x, y, -float(alpha), node.name)

    def _op_rsub(self, node: Node, x: Any, y: Any, alpha: Any = 1) -> Value:
        return self._op_sub(node, y, x, alpha)

    def _op_div(self, node: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
        if rounding_mode is not None:
            raise RefusalError(f"rounding_mode must be None, not {rounding_mode}")
        return self._c.divide(x, y, node.name)

    def _op_neg(self, node: Node, x: Value) -> Value:
        return self._g.scale(x, -1.0, node.name)

    def _op_square(self, node: Node, x: Value) -> Value:
        return self._g.multiply(x, x, node.name)

    def _op_gelu(self, node: Node, x: Value, approximate: str = "none") -> Value:
        return self._c.gelu(x, approximate, node.name)

    def _op_dropout(self, node: Node, x: Value, p: float, train: bool) -> Value:
        if train and p > 0:
            raise RefusalError("dropout must be off: call model.eval()")
        return x

    def _op_softmax(self, node: Node, x: Value, dim: int, dtype: Any = None) -> Value:
        if dtype not in (None, torch.float32, False):
            raise RefusalError(f"dtype must be float32, not {dtype}")
        return self._c.softmax(x, dim, node.name)

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
        return self._c.norm("layer_norm", x, len(shape), weight, bias, eps, node.name)

    def _op_rms_norm(
        self, node: Node, x: Value, shape: Any, weight: Any = None, eps: float | None = None
    ) -> Value:
        epsilon = torch.finfo(torch.float32).eps if eps is None else eps
        return self._c.norm("rms_norm", x, len(shape), weight, None, epsilon, node.name)

    def _op_sum(
        self, node: Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        return self._c.total(x, _axes(dim), keep=keepdim, name=node.name)

    def _op_mean(
        self, node: Node, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Value:
        return self._c.total(x, _axes(dim), keep=keepdim, mean=True, name=node.name)

    def _op_cat(self, node: Node, parts: Sequence[Any], dim: int = 0) -> Value:
        return self._c.join([self._c.value(part) for part in parts], dim)

    def _op_stack(self, node: Node, parts: Sequence[Any], dim: int = 0) -> Value:
        values = [self._c.value(part) for part in parts]
        axis = dim % (len(values[0].shape) + 1)
        shape = (*values[0].shape[:axis], 1, *values[0].shape[axis:])
        return self._c.join([self._g.reshape(value, shape) for value in values], axis)

    # Products.

    def _op_addmm(
        self, node: Node, bias: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1
    ) -> Value:
        if (alpha, beta) != (1, 1):
            raise RefusalError(f"alpha and beta must be 1, not {alpha} and {beta}")
        return self._c.add(self._c.matmul(a, b, node.name), bias, 1.0, node.name)

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
        pairs = {"stride": _pair(stride), "padding": _pair(padding), "dilation": _pair(dilation)}
        return self._c.convolution(x, weight, bias, **pairs, groups=groups, name=node.name)

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
        if dropout or dropout_p:
            raise RefusalError("dropout must be off: call model.eval()")
        more: dict[str, Any] = {"causal": is_causal, "scale": scale, "name": node.name}
        return self._c.attention(query, key, value, attn_mask if mask is None else mask, **more)

    _any_scaled_dot_product_attention = _op_scaled_dot_product_attention


class _Refused:
    """A value that follows from a node that was refused."""


def _dtype(example: Any) -> str:
    """The type of a result of this kind; what is not one of them is refused."""
    if not isinstance(example, torch.Tensor) or example.dtype not in INPUT_DTYPES:
        given = getattr(example, "dtype", type(example).__name__)
        raise RefusalError(f"tensors must be float32, integers or booleans, not {given}")
    return INPUT_DTYPES[example.dtype]


def _operand(x: Any) -> Any:
    """A tensor as an array; all else as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().cpu()
    return (x if x.dtype in (*INPUT_DTYPES, torch.float64) else x.float()).numpy()


def _mapped(tree: Any) -> Any:
    """Tensors as arrays."""
    if isinstance(tree, tuple | list):
        return [_mapped(one) for one in tree]
    if isinstance(tree, dict):
        return {name: _mapped(one) for name, one in tree.items()}
    return _operand(tree)


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, tuple | list):
        return [leaf for one in tree for leaf in _leaves(one)]
    if isinstance(tree, dict):
        return _leaves(list(tree.values()))
    return [tree]


def _axes(dim: Any) -> list[int]:
    return [] if dim is None else [dim] if isinstance(dim, int) else [*dim]


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
