"""`mxsafe decode`."""

import pytest

from verif.cli.command import run


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
