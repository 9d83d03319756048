"""The `mxsafe` command as a whole: its commands, its help, its process."""

import gc
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import warnings
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest
from amaranth.hdl import Module, UnusedElaboratable

from mxsafe import cli
from mxsafe.cli.arguments import UsageError, UserError
from mxsafe.cli.command import Command
from mxsafe.formats import MX_FORMATS, OPERAND_FORMATS
from verif.cli.command import run, run_in


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
        ["disassemble"],
        ["run"],
        ["bitstream"],
        *(["quantise"], ["dequantise"], ["analyze"]),
    ],
)
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    assert "usage: mxsafe" in capsys.readouterr().out


def test_the_help_says_what_its_examples_need(capsys: pytest.CaptureFixture[str]) -> None:
    """An extra of the project stands beside each example that does not work without one."""
    assert run("--help") == 0
    examples = re.findall(r"^  mxsafe .*\n(?: {20}.*\n)*", capsys.readouterr().out, re.MULTILINE)
    needed = {
        re.split(r"  +|\n", example.strip())[0]: extra
        for example in examples
        for extra in re.findall(r"pip install '\.\[(\w+)\]'", example)
    }
    program = "mxsafe run program.bin memory.bin --backend"
    assert needed == {
        "mxsafe analyse x.npy --out errors": "figures",
        "mxsafe synth safe_mac_exact --technology xilinx": "synth",
        "mxsafe compile model.pt2 --out model.mxprog": "torch",
        "mxsafe compile model.onnx --out model.mxprog": "onnx",
        f"{program} verilog": "simulate",
        f"{program} serial --port /dev/ttyUSB0": "serial",
        "mxsafe bitstream": "synth",
    }
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert set(needed.values()) <= project["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("it failed"), 1, "mxsafe: it failed\n"),
        (UsageError("it is wrong"), 2, "mxsafe: it is wrong\n"),
        (KeyboardInterrupt(), 130, "mxsafe: interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_no_warning_of_unfinished_hardware_beside_an_error(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(args: Namespace) -> None:
        _ = Module()
        raise error

    command = Command(summary="", add_arguments=lambda parser: None, run=fail)
    # As when something has been elaborated before.
    monkeypatch.setattr(UnusedElaboratable, "_MustUse__silence", False)
    monkeypatch.setitem(cast(dict[str, Command], cli._COMMANDS), "formats", command)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnusedElaboratable)
        assert run("formats") == code
        error.__traceback__ = None  # frees what is unfinished
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert capsys.readouterr().err == said


def test_as_a_process() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mxsafe", "decode", "0x7f"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert result.stdout.splitlines()[1].endswith("1.96875")


def test_every_module_with_a_command_is_a_command() -> None:
    names = {module.name for module in pkgutil.iter_modules(cli.__path__)}
    with_command = {
        name for name in names if hasattr(import_module(f"mxsafe.cli.{name}"), "COMMAND")
    }
    assert with_command == set(cli._COMMANDS)
    others = {
        *(
            "arguments",
            "command",
            "hardware",
            "machine",
            "outputs",
            "programs",
            "progress",
            "quantisation",
        )
    }
    assert names - with_command == others


@pytest.mark.parametrize(
    "arguments",
    [
        ["verilog", "decoder", "--out", "gen"],
        ["synth", "decoder"],
        ["vectors", "--unit", "decoder"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_formats_without_hardware(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_in(tmp_path, *arguments, "--format", "nvfp4") == 2
    known = MX_FORMATS if arguments[0] == "vectors" else OPERAND_FORMATS
    message = f"argument --format: must be one of {', '.join(known)}, not 'nvfp4'"
    assert capsys.readouterr().err.strip().endswith(message)
    assert not list(tmp_path.iterdir())
