"""A slice of a real layer: input activations and weights of MiniLM's first feed-forward matrix."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["load"]


def load() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Activations (tokens, k) and weights (k, features), float32."""
    with np.load(Path(__file__).parent / "layer0_ffn.npz") as archive:
        return archive["activations"], archive["weights"]
