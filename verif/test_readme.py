"""The README's examples print what it says they print."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from mxsafe.cli import main
from verif.support.manifest import GEN

README = Path(__file__).parents[1] / "README.md"


def test_python_examples() -> None:
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


def test_console_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```console\n\$ mxsafe (.*)\n((?:.*\n)*?)```", README.read_text())
    assert examples
    for command, expected in examples:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == expected


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert len(links) > 5
    for link in links:
        assert (README.parent / link).exists(), link
    assert GEN.is_dir()
