"""Byte layouts of quantised tensors.

Codes are packed without gaps, the first in the lowest bits: code ``i`` of ``w`` bits fills bits
``w*i`` to ``w*i + w - 1`` of a little-endian string of bits. So 4-bit codes lie two in a byte, low
nibble first, four 6-bit codes fill three bytes, and 8-bit codes are bytes. Unused bits are zero.

A tensor becomes one string of bytes in one of three layouts:

``planar``
    all codes in C order as one packed string, then all scale bytes in C order;
``inline``
    block after block in the C order of the scales: the scale byte, then the block's codes in C
    order, packed and filled up with zeros to whole bytes. Ragged blocks at an edge are filled up
    with zero codes first, so that every block takes the same number of bytes;
``gguf``
    what GGUF files hold, the blocks of GGML: of ``mxfp4_e2m1`` in blocks of 32, 17 bytes each, and
    of ``nvfp4`` in blocks of 16, four blocks in 36 bytes, all along a last axis that is a multiple
    of 32, or 64. The scale bytes of such a group come first, then its codes block after block. The
    low halves of the bytes of a block are the first half of its codes, the high halves the second.

No layout says which one it is: the bytes of ``inline`` are as many as those of ``gguf``, in another
order. GGML has no scale that is NaN, and reads the code of -0 as 0.

The scale of a whole tensor, where the format has one, is not among the bytes: keep it beside them.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec._inputs import require_numbers, to_codes
from mxsafe.codec._parts import block_lengths, blocks_shape
from mxsafe.codec._scales import require_tensor_scale
from mxsafe.codec.blocks import Axis, Block, QuantizedTensor, blocked_axes, tensor_of
from mxsafe.formats import BLOCK_FORMATS, MXFormat, mx_format
from mxsafe.validation import about, one_of, require_count, require_integer, require_one_of, shown

__all__ = ["Layout", "from_bytes", "pack_codes", "to_bytes", "unpack_codes"]

Layout = Literal["planar", "inline", "gguf"]
LAYOUTS = ("planar", "inline", "gguf")

_GGUF_GROUPS = {"mxfp4_e2m1": 1, "nvfp4": 4}
"""Formats of GGUF, and how many blocks of their default length make one of GGML's."""


def _group(width: int) -> tuple[int, int]:
    """Smallest number of codes that fill whole bytes, and how many bytes."""
    bits = math.lcm(width, 8)
    return bits // width, bits // 8


def pack_codes(codes: ArrayLike, width: int) -> NDArray[np.uint8]:
    """Pack codes of a few bits into bytes, along the last axis.

    Parameters
    ----------
    codes : array_like of int, shape (..., n)
        Codes.
    width : int
        Bits of a code, 1 to 8.

    Returns
    -------
    ndarray of uint8, shape (..., ceil(n * width / 8))
        The first code in the lowest bits of the first byte.

    Raises
    ------
    TypeError, ValueError
        If `codes` are not integers of `width` bits, or have no axis.

    Examples
    --------
    >>> pack_codes([0x1, 0x2, 0x3], 4)
    array([33,  3], dtype=uint8)
    """
    width = require_integer("width", width, 1, 8)
    array = to_codes("codes", codes, width).astype(np.uint8)
    if array.ndim == 0:
        raise ValueError("codes must have rank 1 or more, not 0")
    count, size = _group(width)
    n = array.shape[-1]
    if count > 1:
        whole = -(-n // count)
        groups = _filled(array, whole * count).reshape(*array.shape[:-1], whole, count)
        words = np.zeros(groups.shape[:-1], "<u8")
        for position in range(count):
            words |= groups[..., position].astype(np.uint64) << np.uint64(width * position)
        array = words[..., None].view(np.uint8)[..., :size]
        array = array.reshape(*array.shape[:-2], whole * size)
    return np.ascontiguousarray(array[..., : -(-n * width // 8)])


def unpack_codes(packed: ArrayLike, width: int, count: int) -> NDArray[np.uint8]:
    """Undo `pack_codes`.

    Parameters
    ----------
    packed : array_like of int, shape (..., ceil(count * width / 8))
        Bytes.
    width : int
        Bits of a code, 1 to 8.
    count : int
        Codes along the last axis.

    Returns
    -------
    ndarray of uint8, shape (..., count)

    Raises
    ------
    TypeError, ValueError
        If `packed` are not bytes, or not as many as `count` codes take.
    """
    array = to_codes("packed", packed, 8).astype(np.uint8)
    width = require_integer("width", width, 1, 8)
    count = require_count("count", count)
    expected = -(-count * width // 8)
    if array.ndim == 0 or array.shape[-1] != expected:
        got = array.shape[-1] if array.ndim else 0
        raise ValueError(
            f"packed must hold {shown(expected)} bytes for {shown(count)} codes, not {got}"
        )
    group, size = _group(width)
    if group > 1:
        whole = -(-expected // size)
        groups = _filled(array, whole * size).reshape(*array.shape[:-1], whole, size)
        words = _filled(groups, 8).view("<u8")
        shifts = np.uint64(width) * np.arange(group, dtype=np.uint64)
        codes = (words >> shifts) & np.uint64((1 << width) - 1)
        array = codes.astype(np.uint8).reshape(*array.shape[:-1], whole * group)
        if array[..., count:].any():
            rest = array[..., count:].max()
            raise ValueError(f"packed must have zeros behind the last code, not {rest:#x}")
    return np.ascontiguousarray(array[..., :count])


def _filled(array: NDArray[np.uint8], length: int) -> NDArray[np.uint8]:
    """Zeros appended to the last axis up to a length."""
    missing = length - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


_LENGTHS = range(1 << 48)


def is_length(size: object) -> bool:
    """Whether it can be the length of an axis."""
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and size in _LENGTHS


def to_bytes(q: QuantizedTensor, layout: Layout = "planar") -> NDArray[np.uint8]:
    """A quantised tensor as one string of bytes.

    Parameters
    ----------
    q : QuantizedTensor
        Tensor.
    layout : {"planar", "inline", "gguf"}
        Codes then scales, each scale before the codes of its block, or the blocks of GGML; see the
        module.

    Returns
    -------
    ndarray of uint8, rank 1

    Raises
    ------
    ValueError
        If `layout` is unknown, or ``gguf`` and the tensor is none of GGUF's or has a scale that is
        NaN.
    """
    require_one_of("layout", layout, LAYOUTS)
    q = tensor_of("q", q)
    width = q.format.element.width
    if layout == "planar":
        return np.concatenate([pack_codes(q.codes.reshape(-1), width), q.scales.reshape(-1)])
    if layout == "gguf":
        group, half = _gguf_group(q.format, q.shape, q.block, q.axis), q.format.block // 2
        _require_gguf_scales("q", q.scales, q.format)
        pairs = q.codes.reshape(-1, group, 2, half)
        nibbles = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, group * half)
        return np.concatenate([q.scales.reshape(-1, group), nibbles], axis=1).reshape(-1)
    lengths = block_lengths(q.shape, blocked_axes(q.codes.ndim, q.block, q.axis))
    counts = blocks_shape(q.shape, lengths)
    edges = [(0, n * m - size) for n, m, size in zip(counts, lengths, q.shape, strict=True)]
    split = [length for pair in zip(counts, lengths, strict=True) for length in pair]
    blocks = np.pad(q.codes, edges).reshape(split).transpose(_blocks_first(len(counts)))
    packed = pack_codes(blocks.reshape(math.prod(counts), math.prod(lengths)), width)
    return np.concatenate([q.scales.reshape(-1, 1), packed], axis=1).reshape(-1)


def from_bytes(
    data: bytes | NDArray[np.uint8],
    format: str | MXFormat,
    shape: tuple[int, ...],
    *,
    block: Block | None = None,
    axis: Axis = -1,
    layout: Layout = "planar",
    tensor_scale: float | np.float32 | None = None,
) -> QuantizedTensor:
    """Undo `to_bytes`.

    Parameters
    ----------
    data : bytes or ndarray of uint8
        The bytes.
    format, shape, block, axis
        Of the tensor; `block` is by default that of the format.
    layout : {"planar", "inline", "gguf"}
        Layout of the bytes, see the module.
    tensor_scale : float, optional
        Scale of the tensor, if the format has one.

    Returns
    -------
    QuantizedTensor

    Raises
    ------
    TypeError, ValueError
        If the parameters do not belong together, or there are more or fewer bytes than they say.
    """
    require_one_of("layout", layout, LAYOUTS)
    fmt = mx_format(format)
    factor = require_tensor_scale(tensor_scale, fmt)
    if not isinstance(shape, tuple | list) or not shape or not all(map(is_length, shape)):
        raise ValueError(f"shape must be a tuple of lengths, not {shown(shape)}")
    width = fmt.element.width
    block = fmt.block if block is None else block
    lengths = block_lengths(shape, blocked_axes(len(shape), block, axis))
    counts = blocks_shape(shape, lengths)
    raw = (
        np.frombuffer(data, np.uint8) if isinstance(data, bytes) else require_numbers("data", data)
    )
    raw = np.asarray(raw)
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise TypeError(
            f"data must be bytes or a uint8 array of rank 1, not {raw.dtype} of rank {raw.ndim}"
        )
    blocks, elements = math.prod(counts), math.prod(lengths)
    group = _gguf_group(fmt, shape, block, axis) if layout == "gguf" else 1
    if layout == "planar":
        code_bytes = -(-math.prod(shape) * width // 8)
        expected = code_bytes + blocks
    else:
        code_bytes = -(-elements * width // 8)
        expected = blocks * (1 + code_bytes)
    if raw.size != expected:
        raise ValueError(
            f"data must hold {expected} bytes for {fmt.name} of shape {shape}, not {raw.size}"
        )
    if layout == "planar":
        with about(packed="data"):
            codes = unpack_codes(raw[:code_bytes], width, math.prod(shape)).reshape(shape)
        scales = raw[code_bytes:].reshape(counts).copy()
        return QuantizedTensor(codes, scales, fmt, block, axis, factor)
    if layout == "gguf":
        half = fmt.block // 2
        groups = raw.reshape(-1, group * (1 + half))
        scales = groups[:, :group].reshape(counts).copy()
        _require_gguf_scales("data", scales, fmt)
        nibbles = groups[:, group:].reshape(-1, group, 1, half)
        codes = np.concatenate([nibbles & 0xF, nibbles >> 4], axis=2).reshape(shape)
        return QuantizedTensor(codes, scales, fmt, block, axis, factor)
    rows = raw.reshape(blocks, 1 + code_bytes)
    with about(packed="data"):
        split = unpack_codes(rows[:, 1:], width, elements).reshape(*counts, *lengths)
    whole = split.transpose(np.argsort(_blocks_first(len(counts)))).reshape(
        [n * m for n, m in zip(counts, lengths, strict=True)]
    )
    codes = np.ascontiguousarray(whole[tuple(slice(0, size) for size in shape)])
    if np.count_nonzero(whole) > np.count_nonzero(codes):
        raise ValueError("data must have zeros where ragged blocks are filled up, not other codes")
    scales = rows[:, 0].reshape(counts).copy()
    return QuantizedTensor(codes, scales, fmt, block, axis, factor)


def _gguf_group(fmt: MXFormat, shape: tuple[int, ...], block: Block, axis: Axis) -> int:
    """Number of blocks in one of GGML's; an error if GGUF has no such tensor."""
    group = _GGUF_GROUPS.get(fmt.name, 0)
    if not group or BLOCK_FORMATS[fmt.name] != fmt:
        raise ValueError(f"format must be {one_of(_GGUF_GROUPS, fmt.name, ' for layout gguf')}")
    along = blocked_axes(len(shape), block, axis)
    if along != [(-1, fmt.block)]:
        raise ValueError(
            f"block must be {fmt.block} along the last axis for layout gguf, not {shown(block)} "
            f"along {shown(axis)}"
        )
    if shape[-1] % (group * fmt.block):
        raise ValueError(
            f"shape must have a last axis that is a multiple of {group * fmt.block} for {fmt.name} "
            f"in layout gguf, not {shape[-1]}"
        )
    return group


def _require_gguf_scales(name: str, scales: NDArray[np.uint8], fmt: MXFormat) -> None:
    """Refuse the code of a NaN, which is a number to GGML."""
    if (scales == fmt.nan_scale).any():
        raise ValueError(
            f"{name} must have no scale {fmt.nan_scale:#x} in layout gguf: it is NaN here, and a "
            "number to GGML"
        )


def _blocks_first(rank: int) -> list[int]:
    """Order of axes that turns (blocks, length) of every axis into all blocks, then all lengths."""
    return [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
