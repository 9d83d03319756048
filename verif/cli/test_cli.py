"""The `mxsafe` command as a whole: its commands, its help, its process."""

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mxsafe import cli
from mxsafe.formats import MX_FORMATS, OPERAND_FORMATS
from verif.support.command import run, run_in


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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "the following arguments are required: COMMAND"),
    ],
)
def test_errors(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_in(tmp_path, *arguments) == code
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_module_with_a_command_is_a_command() -> None:
    names = {module.name for module in pkgutil.iter_modules(cli.__path__)}
    with_command = {
        name for name in names if hasattr(import_module(f"mxsafe.cli.{name}"), "COMMAND")
    }
    assert with_command == set(cli._COMMANDS)
    others = {
        *("arguments", "command", "hardware", "machine", "outputs", "progress", "quantisation")
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
