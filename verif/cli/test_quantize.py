"""`mxsafe quantize`."""

from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from verif.cli.command import run, run_in
from verif.support.quantized import assert_same


@pytest.mark.parametrize("block", [None, "16", "8x8"])
def test_quantize_and_back(block: str | None, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((20, 70)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    extra = ["--block", block] if block else []
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz", *extra) == 0
    assert run("dequantize", tmp_path / "q.npz", tmp_path / "y.npy") == 0
    shape = {None: 64, "16": 16, "8x8": (8, 8)}[block]
    expected = mx.dequantize(mx.quantize(x, block=shape))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.npz", "x.npy", "y.npy"]


def test_quantize_options(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((8, 8))
    np.save(tmp_path / "x.npy", x)
    options = "--format mxfp8_e4m3 --block 4 --axis 0 --rounding sr --seed 7 --scale-mode rceil"
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz", *options.split()) == 0
    expected = mx.quantize(
        x, "mxfp8_e4m3", block=4, axis=0, rounding="sr", scale_mode="rceil", random=7
    )
    assert_same(mx.load(tmp_path / "q.npz"), expected)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_nvfp4_and_back(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(3).standard_normal((20, 70)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    container = tmp_path / f"q{suffix}"
    assert run("quantize", tmp_path / "x.npy", container, "--format", "nvfp4") == 0
    assert capsys.readouterr().out == f"{container}: 1400 elements of nvfp4 in 100 blocks\n"
    expected = mx.quantize(x, "nvfp4")
    assert mx.load(container).tensor_scale == expected.tensor_scale
    assert run("dequantize", container, tmp_path / "y.npy") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), mx.dequantize(expected))


def test_failed_write_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    (tmp_path / "taken.npz").mkdir()
    assert run("quantize", tmp_path / "x.npy", tmp_path / "taken.npz") == 1
    assert "cannot write" in capsys.readouterr().err
    assert run("quantize", tmp_path / "x.npy", tmp_path / "nowhere" / "q.npz") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.npz", "x.npy"]


def test_links_stay_links(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    (tmp_path / "there").mkdir()
    (tmp_path / "q.npz").symlink_to(tmp_path / "there" / "q.npz")
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz") == 0
    assert (tmp_path / "q.npz").is_symlink()
    assert (tmp_path / "there" / "q.npz").is_file()
    (tmp_path / "null.npz").symlink_to("/dev/null")
    assert run("quantize", tmp_path / "x.npy", tmp_path / "null.npz") == 1


def test_a_file_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("1, 2, 3\n")
    assert run_in(tmp_path, "quantize", "text", "q.npz") == 1
    assert capsys.readouterr() == ("", "mxsafe: cannot read text: not a .npy file of numbers\n")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
