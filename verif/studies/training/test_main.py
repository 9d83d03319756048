"""The command: what it writes, and its errors."""

import json
import re
from pathlib import Path

import pytest

from studies.training import comparison, data
from studies.training.__main__ import main


def run(*arguments: str | Path) -> int:
    """Exit code of the command."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:
        assert isinstance(stop.code, int)
        return stop.code


@pytest.mark.variant
def test_settings_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparison, "SCRATCH", tmp_path / "kept")
    options = {"hidden": 8, "block": 32, "epochs": 1, "batch": 479, "rate": 0.5, "seeds": 1}
    given = [f"--{name}={value}" for name, value in options.items()]
    out = tmp_path / "out"
    assert run(*given, "--jobs=1", "--out", out) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "training.json",
        "training.md",
        "training.svg",
    ]
    (experiment,) = json.loads((out / "training.json").read_text())["experiments"]
    assert len(experiment["runs"]) == 8
    assert experiment["setting"] == {
        "data": "digits",
        "hidden": [8],
        "block": 32,
        "epochs": 1,
        "batch": 479,
        "optimiser": {"name": "Optimiser", "rate": 0.5, "momentum": 0.9},
        "weights": [1.0],
    }
    page = (out / "training.md").read_text()
    paragraph = page.split("\n\n")[1]
    assert " ".join(paragraph.splitlines()) == (
        "digits, hidden layers of 8, blocks of 1x32, batches of 479, 1 epoch, "
        "SGD with a rate of 0.5 and a momentum of 0.9, 1 seed."
    )
    assert "±" not in page
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 8
    assert captured.out.startswith("float32     float32  seed 0  ")
    assert "8 of 8 trainings, " in captured.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "3"], "--out must name a folder when there are settings of one's own"),
        (["--block", "8x16"], "--block must be a length or a square tile, not 8x16"),
        (["--block", "6"], "--block must be a multiple of 4, the lanes of fp12, not 6"),
        (["--batch", "1438"], "--batch must be at most the 1437 images, not 1438"),
    ],
)
def test_errors(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [] if "--out" in message else ["--out", tmp_path / "out"]
    assert run(*options, *where) == 2
    assert capsys.readouterr().err == f"training: {message}\n"
    assert not (tmp_path / "out").exists()


def test_out_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert run("--out", file) == 2
    message = f"training: --out must be a folder, not the file {file}\n"
    assert capsys.readouterr().err == message


def test_diverging(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--epochs=1", "--seeds=1", "--hidden=8", "--batch=479", "--rate=1e30")
    assert run(*options, "--out", tmp_path / "out") == 1
    message = capsys.readouterr().err.splitlines()[-1].split("\r")[-1]
    assert re.fullmatch(
        r"training: \w+ with \w+, seed 0: the loss must stay finite, "
        r"it needs a lower --rate than 1e\+30",
        message,
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epochs", "0", "must be a positive integer, not '0'"),
        ("--hidden", "64,x", "must be a positive integer, not 'x'"),
        ("--rate", "-1", "must be a positive number, not '-1'"),
        ("--rate", "inf", "must be a positive number, not 'inf'"),
        ("--block", "8x", "must be a length such as 64 or a tile such as 8x8, not '8x'"),
    ],
)
def test_values(option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{option}={value}") == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"python -m studies.training: error: argument {option}: {message}"
    )


def test_missing_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none"
    monkeypatch.setitem(data.DATASETS, "fashion-mnist", lambda: data.load_fashion_mnist(missing))
    assert run("--data", "fashion-mnist", "--out", tmp_path / "out") == 1
    assert capsys.readouterr().err == (
        f"training: fashion-mnist must be in {missing}: apt-get install dataset-fashion-mnist\n"
    )
    assert not (tmp_path / "out").exists()
