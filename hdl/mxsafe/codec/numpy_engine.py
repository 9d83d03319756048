"""The reference: how a part of a tensor is quantised and dequantised, in plain NumPy.

A part holds whole blocks (or the ragged ones at an edge). Everything is exact float64 arithmetic
and tables; `mxsafe.codec.numba_engine` gives the same bits faster and is checked against this file.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import BFLOAT16, bfloat16_bits, widened
from mxsafe.codec._scales import block_scales, quotients, scale_values
from mxsafe.formats import MXFormat, ScaleFormat

PART = 1 << 17
"""Elements that are worked on at a time: their float64 intermediate results stay in a cache."""


def quantize_part(
    x: NDArray[Any],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    rounding: elements.Rounding,
    scale_mode: str,
    words: NDArray[np.uint32] | None,
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    tensor_scale: float = 1.0,
) -> None:
    """Fill in the codes and scales of a part of a tensor.

    Parameters
    ----------
    x : ndarray of a supported floating-point dtype
        The part.
    fmt : MXFormat
        Target format.
    lengths : tuple of int
        Length of a block along every axis, 1 where an axis is not blocked.
    rounding, scale_mode : str
        See `mxsafe.quantize`.
    words : ndarray of uint32, shape of `x`, optional
        Random words for stochastic rounding.
    codes : ndarray of uint8, shape of `x`
        Where the element codes go.
    scales : ndarray of uint8
        Where the scale bytes go, one a block.
    tensor_scale : float
        Scale of the tensor; 1 of a format without.
    """
    values = widened(x, np.float64)
    amax = np.abs(values)
    for axis, length in enumerate(lengths):
        amax = np.maximum.reduceat(amax, np.arange(0, values.shape[axis], length), axis=axis)
    if isinstance(fmt.scale, ScaleFormat):
        with np.errstate(invalid="ignore", under="ignore"):
            scales[...] = _scale_bytes(amax, fmt, fmt.scale, scale_mode)
            scale = _spread(scales, lengths, values.shape)
            relative = np.ldexp(values, fmt.scale.bias - scale.astype(np.int32))
        relative[scale == fmt.nan_scale] = 0.0
    else:
        scales[...] = block_scales(amax, fmt, tensor_scale)
        factors = scale_values(_spread(scales, lengths, values.shape), fmt.scale) * tensor_scale
        relative = _relative(values, factors)
    codes[...] = elements.encode_signed(relative, fmt.element, rounding, words)


def dequantize_part(
    codes: NDArray[np.uint8],
    scales: NDArray[np.uint8],
    fmt: MXFormat,
    lengths: tuple[int, ...],
    values: NDArray[Any],
    tensor_scale: float = 1.0,
) -> None:
    """Fill in the values of a part of a tensor.

    Parameters
    ----------
    codes, scales : ndarray of uint8
        The part, and its scale bytes, one a block.
    fmt : MXFormat
        Their format.
    lengths : tuple of int
        Length of a block along every axis.
    values : ndarray of float32 or float64, shape of `codes`
        Where the values go.
    tensor_scale : float
        Scale of the tensor; 1 of a format without.
    """
    relative = elements.code_values(fmt.element)[codes]
    scale = scale_values(scales, fmt.scale) * tensor_scale
    with np.errstate(over="ignore", under="ignore"):
        values[...] = relative * _spread(scale, lengths, codes.shape)


def _spread(
    per_block: NDArray[Any], lengths: tuple[int, ...], shape: tuple[int, ...]
) -> NDArray[Any]:
    for axis, length in enumerate(lengths):
        per_block = np.take(per_block, np.arange(shape[axis]) // length, axis=axis)
    return per_block


def _relative(values: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values over their scales, signs kept: 0 under a scale of 0, and +0 under one that is NaN."""
    usable = factors > 0.0
    relative = quotients(np.where(usable, values, 0.0), np.where(usable, factors, 1.0))
    return np.where(np.isnan(factors), 0.0, np.copysign(relative, values))


def _scale_bytes(
    amax: NDArray[np.float64], fmt: MXFormat, scale: ScaleFormat, mode: str
) -> NDArray[np.uint8]:
    """Scale byte of each block from its largest magnitude (0, finite or not finite)."""
    finite = np.isfinite(amax)
    value = np.where(finite, amax, 0.0)
    if mode == "rceil":
        largest = float(elements.magnitudes(fmt.element)[-1])
        # ceil(log2(amax / largest)) without dividing: is amax above largest * 2^exponent?
        exponent = np.frexp(value)[1] - np.frexp(largest)[1]
        exponent = exponent + (value > np.ldexp(largest, exponent))
    else:
        significand, exponent = np.frexp(value)
        exponent = exponent - 1
        if mode == "ceil":
            exponent = exponent + (significand > 0.5)
        elif mode == "even":
            # Rounding the significand to the element's mantissa, half up, carries out of the
            # binade from here on.
            carries = significand >= 1.0 - 2.0 ** -(fmt.element.mantissa_bits + 2)
            exponent = exponent + carries
        exponent = exponent - fmt.emax
    byte = np.clip(exponent + scale.bias, 0, scale.max_code)
    byte = np.where(value == 0.0, 0, byte)
    return np.where(finite, byte, scale.nan_code).astype(np.uint8)


def largest_magnitude(values: NDArray[Any]) -> float:
    """Largest finite magnitude, or 0, from the bits, which ascend with it."""
    words: NDArray[Any] | None = bfloat16_bits(values)
    kind, infinity = BFLOAT16, 0x7F80
    if words is None:
        kind = values.dtype
        unsigned = np.dtype(f"u{kind.itemsize}").newbyteorder(kind.byteorder)
        words, infinity = values.view(unsigned), int(np.array(np.inf, kind).view(unsigned))
    magnitudes = words & words.dtype.type(np.iinfo(words.dtype).max >> 1)
    largest = magnitudes.max(initial=0)
    if largest >= infinity:
        largest = magnitudes.max(initial=0, where=magnitudes < infinity)
    return float(widened(np.array([largest], words.dtype).view(kind), np.float64)[0])
