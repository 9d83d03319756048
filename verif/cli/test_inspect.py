"""`mxsafe inspect`."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.analysis import inspection
from mxsafe.formats import MX_FORMATS, SCALAR_FORMATS
from verif.cli.command import run, run_in


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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect", "1", "-0x1p1024"], 2, "must lie within the range of float64, not '-0x1p1024'"),
        (["inspect", "1e309"], 2, "must lie within the range of float64, not '1e309'"),
        (
            ["inspect", "-1/3"],
            2,
            "must be a number such as -2.5, 1e-3, 0x1.4p-3, nan or inf, not '-1/3'",
        ),
        (["inspect", "1", "--format", "fp9"], 2, "must be one of fp64, fp32, "),
        (["inspect"], 2, "the following arguments are required: NUMBER"),
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
