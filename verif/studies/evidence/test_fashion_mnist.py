"""The reader of Fashion-MNIST, on files made here."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from studies.evidence import fashion_mnist
from verif.studies.fashion_mnist import write_idx, write_images
from verif.support.tests import raises


def test_images_and_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels, classes = write_images(tmp_path, 12, 5)
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path))
    images, labels = fashion_mnist.read("train", 7)
    assert images.shape == (7, 1, 28, 28)
    assert (images.dtype, labels.dtype) == (np.dtype(np.float32), np.dtype(np.int64))
    np.testing.assert_array_equal(labels, classes["train"][:7])
    expected = (pixels["train"][:7] / 255 - 0.2860) / 0.3530
    np.testing.assert_allclose(images[:, 0], expected, rtol=1e-6, atol=1e-6)
    assert len(fashion_mnist.read("test")[1]) == 5


def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASHION_MNIST", str(tmp_path))
    message = (
        "FASHION_MNIST must name the folder of train-images-idx3-ubyte.gz, not "
        f"{tmp_path}; Debian's package dataset-fashion-mnist installs it"
    )
    with raises(FileNotFoundError, message):
        fashion_mnist.read("train", 1)


@pytest.mark.parametrize(
    ("part", "count", "message"),
    [
        ("valid", None, "part must be train or test, not 'valid'"),
        ("test", 0, "count must be from 1 to 10000, not 0"),
        ("train", 60_001, "count must be from 1 to 60000, not 60001"),
    ],
)
def test_bad_arguments(part: str, count: int | None, message: str) -> None:
    with raises(ValueError, message):
        fashion_mnist.read(part, count)


@pytest.mark.parametrize(
    ("content", "requirement"),
    [
        (b"", "be an idx file of bytes"),
        (b"\0\0\x0d\1\0\0\0\1\0", "be an idx file of bytes"),
        (b"\0\0\x08\3\0\0\0\1", "be an idx file of bytes"),
        (b"\0\0\x08\1\0\0\0\2\0", "hold the 2 bytes it promises"),
        (b"\0\0\x08\1\0\0\0\1\0\0", "hold the 1 bytes it promises"),
    ],
)
def test_damaged_files(content: bytes, requirement: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(content))
    with raises(ValueError, f"path must {requirement}, not {path}"):
        fashion_mnist.read_idx(path)


def test_any_shape(tmp_path: Path) -> None:
    numbers: NDArray[np.uint8] = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    write_idx(tmp_path / "numbers.gz", numbers)
    np.testing.assert_array_equal(fashion_mnist.read_idx(tmp_path / "numbers.gz"), numbers)
