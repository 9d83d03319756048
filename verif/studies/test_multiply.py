"""``python -m studies.multiply``: what it refuses, before anything is simulated."""

from pathlib import Path

import numpy as np
import pytest

from studies import multiply
from verif.support.tests import available


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
            2,
            "multiply: --block must be at most 64, which the array's sums hold, not 128",
        ),
        (
            "a.npy w.npy --arithmetic fp12 --block 6",
            2,
            "multiply: --block must be a multiple of the array's 4 lanes for fp12, not 6",
        ),
        (
            "a.npy w.npy --block 8x4",
            2,
            "multiply: --block must be a length or a square tile, not 8x4: "
            "the operands would not have the same blocks in k",
        ),
        (
            "deep.npy high.npy --arithmetic window",
            1,
            "multiply: deep.npy: a must have tiles of at most 1024 beats, which the array's sums "
            "hold, not 1025",
        ),
        ("no.npy w.npy", 1, "multiply: cannot read no.npy: No such file or directory"),
        (
            "a.npy a.npy",
            1,
            "multiply: a.npy must have the 8 rows that a.npy has columns, not 3",
        ),
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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delattr(multiply, "run_with_progress")
    try:
        got = multiply.main(arguments.split())
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        got = stop.code
    assert got == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert message in last


def test_a_failed_simulation_is_shown(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    available("verilator")

    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("verif.bench.array failed on verilator:\ntile 1 of 1 never came out")

    monkeypatch.setattr(multiply, "run_products", fail)
    assert multiply.main(["a.npy", "w.npy"]) == 1
    assert capsys.readouterr().err.endswith(
        "multiply: verif.bench.array failed on verilator:\ntile 1 of 1 never came out\n"
    )
