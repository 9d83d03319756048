"""Files such as those of Fashion-MNIST, with images that can be learnt at a glance."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.uint8]]


def write_idx(path: Path, numbers: NDArray[np.uint8]) -> None:
    """Write bytes as a compressed idx file."""
    sizes = np.array(numbers.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(b"\0\0\x08" + bytes([numbers.ndim]) + sizes + numbers.tobytes()))


def write_images(folder: Path, training: int, testing: int) -> tuple[Arrays, Arrays]:
    """Write the four files: noise, with a bright bar whose place is the class.

    Returns
    -------
    pixels, labels : dict
        By part, ``train`` and ``test``.
    """
    rng = np.random.default_rng(7)
    pixels, labels = {}, {}
    for part, stem, count in (("train", "train", training), ("test", "t10k", testing)):
        classes = rng.integers(0, 10, count, np.uint8)
        images = rng.integers(0, 60, (count, 28, 28), np.uint8)
        for image, label in zip(images, classes, strict=True):
            image[:, 2 * label + 4 : 2 * label + 8] += 180
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", classes)
        pixels[part], labels[part] = images, classes
    return pixels, labels
