"""MX-SAFE: microscaling arithmetic whose software and silicon agree on every bit."""

from mxsafe import codec, formats, model
from mxsafe.codec import (
    QuantizedTensor,
    decode,
    dequantize,
    e8m0,
    encode,
    from_ml_dtypes,
    load,
    load_all,
    packing,
    profiles,
    quantize,
    save,
    scalar,
    to_ml_dtypes,
)
from mxsafe.formats import BLOCK_FORMATS, MX_FORMATS, SCALAR_FORMATS, MXFormat
from mxsafe.model import matmul

__version__ = "0.1.0"

__all__ = [
    "BLOCK_FORMATS",
    "MX_FORMATS",
    "SCALAR_FORMATS",
    "MXFormat",
    "QuantizedTensor",
    "codec",
    "decode",
    "dequantize",
    "e8m0",
    "encode",
    "formats",
    "from_ml_dtypes",
    "load",
    "load_all",
    "matmul",
    "model",
    "packing",
    "profiles",
    "quantize",
    "save",
    "scalar",
    "to_ml_dtypes",
]
