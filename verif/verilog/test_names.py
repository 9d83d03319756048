"""Names of generated modules, and how tools find their files."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.formats import FP12_E4M7, MX_FORMATS
from mxsafe.products import OperandFormats
from mxsafe.rtl.mac.multiplier import RoundingMultiplier
from mxsafe.verilog import presets
from mxsafe.verilog.generate import generate
from mxsafe.verilog.names import LONGEST, PARTS, PREFIX, part_name, renamed
from verif.cli.command import run
from verif.support.manifest import GEN, generated, load
from verif.support.proof import run_yosys
from verif.verilog.linters import said_by_verilator

MXSF = MX_FORMATS["mxsf"]
TOPS = sorted(path.stem for path in GEN.glob("*.f"))


def test_names_of_parts() -> None:
    assert part_name("registers") == "mxsafe_registers"
    assert part_name("registers", "own_") == "own_registers"
    longest = "a" * (LONGEST - len(PREFIX))
    assert part_name(longest) == PREFIX + longest
    assert re.fullmatch(r"mxsafe_transposer_[0-9a-f]{8}", part_name("transposer_" + "a" * 40))
    assert part_name("transposer_" + "a" * 41) != part_name("transposer_" + "a" * 40)
    assert part_name("a" * 100, "") == "a" * 100


def test_committed_names() -> None:
    modules = generated()
    assert {module.unit for module in modules.values()} == modules.keys()
    for unit, module in modules.items():
        is_top = unit in TOPS
        known = unit if is_top else part_name(unit)
        assert known.startswith(module.name) if module.given else module.name == known
        assert is_top or len(module.name) <= LONGEST
        assert module.sources[0] == GEN / ("" if is_top else PARTS) / f"{module.name}.v"


def test_a_module_and_its_instances_get_other_names() -> None:
    text = "module a(clk);\n  a b (\n  );\n  c \\d.e  (\n  );\n  wire a;\nendmodule\n"
    assert renamed(text, {"a": "x", "c": "y", "e": "z"}) == (
        "module x(clk);\n  x b (\n  );\n  y \\d.e  (\n  );\n  wire a;\nendmodule\n"
    )


@pytest.mark.parametrize("prefix", ["1_", "a-", "ä", "a" * 21])
def test_prefixes_that_are_none(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^prefix must be a letter or _ and up to 19 letters, "):
        generate([presets.build("decoder", MXSF)], tmp_path, prefix=prefix)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("prefix", ["", "own_"])
def test_another_prefix(prefix: str, tmp_path: Path) -> None:
    assert run("verilog", "safe_mac", "--prefix", prefix, "--out", tmp_path) == 0
    committed = generated()["safe_mac"]
    names = [source.stem for source in load(tmp_path)["safe_mac"].sources]
    assert names == [name.stem.replace(PREFIX, prefix) for name in committed.sources]
    text = committed.sources[0].read_text()
    assert (tmp_path / "safe_mac.v").read_text() == text.replace(PREFIX, prefix)


def test_a_prefix_that_makes_a_name_of_two_units(tmp_path: Path) -> None:
    own = replace(MXSF, name="own_mxsf")
    other = RoundingMultiplier(formats=OperandFormats(own, own), sum_format=FP12_E4M7)
    with pytest.raises(ValueError, match=r"^prefix must not make one name, own_mxsf_fp12_multipl"):
        generate([presets.build("safe_mac", MXSF), other], tmp_path, prefix="own_")


def test_modules_of_these_names_may_be_somebody_elses(tmp_path: Path) -> None:
    """A design with the machine in it, and such modules."""
    taken = ("registers", "fetch", "queues", "scaler", "tag_queue")
    theirs = (f"module {name}(input a, output b);\n  assign b = a;\nendmodule\n" for name in taken)
    used = (f"  wire {name}_b;\n  {name} own_{name} (a, {name}_b);\n" for name in taken)
    (tmp_path / "whole.v").write_text(
        f"{''.join(theirs)}module whole;\n  wire a;\n{''.join(used)}"
        "  mxsf_accelerator_small machine ();\nendmodule\n"
    )
    made = ["-o", tmp_path / "whole.vvp", tmp_path / "whole.v"]
    command = ["iverilog", "-g2012", "-s", "whole", "-c", "mxsf_accelerator_small.f", *made]
    result = subprocess.run(command, cwd=GEN, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize("top", TOPS)
def test_lists_name_what_a_top_needs(top: str) -> None:
    listed = (GEN / f"{top}.f").read_text().splitlines()
    assert [GEN / file for file in listed] == list(generated()[top].sources)


def test_verilator_reads_the_lists() -> None:
    """As the page beside them says."""
    page = (GEN / "README.md").read_text()
    top = "mxsf_sta_exact"
    assert "verilator --lint-only --top-module mxsf_decoder -F gen/mxsf_decoder.f" in page
    assert not said_by_verilator([], "--top-module", top, "-F", str(GEN / f"{top}.f"))


@pytest.mark.skipif(shutil.which("tclsh") is None, reason="tclsh is not installed")
def test_vivado_reads_the_lists() -> None:
    """Its command is played by one that prints."""
    page = (GEN / "README.md").read_text()
    top = "mxsf_sta_exact"
    (line,) = re.findall(r"^foreach .*", page, re.MULTILINE)
    script = "proc read_verilog {file} { puts $file }\n" + line.replace("mxsf_decoder", top)
    words = ["tclsh"]
    read = subprocess.run(
        words, input=script, cwd=GEN.parent, capture_output=True, text=True, check=True
    )
    assert [GEN.parent / file for file in read.stdout.split()] == list(generated()[top].sources)


@pytest.mark.yosys
def test_yosys_reads_the_lists() -> None:
    run_yosys(
        GEN, "read_verilog_file_list -F mxsf_sta_exact.f; hierarchy -check -top mxsf_sta_exact"
    )


def test_the_page_says_what_makes_each_top() -> None:
    rows = re.findall(
        r"^\| `(\S+)( --target fpga)?` \| \[`(\w+)`\]\((\w+)\.v\) \| \[(\d+)\]\((\w+)\.f\) \|",
        (GEN / "README.md").read_text(),
        re.MULTILINE,
    )
    assert sorted(row[2] for row in rows) == TOPS
    for name, target, module, *files, count in ((*r[:4], r[5], r[4]) for r in rows):
        options = {"target": "fpga"} if target else {}
        assert presets.build(name, MXSF, **options).module_name == module
        assert set(files) == {module}
        assert int(count) == len(generated()[module].sources)


def test_a_page_of_somebody_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxsafe.verilog.presets.units_of", lambda format: ["decoder"])
    (tmp_path / "README.md").write_text("mine\n")
    assert run("verilog", "--out", tmp_path) == 0
    assert (tmp_path / "README.md").read_text() == "mine\n"
