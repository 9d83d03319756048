"""The program: what it refuses, how it goes on, and when it fails."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from studies.function_errors import __main__ as program
from studies.function_errors import record
from studies.function_errors.__main__ import main
from studies.function_errors.errors import Worst
from studies.function_errors.lanes import Lane
from studies.function_errors.models import MODELS
from studies.function_errors.promises import BrokenPromiseError
from studies.function_errors.sweep import FIELDS, Found

_WORST = Worst(0.75, 0x3F800001)


class _Examined:
    """In place of `examine`: says what is found at once, and what has been asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.stop_after = 10**6
        self.broken: dict[tuple[str, int], Found | BrokenPromiseError] = {}

    def __call__(self, name: str, field: int, known: Worst, lanes: Sequence[Lane]) -> Found:
        if len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        assert not lanes
        self.asked.append((name, field))
        found = self.broken.get((name, field))
        if isinstance(found, BrokenPromiseError):
            raise found
        worst = _WORST if field == 200 else Worst(0.5, 3)
        return found or Found(known.over(worst), 1 << 24, 1, 0.25)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Examined:
    """Nothing is swept; threads stand for processes; published results are elsewhere."""
    fake = _Examined()
    monkeypatch.setattr(program, "examine", fake)
    monkeypatch.setattr(program, "lanes_of", lambda name: [])  # none has to be compiled
    monkeypatch.setattr(program, "sample", lambda name: Worst(0.25, 1))
    results = tmp_path / "results.json"
    monkeypatch.setattr(program, "RESULTS", results)
    for function in (record.published, record.write_published):
        monkeypatch.setattr(function, "__defaults__", (results,))
    monkeypatch.setattr(
        program, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count)
    )
    monkeypatch.chdir(tmp_path)
    return fake


def _run(*arguments: str) -> int:
    return main([*arguments, "--state", "state.json", "--processes", "2"])


def test_results_are_published(examined: _Examined, tmp_path: Path) -> None:
    assert _run("gelu", "relu") == 0
    assert sorted(examined.asked) == sorted((n, f) for n in ("gelu", "relu") for f in range(FIELDS))
    found = record.published()
    assert list(found) == ["relu", "gelu"]
    assert found["gelu"]["error"] == 0.75
    assert found["gelu"]["argument"] == "0x3f800001"
    assert found["gelu"]["arguments"] == 1 << 32
    assert found["gelu"]["seconds"] == 64.0
    assert not (tmp_path / "state.json").exists()


def test_what_was_interrupted_goes_on(examined: _Examined, tmp_path: Path) -> None:
    """In the second function here: the first is done."""
    examined.stop_after = FIELDS + 100
    with pytest.raises(KeyboardInterrupt):
        _run("silu", "gelu")
    assert not record.published()
    before = set(examined.asked)
    assert (tmp_path / "state.json").exists()
    examined.asked.clear()
    examined.stop_after = 10**6
    assert _run("silu", "gelu") == 0
    assert len(examined.asked) < FIELDS - 90
    both = {(name, field) for name in ("silu", "gelu") for field in range(FIELDS)}
    assert before | set(examined.asked) == both
    for each in record.published().values():
        assert each["arguments"] == 1 << 32


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (BrokenPromiseError("gelu: it is odd"), "gelu: it is odd\n"),
        (
            Found(Worst(1.00000001, 9), 1 << 24),
            "gelu exceeds its bound: 1.00000001 of it at 0x00000009\n",
        ),
    ],
)
def test_what_is_not_kept_fails(
    broken: Found | BrokenPromiseError,
    message: str,
    examined: _Examined,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The function is left at once, others go on, and it begins anew the next time."""
    examined.broken["gelu", 20] = broken
    assert _run("gelu", "silu") == 1
    assert message in capsys.readouterr().out
    assert ("gelu", 60) not in examined.asked
    assert list(record.published()) == ["silu"]
    assert not (tmp_path / "state.json").exists()


def test_a_check_compares(examined: _Examined, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("gelu") == 0
    assert _run("gelu", "--check") == 0
    known: dict[str, Any] = record.published()
    known["gelu"]["error"] = 0.5
    record.write_published(known)
    assert _run("gelu", "--check") == 1
    assert "gelu: results are not those of" in capsys.readouterr().err
    assert record.published() == known


def test_progress_is_told(examined: _Examined, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("gelu") == 0
    told = capsys.readouterr().out.splitlines()
    assert "gelu: 0 exponents to go, 0.7500 of the bound at 0x3f800001; all: 256 of 256" in told[0]
    assert told[-1] == "gelu: 4,294,967,296, 0.7500 of the bound at 0x3f800001"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sine"], f"argument NAME: must be one of {', '.join(MODELS)}, not 'sine'"),
        (
            ["--processes", "0"],
            "argument --processes: must be a positive integer, not '0'",
        ),
        (
            ["--state", "nowhere/state"],
            "argument --state: must be a file in a folder that exists, not 'nowhere/state'",
        ),
        (["--state", "."], "argument --state: must be a file in a folder that exists, not '.'"),
        (["--state", "other"], "state must be a file of this program, not other"),
        (["--check", "gelu", "--state", "new"], "check needs results of gelu in "),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    message: str,
    examined: _Examined,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "other").write_text("no state")
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not examined.asked
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
