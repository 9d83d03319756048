"""`mxsafe verilog`."""

import json
from pathlib import Path

import pytest

from mxsafe.machine.header import HEADER_FILE, c_header
from mxsafe.verilog.manifest import SCHEMA
from verif.cli.command import run, run_in
from verif.support.manifest import GEN, load
from verif.support.tests import typical


def test_verilog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verilog", "decoder", "--format", "mxfp8_e2m5", "--out", tmp_path / "v") == 0
    assert "mxfp8_e2m5_decoder.v" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "v").iterdir()) == [
        "manifest.json",
        "manifest.schema.json",
        "mxfp8_e2m5_decoder.f",
        "mxfp8_e2m5_decoder.sdc",
        "mxfp8_e2m5_decoder.v",
    ]


def test_the_header_goes_along_with_all_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mxsafe.verilog.presets.units_of", lambda format: ["decoder"])
    assert run("verilog", "--out", tmp_path) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    made = [f"mxsf_decoder.{kind}" for kind in ("f", "sdc", "v")]
    assert names == ["README.md", "manifest.json", SCHEMA, HEADER_FILE, *made]
    assert (tmp_path / HEADER_FILE).read_text() == c_header()


@pytest.mark.parametrize(
    ("format_w", "names"),
    [
        ("mxfp4_e2m1", ["mxfp4_e2m1"]),
        ("multi", ["mxsf", "mxfp8_e2m5", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"]),
    ],
)
def test_operands_of_two_formats(
    format_w: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them may be chosen at run time."""
    options = ["--format", "mxsf", "--format-w", format_w, "--size", "1x1x2x2"]
    assert run("verilog", "sta_exact", *options, "--out", tmp_path) == 0
    module = f"mxsf_{format_w}_sta_exact_1x1x2x2x4"
    assert f"{module}.v" in capsys.readouterr().out
    formats = load(tmp_path)[module].parameters["formats"]
    assert formats["a"]["name"] == "mxsf"
    assert [one["name"] for one in formats["w"].get("members", [formats["w"]])] == names
    header = (tmp_path / f"{module}.v").read_text()[:400].replace("\n// ", " ")
    assert f"formats mxsf and {format_w}" in header


WARNED = (
    "mxsafe verilog: warning: {} takes 16 cycles for a block of {} beats, {}% of its full rate, "
)
WARNED += "which it has with --accumulators {}\n"


@pytest.mark.parametrize(
    "case",
    typical(
        [
            (["--format=mxfp8_e4m3"], "mxfp8_e4m3_pu_exact_block32", 32, (8, 50, 2)),
            (["--format=mxfp4_e2m1"], "mxfp4_e2m1_pu_exact_block32", 32, (8, 50, 2)),
            (
                ["--format=mxfp8_e4m3", "--accumulators=2"],
                "mxfp8_e4m3_pu_exact_block32_accumulators2",
                32,
                None,
            ),
            (["--format=mxfp8_e4m3", "--block=64"], "mxfp8_e4m3_pu_exact", 64, None),
            (["--format=mxfp8_e4m3", "--format-w=mxsf"], "mxfp8_e4m3_mxsf_pu_exact", 64, None),
            (["--format=mxsf", "--block=16"], "mxsf_pu_exact_block16", 16, (4, 25, 4)),
            ([], "mxsf_pu_exact", 64, None),
        ],
        every=3,
    ),
)
def test_blocks_are_as_long_as_the_format_has_them(
    case: tuple[list[str], str, int, tuple[int, ...] | None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And where the array is slower than its beats then, that is said, with what makes it fast."""
    options, module, block, warning = case
    assert run("verilog", "pu_exact", *options, "--out", tmp_path) == 0
    assert load(tmp_path)[module].parameters["block"] == block
    assert capsys.readouterr().err == (WARNED.format(module, *warning) if warning else "")


def test_a_layer_that_is_slow_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--format=mxfp8_e4m3", "--size=1x1x4x4"]
    assert run("verilog", "layer_exact", *options, "--out", tmp_path) == 0
    (name,) = (name for name in load(tmp_path) if "_layer_" in name)
    assert capsys.readouterr().err == WARNED.format(name, 8, 50, 2)


def test_verilog_of_a_converter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--width", "4", "--block", "2", "--source", "bfloat16"]
    assert run("verilog", "converter", *options, "--out", tmp_path) == 0
    assert "mxsf_converter_block2_width4_bfloat16.v" in capsys.readouterr().out


def test_a_file_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("1, 2, 3\n")
    assert run_in(tmp_path, "verilog", "transposer", "--out", "text") == 1
    assert capsys.readouterr() == ("", "mxsafe: cannot write to text: not a folder\n")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.parametrize("format", ["mxsf", "mxint8"])
@pytest.mark.parametrize(
    "unit", ["float32_adder", "bf16_mac", "pu_bf16", "sta_bf16", "transposer", "activation"]
)
def test_a_format_for_a_unit_that_has_none(
    unit: str, format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_in(tmp_path, "verilog", unit, "--format", format) == 2
    expected = f"mxsafe: format is not a parameter of {unit}, but {format} was given\n"
    assert capsys.readouterr().err == expected
    assert not list(tmp_path.iterdir())


def test_units_for_fpgas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verilog", "safe_mac_exact", "--target", "fpga", "--out", tmp_path) == 0
    modules = json.loads((tmp_path / "manifest.json").read_text())["modules"]
    parameters = modules["safe_mac_exact_fpga"]["parameters"]
    assert (parameters["target"], parameters["dsp"]) == ("fpga", True)
    assert (
        "target"
        not in json.loads((GEN / "manifest.json").read_text())["modules"]["safe_mac_exact"][
            "parameters"
        ]
    )
    assert run("verilog", "safe_mac", "--target", "fpga", "--no-dsp", "--out", tmp_path) == 0
    modules = json.loads((tmp_path / "manifest.json").read_text())["modules"]
    assert modules["safe_mac_no_dsp_fpga"]["parameters"]["dsp"] is False
    capsys.readouterr()
    assert run("verilog", "--target", "fpga", "--out", tmp_path) == 2
    assert "--target needs a UNIT that has it" in capsys.readouterr().err
    assert run("verilog", "pu", "--target", "fpga", "--out", tmp_path) == 2
    assert "target is not a parameter of pu, but fpga was given" in capsys.readouterr().err
    assert run("synth", "--target", "fpga", "--out", tmp_path) == 2
    assert "--target needs a UNIT that has it" in capsys.readouterr().err
