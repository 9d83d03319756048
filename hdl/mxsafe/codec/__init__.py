"""The NumPy reference codec: E8M0 scales, elements, blocks, scalars, byte layouts and files."""

from mxsafe.codec import e8m0, gguf, nvfp4_profiles, packing, profiles, scalar
from mxsafe.codec.blocks import QuantizedTensor, dequantize, quantize
from mxsafe.codec.elements import decode, encode
from mxsafe.codec.storage import load, load_all, save
from mxsafe.codec.views import from_ml_dtypes, to_ml_dtypes

__all__ = [
    "QuantizedTensor",
    "decode",
    "dequantize",
    "e8m0",
    "encode",
    "from_ml_dtypes",
    "gguf",
    "load",
    "load_all",
    "nvfp4_profiles",
    "packing",
    "profiles",
    "quantize",
    "save",
    "scalar",
    "to_ml_dtypes",
]
