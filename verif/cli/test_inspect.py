"""`mxsafe inspect`."""

import numpy as np
import pytest

from mxsafe.analysis import inspection
from mxsafe.formats import MX_FORMATS, SCALAR_FORMATS
from verif.cli.command import run


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
