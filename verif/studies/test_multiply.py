"""``python -m studies.multiply``: what it refuses, before anything is simulated."""

from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from studies import multiply
from verif.rtl.array.array_job import Product, Result
from verif.support.manifest import Module


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with matrices that fit each other and arrays that do not."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    shapes = {"a": (3, 8), "w": (8, 2), "flat": (8,), "empty": (8, 0)}
    for name, shape in (shapes | {"deep": (1, 4100), "high": (4100, 1)}).items():
        np.save(f"{name}.npy", rng.standard_normal(shape))
    np.save("words.npy", np.array([["one", "two"]]))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("a.npy", 2, "two matrices are needed, or none"),
        ("a.npy w.npy --block 0", 2, "must be a length such as 64 or a tile such as 8x8, not '0'"),
        (
            "a.npy w.npy --block 128",
            1,
            "multiply: a must have blocks of at most 64 in k, which the array's sums hold, not 128",
        ),
        ("no.npy w.npy", 1, "multiply: cannot read no.npy: No such file or directory"),
        ("a.npy a.npy", 1, "multiply: w must have the 8 rows that a has columns, not 3"),
        (
            "flat.npy w.npy",
            1,
            "multiply: flat.npy must hold a matrix that is not empty, not the shape (8,)",
        ),
        (
            "a.npy empty.npy",
            1,
            "multiply: empty.npy must hold a matrix that is not empty, not the shape (8, 0)",
        ),
        ("words.npy w.npy", 1, "multiply: words.npy: "),
    ],
)
def test_errors(
    arguments: str,
    code: int,
    message: str,
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        got = multiply.main(arguments.split())
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        got = stop.code
    assert got == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert message in last


def test_every_bit_is_compared(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = 0

    def simulated(simulator: str, module: Module, products: list[Product]) -> Result:
        ((a, w),) = products
        product = mx.matmul(a, w)
        product.view(np.uint32)[2, 1] ^= changed
        return Result([product], 1, 4, 2, np.zeros(3, bool), np.zeros(3, bool))

    monkeypatch.setattr(multiply, "run_products", simulated)
    command = ["a.npy", "w.npy", "--arithmetic", "fp12", "--block", "8x8"]
    assert multiply.main(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 x 8 x 2 on mxsf_sta, blocks of (8, 8)\ntiles        1\n")
    assert "utilisation  50.0%" in said
    changed = 1
    assert multiply.main(command) == 1
    assert "mxsf_sta: the product must be that of mx.matmul" in capsys.readouterr().err
