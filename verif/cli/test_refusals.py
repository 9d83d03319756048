"""Command lines that are refused: a line says why, the exit code is right, no file is changed.

They are in ``refusals.txt``, each with its exit code and the last line of what it says. There three
points stand for the rest of a list.
"""

import re
import shlex
from pathlib import Path

import pytest

from mxsafe.machine.configuration import MachineConfiguration
from verif.cli.command import run_in, write_program

LINES = (Path(__file__).parent / "refusals.txt").read_text().splitlines()
assert LINES
_SIZES = {"file": 0, "word.bin": 32, "short.bin": 33, "m.pt2": 0, "zeros.pt2": 9, "m.onnx": 0}
"""Bytes of files that are there, all of them 0."""


@pytest.mark.parametrize(("words", "said"), [*zip(LINES[::2], LINES[1::2], strict=True)])
def test_refusals(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_program(tmp_path, MachineConfiguration())
    for name, size in _SIZES.items():
        (tmp_path / name).write_bytes(bytes(size))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code = run_in(tmp_path, *shlex.split(words)[1:])
    out, err = capsys.readouterr()
    *usage, last = err.splitlines()
    assert re.fullmatch(re.escape(said.strip()).replace(r"\.\.\.", ".*"), f"{code} {last}")
    assert out == ""
    assert bool(usage) == (": error: " in last)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
