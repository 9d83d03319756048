"""The line of a simulation's progress."""

import io
import sys

import pytest

from mxsafe.cli import progress
from mxsafe.cli.progress import CycleLine, note


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    now = iter([10.0, 12.0, 14.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with CycleLine("program.bin", 9000) as line:
        line(1000)
        line(4000)
    shown = sys.stderr.getvalue().split("\r")
    assert [text.rstrip() for text in shown] == [
        "",
        "program.bin: 1,000 cycles of about 9,000, 500 a second",
        "program.bin: 4,000 cycles of about 9,000, 1,000 a second",
        "",
        "",
    ]
    assert len(set(map(len, shown[1:4]))) == 1


class Unread(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_work_goes_on_where_nobody_reads_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Unread())
    note("placing")


def test_elsewhere_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with CycleLine("program.bin") as line:
        line(1000)
    assert capsys.readouterr() == ("", "")
