"""Models of the SAFE-MAC (hardware: `mxsafe.rtl.safe_mac` and `mxsafe.rtl.safe_mac_exact`)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import elements
from mxsafe.formats import (
    FP12_E4M7,
    FloatFormat,
    MXFormat,
    mx_format,
    require_finite_float,
    require_power_of_two,
    require_sum_range,
)
from mxsafe.model.float_arithmetic import encode_float, round_float, round_sum

__all__ = ["partial_sums", "safe_mac", "safe_mac_exact"]


def _lanes(
    a: ArrayLike, w: ArrayLike, fmt: MXFormat
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    require_finite_float(fmt)
    values_a, values_w = elements.decode(a, fmt), elements.decode(w, fmt)
    if values_a.shape != values_w.shape:
        raise ValueError(f"w must have the shape {values_a.shape} of a, not {values_w.shape}")
    require_power_of_two("the last axis of a", values_a.shape[-1] if values_a.ndim else 0)
    return values_a, values_w


def partial_sums(
    values_a: Sequence[NDArray[np.float32]],
    values_w: Sequence[NDArray[np.float32]],
    sum_format: FloatFormat = FP12_E4M7,
) -> NDArray[np.float32]:
    """Adder tree: round each product, then add neighbours, rounding every sum.

    Parameters
    ----------
    values_a, values_w : sequence of ndarray of float32
        Decoded elements, one array a lane; they broadcast. The number of lanes is a power of two,
        and `sum_format` has room for the sum of all products.
    sum_format : FloatFormat
        Format of products and sums.

    Returns
    -------
    ndarray of float32
    """
    terms = [
        round_float(np.multiply(a, w, dtype=np.float32), sum_format)
        for a, w in zip(values_a, values_w, strict=True)
    ]
    while len(terms) > 1:
        terms = [
            round_sum(left + right, sum_format)
            for left, right in zip(terms[0::2], terms[1::2], strict=True)
        ]
    return terms[0]


def safe_mac(a: ArrayLike, w: ArrayLike, format: str | MXFormat = "mxsf") -> NDArray[np.uint16]:
    """Dot products with the paper's FP12 adder tree.

    Parameters
    ----------
    a, w : array_like of int, shape (..., lanes)
        Element codes; the number of lanes is a power of two.
    format : str or MXFormat
        Format of both.

    Returns
    -------
    ndarray of uint16, shape (...)
        FP12 codes (E4M7, bias 12), each as `partial_sum` of the hardware has it.

    Raises
    ------
    TypeError, ValueError
        If codes, shapes or format are not as above.
    """
    fmt = mx_format(format)
    values_a, values_w = (np.moveaxis(v, -1, 0) for v in _lanes(a, w, fmt))
    require_sum_range(fmt, len(values_a), FP12_E4M7)
    return encode_float(partial_sums(list(values_a), list(values_w)))


def safe_mac_exact(
    a: ArrayLike, w: ArrayLike, format: str | MXFormat = "mxsf"
) -> NDArray[np.int64]:
    """Dot products without rounding.

    Parameters
    ----------
    a, w : array_like of int, shape (..., lanes)
        Element codes; the number of lanes is a power of two.
    format : str or MXFormat
        Format of both.

    Returns
    -------
    ndarray of int64, shape (...)
        In units of the square of the smallest subnormal (MXSF: ``2^-22``), as `dot` of the
        hardware has it.

    Raises
    ------
    TypeError, ValueError
        If codes, shapes or format are not as above.
    """
    fmt = mx_format(format)
    unit = -fmt.element.quantum_exponent
    integers_a, integers_w = (
        np.ldexp(values.astype(np.float64), unit).astype(np.int64) for values in _lanes(a, w, fmt)
    )
    return (integers_a * integers_w).sum(axis=-1)
