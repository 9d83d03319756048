"""Model of arithmetic on rows of binary32 numbers (`mxsafe.rtl.vector.vector_arithmetic`).

Operands broadcast as NumPy's do, which is all that sets operations with names of their own apart: a
bias is added as one number for each feature, a residual as one for each element.
"""

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers, require_broadcast, require_numbers, widened
from mxsafe.model.accumulate import canonical
from mxsafe.validation import checked

_DTYPES = ("float32", "float16", "bfloat16")


@checked
def add(x: Numbers, y: Numbers) -> NDArray[np.float32]:
    """``x + y`` as binary32: a bias or a residual connection.

    Parameters
    ----------
    x, y : array_like of float32, float16 or bfloat16
        Shapes that broadcast.

    Returns
    -------
    ndarray of float32
        IEEE 754 sums, rounded to nearest even, subnormals included. Every NaN is ``0x7fc00000``.

    Raises
    ------
    TypeError
        If an operand has another dtype.
    """
    require_broadcast(x=x, y=y)
    return _sum(_operand("x", x), _operand("y", y))


@checked
def multiply(x: Numbers, y: Numbers) -> NDArray[np.float32]:
    """``x * y`` as binary32.

    Parameters
    ----------
    x, y : array_like of float32, float16 or bfloat16
        Shapes that broadcast.

    Returns
    -------
    ndarray of float32
        IEEE 754 products, rounded to nearest even, subnormals included. Every NaN is
        ``0x7fc00000``.

    Raises
    ------
    TypeError
        If an operand has another dtype.
    """
    require_broadcast(x=x, y=y)
    return _product(_operand("x", x), _operand("y", y))


@checked
def axpy(a: Numbers, x: Numbers, y: Numbers) -> NDArray[np.float32]:
    """``a * x + y`` as binary32, rounded after each of both operations.

    Parameters
    ----------
    a, x, y : array_like of float32, float16 or bfloat16
        Shapes that broadcast.

    Returns
    -------
    ndarray of float32
        ``add(multiply(a, x), y)``.

    Raises
    ------
    TypeError
        If an operand has another dtype.
    """
    require_broadcast(a=a, x=x, y=y)
    return _sum(_product(_operand("a", a), _operand("x", x)), _operand("y", y))


@checked
def half_sums(x: Numbers) -> NDArray[np.float32]:
    """The sum along the last axis as binary32, in an order that its length alone decides.

    The last ``n // 2`` of n values are added to the first ones, until one is left.

    Parameters
    ----------
    x : array_like of float32, float16 or bfloat16

    Returns
    -------
    ndarray of float32
        Of the shape of `x`, but the last axis has length 1.

    Raises
    ------
    TypeError
        If `x` has another dtype.
    ValueError
        If `x` has no axis.
    """
    total = _operand("x", x)
    if total.ndim == 0:
        raise ValueError(f"x must have an axis, not shape {total.shape}")
    while (count := total.shape[-1]) > 1:
        half = -(-count // 2)
        kept = total[..., :half].copy()
        kept[..., : count - half] = _sum(kept[..., : count - half], total[..., half:])
        total = kept
    return total


def _operand(name: str, values: Numbers) -> NDArray[np.float32]:
    if type(values) is np.ndarray and values.dtype == np.float32:  # names take long to find
        return values
    array = np.asarray(require_numbers(name, values))
    if array.dtype.name not in _DTYPES:
        raise TypeError(f"{name} must have dtype {', '.join(_DTYPES)}, not {array.dtype}")
    return widened(array, np.float32)


def _sum(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return canonical(np.add(x, y))


def _product(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(all="ignore"):
        return canonical(np.multiply(x, y))
