"""Runs: what is kept, what is made again, and what goes on after an interruption."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mxsafe.executors import workers
from studies.evidence import runs
from studies.evidence.runs import Run, RunError, execute, kept, load
from verif.support.tests import raises

HERE = "verif.studies.evidence.test_runs"


def measure(folder: Path, value: int, calls: str | None = None) -> dict[str, Any]:
    """A measurement that can fail, be interrupted, and says how often it was made."""
    if value < 0:
        raise ArithmeticError(f"no root of {value}")
    if value == 99:
        raise KeyboardInterrupt
    if calls is not None:
        with Path(calls).open("a") as file:
            file.write(f"{value} ")
    return {"square": value * value, "folder": folder.name}


def run(value: int, name: str = "", **more: Any) -> Run:
    return Run(name or f"kind/value-{value}", f"{HERE}:measure", {"value": value, **more})


def made(plan: list[Run], out: Path, jobs: int = 1) -> list[Any]:
    with workers(jobs) as where:
        return [result["numbers"] for result in execute(plan, out, where)]


def test_results_are_kept_and_not_made_again(tmp_path: Path) -> None:
    calls = str(tmp_path / "calls")
    plan = [run(value, calls=calls) for value in (3, 4)]
    lines: list[str] = []
    with workers() as where:
        first = execute(plan, tmp_path, where, progress=lines.append)
        assert [result["numbers"]["square"] for result in first] == [9, 16]
        assert first[0]["numbers"]["folder"] == "value-3"
        assert [line[:5] for line in lines] == ["[1/2]", "[2/2]"]
        assert lines[1].endswith("kind/value-4, 0 min 00 s left")
        lines.clear()
        assert execute(plan, tmp_path, where, progress=lines.append) == first
    assert lines == ["2 of 2 runs made before"]
    assert Path(calls).read_text() == "3 4 "
    assert load(plan, tmp_path) == first
    assert json.loads((tmp_path / "kind" / "value-3.json").read_text()) == first[0]
    assert first[0]["versions"]["mxsafe"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"numbers": 1}', '{"parameters": {"value": 3}}'], ids=repr
)
def test_other_files_are_no_results(tmp_path: Path, text: str) -> None:
    plan = run(3)
    (tmp_path / "kind").mkdir()
    (tmp_path / "kind" / "value-3.json").write_text(text)
    assert kept(plan, tmp_path) is None
    assert made([plan], tmp_path)[0]["square"] == 9


def test_other_parameters_are_another_run(tmp_path: Path) -> None:
    plan = run(3, name="same")
    assert made([plan], tmp_path)[0]["square"] == 9
    assert made([run(4, name="same")], tmp_path)[0]["square"] == 16
    assert kept(plan, tmp_path) is None
    other = replace(run(4, name="same"), function=f"{HERE}:other")
    assert kept(other, tmp_path) is None


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    calls = str(tmp_path / "calls")
    plan = [run(1, calls=calls), run(99), run(2, calls=calls)]
    with pytest.raises(KeyboardInterrupt):
        made(plan, tmp_path)
    assert kept(plan[0], tmp_path) is not None
    plan[1] = run(5, name="kind/value-99", calls=calls)
    assert [numbers["square"] for numbers in made(plan, tmp_path)] == [1, 25, 4]
    assert Path(calls).read_text() == "1 5 2 "


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made([run(3)], tmp_path)
    before = (tmp_path / "kind" / "value-3.json").read_text()

    def full(*args: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        made([run(4, name="kind/value-3")], tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "kind" / "value-3.json").read_text() == before
    assert [path.name for path in (tmp_path / "kind").iterdir()] == ["value-3.json"]


def test_a_failed_run_stops_no_other(tmp_path: Path) -> None:
    plan = [run(-1, name="bad"), run(2)]
    with raises(RunError, "bad: ArithmeticError: no root of -1"):
        made(plan, tmp_path)
    assert kept(plan[1], tmp_path) is not None
    assert kept(plan[0], tmp_path) is None


def test_processes_make_the_same(tmp_path: Path) -> None:
    plan = [run(value) for value in range(3)]
    assert [numbers["square"] for numbers in made(plan, tmp_path, jobs=2)] == [0, 1, 4]


def test_refusals(tmp_path: Path) -> None:
    for given, message in (
        ({"name": "A b"}, "name must be words of a-z, 0-9 with / between, not 'A b'"),
        ({"name": "../x"}, "name must be words of a-z, 0-9 with / between, not '../x'"),
        ({"function": "here"}, "function must be module:name, not 'here'"),
    ):
        with raises(ValueError, message):
            Run(**{"name": "n", "function": "m:f", **given})
    with raises(ValueError, "names of runs must differ, not kind/value-1 twice"):
        made([run(1), run(2, name="kind/value-1")], tmp_path)


def test_the_time_left_is_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    plan = [replace(run(value), cost=cost) for value, cost in ((1, 10.0), (2, 30.0), (3, 20.0))]
    clock = runs._Clock(plan)
    now[0] += 5.0
    assert clock.after(plan[0]) == "0 min 25 s left"
    now[0] += 15.0
    assert clock.after(plan[1]) == "0 min 10 s left"
