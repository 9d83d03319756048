"""The MAC models against exact rational arithmetic, sum by sum."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from mxsafe import model
from mxsafe.codec import elements
from mxsafe.formats import FP12_E4M7, MX_FORMATS
from mxsafe.model.float_arithmetic import decode_float
from mxsafe.products import OperandFormats
from verif.rtl.mac import corner_cases
from verif.support.exact import element_value, floor_log2, mx_table, nearest_float
from verif.support.tests import INTEGERS, raises, some


def rounded(value: Fraction, min_exponent: int) -> Fraction:
    nearest = nearest_float(abs(value), mantissa_bits=7, min_exponent=min_exponent)
    return nearest if value >= 0 else -nearest


def smallest_normal(fmt: str, format_w: str, lanes: int) -> int:
    """Exponent of the smallest normal number of E4M7 with room for the largest sum."""
    largest = lanes * max(mx_table(fmt)) * max(mx_table(format_w))
    top = next(e for e in range(-40, 60) if Fraction(255, 128) * Fraction(2) ** e >= largest)
    return top - 14


@pytest.mark.parametrize(
    "pair", some([*itertools.product(MX_FORMATS, repeat=2)], every=3), ids="-".join
)
def test_both_arithmetics_equal_rational_ones(pair: tuple[str, str]) -> None:
    first, second = pair
    count = 6_000 if pair == ("mxsf", "mxsf") else 1_500 if first == second else 400
    a, w = corner_cases.mixed(5, count, 4, *pair)
    exact = model.safe_mac_exact(a, w, first, format_w=second)
    nan = model.mac_nan(a, w, first, format_w=second)
    unit = math.prod(min(value for value in mx_table(fmt) if value) for fmt in pair)
    low = smallest_normal(*pair, 4)
    fp12 = None
    if "mxint8" not in pair:
        sum_format = OperandFormats(MX_FORMATS[first], MX_FORMATS[second]).fp12_format(4)
        fp12 = decode_float(model.safe_mac(a, w, first, format_w=second), sum_format)
    for row in range(len(a)):
        values = [
            [element_value(fmt, code) for code in codes[row].tolist()]
            for fmt, codes in zip(pair, (a, w), strict=True)
        ]
        assert nan[row] == (None in values[0] + values[1])
        p = [(x or Fraction(0)) * (y or Fraction(0)) for x, y in zip(*values, strict=True)]
        assert int(exact[row]) * unit == sum(p)
        if fp12 is not None:
            r = [rounded(value, low) for value in p]
            halves = [rounded(r[0] + r[1], low), rounded(r[2] + r[3], low)]
            assert Fraction(float(fp12[row])) == rounded(sum(halves, Fraction(0)), low)


@pytest.mark.parametrize("fmt", [name for name in MX_FORMATS if name != "mxint8"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_largest_sums_fit_and_a_larger_bias_would_not_do(fmt: str, lanes: int) -> None:
    sum_format = OperandFormats.same(MX_FORMATS[fmt]).fp12_format(lanes)
    assert sum_format.fields.min_exponent == smallest_normal(fmt, fmt, lanes)
    top = MX_FORMATS[fmt].element.max_magnitude
    largest = decode_float(model.safe_mac([[top] * lanes], [[top] * lanes], fmt), sum_format)
    assert sum_format.max_value / 2 < largest[0] <= sum_format.max_value


def test_bias_of_the_paper() -> None:
    formats = {name: OperandFormats.same(fmt) for name, fmt in MX_FORMATS.items()}
    assert formats["mxsf"].fp12_format(4) is FP12_E4M7
    names = [pair.fp12_format(4).name for name, pair in formats.items() if name != "mxint8"]
    assert names == [
        "fp12",
        "fp12",
        "fp12_biasm4",
        "fp12_biasm18",
        "fp12_bias4",
        "fp12_bias8",
        "fp12_bias8",
    ]


def test_sign_of_zero_sums() -> None:
    minus = [[0x80, 0x80, 0x80, 0x80]]
    plus = [[0x7F, 0x7F, 0x7F, 0x7F]]
    assert model.safe_mac(minus, plus).tolist() == [0x800]
    assert model.safe_mac([[0x80, 0x80, 0x80, 0x00]], plus).tolist() == [0]
    assert model.safe_mac([[0x60, 0xE0, 0x60, 0xE0]], [[0x60] * 4]).tolist() == [0]
    # Products that underflow keep their sign.
    assert model.safe_mac([[0x81] * 4], [[0x01] * 4]).tolist() == [0x800]


def test_decoder_model_restores_every_value() -> None:
    codes = np.arange(256)
    sign, exponent, significand = model.decode_fields(codes)
    values = elements.decode(codes, "mxsf")
    np.testing.assert_array_equal(
        np.where(sign, -1.0, 1.0) * np.ldexp(significand / 32.0, exponent.astype(int) - 15), values
    )
    assert ((significand >> 5 == 1) == (values != 0)).all()
    assert (exponent[values == 0] == 0).all()
    assert exponent[np.flatnonzero(np.abs(values) == 2.0**-11)].tolist() == [4, 4]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"^w must have the shape \(1, 4\) of a, not \(1, 2\)$"):
        model.safe_mac([[0] * 4], [[0] * 2])
    with pytest.raises(ValueError, match=r"^a: last axis must be a power of two, not 3$"):
        model.safe_mac_exact([[0] * 3], [[0] * 3])


def test_special_codes_count_as_zeros() -> None:
    nan, one, minus = 0x7F, 0x38, 0xB8  # of E4M3
    assert model.safe_mac_exact([[nan, one]], [[one, one]], "mxfp8_e4m3").tolist() == [1 << 18]
    assert model.mac_nan([[nan, one], [one, one]], [[one] * 2] * 2, "mxfp8_e4m3").tolist() == [
        True,
        False,
    ]
    # A zero has the sign of the code.
    assert model.safe_mac([[nan, 0]], [[minus, minus]], "mxfp8_e4m3").tolist() == [0x800]
    fields = model.decoder_outputs([0x7C, 0xFD], "mxfp8_e5m2")
    assert {name: values.tolist() for name, values in fields.items()} == {
        "sign": [0, 1],
        "exponent": [0, 0],
        "significand": [0, 0],
        "nan": [1, 1],
    }


@pytest.mark.parametrize("fmt", MX_FORMATS)
def test_decoder_outputs_are_the_values(fmt: str) -> None:
    width = MX_FORMATS[fmt].element.width
    codes = np.arange(1 << width)
    outputs = {name: values.tolist() for name, values in model.decoder_outputs(codes, fmt).items()}
    unit = min(value for value in mx_table(fmt) if value)
    for code in codes.tolist():
        value = element_value(fmt, code)
        if fmt == "mxint8":
            assert outputs["number"][code] * unit == value
            continue
        assert outputs.get("nan", [0] * len(codes))[code] == (value is None)
        assert outputs["sign"][code] == code >> (width - 1)
        bits = outputs["significand"][code].bit_length()
        assert bits in (0, MX_FORMATS[fmt].element.mantissa_bits + 1)
        top = floor_log2(max(mx_table(fmt)))
        largest = (1 << max(outputs["exponent"]).bit_length()) - 1
        magnitude = Fraction(outputs["significand"][code]) * Fraction(2) ** (
            outputs["exponent"][code] - largest + top - MX_FORMATS[fmt].element.mantissa_bits
        )
        assert magnitude == abs(value or 0)


def test_formats_without_hardware_are_refused() -> None:
    with raises(ValueError, INTEGERS):
        model.safe_mac([[0] * 4], [[0] * 4], "mxint8")
    with raises(ValueError, "format must have floating-point elements, not those of mxint8"):
        model.decode_fields([0], "mxint8")
