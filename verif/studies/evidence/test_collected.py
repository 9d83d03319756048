"""Results that are kept: those of today's runs, and none is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from studies import pages
from studies.evidence import collected as module
from studies.evidence.collected import collected, text_of
from studies.evidence.direct_cast import runs
from studies.evidence.runs import Run
from studies.pages import evidence

COMMITTED = json.loads((pages.DOCS / "evidence.json").read_text())


def test_the_committed_numbers_are_those_of_todays_runs() -> None:
    """None is of a run that is planned otherwise; those that the verdicts rest on are all there."""
    assert (pages.DOCS / "evidence.json").read_text() == text_of(COMMITTED)
    made = {result["name"]: result for result in COMMITTED}
    planned = {run.name: run for quick in (False, True) for run in runs(quick=quick, seeds=3)}
    own = {name: result for name, result in made.items() if name.startswith("direct-cast/")}
    for name, result in own.items():
        assert result["parameters"] == dict(planned[name].parameters), name
    eight_bits = ("float32", "bf16", "mxint8", "mxfp8_e4m3", "mxfp8_e2m5", "mxsf")
    needed = [
        run.name
        for run in planned.values()
        if run.parameters["format"] in eight_bits and run.parameters["block"] != "1x32"
    ]
    assert len(needed) > 80
    assert set(needed) <= set(own)


def result(name: str, value: int, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "function": "m:f",
        "parameters": {"value": value},
        "versions": {"mxsafe": "0"},
        "seconds": 1.0,
        "numbers": {"number": number},
    }


def test_results_are_collected(tmp_path: Path) -> None:
    """New ones replace earlier ones; what has other parameters is none."""
    plan = [Run(name, "m:f", {"value": value}) for name, value in (("a", 1), ("b", 2), ("c", 3))]
    earlier = [result("a", 1, 10), result("b", 2, 20), result("c", 4, 30), result("d", 5, 40)]
    (tmp_path / "b.json").write_text(json.dumps(result("b", 2, 21)))
    found = collected(plan, tmp_path, earlier)
    assert [one["numbers"]["number"] for one in found] == [10, 21]
    assert json.loads(text_of(found)) == found
    assert len(text_of(found).splitlines()) == len(found) + 2


def test_pages_of_few_results() -> None:
    """A part has a section once there is a result of float32 beyond the small subset."""
    some = [
        {**result(name, 1, 1), "parameters": {"format": fmt}}
        for name, fmt in (
            ("training/resnet18/float32/0/quick", "float32"),
            ("tuning/mxsf/0", "mxsf"),
            ("direct-cast/magika/mxsf/1x64", "mxsf"),
        )
    ]
    text = pages.text("evidence", evidence.values(some))
    assert text.startswith("# Evidence")
    assert "## " not in text
    assert evidence.pictures(some) == {}


@pytest.mark.parametrize(
    "model", ["magika/", pytest.param("", marks=pytest.mark.full, id="every model")]
)
def test_writing_keeps_what_is_there(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without results in the folder, the page and the numbers stay as they are."""
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(module, "PARTS", {"direct-cast": "studies.evidence.direct_cast"})
    own = [one for one in COMMITTED if one["name"].startswith(f"direct-cast/{model}")]
    assert own
    (tmp_path / "evidence.json").write_text(text_of(own))
    module.write(tmp_path / "none", seeds=3)
    assert (tmp_path / "evidence.json").read_text() == text_of(own)
    assert (tmp_path / "evidence.md").read_text() == pages.text("evidence", evidence.values(own))
    assert (tmp_path / "evidence_casts.svg").exists()
