"""Images to learn from, split into those to train on and those to test with."""

import gzip
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mxsafe.cli.arguments import UserError
from verif.data import digits

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package ``dataset-fashion-mnist`` puts its files."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Labelled images.

    Attributes
    ----------
    train_inputs, test_inputs : ndarray of float32, shape (images, pixels)
        Pixels from 0 to 1.
    train_labels, test_labels : ndarray of int64, shape (images,)
        Classes from 0.
    classes : int
        Number of classes.
    """

    train_inputs: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_inputs: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    classes: int


def load_digits() -> Dataset:
    """Handwritten digits, 64 pixels: every fifth of the 1,797 to test with, from the first on."""
    pixels, labels = digits.load()
    inputs = pixels.astype(np.float32) / np.float32(16)
    test = np.arange(len(labels)) % 5 == 0
    return Dataset(
        train_inputs=inputs[~test],
        train_labels=labels[~test].astype(np.int64),
        test_inputs=inputs[test],
        test_labels=labels[test].astype(np.int64),
        classes=10,
    )


def _read_idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """Bytes of a gzipped IDX file: two zeros, 8 for bytes, the rank, the shape, the elements."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError) as error:
        raise UserError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    start = 4 + 4 * rank
    shape = struct.unpack(f">{rank}I", content[4:start].ljust(4 * rank, b"\0"))
    if content[:4] != bytes((0, 0, 8, rank)) or len(content) != start + math.prod(shape):
        raise UserError(f"{path} must be an IDX file of bytes of rank {rank}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def load_fashion_mnist(folder: Path = FASHION_MNIST) -> Dataset:
    """Clothes, 784 pixels: 60,000 images to train on and 10,000 to test with.

    Parameters
    ----------
    folder : Path
        Where the four files are, gzipped, under their usual names.

    Raises
    ------
    UserError
        If a file is missing, which the message says how to mend, or holds something else.
    """
    if not folder.is_dir():
        raise UserError(f"fashion-mnist must be in {folder}: apt-get install dataset-fashion-mnist")
    parts: dict[str, NDArray[np.uint8]] = {}
    for part in ("train", "t10k"):
        images = _read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
        parts[f"{part} images"] = images.reshape(len(images), -1)
        parts[f"{part} labels"] = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    return Dataset(
        train_inputs=parts["train images"].astype(np.float32) / np.float32(255),
        train_labels=parts["train labels"].astype(np.int64),
        test_inputs=parts["t10k images"].astype(np.float32) / np.float32(255),
        test_labels=parts["t10k labels"].astype(np.int64),
        classes=10,
    )


DATASETS: Mapping[str, Callable[[], Dataset]] = {
    "digits": load_digits,
    "fashion-mnist": load_fashion_mnist,
}
