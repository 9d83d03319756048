"""`mxsafe diverge`."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.codec.profiles import PROFILES, divergence
from verif.cli.command import run


def test_diverge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.float32([[1.0, 0.5, 0.25, 0.125], [1.0, np.inf, 0.0, -0.0], [2.0, 1.0, 0.0, -0.0]])
    np.save(tmp_path / "x.npy", x)
    options = ["--profile", "torchao_floor", "--format", "mxfp4_e2m1", "--block", "2"]
    assert run("diverge", tmp_path / "x.npy", *options) == 0
    expected = str(divergence(x, "torchao_floor", "mxfp4_e2m1", block=2))
    assert capsys.readouterr().out == expected + "\n"
    assert "1 of 6 blocks differ" in expected
    assert run("diverge", tmp_path / "x.npy", *options, "--axis", "0") == 1
    assert "x.npy: block must divide 3 for profile torchao_floor" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", x=x)
    assert run("diverge", tmp_path / "x.npz", *options) == 1
    assert "must hold one .npy array, not an archive" in capsys.readouterr().err
    assert run("diverge", "--list") == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[::2]] == list(PROFILES)
