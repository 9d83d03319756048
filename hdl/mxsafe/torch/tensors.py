"""Tensors of PyTorch that hold codes and scales, and the way back to floats."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

import mxsafe
from mxsafe.codec import blocks, elements
from mxsafe.codec._parts import block_lengths, blocks_shape, three_axes
from mxsafe.formats import (
    BLOCK_FORMATS,
    E8M0,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    ScaleFormat,
)
from mxsafe.torch import _arithmetic
from mxsafe.torch._arithmetic import FLOAT32, FLOAT64, Layout
from mxsafe.torch._engines import (
    DTYPES,
    KINDS,
    Compiled,
    compiled_code,
    is_ready,
    memory_for,
    names_of,
    require_not_traced,
    subnormals_kept,
    torch_is_exact,
)
from mxsafe.validation import other_than, shown


@dataclass(frozen=True, eq=False)
class QuantizedTensor:
    """A tensor of PyTorch in an MX format or NVFP4.

    Attributes
    ----------
    codes, scales : Tensor of uint8
        As in `mxsafe.QuantizedTensor`: a byte for each code, whatever its width.
    format : MXFormat
        Format of elements and scales.
    block, axis : int or tuple of int
        As in `mxsafe.QuantizedTensor`.
    tensor_scale : Tensor of float32, optional
        The scale of the whole tensor, of rank 0, if the format has one.
    dtype : torch.dtype
        What `dequantize` gives: the dtype of the tensor that was quantised.

    Notes
    -----
    ``a @ b`` multiplies the values of such tensors, or of one and a tensor of floats, in their
    dtype. `mxsafe.matmul` of two multiplies as the array does.

    Examples
    --------
    >>> q = quantize(torch.ones(4, 64), "mxsf")
    >>> q[1:]
    QuantizedTensor(format='mxsf', shape=(3, 64), block=64, axis=-1, nbytes=195)
    """

    codes: torch.Tensor
    scales: torch.Tensor
    format: MXFormat
    block: blocks.Block
    axis: blocks.Axis
    tensor_scale: torch.Tensor | None = None
    dtype: torch.dtype = torch.float32

    @classmethod
    def from_numpy(
        cls, q: mxsafe.QuantizedTensor, *, dtype: torch.dtype = torch.float32
    ) -> QuantizedTensor:
        """A tensor of `mxsafe.quantize`, in the same memory where it can be written to.

        Parameters
        ----------
        q : mxsafe.QuantizedTensor
            The tensor.
        dtype : torch.dtype
            What `dequantize` gives.
        """
        q = blocks.tensor_of("q", q)
        codes, scales = (
            torch.from_numpy(part if part.flags.writeable else part.copy())
            for part in (q.codes, q.scales)
        )
        shared = None
        if q.tensor_scale is not None:
            shared = torch.tensor(q.tensor_scale, device="cpu")
        return cls(codes, scales, q.format, q.block, q.axis, shared, require_dtype(dtype))

    @property
    def shape(self) -> torch.Size:
        """Shape of the tensor."""
        return self.codes.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.codes.ndim

    @property
    def device(self) -> torch.device:
        """Where codes and scales are."""
        return self.codes.device

    @property
    def nbytes(self) -> int:
        """Bytes of memory that codes and scales take; files hold narrow codes without gaps."""
        return sum(part.nbytes for part in self._parts())

    def _parts(self) -> list[torch.Tensor]:
        shared = [] if self.tensor_scale is None else [self.tensor_scale]
        return [self.codes, self.scales, *shared]

    def to(self, *args: Any, **kwargs: Any) -> QuantizedTensor:
        """The same numbers on another device, or for another dtype: arguments of `Tensor.to`.

        Codes do not change: the dtype is that of what `dequantize` gives.

        Raises
        ------
        TypeError
            If the dtype is none that `quantize` takes.
        """
        like = torch.empty(0, dtype=self.dtype, device=self.device).to(*args, **kwargs)
        codes, scales, *shared = (part.to(like.device) for part in self._parts())
        return replace(
            self,
            codes=codes,
            scales=scales,
            tensor_scale=shared[0] if shared else None,
            dtype=require_dtype(like.dtype),
        )

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The numbers as floats, see `mxsafe.torch.dequantize`."""
        return dequantize(self, dtype=dtype)

    def numpy(self) -> mxsafe.QuantizedTensor:
        """The same codes and scales as NumPy's arrays."""
        scale = self.tensor_scale
        return mxsafe.QuantizedTensor(
            self.codes.cpu().numpy(),
            self.scales.cpu().numpy(),
            self.format,
            self.block,
            self.axis,
            None if scale is None else np.float32(scale.item()),
        )

    __quantized_tensor__ = numpy

    @property
    def T(self) -> QuantizedTensor:
        """The transposed matrix, see `mxsafe.QuantizedTensor.T`.

        Raises
        ------
        ValueError
            If the tensor is not a matrix.
        """
        if self.codes.ndim != 2:
            raise ValueError(f"T needs a tensor of rank 2, not {self.codes.ndim}")
        block, axis = blocks.transposed_blocks(self.block, self.axis)
        return replace(self, codes=self.codes.T, scales=self.scales.T, block=block, axis=axis)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[QuantizedTensor]:
        """Parts along the first axis, as those of a `Tensor`.

        Raises
        ------
        TypeError
            If that axis is cut in blocks, or there is none.
        """
        if not self.ndim or 0 in (axis % self.ndim for axis, _ in self._axes()):
            raise TypeError(
                "a QuantizedTensor can be iterated over along an axis that is not cut in blocks: "
                "use q.dequantize()"
            )
        return (self[i] for i in range(len(self)))

    __array_ufunc__ = None  # so that NumPy leaves ``array @ q`` to `__rmatmul__`

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to be an array of NumPy, which has no such numbers.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "a QuantizedTensor is no array: use q.dequantize() for its values, or q.numpy()"
        )

    def __getitem__(self, index: Any) -> QuantizedTensor:
        """Part of the tensor, as `Tensor` gives it: whole along each axis that is cut in blocks.

        At most one index may be a tensor.
        """
        items = _items(index, self.ndim)
        blocked = {axis % self.ndim for axis, _ in self._axes()}
        for axis in blocked:
            item = items[axis]
            size = self.shape[axis]
            if not isinstance(item, slice) or item.indices(size) != (0, size, 1):
                raise IndexError(
                    f"index must be ':' for axis {axis}, which is cut in blocks, not {shown(item)}"
                )
        codes, scales, along = self.codes, self.scales, self.axis
        for axis in sorted(set(range(self.ndim)) - blocked, reverse=True):
            before = (slice(None),) * axis
            codes, scales = codes[(*before, items[axis])], scales[(*before, items[axis])]
            if isinstance(along, int) and axis > min(blocked):
                along -= _rank(items[axis]) - 1
        return replace(self, codes=codes, scales=scales, axis=along)

    def _axes(self) -> list[tuple[int, int]]:
        return blocks.blocked_axes(self.ndim, self.block, self.axis)

    def __matmul__(self, other: Any) -> torch.Tensor:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> torch.Tensor:
        return _product(other, self)

    def __repr__(self) -> str:
        dtype = "" if self.dtype == torch.float32 else f", dtype={names_of((self.dtype,))}"
        device = "" if self.device.type == "cpu" else f", device='{self.device}'"
        return (
            f"QuantizedTensor(format={self.format.name!r}, shape={tuple(self.shape)}, "
            f"block={self.block}, axis={self.axis}, nbytes={self.nbytes}{dtype}{device})"
        )

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        rows = {
            "format": self.format.name,
            "shape": " x ".join(map(str, self.shape)),
            "block": self.block,
            "axis": self.axis,
            "dtype": names_of((self.dtype,)),
            "device": self.device,
            "bytes": f"{self.nbytes:,}",
        }
        cells = (
            f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table><caption>QuantizedTensor</caption>{''.join(cells)}</table>"


# What the pickled form of a tensor names: `torch.load` trusts it without being asked.
torch.serialization.add_safe_globals(
    [QuantizedTensor, MXFormat, FloatFormat, FloatFields, IntFormat, ScaleFormat]
)


def require_dtype(dtype: Any) -> torch.dtype:
    """A dtype that is quantised and dequantised, or a clear error."""
    if dtype not in DTYPES:
        raise TypeError(f"dtype must be {names_of(DTYPES)}, not {dtype}")
    return dtype


def _items(index: Any, rank: int) -> list[Any]:
    """One index an axis, of what stands between brackets; or a clear error."""
    given = list(index) if isinstance(index, tuple) else [index]
    items: list[Any] = []
    for item in given:
        if item is Ellipsis:
            items += [slice(None)] * (rank + 1 - len(given))
        elif isinstance(item, list | np.ndarray):
            items.append(torch.as_tensor(item))
        else:
            items.append(item)
    for item in items:
        known = isinstance(item, int | np.integer | slice | torch.Tensor)
        if not known or isinstance(item, bool):
            raise IndexError(f"index must be integers, slices and tensors, not {shown(item)}")
    if len(items) > rank:
        raise IndexError(f"index must have at most {rank} items, not {len(items)}")
    if sum(isinstance(item, torch.Tensor) for item in items) > 1:
        raise IndexError("index must have at most one tensor, not more")
    return items + [slice(None)] * (rank - len(items))


def _rank(item: Any) -> int:
    """How many axes an index leaves of one."""
    if isinstance(item, torch.Tensor):
        return 1 if item.dtype == torch.bool else item.ndim
    return int(isinstance(item, slice))


def _product(a: Any, b: Any) -> Any:
    """Product of the values of two tensors of which one at least is quantised."""
    if any(isinstance(t, np.ndarray) for t in (a, b)):
        raise TypeError("a QuantizedTensor multiplies tensors, not arrays: use q.dequantize()")
    if not all(isinstance(t, QuantizedTensor | torch.Tensor) for t in (a, b)):
        return NotImplemented
    dtype = torch.promote_types(a.dtype, b.dtype)
    left, right = (t.dequantize() if isinstance(t, QuantizedTensor) else t for t in (a, b))
    return left.to(dtype) @ right.to(dtype)


def dequantize(q: QuantizedTensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Convert a quantised tensor back to floats, with the bits of `mxsafe.dequantize`.

    Parameters
    ----------
    q : QuantizedTensor
        Tensor to convert, from `quantize`.
    dtype : torch.dtype, optional
        float32 or float64, as `mxsafe.dequantize`; float16 and bfloat16 are rounded from float32.
        By default that of `q`.

    Returns
    -------
    Tensor of `dtype`, on the device of `q`
        Blocks whose scale is NaN are NaN.

    Raises
    ------
    TypeError
        If `q` is not a QuantizedTensor of this module with codes and scales of uint8, or `dtype` is
        another.
    ValueError
        If codes and scales are not on one device, or do not fit one another.
    """
    if not isinstance(q, QuantizedTensor):
        raise TypeError(
            f"q must be a QuantizedTensor of mxsafe.torch, not {other_than('a QuantizedTensor', q)}"
        )
    dtype = q.dtype if dtype is None else require_dtype(dtype)
    codes, scales = q.codes, q.scales
    if not isinstance(codes, torch.Tensor) or codes.dtype != torch.uint8:
        raise TypeError(f"codes must be a tensor of uint8, not {_kind(codes)}")
    if not isinstance(scales, torch.Tensor) or scales.dtype != torch.uint8:
        raise TypeError(f"scales must be a tensor of uint8, not {_kind(scales)}")
    if scales.is_cpu != codes.is_cpu:
        raise ValueError(f"scales must be on {codes.device} like codes, not {scales.device}")
    with subnormals_kept():
        return _dequantized(q, dtype)


def _kind(part: Any) -> str:
    return names_of((part.dtype,)) if isinstance(part, torch.Tensor) else shown(part)


def _dequantized(q: QuantizedTensor, dtype: torch.dtype) -> torch.Tensor:
    wide = dtype == torch.float64
    values = memory_for(q.codes, dtype) if is_ready(q.format, q.codes) else None
    if values is not None:
        _dequantize_compiled(q, values)
        return values
    require_not_traced()
    if not torch_is_exact(q.format, q.codes):
        values = mxsafe.dequantize(q.numpy(), dtype=np.float64 if wide else np.float32)
        return torch.from_numpy(values).to(q.codes.device).to(dtype)
    layout = FLOAT64 if wide or q.tensor_scale is not None else FLOAT32
    shape, device = tuple(q.codes.shape), q.codes.device
    tiles = Tiles(shape, block_lengths(shape, blocks.blocked_axes(len(shape), q.block, q.axis)))
    relative = _looked_up(q.format, "element", q.codes, layout)
    if q.tensor_scale is None:
        scales = _arithmetic.powers(q.scales.to(layout.integer), 1, layout)
    else:
        scales = (
            _looked_up(q.format, "scale", q.scales, layout) * q.tensor_scale.to(device).double()
        )
    result = tiles.join(tiles.split(relative) * scales.reshape(tiles.scale_shape))
    return result.to(torch.float64 if wide else torch.float32).to(dtype)


def _dequantize_compiled(q: QuantizedTensor, values: torch.Tensor) -> None:
    """The same by the project's compiled code."""
    key = (tuple(q.codes.shape), tuple(q.scales.shape), q.format, q.block, q.axis, values.dtype)
    try:
        make, is_sure = _known_code(*key)
    except TypeError:  # a list cannot be hashed
        make, is_sure = _compiled(*key)
    if not is_sure:
        q.numpy()  # an error if codes are no scales, or too few
    factor = 1.0 if q.tensor_scale is None else float(q.tensor_scale)
    make(factor).run(q.codes, q.scales, values)


def _compiled(
    codes: tuple[int, ...],
    scales: tuple[int, ...],
    fmt: MXFormat,
    block: blocks.Block,
    axis: blocks.Axis,
    dtype: torch.dtype,
) -> tuple[Any, bool]:
    """Compiled code for a scale of the tensor, and whether scales are one a block, of any bytes."""
    lengths = block_lengths(codes, blocks.blocked_axes(len(codes), block, axis))
    is_sure = fmt.scale == E8M0 and scales == blocks_shape(codes, lengths)

    @lru_cache(maxsize=1)
    def make(factor: float) -> Compiled:
        return Compiled(compiled_code().dequantizer, codes, lengths, KINDS[dtype], fmt, factor)

    return make, is_sure


_known_code = lru_cache(maxsize=1024, typed=True)(_compiled)

_VALUES = {
    (name, part): elements.code_values(getattr(fmt, part)).tolist()
    for name, fmt in BLOCK_FORMATS.items()
    for part in ("element", "scale")
    if isinstance(getattr(fmt, part), FloatFormat | IntFormat)
}
"""Values of codes of catalogued formats, made here because no compiler can."""


def _looked_up(fmt: MXFormat, part: str, codes: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Values of codes of the elements or the scales of a format."""
    if BLOCK_FORMATS.get(fmt.name) == fmt:
        values = _VALUES[fmt.name, part]
    else:
        values = elements.code_values(getattr(fmt, part)).tolist()
    table = torch.tensor(values, dtype=layout.real, device="cpu").to(codes.device)
    return table[codes.to(torch.int32)]


class Tiles:
    """A tensor as tiles: every blocking is one of three axes, two of which are cut.

    Tiles at the ragged edges are filled up with zeros.
    """

    def __init__(self, shape: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        self.shape = shape
        self.flat, self.tile = three_axes(shape, lengths)
        (_, rows, columns), (height, width) = self.flat, self.tile
        self.missing = (-rows % height, -columns % width)
        outer, many_rows, many_columns = blocks_shape(self.flat, (1, *self.tile))
        self.cut = (outer, many_rows, height, many_columns, width)
        self.scale_shape = (outer, many_rows, 1, many_columns, 1)

    def split(self, t: torch.Tensor) -> torch.Tensor:
        """A tensor of the shape cut into tiles: its axes 2 and 4 are those of a tile."""
        t = t.reshape(self.flat)
        if any(self.missing):
            t = torch.nn.functional.pad(t, (0, self.missing[1], 0, self.missing[0]))
        return t.reshape(self.cut)

    def join(self, t: torch.Tensor) -> torch.Tensor:
        """The tensor again."""
        outer, many_rows, height, many_columns, width = self.cut
        t = t.reshape(outer, many_rows * height, many_columns * width)
        if any(self.missing):
            t = t[:, : self.flat[1], : self.flat[2]]
        return t.reshape(self.shape)
