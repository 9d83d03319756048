"""Values of block and tensor scales, and the choice of scales that have a mantissa.

Quotients are made by long division of integers, so everything here is exact or rounded once.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.formats import FloatFormat, MXFormat, ScaleFormat
from mxsafe.validation import shown

SMALLEST_TENSOR_SCALE = np.finfo(np.float32).smallest_subnormal
_LARGEST_TENSOR_SCALE = np.finfo(np.float32).max


@lru_cache(maxsize=16)
def _table(fmt: ScaleFormat | FloatFormat) -> NDArray[np.float64]:
    """Value of every code, exact; NaN for the code of NaN, and for all that are no scales."""
    values = np.full(1 << fmt.width, np.nan)
    if isinstance(fmt, FloatFormat):
        finite = elements.magnitudes(fmt)
    else:
        exponents = np.arange(fmt.nan_code, dtype=np.int32) - fmt.bias
        finite = np.ldexp(np.float64(1.0), exponents)
    values[: finite.size] = finite
    values.flags.writeable = False
    return values


def scale_values(
    codes: NDArray[np.integer[Any]], fmt: ScaleFormat | FloatFormat
) -> NDArray[np.float64]:
    """Scales of blocks as numbers; the code of NaN gives NaN."""
    return _table(fmt)[codes]


def require_scales(scales: NDArray[np.uint8], fmt: MXFormat) -> None:
    """Refuse codes that are no scales: with bits above their width, or negative."""
    if scales.size == 0:
        return
    largest = int(scales.max())
    if largest >> fmt.scale.width:
        raise ValueError(
            f"scales must have the {fmt.scale.width} bits of {fmt.name}, not {largest:#x}"
        )
    if largest > fmt.nan_scale:
        raise ValueError(f"scales must be non-negative codes of {fmt.scale.name}, not {largest:#x}")


def require_tensor_scale(value: object, fmt: MXFormat) -> np.float32 | None:
    """The scale of a tensor as binary32, or None of a format without; or a clear error."""
    if not fmt.tensor_scale:
        if value is not None:
            raise ValueError(f"tensor_scale must be None for {fmt.name}, not {shown(value)}")
        return None
    if isinstance(value, float | np.floating):
        with np.errstate(over="ignore", under="ignore"):
            scale = np.float32(value)
        if 0 < scale < math.inf and float(scale) == value:
            return scale
    raise ValueError(
        f"tensor_scale must be a positive finite float that float32 holds exactly for {fmt.name}, "
        f"not {shown(value)}"
    )


_SCALE_BITS, _MORE_BITS = 31, 19


def quotients(
    numerator: NDArray[np.float64], divisor: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """``numerator / divisor`` to 50 bits or more, of which the last is 1 if anything is left over.

    Such a quotient lies on the same side as the exact one of every number of 49 bits or fewer, and
    equals it if that equals such a number: to round it is to round the exact one.

    Parameters
    ----------
    numerator : ndarray of float64
        Finite.
    divisor : float or ndarray of float64, shape of `numerator`
        Positive and finite, of at most 31 significant bits.
    """
    significand, exponent = np.frexp(np.abs(numerator))
    dividend = np.ldexp(significand, 53).astype(np.uint64)
    significand, shift = np.frexp(divisor)
    by = np.ldexp(significand, _SCALE_BITS).astype(np.uint64)
    whole, rest = np.divmod(dividend << np.uint64(10), by)
    more, rest = np.divmod(rest << np.uint64(_MORE_BITS), by)
    bits = ((whole << np.uint64(_MORE_BITS)) | more) << np.uint64(1) | (rest > 0)
    # The bounds are far beyond all formats, and keep the quotient within the normal numbers.
    places = np.clip(exponent - shift - 52, -1000, 900)
    return np.copysign(np.ldexp(bits.astype(np.float64), places), numerator)


def block_scales(
    amax: NDArray[np.float64], fmt: MXFormat, tensor_scale: float
) -> NDArray[np.uint8]:
    """Scale codes with a mantissa from the largest magnitude of each block.

    The scale nearest to ``amax / (largest element * tensor_scale)``, a tie to the even code; at
    most the largest one. Nothing keeps it from being 0.
    """
    assert isinstance(fmt.scale, FloatFormat)
    finite = np.isfinite(amax)
    wanted = quotients(np.where(finite, amax, 0.0), fmt.element.max_value * tensor_scale)
    codes = elements.encode_magnitudes(wanted, fmt.scale, "rne", None)
    return np.where(finite, codes, fmt.nan_scale).astype(np.uint8)


def tensor_scale_of(amax: float, fmt: MXFormat) -> np.float32:
    """Scale of a tensor from its largest finite magnitude.

    ``amax / (largest block scale * largest element)``, rounded once to binary32. It is 1 for a
    tensor of zeros, and otherwise neither 0 nor Inf but the smallest or largest number beside it.
    """
    if amax == 0.0:
        return np.float32(1.0)
    quotient = quotients(np.array(amax), fmt.scale.max_value * fmt.element.max_value)
    with np.errstate(over="ignore", under="ignore"):
        scale = np.float32(quotient)
    return np.clip(scale, SMALLEST_TENSOR_SCALE, _LARGEST_TENSOR_SCALE)
