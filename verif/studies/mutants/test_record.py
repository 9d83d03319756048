"""The mutation score: its sums are those of its modules."""

import json
from pathlib import Path

import pytest

from studies import pages
from studies.mutants import record
from studies.mutants.__main__ import main
from studies.mutants.designs import module_without_parameters
from studies.mutants.reasons import REASONS
from studies.pages import mutation
from verif.support.manifest import Module

MUTANT = {"number": 3, "mode": "inv", "place": "a[1]", "line": 7}
MODULE = {
    "digest": "0",
    "designs": ["unit"],
    "mutants": 30,
    "killed": 26,
    "equivalent": [MUTANT],
    "alive": [MUTANT, MUTANT],
    "later": [MUTANT],
}


def test_sums_are_those_of_modules() -> None:
    results = record.read()
    for found in results["modules"].values():
        left = sum(len(found[fate]) for fate in ("equivalent", "alive", "later"))
        assert found["killed"] + left == found["mutants"]


def test_reasons_are_of_mutants_that_are_alive() -> None:
    alive = {
        (name, mutant["mode"], mutant["place"])
        for name, found in record.read()["modules"].items()
        for mutant in found["alive"]
    }
    assert set(REASONS) <= alive


def test_reasons_are_of_modules_that_exist(modules: dict[str, Module]) -> None:
    assert {module for module, _, _ in REASONS} <= modules.keys()


def test_the_committed_scores_are_what_was_aimed_at() -> None:
    """All that was killed, of what is not equivalent; modules apart from what has a reason."""
    results = record.read()
    found = results["modules"].values()
    killed = sum(one["killed"] for one in found)
    meant = sum(one["mutants"] - len(one["equivalent"]) for one in found)
    assert meant > 0
    assert killed / meant >= 0.99
    assert record.lowest(results) >= 0.97
    assert not any(one["later"] for one in found)


@pytest.mark.full
def test_results_are_those_of_the_committed_verilog(
    modules: dict[str, Module], tmp_path: Path
) -> None:
    results = record.read()
    found = {name: one["digest"] for name, one in results["modules"].items()}
    tried = {name: one for name, one in modules.items() if name not in results["unseen"]}
    wanted = {name: module_without_parameters(one, tmp_path).digest for name, one in tried.items()}
    changed = {name for name, _ in found.items() ^ wanted.items()}
    assert not changed, "run `make mutate`"


def test_the_lowest_score() -> None:
    modules = {"one": MODULE, "other": {**MODULE, "killed": 28, "alive": [], "later": []}}
    assert record.lowest({"modules": modules}) == 26 / 28
    assert record.lowest({"modules": {}}) == 1


def test_the_page_counts_results_of_earlier_verilog(
    modules: dict[str, Module], tmp_path: Path
) -> None:
    names = ("register_slice_bits32", "relu")
    now = {name: module_without_parameters(modules[name], tmp_path).digest for name in names}
    results = {name: {**MODULE, "digest": digest} for name, digest in now.items()}
    every = {**record.read(), "modules": results}
    assert mutation.values(every)["earlier"] == 0
    results["relu"]["digest"] = "0" * 16
    assert mutation.values(every)["earlier"] == 1


def test_page_of_results() -> None:
    modules = {"one": MODULE | {"seconds": 3.0}, "other": MODULE | {"seconds": 5.0}}
    results = {"count": 30, "seed": 1, "of": 9, "unseen": ["third", "other"], "modules": modules}
    page = " ".join(pages.text("mutation", mutation.values(results)).split())
    assert "**92.9 %** of 2 modules' mutants: 58 mutants, 52 killed, 2 equivalent, 4 alive." in page
    assert "| `one` | 29 | 26 | 1 | 2 | 92.9 % | `unit` |" in page
    assert "| `one` | inv | `a[1]` | 7 |" in page
    assert "2 mutants that quick trials leave" in page
    assert "4 seconds of a processor a module, the mean of 2" in page
    assert "No test simulates these as they are in `gen/`" in page
    assert "1 in all: `third`." in page
    assert "Of the 9 modules 6 still have to be tried" in page


def test_page_before_the_first_result() -> None:
    results = {"count": 30, "seed": 1, "of": 9, "unseen": [], "modules": {}}
    assert "**-** of 0 modules' mutants" in pages.text("mutation", mutation.values(results))


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RESULTS", tmp_path / "mutation.json")
    results = {"count": 30, "seed": 1, "of": 1, "unseen": [], "modules": {"one": MODULE}}
    record.write(results)
    assert json.loads((tmp_path / "mutation.json").read_text()) == results
    assert "still have to be tried" not in pages.text("mutation", mutation.values(results))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "argument --jobs: must be a positive integer, not '0'"),
        (["transposers"], "MODULE must be one of gen/, not 'transposers'"),
        (
            ["--tests", "verif"],
            "argument --tests: must be a file of tests that exists, not 'verif'",
        ),
        (
            ["--recorded", "--tests", __file__],
            "argument --tests: not allowed with argument --recorded",
        ),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.endswith(f"error: {message}\n")
