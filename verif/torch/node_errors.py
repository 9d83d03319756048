"""Bounds of the error of each node of an exported model against float64, from its inputs.

A product's operands are off by at most 2^-6 of the largest value of their block: MXSF has six
significant bits from a quarter of it on, and below that its steps are no larger. Functions and
reductions have the errors of grade ``compact``, sums and products of binary32 those of rounding.
"""

import operator
from typing import Any, cast

import numpy as np
import torch
from torch.export import ExportedProgram

from mxsafe.torch._evaluator import Evaluated

_BLOCK = 64
_ROUNDING = 2.0**-20
"""Of sums and products in binary32, a few of them."""


def _largest(x: torch.Tensor) -> torch.Tensor:
    """The error of each value of an operand whose sums run along the last axis."""
    length = x.shape[-1]
    whole = torch.nn.functional.pad(x.abs(), (0, -length % _BLOCK))
    blocks = whole.reshape(*whole.shape[:-1], -1, _BLOCK)
    spread = blocks.amax(-1, keepdim=True).expand_as(blocks).reshape(whole.shape)
    return spread[..., :length] * 2.0**-6


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Bound of ``a @ b.T``."""
    error_a, error_b = _largest(a), _largest(b)
    more = error_a @ (b.abs() + error_b).mT + a.abs() @ error_b.mT
    return more + _ROUNDING * (a.abs() + error_a) @ (b.abs() + error_b).mT


def _attention(wanted: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    """Shares are off as the exponential of scores is, and the product with values as well."""
    query, key, value, *_ = args
    if kwargs.get("enable_gqa"):
        times = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(times, -3) for x in (key, value))
    scale = kwargs.get("scale") or query.shape[-1] ** -0.5
    scores = scale * _product(query, key)
    share = torch.expm1(2 * scores.amax(-1, keepdim=True)) + 2.0**-8
    # Shares add up to 1, and each of their blocks is converted.
    largest = value.abs().amax(-2, keepdim=True)
    own = (1 + share) * 2.0**-6 * (value.shape[-2] + 1)
    return (share + own) * largest


def bound(name: str, wanted: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    """Largest error of each element of a node's result."""
    tensors = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
    size = wanted.abs() + sum(x.abs().max() if x.numel() else 0 for x in tensors) * 2.0**-3
    if name == "linear":
        weight = args[1]
        return _product(args[0], weight) + _ROUNDING * wanted.abs()
    if name in ("matmul", "addmm"):
        a, b = args[-2:]
        return _product(a, b.mT.contiguous()) + _ROUNDING * wanted.abs()
    if name == "conv2d":
        x, weight = args[:2]
        length = weight[0].numel()
        return torch.full_like(
            wanted, 3 * 2.0**-6 * length * float(x.abs().max() * weight.abs().max())
        )
    if name == "scaled_dot_product_attention":
        return _attention(wanted, args, kwargs)
    if name == "softmax":
        return 2.0**-9 * wanted + 2.0**-40
    if name in ("layer_norm", "rms_norm"):
        rows = wanted.abs()
        weights = [x.abs().max() for x in tensors[1:]]
        return 2.0**-8 * (rows.amax(-1, keepdim=True) + sum(weights)).expand_as(wanted)
    if name in ("gelu", "silu", "tanh", "exp", "sigmoid", "rsqrt", "sqrt", "reciprocal", "div"):
        return 2.0**-8 * (wanted.abs() + (args[0].abs() if name in ("gelu", "silu") else 0))
    return _ROUNDING * size


def require_near(exported: ExportedProgram, found: Evaluated) -> int:
    """Check each node of a model against float64; return how many there are."""
    state = {**exported.state_dict, **exported.constants}
    signature = exported.graph_signature
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    values: dict[Any, Any] = {}
    count = 0

    def double(x: Any) -> Any:
        is_float = isinstance(x, torch.Tensor) and x.dtype == torch.float32
        return x.double() if is_float else x

    for node in exported.graph.nodes:
        if node.op == "placeholder":
            own = state[names[node.name]] if node.name in names else found.nodes[node.name]
            values[node] = double(torch.as_tensor(own).detach())
        elif node.op == "call_function":
            args = torch.fx.map_arg(node.args, lambda one: values[one])
            kwargs = torch.fx.map_arg(node.kwargs, lambda one: values[one])
            name = str(node.target).split(".")[1] if node.target is not operator.getitem else ""
            if name == "_assert_tensor_metadata":
                continue
            if name == "to" or node.target is operator.getitem or node.name not in found.nodes:
                is_own = node.name in found.nodes
                made = found.nodes[node.name] if is_own else cast(Any, node.target)(*args, **kwargs)
                values[node] = double(torch.as_tensor(made) if is_own else made)
                continue
            with torch.no_grad():
                wanted = cast(Any, node.target)(*args, **kwargs)
            own = double(torch.from_numpy(np.asarray(found.nodes[node.name])))
            if not own.is_floating_point():
                values[node] = own
                continue
            error = (own - wanted).abs().masked_fill(own == wanted, 0)  # infinities
            most = bound(name, wanted, args, kwargs)
            assert (error <= most).all(), f"{node.name}: {float((error - most).max())}"
            values[node] = own
            count += 1
    return count
