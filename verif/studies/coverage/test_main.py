"""The command: progress, what it writes, and what it says of a test that fails."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from studies.coverage import __main__ as command
from studies.coverage import reasons, record

SHARES = {"lines": [19, 20], "branches": [1, 2]}
RESULTS = {
    "run": {"tests": 3, "folders": 2, "until": "2026-01-02", "not_run": ["verif/cli"]},
    "library": {**SHARES, "packages": {"mxsafe.cli": SHARES}, "files_left": {}},
    "verilog": {
        "modules": {
            "fp12_packer": {
                "made_from": "arithmetic",
                **SHARES,
                "toggles": [3, 4],
                "constants": 5,
                "proved": 1,
                "elsewhere": 0,
                "left": {"1: x[3] ^": 1},
            }
        },
        "never_simulated": [],
    },
    "functional": {"errors": {"bins": 3, "left": ["read, load"]}},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for results, which are not measured."""
    monkeypatch.setattr(command, "library", lambda folder: RESULTS["library"])
    monkeypatch.setattr(command, "summary", lambda folder: RESULTS["run"])
    monkeypatch.setattr(command, "verilog", lambda folder, known, prove: RESULTS["verilog"])
    monkeypatch.setattr(command, "constants", lambda folder: {})
    monkeypatch.setattr(command.functional, "summary", lambda folder: RESULTS["functional"])
    monkeypatch.setattr(command.pages, "write", lambda name: None)
    monkeypatch.setattr(reasons, "REASONS", (("no module", "*", "nothing"),))
    place = tmp_path / "coverage.json"
    monkeypatch.setattr(record, "RESULTS", place)
    return place


def test_it_measures_and_writes(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(folder: Path, jobs: int, *, kept: bool) -> Iterator[tuple[str, int, int]]:
        assert (folder, jobs, kept) == (command.FOLDER, 3, True)
        yield "verif/cli", 1, 2

    monkeypatch.setattr(command, "run", run)
    assert command.main(["--jobs", "3", "--kept"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1/2 verif/cli, after 0 minutes\n")
    assert "19 of 20 (95.0 %)" in shown
    assert re.search(r"errors +3 +2 +0 +1\n", shown)
    assert "no place needs * in no module: *\n" in shown
    assert record.read() == RESULTS


def test_it_sums_up_what_was_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", None)
    assert command.main(["--no-run"]) == 0
    assert record.read() == RESULTS


def test_classes_alone_are_summed_up(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record.write({"run": RESULTS["run"]})
    assert command.main(["--functional", str(tmp_path)]) == 0
    assert record.read() == {"run": RESULTS["run"], "functional": RESULTS["functional"]}
    assert capsys.readouterr().out.endswith("errors: read, load\n")


def test_a_test_that_fails(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: Any, **__: Any) -> Iterator[tuple[str, int, int]]:
        yield "verif/cli", 1, 1
        raise AssertionError("tests of verif/cli failed; see log")

    monkeypatch.setattr(command, "run", run)
    assert command.main([]) == 1
    assert capsys.readouterr().out.endswith("minutes\ntests of verif/cli failed; see log\n")
    assert not place.exists()
