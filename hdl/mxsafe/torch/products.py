"""Products of quantised tensors with gradients that are such products too.

Each tensor is quantised in blocks along the axis that is summed over, so 1-D blocks are made from
the unquantised numbers for every product anew; tiles are made once and serve all.

Products of values here are operations of their own: a context that is still open while gradients
are made, or while a graph of a compiler runs, knows them and quantises nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
import torch.utils.checkpoint

import mxsafe
from mxsafe.codec import blocks
from mxsafe.formats import mx_format
from mxsafe.torch.quantising import each_sample, has_derivatives, known_signature
from mxsafe.torch.recipes import ARRAY, HeldHalf, Quantiser, Recipe

_LIBRARY = torch.library.Library("mxsafe", "DEF")
_LIBRARY.define("product(Tensor a, Tensor b) -> Tensor")
_LIBRARY.define(
    "convolution(Tensor x, Tensor weight, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "SymInt groups) -> Tensor"
)
_LIBRARY.define(
    "convolution_backward(Tensor g, Tensor x, Tensor weight, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, bool of_weight) -> Tensor"
)
_aten, _own = torch.ops.aten, torch.ops.mxsafe


def _plain_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (_aten.mm if a.ndim == 2 else _aten.bmm)(a, b)


def _plain_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> torch.Tensor:
    none = [0] * len(stride)
    return _aten.convolution(x, weight, None, stride, padding, dilation, False, none, groups)


def _plain_convolution_backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    of_weight: bool,
) -> torch.Tensor:
    none, mask = [0] * len(stride), [not of_weight, of_weight, False]
    results = _aten.convolution_backward(
        g, x, weight, None, stride, padding, dilation, False, none, groups, mask
    )
    return cast(torch.Tensor, results[int(of_weight)])


# A compiler opens them, for its own kernels.
_LIBRARY.impl("product", _plain_product, "CompositeImplicitAutograd")
_LIBRARY.impl("convolution", _plain_convolution, "CompositeImplicitAutograd")
_LIBRARY.impl("convolution_backward", _plain_convolution_backward, "CompositeImplicitAutograd")

Pair = tuple[Quantiser | None, Quantiser | None]
Operand = tuple[torch.Tensor, Quantiser | None]


def matmul(a: torch.Tensor, b: torch.Tensor, recipe: Recipe, quantisers: Pair) -> torch.Tensor:
    """Product as `torch.matmul`, with the quantisers of `a` and `b`."""
    if a.ndim == 0 or b.ndim == 0:
        name, rank = ("a", a.ndim) if a.ndim == 0 else ("b", b.ndim)
        raise ValueError(f"{name} must have rank 1 or more in a product, not {rank}")
    dtype = _dtype_of_product((a, quantisers[0]), (b, quantisers[1]), recipe)
    a, b = (narrowed(t, recipe) for t in (a, b))
    vector_a, vector_b = a.ndim == 1, b.ndim == 1
    a = a.unsqueeze(0) if vector_a else a
    b = b.unsqueeze(1) if vector_b else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"b must have the {a.shape[-1]} rows that a has columns, not {b.shape[-2]}"
        )
    if b.ndim == 2:  # all rows of a batch are rows of one matrix
        rows = a.shape[:-1]
        operands = (a.reshape(-1, a.shape[-1]), quantisers[0]), (b, quantisers[1])
        result = _multiplied(_MATRICES, *operands, recipe, dtype)
        result = result.reshape(*rows, b.shape[-1])
    else:
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (a, b))
        operands = (a, quantisers[0]), (b, quantisers[1])
        result = _multiplied(_MATRICES, *operands, recipe, dtype)
        result = result.reshape(*batch, *result.shape[-2:])
    if vector_b:
        result = result.squeeze(-1)
    return result.squeeze(-2 + vector_b) if vector_a else result


def narrowed(t: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    """An operand as autocast gives it to a product, where that is on: float64 stays."""
    return t if recipe.autocast is None or t.dtype == torch.float64 else t.to(recipe.autocast)


def _dtype_of_product(a: Operand, b: Operand, recipe: Recipe) -> torch.dtype:
    """The dtype that a product is rounded to, from that of the numbers themselves."""
    kinds = (torch.float16 if isinstance(q, HeldHalf) else t.dtype for t, q in (a, b))
    return torch.promote_types(
        *(narrowed(torch.empty(0, dtype=kind), recipe).dtype for kind in kinds)
    )


def _settled(
    operand: Operand, values: Callable[[torch.Tensor, Quantiser], torch.Tensor], recipe: Recipe
) -> Operand:
    """Tiles are quantised here, once for a product and its gradients, and straight through."""
    t, quantiser = operand
    if quantiser is None or not quantiser.tiled or recipe.arithmetic in ARRAY:
        return operand
    t = values(t, quantiser)
    # Its gradient is rounded to the dtype of the tensor only once.
    return (t.double() if recipe.arithmetic == "float64" else t), None


def _multiplied(
    form: Any, a: Operand, b: Operand, recipe: Recipe, dtype: torch.dtype
) -> torch.Tensor:
    """Return a form's product of two operands, whose gradients and tangents are products too."""
    a, of_a = _settled(a, form.values_a, recipe)
    b, of_b = _settled(b, form.values_b, recipe)
    operands = (a, b, form, recipe, (of_a, of_b), dtype)
    if torch.compiler.is_compiling():
        return _Product.apply(*operands)
    if has_derivatives(a) or has_derivatives(b):
        return _ProductWithTangents.apply(*operands)
    with torch.no_grad():
        return _Product.forward(*operands)


class _Product(torch.autograd.Function):
    """A product of two tensors, of one of the forms below.

    A form multiplies values, says in which blocks each operand is quantised, and names the products
    that are its gradients.
    """

    @staticmethod
    @known_signature
    def forward(
        a: torch.Tensor,
        b: torch.Tensor,
        form: Any,
        recipe: Recipe,
        quantisers: Pair,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        of_a, of_b = quantisers
        if recipe.arithmetic in ARRAY:
            return form.on_array(a, b, recipe, quantisers).to(dtype)
        a = a if of_a is None else form.values_a(a, of_a)
        b = b if of_b is None else form.values_b(b, of_b)
        a, b = _alike(recipe, a, b)
        with without_autocast(a):
            return form.product(a, b).to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        a, b, ctx.form, ctx.recipe, ctx.quantisers, ctx.dtype = inputs
        ctx.dtypes = a.dtype, b.dtype
        if torch.compiler.is_compiling():
            ctx.save_for_backward(a, b)
        else:
            # Checkpoints compare the shapes of what is saved: this one is missing, or another,
            # where they compute again without the context.
            ctx.save_for_backward(ctx.recipe.mark, a, b)
            ctx.save_for_forward(a, b)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        form, recipe = ctx.form, ctx.recipe
        tensors = _recomputed(ctx, recipe)
        a, b = zip(tensors, ctx.quantisers, strict=True)
        g = _settled((gradients[0], recipe.gradients), form.values_of_result, recipe)
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            product, left, right = form.gradient_a(g, a, b)
            grad_a = _multiplied(product, left, right, recipe, ctx.dtypes[0])
        if ctx.needs_input_grad[1]:
            product, left, right = form.gradient_b(g, a, b)
            grad_b = _multiplied(product, left, right, recipe, ctx.dtypes[1])
        return grad_a, grad_b, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *operands: Any) -> tuple[torch.Tensor, int]:
        return each_sample(_ProductWithTangents.apply, info, in_dims, operands), 0


class _ProductWithTangents(_Product):
    """The same with tangents, which a compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        """The sum of the products of either tangent, which is quantised as gradients are."""
        a, b = zip(ctx.saved_tensors[-2:], ctx.quantisers, strict=True)
        of_tangent = ctx.recipe.gradients
        terms = []
        if tangents[0] is not None:
            terms.append(((tangents[0], of_tangent), b))
        if tangents[1] is not None:
            terms.append((a, (tangents[1], of_tangent)))
        results = [_multiplied(ctx.form, *pair, ctx.recipe, ctx.dtype) for pair in terms]
        return sum(results[1:], results[0])


def _recomputed(ctx: Any, recipe: Recipe) -> tuple[torch.Tensor, torch.Tensor]:
    """The saved operands, which a checkpoint computes again.

    Raises
    ------
    RuntimeError
        If a checkpoint computed them again without the context.
    """
    advice = (
        "what a checkpoint computes again must be in the context of its forward pass: "
        "checkpoint(context(function), ...) with a microscaling context"
    )
    try:
        *mark, a, b = ctx.saved_tensors
    except torch.utils.checkpoint.CheckpointError as error:
        error.add_note(advice)
        raise
    if mark and mark[0].shape != recipe.mark.shape:
        raise RuntimeError(advice)
    return a, b


def _alike(recipe: Recipe, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Operands in one dtype."""
    dtype = torch.promote_types(a.dtype, b.dtype)
    dtype = torch.float64 if recipe.arithmetic == "float64" else dtype
    return a.to(dtype), b.to(dtype)


def without_autocast(t: torch.Tensor) -> Any:
    """A context in which autocast changes no operand any more."""
    if autocasts(t.device.type):
        return torch.autocast(t.device.type, enabled=False)
    return nullcontext()


def autocasts(device_type: str) -> bool:
    """Whether autocast is on for tensors of a device."""
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


class _Matrices:
    """Two matrices, or batches of them."""

    @staticmethod
    def values_a(t: torch.Tensor, quantiser: Quantiser) -> torch.Tensor:
        return quantiser.values(t, -1)

    @staticmethod
    def values_b(t: torch.Tensor, quantiser: Quantiser) -> torch.Tensor:
        """Values in the layout of `t`, which sums follow: that of a weight is as modules hold it.

        Random words are drawn in the order of elements.
        """
        if quantiser.rounding == "sr" or not t.mT.is_contiguous():
            return quantiser.values(t, -2)
        if isinstance(quantiser.block, tuple):
            quantiser = replace(quantiser, block=quantiser.block[::-1])
        return quantiser.values(t.mT, -1).mT

    values_of_result = values_a

    @staticmethod
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _own.product(a, b)

    @staticmethod
    def on_array(
        a: torch.Tensor,
        b: torch.Tensor,
        recipe: Recipe,
        quantisers: Pair,
    ) -> torch.Tensor:
        return _array_product(a, b, recipe, quantisers)

    def gradient_a(self, g: Operand, a: Operand, b: Operand) -> tuple[Any, Operand, Operand]:
        return self, g, (b[0].transpose(-1, -2), b[1])

    def gradient_b(self, g: Operand, a: Operand, b: Operand) -> tuple[Any, Operand, Operand]:
        return self, (a[0].transpose(-1, -2), a[1]), g


_MATRICES = _Matrices()


# The array, by `mxsafe.matmul`.


def _array_product(
    a: torch.Tensor,
    b: torch.Tensor,
    recipe: Recipe,
    quantisers: Pair,
) -> torch.Tensor:
    """The same as the array computes it, in float32."""
    many = math.prod(a.shape[:-2])
    left, right = (t.reshape(many, *t.shape[-2:]) for t in (a, b.transpose(-1, -2)))
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
    return blocks.default_tensor_scale(_array(t), mx_format(quantiser.format))


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
    return _joined(q)


def _joined(q: mxsafe.QuantizedTensor) -> mxsafe.QuantizedTensor:
    """The matrix of a tensor of shape (O, T, R, C) in tiles, see `_matrix`."""
    tile = cast(tuple[int, int], q.block)
    outer, many, rows, columns = q.scales.shape
    missing = rows * tile[0] - q.shape[2], columns * tile[1] - q.shape[3]
    codes = np.pad(q.codes, ((0, 0), (0, 0), (0, missing[0]), (0, missing[1])))
    codes = codes.transpose(0, 2, 1, 3).reshape(outer * rows * tile[0], many * columns * tile[1])
    scales = q.scales.transpose(0, 2, 1, 3).reshape(outer * rows, many * columns)
    return mxsafe.QuantizedTensor(codes, scales, q.format, tile, (-2, -1), q.tensor_scale)


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


Geometry = tuple[Sequence[int], Sequence[int], Sequence[int], int]


def convolution(
    x: torch.Tensor, weight: torch.Tensor, recipe: Recipe, quantisers: Pair, geometry: Geometry
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
    dtype = _dtype_of_product((x, quantisers[0]), (weight, quantisers[1]), recipe)
    x, weight = (narrowed(t, recipe) for t in (x, weight))
    operands = (x, quantisers[0]), (weight, quantisers[1])
    return _multiplied(_Images(geometry), *operands, recipe, dtype)


def _grouped(
    t: torch.Tensor, quantiser: Quantiser, groups: int, axes: tuple[int, int, int]
) -> torch.Tensor:
    """Values of a tensor whose axis ``axes[0]`` holds groups: see `convolution`.

    ``axes[1]`` is then the axis of 1-D blocks, and ``axes[2]`` the other one of tiles, once groups
    have an axis of their own.
    """
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


@dataclass(frozen=True)
class _Convolved:
    """A convolution, or a gradient of one; `axes` are those of both operands and the result."""

    geometry: Geometry
    shape: torch.Size | None = None
    """Of a gradient."""
    axes: ClassVar[tuple[tuple[int, int, int], ...]]

    def values_a(self, t: torch.Tensor, quantiser: Quantiser) -> torch.Tensor:
        return _grouped(t, quantiser, self.geometry[3], self.axes[0])

    def values_b(self, t: torch.Tensor, quantiser: Quantiser) -> torch.Tensor:
        return _grouped(t, quantiser, self.geometry[3], self.axes[1])

    def values_of_result(self, t: torch.Tensor, quantiser: Quantiser) -> torch.Tensor:
        return _grouped(t, quantiser, self.geometry[3], self.axes[2])


class _Images(_Convolved):
    """The convolution of images with filters."""

    axes = _CHANNELS, _INPUTS, _CHANNELS

    def product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return _own.convolution(x, weight, *self.geometry)

    def on_array(
        self, x: torch.Tensor, weight: torch.Tensor, recipe: Recipe, quantisers: Pair
    ) -> torch.Tensor:
        return _array_convolution(x, weight, recipe, quantisers, self.geometry)

    def gradient_a(self, g: Operand, x: Operand, weight: Operand) -> tuple[Any, Operand, Operand]:
        return _OfImages(self.geometry, x[0].shape), g, weight

    def gradient_b(self, g: Operand, x: Operand, weight: Operand) -> tuple[Any, Operand, Operand]:
        return _OfFilters(self.geometry, weight[0].shape), g, x


class _OfImages(_Convolved):
    """The gradient of the images, of that of the result and the filters."""

    axes = _CHANNELS, _OUTPUTS, _CHANNELS

    def product(self, g: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x = g.new_empty(self.shape)  # its shape counts
        return _own.convolution_backward(g, x, weight, *self.geometry, False)

    def on_array(
        self, g: torch.Tensor, weight: torch.Tensor, recipe: Recipe, quantisers: Pair
    ) -> torch.Tensor:
        return _array_grad_input(g, weight, recipe, quantisers, (self.shape, self.geometry))

    def gradient_a(self, u: Operand, g: Operand, weight: Operand) -> tuple[Any, Operand, Operand]:
        return _Images(self.geometry), u, weight

    def gradient_b(self, u: Operand, g: Operand, weight: Operand) -> tuple[Any, Operand, Operand]:
        return _OfFilters(self.geometry, weight[0].shape), g, u


class _OfFilters(_Convolved):
    """The gradient of the filters, of that of the result and the images."""

    axes = _BATCH, _BATCH, _INPUTS

    def product(self, g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        weight = g.new_empty(self.shape)  # its shape counts
        return _own.convolution_backward(g, x, weight, *self.geometry, True)

    def on_array(
        self, g: torch.Tensor, x: torch.Tensor, recipe: Recipe, quantisers: Pair
    ) -> torch.Tensor:
        return _array_grad_weight(g, x, recipe, quantisers, (self.shape, self.geometry))

    def gradient_a(self, v: Operand, g: Operand, x: Operand) -> tuple[Any, Operand, Operand]:
        return _Images(self.geometry), x, v

    def gradient_b(self, v: Operand, g: Operand, x: Operand) -> tuple[Any, Operand, Operand]:
        return _OfImages(self.geometry, x[0].shape), g, v


# Convolutions on the array: a row of an operand is a place of the result in one image, and the
# columns are taps of the filter, each with its channels, filled up to whole blocks.


def _patches(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> torch.Tensor:
    """Return the padded images that each tap sees: shape (places, taps, N, C)."""
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


def _by_places(
    images: torch.Tensor,
    filters: Sequence[Any],
    windows: tuple[Sequence[int], Sequence[int], Sequence[int]],
    product: Callable[[torch.Tensor, Any], torch.Tensor],
) -> torch.Tensor:
    """Convolution of padded images.

    Parameters
    ----------
    images : Tensor of shape (N, C, ...)
    filters : sequence
        Those of each group, whatever `product` takes.
    windows : tuple
        Kernel, stride and dilation of every dimension.
    product : callable
        Takes the patches of a group and its filters; its result has the shape (places, N, D).
    """
    kernel, stride, dilation = windows
    places = tuple(
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(images.shape[2:], kernel, stride, dilation, strict=True)
    )
    results = []
    for part, own in zip(images.chunk(len(filters), 1), filters, strict=True):
        sums = product(_patches(part, *windows), own)
        results.append(sums.reshape(*places, *sums.shape[1:]).movedim((-2, -1), (0, 1)))
    return torch.cat(results, 1)


def _array_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    recipe: Recipe,
    quantisers: Pair,
    geometry: Geometry,
) -> torch.Tensor:
    stride, padding, dilation, groups = geometry

    def product(left: torch.Tensor, ws: torch.Tensor) -> torch.Tensor:
        right = ws.flatten(2).permute(2, 0, 1)[None]
        return _array_conv_product(left, right, recipe, quantisers, (x, weight))

    images = _padded(x, [(p, p) for p in padding])
    windows = weight.shape[2:], stride, dilation
    return _by_places(images, weight.chunk(groups, 0), windows, product)


def _array_conv_product(
    left: torch.Tensor,
    right: torch.Tensor,
    recipe: Recipe,
    quantisers: Pair,
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
    quantisers: Pair,
    form: tuple[Any, Geometry],
) -> torch.Tensor:
    """Gradient of the images: a convolution of `g`, zeros between, with the filters mirrored."""
    shape, (stride, padding, dilation, groups) = form
    kernel = weight.shape[2:]
    spread = [(size - 1) * s + 1 for size, s in zip(g.shape[2:], stride, strict=True)]
    apart = g.new_zeros((*g.shape[:2], *spread))
    apart[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = g
    pads = []
    for k, p, d, size, now in zip(kernel, padding, dilation, shape[2:], spread, strict=True):
        before = d * (k - 1) - p
        pads.append((before, size + d * (k - 1) - now - before))

    def product(left: torch.Tensor, ws: torch.Tensor) -> torch.Tensor:
        right = ws.flatten(2).permute(2, 1, 0)[None]
        return _array_conv_product(left, right, recipe, quantisers, (g, weight))

    mirrored = weight.flip(tuple(range(2, weight.ndim))).chunk(groups, 0)
    return _by_places(
        _padded(apart, pads), mirrored, (kernel, [1] * len(kernel), dilation), product
    )


def _array_grad_weight(
    g: torch.Tensor,
    x: torch.Tensor,
    recipe: Recipe,
    quantisers: Pair,
    form: tuple[Any, Geometry],
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


def product_of_codes(
    x: torch.Tensor, weight: mxsafe.QuantizedTensor, recipe: Recipe, geometry: Geometry | None
) -> torch.Tensor:
    """Product of activations and the codes of a weight as the array computes it, in float32.

    Parameters
    ----------
    x : Tensor
        Activations, without gradients.
    weight : mxsafe.QuantizedTensor
        Of shape (outputs, inputs), or (groups, positions ..., outputs, inputs).
    recipe : Recipe
        Of an arithmetic of the array.
    geometry : tuple, optional
        Stride, padding, dilation and groups of a convolution.

    Raises
    ------
    RuntimeError
        If `x` needs a gradient.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        raise RuntimeError(
            f"arithmetic must be 'float' or 'float64' for gradients, not {recipe.arithmetic!r}: "
            "take torch.no_grad()"
        )
    outputs, inputs = weight.shape[-2:]
    tile = weight.block if isinstance(weight.block, tuple) else (1, weight.block)
    groups = [
        _joined(replace(weight, codes=c, scales=s, block=tile, axis=(-2, -1)))
        for c, s in zip(*map(_by_group, (weight.codes, weight.scales)), strict=True)
    ]
    activations = recipe.activations
    shared = _tensor_scale(x, activations)
    if geometry is None:
        if x.ndim == 0 or x.shape[-1] != inputs:
            raise ValueError(
                f"input must have {inputs} numbers along its last axis, not shape {tuple(x.shape)}"
            )
        rows = x.reshape(-1, inputs)
        sums = _array_matmul(_matrix(rows[None, None], activations, shared), groups[0], recipe)
        return sums[: len(rows), :outputs].reshape(*x.shape[:-1], outputs)

    def product(patches: torch.Tensor, group: mxsafe.QuantizedTensor) -> torch.Tensor:
        sums = _array_matmul(_matrix(patches, activations, shared), group, recipe)
        whole = sums.reshape(len(patches), -1, sums.shape[-1])
        return whole[:, : patches.shape[2], :outputs]

    kernel = weight.shape[1:-2]
    batch = x if x.ndim > len(kernel) + 1 else x[None]
    padded = _padded(batch, [(p, p) for p in geometry[1]])
    result = _by_places(padded, groups, (kernel, geometry[0], geometry[2]), product)
    return result if batch is x else result[0]


def _by_group(array: np.ndarray) -> np.ndarray:
    """Codes or scales of a weight as (groups, 1, positions, outputs, inputs)."""
    groups = len(array) if array.ndim > 2 else 1
    return array.reshape(groups, 1, -1, *array.shape[-2:])
