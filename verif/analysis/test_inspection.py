"""The text of numbers and formats, to the letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxsafe.analysis.inspection import (
    BEST_FOR,
    decode_table,
    derivation,
    format_tables,
    number_table,
)
from mxsafe.formats import (
    BLOCK_FORMATS,
    MX_FORMATS,
    SCALAR_FORMATS,
    FloatFormat,
    ScaleFormat,
    scalar_format,
)

EVERY_FORMAT = {**SCALAR_FORMATS, **BLOCK_FORMATS}


def test_a_number_in_every_scalar_format() -> None:
    assert number_table(0.15625) == [
        "0.15625 = (+1) x 1.25 x 2^-3",
        "",
        "format          sign  exponent     mantissa                    value    rel. error",
        "fp64            0     01111111100  01000000000000000000000000  0.15625  exact",
        "                                   00000000000000000000000000",
        "fp32            0     01111100     01000000000000000000000     0.15625  exact",
        "tf32            0     01111100     0100000000                  0.15625  exact",
        "bf16            0     01111100     0100000                     0.15625  exact",
        "fp16            0     01100        0100000000                  0.15625  exact",
        "float8_e4m3fn   0     0100         010                         0.15625  exact",
        "float8_e5m2     0     01100        01                          0.15625  exact",
        "float6_e3m2fn   0     000          10                          0.125    -0.2",
        "float6_e2m3fn   0     00           001                         0.125    -0.2",
        "float4_e2m1fn   0     00           0                           0        -1",
        "float8_e8m0fnu        01111100                                 0.125    -0.2",
    ]


def test_a_negative_number() -> None:
    assert number_table(-2.5, ["fp64", "fp32", "float4_e2m1fn", "float8_e8m0fnu"]) == [
        "-2.5 = (-1) x 1.25 x 2^1",
        "",
        "format          sign  exponent     mantissa                    value  rel. error",
        "fp64            1     10000000000  01000000000000000000000000  -2.5   exact",
        "                                   00000000000000000000000000",
        "fp32            1     10000000     01000000000000000000000     -2.5   exact",
        "float4_e2m1fn   1     10           0                           -2     -0.2",
        "float8_e8m0fnu        11111111                                 nan    -",
    ]


@pytest.mark.parametrize(
    ("number", "name", "row"),
    [
        (0.1, "fp32", ["0", "01111011", "10011001100110011001101", "0.10000000149011612"]),
        (0.1, "bf16", ["0", "01111011", "1001101", "0.10009765625", "+0.00098"]),
        (1e5, "fp16", ["0", "11111", "0000000000", "inf", "overflow"]),
        (-1e5, "float8_e4m3fn", ["1", "1111", "111", "nan", "overflow"]),
        (float("inf"), "bf16", ["0", "11111111", "0000000", "inf", "exact"]),
        (float("-inf"), "float4_e2m1fn", ["1", "11", "1", "-6", "saturated"]),
        (float("nan"), "float8_e5m2", ["0", "11111", "10", "nan", "-"]),
        (float("nan"), "float6_e2m3fn", ["-", "-", "-", "no NaN", "-"]),
        (-0.0, "fp16", ["1", "00000", "0000000000", "-0", "exact"]),
        (0.0, "float8_e8m0fnu", ["", "00000000", "", "5.877471754111438e-39", "+inf"]),
    ],
)
def test_rows(number: float, name: str, row: list[str]) -> None:
    title, empty, header, line = number_table(number, [name])
    starts = [header.index(word) for word in ("sign", "exponent", "mantissa", "value", "rel.")]
    cells = [
        line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    assert cells[: len(row)] == row
    assert line.startswith(name)
    assert empty == ""
    assert title.split(" = ")[0] == repr(number).removesuffix(".0")


@pytest.mark.parametrize(
    ("number", "name", "lines"),
    [
        (
            0.15625,
            "fp32",
            """\
0.15625 in fp32

  0 | 01111100 | 01000000000000000000000

  sign      (-1)^0 = +1
  exponent  01111100 = 124, 2^(124 - 127) = 2^-3
  mantissa  1 + 2097152 / 2^23 = 1.25
  value     (+1) x 1.25 x 2^-3 = 0.15625
  error     exact""",
        ),
        (
            -2.5,
            "fp32",
            """\
-2.5 in fp32

  1 | 10000000 | 01000000000000000000000

  sign      (-1)^1 = -1
  exponent  10000000 = 128, 2^(128 - 127) = 2^1
  mantissa  1 + 2097152 / 2^23 = 1.25
  value     (-1) x 1.25 x 2^1 = -2.5
  error     exact""",
        ),
        (
            0.15625,
            "fp64",
            """\
0.15625 in fp64

  0 | 01111111100 | 0100000000000000000000000000000000000000000000000000

  sign      (-1)^0 = +1
  exponent  01111111100 = 1020, 2^(1020 - 1023) = 2^-3
  mantissa  1 + 1125899906842624 / 2^52 = 1.25
  value     (+1) x 1.25 x 2^-3 = 0.15625
  error     exact""",
        ),
        (
            -2.5,
            "fp64",
            """\
-2.5 in fp64

  1 | 10000000000 | 0100000000000000000000000000000000000000000000000000

  sign      (-1)^1 = -1
  exponent  10000000000 = 1024, 2^(1024 - 1023) = 2^1
  mantissa  1 + 1125899906842624 / 2^52 = 1.25
  value     (-1) x 1.25 x 2^1 = -2.5
  error     exact""",
        ),
        (
            -0.003,
            "float8_e4m3fn",
            """\
-0.003 in float8_e4m3fn

  1 | 0000 | 010

  sign      (-1)^1 = -1
  exponent  0000 = 0 (subnormal), 2^(1 - 7) = 2^-6
  mantissa  0 + 2 / 2^3 = 0.25
  value     (-1) x 0.25 x 2^-6 = -0.00390625
  error     -0.000906, relative +0.3""",
        ),
        (
            0.1,
            "mxsf",
            """\
0.1 in mxsf, relative to a block scale of 1

  0 | 00 | 110 | 10

  sign      (-1)^0 = +1
  exponent  00, so sub-FP E3M2: 110 = 6, 2^(6 - 10) = 2^-4
  mantissa  1 + 2 / 2^2 = 1.5
  value     (+1) x 1.5 x 2^-4 = 0.09375
  error     -0.00625, relative -0.063""",
        ),
        (
            -0.1,
            "mxint8",
            """\
-0.1 in mxint8, relative to a block scale of 1

  11111010

  value     -6 / 2^6 = -0.09375
  error     +0.00625, relative -0.063""",
        ),
        (
            0.15625,
            "float8_e8m0fnu",
            """\
0.15625 in float8_e8m0fnu

  01111100

  exponent  01111100 = 124
  value     2^(124 - 127) = 2^-3 = 0.125
  error     -0.0312, relative -0.2""",
        ),
        (
            -1.0,
            "float8_e8m0fnu",
            """\
-1 in float8_e8m0fnu

  11111111

  exponent  all ones: NaN
  value     nan
  error     -""",
        ),
        (
            1e9,
            "fp16",
            """\
1000000000 in fp16

  0 | 11111 | 0000000000

  sign      (-1)^0 = +1
  exponent  all ones and the mantissa zero: Inf
  value     inf
  error     overflow""",
        ),
        (
            float("nan"),
            "fp16",
            """\
nan in fp16

  0 | 11111 | 1000000000

  sign      (-1)^0 = +1
  exponent  all ones and the mantissa not zero: NaN
  value     nan
  error     -""",
        ),
        (
            float("-inf"),
            "float8_e4m3fn",
            """\
-inf in float8_e4m3fn

  1 | 1111 | 111

  sign      (-1)^1 = -1
  exponent  all ones and so is the mantissa: NaN
  value     nan
  error     overflow""",
        ),
        (
            2.6,
            "nvfp4",
            """\
2.6 in nvfp4, relative to a block scale of 1 and a tensor scale of 1

  0 | 10 | 1

  sign      (-1)^0 = +1
  exponent  10 = 2, 2^(2 - 1) = 2^1
  mantissa  1 + 1 / 2^1 = 1.5
  value     (+1) x 1.5 x 2^1 = 3
  error     +0.4, relative +0.15""",
        ),
        (float("nan"), "float4_e2m1fn", "nan in float4_e2m1fn\n\n  no code"),
        (
            float("nan"),
            "mxfp8_e4m3",
            "nan in mxfp8_e4m3, relative to a block scale of 1\n\n"
            "  no code: NaN lives in the scale of a block",
        ),
    ],
)
def test_derivation(number: float, name: str, lines: str) -> None:
    assert derivation(number, EVERY_FORMAT[name]) == lines.splitlines()


def test_decode_table() -> None:
    assert decode_table([0x81, 0x7F, 0x3C], MX_FORMATS["mxfp8_e4m3"]) == [
        "code  fields      mode            value",
        "0x81  1 0000 001  E4M3 subnormal  -0.001953125",
        "0x7f  0 1111 111  NaN             nan",
        "0x3c  0 0111 100  E4M3            1.5",
    ]
    with pytest.raises(ValueError, match=r"^codes must lie in 0\.\.15, not 16\.\.16$"):
        decode_table([16], MX_FORMATS["mxfp4_e2m1"])


def test_every_format_is_listed_once_with_its_use() -> None:
    lines = format_tables()
    assert set(BEST_FOR) == set(EVERY_FORMAT)
    first = [line.split(" ")[0] for line in lines]
    for name in EVERY_FORMAT:
        assert first.count(name) == (2 if name in SCALAR_FORMATS else 1)
        assert any(line.startswith(name) and line.endswith(BEST_FOR[name]) for line in lines)
    assert max(map(len, lines)) <= 100


def test_rows_of_the_format_tables() -> None:
    lines = format_tables()
    for line in (
        "format          bits  sign  exponent  mantissa  bias  special  best for",
        "fp32              32     1         8        23   127  Inf NaN  "
        "master weights, accumulators",
        "float8_e4m3fn      8     1         4         3     7  NaN      "
        "forward pass, inference quantisation",
        "float8_e8m0fnu     8     0         8         0   127  NaN      shared scales of MX blocks",
        "format              largest  smallest normal  smallest subnormal  decimal digits",
        "fp64            1.7977e+308      2.2251e-308         4.9407e-324            16.0",
        "fp16                  65504       6.1035e-05          5.9605e-08             3.3",
        "float8_e8m0fnu   1.7014e+38       5.8775e-39                   -             0.3",
        "format      element    bits  in total  block      largest  smallest  binades  best for",
        "mxsf        E2M5+E3M2     8     8.125  64, 8x8    1.96875     2^-11       12  "
        "inference and training",
        "mxint8      INT8          8      8.25  32, 8x8    1.98438      2^-6        7  "
        "direct-cast inference",
        "nvfp4       E2M1          4       4.5  16, 16x16        6      2^-1        4  "
        "inference, training",
    ):
        assert line in lines


@given(st.floats(), st.sampled_from(list(EVERY_FORMAT)))
def test_lines_fit_a_terminal(number: float, name: str) -> None:
    assert max(map(len, number_table(number))) <= 100
    assert max(map(len, derivation(number, EVERY_FORMAT[name]))) <= 100


@pytest.mark.parametrize("number", [-1.7976931348623157e308, -2.2250738585072014e-308, 5e-324])
def test_the_longest_lines_fit_a_terminal(number: float) -> None:
    assert max(map(len, number_table(number))) <= 100
    assert max(map(len, derivation(number, scalar_format("fp64")))) <= 100


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(list(SCALAR_FORMATS)))
def test_the_bits_of_a_row_are_those_of_the_codec(number: float, name: str) -> None:
    from mxsafe.codec import scalar

    fmt = SCALAR_FORMATS[name]
    assert isinstance(fmt, FloatFormat | ScaleFormat)
    bits = derivation(number, fmt)[2].replace("|", "").replace(" ", "")
    assert int(bits, 2) == int(scalar.encode(number, name))
    assert len(bits) == fmt.width
