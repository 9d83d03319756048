"""`mxsafe formats`."""

import pytest

from mxsafe.analysis import inspection
from verif.cli.command import run


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == 0
    assert capsys.readouterr().out.splitlines() == inspection.format_tables()
