"""Published results belong to the tables in the library; states are taken up, or refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from mxsafe import tables
from studies.function_errors import record
from studies.function_errors.errors import BOUNDS, Worst, check
from studies.function_errors.models import MODELS
from studies.function_errors.record import (
    RESULTS,
    State,
    entry,
    fingerprint,
    published,
    write_published,
)
from studies.function_errors.sweep import FIELDS, Found
from verif.support.tests import raises


@pytest.mark.parametrize("name", MODELS)
def test_published_results_are_those_of_tables_and_model(name: str) -> None:
    each = published()[name]
    again = f"run `python -m studies.function_errors {name}`"
    assert each["fingerprint"] == fingerprint(name), again
    assert each["bound"] == BOUNDS.get(name, 0.0), again
    assert each["arguments"] == 1 << 32
    assert each["error"] <= 1


@pytest.mark.parametrize("name", BOUNDS)
def test_published_arguments_are_the_worst_around(name: str) -> None:
    each = published()[name]
    word = int(each["argument"], 16)
    assert check(name, np.array([word], np.uint32)) == Worst(each["error"], word)
    low = max(word & 0x7FFFFF, 1000) - 1000
    words = np.arange(low, min(low + 2000, 1 << 23), dtype=np.uint32) | np.uint32(word >> 23 << 23)
    assert check(name, words[words & np.uint32(0x7FFFFFFF) > 0]).error == each["error"]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("gelu_fine", "activation_fine"),
        ("exp", "exp2_compact"),
        ("sigmoid_fine", "reciprocal_fine"),
        ("rsqrt", "rsqrt_compact"),
    ],
)
def test_a_fingerprint_changes_with_the_table(
    name: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where no result that is sampled does: the model here has its results from before."""
    before = fingerprint(name)
    assert before == fingerprint(name)
    old = tables.load(table)
    own = [n for n, place in enumerate(old.places) if place.function == name] or [3]
    coefficients = list(old.coefficients)
    c0, c1, c2 = coefficients[own[0]]
    coefficients[own[0]] = c0 + 1, c1, c2
    changed = tables.replace(old, coefficients=tuple(coefficients))
    load = tables.load
    monkeypatch.setattr(tables, "load", lambda each: changed if each == table else load(each))
    assert fingerprint(name) != before
    other = "silu" if table == "activation_fine" else "tanh"
    monkeypatch.undo()
    unchanged = fingerprint(other)
    monkeypatch.setattr(tables, "load", lambda each: changed if each == table else load(each))
    assert fingerprint(other) == unchanged


def test_a_fingerprint_changes_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint("relu")
    monkeypatch.setattr(record, "MODELS", {"relu": MODELS["relu_derivative"]})
    assert fingerprint("relu") != before


def _state(path: Path) -> State:
    return State.load(path, ["gelu", "relu"])


def test_a_state_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = _state(path)
    assert not state.found
    state.add("gelu", 5, Found(Worst(0.5, 7), 100, 3, 1.0))
    state.add("gelu", 6, Found(Worst(0.75, 0x80000001), 100, 4, 2.5))
    state.add("relu", 1, Found(Worst(0.0, 0), 100))
    state.write()
    again = _state(path)
    assert again == state
    assert again.found["gelu"] == Found(Worst(0.75, 0x80000001), 200, 7, 3.5)
    assert again.done["gelu"] == {5, 6}
    again.forget(["gelu"])
    again.write()
    assert set(_state(path).found) == {"relu"}
    again.forget(["relu"])
    again.write()
    assert not path.exists()


def test_a_state_of_other_tables_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = _state(path)
    state.add("gelu", 5, Found(Worst(0.5, 7), 100))
    state.add("relu", 5, Found(Worst(0.0, 0), 100))
    state.write()
    content = json.loads(path.read_text())
    content["gelu"]["fingerprint"] = "0" * 16
    path.write_text(json.dumps(content))
    state = _state(path)
    assert (state.stale, set(state.found)) == (["gelu"], {"relu"})


@pytest.mark.parametrize("text", ["", "[]", '{"gelu": 3}', '{"gelu": {}}'])
def test_a_file_that_is_no_state(text: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with raises(ValueError, f"state must be a file of this program, not {path}"):
        _state(path)
    assert path.read_text() == text


def test_a_file_that_has_no_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("[1]")
    with raises(ValueError, f"results must be a file of this program, not {path}"):
        published(path)


def test_only_all_fields_with_all_arguments_are_complete(tmp_path: Path) -> None:
    state = _state(tmp_path / "state.json")
    for field in range(FIELDS):
        assert not state.complete("gelu")
        state.add("gelu", field, Found(Worst(0.5, 7), 1 << 24))
    assert state.complete("gelu")
    state.add("gelu", 3, Found(Worst(0.5, 7), 1))
    assert not state.complete("gelu")


def test_entries_stand_beside_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    gelu, relu = (entry(name, Found(Worst(0.5, 7), 9), "ab") for name in ("gelu", "relu"))
    write_published({"gelu": gelu}, path)
    write_published({"relu": relu}, path)
    assert published(path) == {"relu": relu, "gelu": gelu}
    assert list(published(path)) == ["relu", "gelu"]
    assert gelu["argument"] == "0x00000007"


def test_the_published_file_is_written_by_this_program(tmp_path: Path) -> None:
    write_published(published(), tmp_path / "results.json")
    assert (tmp_path / "results.json").read_text() == RESULTS.read_text()
