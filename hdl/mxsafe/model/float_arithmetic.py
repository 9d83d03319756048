"""Arithmetic in a narrow float format, carried out on float32 values.

FP12 (E4M7, bias 12) is the format of the SAFE-MAC's adder tree. Its values, the exact products of
two MXSF elements and the exact sums of two FP12 values all fit a float32, so float32 arithmetic
followed by one explicit rounding is exact arithmetic followed by that rounding.
"""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import scalar
from mxsafe.codec._inputs import Numbers, require_broadcast
from mxsafe.formats import FP12_E4M7, FloatFormat
from mxsafe.validation import checked

_FLOAT32_MANTISSA_BITS = 23
_FLOAT32_EXPONENT = 8


@checked
def round_float(values: NDArray[np.float32], fmt: FloatFormat = FP12_E4M7) -> NDArray[np.float32]:
    """Round float32 values to the nearest value of a narrow format, ties to even.

    Parameters
    ----------
    values : ndarray of float32
        Finite values, any shape, that do not round beyond the largest of the format.
    fmt : FloatFormat
        Format with gradual underflow, fewer mantissa bits and a smaller range than float32.

    Returns
    -------
    ndarray of float32, shape of `values`
        Zeros, and what rounds to zero, keep their sign.
    """
    _require_narrow(fmt)
    values = np.asarray(values, np.float32)
    exponent_mask = np.uint32(0x7F800000)
    binade = np.asarray(values.view(np.uint32) & exponent_mask).view(np.float32)  # 2^exponent
    np.maximum(binade, np.float32(2.0**fmt.fields.min_exponent), out=binade)  # subnormals share one
    # Adding a number whose last place is the unit to round to leaves a multiple of that unit.
    binade *= np.float32(1.5 * 2.0 ** (_FLOAT32_MANTISSA_BITS - fmt.mantissa_bits))
    return np.copysign((values + binade) - binade, values)


def _require_narrow(fmt: FloatFormat) -> None:
    """Refuse formats that binary32 is not wider than in every way."""
    fields = fmt.fields
    if fmt.mantissa_bits >= _FLOAT32_MANTISSA_BITS - 1 or fields.exponent_bits >= _FLOAT32_EXPONENT:
        raise ValueError(f"fmt must be narrower than float32, not {fmt.name}")


@checked
def round_sum(values: NDArray[np.float32], fmt: FloatFormat = FP12_E4M7) -> NDArray[np.float32]:
    """Round exact sums of two values of a narrow format, as `round_float` does but faster.

    Such a sum is a multiple of the smallest subnormal, so it cannot underflow and only its number
    of significant bits has to be cut.
    """
    _require_narrow(fmt)
    dropped = np.uint32(_FLOAT32_MANTISSA_BITS - fmt.mantissa_bits)
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits >> dropped) & np.uint32(1)  # the lowest bit kept decides ties
    rounded += bits
    rounded += (np.uint32(1) << (dropped - np.uint32(1))) - np.uint32(1)
    rounded &= ~((np.uint32(1) << dropped) - np.uint32(1))
    return rounded.view(np.float32)


@checked
def add(
    a: NDArray[np.float32], b: NDArray[np.float32], fmt: FloatFormat = FP12_E4M7
) -> NDArray[np.float32]:
    """Sum of two values of a narrow format, rounded to it.

    It is what `mxsafe.rtl.arithmetic.fp_adder` computes in hardware.

    An exact zero is +0 unless both terms are -0. Beyond the largest value of the format the sum
    saturates.
    """
    _require_narrow(fmt)
    require_broadcast(a=a, b=b)
    largest = np.float32(fmt.max_value)
    return np.clip(round_sum(np.add(a, b, dtype=np.float32), fmt), -largest, largest)


@checked
def encode_float(values: NDArray[np.float32], fmt: FloatFormat = FP12_E4M7) -> NDArray[np.uint16]:
    """Codes of float32 values that the format holds exactly.

    Parameters
    ----------
    values : ndarray of float32
        Values of the format, any shape.
    fmt : FloatFormat
        Format of at most 16 bits.

    Raises
    ------
    ValueError
        If a value is not one of the format's.
    """
    values = np.asarray(values, np.float32)
    codes = scalar.encode(np.where(np.isnan(values), np.float32(0.0), values), fmt)
    held = scalar.decode(codes, fmt) == values
    if not held.all():
        raise ValueError(f"values must be values of {fmt.name}, not {values[~held].ravel()[:3]}")
    return codes.astype(np.uint16)


@checked
def decode_float(codes: Numbers, fmt: FloatFormat = FP12_E4M7) -> NDArray[np.float32]:
    """Values of the codes of a narrow format, exactly.

    Parameters
    ----------
    codes : array_like of int
        Codes, any shape.
    fmt : FloatFormat
        Format of at most 16 bits, without sub-FP mode and special codes.
    """
    return scalar.decode(codes, fmt).astype(np.float32)
