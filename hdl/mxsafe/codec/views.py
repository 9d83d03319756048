"""The bytes of a quantised tensor as arrays of ml_dtypes, and back: views, nothing is copied.

ml_dtypes gives NumPy (and JAX) a dtype for each element format of OCP MX but none for MXSF and
E2M5. It keeps 6-bit and 4-bit elements one to a byte, as `QuantizedTensor.codes` does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec.blocks import Axis, Block, QuantizedTensor, require_tensor
from mxsafe.formats import MX_FORMATS

__all__ = ["from_ml_dtypes", "to_ml_dtypes"]

_DTYPES = {
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp6_e3m2": "float6_e3m2fn",
    "mxfp6_e2m3": "float6_e2m3fn",
    "mxfp4_e2m1": "float4_e2m1fn",
    "mxint8": "int8",
}
_SCALE = "float8_e8m0fnu"


def to_ml_dtypes(q: QuantizedTensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """Elements and scales of a tensor as arrays of ml_dtypes that share its memory.

    Parameters
    ----------
    q : QuantizedTensor
        Tensor in a format of OCP MX.

    Returns
    -------
    elements : ndarray of float8_e4m3fn, float8_e5m2, float6_*, float4_e2m1fn or int8
        Relative to the scales; int8 counts 64ths.
    scales : ndarray of float8_e8m0fnu

    Raises
    ------
    ValueError
        If ml_dtypes has no dtype for the format.
    ImportError
        If ml_dtypes is not installed.
    """
    require_tensor(q)
    if MX_FORMATS.get(q.format.name) != q.format or q.format.name not in _DTYPES:
        raise ValueError(f"format must be one of {', '.join(_DTYPES)}, not {q.format.name}")
    return q.codes.view(_dtype(_DTYPES[q.format.name])), q.scales.view(_dtype(_SCALE))


def from_ml_dtypes(
    elements: NDArray[Any], scales: NDArray[Any], *, block: Block, axis: Axis = -1
) -> QuantizedTensor:
    """A tensor that shares the memory of arrays of ml_dtypes; the element dtype says the format.

    Parameters
    ----------
    elements : ndarray of float8_e4m3fn, float8_e5m2, float6_*, float4_e2m1fn or int8
        Elements relative to the scales.
    scales : ndarray of float8_e8m0fnu
        One a block.
    block, axis
        As in `QuantizedTensor`.

    Returns
    -------
    QuantizedTensor

    Raises
    ------
    TypeError
        If an array has another dtype.
    ValueError
        If the shapes do not belong together.
    """
    formats = {dtype: name for name, dtype in _DTYPES.items()}
    if elements.dtype.name not in formats:
        raise TypeError(f"elements must have dtype {', '.join(formats)}, not {elements.dtype}")
    if scales.dtype.name != _SCALE:
        raise TypeError(f"scales must have dtype {_SCALE}, not {scales.dtype}")
    fmt = MX_FORMATS[formats[elements.dtype.name]]
    return QuantizedTensor(elements.view(np.uint8), scales.view(np.uint8), fmt, block, axis)


def _dtype(name: str) -> np.dtype[Any]:
    if name == "int8":
        return np.dtype(np.int8)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"this view needs the package ml_dtypes: {error}") from None
    return np.dtype(getattr(ml_dtypes, name))
