"""Sums and sums of products over rows, in an order that is set by indices alone."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers
from mxsafe.model.vector_arithmetic import add, multiply
from mxsafe.validation import AlikePower, checked


@checked
def row_dot(
    x: Numbers, y: Numbers, *, lanes: AlikePower = 16, partials: AlikePower = 8
) -> NDArray[np.float32]:
    """Sum of ``x * y`` along the last axis, in binary32, as `row_sum` adds.

    Parameters
    ----------
    x, y : array_like of float32, float16 or bfloat16, shape (..., n)
        Shapes that broadcast.
    lanes, partials
        See `row_sum`.

    Returns
    -------
    ndarray of float32, shape (...)

    Raises
    ------
    TypeError, ValueError
        As `row_sum` and `mxsafe.model.vector_arithmetic.multiply`.
    """
    return row_sum(multiply(x, y), lanes=lanes, partials=partials)


@checked
def row_sum(x: Numbers, *, lanes: AlikePower = 16, partials: AlikePower = 8) -> NDArray[np.float32]:
    """Sum along the last axis, in binary32, in an order that is set by indices alone.

    A beat is as many neighbours as there are lanes, the last one filled up with +0. They are added
    by a binary tree: neighbours first. Beats are dealt out in turn to partial sums, which start at
    +0 and take their beats in order. A row of fewer beats than there are partial sums counts as one
    of that many, the missing ones all +0. In the end partial sums are added by a binary tree, in
    the order of the last beats that went into them.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16, shape (..., n)
    lanes : int
        Numbers in a beat, a power of two.
    partials : int
        Partial sums, a power of two.

    Returns
    -------
    ndarray of float32, shape (...)
        Every addition is rounded to nearest even. Every NaN is ``0x7fc00000``.

    Raises
    ------
    TypeError
        If `x` has another dtype.
    ValueError
        If `lanes` or `partials` is not a power of two, or `x` has no numbers along a row.
    """
    values = add(x, np.float32(-0.0))  # x itself, with one NaN
    if not values.ndim or not values.shape[-1]:
        raise ValueError(f"x must have numbers along its last axis, not shape {values.shape}")
    count = max(-(-values.shape[-1] // lanes), partials)
    missing = count * lanes - values.shape[-1]
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    beats = _tree(padded.reshape(*values.shape[:-1], count, lanes))
    sums = np.zeros((*values.shape[:-1], partials), np.float32)
    for beat in range(count):
        place = beat % partials
        sums[..., place] = add(sums[..., place], beats[..., beat])
    return _tree(np.roll(sums, -(count % partials), axis=-1))


def _tree(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums along the last axis by a binary tree."""
    while values.shape[-1] > 1:
        values = add(values[..., ::2], values[..., 1::2])
    return values[..., 0]
