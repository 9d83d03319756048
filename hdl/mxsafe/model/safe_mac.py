"""Models of the SAFE-MAC in both arithmetics.

The hardware is `mxsafe.rtl.mac.safe_mac` and `mxsafe.rtl.mac.safe_mac_exact`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import Numbers, require_broadcast
from mxsafe.formats import FP12_E4M7, FloatFormat, MXFormat, mx_formats
from mxsafe.model.decoder import element_integers, is_special
from mxsafe.model.float_arithmetic import encode_float, round_float, round_sum
from mxsafe.products import OperandFormats
from mxsafe.validation import about, checked, require_power_of_two


def _check_lanes(a: NDArray[Any], w: NDArray[Any]) -> None:
    if a.shape != w.shape:
        raise ValueError(f"w must have the shape {a.shape} of a, not {w.shape}")
    require_power_of_two("a: last axis", a.shape[-1] if a.ndim else 0)


@checked
@about(fmt="sum_format")
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
    if not values_a or len(values_a) != len(values_w):
        raise ValueError(
            f"values_w must have as many lanes as values_a, at least one, not {len(values_w)} "
            f"for {len(values_a)}"
        )
    require_power_of_two("values_a: lanes", len(values_a))
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


@checked
def safe_mac(
    a: Numbers,
    w: Numbers,
    format: str | MXFormat = "mxsf",
    *,
    format_w: str | MXFormat | None = None,
) -> NDArray[np.uint16]:
    """Dot products with the paper's FP12 adder tree.

    Parameters
    ----------
    a, w : array_like of int, shape (..., lanes)
        Element codes; the number of lanes is a power of two. NaN and Inf count as zeros with the
        sign of their code; `mac_nan` tells of them.
    format : str or MXFormat
        Format of `a`: floating-point elements.
    format_w : str or MXFormat, optional
        Format of `w`, by default that of `a`.

    Returns
    -------
    ndarray of uint16, shape (...)
        FP12 codes in the format of `OperandFormats.fp12_format` (four lanes of MXSF: E4M7, bias
        12), each as `partial_sum` of the hardware has it.

    Raises
    ------
    TypeError, ValueError
        If codes, shapes or format are not as above.
    """
    format_a, format_w = mx_formats(format, format_w)
    formats = OperandFormats(format_a, format_w)
    formats.fp12_format(1)  # refuses what has no adder tree, before anything is decoded
    with about(codes="a"):
        values_a = _finite_values(a, format_a)
    with about(codes="w"):
        values_w = _finite_values(w, format_w)
    _check_lanes(values_a, values_w)
    lanes_a, lanes_w = (list(np.moveaxis(values, -1, 0)) for values in (values_a, values_w))
    sum_format = formats.fp12_format(len(lanes_a))
    return encode_float(partial_sums(lanes_a, lanes_w, sum_format), sum_format)


def _finite_values(codes: Numbers, fmt: MXFormat) -> NDArray[np.float32]:
    """Decoded elements; NaN and Inf as zeros with the sign of their code."""
    values = elements.decode(codes, fmt)
    negative = np.asarray(codes, np.int64) >> (fmt.element.width - 1) != 0
    zeros = np.where(negative, np.float32(-0.0), np.float32(0.0))
    return np.where(np.isfinite(values), values, zeros)


@checked
def safe_mac_exact(
    a: Numbers,
    w: Numbers,
    format: str | MXFormat = "mxsf",
    *,
    format_w: str | MXFormat | None = None,
) -> NDArray[Any]:
    """Dot products without rounding.

    Parameters
    ----------
    a, w : array_like of int, shape (..., lanes)
        Element codes; the number of lanes is a power of two. NaN and Inf count as zeros; `mac_nan`
        tells of them.
    format : str or MXFormat
        Format of `a`.
    format_w : str or MXFormat, optional
        Format of `w`, by default that of `a`.

    Returns
    -------
    ndarray of int64, or of int where 64 bits do not hold every sum, shape (...)
        In units of the product of both formats' smallest positive values (MXSF: ``2^-22``), as
        `dot` of the hardware has it.

    Raises
    ------
    TypeError, ValueError
        If codes, shapes or format are not as above.
    """
    format_a, format_w = mx_formats(format, format_w)
    formats = OperandFormats(format_a, format_w)
    with about(codes="a"):
        integers_a = element_integers(a, format_a)
    with about(codes="w"):
        integers_w = element_integers(w, format_w)
    _check_lanes(integers_a, integers_w)
    with about(products="a"):
        bits = formats.sum_bits(integers_a.shape[-1])
    if bits <= 63:
        return np.asarray((integers_a * integers_w).sum(axis=-1))
    return np.asarray((integers_a.astype(object) * integers_w.astype(object)).sum(axis=-1))


@checked
def mac_nan(
    a: Numbers,
    w: Numbers,
    format: str | MXFormat = "mxsf",
    *,
    format_w: str | MXFormat | None = None,
) -> NDArray[np.bool_]:
    """Whether an operand of a dot product is NaN or Inf, as `nan` of the hardware has it.

    Parameters
    ----------
    a, w : array_like of int, shape (..., lanes)
        Element codes.
    format : str or MXFormat
        Format of `a`.
    format_w : str or MXFormat, optional
        Format of `w`, by default that of `a`.

    Returns
    -------
    ndarray of bool, shape (...)
    """
    format_a, format_w = mx_formats(format, format_w)
    with about(codes="a"):
        special_a = np.atleast_1d(is_special(a, format_a))
    with about(codes="w"):
        special_w = np.atleast_1d(is_special(w, format_w))
    require_broadcast(a=special_a, w=special_w)
    return np.asarray((special_a | special_w).any(axis=-1))
