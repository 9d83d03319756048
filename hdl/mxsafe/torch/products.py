"""Products of quantised tensors with gradients that are such products too.

Each tensor is quantised in blocks along the axis that is summed over, so 1-D blocks are made from
the unquantised numbers for every product anew; tiles are made once and serve all.

Products here are PyTorch's innermost operations, which contexts do not see: a context that is still
open while gradients are made quantises nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

import mxsafe
from mxsafe.codec import blocks
from mxsafe.formats import mx_format
from mxsafe.torch.recipes import ARRAY, Quantiser, Recipe

__all__ = ["convolution", "matmul"]

_aten = torch.ops.aten


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
) -> torch.Tensor:
    """Product as `torch.matmul`, with the quantisers of `a` and `b`."""
    if a.ndim == 0 or b.ndim == 0:
        name, rank = ("a", a.ndim) if a.ndim == 0 else ("b", b.ndim)
        raise ValueError(f"{name} must have rank 1 or more in a product, not {rank}")
    vector_a, vector_b = a.ndim == 1, b.ndim == 1
    a = a.unsqueeze(0) if vector_a else a
    b = b.unsqueeze(1) if vector_b else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"b must have the {a.shape[-1]} rows that a has columns, not {b.shape[-2]}"
        )
    if b.ndim == 2:  # all rows of a batch are rows of one matrix
        rows = a.shape[:-1]
        result = _Product.apply(a.reshape(-1, a.shape[-1]), b, recipe, quantisers)
        result = result.reshape(*rows, b.shape[-1])
    else:
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (t.expand(*batch, *t.shape[-2:]) for t in (a, b))
        result = _Product.apply(
            a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), recipe, quantisers
        )
        result = result.reshape(*batch, *result.shape[-2:])
    if vector_b:
        result = result.squeeze(-1)
    return result.squeeze(-2 + vector_b) if vector_a else result


def _values(t: torch.Tensor, quantiser: Quantiser | None, axis: int) -> torch.Tensor:
    return t if quantiser is None else quantiser.values(t, axis)


def _saved(
    t: torch.Tensor, values: torch.Tensor, quantiser: Quantiser | None, recipe: Recipe
) -> tuple[torch.Tensor, Quantiser | None]:
    """What a backward pass makes its operand of: values of tiles are those of the forward pass."""
    if quantiser is not None and quantiser.tiled and recipe.arithmetic not in ARRAY:
        return values, None
    return t, quantiser


class _Product(torch.autograd.Function):
    """``a @ b`` of two matrices, or of two batches of them."""

    @staticmethod
    def forward(
        ctx: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        recipe: Recipe,
        quantisers: tuple[Quantiser | None, Quantiser | None],
    ) -> torch.Tensor:
        dtype = torch.promote_types(a.dtype, b.dtype)
        ctx.recipe = recipe
        if recipe.arithmetic in ARRAY:
            saved = (a, quantisers[0]), (b, quantisers[1])
            result = _array_product(a, b, recipe, quantisers)
        else:
            values = _values(a, quantisers[0], -1), _values(b, quantisers[1], -2)
            saved = (
                _saved(a, values[0], quantisers[0], recipe),
                _saved(b, values[1], quantisers[1], recipe),
            )
            result = _multiplied(*values, recipe)
        ctx.save_for_backward(saved[0][0], saved[1][0])
        ctx.quantisers = saved[0][1], saved[1][1]
        ctx.dtypes = a.dtype, b.dtype
        return result.to(dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (g,) = gradients
        (a, b), recipe = ctx.saved_tensors, ctx.recipe
        of_a, of_b = ctx.quantisers
        of_g = recipe.gradients
        if of_g is not None and of_g.tiled and recipe.arithmetic not in ARRAY:
            g, of_g = of_g.values(g, -1), None
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = _once(g, b.transpose(-1, -2), recipe, (of_g, of_b)).to(ctx.dtypes[0])
        if ctx.needs_input_grad[1]:
            grad_b = _once(a.transpose(-1, -2), g, recipe, (of_a, of_g)).to(ctx.dtypes[1])
        return grad_a, grad_b, None, None


def _once(
    a: torch.Tensor,
    b: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
) -> torch.Tensor:
    """A product without a gradient."""
    if recipe.arithmetic in ARRAY:
        return _array_product(a, b, recipe, quantisers)
    return _multiplied(_values(a, quantisers[0], -1), _values(b, quantisers[1], -2), recipe)


def _multiplied(a: torch.Tensor, b: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """The product of values, in their dtype or in float64."""
    wide = recipe.arithmetic == "float64"
    dtype = torch.float64 if wide else torch.promote_types(a.dtype, b.dtype)
    operation = _aten.mm.default if a.ndim == 2 else _aten.bmm.default
    return operation(a.to(dtype), b.to(dtype))


# The array, by `mxsafe.matmul`.


def _array_product(
    a: torch.Tensor,
    b: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
) -> torch.Tensor:
    """The same as the array computes it, in float32."""
    left, right = a.reshape(-1, *a.shape[-2:]), b.transpose(-1, -2).reshape(-1, *b.shape[-1:-3:-1])
    scales = [_tensor_scale(t, q) for t, q in zip((a, b), quantisers, strict=True)]
    results = [
        _array_matmul(
            _matrix(x[None, None], quantisers[0], scales[0]),
            _matrix(y[None, None], quantisers[1], scales[1]),
            recipe,
        )[: a.shape[-2], : b.shape[-1]]
        for x, y in zip(left, right, strict=True)
    ]
    if not results:
        return a.new_zeros((*a.shape[:-1], b.shape[-1]), dtype=torch.float32)
    return torch.stack(results).reshape(*a.shape[:-1], b.shape[-1])


def _array(t: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor for NumPy."""
    if torch.compiler.is_compiling():
        raise RuntimeError("arithmetic must be 'float' or 'float64' under torch.compile")
    if t.device.type != "cpu":
        raise ValueError(f"arithmetic must be 'float' or 'float64' on {t.device}, not of the array")
    return (t.float() if t.dtype == torch.bfloat16 else t).detach().numpy()


def _tensor_scale(t: torch.Tensor, quantiser: Quantiser | None) -> np.float32 | None:
    assert quantiser is not None
    return blocks.usual_tensor_scale(_array(t), mx_format(quantiser.format))


def _matrix(
    t: torch.Tensor, quantiser: Quantiser | None, tensor_scale: np.float32 | None
) -> mxsafe.QuantizedTensor:
    """A matrix of many: quantised in tiles of the last two axes, and put together.

    Parameters
    ----------
    t : Tensor of shape (O, T, R, C)
        The rows of the matrix are those of axes O and R, the columns those of T and C. R and C are
        filled up to whole blocks by zeros.
    quantiser : Quantiser
        Its 1-D blocks run along C.
    tensor_scale : numpy.float32, optional
        Scale of the tensor that `t` is made of.
    """
    assert quantiser is not None
    fmt = mx_format(quantiser.format)
    own = fmt.block if quantiser.block is None else quantiser.block
    tile = own if isinstance(own, tuple) else (1, own)
    q = mxsafe.quantize(
        _array(t),
        fmt,
        block=tile,
        rounding=quantiser.rounding,
        scale_mode=quantiser.scale_mode,
        tensor_scale=tensor_scale,
        random=_numpy_generator(quantiser),
    )
    outer, many, rows, columns = q.scales.shape
    missing = rows * tile[0] - t.shape[2], columns * tile[1] - t.shape[3]
    codes = np.pad(q.codes, ((0, 0), (0, 0), (0, missing[0]), (0, missing[1])))
    codes = codes.transpose(0, 2, 1, 3).reshape(outer * rows * tile[0], many * columns * tile[1])
    scales = q.scales.transpose(0, 2, 1, 3).reshape(outer * rows, many * columns)
    return mxsafe.QuantizedTensor(codes, scales, fmt, tile, (-2, -1), q.tensor_scale)


def _numpy_generator(quantiser: Quantiser) -> np.random.Generator | None:
    if isinstance(quantiser.random, torch.Generator):
        seed = torch.randint(0, 1 << 62, (), generator=quantiser.random)
        return np.random.default_rng(int(seed))
    return quantiser.random


def _array_matmul(
    a: mxsafe.QuantizedTensor, w: mxsafe.QuantizedTensor, recipe: Recipe
) -> torch.Tensor:
    """``a @ w.T`` of the array."""
    arithmetic: Any = ARRAY[recipe.arithmetic]
    return torch.from_numpy(mxsafe.matmul(a, w.T, arithmetic=arithmetic))


# Convolutions.


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
    geometry: tuple[Sequence[int], Sequence[int], Sequence[int], int],
) -> torch.Tensor:
    """Convolution without bias of a batch, in any number of dimensions.

    Blocks run along the axis of a product that is summed over: channels within a group, of the
    input in the forward pass and of the output in the gradient of `x`; the batch in the gradient of
    `weight`. Tiles are of batch and channels, or of output and input channels, at each position.

    Parameters
    ----------
    x : Tensor of shape (N, C, ...)
        Input.
    weight : Tensor of shape (D, C / groups, ...)
        Filters.
    recipe, quantisers
        As `matmul`.
    geometry : tuple
        Stride, padding and dilation of every dimension, and the number of groups.
    """
    return _Convolution.apply(x, weight, recipe, quantisers, geometry)


def _grouped(
    t: torch.Tensor, quantiser: Quantiser | None, groups: int, axes: tuple[int, int, int]
) -> torch.Tensor:
    """Values of a tensor whose axis ``axes[0]`` holds groups: see `convolution`.

    ``axes[1]`` is then the axis of 1-D blocks, and ``axes[2]`` the other one of tiles, once groups
    have an axis of their own.
    """
    if quantiser is None:
        return t
    split, along, other = axes
    apart = t.unflatten(split, (groups, t.shape[split] // groups))
    if not quantiser.tiled:
        return quantiser.values(apart, along).flatten(split, split + 1)
    first, last = sorted((along, other))
    moved = apart.movedim((first, last), (-2, -1))
    values = quantiser.values(moved, -1)
    return values.movedim((-2, -1), (first, last)).flatten(split, split + 1)


# Axes of images (groups are axis 1, channels axis 2) and of filters (groups are axis 0).
_CHANNELS, _BATCH = (1, 2, 0), (1, 0, 2)
_INPUTS, _OUTPUTS = (0, 2, 1), (0, 1, 2)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        recipe: Recipe,
        quantisers: tuple[Quantiser | None, Quantiser | None],
        geometry: tuple[Any, Any, Any, int],
    ) -> torch.Tensor:
        dtype = torch.promote_types(x.dtype, weight.dtype)
        ctx.recipe, ctx.geometry, ctx.dtypes = recipe, geometry, (x.dtype, weight.dtype)
        if recipe.arithmetic in ARRAY:
            ctx.save_for_backward(x, weight)
            ctx.quantisers = quantisers
            return _array_convolution(x, weight, recipe, quantisers, geometry).to(dtype)
        groups = geometry[3]
        qx = _grouped(x, quantisers[0], groups, _CHANNELS)
        qw = _grouped(weight, quantisers[1], groups, _INPUTS)
        saved = _saved(x, qx, quantisers[0], recipe), _saved(weight, qw, quantisers[1], recipe)
        ctx.save_for_backward(saved[0][0], saved[1][0])
        ctx.quantisers = saved[0][1], saved[1][1]
        qx, qw = _alike(recipe, qx, qw)
        stride, padding, dilation, groups = geometry
        none = [0] * len(stride)
        result = _aten.convolution.default(
            qx, qw, None, stride, padding, dilation, False, none, groups
        )
        return result.to(dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (g,) = gradients
        (x, weight), recipe, geometry = ctx.saved_tensors, ctx.recipe, ctx.geometry
        of_x, of_w = ctx.quantisers
        of_g, groups = recipe.gradients, geometry[3]
        grad_x = grad_w = None
        if recipe.arithmetic in ARRAY:
            if ctx.needs_input_grad[0]:
                grad_x = _array_grad_input(g, weight, recipe, (of_g, of_w), (x.shape, geometry))
            if ctx.needs_input_grad[1]:
                grad_w = _array_grad_weight(g, x, recipe, (of_g, of_x), (weight.shape, geometry))
        else:
            if of_g is not None and of_g.tiled:
                g, of_g = _grouped(g, of_g, groups, _CHANNELS), None
            if ctx.needs_input_grad[0]:
                qg = _grouped(g, of_g, groups, _CHANNELS)
                qw = _grouped(weight, of_w, groups, _OUTPUTS)
                grad_x = _convolution_backward(qg, x, qw, recipe, geometry, 0)
            if ctx.needs_input_grad[1]:
                qg = _grouped(g, of_g, groups, _BATCH)
                qx = _grouped(x, of_x, groups, _BATCH)
                grad_w = _convolution_backward(qg, qx, weight, recipe, geometry, 1)
        return (
            None if grad_x is None else grad_x.to(ctx.dtypes[0]),
            None if grad_w is None else grad_w.to(ctx.dtypes[1]),
            None,
            None,
            None,
        )


def _alike(recipe: Recipe, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Operands in one dtype."""
    dtype = torch.float64 if recipe.arithmetic == "float64" else tensors[0].dtype
    for t in tensors:
        dtype = torch.promote_types(dtype, t.dtype)
    return tuple(t.to(dtype) for t in tensors)


def _convolution_backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    geometry: tuple[Any, Any, Any, int],
    wanted: int,
) -> torch.Tensor:
    """One of the gradients of PyTorch's convolution: 0 of `x`, 1 of `weight`."""
    g, x, weight = _alike(recipe, g, x, weight)
    stride, padding, dilation, groups = geometry
    mask = [wanted == 0, wanted == 1, False]
    results = _aten.convolution_backward.default(
        g, x, weight, None, stride, padding, dilation, False, [0] * len(stride), groups, mask
    )
    return cast(torch.Tensor, results[wanted])


# Convolutions on the array: a row of an operand is a place of the result in one image, and the
# columns are taps of the filter, each with its channels, filled up to whole blocks.


def _patches(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> torch.Tensor:
    """What each tap sees of padded images: shape (places, taps, N, C)."""
    rank = len(kernel)
    for i in range(rank):
        window = (kernel[i] - 1) * dilation[i] + 1
        x = x.unfold(2 + i, window, stride[i])[..., :: dilation[i]]
    order = [*range(2, 2 + rank), *range(2 + rank, 2 + 2 * rank), 0, 1]
    n, c = x.shape[:2]
    return x.permute(order).reshape(-1, math.prod(kernel), n, c)


def _padded(x: torch.Tensor, pads: Sequence[tuple[int, int]]) -> torch.Tensor:
    flat = [side for pair in reversed(pads) for side in pair]
    return torch.constant_pad_nd(x, flat)


def _array_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
    geometry: tuple[Any, Any, Any, int],
) -> torch.Tensor:
    stride, padding, dilation, groups = geometry
    kernel = tuple(weight.shape[2:])
    places = tuple(
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    )
    images = _padded(x, [(p, p) for p in padding])
    results = []
    for xs, ws in zip(images.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
        left = _patches(xs, kernel, stride, dilation)
        right = ws.flatten(2).permute(2, 0, 1)[None]
        sums = _array_conv_product(left, right, recipe, quantisers, (x, weight))
        results.append(sums.reshape(*places, *sums.shape[1:]).movedim((-2, -1), (0, 1)))
    return torch.cat(results, 1)


def _array_conv_product(
    left: torch.Tensor,
    right: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
    sources: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Products of shapes (O, T, R, C) and (P, T, S, C): shape (O, R, P * S), fillings cut away."""
    q = [
        _matrix(t, quantiser, _tensor_scale(source, quantiser))
        for t, quantiser, source in zip((left, right), quantisers, sources, strict=True)
    ]
    sums = _array_matmul(q[0], q[1], recipe)
    outer, rows, others, columns = left.shape[0], left.shape[2], right.shape[0], right.shape[2]
    sums = sums.reshape(outer, q[0].shape[0] // outer, others, q[1].shape[0] // others)
    return sums[:, :rows, :, :columns].reshape(outer, rows, others * columns)


def _array_grad_input(
    g: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
    form: tuple[Sequence[int], tuple[Any, Any, Any, int]],
) -> torch.Tensor:
    """Gradient of the images: a convolution of `g`, zeros between, with the filters mirrored."""
    shape, (stride, padding, dilation, groups) = form
    kernel, sizes = tuple(weight.shape[2:]), tuple(shape[2:])
    spread = [(size - 1) * s + 1 for size, s in zip(g.shape[2:], stride, strict=True)]
    apart = g.new_zeros((*g.shape[:2], *spread))
    apart[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = g
    pads = []
    for k, p, d, size, now in zip(kernel, padding, dilation, sizes, spread, strict=True):
        before = d * (k - 1) - p
        pads.append((before, size + d * (k - 1) - now - before))
    images = _padded(apart, pads)
    mirrored = weight.flip(tuple(range(2, weight.ndim)))
    results = []
    for gs, ws in zip(images.chunk(groups, 1), mirrored.chunk(groups, 0), strict=True):
        left = _patches(gs, kernel, [1] * len(kernel), dilation)
        right = ws.flatten(2).permute(2, 1, 0)[None]
        sums = _array_conv_product(left, right, recipe, quantisers, (g, weight))
        results.append(sums.reshape(*sizes, *sums.shape[1:]).movedim((-2, -1), (0, 1)))
    return torch.cat(results, 1)


def _array_grad_weight(
    g: torch.Tensor,
    x: torch.Tensor,
    recipe: Recipe,
    quantisers: tuple[Quantiser | None, Quantiser | None],
    form: tuple[Sequence[int], tuple[Any, Any, Any, int]],
) -> torch.Tensor:
    """Gradient of the filters: sums over places, each with its batch."""
    shape, (stride, padding, dilation, groups) = form
    kernel = tuple(shape[2:])
    images = _padded(x, [(p, p) for p in padding])
    results = []
    for gs, xs in zip(g.chunk(groups, 1), images.chunk(groups, 1), strict=True):
        left = gs.flatten(2).permute(2, 1, 0)[None]  # (1, places, D, N)
        right = _patches(xs, kernel, stride, dilation).permute(1, 0, 3, 2)  # (taps, places, C, N)
        sums = _array_conv_product(left, right, recipe, quantisers, (g, x))[0]
        sums = sums.reshape(sums.shape[0], math.prod(kernel), -1).movedim(1, 2)
        results.append(sums.reshape(*sums.shape[:2], *kernel))
    return torch.cat(results, 0)
