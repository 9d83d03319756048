"""Sums of what was reached, of the library and of points as Verilator writes them."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from studies.coverage import measured
from studies.coverage.reasons import UNKNOWN, reason
from studies.coverage.record import left_rows, room, section, verilog_rows
from verif.support import coverage
from verif.support.manifest import GEN

MODULE = "fp12_packer"
LINES = (GEN / f"{MODULE}.v").read_text().splitlines()

_NUMBERS = {
    "lines": [3, 4],
    "branches": [0, 0],
    "toggles": [1, 3],
    "constants": 5,
    "left": ["1: x[3] ^"],
}


def _at(text: str) -> int:
    """The line of a module that reads so."""
    return LINES.index(text) + 1


def _kept(folder: Path, points: dict[coverage.Point, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[*point, reached] for point, reached in points.items()]
    (folder / "reached.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))


def test_points_are_joined_and_named(tmp_path: Path) -> None:
    packed, sign = _at("  wire [12:0] \\packed ;"), _at("  wire \\code.sign ;")
    places = {
        **{(MODULE, "toggle", packed, 1, f"x[{bit}]:0->1"): bit > 5 for bit in range(8)},
        **{(MODULE, "toggle", packed, 1, f"x[{bit}]:1->0"): bit != 2 for bit in range(8)},
        (MODULE, "toggle", sign, 1, "y:0->1"): 0,
        (MODULE, "branch", 70, 3, "cond_then"): 0,
        (MODULE, "branch", 70, 4, "cond_else"): 1,
    }
    _kept(tmp_path / "a" / "design", places)
    _kept(tmp_path / "b" / "design", {(MODULE, "toggle", sign, 1, "y:0->1"): 1})
    constants = {(MODULE, packed, 0)}
    found = measured.verilog(tmp_path, constants)["modules"][MODULE]
    assert found == {
        "lines": [0, 0],
        "branches": [1, 2],
        "toggles": [9, 15],
        "constants": 1,
        "left": ["70: then", f"{packed}: packed[1,3-5] ^", f"{packed}: packed[2] ^v"],
    }


def test_a_constant_that_changes_is_told(tmp_path: Path) -> None:
    line = _at("  wire [12:0] \\packed ;")
    ways = [(MODULE, "toggle", line, 1, f"x[0]:{way}") for way in ("0->1", "1->0")]
    _kept(tmp_path, dict.fromkeys(ways[:1], 1))
    assert measured.verilog(tmp_path, {(MODULE, line, 0)})["modules"][MODULE]["constants"] == 0
    _kept(tmp_path / "more", dict.fromkeys(ways, 1))
    with pytest.raises(
        AssertionError, match=r"^a constant in line \d+ of fp12_packer.v, x\[0\]:1->0"
    ):
        measured.verilog(tmp_path, {(MODULE, line, 0)})


def test_counters_of_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances are joined, and simulations too; other files and modules do not count."""

    def counter(file: str, what: str, module: str, instance: str, count: int) -> str:
        fields = {"f": file, "l": 9, "n": 3, "t": "toggle", "page": f"v_toggle/{module}"}
        pairs = {**fields, "o": what, "h": instance}.items()
        return "C '" + "".join(f"\x01{key}\x02{value}" for key, value in pairs) + f"' {count}\n"

    ours = f"/somewhere/gen/{MODULE}.v"
    monkeypatch.setenv(coverage.variable, str(tmp_path / "kept"))
    for rises, falls in ((0, 0), (0, 3)):
        text = (
            "# SystemC::Coverage-3\n"
            + counter(ours, "a:0->1", MODULE, "top.one", rises)
            + counter(ours, "a:0->1", MODULE, "top.two", 2 * rises)
            + counter(ours, "a:1->0", MODULE, "top.one", falls)
            + counter(f"V{MODULE}/{MODULE}.sv", "b:0->1", MODULE, "top", 1)
            + counter("top.v", "c:0->1", "top", "top", 1)
        )
        (tmp_path / coverage.COUNTERS).write_text(text)
        coverage.keep("top", [GEN / f"{MODULE}.v"], tmp_path)
    assert coverage.reached(tmp_path / "kept") == {
        (MODULE, "toggle", 9, 3, "a:0->1"): False,
        (MODULE, "toggle", 9, 3, "a:1->0"): True,
    }


def test_tables() -> None:
    assert room(MODULE) == "arithmetic"
    found = {"modules": {MODULE: _NUMBERS}}
    numbers = ("1", "3 of 4 (75.0 %)", "none", "1 of 3 (33.3 %)", "5")
    assert verilog_rows(found)[1:] == [("arithmetic", *numbers), ("all", *numbers)]
    assert left_rows(found) == [("left", "why"), ("1", reason(MODULE, "1: x[3] ^"))]
    assert reason("no module", "nothing") == UNKNOWN


def test_section() -> None:
    verilog = {"modules": {MODULE: _NUMBERS}, "never_simulated": ["fp12_adder"]}
    shares = {"lines": [19, 20], "branches": [1, 2]}
    library = {**shares, "packages": {"mxsafe.cli": shares}}
    text = section({"library": library, "verilog": verilog})
    assert "| `mxsafe.cli` | 19 of 20 (95.0 %) | 1 of 2 (50.0 %) |" in text
    assert "| 1 | not known |" in text
    assert text.endswith("Simulated in no test as they stand there: `fp12_adder`.")


def test_the_library_is_summed_up(tmp_path: Path) -> None:
    """A run of one function of the library; what was not run is left."""
    place = tmp_path / "group"
    place.mkdir()
    subprocess.run(
        [sys.executable, "-m", "coverage", "run", "-m", "mxsafe", "decode", "0x7f"],
        cwd=GEN.parent,
        env=os.environ | {"COVERAGE_FILE": str(place / ".coverage")},
        check=True,
        capture_output=True,
    )
    found = measured.library(tmp_path)
    decoded = found["files_left"]["cli/decode.py"]
    assert 0 < decoded["lines"][0] < decoded["lines"][1]
    assert len(decoded["lines_left"]) == decoded["lines"][1] - decoded["lines"][0]
    assert found["packages"]["mxsafe.cli"]["lines"][0] > decoded["lines"][0]
    assert not any("torch" in name for name in found["files_left"])


def test_what_a_design_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GEN / f"{MODULE}.v"
    assert not coverage.is_covered("verilator", [source])
    monkeypatch.setenv(coverage.variable, str(tmp_path))
    assert coverage.is_covered("verilator", [source])
    assert not coverage.is_covered("icarus", [source])
    changed = tmp_path / source.name
    changed.write_text(source.read_text())
    assert coverage.is_covered("verilator", [changed])
    changed.write_text(source.read_text().replace("&", "|", 1))
    assert not coverage.is_covered("verilator", [changed, GEN / "fp12_adder.v"])
    assert not coverage.is_covered("verilator", [tmp_path / "other.v"])
