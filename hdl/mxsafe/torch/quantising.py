"""Tensors of PyTorch in an MX format or NVFP4, with the bits of `mxsafe.quantize`.

Three engines give the same bits: operations of PyTorch (any device, `torch.compile`), the project's
compiled code (tensors in the memory of the CPU), and the NumPy reference.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.autograd.forward_ad import unpack_dual

import mxsafe
from mxsafe.codec import blocks, elements
from mxsafe.codec._inputs import widened
from mxsafe.codec._parts import (
    Region,
    block_lengths,
    blocks_of,
    blocks_shape,
    parts,
)
from mxsafe.codec._scales import require_tensor_scale, scale_values
from mxsafe.formats import IntFormat, MXFormat, mx_format
from mxsafe.torch import _arithmetic
from mxsafe.torch._arithmetic import FLOAT32, FLOAT64, Layout
from mxsafe.torch._engines import (
    DTYPES,
    KINDS,
    Compiled,
    Engine,
    as_numpy,
    choose_engine,
    compiled_code,
    empty,
    names_of,
    subnormals_kept,
    torch_is_exact,
)
from mxsafe.torch.tensors import QuantizedTensor, Tiles
from mxsafe.validation import require_one_of

__all__ = ["fake_quantize", "quantize"]

Clipped = Literal["pass", "zero"]
CLIPPED = ("pass", "zero")
Random: TypeAlias = "np.random.Generator | torch.Generator | int | np.ndarray | torch.Tensor"

PART = 1 << 17
"""Elements that PyTorch is best given at a time on a CPU: intermediate results stay in a cache."""


@dataclass(frozen=True, eq=False)
class Task:
    """Task for every element: the settled arguments of `quantize` for tensors of a shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    fmt: MXFormat
    block: blocks.Block
    axis: blocks.Axis
    lengths: tuple[int, ...]
    rounding: elements.Rounding
    mode: blocks.ScaleMode
    blocks: tuple[int, ...]  # along each axis

    def compiled(self, factor: float, *, fused: bool) -> Compiled:
        """Compiled code for it, for codes or for values, under a scale of the tensor."""
        return Compiled(
            compiled_code().quantizer,
            self.shape,
            self.lengths,
            KINDS[self.dtype],
            self.fmt,
            self.rounding,
            self.mode,
            factor,
            fused,
        )

    @cached_property
    def for_codes(self) -> Compiled:
        """The same for codes, without a scale of the tensor."""
        return self.compiled(1.0, fused=False)

    @cached_property
    def for_values(self) -> Compiled:
        """The same for values, without a scale of the tensor."""
        return self.compiled(1.0, fused=True)


def quantize(
    t: torch.Tensor,
    format: str | MXFormat = "mxsf",
    *,
    block: blocks.Block | None = None,
    axis: int = -1,
    rounding: elements.Rounding | Literal["even"] = "rne",
    scale_mode: blocks.ScaleMode | None = None,
    tensor_scale: float | np.float32 | None = None,
    random: Random | None = None,
    engine: Engine = "auto",
) -> QuantizedTensor:
    """Quantise a tensor to an MX format or NVFP4, with the bits of `mxsafe.quantize`.

    Parameters
    ----------
    t : Tensor of float64, float32, float16 or bfloat16
        Tensor of any shape, layout and device; never written to.
    format, block, axis, rounding, scale_mode, tensor_scale
        See `mxsafe.quantize`.
    random : optional
        Source of randomness for ``rounding="sr"``: as `mxsafe.quantize` takes, with the same words,
        or a tensor of uint32 of the shape of `t`, or a `torch.Generator` on the device of `t`,
        which gives words of its own.
    engine : {"auto", "torch", "numba", "numpy"}
        Operations of PyTorch, the compiled code (extra ``fast``), or the reference, which give the
        same bits. By default the compiled code for large tensors in the memory of the CPU where
        Numba is installed, and PyTorch else. Formats of one's own that neither can do take the
        reference, wherever the tensor is.

    Returns
    -------
    QuantizedTensor
        On the device of `t`. It has no gradient.

    Raises
    ------
    TypeError
        If `t` is not a tensor of such a dtype.
    ValueError
        If another argument is not as above.
    ImportError
        If `engine` is ``"numba"`` and Numba cannot be imported.
    """
    task = settled(t, format, block, axis, rounding, scale_mode)
    given = None if tensor_scale is None else require_tensor_scale(tensor_scale, task.fmt)
    words = None
    if random is not None or task.rounding == "sr":
        words = random_words(random, t, task.rounding)
    chosen, codes = choose_engine(engine, task.fmt, t, torch.uint8)
    if codes is not None:
        return _quantize_compiled(t, task, words, given, codes)
    with subnormals_kept(), torch.no_grad():
        if chosen == "torch":
            return _quantize_torch(t.detach(), task, words, given)
        q = _reference(t, task, words, given)
        return QuantizedTensor.from_numpy(q, dtype=t.dtype).to(t.device)


def fake_quantize(
    t: torch.Tensor,
    format: str | MXFormat = "mxsf",
    *,
    block: blocks.Block | None = None,
    axis: int = -1,
    rounding: elements.Rounding | Literal["even"] = "rne",
    scale_mode: blocks.ScaleMode | None = None,
    tensor_scale: float | np.float32 | None = None,
    random: Random | None = None,
    engine: Engine = "auto",
    clipped: Clipped = "pass",
) -> torch.Tensor:
    """Quantise a tensor and dequantise it again; gradients pass straight through.

    Parameters
    ----------
    t, format, block, axis, rounding, scale_mode, tensor_scale, random, engine
        See `quantize`.
    clipped : {"pass", "zero"}
        What the gradient of an element is whose magnitude lies above the largest of its block: that
        of the result, as for all others, or 0. With ``"zero"`` it is also 0 in blocks that are NaN.
        The scale of a block is taken for a constant.

    Returns
    -------
    Tensor, dtype and shape of `t`
        The values of ``dequantize(quantize(t, ...))``. float64 and float32 hold them exactly (NVFP4
        is rounded once to float32). In bfloat16 and float16 they are rounded once more where they
        lie below the normal numbers of the dtype; float16 overflows to Inf above 65504.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `quantize`.
    """
    task = settled(t, format, block, axis, rounding, scale_mode)
    given = None if tensor_scale is None else require_tensor_scale(tensor_scale, task.fmt)
    require_one_of("clipped", clipped, CLIPPED)
    words = None
    if random is not None or task.rounding == "sr":
        words = random_words(random, t, task.rounding)
    operands = (t, task, words, given, engine, clipped)
    if torch.compiler.is_compiling():
        return _StraightThrough.apply(*operands)
    if has_derivatives(t) or (words is not None and has_derivatives(words)):
        return _StraightThroughWithTangents.apply(*operands)
    return quantized_values(t, task, words, given, engine)


is_transformed = torch._C._functorch.is_functorch_wrapped_tensor
"""Whether a transform of `torch.func` wraps a tensor; nothing public of PyTorch says so."""


def has_derivatives(t: torch.Tensor) -> bool:
    """Whether a tensor needs gradients, or has a tangent or what else `torch.func` gives it."""
    needs_gradient = t.requires_grad and torch.is_grad_enabled()
    return needs_gradient or is_transformed(t) or unpack_dual(t).tangent is not None


def known_signature(function: Any) -> Any:
    """Keep the signature of a function, which PyTorch asks for whenever it is applied."""
    function.__signature__ = inspect.signature(function)
    return function


class _StraightThrough(torch.autograd.Function):
    """Gradients of `fake_quantize`."""

    @staticmethod
    @known_signature
    def forward(
        t: torch.Tensor,
        task: Task,
        words: torch.Tensor | None,
        given: np.float32 | None,
        engine: str,
        clipped: str,
    ) -> torch.Tensor:
        return quantized_values(t, task, words, given, engine)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        t, ctx.task, _, ctx.given, _, ctx.clipped = inputs
        if ctx.clipped == "zero":
            ctx.save_for_backward(t)
            ctx.save_for_forward(t)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _passed(ctx, gradients[0]), None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *operands: Any) -> tuple[torch.Tensor, int]:
        return each_sample(_StraightThroughWithTangents.apply, info, in_dims, operands), 0


class _StraightThroughWithTangents(_StraightThrough):
    """The same with tangents, which a compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        return _passed(ctx, tangents[0])


def _passed(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
    """Return the part of a gradient or a tangent that goes straight through."""
    if ctx.clipped == "pass":
        return gradient.view_as(gradient)
    (t,) = ctx.saved_tensors
    return torch.where(_Within.apply(t, ctx.task, ctx.given), gradient, 0.0)


class _Within(torch.autograd.Function):
    """Where magnitudes are at most the largest of their blocks, which has no gradient."""

    @staticmethod
    @known_signature
    def forward(t: torch.Tensor, task: Task, given: np.float32 | None) -> torch.Tensor:
        return _within(t, task, given)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *operands: Any) -> tuple[torch.Tensor, int]:
        return each_sample(_Within.apply, info, in_dims, operands), 0


def each_sample(function: Any, info: Any, in_dims: Any, operands: Any) -> torch.Tensor:
    """Results of the samples of `torch.vmap`, each as it would be alone: scales are its own."""
    return torch.stack(
        [
            function(
                *(
                    operand.select(axis, i) if isinstance(axis, int) else operand
                    for operand, axis in zip(operands, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
    )


def settled(
    t: torch.Tensor,
    format: str | MXFormat,
    block: blocks.Block | None,
    axis: int,
    rounding: str,
    scale_mode: str | None,
) -> Task:
    """The arguments of `quantize` as a task, or a clear error."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"t must be a torch.Tensor, not {type(t).__name__}")
    if torch.compiler.is_compiling():  # which reads no layout within an autograd function
        return _task(
            torch.strided, t.dtype, tuple(t.shape), format, block, axis, rounding, scale_mode
        )
    key = (t.layout, t.dtype, t.shape, format, block, axis, rounding, scale_mode)
    if type(block) is not tuple:  # whose items would not be told from others that equal them
        try:
            return _known_task(*key)
        except TypeError:
            pass  # what is wrong, or cannot be hashed, is looked at once more for its message
    return _task(*key)


def _task(
    layout: torch.layout,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    format: str | MXFormat,
    block: blocks.Block | None,
    axis: int,
    rounding: str,
    scale_mode: str | None,
) -> Task:
    """The same for tensors of a layout, a dtype and a shape."""
    if dtype not in DTYPES:
        raise TypeError(f"t must have dtype {names_of(DTYPES)}, not {names_of((dtype,))}")
    if layout != torch.strided:
        raise TypeError(f"t must be a dense tensor, not {layout}")
    if not sizes:
        raise ValueError("t must have rank 1 or more, not 0")
    fmt = mx_format(format)
    chosen = elements.canonical_rounding(rounding)
    mode = blocks.settled_scale_mode(scale_mode, fmt)
    shape = fmt.block if block is None else block
    axes = blocks.blocked_axes(len(sizes), shape, axis)
    lengths = block_lengths(sizes, axes)
    tiled = len(axes) == 2
    return Task(
        dtype,
        sizes,
        fmt,
        (axes[0][1], axes[1][1]) if tiled else axes[0][1],
        (-2, -1) if tiled else axes[0][0],
        lengths,
        chosen,
        mode,
        blocks_shape(sizes, lengths),
    )


_known_task = lru_cache(maxsize=1024, typed=True)(_task)


def random_words(random: Random | None, t: torch.Tensor, rounding: str) -> torch.Tensor | None:
    """One word an element, as float64, for stochastic rounding, else None; or a clear error."""
    if not _is_random(random):
        raise TypeError(
            "random must be a generator of NumPy or PyTorch, a seed, or an array or tensor of "
            f"uint32 for rounding 'sr', not {random!r}"
        )
    if rounding != "sr":
        return None
    shape = tuple(t.shape)
    if isinstance(random, torch.Generator):
        if random.device.type != t.device.type:
            raise ValueError(
                f"random must be a generator on {t.device} like t, not on {random.device}"
            )
        words = torch.randint(
            0, 1 << 32, shape, generator=random, device=t.device, dtype=torch.int64
        )
        return words.double()
    if isinstance(random, torch.Tensor):
        if random.dtype != torch.uint32:
            raise TypeError(f"random must have dtype uint32, not {names_of((random.dtype,))}")
        if random.shape != t.shape:
            raise ValueError(
                f"random must have the shape {shape} of the input, not {tuple(random.shape)}"
            )
        return random.to(t.device).double()
    drawn = elements.random_bits(random, shape)
    return torch.from_numpy(drawn.astype(np.float64)).to(t.device)


def _is_random(random: object) -> bool:
    """Whether something is a source of randomness, or a seed."""
    if isinstance(random, int | np.integer):
        return not isinstance(random, bool) and bool(random >= 0)
    sources = (np.random.Generator, torch.Generator, np.ndarray, torch.Tensor)
    return isinstance(random, sources)


def _reference(
    t: torch.Tensor,
    task: Task,
    words: torch.Tensor | None,
    given: np.float32 | None,
) -> mxsafe.QuantizedTensor:
    """Return the result of `mxsafe.quantize` for a tensor."""
    return mxsafe.quantize(
        as_numpy(t),
        task.fmt,
        block=task.block,
        axis=task.axis if isinstance(task.axis, int) else -1,
        rounding=task.rounding,
        scale_mode=task.mode,
        tensor_scale=given,
        random=None if words is None else words.cpu().numpy().astype(np.uint32),
        engine="numpy",
    )


class _Rounded(NamedTuple):
    """Tiles after rounding: magnitudes relative to the scales, scales, and their codes."""

    magnitudes: torch.Tensor
    scales: torch.Tensor
    codes: torch.Tensor
    layout: Layout


def _rounded_tiles(
    cut: torch.Tensor, task: Task, words: torch.Tensor | None, shared: torch.Tensor | None
) -> _Rounded:
    layout = FLOAT64 if cut.dtype == torch.float64 else FLOAT32
    magnitude = cut.abs()
    amax = magnitude.amax(dim=(2, 4), keepdim=True)
    if shared is None:
        codes = _arithmetic.scale_bytes(amax, task.fmt, task.mode, layout)
        scales = _arithmetic.powers(codes, 1, layout)
        magnitude = magnitude.mul_(_arithmetic.powers(codes, -1, layout))
    else:
        codes, scales = _arithmetic.scale_codes(amax.double(), task.fmt, shared.double())
        layout = FLOAT64 if task.rounding == "sr" else FLOAT32
        magnitude = _arithmetic.scaled_by_quotient(magnitude.double(), scales, layout)
    values = _arithmetic.rounded(magnitude, task.fmt.element, task.rounding, words, layout)
    return _Rounded(values, scales, codes, layout)


def _working(t: torch.Tensor, task: Task) -> torch.Tensor:
    """The tensor in the dtype of the arithmetic: float64 if need be, else float32."""
    wide = task.rounding == "sr"
    return t.to(torch.float64 if wide or t.dtype == torch.float64 else torch.float32)


def _shared(t: torch.Tensor, task: Task, given: np.float32 | None) -> torch.Tensor | None:
    """The scale of the tensor, of formats that have one."""
    if not task.fmt.tensor_scale:
        return None
    if given is not None:
        return torch.tensor(float(given), dtype=torch.float32, device=t.device)
    largest = [_arithmetic.largest_magnitude(t[region]) for region in _regions(t, task)]
    return _arithmetic.tensor_scale_of(torch.stack(largest).amax(), task.fmt)


def _regions(t: torch.Tensor, task: Task) -> Iterator[Region]:
    """Parts of a tensor: all of it on a GPU and under a compiler."""
    shape = tuple(t.shape)
    if t.device.type != "cpu" or torch.compiler.is_compiling():
        yield tuple(slice(0, size) for size in shape)
    else:
        yield from parts(shape, task.lengths, PART)


def _quantize_torch(
    t: torch.Tensor, task: Task, words: torch.Tensor | None, given: np.float32 | None
) -> QuantizedTensor:
    shared = _shared(t, task, given)
    codes = torch.empty_like(t, dtype=torch.uint8, memory_format=torch.contiguous_format)
    scales = t.new_empty(task.blocks, dtype=torch.uint8)
    element, width = task.fmt.element, task.fmt.width
    for region in _regions(t, task):
        part = _working(t[region], task)
        tiles = Tiles(tuple(part.shape), task.lengths)
        if not part.numel():
            continue
        cut = tiles.split(part)
        chosen = None if words is None else tiles.split(words[region])
        done = _rounded_tiles(cut, task, chosen, shared)
        magnitudes = _arithmetic.element_codes(done.magnitudes, element, done.layout)
        negative = torch.signbit(cut)
        if isinstance(element, IntFormat):
            signed = torch.where(negative, -magnitudes, magnitudes) & ((1 << width) - 1)
        else:
            signed = magnitudes | (negative.to(done.layout.integer) << (width - 1))
        signed = torch.where(done.codes == task.fmt.nan_scale, 0, signed)
        codes[region] = tiles.join(signed).to(torch.uint8)
        where = blocks_of(region, task.lengths)
        scales[where] = done.codes.reshape(scales[where].shape).to(torch.uint8)
    return QuantizedTensor(codes, scales, task.fmt, task.block, task.axis, shared, t.dtype)


def _quantize_compiled(
    t: torch.Tensor,
    task: Task,
    words: torch.Tensor | None,
    given: np.float32 | None,
    codes: torch.Tensor,
) -> QuantizedTensor:
    """The same by the project's compiled code."""
    scales = empty(task.blocks, torch.uint8)
    shared = _fill(t, task, words, given, scales, codes)
    return QuantizedTensor(codes, scales, task.fmt, task.block, task.axis, shared, t.dtype)


def _fill(
    t: torch.Tensor,
    task: Task,
    words: torch.Tensor | None,
    given: np.float32 | None,
    scales: torch.Tensor | None,
    out: torch.Tensor,
) -> torch.Tensor | None:
    """Fill in scales and codes, or values, by compiled code; returns the scale of the tensor."""
    if t.is_neg():
        t = t.detach().resolve_neg()
    if words is not None:
        words = torch.from_numpy(words.numpy().astype(np.uint32))
    if not task.fmt.tensor_scale:
        compiled = task.for_values if scales is None else task.for_codes
        compiled.run(t, words, scales, out)
        return None
    with subnormals_kept():
        if given is None:
            given = blocks.default_tensor_scale(as_numpy(t), task.fmt, compiled_code())
        shared = torch.tensor(given, device="cpu")
        task.compiled(float(shared), fused=scales is None).run(t, words, scales, out)
        return shared


def quantized_values(
    t: torch.Tensor,
    task: Task,
    words: torch.Tensor | None,
    given: np.float32 | None,
    engine: str,
) -> torch.Tensor:
    """Values of a tensor in a format, in its dtype and without a gradient."""
    chosen, values = choose_engine(engine, task.fmt, t, t.dtype)
    if values is not None:
        _fill(t, task, words, given, None, values)
        return values
    with subnormals_kept(), torch.no_grad():
        return _quantized_values(t.detach(), task, words, given, chosen)


def _quantized_values(
    t: torch.Tensor,
    task: Task,
    words: torch.Tensor | None,
    given: np.float32 | None,
    engine: str,
) -> torch.Tensor:
    if not t.numel():
        return t.clone()
    if engine == "torch":
        if task.fmt.tensor_scale and torch.compiler.is_compiling():
            from mxsafe.torch import _uncompiled  # which imports the compiler

            return _uncompiled.values(t, task, words, given)
        return values_by_operations(t, task, words, given)
    q = _reference(t, task, words, given)
    wide = np.float64 if t.dtype == torch.float64 else np.float32
    return torch.from_numpy(mxsafe.dequantize(q, dtype=wide)).to(t.device).to(t.dtype)


def values_by_operations(
    t: torch.Tensor, task: Task, words: torch.Tensor | None, given: np.float32 | None
) -> torch.Tensor:
    shared = _shared(t, task, given)
    regions = list(_regions(t, task))
    if len(regions) == 1:
        return _values_of(t, task, words, shared)
    values = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    for region in regions:
        chosen = None if words is None else words[region]
        values[region] = _values_of(t[region], task, chosen, shared)
    return values


def _values_of(
    t: torch.Tensor, task: Task, words: torch.Tensor | None, shared: torch.Tensor | None
) -> torch.Tensor:
    tiles = Tiles(tuple(t.shape), task.lengths)
    cut = _working(tiles.split(t), task)
    done = _rounded_tiles(cut, task, None if words is None else tiles.split(words), shared)
    magnitudes = done.magnitudes.to(done.scales.dtype).mul_(done.scales)
    values = magnitudes.copysign_(cut)
    if isinstance(task.fmt.element, IntFormat):  # two's complement has no -0
        values = torch.where(values == 0, 0.0, values)
    values = tiles.join(values)
    if t.dtype != torch.float64:
        values = values.to(torch.float32)  # as the reference, before a narrower dtype
    return values.to(t.dtype)


def _within(t: torch.Tensor, task: Task, given: np.float32 | None) -> torch.Tensor:
    """Where magnitudes are at most the largest of their blocks."""
    with subnormals_kept():
        return _compared(t, task, given)


def _compared(t: torch.Tensor, task: Task, given: np.float32 | None) -> torch.Tensor:
    if not t.numel() or not torch_is_exact(task.fmt, t):
        q = _reference(t, task, None, given)
        factor = 1.0 if q.tensor_scale is None else float(q.tensor_scale)
        limits = scale_values(q.element_scales(), q.format.scale) * factor
        within = np.abs(widened(as_numpy(t), np.float64)) <= limits * q.format.element.max_value
        return torch.from_numpy(within).to(t.device)
    part = _working(t, task)
    tiles = Tiles(tuple(part.shape), task.lengths)
    cut = tiles.split(part)
    done = _rounded_tiles(cut, replace(task, rounding="rne"), None, _shared(t, task, given))
    return tiles.join(cut.abs() <= done.scales * task.fmt.element.max_value)
