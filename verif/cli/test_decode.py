"""`mxsafe decode`."""

from pathlib import Path

import pytest

from verif.cli.command import run, run_in


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
    assert run("decode", "--format", "nvfp4", "0xd") == 0
    assert capsys.readouterr().out.splitlines()[1] == "0x0d  1 10 1  E2M1  -3"
    assert run("decode", "--format", "mxint8", "0x80") == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("two's complement  -2")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["decode", "1", "300"], 2, "mxsafe: CODE must lie in 0..255 for mxsf, not 300"),
        (["decode", "9" * 30], 2, "mxsafe: CODE must lie in 0..255 for mxsf, not 999"),
        (["decode", "-1"], 2, "CODE must lie in 0..255 for mxsf, not -1"),
        (["decode", "zz"], 2, "must be an integer such as 0x5f, 0b1011111 or 95, not 'zz'"),
        (["decode", "--format", "fp9", "1"], 2, "must be one of mxsf, "),
        (["decode"], 2, "the following arguments are required: CODE"),
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
