"""FP12 arithmetic of the model against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxsafe.codec import elements
from mxsafe.formats import FP12_E4M7
from mxsafe.model.float_arithmetic import add, decode_float, encode_float, round_float
from verif.support.exact import nearest_float

ALL_CODES = np.arange(1 << 12)


def rational(values: np.ndarray) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def to_fp12(value: Fraction) -> Fraction:
    return nearest_float(value, mantissa_bits=7, min_exponent=-11)


def test_every_code() -> None:
    values = decode_float(ALL_CODES)
    np.testing.assert_array_equal(encode_float(values), ALL_CODES)
    np.testing.assert_array_equal(round_float(values), values)
    assert np.signbit(values[1 << 11])
    for code, value in zip(ALL_CODES[: 1 << 11].tolist(), rational(values), strict=False):
        exponent, mantissa = code >> 7, Fraction(code & 127, 128)
        assert value == (
            Fraction(2) ** (exponent - 12) * (1 + mantissa)
            if exponent
            else Fraction(2) ** -11 * mantissa
        )


def test_rounding_of_every_product() -> None:
    """All 65,536 products of two MXSF codes."""
    table = elements.decode(np.arange(256), "mxsf")
    products = (table[:, None] * table).astype(np.float32).ravel()
    exact = [a * b for a in rational(table) for b in rational(table)]
    assert rational(products) == exact  # float32 holds every product
    rounded = round_float(products)
    known: dict[Fraction, Fraction] = {}
    for value, got in zip(exact, rational(rounded), strict=True):
        magnitude = abs(value)
        if magnitude not in known:
            known[magnitude] = to_fp12(magnitude)
        assert abs(got) == known[magnitude]
    np.testing.assert_array_equal(np.signbit(rounded), np.signbit(products))


def test_rounding_at_every_midpoint() -> None:
    values = decode_float(np.arange(1 << 11))
    middle = (values[:-1].astype(np.float64) + values[1:]) / 2
    around = np.concatenate(
        [
            middle,
            np.nextafter(middle.astype(np.float32), 9),
            np.nextafter(middle.astype(np.float32), 0),
        ]
    ).astype(np.float32)
    assert rational(round_float(around)) == [to_fp12(value) for value in rational(around)]
    assert rational(round_float(-around)) == [-to_fp12(value) for value in rational(around)]


@given(st.integers(0, 4095), st.integers(0, 4095))
def test_sums(a: int, b: int) -> None:
    x, y = decode_float([a]), decode_float([b])
    got = add(x, y)
    exact = Fraction(float(x[0])) + Fraction(float(y[0]))
    largest = Fraction(255, 16)
    expected = max(-largest, min(largest, _signed(exact)))
    assert Fraction(float(got[0])) == expected
    if exact == 0:
        assert np.signbit(got[0]) == (np.signbit(x[0]) and np.signbit(y[0]))
    np.testing.assert_array_equal(decode_float(encode_float(got)), got)


def _signed(value: Fraction) -> Fraction:
    return to_fp12(value) if value >= 0 else -to_fp12(-value)


def test_four_products_never_reach_the_top() -> None:
    assert 4 * Fraction(63, 32) ** 2 < Fraction(255, 16)


@pytest.mark.parametrize("value", [1.001, 32.0, 2.0**-19])
def test_values_without_a_code(value: float) -> None:
    with pytest.raises(ValueError, match=r"^values must be values of fp12, not \["):
        encode_float(np.array([value], np.float32), FP12_E4M7)
