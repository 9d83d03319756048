"""Widths and formats of products and sums, against every pair of formats in rational arithmetic."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from mxsafe.formats import (
    FP12_E4M7,
    MX_FORMATS,
    FloatFields,
    FloatFormat,
    IntFormat,
    MXFormat,
    ScaleFormat,
    has_special_codes,
)
from mxsafe.products import (
    WIDEST_SUM,
    OperandFormats,
    exact_sum_bits,
    fp12_format,
    product_bits,
    require_scale,
)
from verif.support import exact
from verif.support.messages import INTEGERS

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
    integers_a = [value / smallest[0] for value in values_a]
    integers_w = [value / smallest[1] for value in values_w]
    assert all(number.denominator == 1 for number in (*integers_a, *integers_w))
    products = np.outer(np.array(integers_a, object), np.array(integers_w, object))
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
        assert formats.product_bits == product_bits(fmt.element)
        assert formats.quantum_exponent == 2 * fmt.element.quantum_exponent
        assert formats.has_special_codes == has_special_codes(fmt)
        assert [formats.sum_bits(n) for n in (1, 3, 64)] == [
            exact_sum_bits(fmt, n) for n in (1, 3, 64)
        ]
        if name != "mxint8":
            assert [formats.fp12_format(n) for n in (1, 4)] == [fp12_format(fmt, n) for n in (1, 4)]


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
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    own = MXFormat(name="own", element=mxsf.element, scale=coarse)
    for place in "aw":
        operands = {"a": mxsf, "w": mxsf}
        with pytest.raises(ValueError) as error:
            OperandFormats(**operands | {place: own})
        assert str(error.value) == (
            f"{place} must have scales of float8_e8m0fnu, whose codes the hardware adds, not of "
            "e5m0 as own has"
        )
        with pytest.raises(TypeError) as wrong:
            OperandFormats(**operands | {place: "mxsf"})
        assert str(wrong.value) == f"{place} must be an MXFormat, not str"
    require_scale("q", mxsf)
    with pytest.raises(TypeError, match=r"^format must be an MXFormat, not str$"):
        OperandFormats.same("mxsf")


def test_values_that_the_adder_tree_cannot_take() -> None:
    tiny = MXFormat(
        name="tiny",
        element=FloatFormat(
            name="x", fields=FloatFields(exponent_bits=2, mantissa_bits=1, bias=70)
        ),
    )
    mxsf, mxint8 = MX_FORMATS["mxsf"], MX_FORMATS["mxint8"]
    for call in (
        lambda: fp12_format(tiny, 4),
        lambda: OperandFormats(mxsf, tiny).fp12_format(4),
        lambda: OperandFormats(tiny, mxsf).fp12_format(4),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == (
            "format must have elements that are multiples of 2^-64 below 2^49 for arithmetic fp12, "
            "not tiny with multiples of 2^-70 below 2^-66"
        )
    for pair in ((mxint8, mxsf), (mxsf, mxint8)):
        with pytest.raises(ValueError) as error:
            OperandFormats(*pair).fp12_format(4)
        assert str(error.value) == INTEGERS
    for number in (3, 0, True):
        with pytest.raises(ValueError) as error:
            fp12_format(mxsf, number)
        assert str(error.value) == f"lanes must be a power of two, not {number!r}"
    with pytest.raises(TypeError, match=r"^format must be an MXFormat, not str$"):
        fp12_format("mxsf", 4)


def test_bits_of_exact_sums() -> None:
    bits = {name: exact_sum_bits(fmt, 64) for name, fmt in MX_FORMATS.items()}
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
    assert exact_sum_bits(MX_FORMATS["mxsf"], np.int64(64)) == 30
    e5m2 = MX_FORMATS["mxfp8_e5m2"]
    assert exact_sum_bits(e5m2, 1 << 16) == WIDEST_SUM
    with pytest.raises(ValueError) as error:
        exact_sum_bits(e5m2, (1 << 16) + 1)
    assert str(error.value) == (
        "the sum of 65537 products of mxfp8_e5m2 must have at most 80 bits, not 81"
    )
    wide = MXFormat(name="int7", element=IntFormat(name="int7", width=7, fraction_bits=0))
    assert OperandFormats(e5m2, wide).sum_bits(1) == 32 + 6
    with pytest.raises(ValueError) as error:
        OperandFormats(e5m2, wide).sum_bits(1 << 43)
    assert str(error.value) == (
        f"the sum of {1 << 43} products of mxfp8_e5m2 and int7 must have at most 80 bits, not 81"
    )
