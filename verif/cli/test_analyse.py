"""`mxsafe analyse`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.analysis.errors import draw_tensor, tensor_error
from mxsafe.analysis.report import aligned, tensor_rows
from verif.cli.command import run


def test_analyse_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(3).standard_normal((20, 70)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    options = "--format mxsf --format mxint8 --block 16 --axis 0 --scale-mode even --rounding rna"
    assert run("analyse", tmp_path / "x.npy", "--distribution", "uniform", *options.split()) == 0
    expected = {
        title: [
            tensor_error(t, name, block=16, axis=0, scale_mode="even", rounding="rna")
            for name in ("mxsf", "mxint8")
        ]
        for title, t in ((str(tmp_path / "x.npy"), x), ("uniform", draw_tensor("uniform")))
    }
    assert capsys.readouterr().out == aligned(tensor_rows(expected), labels=3) + "\n"
    options = "--format mxfp4_e2m1 --rounding sr --seed 3 --block 8x8"
    assert run("analyse", tmp_path / "x.npy", *options.split()) == 0
    seeded = tensor_error(x, "mxfp4_e2m1", block=(8, 8), rounding="sr", random=3)
    rows = tensor_rows({str(tmp_path / "x.npy"): [seeded]})
    assert capsys.readouterr().out == aligned(rows, labels=3) + "\n"


def test_analyse_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyse") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["gap", *mx.BLOCK_FORMATS]
    assert lines[13].split()[:3] == ["12", "38.642%", "zero"]
    assert len(lines) == 21


def test_analyse_nvfp4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = draw_tensor("normal", (48, 64))
    np.save(tmp_path / "x.npy", x)
    title = str(tmp_path / "x.npy")
    every = [tensor_error(x, name, block=64) for name in mx.MX_FORMATS]
    wanted = {title: [*every, tensor_error(x, "nvfp4", block=16)]}
    assert run("analyse", tmp_path / "x.npy") == 0
    assert capsys.readouterr().out == aligned(tensor_rows(wanted), labels=3) + "\n"
    # Of a scale mode those formats are shown that have it.
    assert run("analyse", tmp_path / "x.npy", "--scale-mode", "floor") == 0
    assert capsys.readouterr().out == aligned(tensor_rows({title: every}), labels=3) + "\n"
    assert run("analyse", tmp_path / "x.npy", "--format", "nvfp4", "--scale-mode", "even") == 1
    message = f"mxsafe: {title}: scale_mode must be nearest for nvfp4, not 'even'\n"
    assert capsys.readouterr().err == message


def test_analyse_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("analyse", "--distribution", "normal", "--out", out) == 0
    names = ["errors.json", "errors.md", "gap.svg", "tensors.svg"]
    assert capsys.readouterr().out.splitlines()[-4:] == [f"  {out / name}" for name in names]
    assert sorted(path.name for path in out.iterdir()) == names
    (tmp_path / "file").write_text("")
    assert run("analyse", "--format", "mxsf", "--out", tmp_path / "file") == 1
    message = f"mxsafe: cannot write to {tmp_path / 'file'}: "
    assert capsys.readouterr().err.startswith(message)


def test_analyse_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest),
    )
    assert run("analyse", "--out", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert captured.err == "mxsafe: --out needs matplotlib: pip install '.[figures]'\n"
    assert captured.out == ""
    assert not list(tmp_path.iterdir())
    assert run("analyse", "--format", "mxsf") == 0  # the table alone needs none
