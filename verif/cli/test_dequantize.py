"""`mxsafe dequantize`."""

from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from verif.cli.command import run


def test_safetensors_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = mx.quantize(np.ones((2, 64), np.float32), "mxfp4_e2m1")
    mx.save(tmp_path / "two.safetensors", {"a": q, "b": q})
    assert run("dequantize", tmp_path / "two.safetensors", tmp_path / "y.npy") == 1
    assert "name must be one of a, b in " in capsys.readouterr().err
    assert run("dequantize", tmp_path / "two.safetensors", tmp_path / "y.npy", "--name", "b") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.ones((2, 64)))


def test_damaged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 64), np.float32))
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz") == 0
    whole = (tmp_path / "q.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[:100])
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "other.npz", codes=np.zeros(3))
    np.save(tmp_path / "whole.npy", np.arange(5))
    (tmp_path / "array.npz").write_bytes((tmp_path / "x.npy").read_bytes())
    for name, position in (("flip1.npz", len(whole) // 4), ("flip2.npz", len(whole) // 2)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        (tmp_path / name).write_bytes(damaged)
    for name in ("short.npz", "text.npz", "other.npz", "array.npz", "flip1.npz", "flip2.npz"):
        assert run("dequantize", tmp_path / name, tmp_path / "y.npy") == 1
        assert name in capsys.readouterr().err
    for name in ("q.npz", "whole.npy"):
        assert run("quantize", tmp_path / name, tmp_path / "z.npz") == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "y.npy").exists()
    assert not (tmp_path / "z.npz").exists()
