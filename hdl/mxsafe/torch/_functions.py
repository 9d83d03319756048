"""The functions of PyTorch that a context replaces, and what it puts in their place."""

from __future__ import annotations

import math
import os
import sys
import types
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

from mxsafe.torch import _einsum, products
from mxsafe.torch.quantising import is_transformed
from mxsafe.torch.recipes import Quantiser, Recipe

_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
Size = int | tuple[int, ...] | list[int] | str


def _is_weight(t: torch.Tensor) -> bool:
    """Whether an operand is a parameter, or a view of one."""
    while not torch.compiler.is_compiling() and is_transformed(t):
        t = torch._C._functorch.get_unwrapped(t)
    base = None if torch.compiler.is_compiling() else t._base
    return isinstance(t, torch.nn.Parameter) or isinstance(base, torch.nn.Parameter)


def _quantiser(t: torch.Tensor, recipe: Recipe) -> Quantiser | None:
    return recipe.weights if _is_weight(t) else recipe.activations


def _apt(*tensors: object) -> bool:
    """Whether operands are dense tensors of real numbers, which alone are quantised.

    A warning tells of others, but for integers, which no format is for.
    """
    others = [
        t
        for t in tensors
        if not isinstance(t, torch.Tensor) or t.layout != torch.strided or t.dtype not in _FLOATS
    ]
    for t in others:
        if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()):
            kind = t.dtype if t.layout == torch.strided else t.layout
            warn_of(f"products of {kind} tensors")
    return not others


def _only_known(kwargs: dict[str, Any]) -> None:
    """Refuse arguments that nobody knows."""
    if kwargs:
        raise TypeError(f"unexpected arguments within microscaling: {', '.join(kwargs)}")


def _product(recipe: Recipe, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return products.matmul(a, b, recipe, (_quantiser(a, recipe), _quantiser(b, recipe)))


Ranks = tuple[int, int] | None


def _fits(ranks: Ranks, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether a function that has given ranks takes two operands: batches are of one length."""
    return ranks is None or ((a.ndim, b.ndim) == ranks and a.shape[:-2] == b.shape[:-2])


def _binary(original: Callable[..., Any], ranks: Ranks = None) -> Callable[..., Any]:
    """A product of two operands, both named by position, of given ranks or of any."""

    def handler(recipe: Recipe, input: Any, other: Any = None, **kwargs: Any) -> Any:
        for name in ("tensor2", "tensor", "mat2", "vec2", "vec"):
            other = kwargs.pop(name, other)
        _only_known(kwargs)
        if not _apt(input, other) or not _fits(ranks, input, other):
            return original(input, other)  # and its error
        return _product(recipe, input, other)

    return handler


def _reflected(recipe: Recipe, other: Any, input: Any) -> Any:
    if not _apt(input, other):
        return torch.matmul(input, other)
    return _product(recipe, input, other)


def _added(original: Callable[..., Any], ranks: Ranks, summed: bool = False) -> Callable[..., Any]:
    """``beta * input + alpha * (a @ b)``, summed over the batch where that is said."""

    def handler(
        recipe: Recipe,
        input: Any,
        a: Any = None,
        b: Any = None,
        *,
        beta: Any = 1,
        alpha: Any = 1,
        **kwargs: Any,
    ) -> Any:
        for first, second in (("mat1", "mat2"), ("batch1", "batch2"), ("mat", "vec")):
            a, b = kwargs.pop(first, a), kwargs.pop(second, b)
        _only_known(kwargs)
        if not _apt(input, a, b) or not _fits(ranks, a, b):
            return original(input, a, b, beta=beta, alpha=alpha)  # and its error
        result = _product(recipe, a, b)
        input = products.narrowed(input, recipe)
        result = result.sum(0) if summed else result
        result = result if alpha == 1 else result * alpha
        addend = input.expand(result.shape)
        if beta == 0:
            return result
        return result + (addend if beta == 1 else addend * beta)

    return handler


def linear(
    recipe: Recipe, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Any:
    """`torch.nn.functional.linear`."""
    if not _apt(input, weight):
        return F.linear(input, weight, bias)
    pair = (recipe.activations, recipe.weights)
    result = products.matmul(input, weight.t(), recipe, pair)
    return result if bias is None else result + products.narrowed(bias, recipe)


def _sizes(size: Size, rank: int) -> tuple[int, ...]:
    sizes = (size,) if isinstance(size, int) else tuple(int(n) for n in size)
    return sizes * rank if len(sizes) == 1 else sizes


def convolution(original: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """A convolution of a number of dimensions, of a batch or of one input."""

    def handler(
        recipe: Recipe,
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Any:
        fits = _apt(input, weight) and input.ndim in (rank + 1, rank + 2)
        if not fits or input.shape[-rank - 1] != weight.shape[1] * groups:
            return original(input, weight, bias, stride, padding, dilation, groups)  # and its error
        dilations, steps = _sizes(dilation, rank), _sizes(stride, rank)
        batch = input if input.ndim == rank + 2 else input.unsqueeze(0)
        if padding == "same":
            if any(step != 1 for step in steps):
                raise ValueError(f"stride must be 1 for padding 'same', not {stride}")
            pads: list[int] = []
            for d, k in zip(reversed(dilations), reversed(weight.shape[2:]), strict=True):
                total = d * (k - 1)
                pads += [total // 2, total - total // 2]
            batch, padding = F.pad(batch, pads), 0
        padding = 0 if padding == "valid" else padding
        if isinstance(padding, str):
            raise ValueError(f"padding must be 'same', 'valid' or numbers, not {padding!r}")
        geometry = (steps, _sizes(padding, rank), dilations, groups)
        pair = (recipe.activations, recipe.weights)
        result = products.convolution(batch, weight, recipe, pair, geometry)
        if bias is not None:
            result = result + products.narrowed(bias, recipe).reshape(-1, *(1,) * rank)
        return result if input.ndim == rank + 2 else result.squeeze(0)

    return handler


def _any_convolution(
    recipe: Recipe,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Size,
    padding: Size,
    dilation: Size,
    transposed: bool,
    output_padding: Size,
    groups: int,
) -> Any:
    """`torch.convolution`, which is all of them."""
    if transposed or not 3 <= weight.ndim <= 5:
        warn_of("convolution, if transposed,")
        return torch.convolution(
            input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )
    rank = weight.ndim - 2
    handler = convolution(CONVOLUTIONS[rank - 1], rank)
    return handler(recipe, input, weight, bias, stride, padding, dilation, groups)


def _attention(
    recipe: Recipe,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``softmax(query @ key.T * scale + mask) @ value``, both products quantised."""
    if not _apt(query, key, value):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask must be None with is_causal, not a tensor")
    if enable_gqa:
        many = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(many, -3) for t in (key, value))
    query, key, value = (products.narrowed(t, recipe) for t in (query, key, value))
    pair = (recipe.activations, recipe.activations)
    scores = products.matmul(query, key.transpose(-2, -1), recipe, pair)
    scores = scores * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + products.narrowed(attn_mask, recipe)
    with products.without_autocast(scores):
        chances = torch.softmax(scores, -1)
    if attn_mask is not None:  # a row with nothing unmasked is 0, as in PyTorch
        chances = torch.where(scores.amax(-1, keepdim=True) == -math.inf, 0.0, chances)
    if dropout_p:
        chances = torch.dropout(chances, dropout_p, True)
    return products.matmul(chances.to(value.dtype), value, recipe, pair)


def _bag(original: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Sums of rows, which are products where rows have weights, the argument of a place."""

    def handler(recipe: Recipe, *args: Any, **kwargs: Any) -> Any:
        given = args[place] if len(args) > place else kwargs.get("per_sample_weights")
        if given is not None:
            warn_of("embedding_bag with per_sample_weights")
        return original(*args, **kwargs)

    return handler


def _einsum_handler(recipe: Recipe, equation: Any, *operands: Any) -> Any:
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) < 2 or not _apt(*operands):
        return torch.functional.einsum(equation, *operands)
    if _einsum.repeats(equation):
        warn_of("einsum with an index twice in a term")
        return torch.functional.einsum(equation, *operands)
    quantisers = [_quantiser(t, recipe) for t in operands]
    if operands[0].device.type != "cpu":  # there autocast knows its products alone
        operands = tuple(products.narrowed(t, recipe) for t in operands)
    return _einsum.einsum(equation, operands, quantisers, recipe)


def _opened(function: Any) -> Any:
    """A copy of a Python function of PyTorch that does not hand itself to contexts.

    Such a function hands itself over as a whole where a context is open; its copy runs, and hands
    over the products in it.
    """
    guards = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    names = {**function.__globals__, **dict.fromkeys(guards, lambda *_: False)}
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)
_PRODUCTS: dict[str, Ranks] = {
    "matmul": None,
    "mm": (2, 2),
    "mv": (2, 1),
    "bmm": (3, 3),
    "dot": (1, 1),
}
_SUMS: dict[str, Ranks] = {"addmm": (2, 2), "addmv": (2, 1), "baddbmm": (3, 3), "addbmm": (3, 3)}
_OTHERS = (
    "conv_transpose1d conv_transpose2d conv_transpose3d tensordot bilinear chain_matmul "
    "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell "
    "conv_tbc cdist inner vdot matrix_power addmm_ addmv_ addbmm_ baddbmm_ "
    "linalg.multi_dot linalg.vecdot linalg.matrix_power "
    "sparse.mm sparse.addmm sparse.sampled_addmm smm sspaddmm hspmm "
    "cov corrcoef matrix_exp linalg.matrix_exp affine_grid linear_cross_entropy "
    # What functions hand over that are not seen themselves, such as `F.grouped_mm`:
    "_grouped_mm _scaled_mm _scaled_mm_v2 _scaled_grouped_mm _scaled_grouped_mm_v2 _int_mm "
    # Parts of functions above, for those who call them themselves, as `torch.nn.grad` does:
    "convolution_backward _addmm_activation _scaled_dot_product_attention_math "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
)
_QUANTIZED = (
    "linear linear_relu linear_dynamic linear_relu_dynamic linear_dynamic_fp16 matmul "
    "conv1d conv2d conv3d conv1d_relu conv2d_relu conv3d_relu"
)
_UNCAST = {"dot": None, "mv": "cpu", "addmv": "cpu", "embedding_bag": None}
"""Products that autocast leaves alone, on a kind of device or on all."""


class Handler(NamedTuple):
    """Replacement of a function.

    Attributes
    ----------
    call : callable
        Called with the recipe and the function's own arguments.
    name : str
        Of the function.
    """

    call: Callable[..., Any]
    name: str

    def autocast(self, args: Any) -> torch.dtype | None:
        """Return the type that autocast, where it is on, gives operands, which may be in a list."""
        operands = [*args, *(t for many in args[1:2] if isinstance(many, list) for t in many)]
        kind = next((t.device.type for t in operands if isinstance(t, torch.Tensor)), None)
        if kind is None or not products.autocasts(kind):
            return None
        left_alone = _UNCAST.get(self.name, "") in (None, kind)
        return None if left_alone else torch.get_autocast_dtype(kind)


class Functions(NamedTuple):
    """Functions of PyTorch by what a context does with them.

    Attributes
    ----------
    handlers : dict
        What replaces a function.
    opened : dict
        For functions made of others, what calls those where a context sees them.
    left_out : dict
        Names of products that are computed as always.
    by_compilers : set
        Those of them that what a compiler made calls, too.
    """

    handlers: dict[Any, Handler]
    opened: dict[Any, Callable[..., Any]]
    left_out: dict[Any, str]
    by_compilers: set[Any]


def _found(owner: Any, name: str) -> Any:
    """Return an owner's attribute by a name with dots, or None."""
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


@lru_cache(maxsize=1)
def functions() -> Functions:
    """Return the functions that contexts see."""
    left_out = {
        function: name.removeprefix("_")
        for name in _OTHERS.split()
        for owner in (torch, torch.Tensor, F, torch._C._VariableFunctions)
        if (function := _found(owner, name)) is not None
    }
    handlers = _handlers()
    operators = _operators({handler.name: handler for handler in handlers.values()})
    others = _operators({name: name.removeprefix("_") for name in _OTHERS.split()})
    for name in _QUANTIZED.split():
        left_out[getattr(torch.ops.quantized, name)] = f"quantized {name}"
    return Functions(
        handlers | operators,
        {F.multi_head_attention_forward: _opened(F.multi_head_attention_forward)},
        left_out | others | {torch.Tensor.__array_wrap__: "NumPy's functions of tensors"},
        {*operators, *others, torch.convolution},
    )


def _operators(named: dict[str, Any]) -> dict[Any, Any]:
    """Return entries by function name for the operators of ``torch.ops.aten`` too."""
    found = {}
    for name, value in named.items():
        packet = getattr(torch.ops.aten, name.replace(".", "_"), None)
        if packet is not None:
            found[packet] = value
            found |= {getattr(packet, overload): value for overload in packet.overloads()}
    return found


def _handlers() -> dict[Any, Handler]:
    table: dict[Any, Handler] = {
        F.linear: Handler(linear, "linear"),
        F.scaled_dot_product_attention: Handler(_attention, "scaled_dot_product_attention"),
        torch.functional.einsum: Handler(_einsum_handler, "einsum"),
        torch.Tensor.__matmul__: Handler(_binary(torch.matmul), "matmul"),
        torch.Tensor.__rmatmul__: Handler(_reflected, "matmul"),
        torch.linalg.matmul: Handler(_binary(torch.matmul), "linalg_matmul"),
        torch.convolution: Handler(_any_convolution, "convolution"),
        F.embedding_bag: Handler(_bag(F.embedding_bag, 8), "embedding_bag"),
        torch.embedding_bag: Handler(_bag(torch.embedding_bag, 6), "embedding_bag"),
    }
    for owner in (torch, torch.Tensor):
        for name, ranks in _PRODUCTS.items():
            call = _binary(getattr(torch, name), ranks)
            table[getattr(owner, name)] = Handler(call, name)
        for name, ranks in _SUMS.items():
            call = _added(getattr(torch, name), ranks, name == "addbmm")
            table[getattr(owner, name)] = Handler(call, name)
    for rank, function in enumerate(CONVOLUTIONS, 1):
        table[function] = Handler(convolution(function, rank), f"conv{rank}d")
    return table


_WARNED: set[str] = set()
_INNER = tuple(str(Path(file).parent) + os.sep for file in (torch.__file__, __file__))
"""Where the code lies that runs between a user's line and a warning."""

_COMPILED = str(Path("_functorch", "_aot_autograd", "runtime_wrappers.py"))
"""Caller of the graphs that compilers make, whose operands are quantised where they must be."""


def within_compiled() -> bool:
    """Whether a graph that a compiler made is what calls."""
    frame = None if torch.compiler.is_compiling() else sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_COMPILED):
            return True
        frame = frame.f_back
    return False


def _users_level() -> int:
    """Stack level, for the caller, of the first line outside PyTorch and this package."""
    if torch.compiler.is_compiling():  # a compiler has no stack
        return 1
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level


def warn_of(name: str) -> None:
    """Say once that a product stays in floating point."""
    if name not in _WARNED:
        _WARNED.add(name)
        warnings.warn(f"microscaling leaves {name} in floating point", stacklevel=_users_level())


def closed(operator: Any) -> None:
    """Say that an operator computes what it is given as a function, which no context sees.

    Raises
    ------
    RuntimeError
        If a compiler makes a graph of it: it steps aside, or fails where it must make one graph.
    """
    name = operator.__name__
    if torch.compiler.is_compiling():
        raise RuntimeError(f"microscaling does not see the products within {name}: it is refused")
    if not within_compiled():
        warn_of(name)
