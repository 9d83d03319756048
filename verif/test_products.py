"""Widths and formats of products and sums, against every pair of formats in rational arithmetic."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from mxsafe.formats import (
    FORMAT_SETS,
    FP12_E4M7,
    MX_FORMATS,
    FloatFields,
    FloatFormat,
    FormatSet,
    IntFormat,
    MXFormat,
    ScaleFormat,
    has_special_codes,
    mx_formats,
)
from mxsafe.products import (
    WIDEST_SUM,
    OperandFormats,
    require_scale,
    signed_name,
)
from mxsafe.rtl.array.exact import Exact
from mxsafe.rtl.array.fp12 import Fp12
from verif.support import exact
from verif.support.tests import INTEGERS, raises

PAIRS = list(itertools.product(MX_FORMATS, repeat=2))
FLOAT_PAIRS = [pair for pair in PAIRS if "mxint8" not in pair]
COUNTS = [1, 2, 3, 4, 5, 16, 63, 64, 65, 4096]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


def formats_of(pair: tuple[str, str]) -> OperandFormats:
    return OperandFormats(*(MX_FORMATS[name] for name in pair))


def finite_values(name: str) -> list[Fraction]:
    codes = range(1 << MX_FORMATS[name].element.width)
    values = [exact.element_value(name, code) for code in codes]
    return [value for value in values if value is not None]


@every_pair
def test_every_product_is_an_integer_of_that_many_bits(pair: tuple[str, str]) -> None:
    formats = formats_of(pair)
    values_a, values_w = (finite_values(name) for name in pair)
    quantum = Fraction(2) ** formats.quantum_exponent
    smallest = [min(abs(value) for value in values if value) for values in (values_a, values_w)]
    assert smallest[0] * smallest[1] == quantum
    ratios = [
        [value / least for value in values]
        for values, least in zip((values_a, values_w), smallest, strict=True)
    ]
    assert all(ratio.denominator == 1 for side in ratios for ratio in side)
    products = np.outer(*(np.array([int(ratio) for ratio in side], object) for side in ratios))
    largest = int(np.abs(products).max())
    assert largest.bit_length() == formats.product_bits


@every_pair
def test_bits_of_sums(pair: tuple[str, str]) -> None:
    """As many as the largest sum needs, or one more where the products are no power of two."""
    formats = formats_of(pair)
    quantum = Fraction(2) ** formats.quantum_exponent
    largest = max(map(abs, finite_values(pair[0]))) * max(map(abs, finite_values(pair[1])))
    for products in COUNTS:
        needed = int(products * largest / quantum).bit_length()
        if needed > WIDEST_SUM:
            continue
        bits = formats.sum_bits(products)
        assert needed <= bits <= needed + (products & (products - 1) != 0)


@pytest.mark.parametrize("pair", FLOAT_PAIRS, ids="-".join)
def test_fp12_has_room_and_no_more_than_it_needs(pair: tuple[str, str]) -> None:
    formats = formats_of(pair)
    largest = max(finite_values(pair[0])) * max(finite_values(pair[1]))
    for lanes in (1, 2, 4, 16, 64):
        fmt = formats.fp12_format(lanes)
        assert (fmt.fields.exponent_bits, fmt.fields.mantissa_bits) == (4, 7)
        assert (fmt.width, fmt.specials, fmt.sub) == (12, "none", None)
        # What rounds to the largest value is below the midpoint to the number that comes after it.
        top = Fraction(fmt.max_value)
        step = Fraction(2) ** (fmt.emax - 7)
        assert lanes * largest < top + step / 2
        assert lanes * largest >= (top + step / 2) / 2
        assert (fmt is FP12_E4M7) == (fmt.fields.bias == 12)


def test_both_operands_in_one_format_are_as_they_were() -> None:
    for name, fmt in MX_FORMATS.items():
        formats = OperandFormats.same(fmt)
        assert formats == OperandFormats(fmt, fmt) == formats_of((name, name))
        assert (formats.a, formats.w, formats.name) == (fmt, fmt, name)
        assert formats.quantum_exponent == 2 * fmt.element.quantum_exponent
        assert formats.has_special_codes == has_special_codes(fmt)
        assert OperandFormats(*mx_formats(name)) == OperandFormats(*mx_formats(fmt, name))
        assert OperandFormats(*mx_formats(name)) == formats


def test_two_formats() -> None:
    formats = formats_of(("mxsf", "mxfp8_e4m3"))
    assert formats.name == "mxsf_mxfp8_e4m3"
    assert formats.has_special_codes
    assert formats_of(("mxfp8_e5m2", "mxsf")).has_special_codes
    assert not formats_of(("mxsf", "mxint8")).has_special_codes
    assert formats != formats_of(("mxfp8_e4m3", "mxsf"))
    assert len({formats, formats_of(("mxsf", "mxfp8_e4m3"))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        formats.a = formats.w  # type: ignore[misc]


def test_operands_that_are_refused() -> None:
    mxsf = MX_FORMATS["mxsf"]
    for place in "aw":
        with raises(TypeError, f"{place} must be an MXFormat or a FormatSet, not str"):
            OperandFormats(**{"a": mxsf, "w": mxsf} | {place: "mxsf"})
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    own = MXFormat(name="own", element=mxsf.element, scale=coarse)
    for arithmetic in (Exact, Fp12):
        for place in "aw":
            with raises(
                ValueError,
                f"{'format' if place == 'a' else 'format_w'} must have scales of float8_e8m0fnu, "
                "which the hardware takes, not of e5m0 as own has",
            ):
                arithmetic(formats=OperandFormats(**{"a": mxsf, "w": mxsf} | {place: own}))
    require_scale("q", mxsf)
    with pytest.raises(TypeError, match=r"^format must be an MXFormat, not 'mxsf'$"):
        OperandFormats.same("mxsf")


def test_values_that_the_adder_tree_cannot_take() -> None:
    tiny = MXFormat(
        name="tiny",
        element=FloatFormat(
            name="x", fields=FloatFields(exponent_bits=2, mantissa_bits=1, bias=70)
        ),
    )
    mxsf, mxint8 = MX_FORMATS["mxsf"], MX_FORMATS["mxint8"]
    for parameter, formats in (
        ("format", OperandFormats.same(tiny)),
        ("format_w", OperandFormats(mxsf, tiny)),
        ("format", OperandFormats(tiny, mxsf)),
    ):
        with raises(
            ValueError,
            f"{parameter} must have elements that are multiples of 2^-64 below 2^49 for arithmetic "
            "fp12, not tiny with multiples of 2^-70 below 2^-66",
        ):
            formats.fp12_format(4)
    for parameter, pair in (("format", (mxint8, mxsf)), ("format_w", (mxsf, mxint8))):
        with raises(ValueError, INTEGERS.replace("format", parameter, 1)):
            OperandFormats(*pair).fp12_format(4)
    for number in (3, 0, True):
        with raises(ValueError, f"lanes must be a power of two, not {number!r}"):
            OperandFormats.same(mxsf).fp12_format(number)


def test_elements_that_no_exact_sum_takes() -> None:
    fields = FloatFields(exponent_bits=6, mantissa_bits=1, bias=31)
    wide = MXFormat(name="wide", element=FloatFormat(name="e6m1", fields=fields))
    with raises(ValueError, "elements of wide must have at most 52 bits for exact sums, not 64"):
        OperandFormats(MX_FORMATS["mxfp4_e2m1"], wide).sum_bits(2)


def test_sets_of_formats() -> None:
    """An operand of the set has room for every member; together they are MXSF's."""
    multi, mxsf = FORMAT_SETS["multi"], MX_FORMATS["mxsf"]
    both, single = OperandFormats.same(multi), OperandFormats.same(mxsf)
    assert (both.product_bits, both.quantum_exponent) == (
        single.product_bits,
        single.quantum_exponent,
    )
    for fmt in multi.members:
        values = [value / Fraction(2) ** fmt.emax for value in finite_values(fmt.name)]
        integers = [value / Fraction(2) ** multi.quantum_exponent for value in values]
        assert all(number.denominator == 1 for number in integers)
        assert max(map(abs, integers)) < 1 << both.element_bits("a")
    with pytest.raises(ValueError) as error:
        both.fp12_format(4)
    assert "format must be a single one for arithmetic fp12, not the set multi" in str(error.value)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["mxsf"], "members must be two or more formats of different names, not mxsf"),
        ([], "members must be two or more formats of different names, not none"),
        (
            ["mxsf", "mxsf"],
            "members must be two or more formats of different names, not mxsf, mxsf",
        ),
        (
            ["mxsf", "mxfp8_e4m3"],
            "members must have floating-point elements without codes for NaN and Inf, not those of "
            "mxfp8_e4m3",
        ),
        (
            ["mxint8", "mxsf"],
            "members must have floating-point elements without codes for NaN and Inf, not those of "
            "mxint8",
        ),
        (
            ["mxfp4_e2m1", "mxsf"],
            "the first of members must have codes of 8 bits, the widest, not of 4 as mxfp4_e2m1 "
            "has",
        ),
    ],
)
def test_sets_that_are_refused(members: list[str], message: str) -> None:
    with raises(ValueError, f"FormatSet own: {message}"):
        FormatSet(name="own", members=tuple(MX_FORMATS[name] for name in members))


def member(emax: int, width: int = 8) -> MXFormat:
    fields = FloatFields(exponent_bits=2, mantissa_bits=width - 3, bias=3 - emax)
    return MXFormat(name=f"e{width}", element=FloatFormat(name="x", fields=fields))


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        (None, TypeError, "members must be a tuple of MXFormat, not NoneType"),
        (("mxsf", "mxfp4_e2m1"), TypeError, "members must be a tuple of MXFormat, not of str"),
        (
            (MX_FORMATS["mxsf"], member(-1)),
            ValueError,
            "members must have an emax from 0 to 127, not -1 as e8 has",
        ),
        (
            (MX_FORMATS["mxsf"], member(128)),
            ValueError,
            "members must have an emax from 0 to 127, not 128 as e8 has",
        ),
    ],
)
def test_members_that_are_refused(members: object, error: type[Exception], message: str) -> None:
    with raises(error, f"FormatSet own: {message}"):
        FormatSet(name="own", members=members)


def test_codes_that_are_packed() -> None:
    """Two or four in a place that they fill, and else one."""
    members = (MX_FORMATS["mxsf"], member(0, 3), member(0, 4), member(0, 6))
    assert FormatSet(name="own", members=members).packed == (1, 1, 2, 1)
    with pytest.raises(ValueError, match=r"^format must be one of mxsf, e3, e4, e6, not 'mxint8'$"):
        FormatSet(name="own", members=members).mode(MX_FORMATS["mxint8"])


def test_bits_of_exact_sums() -> None:
    bits = {name: OperandFormats.same(fmt).sum_bits(64) for name, fmt in MX_FORMATS.items()}
    assert bits == {
        "mxsf": 30,
        "mxfp8_e2m5": 22,
        "mxfp8_e4m3": 42,
        "mxfp8_e5m2": 70,
        "mxfp6_e3m2": 24,
        "mxfp6_e2m3": 18,
        "mxfp4_e2m1": 14,
        "mxint8": 21,
    }
    assert OperandFormats.same(MX_FORMATS["mxsf"]).sum_bits(np.int64(64)) == 30
    e5m2 = MX_FORMATS["mxfp8_e5m2"]
    assert OperandFormats.same(e5m2).sum_bits(1 << 16) == WIDEST_SUM
    with raises(
        ValueError, "products must have sums of at most 80 bits, not 65537 of mxfp8_e5m2 with 81"
    ):
        OperandFormats.same(e5m2).sum_bits((1 << 16) + 1)
    wide = MXFormat(name="int7", element=IntFormat(name="int7", width=7, fraction_bits=0))
    assert OperandFormats(e5m2, wide).sum_bits(1) == 32 + 6
    with raises(
        ValueError,
        f"products must have sums of at most 80 bits, not {1 << 43} of mxfp8_e5m2 and int7 with 81",
    ):
        OperandFormats(e5m2, wide).sum_bits(1 << 43)


def test_numbers_in_names() -> None:
    """Numbers of the longest blocks that sums hold, too."""
    assert signed_name(-22) == "m22"
    assert signed_name(1 << 56) == str(1 << 56)
