"""Scale and accumulate: what happens to a partial sum after the MAC."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import e8m0
from mxsafe.codec._inputs import Numbers, require_broadcast
from mxsafe.validation import about, checked

CANONICAL_NAN = np.uint32(0x7FC00000)
"""Bits of the only NaN an accumulator ever holds."""


@checked
def canonical(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same values with every NaN as ``0x7fc00000``."""
    nan = np.isnan(values)
    return np.where(nan, CANONICAL_NAN.view(np.float32), values) if nan.any() else values


@checked
def scaled(
    partial: NDArray[np.floating], scale_a: Numbers, scale_w: Numbers
) -> NDArray[np.float32]:
    """``partial * 2^(scale_a - 127) * 2^(scale_w - 127)``, rounded once to float32.

    Parameters
    ----------
    partial : ndarray of float32 or float64
        Partial sums of at most 53 significant bits, as numbers.
    scale_a, scale_w : array_like of uint8
        E8M0 bytes that broadcast with `partial`.

    Returns
    -------
    ndarray of float32
        Rounded to nearest even, subnormals included; overflow is Inf, a scale of 255 gives NaN.
    """
    factors = []
    for name, codes in (("scale_a", scale_a), ("scale_w", scale_w)):
        with about(codes=name):
            factors.append(e8m0.decode(codes).astype(np.float64))
    require_broadcast(partial=partial, scale_a=factors[0], scale_w=factors[1])
    scale = factors[0] * factors[1]
    with np.errstate(over="ignore"):
        return (np.asarray(partial, np.float64) * scale).astype(np.float32)


@checked
def scale_and_accumulate(
    acc: NDArray[np.float32],
    partial: NDArray[np.floating],
    scale_a: Numbers,
    scale_w: Numbers,
) -> NDArray[np.float32]:
    """One step of an accumulator: ``acc (+) f32(partial * X)``.

    Parameters
    ----------
    acc : ndarray of float32
        Accumulators; they start at +0.
    partial : ndarray of float32 or float64
        Partial sums as numbers: FP12 values, or exact sums of one block in units of 1.
    scale_a, scale_w : array_like of uint8
        E8M0 bytes of the two blocks.

    Returns
    -------
    ndarray of float32
        IEEE 754 binary32 sums, round to nearest even. A NaN scale or Inf - Inf makes the
        accumulator ``0x7fc00000``, which it stays.
    """
    require_broadcast(partial=partial, acc=acc)
    with np.errstate(over="ignore", invalid="ignore"):
        return canonical(acc + scaled(partial, scale_a, scale_w))
