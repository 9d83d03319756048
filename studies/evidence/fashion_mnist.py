"""Fashion-MNIST as Debian's package ``dataset-fashion-mnist`` installs it: 70,000 labelled images.

The environment variable ``FASHION_MNIST`` names another folder with the same four files, which are
those of https://github.com/zalandoresearch/fashion-mnist.
"""

import gzip
import math
import os
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
IMAGES = {"train": 60_000, "test": 10_000}
_STEMS = {"train": "train", "test": "t10k"}
_MEAN, _SPREAD = 0.2860, 0.3530
"""Of the training images' pixels, which go from 0 to 1."""


def folder() -> Path:
    """Where the files are.

    Raises
    ------
    FileNotFoundError
        If they are not there; the message says where to get them.
    """
    found = Path(os.environ.get("FASHION_MNIST", DEBIAN))
    if not (found / "train-images-idx3-ubyte.gz").is_file():
        raise FileNotFoundError(
            f"FASHION_MNIST must name the folder of train-images-idx3-ubyte.gz, not {found}; "
            "Debian's package dataset-fashion-mnist installs it"
        )
    return found


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Bytes of a compressed idx file, in their shape.

    Raises
    ------
    ValueError
        If it is not an idx file of bytes, or its length is not that of its shape.
    """
    with gzip.open(path) as file:
        content = file.read()
    rank = content[3] if len(content) > 3 else 0
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * rank:
        raise ValueError(f"path must be an idx file of bytes, not {path}")
    shape = tuple(map(int, np.frombuffer(content, ">u4", rank, 4)))
    if len(content) != 4 + 4 * rank + math.prod(shape):
        raise ValueError(f"path must hold the {math.prod(shape)} bytes it promises, not {path}")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


Images = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Pixels, shape (count, 1, 28, 28), and classes from 0 to 9."""


def read(part: str, count: int | None = None) -> Images:
    """Images whose pixels have mean 0 and variance 1 over the training images, and labels.

    Parameters are those of `pixels`.
    """
    images, labels = pixels(part, count)
    return ((images - _MEAN) / _SPREAD).astype(np.float32), labels


def pixels(part: str, count: int | None = None) -> Images:
    """Images whose pixels go from 0 to 1, and labels.

    Parameters
    ----------
    part : {"train", "test"}
        Which.
    count : int, optional
        The first so many images instead of all.
    """
    if part not in IMAGES:
        raise ValueError(f"part must be train or test, not {part!r}")
    if count is not None and not 1 <= count <= IMAGES[part]:
        raise ValueError(f"count must be from 1 to {IMAGES[part]}, not {count}")
    return _read(folder(), part, count)


@lru_cache(maxsize=2)
def _read(where: Path, part: str, count: int | None) -> Images:
    stem = where / _STEMS[part]
    images = read_idx(Path(f"{stem}-images-idx3-ubyte.gz"))[:count, None]
    labels = read_idx(Path(f"{stem}-labels-idx1-ubyte.gz"))[:count]
    return images.astype(np.float32) / np.float32(255), labels.astype(np.int64)
