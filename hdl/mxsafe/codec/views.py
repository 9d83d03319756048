"""The bytes of a quantised tensor as arrays of ml_dtypes, and back: views, nothing is copied.

ml_dtypes gives NumPy (and JAX) a dtype for each element format of OCP MX and NVFP4, but none for
MXSF and E2M5. It keeps 6-bit and 4-bit elements one to a byte, as `QuantizedTensor.codes` does.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._scales import require_tensor_scale
from mxsafe.codec.blocks import Axis, Block, QuantizedTensor, tensor_of
from mxsafe.formats import BLOCK_FORMATS
from mxsafe.validation import checked, one_of

_DTYPES = {
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp6_e3m2": "float6_e3m2fn",
    "mxfp6_e2m3": "float6_e2m3fn",
    "mxfp4_e2m1": "float4_e2m1fn",
    "mxint8": "int8",
    "nvfp4": "float4_e2m1fn",
}


def to_ml_dtypes(q: QuantizedTensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """Elements and scales of a tensor as arrays of ml_dtypes that share its memory.

    The scale of the tensor, if it has one, is no array: it is ``q.tensor_scale``.

    Parameters
    ----------
    q : QuantizedTensor
        Tensor in a format of OCP MX or NVFP4.

    Returns
    -------
    elements : ndarray of float8_e4m3fn, float8_e5m2, float6_*, float4_e2m1fn or int8
        Relative to the scales; int8 counts 64ths.
    scales : ndarray of float8_e8m0fnu, or float8_e4m3fn in NVFP4

    Raises
    ------
    ValueError
        If ml_dtypes has no dtype for the format.
    ImportError
        If ml_dtypes is not installed.
    """
    q = tensor_of("q", q)
    if BLOCK_FORMATS.get(q.format.name) != q.format or q.format.name not in _DTYPES:
        raise ValueError(f"format must be {one_of(_DTYPES, q.format.name)}")
    scale = _dtype(q.format.scale.name)
    return q.codes.view(_dtype(_DTYPES[q.format.name])), q.scales.view(scale)


@checked
def from_ml_dtypes(
    elements: NDArray[Any],
    scales: NDArray[Any],
    *,
    block: Block,
    axis: Axis = -1,
    tensor_scale: float | np.float32 | None = None,
) -> QuantizedTensor:
    """A tensor that shares the memory of arrays of ml_dtypes; the two dtypes say the format.

    Parameters
    ----------
    elements : ndarray of float8_e4m3fn, float8_e5m2, float6_*, float4_e2m1fn or int8
        Elements relative to the scales.
    scales : ndarray of float8_e8m0fnu, or float8_e4m3fn in NVFP4
        One a block.
    block, axis, tensor_scale
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
    dtypes = tuple(dict.fromkeys(_DTYPES.values()))
    if elements.dtype.name not in dtypes:
        raise TypeError(f"elements must have dtype {', '.join(dtypes)}, not {elements.dtype}")
    # Formats of these elements by the dtype of their scales.
    formats = {
        BLOCK_FORMATS[name].scale.name: BLOCK_FORMATS[name]
        for name, dtype in _DTYPES.items()
        if dtype == elements.dtype.name
    }
    if scales.dtype.name not in formats:
        raise TypeError(f"scales must have dtype {', '.join(formats)}, not {scales.dtype}")
    return QuantizedTensor(
        elements.view(np.uint8),
        scales.view(np.uint8),
        formats[scales.dtype.name],
        block,
        axis,
        require_tensor_scale(tensor_scale, formats[scales.dtype.name]),
    )


def _dtype(name: str) -> np.dtype[Any]:
    if name == "int8":
        return np.dtype(np.int8)
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"this view needs the package ml_dtypes: {error}") from None
    return np.dtype(getattr(ml_dtypes, name))
