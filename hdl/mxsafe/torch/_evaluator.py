"""The reference of compiled models: an exported model, node by node, with the hardware's models.

It shares nothing with the compiler but `mxsafe.model`. What is rounded, and when, is said by
`docs/compiler.md`; here it is done in the plainest way.
"""

import math
import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.export import ExportedProgram
from torch.fx import Node

from mxsafe import model
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model import host
from mxsafe.model.machine_gemm import converted_product

Floats = NDArray[np.float32]
Block = int | tuple[int, int]
_MOST_IN_WINDOW = 4096
"""Products that an output's integer holds; longer sums are those of parts, in binary32."""
_POWERS = {-0.5: "rsqrt", -1: "reciprocal"}


class Evaluated(tuple[Floats, ...]):
    """Outputs of a model.

    Attributes
    ----------
    nodes : dict of str to ndarray
        Results of all nodes that depend on inputs, by their names.
    """

    nodes: dict[str, Floats]


def evaluated(
    exported: ExportedProgram,
    given: Sequence[Any],
    configuration: MachineConfiguration,
    block: Block = 64,
    keep: Collection[str] = (),
) -> Evaluated:
    """Outputs of an exported model as the hardware has them, bit for bit.

    Parameters
    ----------
    exported : ExportedProgram
    given : sequence of array_like
        Inputs.
    configuration : MachineConfiguration
    block : int or tuple of int
    keep : collection of str
        Modules that the host computes.
    """
    return _Evaluator(configuration, block, keep).run(exported, given)


class _Evaluator:
    def __init__(
        self, configuration: MachineConfiguration, block: Block, keep: Collection[str]
    ) -> None:
        self._c, self._block, self._keep = configuration, block, keep
        self._on_host = False
        """Whether the host computes the node at hand."""
        self._constants: list[Any] = []
        """Arguments of the node at hand that do not depend on inputs."""

    def run(self, exported: ExportedProgram, given: Sequence[Any]) -> Evaluated:
        state = {**exported.state_dict, **exported.constants}
        signature = exported.graph_signature
        names: dict[str, str] = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        users = iter(given)
        env: dict[Node, Any] = {}
        live: set[Node] = set()
        for node in exported.graph.nodes:
            if node.op == "placeholder":
                if node.name in names:
                    env[node] = state[names[node.name]].detach()
                else:
                    env[node] = torch.from_numpy(np.asarray(next(users)).copy())
                    live.add(node)
            elif node.op == "call_function":
                args = torch.fx.map_arg(node.args, lambda one: env[one])
                kwargs = torch.fx.map_arg(node.kwargs, lambda one: env[one])
                if live.intersection(node.all_input_nodes):
                    self._constants = [env[n] for n in node.all_input_nodes if n not in live]
                    live.add(node)
                    env[node] = self._call(node, args, kwargs)
                else:
                    with torch.no_grad():
                        env[node] = cast(Callable[..., Any], node.target)(*args, **kwargs)
            elif node.op == "output":
                outputs = cast(Sequence[Node], node.args[0])
                found = Evaluated(env[one].numpy() for one in outputs)
                found.nodes = {
                    one.name: env[one].numpy()
                    for one in env
                    if one in live and isinstance(env[one], torch.Tensor)
                }
                return found
        raise ValueError("exported must have an output")

    def _call(self, node: Node, args: Any, kwargs: Any) -> Any:
        if node.target is operator.getitem:
            return args[0][args[1]]
        name = str(node.target).split(".")[1].strip("_")
        stack = node.meta.get("nn_module_stack") or {}
        self._on_host = any(module in self._keep for module, _ in stack.values())
        example = node.meta["val"]
        is_float = isinstance(example, torch.Tensor) and example.dtype == torch.float32
        own: Callable[..., Any] | None = getattr(self, f"_{name}", None)
        if name in host.FUNCTIONS and name != "gelu":
            own = partial(self._function, name)
        if own is None or not is_float:  # moves of elements, embeddings, integers and booleans
            with torch.no_grad():
                return cast(Callable[..., Any], node.target)(*args, **kwargs)
        made = own(*args, **kwargs)
        return torch.from_numpy(np.ascontiguousarray(made)).reshape(made.shape)

    # Products.

    def _products(self, a: Floats, w: Floats) -> Floats:
        """Of matrices, both in the machine's format."""
        lead = np.broadcast_shapes(a.shape[:-2], w.shape[:-2])
        many = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, w)]
        flat = [x.reshape(-1, *x.shape[-2:]) for x in many]
        made = np.stack([self._product(x, y) for x, y in zip(*flat, strict=True)])
        return made.reshape(*lead, a.shape[-2], w.shape[-1])

    def _product(self, a: Floats, w: Floats) -> Floats:
        if self._on_host:
            return host.product(a, w.T)
        if self._c.arithmetic != "window":
            return self._part(a, w)
        total = self._part(a[:, :_MOST_IN_WINDOW], w[:_MOST_IN_WINDOW])
        for at in range(_MOST_IN_WINDOW, len(w), _MOST_IN_WINDOW):
            own = slice(at, at + _MOST_IN_WINDOW)
            total = model.add(total, self._part(a[:, own], w[own]))
        return total

    def _part(self, a: Floats, w: Floats) -> Floats:
        """A product of a part of k."""
        return converted_product(a, w, self._c, self._block)

    def _linear(self, x: Any, weight: Any, bias: Any = None) -> Floats:
        flat = _array(x).reshape(-1, weight.shape[-1])
        made = self._product(flat, _array(weight).T)
        if bias is not None:
            made = model.add(made, _array(bias))
        return made.reshape(*x.shape[:-1], weight.shape[0])

    def _matmul(self, a: Any, b: Any) -> Floats:
        a, b = _array(a), _array(b)
        if b.ndim == 2:
            return self._product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
        return self._products(a, b)

    _mm = _bmm = _matmul

    def _addmm(self, bias: Any, a: Any, b: Any) -> Floats:
        return model.add(self._matmul(a, b), _array(bias))

    _baddbmm = _addmm

    def _conv2d(self, x: Any, weight: Any, bias: Any = None, stride: Any = 1, *rest: Any) -> Floats:
        features, _, height, width = weight.shape
        rows = x.unfold(2, height, height).unfold(3, width, width)
        batch, _, down, across = rows.shape[:4]
        patches = rows.permute(0, 2, 3, 1, 4, 5).reshape(batch * down * across, -1)
        made = self._linear(patches, weight.reshape(features, -1), bias)
        return made.reshape(batch, down, across, features).transpose(0, 3, 1, 2)

    def _scaled_dot_product_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Floats:
        if enable_gqa:
            times = query.shape[-3] // key.shape[-3]
            key, value = (one.repeat_interleave(times, -3) for one in (key, value))
        scores = self._products(_array(query), _array(key.transpose(-1, -2)))
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        lower = np.tri(*scores.shape[-2:], dtype=np.bool_)
        mask = None if attn_mask is None else _any(attn_mask)
        if is_causal:
            mask = lower
        if mask is not None and mask.dtype == np.bool_:
            known = is_causal or self._is_constant(attn_mask)
            if known and mask.all():
                mask = None
            elif known and scores.shape[-1] == scores.shape[-2] and (mask == lower).all():
                weights = self._shares(scores, factor, causal=True)
                return self._products(weights, _array(value))
            else:
                mask = np.where(mask, np.float32(0), np.float32(-np.inf))
        if mask is not None:
            scores, factor = model.axpy(np.float32(factor), scores, mask), 1.0
        return self._products(self._shares(scores, factor), _array(value))

    def _shares(self, scores: Floats, scale: float = 1.0, *, causal: bool = False) -> Floats:
        """Softmax along the last axis."""
        if self._on_host:
            return host.softmax(scores, float(np.float32(scale)), causal=causal)
        lower = np.broadcast_to(np.tri(*scores.shape[-2:], dtype=np.bool_), scores.shape)
        mask = lower if causal else None
        return model.softmax(scores, mask=mask, scale=scale, grade=self._c.grade)

    def _is_constant(self, x: Any) -> bool:
        """Whether it does not depend on inputs."""
        return not isinstance(x, torch.Tensor) or any(x is one for one in self._constants)

    # Between products.

    def _add(self, x: Any, y: Any, alpha: Any = 1) -> Floats:
        if alpha != 1:
            y = model.multiply(np.float32(alpha), _array(y))
        return model.add(_array(x), _array(y))

    def _sub(self, x: Any, y: Any, alpha: Any = 1) -> Floats:
        return model.add(_array(x), model.multiply(np.float32(-alpha), _array(y)))

    def _rsub(self, x: Any, y: Any, alpha: Any = 1) -> Floats:
        return self._sub(y, x, alpha)

    def _mul(self, x: Any, y: Any) -> Floats:
        return model.multiply(_array(x), _array(y))

    def _div(self, x: Any, y: Any) -> Floats:
        if isinstance(y, int | float):
            return model.multiply(_array(x), np.float32(1 / y))
        if any(y is one for one in self._constants):
            return model.multiply(_array(x), (1 / y.numpy().astype(np.float64)).astype(np.float32))
        return model.multiply(_array(x), self._function("reciprocal", y))

    def _neg(self, x: Any) -> Floats:
        return model.multiply(np.float32(-1), _array(x))

    def _square(self, x: Any) -> Floats:
        return model.multiply(_array(x), _array(x))

    def _sqrt(self, x: Any) -> Floats:
        return self._function("reciprocal", self._function("rsqrt", x))

    def _pow(self, x: Any, exponent: Any) -> Floats:
        number = float(exponent)
        if number == 3:
            return self._mul(self._square(x), x)
        if number == 2:
            return self._square(x)
        if number == 0.5:
            return self._sqrt(x)
        return _array(x) if number == 1 else self._function(_POWERS[number], x)

    def _gelu(self, x: Any, approximate: str = "none") -> Floats:
        x = _array(x)
        if approximate == "none":
            return self._function("gelu", x)
        cube = model.multiply(model.multiply(x, x), x)
        inner = model.axpy(np.float32(0.044715), cube, x)
        scaled = model.multiply(np.float32(math.sqrt(2 / math.pi)), inner)
        half = model.multiply(np.float32(0.5), x)
        return model.add(model.multiply(half, self._function("tanh", scaled)), half)

    def _function(self, name: str, x: Any) -> Floats:
        if self._on_host:
            return host.function(name, _array(x))
        grade = {} if name == "relu" else {"grade": self._c.grade}
        return cast(Floats, getattr(model, name)(_array(x), **grade))

    def _where(self, condition: Any, x: Any, y: Any) -> Floats:
        chosen = _any(condition)
        if self._on_host or (self._is_constant(x) and self._is_constant(y)):
            return np.where(chosen, _array(x), _array(y))
        parts = []
        for one, other, mask in ((x, y, chosen), (y, x, ~chosen)):
            if self._is_constant(one):
                parts.append(np.where(mask, _array(one), np.float32(-0.0)))
            elif self._is_constant(other) and (_array(other) == -np.inf).all():
                parts.append(_array(one))
            else:
                parts.append(model.multiply(_array(one), mask.astype(np.float32)))
        return model.add(*parts)

    def _masked_fill(self, x: Any, mask: Any, value: Any) -> Floats:
        return self._where(mask, value, x)

    # Along rows.

    def _softmax(self, x: Any, dim: int, dtype: Any = None) -> Floats:
        return np.moveaxis(self._shares(np.moveaxis(_array(x), dim, -1)), -1, dim)

    def _layer_norm(
        self, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
    ) -> Floats:
        return self._normalised(x, shape, weight, bias, eps, centre=True)

    def _rms_norm(self, x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Floats:
        epsilon = torch.finfo(torch.float32).eps if eps is None else eps
        return self._normalised(x, shape, weight, None, epsilon, centre=False)

    def _normalised(
        self, x: Any, shape: Any, weight: Any, bias: Any, epsilon: float, *, centre: bool
    ) -> Floats:
        size = math.prod(shape)
        gain = np.ones(size, np.float32) if weight is None else _array(weight).reshape(-1)
        shift = np.zeros(size, np.float32) if bias is None else _array(bias).reshape(-1)
        rows = _array(x).reshape(-1, size)
        if self._on_host:
            made_by_host = host.norm(rows, gain, shift, epsilon, centre=centre)
            return made_by_host.reshape(x.shape)
        grade = self._c.grade
        made = model.normalise(rows, gain, shift, epsilon, centre=centre, grade=grade)
        return made.result.reshape(x.shape)

    def _sum(self, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Floats:
        dims = [*range(x.dim())] if dim in (None, []) else [dim] if isinstance(dim, int) else dim
        away = sorted(d % x.dim() for d in dims)
        rows = np.moveaxis(_array(x), away, range(-len(away), 0))
        lead = rows.shape[: rows.ndim - len(away)]
        made = model.half_sums(rows.reshape(*lead, -1)).reshape(lead)
        return np.expand_dims(made, tuple(away)) if keepdim else made

    def _mean(self, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Floats:
        made = self._sum(x, dim, keepdim)
        return model.multiply(made, np.float32(1 / (x.numel() // made.size)))


def _any(x: Any) -> NDArray[Any]:
    return cast(NDArray[Any], x.detach().cpu().numpy())


def _array(x: Any) -> Floats:
    """A tensor or a number as float32."""
    with np.errstate(over="ignore"):
        return np.asarray(
            x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x, np.float32
        )
