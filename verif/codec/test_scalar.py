"""Scalar formats against exact arithmetic, NumPy and ml_dtypes: all codes, every midpoint."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mxsafe as mx
from mxsafe.codec.elements import Rounding
from mxsafe.codec.scalar import decode, encode, fields
from mxsafe.formats import (
    E8M0,
    FP12_E4M7,
    MX_FORMATS,
    SCALAR_FORMATS,
    FloatFields,
    FloatFormat,
    MXFormat,
    ScaleFormat,
)
from verif.support import exact
from verif.support.tests import raises

DETERMINISTIC: tuple[Rounding, ...] = ("rne", "rna", "rtz")
# name: exponent bits, mantissa bits, bias, finite magnitudes, code of overflow
NUMBERS = {
    "fp64": (11, 52, 1023, 0x7FF << 52, 0x7FF << 52),
    "fp32": (8, 23, 127, 0x7F800000, 0x7F800000),
    "tf32": (8, 10, 127, 0x3FC00, 0x3FC00),
    "bf16": (8, 7, 127, 0x7F80, 0x7F80),
    "fp16": (5, 10, 15, 0x7C00, 0x7C00),
    "float8_e4m3fn": (4, 3, 7, 0x7F, 0x7F),
    "float8_e5m2": (5, 2, 15, 0x7C, 0x7C),
    "float6_e3m2fn": (3, 2, 3, 32, 31),
    "float6_e2m3fn": (2, 3, 1, 32, 31),
    "float4_e2m1fn": (2, 1, 1, 8, 7),
}
QUIET_NAN = {
    "fp64": 0xFFF << 51,
    "fp32": 0x7FC00000,
    "tf32": 0x3FE00,
    "bf16": 0x7FC0,
    "fp16": 0x7E00,
    "float8_e4m3fn": 0x7F,
    "float8_e5m2": 0x7E,
}
DTYPES = {
    "fp64": np.float64,
    "fp32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float6_e3m2fn": ml_dtypes.float6_e3m2fn,
    "float6_e2m3fn": ml_dtypes.float6_e2m3fn,
    "float4_e2m1fn": ml_dtypes.float4_e2m1fn,
}
NARROW = [name for name, numbers in NUMBERS.items() if numbers[0] + numbers[1] < 16]
every_format = pytest.mark.parametrize("name", NUMBERS)
every_narrow_format = pytest.mark.parametrize("name", NARROW)
every_rounding = pytest.mark.parametrize("rounding", DETERMINISTIC)


def width(name: str) -> int:
    return 1 + NUMBERS[name][0] + NUMBERS[name][1]


def all_codes(name: str) -> np.ndarray:
    return np.arange(1 << width(name)).astype(f"u{1 if width(name) <= 8 else 2}")


def finite_values(name: str) -> np.ndarray:
    """Magnitudes of a narrow format by code, from rational arithmetic."""
    return np.array([float(value) for value in exact.float_table(*NUMBERS[name][:4])])


def random_floats(seed: int, count: int, name: str) -> np.ndarray:
    """Random float32 within, below and just beyond the range of a format, of both signs."""
    exponent_bits, mantissa_bits, bias = NUMBERS[name][:3]
    lowest = max(-bias - mantissa_bits - 3, -149)
    highest = min((1 << exponent_bits) - bias + 2, 127)
    rng = np.random.default_rng(seed)
    exponents = rng.integers(lowest, highest, count)
    return np.ldexp(rng.uniform(-2, 2, count), exponents).astype(np.float32)


def expected_code(value: float, name: str, rounding: str) -> int:
    exponent_bits, mantissa_bits, bias, finite, overflow = NUMBERS[name]
    rounded = exact.nearest_float(Fraction(abs(value)), mantissa_bits, 1 - bias, rounding)
    exponent = exact.floor_log2(rounded) if rounded else 1 - bias
    exponent = max(exponent, 1 - bias)
    significand = rounded / Fraction(2) ** (exponent - mantissa_bits)
    assert significand.denominator == 1
    code = (exponent - 1 + bias << mantissa_bits) + significand.numerator
    if code >= finite:
        code = finite - 1 if rounding == "rtz" else overflow
    return code | bool(np.signbit(value)) << exponent_bits + mantissa_bits


@every_narrow_format
def test_decode_of_every_code_equals_exact_arithmetic(name: str) -> None:
    finite = NUMBERS[name][3]
    half = 1 << (width(name) - 1)
    decoded = decode(all_codes(name), name)
    assert decoded.dtype == np.float64
    table = finite_values(name)
    for sign, values in ((1, decoded[:half]), (-1, decoded[half:])):
        np.testing.assert_array_equal(values[:finite] * sign, table)
        special = values[finite:]
        if name in ("bf16", "fp16", "float8_e5m2"):
            assert special[0] * sign == np.inf
            special = special[1:]
        assert np.isnan(special).all()
    np.testing.assert_array_equal(np.signbit(decoded), np.arange(2 * half) >= half)


@every_narrow_format
def test_decode_of_every_code_equals_numpy_and_ml_dtypes(name: str) -> None:
    codes = all_codes(name)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = codes.view(DTYPES[name]).astype(np.float64)
    decoded = decode(codes, name)
    np.testing.assert_array_equal(decoded, expected)
    np.testing.assert_array_equal(np.signbit(decoded), np.signbit(expected))


@pytest.mark.parametrize(("name", "dtype"), [("fp32", np.float32), ("fp64", np.float64)])
def test_decode_of_wide_codes_equals_numpy(name: str, dtype: type) -> None:
    rng = np.random.default_rng(1)
    size = np.dtype(dtype).itemsize
    codes = np.frombuffer(rng.bytes(size * 200_000), f"u{size}")
    largest = NUMBERS[name][3]
    edges = np.array([0, 1, 2, largest - 1, largest, QUIET_NAN[name]], codes.dtype)
    codes = np.concatenate([codes, edges, edges | codes.dtype.type(1 << (8 * size - 1))])
    with np.errstate(invalid="ignore"):
        expected = codes.view(dtype).astype(np.float64)
    decoded = decode(codes, name)
    np.testing.assert_array_equal(decoded, expected)
    np.testing.assert_array_equal(np.signbit(decoded), np.signbit(expected))


@every_narrow_format
@every_rounding
def test_encode_at_every_value_and_midpoint(name: str, rounding: Rounding) -> None:
    """The code of a value is its index in the table; of what lies between, one of two."""
    table, overflow = finite_values(name), NUMBERS[name][4]
    beyond = 2 * table[-1] - table[-2]  # the next value, were there one
    upper = np.append(table[1:], beyond)
    lower_code = np.arange(table.size)
    upper_code = np.append(lower_code[1:], table.size - 1 if rounding == "rtz" else overflow)
    middle = (table + upper) / 2
    up = {"rne": lower_code % 2 == 1, "rna": True, "rtz": False}[rounding]
    cases = [
        (table, lower_code),
        (np.nextafter(table, np.inf), lower_code),
        (middle, np.where(up, upper_code, lower_code)),
        (np.nextafter(middle, 0), lower_code),
        (np.nextafter(middle, np.inf), lower_code if rounding == "rtz" else upper_code),
        (np.nextafter(upper, 0), lower_code if rounding == "rtz" else upper_code),
    ]
    for values, codes in cases:
        np.testing.assert_array_equal(encode(values, name, rounding=rounding), codes)
        negative = codes + (1 << (width(name) - 1))
        np.testing.assert_array_equal(encode(-values, name, rounding=rounding), negative)


@every_format
@every_rounding
def test_encode_of_random_floats_equals_exact_arithmetic(name: str, rounding: Rounding) -> None:
    values = random_floats(2, 4000, name)
    expected = [expected_code(float(value), name, rounding) for value in values]
    got = encode(values, name, rounding=rounding)
    assert got.dtype.itemsize == next(size for size in (1, 2, 4, 8) if 8 * size >= width(name))
    np.testing.assert_array_equal(got, np.array(expected, np.uint64))


@every_rounding
@pytest.mark.parametrize("name", ["tf32", "fp32"])
def test_encode_near_ties_of_wide_formats(name: str, rounding: Rounding) -> None:
    """Random midpoints, normal and subnormal, and their float64 neighbours."""
    mantissa_bits, bias, finite = NUMBERS[name][1:4]
    rng = np.random.default_rng(3)
    codes = np.concatenate([rng.integers(0, finite, 600), rng.integers(0, 1 << mantissa_bits, 200)])
    codes = np.append(codes, [0, (1 << mantissa_bits) - 1, 1 << mantissa_bits, finite - 1])
    exponents = np.maximum(codes >> mantissa_bits, 1) - bias - mantissa_bits
    middle = decode(codes, name) + np.ldexp(0.5, exponents)
    values = np.concatenate([middle, np.nextafter(middle, 0), -np.nextafter(middle, np.inf)])
    expected = [expected_code(float(value), name, rounding) for value in values]
    np.testing.assert_array_equal(encode(values, name, rounding=rounding), expected)


@pytest.mark.parametrize("name", [name for name in NARROW if name != "fp16"])
def test_encode_of_float32_equals_ml_dtypes(name: str) -> None:
    table = finite_values(name)
    middle = ((table[1:] + table[:-1]) / 2).astype(np.float32)
    points = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    with np.errstate(over="ignore"):
        extremes = np.float32([0.0, table[-1] * 1.01, table[-1] * 1.5, np.inf])
    values = np.concatenate([points, extremes, random_floats(4, 200_000, name)])
    values = np.concatenate([values, -values])
    expected = values.astype(DTYPES[name]).view(f"u{np.dtype(DTYPES[name]).itemsize}")
    np.testing.assert_array_equal(encode(values, name), expected)


def float64_samples() -> np.ndarray:
    """Any bits but NaN, values near float32's range, and the edges of that range."""
    rng = np.random.default_rng(5)
    anything = np.frombuffer(rng.bytes(8 * 200_000), np.float64)
    near = np.ldexp(rng.uniform(-2, 2, 400_000), rng.integers(-152, 130, 400_000))
    top = float(np.finfo(np.float32).max)
    edges = np.array([0.0, top, top + 2.0**102, top + 2.0**103, 2.0**-150, 2.0**-149, np.inf])
    around = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])
    return np.concatenate([anything[~np.isnan(anything)], near, around, -around])


@pytest.mark.parametrize(("name", "dtype"), [("fp32", np.float32), ("fp16", np.float16)])
def test_encode_of_float64_equals_numpy(name: str, dtype: type) -> None:
    values = float64_samples()
    with np.errstate(over="ignore"):
        expected = values.astype(dtype)
    np.testing.assert_array_equal(encode(values, name), expected.view(f"u{expected.itemsize}"))


@pytest.mark.parametrize("rounding", [*DETERMINISTIC, "sr"])
def test_fp64_is_the_identity(rounding: Rounding) -> None:
    values = float64_samples()
    codes = encode(values, "fp64", rounding=rounding, random=1)
    np.testing.assert_array_equal(codes, values.view(np.uint64))
    np.testing.assert_array_equal(decode(codes, "fp64").view(np.uint64), codes)


@pytest.mark.parametrize(("name", "dtype"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_half_and_bfloat16_as_input(name: str, dtype: type) -> None:
    codes = all_codes(name)
    values = codes.view(dtype)
    nan = codes & 0x7FFF > NUMBERS[name][4]
    np.testing.assert_array_equal(encode(values, name)[~nan], codes[~nan])
    for target in ("fp32", "fp64"):
        with np.errstate(invalid="ignore"):
            wide = values.astype(DTYPES[target])
        expected = wide.view(f"u{wide.itemsize}")
        np.testing.assert_array_equal(encode(values, target)[~nan], expected[~nan])
    for target in QUIET_NAN:
        got = encode(values[nan], target)
        sign = (codes[nan] >> 15).astype(np.uint64) << np.uint64(width(target) - 1)
        np.testing.assert_array_equal(got, sign | np.uint64(QUIET_NAN[target]))


@every_narrow_format
def test_every_code_encodes_to_itself(name: str) -> None:
    codes = all_codes(name)
    values = decode(codes, name)
    finite = np.isfinite(values)
    for rounding in (*DETERMINISTIC, "sr"):
        for saturate in (False, True):
            got = encode(values[finite], name, rounding=rounding, saturate=saturate, random=1)
            np.testing.assert_array_equal(got, codes[finite])


def test_fp12_is_a_format_like_any_other() -> None:
    codes = np.arange(1 << 12)
    np.testing.assert_array_equal(encode(decode(codes, FP12_E4M7), FP12_E4M7), codes)
    assert encode(-1e9, FP12_E4M7) == 0xFFF


@every_format
def test_overflow(name: str) -> None:
    finite, overflow = NUMBERS[name][3:5]
    sign = 1 << (width(name) - 1)
    largest = finite - 1
    values = [np.inf, -np.inf]
    assert encode(values, name).tolist() == [overflow, overflow | sign]
    assert encode(values, name, rounding="rtz").tolist() == [overflow, overflow | sign]
    assert encode(values, name, saturate=True).tolist() == [largest, largest | sign]
    if name == "fp64":
        return
    huge = [1e300, -1e300]
    assert encode(huge, name).tolist() == [overflow, overflow | sign]
    assert encode(huge, name, rounding="rna").tolist() == [overflow, overflow | sign]
    assert encode(huge, name, rounding="sr", random=1).tolist() == [overflow, overflow | sign]
    assert encode(huge, name, rounding="rtz").tolist() == [largest, largest | sign]
    for rounding in (*DETERMINISTIC, "sr"):
        got = encode(huge, name, rounding=rounding, saturate=True, random=1)
        assert got.tolist() == [largest, largest | sign]


@every_format
def test_signs_of_zero_and_underflow(name: str) -> None:
    sign = 1 << (width(name) - 1)
    tiny = 0.0 if name == "fp64" else 5e-324
    assert encode([0.0, -0.0, tiny, -tiny], name).tolist() == [0, sign, 0, sign]
    assert np.signbit(decode([0, sign], name)).tolist() == [False, True]


@pytest.mark.parametrize("name", QUIET_NAN)
def test_nan_is_quiet_and_keeps_its_sign(name: str) -> None:
    code, sign = QUIET_NAN[name], 1 << (width(name) - 1)
    values = np.array([np.nan, np.copysign(np.nan, -1)])
    for saturate in (False, True):
        assert encode(values, name, saturate=saturate).tolist() == [code, code | sign]
    decoded = decode([code, code | sign], name)
    assert np.isnan(decoded).all()
    assert np.signbit(decoded).tolist() == [False, True]
    if name in DTYPES:
        cast = values.astype(DTYPES[name])
        np.testing.assert_array_equal(
            encode(values, name), cast.view(encode(values, name).dtype), strict=True
        )


def test_fields() -> None:
    for code, name, expected in (
        (0x3E200000, "fp32", (0, 0b01111100, 1 << 21)),
        (0xC0200000, "fp32", (1, 0b10000000, 1 << 21)),
        (encode(0.15625, "fp64"), "fp64", (0, 1020, 1 << 50)),
        (encode(-2.5, "fp64"), "fp64", (1, 1024, 1 << 50)),
        (200, "float8_e8m0fnu", (0, 200, 0)),
    ):
        assert tuple(map(int, fields(code, name))) == expected
    split = fields(np.array([[0x7F, 0x80]], np.uint8), "float8_e4m3fn")
    assert [part.tolist() for part in split] == [[[0, 1]], [[15, 0]], [[7, 0]]]
    assert [part.dtype for part in split] == [np.uint8] * 3
    assert fields([1], "tf32").sign.dtype == np.uint32


@every_narrow_format
def test_fields_make_up_the_code(name: str) -> None:
    exponent_bits, mantissa_bits = NUMBERS[name][:2]
    sign, exponent, mantissa = (part.astype(int) for part in fields(all_codes(name), name))
    joined = sign << exponent_bits + mantissa_bits | exponent << mantissa_bits | mantissa
    np.testing.assert_array_equal(joined, all_codes(name))
    assert mantissa.max() == (1 << mantissa_bits) - 1


def test_e8m0_is_that_of_e8m0() -> None:
    values = np.array([0.0, -1.0, 0.3, 1.5, 1.6, 3.0, 1e300, np.inf, np.nan])
    for rounding, mode in (("rne", "rne"), ("rna", "rna"), ("rtz", "floor")):
        for saturate in (False, True):
            got = encode(values, "float8_e8m0fnu", rounding=rounding, saturate=saturate)
            expected = mx.e8m0.encode(values, mode=mode, saturate=saturate)
            np.testing.assert_array_equal(got, expected, strict=True)
    codes = np.arange(256)
    assert decode(codes, E8M0).dtype == np.float64
    np.testing.assert_array_equal(decode(codes, E8M0), mx.e8m0.decode(codes))


def test_ml_dtypes_differs_by_rounding_float64_twice() -> None:
    """It goes through float32, which can make a tie of what was none."""
    for name, value, code in (
        ("bf16", 1 + 2.0**-8 + 2.0**-40, 0x3F81),
        ("float8_e4m3fn", 1 + 2.0**-4 + 2.0**-40, 0x39),
        ("float4_e2m1fn", 1.25 + 2.0**-40, 0b011),
    ):
        assert encode(value, name) == code
        assert np.array([value]).astype(DTYPES[name]).view(f"u{(width(name) + 7) // 8}") == code - 1


def test_ml_dtypes_differs_by_casting_nan_to_zero_in_finite_formats() -> None:
    for name in ("float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn"):
        with np.errstate(invalid="ignore"):
            assert abs(float(np.array([np.nan]).astype(DTYPES[name])[0])) == 0.0
        with raises(ValueError, f"x must not hold NaN: {name} has no code for it"):
            encode([1.0, np.nan], name)


def test_ml_dtypes_differs_for_e8m0_in_ties_and_zero() -> None:
    values = np.array([1.5, 0.0])
    theirs = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert theirs.tolist() == [128, 255]
    assert encode(values, "float8_e8m0fnu").tolist() == [128, 0]
    assert encode(3.0, "float8_e8m0fnu") == 128  # the tie between 2 and 4 goes to the even byte
    assert np.array([3.0]).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8) == 129


def test_numpy_differs_by_keeping_payloads_of_nan() -> None:
    signalling = np.array([0x7FF0000020000000], np.uint64).view(np.float64)
    with np.errstate(invalid="ignore"):
        assert signalling.astype(np.float32).view(np.uint32) == 0x7FC00001
    assert encode(signalling, "fp32") == 0x7FC00000
    assert encode(signalling, "fp64") == 0x7FF8000000000000


def test_stochastic_rounding_follows_its_words() -> None:
    ulp = 2.0**-7
    words = np.uint32([0, (1 << 30) - 1, 1 << 30, (1 << 32) - 1])
    got = encode(np.full(4, 1 + ulp / 4), "bf16", rounding="sr", random=words)
    assert got.tolist() == [0x3F81, 0x3F81, 0x3F80, 0x3F80]
    got = encode(np.full(4, -(2 - ulp / 4)), "bf16", rounding="sr", random=words)
    assert got.tolist() == [0xC000, 0xC000, 0xC000, 0xBFFF]
    third = np.full(4, 2.0**-133 / 4)  # subnormals too
    assert encode(third, "bf16", rounding="sr", random=words).tolist() == [1, 1, 0, 0]


def test_stochastic_rounding_beyond_the_largest_value() -> None:
    """Halfway to the next value, were there one, half of the numbers overflow."""
    values = np.full(4000, 464.0)
    got = encode(values, "float8_e4m3fn", rounding="sr", random=3)
    assert set(got.tolist()) == {0x7E, 0x7F}
    assert abs((got == 0x7F).sum() - 2000) < 6 * np.sqrt(1000)
    kept = encode(values, "float8_e4m3fn", rounding="sr", random=3, saturate=True)
    assert set(kept.tolist()) == {0x7E}


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(list(NUMBERS)),
    st.sampled_from(DETERMINISTIC),
)
def test_any_float64_equals_exact_arithmetic(value: float, name: str, rounding: Rounding) -> None:
    assert int(encode(value, name, rounding=rounding)) == expected_code(value, name, rounding)


@given(
    st.integers(2, 9),
    st.integers(1, 30),  # without any, the even code is not the even multiple
    st.integers(-300, 500),
    st.floats(min_value=0, max_value=2.0**300),
    st.sampled_from(["none", "nan", "ieee"]),
)
def test_formats_of_ones_own(
    exponent_bits: int, mantissa_bits: int, bias: int, value: float, specials: str
) -> None:
    fmt = FloatFormat(
        name="own",
        fields=FloatFields(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, bias=bias),
        specials=specials,
    )
    low = decode(encode(value, fmt, rounding="rtz"), fmt)
    nearest = decode(encode(value, fmt, saturate=True), fmt)
    assert low <= value
    rounded = exact.nearest_float(Fraction(value), mantissa_bits, 1 - bias)
    assert Fraction(float(nearest)) == min(rounded, Fraction(fmt.max_value))


@given(st.integers(0, 2**32 - 1), st.floats(-70000, 70000))
def test_stochastic_rounding_gives_a_neighbour(word: int, value: float) -> None:
    code = encode([value], "fp16", rounding="sr", random=np.array([word], np.uint32))
    low = encode([value], "fp16", rounding="rtz")
    assert int(code[0]) - int(low[0]) in (0, 1)


def test_shapes_are_kept() -> None:
    assert np.ndim(encode(1.0, "fp16")) == 0
    assert np.ndim(decode(1, "fp16")) == 0
    assert encode(np.zeros((0, 3)), "fp16").shape == (0, 3)
    assert decode(np.zeros((2, 0), np.uint8), "fp16").shape == (2, 0)
    assert mx.scalar.encode(0.15625, "bf16") == 0x3E20


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: encode(1.0, "fp9"),
            ValueError,
            f"format must be one of {', '.join(SCALAR_FORMATS)}, not 'fp9'",
        ),
        (
            lambda: encode(1.0, 8),
            TypeError,
            "format must be a name, a FloatFormat or a ScaleFormat, not int",
        ),
        (
            lambda: encode(1.0, MX_FORMATS["mxsf"].element),
            ValueError,
            "format must have no second mode, unlike e2m5_e3m2",
        ),
        (
            lambda: decode(1, ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)),
            ValueError,
            "format must be float8_e8m0fnu if it is a ScaleFormat, not e5m0",
        ),
        (
            lambda: encode(1.0, "fp16", rounding="up"),
            ValueError,
            "rounding must be one of rne, rna, rtz, sr, not 'up'",
        ),
        (
            lambda: encode(1.0, "float8_e8m0fnu", rounding="sr", random=1),
            ValueError,
            "rounding must be one of rne, rna, rtz for float8_e8m0fnu, not 'sr'",
        ),
        (
            lambda: encode(1.0, "fp16", rounding="sr"),
            TypeError,
            "random must be a numpy Generator, a seed or a uint32 array for rounding 'sr', "
            "not None",
        ),
        (
            lambda: encode([1], "fp16"),
            TypeError,
            "x must have dtype float64, float32, float16, bfloat16, not int64",
        ),
        (
            lambda: encode(np.nan, "float4_e2m1fn", saturate=True),
            ValueError,
            "x must not hold NaN: float4_e2m1fn has no code for it",
        ),
        (
            lambda: decode([1 << 19], "tf32"),
            ValueError,
            "codes must lie in 0..524287, not 524288..524288",
        ),
        (
            lambda: decode([-1, 1], "fp64"),
            ValueError,
            "codes must lie in 0..18446744073709551615, not -1..1",
        ),
        (
            lambda: decode([1, 1 << 64], "fp64"),
            ValueError,
            "codes must lie in 0..18446744073709551615, not 1..18446744073709551616",
        ),
        (
            lambda: decode([1, 2.5], "fp64"),
            TypeError,
            "codes must have an integer dtype, not float64",
        ),
        (
            lambda: fields(1.0, "fp16"),
            TypeError,
            "codes must have an integer dtype, not float64",
        ),
    ],
)
def test_bad_input(make, kind: type[Exception], message: str) -> None:
    with raises(kind, message):
        make()


def test_ties_without_mantissa_bits_go_to_the_even_code() -> None:
    e3m0 = FloatFormat(name="e3m0", fields=FloatFields(exponent_bits=3, mantissa_bits=0, bias=3))
    values = mx.scalar.decode(np.arange(8), e3m0)
    midpoints = (values[:-1] + values[1:]) / 2
    assert mx.scalar.encode(midpoints, e3m0).tolist() == [0, 2, 2, 4, 4, 6, 6]
    fmt = MXFormat(name="e3m0", element=e3m0)
    assert mx.encode(midpoints, fmt).tolist() == [0, 2, 2, 4, 4, 6, 6]


def test_names_of_roundings() -> None:
    assert mx.scalar.encode(0.3, "bf16", rounding="even") == mx.scalar.encode(0.3, "bf16")
    with pytest.raises(ValueError, match=r"^rounding must not be 'nearest', which leaves ties"):
        mx.scalar.encode(0.3, "bf16", rounding="nearest")
