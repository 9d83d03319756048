"""Elements against exact arithmetic, gfloat and ml_dtypes: all codes, every midpoint."""

from fractions import Fraction

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat import formats as gfloat_formats
from hypothesis import given
from hypothesis import strategies as st

import mxsafe as mx
from mxsafe.codec._inputs import to_float64
from mxsafe.codec.elements import Rounding
from mxsafe.formats import MX_FORMATS
from verif.support import exact
from verif.support.tests import Volume, raises, some

DETERMINISTIC: tuple[Rounding, ...] = ("rne", "rna", "rtz")
ML_DTYPES = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4_e2m1": ml_dtypes.float4_e2m1fn,
}
GFLOAT = {
    "mxfp8_e4m3": gfloat_formats.format_info_ocp_e4m3,
    "mxfp8_e5m2": gfloat_formats.format_info_ocp_e5m2,
    "mxfp6_e3m2": gfloat_formats.format_info_ocp_e3m2,
    "mxfp6_e2m3": gfloat_formats.format_info_ocp_e2m3,
    "mxfp4_e2m1": gfloat_formats.format_info_ocp_e2m1,
}
every_format = pytest.mark.parametrize("name", MX_FORMATS)


def critical_values(name: str) -> np.ndarray:
    """Every value and midpoint of a format, their float64 neighbours, and what is beyond."""
    table = np.array([float(value) for value in exact.mx_table(name)])
    points = np.concatenate(
        [table, (table[:-1] + table[1:]) / 2, [table[-1] * 1.2, table[-1] * 1e6]]
    )
    values = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, 0)])
    return np.concatenate([values, -values])


def expected_code(value: float, name: str, rounding: str) -> int:
    element = MX_FORMATS[name].element
    magnitude = exact.round_to_table(Fraction(abs(value)), exact.mx_table(name), rounding)
    negative = bool(np.signbit(value))
    if name == "mxint8":
        return (-magnitude if negative else magnitude) % 256
    return magnitude | negative << (element.width - 1)


@every_format
def test_decode_equals_exact_arithmetic(name: str) -> None:
    element, table = MX_FORMATS[name].element, exact.mx_table(name)
    decoded = mx.decode(np.arange(1 << element.width), name)
    if name == "mxint8":
        expected = [((code + 128) % 256 - 128) / 64 for code in range(256)]
        np.testing.assert_array_equal(decoded, expected)
        return
    half = 1 << (element.width - 1)
    for sign, codes in ((1, decoded[:half]), (-1, decoded[half:])):
        assert [Fraction(float(value)) * sign for value in codes[: len(table)]] == list(table)
        assert not np.isfinite(codes[len(table) :]).any()
    assert np.signbit(decoded[half])


@pytest.mark.parametrize("name", ML_DTYPES)
def test_decode_equals_ml_dtypes(name: str) -> None:
    codes = np.arange(1 << MX_FORMATS[name].element.width, dtype=np.uint8)
    expected = codes.view(ML_DTYPES[name]).astype(np.float32)
    np.testing.assert_array_equal(mx.decode(codes, name), expected)


@pytest.mark.parametrize("name", GFLOAT)
def test_decode_equals_gfloat(name: str) -> None:
    codes = np.arange(1 << MX_FORMATS[name].element.width)
    expected = np.array([gfloat.decode_float(GFLOAT[name], int(code)).fval for code in codes])
    decoded = mx.decode(codes, name)
    np.testing.assert_array_equal(decoded, expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.signbit(decoded)[finite], np.signbit(expected)[finite])


def gfloat_info(name: str, k: int, precision: int, bias: int) -> gfloat.FormatInfo:
    return gfloat.FormatInfo(
        name=name,
        k=k,
        precision=precision,
        bias=bias,
        is_signed=True,
        domain=gfloat.types.Domain.Finite,
        has_nz=True,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=False,
    )


def test_mxsf_decode_equals_gfloat() -> None:
    e2m5 = gfloat_info("e2m5", 8, 6, 3)
    e3m2 = gfloat_info("e3m2", 6, 3, 10)
    for code in range(256):
        if code >> 5 & 3:
            expected = gfloat.decode_float(e2m5, code).fval
        else:
            expected = gfloat.decode_float(e3m2, code >> 7 << 5 | code & 31).fval
        got = float(mx.decode(code, "mxsf"))
        assert got == expected
        assert np.signbit(got) == np.signbit(expected)


def test_mxsf_facts() -> None:
    values = mx.decode(np.arange(128), "mxsf")
    assert (np.diff(values) > 0).all()
    assert len(set(mx.decode(np.arange(256), "mxsf").tolist())) == 255
    assert values[-1] == 63 / 32
    assert values[1] == 2.0**-11
    assert values[0x1F] == 0.21875
    assert values[0x20] == 0.25
    np.testing.assert_array_equal(values * 2**11, np.floor(values * 2**11))


@every_format
@pytest.mark.parametrize("rounding", some(DETERMINISTIC))
def test_encode_equals_exact_arithmetic(name: str, rounding: Rounding, volume: Volume) -> None:
    rng, count = np.random.default_rng(1), volume(350, 1000)
    largest = float(exact.mx_table(name)[-1])
    wide = rng.standard_normal(2 * count) * np.exp2(rng.integers(-14, 1, 2 * count)) * largest
    values = np.concatenate([critical_values(name), wide, rng.uniform(-largest, largest, count)])
    expected = [expected_code(float(value), name, rounding) for value in values]
    np.testing.assert_array_equal(mx.encode(values, name, rounding=rounding), expected)


@pytest.mark.parametrize("name", ML_DTYPES)
def test_encode_equals_ml_dtypes(name: str) -> None:
    rng = np.random.default_rng(2)
    largest = float(exact.mx_table(name)[-1])
    values = (rng.standard_normal(200_000) * np.exp2(rng.integers(-12, 2, 200_000))).astype(
        np.float32
    )
    values = np.concatenate(
        [values * np.float32(largest), critical_values(name).astype(np.float32)]
    )
    expected = np.clip(values, -largest, largest).astype(ML_DTYPES[name]).view(np.uint8)
    np.testing.assert_array_equal(mx.encode(values, name), expected)


gfloat_modes = pytest.mark.parametrize(
    ("rounding", "mode"),
    [
        ("rne", gfloat.RoundMode.TiesToEven),
        ("rna", gfloat.RoundMode.TiesToAway),
        ("rtz", gfloat.RoundMode.TowardZero),
    ],
)


@pytest.mark.parametrize("name", GFLOAT)
@gfloat_modes
def test_encode_equals_gfloat(name: str, rounding: Rounding, mode: gfloat.RoundMode) -> None:
    info = GFLOAT[name]
    values = critical_values(name)
    rounded = gfloat.round_ndarray(info, values, mode, True)
    np.testing.assert_array_equal(
        mx.encode(values, name, rounding=rounding), gfloat.encode_ndarray(info, rounded)
    )


@gfloat_modes
@pytest.mark.parametrize("bias", [3, 1])
def test_e2m5_equals_gfloat(rounding: Rounding, mode: gfloat.RoundMode, bias: int) -> None:
    """Bias 1, as OCP would have it, is ours with the scale moved by 2."""
    info = gfloat_info("e2m5", 8, 6, bias)
    moved = 2.0 ** (3 - bias)
    codes = np.arange(256)
    decoded = np.array([gfloat.decode_float(info, int(code)).fval for code in codes])
    np.testing.assert_array_equal(mx.decode(codes, "mxfp8_e2m5") * moved, decoded)
    values = critical_values("mxfp8_e2m5")
    rounded = gfloat.round_ndarray(info, values * moved, mode, True)
    np.testing.assert_array_equal(
        mx.encode(values, "mxfp8_e2m5", rounding=rounding), gfloat.encode_ndarray(info, rounded)
    )


@every_format
def test_every_code_encodes_to_itself(name: str) -> None:
    codes = np.arange(1 << MX_FORMATS[name].element.width)
    values = mx.decode(codes, name)
    kept = np.isfinite(values) & (values != -2.0 if name == "mxint8" else True)
    for rounding in DETERMINISTIC:
        got = mx.encode(values[kept], name, rounding=rounding)
        np.testing.assert_array_equal(got, codes[kept])
    np.testing.assert_array_equal(
        mx.encode(values[kept], name, rounding="sr", random=1), codes[kept]
    )


def test_the_seam_rounds_up_to_e2m5() -> None:
    assert mx.encode(0.234375, "mxsf") == 0x20  # the tie
    assert mx.encode(np.nextafter(0.234375, 0), "mxsf") == 0x1F
    assert mx.encode(0.24, "mxsf") == 0x20


def test_signs_of_zero() -> None:
    tiny = np.array([0.0, -0.0, 1e-9, -1e-9])
    assert mx.encode(tiny, "mxsf").tolist() == [0, 0x80, 0, 0x80]
    assert mx.encode(tiny, "mxint8").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_half_and_bfloat16(dtype: type) -> None:
    infinity = np.array(np.inf, dtype).view(np.uint16)
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = codes[(codes & 0x7FFF) <= infinity].view(dtype)
    np.testing.assert_array_equal(
        mx.encode(values, "mxsf"), mx.encode(values.astype(np.float64), "mxsf")
    )


def test_names_of_roundings() -> None:
    y = np.random.default_rng(3).standard_normal(500)
    np.testing.assert_array_equal(
        mx.encode(y, "mxsf", rounding="even"), mx.encode(y, "mxsf", rounding="rne")
    )
    np.testing.assert_array_equal(
        mx.quantize(y, rounding="even").codes, mx.quantize(y, rounding="rne").codes
    )
    for name, message in (
        (
            "nearest",
            "rounding must not be 'nearest', which leaves ties open (to even in PyTorch, away from "
            "zero in microxcaling): say 'rne' or 'rna'",
        ),
        (
            "floor",
            "rounding must not be 'floor', which microxcaling uses for rounding towards zero, not "
            "down: say 'rtz'",
        ),
    ):
        with raises(ValueError, message):
            mx.encode(y, "mxsf", rounding=name)


def test_every_bfloat16_is_read_as_ml_dtypes_does() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(invalid="ignore"):
        expected = values.astype(np.float64)
    read = to_float64("x", values)
    np.testing.assert_array_equal(read, expected)
    np.testing.assert_array_equal(np.signbit(read), np.signbit(expected))


finite = st.floats(allow_nan=False, allow_infinity=False)
any_format = st.sampled_from(list(MX_FORMATS))
any_rounding = st.sampled_from(DETERMINISTIC)


@given(finite, any_format, any_rounding)
def test_encoding_is_idempotent(y: float, name: str, rounding: Rounding) -> None:
    once = mx.encode(y, name, rounding=rounding)
    assert mx.encode(mx.decode(once, name), name, rounding=rounding) == once


@given(finite, finite, any_format, any_rounding)
def test_encoding_is_monotone(x: float, y: float, name: str, rounding: Rounding) -> None:
    low, high = mx.decode(mx.encode(sorted([x, y]), name, rounding=rounding), name)
    assert low <= high


@given(finite, any_format, any_rounding)
def test_encoding_is_symmetric(y: float, name: str, rounding: Rounding) -> None:
    plus, minus = mx.decode(mx.encode([y, -y], name, rounding=rounding), name)
    assert plus == -minus


def test_stochastic_rounding_follows_the_supplied_words() -> None:
    low, high = 1.0, 1.0 + 2.0**-5
    y = np.full(4, low + 0.25 * (high - low))
    words = np.array([0, (1 << 30) - 1, 1 << 30, (1 << 32) - 1], np.uint32)
    got = mx.decode(mx.encode(y, "mxsf", rounding="sr", random=words), "mxsf")
    assert got.tolist() == [high, high, low, low]


def test_stochastic_rounding_is_unbiased_and_repeatable() -> None:
    y = np.full(200_000, 1.0 + 0.3 * 2.0**-5)
    first = mx.encode(y, "mxsf", rounding="sr", random=5)
    np.testing.assert_array_equal(
        first, mx.encode(y, "mxsf", rounding="sr", random=np.random.default_rng(5))
    )
    ups = (first == 0x61).sum()
    assert abs(ups - 60_000) < 6 * np.sqrt(200_000 * 0.3 * 0.7)
    assert mx.encode([5.0, -9.0], "mxsf", rounding="sr", random=1).tolist() == [0x7F, 0xFF]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"^y must not hold NaN: NaN lives in the scale"):
        mx.encode([np.nan], "mxsf")
    with pytest.raises(ValueError, match=r"^rounding must be one of rne, rna, rtz, sr, not 'up'$"):
        mx.encode([1.0], "mxsf", rounding="up")
    with pytest.raises(TypeError, match=r"^random must be a numpy Generator, a seed or a uint32"):
        mx.encode([1.0], "mxsf", rounding="sr")
    with pytest.raises(ValueError, match=r"^random must have the shape \(1,\) of the input, not"):
        mx.encode([1.0], "mxsf", rounding="sr", random=np.zeros(2, np.uint32))
    with pytest.raises(TypeError, match=r"^random must have dtype uint32, not float64$"):
        mx.encode([1.0], "mxsf", rounding="sr", random=np.zeros(1))
    with pytest.raises(ValueError, match=r"^codes must lie in 0\.\.15, not 16\.\.16$"):
        mx.decode([16], "mxfp4_e2m1")
