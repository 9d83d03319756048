"""Runs of the tests with counters: what was run is left out, and what fails is told."""

from pathlib import Path

import pytest

from studies.coverage import runs


@pytest.fixture
def _two_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("good", "pass"), ("bad", "raise ValueError")):
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    {text}\n")
    option = 'parser.addoption("--variants", action="store_true")'
    (tmp_path / "conftest.py").write_text(f"def pytest_addoption(parser):\n    {option}\n")
    files = {name: [tmp_path / f"test_{name}.py"] for name in ("good", "bad")}
    monkeypatch.setattr(runs, "groups", lambda: files)


@pytest.mark.usefixtures("_two_groups")
def test_it_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "coverage"
    found = runs.run(folder, 0)
    assert next(found) == ("good", 1, 2)
    assert next(found) == ("bad", 2, 2)
    with pytest.raises(AssertionError, match=r"^tests of bad failed; see .*/bad/log$"):
        next(found)
    assert "ValueError" in (folder / "bad" / "log").read_text()
    assert next(runs.run(folder, 1)) == ("bad", 1, 1)
    monkeypatch.setattr(runs, "_digest", lambda: "other sources")
    assert next(runs.run(folder, 1)) == ("good", 1, 2)
    assert next(runs.run(folder, 1, kept=True)) == ("bad", 1, 1)


@pytest.mark.usefixtures("_two_groups")
def test_what_was_run(tmp_path: Path) -> None:
    assert runs.summary(tmp_path / "nowhere")["not_run"] == ["good", "bad"]
    found = runs.run(tmp_path, 0)
    assert [next(found) for _ in range(2)] == [("good", 1, 2), ("bad", 2, 2)]
    summary = runs.summary(tmp_path)
    assert (summary["tests"], summary["folders"], summary["not_run"]) == (1, 1, ["bad"])
    assert summary["until"] > "2026"


def test_every_test_is_in_a_group() -> None:
    groups = runs.groups()
    assert Path(__file__) in groups["verif/studies/coverage"]
    assert len(groups) > 20
