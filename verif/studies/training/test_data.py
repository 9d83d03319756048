"""The images: what is in the files, how they are split, and errors."""

import gzip
import struct
from pathlib import Path

import numpy as np

from mxsafe.cli.arguments import UserError
from studies.training import data
from verif.data import digits
from verif.support.tests import raises

DIGITS = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)
"""Images of each digit, as UCI's page on the data set counts them."""


def test_digits_are_those_of_the_source() -> None:
    pixels, labels = digits.load()
    assert pixels.shape == (1797, 64)
    assert (pixels.min(), pixels.max()) == (0, 16)
    assert tuple(np.bincount(labels)) == DIGITS
    readme = (Path(digits.__file__).parent / "README.md").read_text()
    assert "| images | " + " | ".join(map(str, DIGITS)) + " |" in readme
    share = np.mean(pixels == 0)
    assert (
        f"The mean pixel is {pixels.mean():.2f}, the standard deviation {pixels.std():.2f}; "
        f"{share:.1%} of the pixels are zero.".replace("%", " %")
        in readme
    )


def test_digits_are_split() -> None:
    loaded = data.load_digits()
    assert (loaded.train_inputs.shape, loaded.test_inputs.shape) == ((1437, 64), (360, 64))
    pixels, labels = digits.load()
    np.testing.assert_array_equal(loaded.test_inputs * 16, pixels[::5])
    np.testing.assert_array_equal(loaded.train_inputs[:4] * 16, pixels[1:5])
    np.testing.assert_array_equal(loaded.train_labels[:4], labels[1:5])
    np.testing.assert_array_equal(loaded.test_labels, labels[::5])
    together = np.concatenate([loaded.train_labels, loaded.test_labels])
    assert tuple(np.bincount(together)) == DIGITS
    assert loaded.train_inputs.dtype == np.float32
    assert loaded.train_labels.dtype == np.int64


def write_idx(path: Path, array: np.ndarray) -> None:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def test_fashion_mnist_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = {part: rng.integers(0, 256, (3, 28, 28), np.uint8) for part in ("train", "t10k")}
    for part, array in images.items():
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", array)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.uint8([9, 0, 3]))
    loaded = data.load_fashion_mnist(tmp_path)
    assert loaded.train_inputs.shape == (3, 784)
    np.testing.assert_array_equal(
        loaded.test_inputs[1], images["t10k"][1].ravel() / np.float32(255)
    )
    assert loaded.train_labels.tolist() == [9, 0, 3]


def test_fashion_mnist_errors(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with raises(
        UserError, f"fashion-mnist must be in {missing}: apt-get install dataset-fashion-mnist"
    ):
        data.load_fashion_mnist(missing)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    with raises(UserError, f"cannot read {path}: No such file or directory"):
        data.load_fashion_mnist(tmp_path)
    path.write_bytes(b"text")
    with raises(UserError, f"cannot read {path}: Not a gzipped file (b'te')"):
        data.load_fashion_mnist(tmp_path)
    for content in (np.zeros(3, np.uint8), np.zeros((2, 28), np.uint8)):
        write_idx(path, content)
        with raises(UserError, f"{path} must be an IDX file of bytes of rank 3"):
            data.load_fashion_mnist(tmp_path)
    path.write_bytes(gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, 1, 2, 2) + b"abc"))
    with raises(UserError, f"{path} must be an IDX file of bytes of rank 3"):
        data.load_fashion_mnist(tmp_path)
