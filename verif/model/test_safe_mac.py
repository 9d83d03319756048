"""The MAC models against exact rational arithmetic, sum by sum."""

from fractions import Fraction

import numpy as np
import pytest

from mxsafe import model
from mxsafe.codec import elements
from mxsafe.model.float_arithmetic import decode_float
from verif import corner_cases
from verif.exact import mx_table, nearest_float


def signed(code: int) -> Fraction:
    magnitude = mx_table("mxsf")[code & 0x7F]
    return -magnitude if code >> 7 else magnitude


def rounded(value: Fraction) -> Fraction:
    nearest = nearest_float(abs(value), mantissa_bits=7, min_exponent=-11)
    return nearest if value >= 0 else -nearest


def test_both_arithmetics_equal_rational_ones() -> None:
    a, w = corner_cases.mixed(5, 6_000, 4)
    fp12, exact = decode_float(model.safe_mac(a, w)), model.safe_mac_exact(a, w)
    for row in range(len(a)):
        p = [signed(x) * signed(y) for x, y in zip(a[row].tolist(), w[row].tolist(), strict=True)]
        assert Fraction(int(exact[row]), 1 << 22) == sum(p)
        r = [rounded(value) for value in p]
        assert Fraction(float(fp12[row])) == rounded(rounded(r[0] + r[1]) + rounded(r[2] + r[3]))


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
    with pytest.raises(ValueError, match=r"^the last axis of a must be a power of two, not 3$"):
        model.safe_mac_exact([[0] * 3], [[0] * 3])


def test_formats_without_hardware_are_refused() -> None:
    for name in ("mxint8", "mxfp8_e4m3", "mxfp8_e5m2"):
        for call in (model.safe_mac, model.safe_mac_exact):
            with pytest.raises(ValueError, match=r"^format must have floating-point elements"):
                call([[0] * 4], [[0] * 4], name)
        with pytest.raises(ValueError, match=r"^format must have floating-point elements"):
            model.decode_fields([0], name)
    with pytest.raises(ValueError, match=r"^lanes must keep the largest sum of mxsf products"):
        model.safe_mac([[0] * 8], [[0] * 8])
    with pytest.raises(ValueError, match=r"^format must have products within 15.9375 of fp12"):
        model.safe_mac([[0] * 4], [[0] * 4], "mxfp6_e2m3")
