"""Integration into other designs: examples of instances, and the FuseSoC core."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mxsafe
from mxsafe.cli import main
from mxsafe.host.verilator import verilator_bin
from mxsafe.verilog.fusesoc import CORE, with_files
from mxsafe.verilog.manifest import read_manifest
from mxsafe.verilog.names import PARTS
from verif.machine.example_image import EXAMPLES, example_files
from verif.support.manifest import GEN, Module, generated
from verif.support.simulators import lint
from verif.support.tests import available, some

ROOT = GEN.parent
MEMORY = ROOT / "verif" / "bench" / "axi_memory.v"
TOPS = {
    "mac_top": ("safe_mac_exact", "safe_mac_exact_fpga"),
    "stream_top": ("mxsf_sta_exact", "mxsf_converter_8x8"),
    "accelerator_top": ("mxsf_accelerator_small",),
}


def simulated(
    bench: str, top: Path, folder: Path, place: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """A run of a bench of an example in a place, at first in the root of the repository."""
    available("icarus")
    made = folder / f"{bench}.vvp"
    sources = [EXAMPLES / f"{bench}.v", top, *([MEMORY] if bench == "accelerator_tb" else [])]
    command = [
        "iverilog",
        "-g2012",
        "-y",
        GEN,
        "-y",
        GEN / PARTS,
        "-s",
        bench,
        "-o",
        made,
        *sources,
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return subprocess.run(
        ["vvp", "-n", made], cwd=place, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("top", TOPS)
def test_examples_lint_clean(top: str) -> None:
    """With all warnings of Verilator; the units in them are linted by themselves."""
    available("verilator")
    sources = (EXAMPLES / f"{top}.v", *(GEN / f"{name}.v" for name in TOPS[top]))
    example = Module(top, EXAMPLES, sources, {}, 0, {})
    assert lint(example, elsewhere=TOPS[top]) == ""


@pytest.mark.full
@pytest.mark.parametrize(
    ("top", "right", "wrong"),
    [
        ("stream", ".s_axis_tlast(c_tlast)", ".s_axis_tlast(1'b0)"),
        ("accelerator", ".m_axi_wlast(m_axi_wlast)", ".m_axi_wlast()"),
    ],
)
def test_a_wrong_wire_is_found(top: str, right: str, wrong: str, tmp_path: Path) -> None:
    """The examples themselves run as examples of docs/integration.md."""
    text = (EXAMPLES / f"{top}_top.v").read_text()
    assert text.count(right) == 1
    broken = tmp_path / f"{top}_top.v"
    broken.write_text(text.replace(right, wrong))
    run = simulated(f"{top}_tb", broken, tmp_path)
    assert run.returncode == 1
    assert "all right" not in run.stdout


@pytest.mark.full
def test_an_example_without_its_files_fails(tmp_path: Path) -> None:
    """Where nothing is known, nothing is right."""
    run = simulated("accelerator_tb", EXAMPLES / "accelerator_top.v", tmp_path, tmp_path)
    assert run.returncode == 1
    assert "all right" not in run.stdout


def test_a_wrong_latency_is_found(tmp_path: Path) -> None:
    """The example itself runs as an example of docs/first_mac.md."""
    vectors = ["--unit", "mac", "--arithmetic", "exact", "--count", "5000"]
    assert main(["vectors", *vectors, "--out", str(tmp_path / "vectors")]) == 0
    text = (EXAMPLES / "mac_top.v").read_text()
    assert text.count("FPGA ? 7 : 2") == 1
    broken = tmp_path / "mac_top.v"
    broken.write_text(text.replace("FPGA ? 7 : 2", "FPGA ? 7 : 3"))
    run = simulated("mac_tb", broken, tmp_path, tmp_path)
    assert run.returncode == 1
    assert "row 1, " in run.stdout
    assert "all right" not in run.stdout


def test_memory_of_the_example_is_fresh() -> None:
    for name, text in example_files().items():
        assert (EXAMPLES / name).read_text() == text, f"{name}: run verif.machine.example_image"
    head = (EXAMPLES / "accelerator_memory.hex").read_text().splitlines()
    found = re.fullmatch(r"// program 0x(\w+), (\d+) descriptors, result 0x(\w+)", head[0])
    assert found is not None
    bench = (EXAMPLES / "accelerator_tb.v").read_text()
    assert f"PROGRAM = 64'h{found[1]}, DESCRIPTORS = {found[2]}, RESULT = 32'h{found[3]}," in bench
    assert f"BEATS = {len(head) - 1};" in bench


def test_the_core_is_fresh() -> None:
    core = (ROOT / CORE).read_text()
    assert with_files(core, read_manifest(GEN)) == core, "run `make verilog`"
    assert f"name: ::mxsafe:{mxsafe.__version__}\n" in core
    named = re.findall(r"^      - ([\w./]+)", core, re.MULTILINE)
    assert len(named) > 250
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert {path.name for path in EXAMPLES.iterdir()} - {Path(name).name for name in named} <= {
        "stream.gtkw",
        "mac_tb.v",  # reads vectors that `mxsafe vectors` writes
    }


def test_a_core_without_its_comments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^core must hold the lines '# Written by"):
        with_files("CAPI=2:\n", read_manifest(GEN))


FUSESOC = {
    "sim": ("icarus", "stream_tb: 32 rows, all right"),
    "sim_accelerator": ("icarus", "accelerator_tb: 383 cycles, 32 words, all right"),
    "lint_mac": ("verilator", ""),
    "lint": ("verilator", ""),
    "lint_accelerator": ("verilator", ""),
}


def said_by_fusesoc(folder: Path, target: str, *options: str) -> str:
    """Return the output of FuseSoC when it runs a target of the core without an error."""
    pytest.importorskip("fusesoc", reason="fusesoc is not installed")
    fusesoc = [sys.executable, "-m", "fusesoc.main"]
    places = [Path(sys.executable).parent, verilator_bin(), os.environ["PATH"]]
    run = subprocess.run(
        [*fusesoc, "--cores-root", ROOT, "run", *options, "--target", target, "mxsafe"],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(map(str, places))},
        capture_output=True,
        text=True,
        check=False,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, output[-2000:]
    return output


@pytest.mark.full  # the default run has the simulations as examples of docs/integration.md
@pytest.mark.parametrize("target", FUSESOC)
def test_fusesoc(target: str, tmp_path: Path) -> None:
    simulator, said = FUSESOC[target]
    available(simulator)
    output = said_by_fusesoc(tmp_path, target)
    assert said in output
    assert "%Warning" not in output
    shutil.rmtree(tmp_path / "build")


@pytest.mark.parametrize("target", some([*FUSESOC, "mxsf_layer"]))
def test_fusesoc_finds_all_files(target: str, tmp_path: Path) -> None:
    """The core can be read, and a target be set up, in which no file is twice."""
    tool = () if target in FUSESOC else ("--tool", "icarus")
    said_by_fusesoc(tmp_path, target, "--setup", *tool)
    (made,) = (tmp_path / "build").rglob("*.eda.yml")
    names = re.findall(r"(\w+\.v)\b", made.read_text())
    assert len(names) == len(set(names))
    tops = TOPS.get(f"{target.rpartition('_')[2]}_top", TOPS["stream_top"])
    modules = [target] if target in generated() else tops
    needed = [source.name for name in modules for source in generated()[name].sources]
    assert set(names) >= set(needed)
