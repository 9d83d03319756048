"""Modules that hold weights as codes and scales, and compute through their formats.

A module here is one of PyTorch's whose class was changed in place: its `QuantizedWeight` stands
where its parameter was, and everything else is as before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

import mxsafe
from mxsafe.formats import MXFormat, mx_format
from mxsafe.torch import _functions, products
from mxsafe.torch._packing import packed, unpacked
from mxsafe.torch.context import microscaling
from mxsafe.torch.quantising import quantize
from mxsafe.torch.recipes import ARRAY, Arithmetic, HeldHalf, Quantiser, Recipe
from mxsafe.torch.tensors import QuantizedTensor
from mxsafe.validation import shown

_PRODUCTS = {"linear": _functions.linear} | {
    f"conv{rank}d": _functions.convolution(function, rank)
    for rank, function in enumerate(_functions.CONVOLUTIONS, 1)
}
"""Functions of PyTorch as contexts replace them."""

_AUTOCASTS = (None, torch.bfloat16, torch.float16)


class QuantizedWeight(torch.nn.Module):
    """A weight as buffers: codes without gaps along the last axis, scales, a tensor scale.

    Moving a module moves them; a dtype given to a module is that of `dequantize`.

    Parameters
    ----------
    q : QuantizedTensor
        The weight.
    """

    tensor_scale: torch.Tensor | None

    def __init__(self, q: QuantizedTensor) -> None:
        super().__init__()
        self.register_buffer("codes", packed(q.codes, q.format.width))
        self.register_buffer("scales", q.scales.contiguous())
        self.register_buffer("tensor_scale", q.tensor_scale)
        self.format, self.block, self.axis, self.dtype = q.format, q.block, q.axis, q.dtype
        self.shape = q.shape

    @classmethod
    def of_parts(
        cls,
        fmt: MXFormat,
        shape: tuple[int, ...],
        blocks: tuple[Any, Any],
        parts: tuple[torch.Tensor, torch.Tensor],
        tensor_scale: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> QuantizedWeight:
        """A weight of the buffers of another, or a clear error if they do not belong together.

        Parameters
        ----------
        fmt, shape
            Of the weight.
        blocks : tuple
            Its block, and the axis of that.
        parts : pair of Tensor of uint8
            Codes without gaps, and scales.
        tensor_scale : Tensor of float32, optional
            Its scale.
        dtype : torch.dtype
            Of its numbers.

        Raises
        ------
        TypeError, ValueError
            If they do not.
        """
        block, axis = blocks
        if axis != ((-2, -1) if isinstance(block, tuple) else -1):
            raise ValueError(f"axis must be the last of block {block}, not {axis}")
        if not isinstance(shape, tuple) or not shape:
            raise ValueError(f"shape must have an axis, not {shown(shape)}")
        for name, part in zip(("codes", "scales"), parts, strict=True):
            if part.dtype != torch.uint8:
                raise TypeError(f"{name} must be of uint8, not {part.dtype}")
        if tensor_scale is not None and (tensor_scale.dtype, tensor_scale.ndim) != (
            torch.float32,
            0,
        ):
            raise ValueError(
                f"tensor_scale must be one number of float32, not {tensor_scale.dtype} of shape "
                f"{tuple(tensor_scale.shape)}"
            )
        codes = mxsafe.packing.unpack_codes(parts[0].numpy(), fmt.width, shape[-1])
        shared = None if tensor_scale is None else np.float32(tensor_scale.item())
        q = mxsafe.QuantizedTensor(codes.reshape(shape), parts[1].numpy(), fmt, block, axis, shared)
        return cls(QuantizedTensor.from_numpy(q, dtype=dtype))

    @property
    def device(self) -> torch.device:
        """Where codes and scales are."""
        return self.codes.device

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return sum(buffer.nbytes for buffer in self.buffers())

    def tensor(self) -> QuantizedTensor:
        """The weight, a byte a code."""
        codes = unpacked(self.codes, self.format.width, self.shape[-1])
        return self._tensor(codes, self.scales, self.block)

    def _tensor(self, codes: torch.Tensor, scales: torch.Tensor, block: Any) -> QuantizedTensor:
        axis = (-2, -1) if isinstance(block, tuple) else -1
        return QuantizedTensor(
            codes, scales, self.format, block, axis, self.tensor_scale, self.dtype
        )

    def rows(self, indices: torch.Tensor) -> QuantizedTensor:
        """Rows of a matrix, whose scales are those of their tiles if it has tiles."""
        height, width = self.block if isinstance(self.block, tuple) else (1, self.block)
        flat = indices.flatten()
        codes = unpacked(self.codes.index_select(0, flat), self.format.width, self.shape[-1])
        scales = self.scales.index_select(0, flat if height == 1 else flat // height)
        codes, scales = (part.reshape(*indices.shape, part.shape[-1]) for part in (codes, scales))
        return self._tensor(codes, scales, width)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The numbers as floats, see `mxsafe.torch.dequantize`."""
        return self.tensor().dequantize(dtype)

    def about(self) -> dict[str, Any]:
        """Description of codes and scales, in the words of `mxsafe.save`."""
        return {
            "format": self.format.name,
            "shape": list(self.shape),
            "block": list(self.block) if isinstance(self.block, tuple) else self.block,
            "axis": list(self.axis) if isinstance(self.axis, tuple) else self.axis,
        }

    def _apply(self, fn: Any, recurse: bool = True) -> QuantizedWeight:
        shared = self.tensor_scale
        super()._apply(fn, recurse)
        if shared is not None:  # a float32, whatever the dtype of the module
            self.tensor_scale = shared.to(self.codes.device)
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        return self

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        words = f"{self.format.name}, {size}, block={self.block}, {self.nbytes:,} bytes"
        return f"QuantizedWeight({words})"

    @classmethod
    def __torch_function__(cls, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Refuse functions of PyTorch; its fused layers look for this, and step aside."""
        name = getattr(function, "__name__", function)
        raise TypeError(f"weight must be a tensor for {name}: take dequantize() of it")


def quantised_weight(t: torch.Tensor, quantiser: Quantiser) -> QuantizedWeight:
    """A weight whose 1-D blocks lie along its last axis, or whose tiles are of its last two."""
    q = quantize(
        t.detach(),
        quantiser.format,
        block=quantiser.block,
        rounding=quantiser.rounding,
        scale_mode=quantiser.scale_mode,
        random=quantiser.random,
    )
    return QuantizedWeight(q)


def about_quantiser(quantiser: Quantiser | None) -> dict[str, Any] | None:
    """A quantiser of activations as JSON has it."""
    if quantiser is None:
        return None
    fmt = mx_format(quantiser.format)
    block = fmt.block if quantiser.block is None else quantiser.block
    return {
        "format": fmt.name,
        "block": list(block) if isinstance(block, tuple) else block,
        "rounding": quantiser.rounding,
        "scale_mode": quantiser.scale_mode,
    }


class Quantised(torch.nn.Module):
    """Base of modules with quantised weights.

    Attributes
    ----------
    places : tuple of str
        Names of the parameters that are weights.
    activations : Quantiser or None
        How activations are quantised before a product.
    arithmetic : str
        How products are made, see `mxsafe.torch.microscaling`.
    """

    places: ClassVar[tuple[str, ...]] = ("weight",)
    activations: Quantiser | None
    arithmetic: Arithmetic

    @staticmethod
    def stored(module: torch.nn.Module, weight: torch.Tensor) -> torch.Tensor:
        """A weight as it is held: what products sum over lies last."""
        return weight

    @staticmethod
    def tile(block: Any) -> Any:
        """The block of a quantiser, for a weight as it is held."""
        return block

    def weights(self) -> Iterator[tuple[str, QuantizedWeight]]:
        """Names and weights."""
        for name in self.places:
            if isinstance(self._modules.get(name), QuantizedWeight):
                yield name, self._modules[name]

    def about(self) -> dict[str, Any]:
        """Description of the module for files."""
        return {
            "weights": {name: weight.about() for name, weight in self.weights()},
            "activations": about_quantiser(self.activations),
            "arithmetic": self.arithmetic,
        }

    def get_extra_state(self) -> torch.Tensor:
        """Description of the module as text, for a state dict."""
        return torch.tensor(list(json.dumps(self.about()).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Refuse the state of a module that holds something else.

        Raises
        ------
        ValueError
            If formats, blocks or shapes are others.
        """
        own = self.about()
        try:
            theirs = json.loads(bytes(state.tolist()))
        except (AttributeError, TypeError, ValueError):
            raise ValueError(
                f"state must be that of a quantised module, not {shown(state)}"
            ) from None
        if theirs != own:
            raise ValueError(f"state must be of a module with {own}, not with {theirs}")

    def require_state(self, state: Mapping[str, Any], prefix: str) -> None:
        """Refuse a state dict whose parts of this module are those of another.

        Parameters
        ----------
        state : mapping of str to Tensor
            The state dict.
        prefix : str
            What names of the module begin with.

        Raises
        ------
        TypeError, ValueError
            If a part is of another dtype, or formats, blocks or shapes are others.
        """
        own = f"{prefix}_extra_state"
        if own in state:
            self.set_extra_state(state[own])
        for place, weight in self.weights():
            for name, buffer in weight.named_buffers():
                key = f"{prefix}{place}.{name}"
                found = state.get(key, buffer)
                if getattr(found, "dtype", None) != buffer.dtype:
                    kind = getattr(found, "dtype", None) or shown(found)
                    raise TypeError(f"{key} must be a tensor of {buffer.dtype}, not {kind}")

    def extra_repr(self) -> str:
        """Arguments of the module, and how activations are quantised."""
        activations = about_quantiser(self.activations)
        words = "float" if activations is None else activations["format"]
        if activations is not None:
            words += f" in blocks of {activations['block']}"
        parts = [super().extra_repr(), f"activations={words}"]
        if self.arithmetic != "float":
            parts.append(f"arithmetic={self.arithmetic}")
        return ", ".join(part for part in parts if part)

    def _product(self, name: str, input: torch.Tensor, *geometry: Any) -> Any:
        """The product of a function of PyTorch, and its bias added, as in a context."""
        recipe = self._recipe(input)
        dtype = torch.promote_types(
            *(products.narrowed(torch.empty(0, dtype=t), recipe).dtype for t in self._dtypes(input))
        )
        if recipe.arithmetic in ARRAY:
            q = self.weight.tensor().numpy()
            result = products.product_of_codes(
                products.narrowed(input, recipe), q, recipe, geometry or None
            )
        else:
            result = _PRODUCTS[name](recipe, input, self._values(), None, *geometry)
        result = result.to(dtype)
        if self.bias is None:
            return result
        shape = (-1, *(1,) * (len(geometry[0]) if geometry else 0))
        return result + products.narrowed(self.bias, recipe).reshape(shape)

    def _dtypes(self, input: torch.Tensor) -> tuple[torch.dtype, torch.dtype]:
        return input.dtype, next(self.weights())[1].dtype

    def _recipe(self, input: torch.Tensor) -> Recipe:
        kind = input.device.type
        autocast = torch.get_autocast_dtype(kind) if products.autocasts(kind) else None
        if autocast not in self.recipes:
            raise TypeError(f"autocast must be to bfloat16 or float16, not {autocast}")
        return self.recipes[autocast]

    def _values(self) -> torch.Tensor:
        return _values_of(self.weight)


class QuantizedLinear(Quantised, torch.nn.Linear):
    """A `torch.nn.Linear` with a quantised weight."""

    @staticmethod
    def tile(block: Any) -> Any:
        """Tiles are of the second operand of a product, which the weight is the transpose of."""
        return block[::-1] if isinstance(block, tuple) else block

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As in a context."""
        return self._product("linear", input)


class _QuantizedConv(Quantised):
    """Convolutions; filters are held as (groups, positions ..., outputs, inputs)."""

    @staticmethod
    def stored(module: torch.nn.Module, weight: torch.Tensor) -> torch.Tensor:
        groups = module.groups
        return weight.unflatten(0, (groups, weight.shape[0] // groups)).movedim((1, 2), (-2, -1))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As in a context."""
        padding = self.padding
        if self.padding_mode != "zeros" or self.arithmetic in ARRAY:
            sides = self._reversed_padding_repeated_twice
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            input = torch.nn.functional.pad(input, sides, mode=mode)
            padding = (0,) * len(self.stride)
        geometry = (self.stride, padding, self.dilation, self.groups)
        return self._product(f"conv{len(self.stride)}d", input, *geometry)

    def _values(self) -> torch.Tensor:
        return super()._values().movedim((-2, -1), (1, 2)).flatten(0, 1).contiguous()


class QuantizedConv1d(_QuantizedConv, torch.nn.Conv1d):
    """A `torch.nn.Conv1d` with a quantised weight."""


class QuantizedConv2d(_QuantizedConv, torch.nn.Conv2d):
    """A `torch.nn.Conv2d` with a quantised weight."""


class QuantizedConv3d(_QuantizedConv, torch.nn.Conv3d):
    """A `torch.nn.Conv3d` with a quantised weight."""


class QuantizedEmbedding(Quantised, torch.nn.Embedding):
    """A `torch.nn.Embedding` with a quantised weight, which has no activations."""

    tile = QuantizedLinear.tile

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Values of rows."""
        return self.weight.rows(input).dequantize()


class QuantizedMultiheadAttention(Quantised, torch.nn.MultiheadAttention):
    """A `torch.nn.MultiheadAttention` whose projections have quantised weights.

    All its products are quantised as in a context, those of queries, keys and values too, and made
    in its arithmetic.
    """

    places = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")

    tile = QuantizedLinear.tile

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As in a context."""
        plain = _with_values(self, torch.nn.MultiheadAttention)
        plain._modules["out_proj"] = _with_values(self.out_proj, NonDynamicallyQuantizableLinear)
        dtype = next(self.weights())[1].dtype
        with microscaling(
            None,
            activations=self.activations,
            weights=HeldHalf() if dtype == torch.float16 else None,
            arithmetic=self.arithmetic,
        ):
            return torch.nn.MultiheadAttention.forward(plain, *args, **kwargs)


def _values_of(weight: QuantizedWeight) -> torch.Tensor:
    """Values of a weight, in float32 if it is one of float16, as in a context."""
    return weight.dequantize(torch.float32 if weight.dtype == torch.float16 else None)


def _with_values(module: Any, kind: Any) -> Any:
    """A module of PyTorch with the values of a quantised one's weights."""
    plain = kind.__new__(kind)
    values = {name: _values_of(weight) for name, weight in module.weights()}
    plain.__dict__ = {
        **module.__dict__,
        "_parameters": {**module._parameters, **values},
        "_modules": {n: m for n, m in module._modules.items() if n not in values},
    }
    return plain


KINDS: Mapping[type[torch.nn.Module], type[Quantised]] = {
    torch.nn.Linear: QuantizedLinear,
    NonDynamicallyQuantizableLinear: QuantizedLinear,
    torch.nn.Conv1d: QuantizedConv1d,
    torch.nn.Conv2d: QuantizedConv2d,
    torch.nn.Conv3d: QuantizedConv3d,
    torch.nn.Embedding: QuantizedEmbedding,
    torch.nn.MultiheadAttention: QuantizedMultiheadAttention,
}
"""Classes of modules, and what they become."""


def require_arithmetic(
    kind: type[Quantised],
    weights: Iterable[QuantizedWeight],
    activations: Quantiser | None,
    arithmetic: Arithmetic,
) -> None:
    """Refuse what the array cannot multiply."""
    if arithmetic not in ARRAY or kind is QuantizedEmbedding:
        return
    if kind is QuantizedMultiheadAttention:
        raise ValueError(
            f"arithmetic must be 'float' or 'float64' for MultiheadAttention, not {arithmetic!r}"
        )
    if activations is None:
        raise ValueError(f"activations must have a format for arithmetic {arithmetic!r}, not None")
    own = mx_format(activations.format).block if activations.block is None else activations.block
    for weight in weights:
        held = weight.block
        if held != own or (isinstance(own, tuple) and own[0] != own[1]):
            raise ValueError(
                "block must be one length, or one square tile, of activations and weights for "
                f"arithmetic {arithmetic!r}, not {own} and {held}"
            )


def require_states(
    module: torch.nn.Module, state: Mapping[str, Any], prefix: str, *others: Any
) -> None:
    """Refuse a state dict for a module and all within, before any of them changes.

    It is what `torch.nn.Module.register_load_state_dict_pre_hook` takes: PyTorch loads a module
    before those within, so that of a model checks all of it.
    """
    for name, part in module.named_modules():
        if isinstance(part, Quantised):
            part.require_state(state, f"{prefix}{name}." if name else prefix)


def become(
    module: torch.nn.Module,
    weights: Mapping[str, QuantizedWeight],
    activations: Quantiser | None,
    arithmetic: Arithmetic,
) -> None:
    """Change a module to its quantised class, with these weights.

    Raises
    ------
    ValueError
        If the arithmetic cannot do its formats; the module is as it was then.
    """
    require_arithmetic(KINDS[type(module)], weights.values(), activations, arithmetic)
    kind = KINDS[type(module)]
    for name, weight in weights.items():
        del module._parameters[name]
        module._modules[name] = weight
    module.__class__ = kind
    module.register_load_state_dict_pre_hook(require_states)
    if kind is QuantizedEmbedding:
        activations = None
    module.activations, module.arithmetic = activations, arithmetic
    # On the array codes are multiplied, and the quantisers of weights and gradients say nothing.
    others = activations if arithmetic in ARRAY else None
    module.recipes = {
        autocast: Recipe(activations, others, others, arithmetic, autocast)
        for autocast in _AUTOCASTS
    }
