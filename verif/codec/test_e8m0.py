"""E8M0 against ml_dtypes, gfloat's rounding rules and exact arithmetic."""

from fractions import Fraction

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat.formats import format_info_ocp_e8m0
from hypothesis import given
from hypothesis import strategies as st

from mxsafe import e8m0
from verif.support.exact import floor_log2

ALL_BYTES = np.arange(256, dtype=np.uint8)


def test_decode_equals_ml_dtypes() -> None:
    expected = ALL_BYTES.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(e8m0.decode(ALL_BYTES), expected)
    assert e8m0.decode(0) == 2.0**-127
    assert e8m0.decode(ALL_BYTES).dtype == np.float32


def test_decode_equals_gfloat() -> None:
    expected = [gfloat.decode_float(format_info_ocp_e8m0, int(code)).fval for code in ALL_BYTES]
    np.testing.assert_array_equal(e8m0.decode(ALL_BYTES), expected)


@pytest.mark.parametrize("mode", ["floor", "ceil", "rne", "rna"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_scale_encodes_to_itself(mode: e8m0.Mode, dtype: type) -> None:
    values = e8m0.decode(ALL_BYTES).astype(dtype)
    np.testing.assert_array_equal(e8m0.encode(values, mode=mode), ALL_BYTES)


@pytest.mark.parametrize("mode", ["floor", "ceil", "rne", "rna"])
def test_neighbours_of_powers_and_midpoints(mode: e8m0.Mode) -> None:
    powers = 2.0 ** np.arange(-126, 127)
    values = np.concatenate([powers, 1.5 * powers, 0.3 * powers]).astype(np.float32)
    values = np.concatenate(
        [np.nextafter(values, np.float32(side)) for side in (0, np.inf)] + [values]
    )
    expected = []
    for value in values:
        x = Fraction(float(value))
        low = floor_log2(x)
        ratio = x / Fraction(2) ** low
        up = {
            "floor": False,
            "ceil": ratio > 1,
            "rne": ratio > Fraction(3, 2) or (ratio == Fraction(3, 2) and (low + 127) % 2 == 1),
            "rna": ratio >= Fraction(3, 2),
        }[mode]
        expected.append(min(max(low + up + 127, 0), 255))
    np.testing.assert_array_equal(e8m0.encode(values, mode=mode), expected)


def test_one_ulp_below_a_power_of_two_stays_below() -> None:
    below = np.nextafter(np.float32(2.0) ** np.arange(-100, 100, dtype=np.float32), np.float32(0))
    np.testing.assert_array_equal(e8m0.encode(below), np.arange(-101, 99) + 127)
    assert e8m0.encode(0.3) == 125


@pytest.mark.parametrize(
    ("value", "plain", "saturated"),
    [
        (np.inf, 255, 254),
        (2.0**128, 255, 254),
        (np.nan, 255, 255),
        (-1.0, 255, 255),
        (-np.inf, 255, 255),
        (0.0, 0, 0),
        (-0.0, 0, 0),
        (2.0**-200, 0, 0),
        (float(np.finfo(np.float32).max), 254, 254),
        (2.0**-127, 0, 0),
        (5e-324, 0, 0),
    ],
)
def test_edges(value: float, plain: int, saturated: int) -> None:
    assert e8m0.encode(value) == plain
    assert e8m0.encode(value, saturate=True) == saturated


def test_overflow_by_rounding() -> None:
    assert e8m0.encode(1.6 * 2.0**127, mode="rne") == 255
    assert e8m0.encode(1.6 * 2.0**127, mode="rne", saturate=True) == 254
    assert e8m0.encode(1.5 * 2.0**127, mode="rne") == 254
    assert e8m0.encode(1.5 * 2.0**127, mode="rna") == 255
    assert e8m0.encode(1.1 * 2.0**127, mode="ceil") == 255


def test_rna_equals_ml_dtypes_within_range() -> None:
    rng = np.random.default_rng(3)
    values = np.exp2(rng.uniform(-125, 126, 100_000)).astype(np.float32)
    expected = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    np.testing.assert_array_equal(e8m0.encode(values, mode="rna"), expected)


@given(st.floats(min_value=2.0**-127, max_value=2.0**127))
def test_modes_bracket_the_value(value: float) -> None:
    floor, ceil = (float(e8m0.decode(e8m0.encode(value, mode=m))) for m in ("floor", "ceil"))
    assert floor <= value <= ceil <= 2 * floor
    assert float(e8m0.decode(e8m0.encode(value, mode="rne"))) in (floor, ceil)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"^mode must be one of floor, ceil, rne, rna, not 'up'$"):
        e8m0.encode(1.0, mode="up")
    with pytest.raises(TypeError, match=r"^x must have dtype float64, .*, not int64$"):
        e8m0.encode(np.array([1]))
    with pytest.raises(TypeError, match=r"^codes must have an integer dtype, not float64$"):
        e8m0.decode(1.0)
    with pytest.raises(ValueError, match=r"^codes must lie in 0\.\.255, not -1\.\.300$"):
        e8m0.decode([-1, 300])


def test_pairs_in_a_word() -> None:
    high, low = np.array([0, 127, 255, 1]), np.array([255, 128, 0, 2])
    words = e8m0.pack_x2(high, low)
    assert words.dtype == np.uint16
    assert words.tolist() == [0x00FF, 0x7F80, 0xFF00, 0x0102]
    for got, expected in zip(e8m0.unpack_x2(words), (high, low), strict=True):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match=r"^low must lie in 0\.\.255, not 256\.\.256$"):
        e8m0.pack_x2(1, 256)


def test_four_in_a_word() -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(4, 64)
    words = e8m0.pack_x4(codes)
    assert words.dtype == np.int32
    assert words.shape == (4, 16)
    for row, column in np.ndindex(4, 16):
        group = codes[row, 4 * column : 4 * column + 4].tolist()
        assert words[row, column] == int.from_bytes(bytes(group), "little", signed=True)
    np.testing.assert_array_equal(e8m0.unpack_x4(words), codes)
    np.testing.assert_array_equal(e8m0.unpack_x4(words.view(np.uint32)), codes)
    for bad, message in (
        (codes[:, :63], "codes must have a last axis that is a multiple of 4, not 63"),
        (7, "codes must have a last axis that is a multiple of 4, not 0"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            e8m0.pack_x4(bad)
    with pytest.raises(TypeError, match=r"^words must have dtype int32 or uint32, not int64$"):
        e8m0.unpack_x4(words.astype(np.int64))
    with pytest.raises(ValueError, match=r"^words must have rank 1 or more, not 0$"):
        e8m0.unpack_x4(np.int32(1))
