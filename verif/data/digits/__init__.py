"""Handwritten digits: the test set of UCI's "Optical Recognition of Handwritten Digits"."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def load() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pixels from 0 to 16, shape (1797, 64), rows of 8 one after the other, and labels, (1797,)."""
    with np.load(Path(__file__).parent / "digits.npz") as archive:
        return archive["pixels"], archive["labels"]
