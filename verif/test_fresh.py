"""Tests look at the Verilog of ``gen/`` only if it is what the sources generate."""

import json
import shutil
from pathlib import Path

import pytest

from mxsafe.verilog.sources import SOURCES, reached, record
from verif.support.fresh import require_fresh
from verif.support.manifest import GEN, generated, made_from
from verif.support.simulators import simulate
from verif.support.tests import available, raises

_CHANGED = "rtl/arithmetic/fp_adder.py"
_FILE = "fp12_adder.v"


def _copy(folder: Path, changed: str | None) -> Path:
    """A copy of a file of ``gen/`` in which a source has been another when it was generated."""
    written = json.loads((GEN / SOURCES).read_text())
    if changed is not None:
        assert changed in written
        written[changed] = "0" * 64
    (folder / SOURCES).write_text(json.dumps(written))
    shutil.copyfile(GEN / _FILE, folder / _FILE)
    return folder / _FILE


def test_an_edit_that_makes_the_same_verilog_is_fine(tmp_path: Path) -> None:
    require_fresh([_copy(tmp_path, _CHANGED)], tmp_path)


def test_verilog_of_another_source_is_refused(tmp_path: Path) -> None:
    file = _copy(tmp_path, _CHANGED)
    file.write_text(file.read_text().replace("endmodule", "// another\nendmodule"))
    with raises(
        AssertionError,
        f"gen/{_FILE} is not what its sources generate, of which {_CHANGED} has changed: run "
        "`make verilog`",
    ):
        require_fresh([file], tmp_path)


@pytest.mark.parametrize("changed", [None, "rtl/vector/softmax.py"])
def test_only_what_a_module_is_made_from_counts(changed: str | None, tmp_path: Path) -> None:
    file = _copy(tmp_path, changed)
    file.write_text("not looked at")
    require_fresh([file], tmp_path)


def test_simulations_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """They ask about the files that they are given, before anything is built."""
    asked: list[Path] = []

    def refuse(files: list[Path]) -> None:
        asked.extend(files)
        raise AssertionError("run `make verilog`")

    monkeypatch.setattr("verif.support.simulators.require_fresh", refuse)
    module = generated()["mxsf_decoder"]
    with pytest.raises(AssertionError, match=r"^run `make verilog`$"):
        simulate(available("icarus"), module.name, module.sources, "verif.bench.lockstep", {})
    assert asked == list(module.sources)


def test_all_that_makes_a_module_is_written_down() -> None:
    written = json.loads((GEN / SOURCES).read_text())
    assert json.loads(record()).keys() >= written.keys()
    for module in generated().values():
        origin = made_from(module.sources[0])
        files = reached([origin])
        assert origin.removeprefix("mxsafe.").replace(".", "/") + ".py" in files
        assert files <= written.keys(), f"gen/{SOURCES} lacks files of {module.name}"
    assert "tables/softmax_exp2_fine.json" in reached(["mxsafe.rtl.vector.row_lane"])
