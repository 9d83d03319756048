"""E8M0, the scale that the elements of an MX block share (OCP MX v1.0, section 5.4.1).

One byte ``b``: ``0..254`` is ``2^(b - 127)``, 255 is NaN. There is no zero, no sign and no Inf.
Exponents are read from the bits of a float, never through a logarithm: a float32 just below a
power of two must not round up to it.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec._inputs import require_broadcast, require_numbers, to_codes, to_float64
from mxsafe.codec._subnormals import subnormals
from mxsafe.formats import E8M0
from mxsafe.validation import require_one_of, settled

Mode = Literal["floor", "ceil", "rne", "rna"]
MODES = ("floor", "ceil", "rne", "rna")


@subnormals()
def encode(x: ArrayLike, *, mode: Mode = "floor", saturate: bool = False) -> NDArray[np.uint8]:
    """Convert floats to E8M0 bytes.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16
        Values to convert, any shape.
    mode : {"floor", "ceil", "rne", "rna"}
        Rounding between neighbouring powers of two: down (PTX ``.rz``), up (PTX ``.rp``), to the
        nearest value with the tie ``1.5 * 2^k`` going to the even byte (gfloat), or going up
        (ml_dtypes, torch).
    saturate : bool
        With it, Inf and overflow give 254; without it they give 255 (NaN).

    Returns
    -------
    ndarray of uint8, shape of `x`
        Zeros of both signs and underflow give 0; NaN and negative numbers give 255.

    Raises
    ------
    TypeError
        If `x` has another dtype.
    ValueError
        If `mode` is unknown.
    """
    require_one_of("mode", mode, MODES)
    saturate = settled("saturate", bool, saturate)
    values = to_float64("x", x)
    finite = np.isfinite(values)
    significand, exponent = np.frexp(np.where(finite, values, 1.0))  # value = significand * 2^exp
    byte = exponent.astype(np.int32) - 1 + E8M0.bias
    # The significand lies in [0.5, 1): 0.5 is a power of two, 0.75 the midpoint to the next.
    if mode == "ceil":
        byte += significand > 0.5
    elif mode == "rne":
        # A tie goes to the even byte.
        byte += (significand > 0.75) | ((significand == 0.75) & (byte % 2 == 1))
    elif mode == "rna":
        byte += significand >= 0.75
    overflow = E8M0.max_code if saturate else E8M0.nan_code
    byte = np.where(byte > E8M0.max_code, overflow, np.maximum(byte, 0))
    byte = np.where(values == 0.0, 0, byte)
    byte = np.where(np.isposinf(values), overflow, byte)
    byte = np.where(np.isnan(values) | (values < 0.0), E8M0.nan_code, byte)
    return byte.astype(np.uint8)[()]


@subnormals()
def decode(codes: ArrayLike) -> NDArray[np.float32]:
    """Convert E8M0 bytes to float32, exactly (``2^-127`` is a float32 subnormal).

    Parameters
    ----------
    codes : array_like of int
        Bytes, any shape.

    Returns
    -------
    ndarray of float32, shape of `codes`
        Byte 255 gives NaN.

    Raises
    ------
    TypeError
        If `codes` are not integers.
    ValueError
        If a code lies outside 0..255.
    """
    array = to_codes("codes", codes, E8M0.width)
    exponents = np.minimum(array, E8M0.max_code).astype(np.int32) - E8M0.bias
    values = np.ldexp(np.float32(1.0), exponents)
    return np.where(array == E8M0.nan_code, np.float32(np.nan), values)[()]


def pack_x2(high: ArrayLike, low: ArrayLike) -> NDArray[np.uint16]:
    """Two E8M0 bytes in one word, PTX's ``ue8m0x2``: the first operand in the high byte.

    Parameters
    ----------
    high, low : array_like of int
        Bytes of shapes that broadcast.

    Returns
    -------
    ndarray of uint16

    Raises
    ------
    TypeError, ValueError
        If they are not integers in 0..255.
    """
    first, second = to_codes("high", high, E8M0.width), to_codes("low", low, E8M0.width)
    require_broadcast(high=first, low=second)
    return (first.astype(np.uint16) << np.uint16(E8M0.width)) | second.astype(np.uint16)


def unpack_x2(words: ArrayLike) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """High and low byte of ``ue8m0x2`` words.

    Parameters
    ----------
    words : array_like of int
        16-bit words, any shape.

    Returns
    -------
    high, low : ndarray of uint8, shape of `words`

    Raises
    ------
    TypeError, ValueError
        If they are not integers in 0..65535.
    """
    array = to_codes("words", words, 2 * E8M0.width)
    return (array >> E8M0.width).astype(np.uint8), (array & E8M0.nan_code).astype(np.uint8)


def pack_x4(codes: ArrayLike) -> NDArray[np.int32]:
    """Four neighbouring E8M0 bytes in one 32-bit word, the first in the lowest byte.

    Grouped matrix products take the scales of four consecutive blocks of k so (DeepGEMM).

    Parameters
    ----------
    codes : array_like of int, shape (..., 4 * n)
        Bytes.

    Returns
    -------
    ndarray of int32, shape (..., n)

    Raises
    ------
    TypeError, ValueError
        If they are not integers in 0..255, or their last axis is not a multiple of 4.
    """
    array = to_codes("codes", codes, E8M0.width).astype(np.uint8)
    length = array.shape[-1] if array.ndim else 0
    if array.ndim == 0 or length % 4:
        raise ValueError(f"codes must have a last axis that is a multiple of 4, not {length}")
    words = np.ascontiguousarray(array).view("<u4").astype(np.uint32)
    return words.view(np.int32)


def unpack_x4(words: ArrayLike) -> NDArray[np.uint8]:
    """Undo `pack_x4`.

    Parameters
    ----------
    words : array_like of int32 or uint32, shape (..., n)
        Words.

    Returns
    -------
    ndarray of uint8, shape (..., 4 * n)

    Raises
    ------
    TypeError, ValueError
        If they have another dtype, or no axis.
    """
    array = np.asarray(require_numbers("words", words))
    if array.dtype not in (np.dtype(np.int32), np.dtype(np.uint32)):
        raise TypeError(f"words must have dtype int32 or uint32, not {array.dtype}")
    if array.ndim == 0:
        raise ValueError("words must have rank 1 or more, not 0")
    return np.ascontiguousarray(array.astype(np.dtype(array.dtype).newbyteorder("<"))).view(
        np.uint8
    )
