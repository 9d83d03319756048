"""The `mxsafe` command: output, files, exit codes."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.analysis import inspection
from mxsafe.analysis.errors import draw_tensor, tensor_error
from mxsafe.analysis.report import aligned, tensor_rows
from mxsafe.codec.profiles import PROFILES, divergence
from mxsafe.formats import MX_FORMATS, SCALAR_FORMATS
from verif.support.command import run


def test_decode(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("decode", "0x5f", "31", "0b10000000", "0x03") == 0
    assert capsys.readouterr().out.splitlines() == [
        "code  fields       mode                   value",
        "0x5f  0 10 11111   E2M5                   0.984375",
        "0x1f  0 00 111 11  sub-FP E3M2            0.21875",
        "0x80  1 00 000 00  sub-FP E3M2 zero       -0",
        "0x03  0 00 000 11  sub-FP E3M2 subnormal  0.00146484375",
    ]


def test_decode_other_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("decode", "--format", "mxfp8_e5m2", "0x7c", "0xff", "0x01") == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[-2:] for line in lines] == [
        ["Inf", "inf"],
        ["NaN", "nan"],
        ["subnormal", "1.52587890625e-05"],
    ]
    assert run("decode", "--format", "mxint8", "0x80") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("two's complement  -2")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-2.5", -2.5),
        ("-1e-3", -0.001),
        ("-0x1.4p1", -2.5),
        ("0X1P-3", 0.125),
        ("-inf", -np.inf),
        ("-nan", -np.nan),
        ("+Infinity", np.inf),
        ("-.5", -0.5),
        ("10", 10.0),
    ],
)
def test_inspect(text: str, number: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", text) == 0
    assert capsys.readouterr().out.splitlines() == inspection.number_table(number)
    assert run("inspect", "--format", "mxsf", text) == 0
    expected = inspection.derivation(number, MX_FORMATS["mxsf"])
    assert capsys.readouterr().out.splitlines() == expected


def test_inspect_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "-2.5", "-1e9", "--format", "fp32") == 0
    fp32 = SCALAR_FORMATS["fp32"]
    expected = [*inspection.derivation(-2.5, fp32), "", *inspection.derivation(-1e9, fp32)]
    assert capsys.readouterr().out.splitlines() == expected


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == 0
    assert capsys.readouterr().out.splitlines() == inspection.format_tables()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["decode", "1", "300"], 2, "mxsafe: CODE must lie in 0..255 for mxsf, not 300"),
        (["decode", "9" * 30], 2, "mxsafe: CODE must lie in 0..255 for mxsf, not 999"),
        (["decode", "-1"], 2, "CODE must lie in 0..255 for mxsf, not -1"),
        (["decode", "zz"], 2, "must be an integer such as 0x5f, 0b1011111 or 95, not 'zz'"),
        (["decode", "--format", "fp9", "1"], 2, "must be one of mxsf, "),
        (["inspect", "1", "-0x1p1024"], 2, "must lie within the range of float64, not '-0x1p1024'"),
        (["inspect", "1e309"], 2, "must lie within the range of float64, not '1e309'"),
        (
            ["inspect", "-1/3"],
            2,
            "must be a number such as -2.5, 1e-3, 0x1.4p-3, nan or inf, not '-1/3'",
        ),
        (["inspect", "1", "--format", "fp9"], 2, "must be one of fp64, fp32, "),
        (["inspect"], 2, "the following arguments are required: NUMBER"),
        (["decode"], 2, "the following arguments are required: CODE"),
        ([], 2, "the following arguments are required: COMMAND"),
        (["quantize", "no.npy", "q.npz"], 1, "mxsafe: cannot read no.npy: No such file"),
        (["quantize", "a", "b.npz", "--block", "8x"], 2, "must be a length such as 64 or a tile"),
        (["quantize", "a", "b.npz", "--seed", "1"], 2, "mxsafe: --seed goes with --rounding sr"),
        (["quantize", "a", "b.npz", "--seed", "-1"], 2, "must be a non-negative integer, not '-1'"),
        (
            ["quantize", "a", "b.npz", "--block", "8x8", "--axis", "0"],
            2,
            "mxsafe: --axis goes with 1-D blocks, not with tiles",
        ),
        (["quantize", "a", "b"], 2, "must end in .npz or .safetensors, not 'b'"),
        (["dequantize", "a.npy", "b"], 2, "must end in .npz or .safetensors, not 'a.npy'"),
        (["dequantize", "no.npz", "b"], 1, "mxsafe: cannot read no.npz: No such file"),
        (["analyse", "no.npy"], 1, "mxsafe: cannot read no.npy: No such file"),
        (["analyse", "--format", "fp9"], 2, "must be one of mxsf, "),
        (["analyse", "--distribution", "cauchy"], 2, "invalid choice: 'cauchy'"),
        (["analyse", "--seed", "1"], 2, "mxsafe: --seed goes with --rounding sr"),
        (
            ["analyse", "--block", "8x8", "--axis", "0"],
            2,
            "mxsafe: --axis goes with 1-D blocks, not with tiles",
        ),
        (
            ["analyse", "--distribution", "normal", "--axis", "2", "--out", "out"],
            1,
            "mxsafe: normal: axis must lie in -2..1 for rank 2, not 2",
        ),
        (["diverge"], 2, "mxsafe: diverge needs X.npy and --profile, or --list"),
        (["diverge", "x.npy", "--profile", "cuda"], 2, "invalid choice: 'cuda'"),
        (["diverge", "no.npy", "--profile", "mxsafe"], 1, "mxsafe: cannot read no.npy: No such"),
        (["verilog", "mac"], 2, "must be one of decoder, fp_adder, "),
        (["verilog", "--lanes", "2"], 2, "mxsafe: --lanes needs a UNIT that has it"),
        (["verilog", "--size", "1x1x2x2"], 2, "mxsafe: --size needs a UNIT that has it"),
        (
            ["verilog", "sta_exact", "--block", "100000000000000000"],
            2,
            "mxsafe: block must be at most 72057594037927936, which sums of 80 bits hold, not 1000",
        ),
        (["verilog", "sta", "--size", "4x4"], 2, "must be four lengths such as 4x4x4x4"),
        (["verilog", "sta", "--format", "mxint8"], 2, "mxsafe: format must have floating"),
        (["verilog", "safe_mac", "--pipeline", "9"], 2, "mxsafe: pipeline must be an integer"),
        (["verilog", "pu", "--block", "8"], 2, "mxsafe: block goes with arithmetic exact"),
        (["verilog", "converter", "--block", "24"], 2, "mxsafe: block must divide width 16 or"),
        (["verilog", "layer", "--activation", "gelu"], 2, "mxsafe: activation must be one of none"),
        (["verilog", "decoder", "--width", "4"], 2, "mxsafe: width is not a parameter of decoder"),
        (
            ["verilog", "layer_8x8", "--block", "16"],
            2,
            "mxsafe: block is (8, 8) in layer_8x8, but 16 was given",
        ),
    ],
)
def test_errors(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quantize", "text", "q.npz"], "cannot read text: not a .npy file of numbers"),
        (["verilog", "transposer", "--out", "text"], "cannot write to text: not a folder"),
    ],
)
def test_files_of_another_kind(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("1, 2, 3\n")
    assert run(*arguments) == 1
    assert capsys.readouterr() == ("", f"mxsafe: {message}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.parametrize("block", [None, "16", "8x8"])
def test_quantize_and_back(block: str | None, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((20, 70)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    extra = ["--block", block] if block else []
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz", *extra) == 0
    assert run("dequantize", tmp_path / "q.npz", tmp_path / "y.npy") == 0
    shape = {None: 64, "16": 16, "8x8": (8, 8)}[block]
    expected = mx.dequantize(mx.quantize(x, block=shape))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.npz", "x.npy", "y.npy"]


def test_quantize_options(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((8, 8))
    np.save(tmp_path / "x.npy", x)
    options = "--format mxfp8_e4m3 --block 4 --axis 0 --rounding sr --seed 7 --scale-mode rceil"
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz", *options.split()) == 0
    expected = mx.quantize(
        x, "mxfp8_e4m3", block=4, axis=0, rounding="sr", scale_mode="rceil", random=7
    )
    q = mx.load(tmp_path / "q.npz")
    np.testing.assert_array_equal(q.codes, expected.codes)
    np.testing.assert_array_equal(q.scales, expected.scales)


def test_safetensors_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = mx.quantize(np.ones((2, 64), np.float32), "mxfp4_e2m1")
    mx.save(tmp_path / "two.safetensors", {"a": q, "b": q})
    assert run("dequantize", tmp_path / "two.safetensors", tmp_path / "y.npy") == 1
    assert "name must be one of a, b in " in capsys.readouterr().err
    assert run("dequantize", tmp_path / "two.safetensors", tmp_path / "y.npy", "--name", "b") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.ones((2, 64)))


def test_damaged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 64), np.float32))
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz") == 0
    whole = (tmp_path / "q.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[:100])
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "other.npz", codes=np.zeros(3))
    np.save(tmp_path / "whole.npy", np.arange(5))
    (tmp_path / "array.npz").write_bytes((tmp_path / "x.npy").read_bytes())
    for name, position in (("flip1.npz", len(whole) // 4), ("flip2.npz", len(whole) // 2)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        (tmp_path / name).write_bytes(damaged)
    for name in ("short.npz", "text.npz", "other.npz", "array.npz", "flip1.npz", "flip2.npz"):
        assert run("dequantize", tmp_path / name, tmp_path / "y.npy") == 1
        assert name in capsys.readouterr().err
    for name in ("q.npz", "whole.npy"):
        assert run("quantize", tmp_path / name, tmp_path / "z.npz") == 1
        assert name in capsys.readouterr().err
    assert not (tmp_path / "y.npy").exists()
    assert not (tmp_path / "z.npz").exists()


def test_failed_write_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    (tmp_path / "taken.npz").mkdir()
    assert run("quantize", tmp_path / "x.npy", tmp_path / "taken.npz") == 1
    assert "cannot write" in capsys.readouterr().err
    assert run("quantize", tmp_path / "x.npy", tmp_path / "nowhere" / "q.npz") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.npz", "x.npy"]


def test_links_stay_links(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    (tmp_path / "there").mkdir()
    (tmp_path / "q.npz").symlink_to(tmp_path / "there" / "q.npz")
    assert run("quantize", tmp_path / "x.npy", tmp_path / "q.npz") == 0
    assert (tmp_path / "q.npz").is_symlink()
    assert (tmp_path / "there" / "q.npz").is_file()
    (tmp_path / "null.npz").symlink_to("/dev/null")
    assert run("quantize", tmp_path / "x.npy", tmp_path / "null.npz") == 1


def test_units_of_the_command_are_those_of_the_flow() -> None:
    from mxsafe import cli
    from mxsafe.verilog import presets

    assert tuple(presets.UNITS) == cli._UNITS


def test_targets_of_the_command_are_those_of_the_flow() -> None:
    from mxsafe import cli
    from mxsafe.synthesis import targets

    assert tuple(targets.TARGETS) == cli._TARGETS


def test_analyse_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(3).standard_normal((20, 70)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    options = "--format mxsf --format mxint8 --block 16 --axis 0 --scale-mode even --rounding rna"
    assert run("analyse", tmp_path / "x.npy", "--distribution", "uniform", *options.split()) == 0
    expected = {
        title: [
            tensor_error(t, name, block=16, axis=0, scale_mode="even", rounding="rna")
            for name in ("mxsf", "mxint8")
        ]
        for title, t in ((str(tmp_path / "x.npy"), x), ("uniform", draw_tensor("uniform")))
    }
    assert capsys.readouterr().out == aligned(tensor_rows(expected), labels=3) + "\n"
    options = "--format mxfp4_e2m1 --rounding sr --seed 3 --block 8x8"
    assert run("analyse", tmp_path / "x.npy", *options.split()) == 0
    seeded = tensor_error(x, "mxfp4_e2m1", block=(8, 8), rounding="sr", random=3)
    rows = tensor_rows({str(tmp_path / "x.npy"): [seeded]})
    assert capsys.readouterr().out == aligned(rows, labels=3) + "\n"


def test_analyse_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("analyse") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["gap", *mx.MX_FORMATS]
    assert lines[13].split()[:3] == ["12", "38.642%", "zero"]
    assert len(lines) == 21


def test_analyse_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("analyse", "--distribution", "normal", "--out", out) == 0
    names = ["errors.json", "errors.md", "gap.svg", "tensors.svg"]
    assert capsys.readouterr().out.splitlines()[-4:] == [f"  {out / name}" for name in names]
    assert sorted(path.name for path in out.iterdir()) == names
    (tmp_path / "file").write_text("")
    assert run("analyse", "--out", tmp_path / "file") == 1
    message = f"mxsafe: cannot write to {tmp_path / 'file'}: "
    assert capsys.readouterr().err.startswith(message)


def test_analyse_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else find_spec(name, *rest),
    )
    assert run("analyse", "--out", tmp_path / "out") == 1
    captured = capsys.readouterr()
    assert captured.err == "mxsafe: --out needs matplotlib: pip install 'mxsafe[figures]'\n"
    assert captured.out == ""
    assert not list(tmp_path.iterdir())
    assert run("analyse", "--format", "mxsf") == 0  # the table alone needs none


def test_verilog(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verilog", "decoder", "--format", "mxfp8_e2m5", "--out", tmp_path / "v") == 0
    assert "mxfp8_e2m5_decoder.v" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "v").iterdir()) == [
        "manifest.json",
        "mxfp8_e2m5_decoder.v",
    ]


def test_verilog_of_a_converter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--width", "4", "--block", "2", "--source", "bfloat16"]
    assert run("verilog", "converter", *options, "--out", tmp_path) == 0
    assert "mxsf_converter_block2_width4_bfloat16.v" in capsys.readouterr().out


def test_diverge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.float32([[1.0, 0.5, 0.25, 0.125], [1.0, np.inf, 0.0, -0.0], [2.0, 1.0, 0.0, -0.0]])
    np.save(tmp_path / "x.npy", x)
    options = ["--profile", "torchao_floor", "--format", "mxfp4_e2m1", "--block", "2"]
    assert run("diverge", tmp_path / "x.npy", *options) == 0
    expected = str(divergence(x, "torchao_floor", "mxfp4_e2m1", block=2))
    assert capsys.readouterr().out == expected + "\n"
    assert "1 of 6 blocks differ" in expected
    assert run("diverge", tmp_path / "x.npy", *options, "--axis", "0") == 1
    assert "x.npy: block must divide 3 for profile torchao_floor" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", x=x)
    assert run("diverge", tmp_path / "x.npz", *options) == 1
    assert "must hold one .npy array, not an archive" in capsys.readouterr().err
    assert run("diverge", "--list") == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed[::2]] == list(PROFILES)


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["verilog"],
        ["synth"],
        ["vectors"],
        ["quantize"],
        ["dequantize"],
        ["analyse"],
        ["diverge"],
        ["decode"],
        ["inspect"],
        ["formats"],
    ],
)
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    assert "usage: mxsafe" in capsys.readouterr().out


def test_as_a_process() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mxsafe", "decode", "0x7f"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert result.stdout.splitlines()[1].endswith("1.96875")
