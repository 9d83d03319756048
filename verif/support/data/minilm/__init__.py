"""A real layer: input activations and weights of MiniLM's first feed-forward matrix."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx

__all__ = ["load", "load_whole_layer"]

_FOLDER = Path(__file__).parent


def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A slice: activations (64 tokens, k) and weights (k, 96 features), float32."""
    with np.load(_FOLDER / "layer0_ffn.npz") as archive:
        return archive["activations"], archive["weights"]


def load_whole_layer() -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    """The whole layer in MXSF, blocks of 64: activations (128, 384) and weights (384, 1536)."""
    with np.load(_FOLDER / "layer0_ffn_mxsf.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    fmt = mx.MX_FORMATS["mxsf"]
    return (
        mx.QuantizedTensor(parts["a_codes"], parts["a_scales"], fmt, 64, -1),
        mx.QuantizedTensor(parts["w_codes"], parts["w_scales"], fmt, 64, -2),
    )
