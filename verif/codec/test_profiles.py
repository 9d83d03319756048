"""Profiles of other libraries on the blocks where they part from us, without those libraries.

Every expected scale, code and value was printed by the library itself, at the version in the
comment; `test_other_libraries.py` compares many more where they are installed.
"""

import dataclasses
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec import profiles
from mxsafe.codec.profiles import PROFILES, Profile, divergence, quantize_like
from mxsafe.formats import MX_FORMATS
from verif.codec.corner_blocks import BLOCK, corner_blocks, mixed_blocks
from verif.support.quantized import assert_same
from verif.support.tests import raises, refused

FLT_MAX = float(np.finfo(np.float32).max)
NAN, INF = np.nan, np.inf


def above(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


def below(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(0)))


ZEROS = [0.0, -0.0, 0.0, -0.0]
WITH_NAN = [1.0, NAN, -2.0, 0.0]
WITH_INF = [1.0, INF, -2.0, -0.0]
TINY = [2.0**-126, -(2.0**-130), 0.0, 0.0]
MAXIMUM = [FLT_MAX, 1.0, -1e38, 0.0]
PAST_TOP = [above(448 * 2.0**50), 0.0, 0.0, -1.0]
CARRY = [15.5, 1.0, 0.0, 0.0]
NO_CARRY = [below(15.5), 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("mode", "block", "scale", "codes"),
    [
        # torchao 0.18.0, to_mx with torch.float8_e4m3fn and blocks of 4 on a CPU.
        ("floor", ZEROS, 0, [0x00, 0x80, 0x00, 0x80]),
        ("floor", WITH_NAN, 255, None),
        ("floor", WITH_INF, 247, [0x00, 0x7E, 0x80, 0x80]),
        ("floor", TINY, 0, [0x38, 0x98, 0x00, 0x00]),
        ("floor", MAXIMUM, 246, [0x7E, 0x00, 0xF1, 0x00]),
        ("floor", PAST_TOP, 177, [0x7E, 0x00, 0x00, 0x80]),
        ("floor", CARRY, 122, [0x7E, 0x60, 0x00, 0x00]),
        ("ceil", ZEROS, 0, [0x00, 0x80, 0x00, 0x80]),
        ("ceil", WITH_NAN, 255, None),
        ("ceil", WITH_INF, 247, [0x00, 0x7E, 0x80, 0x80]),
        ("ceil", TINY, 0, [0x38, 0x98, 0x00, 0x00]),
        ("ceil", MAXIMUM, 247, [0x78, 0x00, 0xE9, 0x00]),
        ("ceil", PAST_TOP, 178, [0x76, 0x00, 0x00, 0x80]),
        ("ceil", NO_CARRY, 123, [0x77, 0x58, 0x00, 0x00]),
        ("even", WITH_NAN, 255, None),
        ("even", WITH_INF, 247, [0x00, 0x7E, 0x80, 0x80]),
        ("even", TINY, 0, [0x38, 0x98, 0x00, 0x00]),
        ("even", MAXIMUM, 247, [0x78, 0x00, 0xE9, 0x00]),
        ("even", CARRY, 123, [0x78, 0x58, 0x00, 0x00]),
        ("even", NO_CARRY, 122, [0x7E, 0x60, 0x00, 0x00]),
        ("rceil", ZEROS, 0, [0x00, 0x80, 0x00, 0x80]),
        ("rceil", WITH_NAN, 255, None),
        ("rceil", WITH_INF, 254, [0x00, 0x7E, 0x80, 0x80]),
        ("rceil", TINY, 0, [0x00, 0x80, 0x00, 0x00]),
        ("rceil", MAXIMUM, 247, [0x78, 0x00, 0xE9, 0x00]),
        # The exact rule gives 178: the quotient by 448 is above 2^50, but its log2 rounds to 50.
        ("rceil", PAST_TOP, 177, [0x7E, 0x00, 0x00, 0x80]),
        ("rceil", NO_CARRY, 123, [0x77, 0x58, 0x00, 0x00]),
    ],
)
def test_torchao(mode: str, block: list[float], scale: int, codes: list[int] | None) -> None:
    result = quantize_like(np.float32(block), f"torchao_{mode}", "mxfp8_e4m3", block=4)
    assert result.tensor.scales.tolist() == [scale]
    assert result.tensor.codes.tolist() == (codes or [0, 0, 0, 0])
    assert np.isnan(result.values).all() == (codes is None)


def test_torchao_reads_scale_byte_0_as_ocp_does_but_divides_by_another() -> None:
    """In torchao 0.18.0 values come out at half (floor, ceil, even) or not at all (rceil)."""
    x = np.float32(TINY)
    half = quantize_like(x, "torchao_floor", "mxfp8_e4m3", block=4).values
    assert half.tolist() == [2.0**-127, -(2.0**-131), 0.0, 0.0]
    gone = quantize_like(x, "torchao_rceil", "mxfp8_e4m3", block=4).values
    assert gone.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert np.signbit(gone).tolist() == [False, True, False, False]
    assert mx.dequantize(mx.quantize(x, "mxfp8_e4m3", block=4)).tolist() == TINY


@pytest.mark.parametrize(
    ("name", "block", "scale", "values"),
    [
        # amd-quark 0.13, fake_quantize_mx with scale calculation mode "even" on a CPU.
        ("mxfp4_e2m1", [1.0, -0.0, -1e-9, 0.0], 125, [1.0, 0.0, 0.0, 0.0]),
        ("mxfp8_e4m3", [1.0, -0.0, -1e-9, 0.0], 119, [1.0, -0.0, -0.0, 0.0]),
        ("mxfp4_e2m1", WITH_INF, 254, [0.0, INF, 0.0, 0.0]),
        ("mxfp8_e4m3", WITH_INF, 254, [0.0, INF, -0.0, -0.0]),
        ("mxfp8_e4m3", WITH_NAN, 255, [NAN] * 4),
        ("mxfp4_e2m1", MAXIMUM, 254, [INF, 0.0, -(2.0**126), 0.0]),
        ("mxfp8_e4m3", MAXIMUM, 254, [INF, 0.0, -1.125 * 2.0**126, 0.0]),
        ("mxfp4_e2m1", [1.25 * 2.0**127, 2.0**125, 0, 0], 252, [2.0**127, 2.0**125, 0.0, 0.0]),
    ],
)
def test_quark(name: str, block: list[float], scale: int, values: list[float]) -> None:
    result = quantize_like(np.float32(block), "quark_even", name, block=4)
    assert result.tensor.scales.tolist() == [scale]
    assert_same_values(result.values, values)


@pytest.mark.parametrize(
    ("profile", "name", "block", "values"),
    [
        # microxcaling 7bc4195, _quantize_mx(x, 8, ..., round="nearest") on a CPU.
        (
            "microxcaling",
            "mxfp8_e4m3",
            [below(2.0**100), -(2.0**98), 0.0, 0.0],
            [2.0**100, -(2.0**98), 0.0, 0.0],
        ),
        (
            "microxcaling",
            "mxint8",
            [below(2.0**100), -(2.0**98), 0.0, 0.0],
            [2.0**100, -(2.0**98), 0.0, 0.0],
        ),
        ("microxcaling", "mxfp8_e4m3", [FLT_MAX, 1e38, 0, 0], [INF, 1.125 * 2.0**126, 0.0, 0.0]),
        ("microxcaling", "mxint8", [FLT_MAX, 1e38, 0, 0], [NAN] * 4),
        (
            "microxcaling",
            "mxfp8_e4m3",
            [1.0, -0.0, -(2.0**-40), 2.0**-7],
            [1.0, 0.0, -0.0, 2.0**-7],
        ),
        ("microxcaling", "mxint8", [1.0, -0.0, -(2.0**-40), 2.0**-7], [1.0, 0.0, -0.0, 2.0**-6]),
        (
            "microxcaling",
            "mxint8",
            [1.0, below(2.0**-7), -below(2.0**-7), 2.0**-7],
            [1.0, 2.0**-6, -(2.0**-6), 2.0**-6],
        ),
        ("microxcaling", "mxfp8_e4m3", WITH_INF, [NAN] * 4),
        ("microxcaling", "mxfp8_e4m3", WITH_NAN, [NAN] * 4),
        # The same with x.double().
        (
            "microxcaling_float64",
            "mxfp8_e4m3",
            [below(2.0**100), -(2.0**98), 0.0, 0.0],
            [1.75 * 2.0**99, -(2.0**98), 0.0, 0.0],
        ),
        (
            "microxcaling_float64",
            "mxfp8_e4m3",
            [FLT_MAX, 1e38, 0, 0],
            [1.75 * 2.0**127, 1.125 * 2.0**126, 0.0, 0.0],
        ),
        (
            "microxcaling_float64",
            "mxint8",
            [1.0, below(2.0**-7), -below(2.0**-7), 2.0**-7],
            [1.0, 0.0, -0.0, 2.0**-6],
        ),
        ("microxcaling_float64", "mxfp8_e4m3", WITH_INF, [NAN] * 4),
    ],
)
def test_microxcaling(profile: str, name: str, block: list[float], values: list[float]) -> None:
    result = quantize_like(np.float32(block), profile, name, block=4)
    assert_same_values(result.values, values)


def test_microxcaling_makes_nan_of_large_scales() -> None:
    """In microxcaling 7bc4195, given x.double(), 2^135 has the largest scale and 2^136 none."""
    x = np.array([[2.0**135, 1.0], [2.0**136, 1.0]])
    result = quantize_like(x, "microxcaling_float64", "mxfp8_e4m3", block=2)
    assert_same_values(result.values, [[2.0**135, 0.0], [NAN, NAN]])
    assert result.tensor.scales.tolist() == [[254], [255]]


def assert_same_values(got: np.ndarray, expected: object) -> None:
    """Equal with signs of zeros."""
    wanted = np.array(expected, got.dtype)
    np.testing.assert_array_equal(got, wanted)
    kept = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[kept], np.signbit(wanted)[kept])


@pytest.mark.parametrize("name", MX_FORMATS)
def test_our_own_profile_never_differs(name: str) -> None:
    x = mixed_blocks(name, 1, 200)
    q = mx.quantize(x, name, block=BLOCK)
    result = quantize_like(x, "mxsafe", name, block=BLOCK)
    assert_same(result.tensor, q)
    assert_same_values(result.values, mx.dequantize(q))
    assert divergence(x, "mxsafe", name, block=BLOCK).differing == 0


def blocks_for(profile: Profile, name: str, seed: int, n: int) -> np.ndarray:
    """Blocks of every kind that a profile describes."""
    x = mixed_blocks(name, seed, n)
    if not profile.finite:
        return x
    with np.errstate(invalid="ignore"):
        return x[(np.abs(x) < 1.75 * 2.0**127).all(axis=1)]


@pytest.mark.parametrize("name", PROFILES)
def test_along_any_axis_and_of_any_type(name: str) -> None:
    profile = PROFILES[name]
    fmt = profile.formats[-1]
    x = blocks_for(profile, fmt, 2, 20)
    rows = quantize_like(x, profile, fmt, block=BLOCK)
    columns = quantize_like(np.asfortranarray(x.T), name, fmt, block=BLOCK, axis=0)
    assert_same_values(columns.values.T, rows.values)
    np.testing.assert_array_equal(columns.tensor.scales.T, rows.tensor.scales)
    assert rows.profile == profile
    assert rows.values.dtype == profile.arithmetic
    if "bfloat16" in profile.input_dtypes:
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = x.astype(ml_dtypes.bfloat16)
            wide = rounded.astype(np.float32)
        assert_same_values(
            quantize_like(rounded, name, fmt, block=BLOCK).values,
            quantize_like(wide, name, fmt, block=BLOCK).values,
        )


def test_ragged_edges_and_empty_tensors() -> None:
    x = corner_blocks("mxfp8_e4m3")["next to a power of two"][:4, :7]
    whole = np.pad(x, ((0, 0), (0, 1)))
    ragged = quantize_like(x, "microxcaling", "mxfp8_e4m3", block=4)
    padded = quantize_like(whole, "microxcaling", "mxfp8_e4m3", block=4)
    assert_same_values(ragged.values, padded.values[:, :7])
    assert quantize_like(x[:0], "torchao_rceil", "mxfp8_e4m3", block=7).values.shape == (0, 7)
    report = divergence(x[:0], "microxcaling", "mxfp8_e4m3", block=4)
    assert (report.total, report.differing, report.blocks) == (0, 0, ())


REASONS = {
    "Inf saturated instead of making the block NaN": ("torchao_floor", "mxfp8_e4m3", WITH_INF),
    "scale above 2^127 became NaN instead of saturating": (
        "microxcaling",
        "mxint8",
        [FLT_MAX, 1.0, 0.0, 0.0],
    ),
    "block of zeros has another scale": ("microxcaling", "mxint8", [0.0, 0.0, 0.0, 0.0]),
    "scale byte 0 divided by 2^-126 instead of 2^-127": ("torchao_even", "mxfp4_e2m1", TINY),
    "scale byte 0 divided by 2^0 instead of 2^-127": ("torchao_rceil", "mxfp4_e2m1", TINY),
    "amax rounded up to 2^128 treated as Inf": ("quark_even", "mxfp4_e2m1", MAXIMUM),
    "log2 in float32 rounded to a whole number near a power of two": (
        "microxcaling",
        "mxfp8_e5m2",
        [below(2.0**90), 0.0, 0.0, 0.0],
    ),
    "scale mode rceil instead of floor": ("torchao_rceil", "mxfp8_e4m3", [500.0, 1.0, 0.0, 0.0]),
    "just below half the smallest element rounded up": (
        "microxcaling",
        "mxfp4_e2m1",
        [4.0, below(0.25), 0.0, 0.0],
    ),
    "rounding rna instead of rne": ("microxcaling", "mxfp4_e2m1", [4.0, 0.25, 0.0, 0.0]),
    "sign of a zero": ("microxcaling", "mxfp4_e2m1", [4.0, -0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_report_finds_the_planted_block_and_says_why(reason: str) -> None:
    profile, name, planted = REASONS[reason]
    x = np.ones((6, 8), np.float32)
    x[4, 4:] = planted
    report = divergence(x, profile, name, block=4)
    assert (report.total, report.differing) == (12, 1)
    assert dict(report.reasons) == {reason: 1}
    (one,) = report.blocks
    assert (one.index, one.reason) == ((4, 1), reason)
    theirs = quantize_like(x, profile, name, block=4)
    ours = mx.quantize(x, name, block=4)
    assert one.our_scale == ours.scales[4, 1]
    assert one.their_scale == theirs.tensor.scales[4, 1]
    pairs = list(zip(mx.dequantize(ours)[4, 4:], theirs.values[4, 4:], strict=True))
    differing = [(a, b) for a, b in pairs if str(a) != str(b)]
    assert one.elements == len(differing)
    if np.isfinite(pairs).all():
        assert one.largest_difference == max([abs(float(a) - float(b)) for a, b in pairs])


def test_every_reason_is_planted() -> None:
    """A sweep over all profiles finds exactly the reasons that were planted above."""
    found: set[str] = set()
    for profile in PROFILES.values():
        for name in profile.formats:
            x = blocks_for(profile, name, 3, 300)
            found |= set(divergence(x, profile, name, block=BLOCK).reasons)
    modes = ("ceil", "even", "even to 1 bits of mantissa")
    known = set(REASONS) | {f"scale mode {mode} instead of floor" for mode in modes}
    assert found == known


def test_largest_difference_and_counts() -> None:
    x = np.float32([[500.0, 1.0, 3.5, -7.25], [1.0, 1.0, 1.0, 1.0], [INF, 1.0, 0.0, 0.0]])
    report = divergence(x, "torchao_rceil", "mxfp8_e4m3", block=4)
    first, second = report.blocks
    # Under 2^0 500 saturates at 448; under 2^1 it is 512, and the others fit both.
    assert (first.our_scale, first.their_scale) == (127, 128)
    assert (first.elements, first.largest_difference) == (1, 64.0)
    assert (second.index, second.elements) == ((2, 0), 4)
    assert np.isnan(second.largest_difference)


def test_report_as_text() -> None:
    x = np.ones((5, 4), np.float32)
    x[1:4, 0] = [500.0, INF, 480.0]
    report = divergence(x, "torchao_rceil", "mxfp8_e4m3", block=4, limit=2)
    assert str(report).splitlines() == [
        "torchao_rceil (torchao 0.18.0), mxfp8_e4m3, blocks of 4 along axis -1",
        "3 of 5 blocks differ",
        "         2  scale mode rceil instead of floor",
        "         1  Inf saturated instead of making the block NaN",
        "block  ours  theirs  elements  difference  reason",
        "  1,0   127     128         1          64  scale mode rceil instead of floor",
        "  2,0   255     254         4         nan  Inf saturated instead of making the block NaN",
        "and 1 more",
    ]
    assert len(report.blocks) == 2
    again = divergence(x, "torchao_rceil", block=np.int64(4), limit=np.int64(2))
    assert str(again) == str(report)
    same = divergence(x[:1], "torchao_rceil", "mxfp8_e4m3", block=4)
    assert str(same).splitlines()[1:] == ["0 of 1 blocks differ"]


def test_variants_are_profiles_too() -> None:
    x = np.float32([4.0, 0.25, 0.0, 0.0])
    rne = dataclasses.replace(PROFILES["microxcaling"], rounding="rne")
    assert divergence(x, rne, "mxfp4_e2m1", block=4).differing == 0
    assert divergence(x, "microxcaling", "mxfp4_e2m1", block=4).differing == 1
    # Cutting off just below 2^k in the unit of the binade above: microxcaling 7bc4195 with
    # round="floor" gives 0.75 and not 0.875.
    rtz = dataclasses.replace(PROFILES["microxcaling"], rounding="rtz")
    cut = quantize_like(np.float32([below(1.0), 0.0]), rtz, "mxfp8_e5m2", block=2)
    assert cut.values.tolist() == [0.75, 0.0]
    assert mx.quantize(np.float32([below(1.0)]), "mxfp8_e5m2", rounding="rtz").codes[0] == 0x7B


def test_a_report_never_writes_to_its_input() -> None:
    x = mixed_blocks("mxfp8_e4m3", 4, 10)
    x.flags.writeable = False
    before = x.tobytes()
    divergence(x, "microxcaling", "mxfp8_e4m3", block=BLOCK)
    assert x.tobytes() == before
    assert "LibraryResult(profile='mxsafe', tensor=QuantizedTensor(" in repr(
        quantize_like(x, "mxsafe", "mxsf", block=8)
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: quantize_like(x, "cuda", "mxfp8_e4m3"),
            ValueError,
            "profile must be one of mxsafe, torchao_floor, torchao_ceil, torchao_even, "
            "torchao_rceil, quark_even, compressed_tensors_mxfp8, microxcaling, "
            "microxcaling_float64, not 'cuda'",
        ),
        (
            lambda x: quantize_like(x, 3, "mxfp8_e4m3"),
            TypeError,
            "profile must be a name or a Profile, not int",
        ),
        (
            lambda x: quantize_like(x, "torchao_floor", "mxsf"),
            ValueError,
            "format must be one of mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1 "
            "for profile torchao_floor, not 'mxsf'",
        ),
        (
            lambda x: quantize_like(x.astype(np.float64), "torchao_floor", "mxfp8_e4m3"),
            TypeError,
            "x must have dtype float32, bfloat16 for profile torchao_floor, not float64",
        ),
        (
            lambda x: quantize_like(x, "torchao_floor", "mxfp8_e4m3", block=3),
            ValueError,
            "block must divide 8 for profile torchao_floor, not 3",
        ),
        (
            lambda x: quantize_like(x, "torchao_floor", "mxfp8_e4m3", block=(2, 2)),
            ValueError,
            "block must be a positive integer for a profile, not (2, 2)",
        ),
        (
            lambda x: quantize_like(x, "torchao_floor", "mxfp8_e4m3", block=4, axis=2),
            ValueError,
            "axis must lie in -2..1 for rank 2, not 2",
        ),
        (
            lambda x: divergence(x, "mxsafe", "mxfp8_e4m3", limit=-1),
            ValueError,
            "limit must be a non-negative integer, not -1",
        ),
    ],
)
def test_bad_input(call, error: type[Exception], message: str) -> None:
    with raises(error, message):
        call(np.ones((2, 8), np.float32))


def test_profiles_are_described() -> None:
    for name, profile in PROFILES.items():
        assert isinstance(profile, Profile)
        assert profile.name == name
        assert profile.description
        assert set(profile.formats) <= set(MX_FORMATS)
    assert profiles.profile_named("mxsafe") is PROFILES["mxsafe"]


MICROXCALING = PROFILES["microxcaling"]
CATALOGUE = ", ".join(MX_FORMATS)


test_facts_that_a_profile_cannot_have = refused(
    partial(dataclasses.replace, MICROXCALING),
    [
        (
            {"scale_mode": "ceil"},
            "scale_mode must be one of floor, rceil with log2 float32, not 'ceil'; did you mean "
            "'rceil'?",
        ),
        (
            {"scale_mode": "even"},
            "scale_mode must be one of floor, rceil with log2 float32, not 'even'",
        ),
        (
            {"scale_mode": "even", "log2": "float64"},
            "scale_mode must be one of floor, rceil with log2 float64, not 'even'",
        ),
        ({"scale_mode": "up"}, "scale_mode must be one of floor, ceil, even, rceil, not 'up'"),
        ({"log2": "exact"}, "overflow must be 'saturate' with log2 exact, not 'nan'"),
        ({"log2": "float16"}, "log2 must be one of exact, float32, float64, not 'float16'"),
        ({"overflow": "wrap"}, "overflow must be one of saturate, nan, not 'wrap'"),
        ({"infinity": "inf"}, "infinity must be one of nan, 2^128, largest scale, not 'inf'"),
        ({"infinity": None}, "infinity must be one of nan, 2^128, largest scale, not None"),
        ({"arithmetic": "float16"}, "arithmetic must be one of float32, float64, not 'float16'"),
        ({"rounding": "sr"}, "rounding must be one of rne, rna, rtz, not 'sr'"),
        ({"rounding": "nearest"}, "rounding must be one of rne, rna, rtz, not 'nearest'"),
        (
            {"carry_is_infinity": True},
            "carry_is_infinity must be False with scale_mode floor: only even carries",
        ),
        ({"even_bits": 1}, "even_bits must be None with scale_mode floor, not 1"),
        ({"even_bits": 23}, "even_bits must be an integer from 0 to 22, not 23"),
        ({"finite": 1}, "finite must be True or False, not 1"),
        ({"negative_zero": 1}, "negative_zero must be True or False, not 1"),
        ({"whole_blocks": "no"}, "whole_blocks must be True or False, not 'no'"),
        ({"zero_amax": -1.0}, "zero_amax must be a finite number of at least 0, not -1.0"),
        ({"zero_amax": np.nan}, "zero_amax must be a finite number of at least 0, not nan"),
        ({"zero_amax": "0"}, "zero_amax must be a finite number of at least 0, not '0'"),
        (
            {"byte_zero_exponent": -126.5},
            "byte_zero_exponent must be an integer from -1022 to 1022, not -126.5",
        ),
        ({"formats": "mxsf"}, f"formats must be a tuple of names among {CATALOGUE}, not 'mxsf'"),
        (
            {"formats": ("fp9",)},
            f"formats must be a tuple of names among {CATALOGUE}, not ('fp9',)",
        ),
        (
            {"unsigned_zero_formats": ["mxsf"]},
            f"unsigned_zero_formats must be a tuple of names among {CATALOGUE}, not ['mxsf']",
        ),
        (
            {"input_dtypes": ("float8",)},
            "input_dtypes must be a tuple of names among float64, float32, float16, bfloat16, "
            "not ('float8',)",
        ),
    ],
)


@pytest.mark.parametrize(
    ("block", "scale", "codes"),
    [
        # compressed-tensors 0.20.1, calculate_qparams and the compressor mxfp8-quantized.
        ([1.75, 1.0, 0.0, -0.0], 120, [0x76, 0x70, 0x00, 0x80]),
        ([below(1.75), 1.0, 0.0, -1.5], 119, [0x7E, 0x78, 0x00, 0xFC]),
        ([2.0, 1.0, 0.0, 0.0], 120, [0x78, 0x70, 0x00, 0x00]),
        (ZEROS, 0, [0x00, 0x80, 0x00, 0x80]),
    ],
)
def test_compressed_tensors(block: list[float], scale: int, codes: list[int]) -> None:
    result = quantize_like(np.float32(block), "compressed_tensors_mxfp8", "mxfp8_e4m3", block=4)
    assert result.tensor.scales.tolist() == [scale]
    assert result.tensor.codes.tolist() == codes
    report = divergence(np.float32(block), "compressed_tensors_mxfp8", "mxfp8_e4m3", block=4)
    carries = block[0] == 1.75
    assert [one.reason for one in report.blocks] == [
        "scale mode even to 1 bits of mantissa instead of floor"
    ] * (carries)


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1.75 * 2.0**127])
def test_compressed_tensors_is_described_for_finite_numbers(bad: float) -> None:
    limit = "2.977e+38"
    with raises(
        ValueError,
        f"x must be finite and below {limit} for profile compressed_tensors_mxfp8, not {bad:.4g}",
    ):
        quantize_like(np.float32([bad, 1.0]), "compressed_tensors_mxfp8", "mxfp8_e4m3", block=2)


def test_every_profile_that_can_be_made_has_its_scale_mode() -> None:
    """No mode is quietly another: where two modes differ, so do two profiles."""
    x = np.float32([[1.99, 0.5, 0.25, 0.0], [1.5, 1.0, 0.5, 0.0]])
    made = 0
    for log2 in ("exact", "float32", "float64"):
        overflow = "saturate" if log2 == "exact" else "nan"
        base = dataclasses.replace(MICROXCALING, log2=log2, overflow=overflow, rounding="rne")
        for mode in ("floor", "ceil", "even", "rceil"):
            try:
                profile = dataclasses.replace(base, scale_mode=mode)
            except ValueError:
                assert log2 != "exact"
                continue
            ours = mx.quantize(x, "mxfp8_e4m3", block=4, scale_mode=mode)
            result = quantize_like(x, profile, "mxfp8_e4m3", block=4)
            assert result.tensor.scales.tolist() == ours.scales.tolist()
            report = divergence(x, profile, "mxfp8_e4m3", block=4)
            floor = mx.quantize(x, "mxfp8_e4m3", block=4)
            assert report.differing == np.count_nonzero(ours.scales != floor.scales)
            made += 1
    assert made == 4 + 2 + 2
