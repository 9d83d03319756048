"""Sums of what was reached, of the library and of points as Verilator writes them."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from studies import pages
from studies.coverage import measured, reasons
from studies.coverage.reasons import UNKNOWN, reason, unused
from studies.coverage.record import largest_rows, left_rows, verilog_rows
from studies.pages import trust
from verif.support import coverage
from verif.support.manifest import GEN, generated

MODULE = "fp12_packer"
SOURCE = generated()[MODULE].sources[0]
LINES = SOURCE.read_text().splitlines()

_NUMBERS = {
    "made_from": "arithmetic",
    "lines": [3, 3],
    "branches": [0, 1],
    "toggles": [1, 3],
    "constants": 5,
    "proved": 2,
    "elsewhere": 4,
    "left": {"1: x[3] ^": 1, "2: y v": 1, "7: else of y": 1},
}
_REASONS = (("none|fp12*", "x* ^|z v", "never set"), ("fp12*", "z*", "nowhere"))


def _nothing(still: object) -> dict[str, set[tuple[int, int]]]:
    """A proof of nothing."""
    return {}


def _at(text: str) -> int:
    """The line of a module that reads so."""
    return LINES.index(text) + 1


def _kept(folder: Path, points: dict[coverage.Point, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[*point, reached] for point, reached in points.items()]
    (folder / "reached.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))


def test_points_are_joined_and_named(tmp_path: Path) -> None:
    packed, sign = _at("  wire [10:0] \\packed ;"), _at("  wire \\code.sign ;")
    places = {
        **{(MODULE, "toggle", packed, 1, f"x[{bit}]:0->1"): bit > 5 for bit in range(8)},
        **{(MODULE, "toggle", packed, 1, f"x[{bit}]:1->0"): bit not in (2, 4) for bit in range(8)},
        (MODULE, "toggle", sign, 1, "y:0->1"): 0,
        (MODULE, "toggle", sign, 1, "y:1->0"): 0,
        (MODULE, "branch", packed, 3, "cond_then"): 0,
        (MODULE, "branch", packed, 4, "cond_else"): 1,
    }
    _kept(tmp_path / "a" / "design", places)
    _kept(tmp_path / "b" / "design", {(MODULE, "toggle", sign, 1, "y:0->1"): 1})
    asked = []

    def prove(still):
        asked.append(still)
        return {MODULE: {(packed, 4)}}

    found = measured.verilog(tmp_path, {MODULE: {(packed, 0), (1, 1)}}, prove)["modules"][MODULE]
    assert asked == [{MODULE: {(packed, 2), (packed, 4), (sign, 0)}}]
    assert found == {
        "made_from": "arithmetic",
        "lines": [0, 0],
        "branches": [1, 2],
        "toggles": [8, 14],
        "constants": 1,
        "proved": 1,
        "elsewhere": 0,
        "left": {
            f"{packed}: then of wire [10:0] \\packed ;": 1,
            f"{packed}: packed[1,3,5] ^": 3,
            f"{packed}: packed[2] ^v": 2,
            f"{sign}: code.sign v": 1,
        },
    }


def test_what_another_configuration_reaches(tmp_path: Path) -> None:
    """Nets with the same name, and numbered ones to which the same is assigned."""
    small, large = "second_operand_columns8_only_numbers", "second_operand_columns8"
    files = {name: generated()[name].sources[0] for name in (small, large)}
    texts = {name: file.read_text().splitlines() for name, file in files.items()}

    def points(name: str, net: str) -> list[coverage.Point]:
        at = next(n for n, text in enumerate(texts[name], 1) if text.endswith(f" {net};"))
        return [(name, "toggle", at, 1, f"x[3]:{way}") for way in ("0->1", "1->0")]

    _kept(
        tmp_path,
        {
            **dict.fromkeys(points(small, "beats"), 1),
            **dict.fromkeys(points(large, "beats"), 0),
            # The same is assigned to both.
            **dict.fromkeys(points(small, r"\$operands_left$mux "), 0),
            **dict.fromkeys(points(large, r"\$operands_left$mux "), 1),
            **dict.fromkeys(points(small, r"\$ends_beat$all "), 0),
            **dict.fromkeys(points(large, r"\$number_is_free$not "), 1),
        },
    )
    found = measured.verilog(tmp_path, {}, _nothing)["modules"]
    assert (found[large]["elsewhere"], found[large]["left"]) == (2, {})
    assert found[small]["elsewhere"] == 2
    assert [name.split()[1] for name in found[small]["left"]] == ["$ends_beat$all"]


def test_a_constant_that_changes_is_told(tmp_path: Path) -> None:
    line = _at("  wire [10:0] \\packed ;")
    ways = [(MODULE, "toggle", line, 1, f"x[0]:{way}") for way in ("0->1", "1->0")]
    known = {MODULE: {(line, 0)}}
    _kept(tmp_path, {ways[0]: 1, ways[1]: 0})
    assert measured.verilog(tmp_path, known, _nothing)["modules"][MODULE]["constants"] == 1
    _kept(tmp_path / "more", dict.fromkeys(ways, 1))
    with pytest.raises(
        AssertionError, match=r"^constant bit 0 in line \d+ of fp12_packer.v falls$"
    ):
        measured.verilog(tmp_path, known, _nothing)


def test_counters_of_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances are joined, and simulations too; other files and modules do not count."""

    def counter(file: str, what: str, module: str, instance: str, count: int) -> str:
        fields = {"f": file, "l": 9, "n": 3, "t": "toggle", "page": f"v_toggle/{module}"}
        pairs = {**fields, "o": what, "h": instance}.items()
        return "C '" + "".join(f"\x01{key}\x02{value}" for key, value in pairs) + f"' {count}\n"

    ours, name = f"/somewhere/gen/{SOURCE.name}", SOURCE.stem
    monkeypatch.setenv(coverage.VARIABLE, str(tmp_path / "kept"))
    for rises, falls in ((0, 0), (0, 3)):
        text = (
            "# SystemC::Coverage-3\n"
            + counter(ours, "a:0->1", name, "top.one", rises)
            + counter(ours, "a:0->1", name, "top.two", 2 * rises)
            + counter(ours, "a:1->0", name, "top.one", falls)
            + counter(f"V{name}/{name}.sv", "b:0->1", name, "top", 1)
            + counter("top.v", "c:0->1", "top", "top", 1)
        )
        (tmp_path / coverage.COUNTERS).write_text(text)
        coverage.keep("top", [SOURCE], tmp_path)
    assert coverage.reached(tmp_path / "kept") == {
        (MODULE, "toggle", 9, 3, "a:0->1"): False,
        (MODULE, "toggle", 9, 3, "a:1->0"): True,
    }


@pytest.fixture
def _two_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasons, "REASONS", _REASONS)


@pytest.mark.usefixtures("_two_reasons")
def test_tables() -> None:
    found = {"modules": {MODULE: _NUMBERS}}
    shares = ("3 of 3 (100.0 %)", "0 of 1 (0.0 %)", "1 of 3 (33.3 %)")
    numbers = ("1", *shares, "5", "2", "4", "1", "2")
    assert verilog_rows(found)[1:] == [("arithmetic", *numbers), ("all", *numbers)]
    assert left_rows(found)[1:] == [("never set", "0", "1"), (UNKNOWN, "1", "1")]
    assert largest_rows(found)[1:] == [(f"`{MODULE}`", "2", "`y v`, `else of y`")]
    assert unused((MODULE, what) for what in _NUMBERS["left"]) == [
        "none in none|fp12*: x* ^|z v",
        "z v in none|fp12*: x* ^|z v",
        "fp12* in fp12*: z*",
        "z* in fp12*: z*",
    ]
    assert reason("none", "1: z v") == "never set"
    assert reason("none", "1: x[0] ^v") == UNKNOWN


@pytest.mark.usefixtures("_two_reasons")
def test_page() -> None:
    verilog = {"modules": {MODULE: _NUMBERS}, "never_simulated": ["fp12_adder"]}
    shares = {"lines": [19, 20], "branches": [1, 2]}
    library = {**shares, "packages": {"mxsafe.cli": shares}}
    run = {"tests": 1234, "folders": 5, "until": "2026-01-02", "not_run": ["verif/cli"]}
    text = pages.text(
        "trust",
        trust.values({"run": run, "library": library, "verilog": verilog, "functional": {}}),
    )
    assert "| `mxsafe.cli` | 19 of 20 (95.0 %) | 1 of 2 (50.0 %) |" in text
    assert "1,234 tests in 5 folders, run until 2026-01-02." in " ".join(text.split())
    assert "\nNot run: `verif/cli`.\n" in text
    assert "| not known | 1 | 1 |" in text
    assert "\n\n1 modules of `gen/` are simulated in none of these" in text


@pytest.mark.full
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


def test_every_module_says_what_it_is() -> None:
    for name in generated():
        _, summary = measured._unit(name)
        assert summary.endswith("."), name
        assert len(summary) > 20, name


def test_memories_are_left_out() -> None:
    source = generated()["beat_memory"].sources[0]
    line = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if "beats [" in text)
    assert coverage.left_out([source]) == f'coverage_off -file "{source}" -lines {line}\n'
    assert coverage.left_out([GEN / "fp12_adder.v"]) == ""


def test_what_a_design_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE
    assert not coverage.is_covered("verilator", [source])
    monkeypatch.setenv(coverage.VARIABLE, str(tmp_path))
    assert coverage.is_covered("verilator", [source])
    assert not coverage.is_covered("icarus", [source])
    changed = tmp_path / source.name
    changed.write_text(source.read_text())
    assert coverage.is_covered("verilator", [changed])
    changed.write_text(source.read_text().replace("&", "|", 1))
    assert not coverage.is_covered("verilator", [changed, GEN / "fp12_adder.v"])
    assert not coverage.is_covered("verilator", [tmp_path / "other.v"])
