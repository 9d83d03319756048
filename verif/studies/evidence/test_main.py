"""The command: its runs, what it keeps, and its refusals."""

import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

from mxsafe.cli.arguments import UserError
from studies.evidence import __main__ as command
from studies.evidence import packages
from studies.evidence.runs import Run
from verif.support.tests import raises


def measure(folder: Path, value: int) -> dict[str, int]:
    """A measurement that can fail, or be interrupted."""
    if value == 13:
        raise ArithmeticError("no luck")
    if value == 99:
        raise KeyboardInterrupt
    return {"value": value}


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A part of three runs; its module can be changed."""
    module: Any = types.ModuleType("studies.evidence.made_up")
    module.values = [1, 2, 3]
    module.measure = measure

    def runs(*, quick: bool, seeds: int) -> list[Run]:
        values = module.values[:1] if quick else module.values
        function = "studies.evidence.made_up:measure"
        return [Run(f"made-up/{value}/{seeds}", function, {"value": value}) for value in values]

    module.runs = runs
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(command, "PARTS", {"made-up": module.__name__})
    return module


def run(*arguments: str | Path) -> int:
    return command.main([str(argument) for argument in arguments])


def test_results_are_kept(part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("made-up", "--out", tmp_path, "--seeds", "5") == 0
    assert len(list(tmp_path.rglob("*.json"))) == 3
    assert capsys.readouterr().err.count("made-up/") == 3
    assert run("made-up", "--out", tmp_path, "--seeds", "5") == 0
    assert capsys.readouterr().err == "3 of 3 runs made before\n"


def test_torch_is_missing(
    part: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, part.__name__, None)
    assert run("--list") == 1
    assert "pip install '.[evidence]'" in capsys.readouterr().err


def test_some_of_them(part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--quick", "--out", tmp_path) == 0
    assert run("made-up", "--only", "*/2/*", "--out", tmp_path) == 0
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json"))
    assert names == ["made-up/1/3.json", "made-up/2/3.json"]
    capsys.readouterr()
    assert run("made-up", "--list", "--only", "*/3/*") == 0
    assert capsys.readouterr().out == "made-up/3/3\n"


def test_refusals(part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"

    def raises(code: int, *arguments: str | Path) -> str:
        assert run("--out", out, *arguments) == code
        return capsys.readouterr().err.splitlines()[-1]

    assert raises(2, "other") == "evidence: PART must be one of made-up, pages, not 'other'"
    assert raises(2, "made-up", "--only", "x") == (
        "evidence: --only must fit the name of a run, not 'x'"
    )
    part.values = [13]
    assert raises(1, "made-up") == "made-up/13/3: ArithmeticError: no luck"
    part.values = [99]
    assert raises(130, "made-up") == ("evidence: interrupted; the same command goes on from here")
    assert not out.exists()
    out.write_text("")
    assert raises(1, "made-up") == f"evidence: cannot write to {out}: not a folder"

    def require() -> None:
        raise UserError("no data")

    out.unlink()
    part.require = require
    assert raises(1, "made-up") == "evidence: no data"
    assert not out.exists()


def test_a_missing_library_is_named(
    part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def require() -> None:
        raise ModuleNotFoundError("No module named 'torch'")

    part.require = require
    assert run("made-up", "--out", tmp_path) == 1
    assert capsys.readouterr().err == (
        "evidence: these runs need the extra evidence, pip install '.[evidence]': "
        "No module named 'torch'\n"
    )


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packages.DATA, "no-such-package", "1.0")
    monkeypatch.setitem(packages.DATA, "numpy", "0.1")
    with raises(
        UserError,
        "these runs need no-such-package==1.0, pip install --no-deps no-such-package==1.0: "
        "it is not installed",
    ):
        packages.require_packages("no-such-package")
    with pytest.raises(UserError) as other:
        packages.folder_of("numpy")
    assert str(other.value).startswith(
        "these runs need numpy==0.1, pip install --no-deps numpy==0.1: "
    )


def test_pins_agree() -> None:
    """Packages of data are installed in the versions that the extras name."""
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    wanted = [
        one for extra in pyproject["project"]["optional-dependencies"].values() for one in extra
    ]
    pinned = dict(one.split("==") for one in wanted if one.count("==") == 1)
    shared = set(pinned) & set(packages.DATA)
    assert shared >= {"matplotlib", "onnx", "torch"}
    assert {name: pinned[name] for name in shared} == {name: packages.DATA[name] for name in shared}
