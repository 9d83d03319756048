"""The NumPy reference codec: E8M0 scales, elements and blocks."""

from mxsafe.codec import e8m0
from mxsafe.codec.blocks import QuantizedTensor, dequantize, quantize
from mxsafe.codec.elements import decode, encode

__all__ = ["QuantizedTensor", "decode", "dequantize", "e8m0", "encode", "quantize"]
