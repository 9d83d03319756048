"""The numbers of trust say that nothing went wrong, and are those of today's hardware."""

import fnmatch
import json
import re
from pathlib import Path

import pytest

from studies import proofs
from studies.function_errors.record import exhausted
from studies.pages import DOCS, trust
from studies.pages.trust import DATA, known
from verif.rtl.datapaths import UNDETERMINED, datapath
from verif.rtl.frames import is_lane, lane_of
from verif.rtl.pipelines import PIPELINES
from verif.rtl.stream_claims import ALSO
from verif.support.manifest import Module

RTL = Path(__file__).parents[2] / "rtl"
"""Tests of the hardware."""


def test_no_bad_input_is_unanswered() -> None:
    found = json.loads(DATA.read_text())["bad_input"]
    assert found["interfaces"] > 300
    for group, answers in found["answers"].items():
        assert answers["fault"] == 0, group
        assert sum(answers.values()) > 1000, group


def test_units_of_every_kind_are_proved(modules: dict[str, Module]) -> None:
    found = json.loads(DATA.read_text())["proofs"]
    for kind, units in proofs.stream_units(modules).items():
        assert found["streams"].get(units[0].unit), f"{kind}: run `python -m studies.proofs`"
    inside = {name for entry in found["streams"].values() for name in entry.get("inside", ())}
    assert set(found["enables"]) == inside
    assert set(found["pipelines"]) == set(PIPELINES)
    assert set(found["frames"]) == {name for name in modules if is_lane(modules[name])}
    assert set(found["datapaths"]) == {name for name in modules if datapath(modules[name])}
    assert all(entry["proved"] for kind in found.values() for entry in kind.values())


def test_what_is_known_follows_from_proofs(
    modules: dict[str, Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "exhausted", lambda lane: lane.parameters["grade"] == "compact")
    proofs = json.loads(DATA.read_text())["proofs"]
    how = known(modules, proofs)
    assert how["relu"] == "proved"
    assert how["relu_stream"] == "structure"
    assert how["mxsf_accelerator"] == "simulation"
    lane = "function_lane_pipeline8"
    assert how[lane] == "exhausted"
    adder = "float32_adder"
    pipelined = [name for name, model in PIPELINES.items() if model == adder]
    assert {how[name] for name in pipelined} == {"proved"}
    wrong = {**proofs, "datapaths": {**proofs["datapaths"], adder: {"proved": False}}}
    scaler, multiplier = "scaler_width16_quantum_exponentm14", "bf16_multiplier"
    assert how[multiplier] == "proved"
    wrong["datapaths"] |= {name: {"proved": False} for name in ("relu", scaler)}
    wrong["frames"] = {lane: {"proved": False}}
    how = known(modules, wrong)
    unknown = (adder, *pipelined, "relu", "relu_stream", scaler, lane)
    assert {how[name] for name in unknown} == {"simulation"}
    assert how[multiplier] == "parts"


def test_undetermined_units_are_there_and_not_proved(modules: dict[str, Module]) -> None:
    for pattern in UNDETERMINED:
        names = fnmatch.filter(modules, pattern)
        assert names, pattern
        assert not any(datapath(modules[name]) for name in names), pattern


def test_proofs_of_units_are_tests_that_run_yosys() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)` \|$", (DOCS / "trust.md").read_text(), re.MULTILINE)
    assert len(named) >= 7
    for file, test in named:
        before, found, _ = (RTL / file).read_text().partition(f"\ndef {test}(")
        assert found, test
        decorators = before.rpartition("\n\n\n")[2]
        assert decorators.startswith("@pytest.mark.yosys"), test


def test_names_without_a_proof_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    before = DATA.read_text()
    with pytest.raises(SystemExit):
        proofs.main(["transposers", "transposer"])
    said = "error: MODULE must be one that something is proved of, not 'transposers'"
    assert said in capsys.readouterr().err
    assert DATA.read_text() == before


@pytest.mark.full
def test_lanes_were_swept_as_they_are(modules: dict[str, Module]) -> None:
    for lane in filter(is_lane, modules.values()):
        assert exhausted(lane) == len(lane_of(lane).names) << 32, "run `make prove`"


@pytest.mark.full
def test_proofs_are_of_this_verilog(modules: dict[str, Module]) -> None:
    found = json.loads(DATA.read_text())["proofs"]
    for kind in ("streams", "enables"):
        for name, entry in found[kind].items():
            digest = proofs.digest(modules[name])
            assert entry["digest"] == digest, f"{name} has changed: run `python -m studies.proofs`"
    assert set(ALSO) <= set(found["streams"]), "run `python -m studies.proofs`"
    assert all(entry["taken"] > 2 for entry in found["streams"].values())
    for name, entry in found["datapaths"].items():
        digest = proofs.digest(modules[name], kind="datapaths")
        assert entry["digest"] == digest, f"{name} has changed: run `python -m studies.proofs`"
    for name, entry in found["frames"].items():
        digest = proofs.digest(modules[name], kind="frames")
        assert entry["digest"] == digest, f"{name} has changed: run `python -m studies.proofs`"
    for name, entry in found["pipelines"].items():
        digest = proofs.digest(modules[name], modules[PIPELINES[name]])
        assert entry["digest"] == digest, f"{name} has changed: run `python -m studies.proofs`"
