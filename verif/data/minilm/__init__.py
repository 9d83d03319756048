"""A real layer: operands of MiniLM's first feed-forward matrix, and inputs of its functions."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Vectors:
    """Inputs of the vector functions of the layer, all float32.

    Attributes
    ----------
    scores : ndarray, shape (heads, tokens, tokens)
        Before scale and softmax.
    hidden : ndarray, shape (tokens, 384)
        Before the layer normalisation behind the attention.
    preactivations : ndarray, shape (rows, 1536)
        Before GELU.
    """

    scores: NDArray[np.float32]
    scale: np.float32
    hidden: NDArray[np.float32]
    gain: NDArray[np.float32]
    bias: NDArray[np.float32]
    epsilon: np.float32
    preactivations: NDArray[np.float32]


def load_vectors() -> Vectors:
    """Return the vectors that `make_vectors` recorded."""
    with np.load(_FOLDER / "layer0_vectors.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    scale, epsilon = (parts.pop(name)[()] for name in ("scale", "epsilon"))
    return Vectors(scale=scale, epsilon=epsilon, **parts)


def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A slice: activations (64 tokens, k) and weights (k, 96 features), float32."""
    with np.load(_FOLDER / "layer0_ffn.npz") as archive:
        return archive["activations"], archive["weights"]


def load_training() -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """X and W of `load`, and dY: the gradient of half the squared error of their product.

    The product is that of MXSF in tiles of 8x8 with exact sums, and its error is against float32.
    """
    x, w = load()
    y = mx.matmul(*(mx.quantize(values, block=(8, 8)) for values in (x, w)), arithmetic="exact")
    return x, w, (y - x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32)


def load_whole_layer() -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    """The whole layer in MXSF, blocks of 64: activations (128, 384) and weights (384, 1536)."""
    with np.load(_FOLDER / "layer0_ffn_mxsf.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    fmt = mx.MX_FORMATS["mxsf"]
    return (
        mx.QuantizedTensor(parts["a_codes"], parts["a_scales"], fmt, 64, -1),
        mx.QuantizedTensor(parts["w_codes"], parts["w_scales"], fmt, 64, -2),
    )
