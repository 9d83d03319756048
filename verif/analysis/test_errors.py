"""Errors by exponent gap and of tensors, against rational arithmetic and whole-tensor NumPy."""

import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.analysis import errors as analysis
from mxsafe.analysis.errors import (
    DISTRIBUTIONS,
    GapError,
    TensorError,
    draw_tensor,
    error_of_slabs,
    gap_error,
    tensor_error,
)
from mxsafe.codec.blocks import ScaleMode
from mxsafe.codec.elements import Rounding
from mxsafe.formats import MX_FORMATS, MXFormat, ScaleFormat
from verif.codec.exact_blocks import exact_scale, wide_values
from verif.support import exact
from verif.support.tests import raises, some

every_format = pytest.mark.parametrize("name", MX_FORMATS)
Block = int | tuple[int, int]


def brute_force(
    name: str, gap: int, samples: int, rounding: str, mode: str
) -> tuple[float, float, float]:
    """Mean and largest relative error and share of zeros, one pair of elements after another."""
    table = exact.mx_table(name)

    @cache
    def nearest(value: Fraction) -> Fraction:
        return table[exact.round_to_table(value, table, rounding)]

    significands = [1 + Fraction(k, samples) for k in range(samples)]
    total, largest, zeros = Fraction(0), 0.0, 0
    for top in significands:
        factor = Fraction(2) ** (exact_scale(top, name, mode) - 127)
        for x in [top] * samples if gap == 0 else [s / 2**gap for s in significands]:
            q = nearest(x / factor) * factor
            relative = float(abs(x - q) / x)
            total += Fraction(relative)
            largest = max(largest, relative)
            zeros += q == 0
    return float(total / samples**2), largest, zeros / samples**2


@every_format
@pytest.mark.parametrize("mode", some(["floor", "even", "rceil", "ceil"], every=4))
def test_gap_error_equals_brute_force(name: str, mode: ScaleMode) -> None:
    gaps = (0, 1, 3, 7, 11, 12, 13)
    roundings: tuple[Rounding, ...] = ("rne", "rna", "rtz") if mode == "floor" else ("rne",)
    for rounding in roundings:
        error = gap_error(name, gaps=gaps, samples=16, rounding=rounding, scale_mode=mode)
        assert error.format == name
        assert error.gaps == gaps
        for place, gap in enumerate(gaps):
            expected = brute_force(name, gap, 16, rounding, mode)
            assert (error.mean[place], error.largest[place], error.underflow[place]) == expected


def by_gap(error: GapError, gaps: Sequence[int]) -> list[tuple[float, float, float]]:
    return [(error.mean[gap], error.largest[gap], error.underflow[gap]) for gap in gaps]


def test_mxsf_is_e2m5_then_e3m2_then_subnormal_then_zero() -> None:
    mxsf, e2m5, e3m2 = (gap_error(name) for name in ("mxsf", "mxfp8_e2m5", "mxfp6_e3m2"))
    assert by_gap(mxsf, range(3)) == by_gap(e2m5, range(3))
    # E3M2 on its own is normal from gap 0 to 6 and saturates at 0, so gap 1 stands for all.
    assert by_gap(mxsf, range(3, 10)) == by_gap(e3m2, [1] * 7)
    assert by_gap(mxsf, (10, 11, 12, 13)) == by_gap(e3m2, (7, 8, 9, 10))
    assert set(mxsf.underflow[:12]) == {0.0}
    assert mxsf.underflow[12] == 1 / 4096  # only 2^-12, the tie between 0 and 2^-11
    assert set(mxsf.underflow[13:]) == {1.0}
    truncated = gap_error("mxsf", rounding="rtz")
    assert truncated.underflow == (0.0,) * 12 + (1.0,) * 8


def test_largest_errors_follow_equations_5_and_6() -> None:
    """Half a unit in the last place over the smallest element that is half a unit off."""
    mxint8, e2m5 = gap_error("mxint8").largest, gap_error("mxfp8_e2m5").largest
    for gap in range(7):
        unit = Fraction(2) ** (gap - 6)  # relative to the element's power of two
        assert mxint8[gap] == float(unit / 2 / (1 + unit / 2))
    for gap in range(1, 8):
        unit = Fraction(2) ** (max(gap - 2, 0) - 5)
        assert e2m5[gap] == float(unit / 2 / (1 + unit / 2))


def test_the_paper_on_mxint8_and_e2m5() -> None:
    """Section III-A: MXINT8 is better at gap 0, equal at 1, and worse beyond."""
    mxint8, e2m5 = gap_error("mxint8"), gap_error("mxfp8_e2m5")
    assert mxint8.mean[0] < e2m5.mean[0]
    assert by_gap(mxint8, [1]) == by_gap(e2m5, [1])
    assert all(mxint8.mean[gap] > e2m5.mean[gap] for gap in range(2, 8))
    for gap in range(6):
        assert mxint8.mean[gap + 1] == pytest.approx(2 * mxint8.mean[gap], rel=0.02)


def test_gap_error_is_deterministic_and_seeded() -> None:
    assert gap_error("mxsf") == gap_error(MX_FORMATS["mxsf"])
    first = gap_error("mxsf", gaps=[5], rounding="sr", random=3)
    assert first == gap_error("mxsf", gaps=[5], rounding="sr", random=np.random.default_rng(3))
    assert first != gap_error("mxsf", gaps=[5], rounding="sr", random=4)
    assert gap_error("mxsf", gaps=[]) == GapError(
        format="mxsf", gaps=(), mean=(), largest=(), underflow=()
    )


def plain_error(x: np.ndarray, name: str, block: Block, axis: int) -> TensorError:
    """The whole tensor at once, block by block."""
    fmt = MX_FORMATS[name]
    x = x.astype(np.float64)
    q = mx.quantize(x, name, block=block, axis=axis)
    y = mx.dequantize(q, dtype=np.float64)
    finite = ~np.isnan(y)
    x_ok, y_ok = x[finite], y[finite]
    nonzero = x_ok != 0
    scale = mx.e8m0.decode(q.element_scales()).astype(np.float64)[finite]
    gaps = []
    numbers = np.zeros(x.shape, int)
    lengths = dict(zip((-2, -1), block, strict=True)) if isinstance(block, tuple) else {axis: block}
    for along, length in lengths.items():
        place = np.arange(x.shape[along]) // length
        shape = [1] * x.ndim
        shape[along] = -1
        numbers = numbers * 1000 + place.reshape(shape)
    others = [d for d in range(x.ndim) if d - x.ndim not in lengths and d not in lengths]
    for d in others:
        shape = [1] * x.ndim
        shape[d] = -1
        numbers = numbers * 1000 + np.arange(x.shape[d]).reshape(shape)
    for number in np.unique(numbers):
        values = x[(numbers == number) & finite & (x != 0)]
        exponents = [exact.floor_log2(abs(Fraction(float(value)))) for value in values]
        gaps += [max(exponents) - exponent for exponent in exponents]
    squared = np.sum((x_ok - y_ok) ** 2)
    ratio = squared / np.sum(x_ok**2)
    return TensorError(
        format=name,
        block=block,
        elements=x.size,
        mse=squared / x_ok.size,
        relative_error=math.sqrt(ratio),
        sqnr_db=-20.0 * math.log10(math.sqrt(ratio)),
        underflow_ratio=np.count_nonzero(nonzero & (y_ok == 0)) / np.count_nonzero(nonzero),
        saturated_ratio=np.count_nonzero(np.abs(x_ok) > scale * fmt.element.max_value) / x_ok.size,
        mean_gap=sum(gaps) / len(gaps),
        nan_blocks=int(np.count_nonzero(q.scales == 255)),
    )


def coarse_values(shape: tuple[int, ...]) -> np.ndarray:
    """Multiples of 2^-10 below 8, of many binades: the squares add up without any rounding."""
    rng = np.random.default_rng(5)
    x = np.round(rng.standard_normal(shape) * np.exp2(rng.integers(-8, 2, shape)) * 1024) / 1024
    return np.clip(x, -7, 7).astype(np.float32)


@every_format
@pytest.mark.parametrize(
    ("shape", "block", "axis"),
    [
        ((5, 70), 64, -1),
        ((37, 6), 8, -2),
        ((3, 9, 11), 4, -2),
        ((2, 20, 19), (8, 8), -1),
        ((50,), 7, -1),
    ],
)
def test_tensor_error_equals_numpy(
    name: str, shape: tuple[int, ...], block: Block, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = coarse_values(shape)
    expected = plain_error(x, name, block, axis)
    assert expected.mse > 0
    for slab in (1 << 18, 100, 20, 1):
        monkeypatch.setattr(analysis, "SLAB", slab)
        assert tensor_error(x, name, block=block, axis=axis) == expected


@pytest.mark.parametrize(("block", "axis"), [(16, 0), (16, -1), ((8, 8), -1), (2**70, 1)])
def test_slabs_are_small_and_cut_between_blocks(
    block: Block, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = wide_values((40, 100))
    whole = tensor_error(x, block=block, axis=axis)
    sizes = []
    quantize = mx.quantize

    def spy(values: np.ndarray, *arguments: object, **options: object) -> mx.QuantizedTensor:
        sizes.append(values.size)
        return quantize(values, *arguments, **options)

    monkeypatch.setattr(analysis, "quantize", spy)
    monkeypatch.setattr(analysis, "SLAB", 300)
    assert tensor_error(x, block=block, axis=axis) == whole
    assert sizes[0] == 1
    assert sum(sizes[1:]) == x.size
    assert max(sizes) <= 300
    assert len(sizes) > 10


def test_memory_is_that_of_a_slab() -> None:
    x = np.ones((64, 1 << 16), np.float32)
    tensor_error(x[:4])  # compiled code is loaded on first use
    tracemalloc.start()
    try:
        tensor_error(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * x.nbytes


def test_slabs_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wide_values((10, 64))
    parts = (x[start : start + 3] for start in range(0, 10, 3))
    assert error_of_slabs(parts, "mxsf", block=16) == tensor_error(x, "mxsf", block=16)
    seeded = error_of_slabs([x[:4], x[4:]], block=16, rounding="sr", random=9)
    monkeypatch.setattr(analysis, "SLAB", 100)
    assert seeded == tensor_error(x, block=16, rounding="sr", random=9)
    q = mx.quantize(x, block=16, rounding="sr", random=9)
    error = x.astype(np.float64) - mx.dequantize(q, dtype=np.float64)
    assert seeded.mse == pytest.approx(np.mean(error**2), rel=1e-14)
    # Words go to elements in C order, also where blocks do not.
    tiles = tensor_error(x, block=(4, 4), rounding="sr", random=9)
    q = mx.quantize(x, block=(4, 4), rounding="sr", random=9)
    error = x.astype(np.float64) - mx.dequantize(q, dtype=np.float64)
    assert tiles.mse == pytest.approx(np.mean(error**2), rel=1e-14)


def test_zeros_and_exact_tensors() -> None:
    zeros = tensor_error(np.zeros((2, 8), np.float32), "mxsf", block=4)
    assert zeros == TensorError(
        format="mxsf",
        block=4,
        elements=16,
        mse=0.0,
        relative_error=0.0,
        sqnr_db=math.inf,
        underflow_ratio=0.0,
        saturated_ratio=0.0,
        mean_gap=0.0,
        nan_blocks=0,
    )
    powers = tensor_error(np.float32([1.0, 0.5, 0.0, -0.25]), "mxsf", block=4)
    assert powers == replace(zeros, elements=4, mean_gap=1.0)


def test_nan_blocks_are_left_out() -> None:
    x = coarse_values((3, 8))
    x[1, 2], x[2, 7] = np.nan, np.inf
    clean = tensor_error(x[:1], "mxsf", block=8)
    error = tensor_error(x, "mxsf", block=8)
    assert error == replace(clean, elements=24, nan_blocks=2)
    lost = tensor_error(x[1:], "mxsf", block=8)
    assert math.isnan(lost.mse)
    assert math.isnan(lost.relative_error)
    assert math.isnan(lost.sqnr_db)
    assert (lost.underflow_ratio, lost.saturated_ratio, lost.mean_gap) == (0.0, 0.0, 0.0)
    assert lost.nan_blocks == 2


def test_saturation() -> None:
    error = tensor_error(np.float32([1.75, 1.8, -1.9, 1.0]), "mxfp8_e4m3", block=4)
    assert error.saturated_ratio == 0.5
    assert (
        tensor_error(np.float32([1.8, 1.0]), "mxfp8_e4m3", scale_mode="ceil").saturated_ratio == 0
    )


def fraction_error(x: np.ndarray, name: str, block: Block) -> tuple[Fraction, Fraction]:
    """Sums of the squares of errors and of elements, in rational arithmetic."""
    y = mx.dequantize(mx.quantize(x, name, block=block), dtype=np.float64)
    pairs = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(x.flat, y.flat, strict=True)]
    squared = sum(((a - b) ** 2 for a, b in pairs), Fraction(0))
    return squared, sum((a * a for a, _ in pairs), Fraction(0))


@every_format
@pytest.mark.parametrize("power", [-1060, -664, -540, -100, 0, 60, 120, 531, 1020])
def test_errors_over_the_whole_range_of_float64(name: str, power: int) -> None:
    x = np.ldexp(coarse_values((16, 16)).astype(np.float64), power)
    error = tensor_error(x, name, block=16)
    squared, signal = fraction_error(x, name, 16)
    assert signal > 0
    assert error.relative_error == math.sqrt(squared / signal)
    assert error.sqnr_db == -20.0 * math.log10(math.sqrt(squared / signal))
    too_large = squared / x.size >= 2**1024
    assert error.mse == (math.inf if too_large else float(squared / x.size))
    y = mx.dequantize(mx.quantize(x, name, block=16), dtype=np.float64)
    lost = np.count_nonzero((x != 0) & (y == 0)) / np.count_nonzero(x)
    assert error.underflow_ratio == lost
    if power < -500:  # below the smallest scale everything is lost, and said to be
        assert (error.underflow_ratio, error.relative_error, error.sqnr_db) == (1.0, 1.0, 0.0)
    if power > 500:
        assert error.saturated_ratio > 0
        assert 0.99 < error.relative_error <= 1.0


def test_a_tensor_of_both_ends() -> None:
    """A power of two is exact, and what is lost beside it far too small to show in its square."""
    x = np.array([[2.0**100] * 4, [1e-200] * 4])
    error = tensor_error(x, "mxsf", block=4)
    assert error.relative_error == 1e-200 / 2.0**100
    assert error.sqnr_db == -20.0 * math.log10(1e-200 / 2.0**100)
    assert error.underflow_ratio == 0.5
    assert error.mse == 0.0  # 5e-401 is no float64


def test_scaling_by_a_power_of_two_changes_no_ratio() -> None:
    x = wide_values((20, 32)).astype(np.float64)
    whole = tensor_error(x, "mxsf", block=16)
    for power in (-60, -3, 40, 90):
        error = tensor_error(np.ldexp(x, power), "mxsf", block=16)
        assert error == replace(whole, mse=math.ldexp(whole.mse, 2 * power))


def test_scales_of_another_format() -> None:
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    fmt = MXFormat(name="own", element=MX_FORMATS["mxsf"].element, scale=coarse)
    x = wide_values((8, 16))
    x[2, 3] = np.nan
    assert tensor_error(x, fmt, block=16) == replace(tensor_error(x, block=16), format="own")
    far = tensor_error(x * np.float32(2.0**30), fmt, block=16)
    q = mx.quantize(x * np.float32(2.0**30), fmt, block=16)
    limit = np.where(q.scales == 31, np.inf, np.exp2(q.scales - 15.0)) * fmt.element.max_value
    above = np.abs(x * np.float32(2.0**30)) > limit
    assert far.saturated_ratio == np.count_nonzero(above) / (x.size - 16) > 0.1
    assert far.nan_blocks == 1


def test_sums_are_exact_at_the_ends_of_float64() -> None:
    assert tensor_error(np.array([1e200, 1.0]), "mxsf", block=2).mse == math.inf
    tiny = np.float32([2.0**-149, 2.0**-140])
    assert tensor_error(tiny, "mxsf", block=2).underflow_ratio == 1.0
    values = np.concatenate([wide_values((999,)) ** 2, [1e-300, 1e300]]).astype(np.float64)
    expected = sum((Fraction(float(value)) for value in values), Fraction(0))
    assert analysis._exact_sum(values) == expected


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name: str) -> None:
    x = draw_tensor(name, (32, 64), seed=4)
    assert x.dtype == np.float32
    assert x.shape == (32, 64)
    assert np.isfinite(x).all()
    np.testing.assert_array_equal(x, draw_tensor(name, (32, 64), seed=4))
    assert (x != draw_tensor(name, (32, 64), seed=5)).any()
    assert x.min() < 0 < x.max()
    assert (np.mean(x == 0) > 0.2) == (name == "gradient")


def test_sizes_and_seeds_of_numpy() -> None:
    plain = gap_error("mxsf", gaps=[5], samples=64, rounding="sr", random=3)
    options = {"gaps": [np.uint8(5)], "samples": np.int64(64), "random": np.int32(3)}
    assert gap_error("mxsf", rounding="sr", **options) == plain
    assert type(gap_error("mxsf", rounding="sr", **options).gaps[0]) is int
    x = wide_values((8, 16))
    for seed in (np.int64(9), np.random.default_rng(9)):
        error = tensor_error(x, block=np.int64(8), rounding="sr", random=seed)
        assert error == tensor_error(x, block=8, rounding="sr", random=9)


def test_results_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        gap_error("mxsf", gaps=[1]).gaps = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: gap_error("mxsf", gaps=[0, -1]),
            ValueError,
            "gaps must be integers from 0 to 1000, not -1",
        ),
        (
            lambda: gap_error("mxsf", gaps=[1001]),
            ValueError,
            "gaps must be integers from 0 to 1000, not 1001",
        ),
        (
            lambda: gap_error("mxsf", gaps=[1.5]),  # type: ignore[list-item]
            ValueError,
            "gaps must be integers from 0 to 1000, not 1.5",
        ),
        (
            lambda: gap_error("mxsf", samples=0),
            ValueError,
            "samples must be a positive integer, not 0",
        ),
        (
            lambda: gap_error("mxsf", rounding="up"),
            ValueError,
            "rounding must be one of rne, rna, rtz, sr, not 'up'",
        ),
        (
            lambda: gap_error("mxsf", rounding="sr"),
            TypeError,
            "random must be a numpy Generator, a seed or a uint32 array for rounding 'sr', "
            "not None",
        ),
        (
            lambda: tensor_error(np.ones(4), rounding="sr", random=1.5),
            TypeError,
            "random must be a numpy Generator or a seed, not 1.5",
        ),
        (
            lambda: tensor_error(np.ones((0, 4))),
            ValueError,
            "x must have elements, not the shape (0, 4)",
        ),
        (
            lambda: error_of_slabs([]),
            ValueError,
            "slabs must hold elements, not be empty",
        ),
        (
            lambda: tensor_error(np.ones(4, int)),
            TypeError,
            "x must have dtype float64, float32, float16, bfloat16, not int64",
        ),
        (
            lambda: tensor_error(np.ones(4), block=(8, 8)),
            ValueError,
            "block (8, 8) needs a tensor of rank 2 or more, not 1",
        ),
        (
            lambda: tensor_error(np.ones((4, 4)), axis=2),
            ValueError,
            "axis must lie in -2..1 for rank 2, not 2",
        ),
        (
            lambda: draw_tensor("cauchy"),
            ValueError,
            "distribution must be one of normal, lognormal, student_t, uniform, gradient, "
            "not 'cauchy'",
        ),
    ],
)
def test_bad_input(call, error: type[Exception], message: str) -> None:
    with raises(error, message):
        call()


def test_gap_errors_of_nvfp4_equal_brute_force() -> None:
    """The scale of the tensor is that of all maxima, and a block's is the nearest of E4M3."""
    samples, elements = 16, exact.mx_table("nvfp4")
    scales = exact.float_table(4, 3, 7, 127)
    significands = [1 + Fraction(k, samples) for k in range(samples)]
    shared = exact.nearest_float(significands[-1] / (6 * 448), 23, -126)
    error = gap_error("nvfp4", gaps=range(8), samples=samples)
    for gap in range(8):
        found = []
        for top in significands:
            factor = scales[exact.round_to_table(top / (6 * shared), scales, "rne")] * shared
            for x in [top] * samples if gap == 0 else [s / 2**gap for s in significands]:
                q = elements[exact.round_to_table(x / factor, elements, "rne")] * factor
                found.append((float(abs(x - q) / x), q == 0))
        assert error.largest[gap] == max(relative for relative, _ in found)
        assert error.mean[gap] == pytest.approx(
            sum(relative for relative, _ in found) / len(found), rel=1e-14, abs=0
        )
        assert error.underflow[gap] == sum(zero for _, zero in found) / len(found)


def test_a_tensor_of_nvfp4_has_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is cut, and it is what `quantize` makes of the whole tensor."""
    x = wide_values((64, 48))
    x[-1, -1], x[3, 5] = 1000.0, np.nan
    q = mx.quantize(x, "nvfp4")
    whole = tensor_error(x, "nvfp4")
    monkeypatch.setattr(analysis, "SLAB", 64)
    assert tensor_error(x, "nvfp4") == whole
    assert error_of_slabs([x[:7], x[7:]], "nvfp4", tensor_scale=q.tensor_scale) == whole
    with np.errstate(invalid="ignore"):
        difference = x.astype(np.float64) - mx.dequantize(q, dtype=np.float64)
    assert whole.nan_blocks == 1
    finite = np.isfinite(difference)
    assert finite.sum() == x.size - 16
    assert whole.mse == pytest.approx(np.square(difference[finite]).mean(), rel=1e-14)
    other = tensor_error(x, "nvfp4", tensor_scale=0.5)
    assert other != whole
    assert other == error_of_slabs([x], "nvfp4", tensor_scale=0.5)
    with raises(
        ValueError,
        "tensor_scale must be a positive finite float that float32 holds exactly for nvfp4, "
        "not None",
    ):
        error_of_slabs([x], "nvfp4")
    with raises(ValueError, "tensor_scale must be None for mxsf, not 1.0"):
        tensor_error(x, "mxsf", tensor_scale=1.0)


def test_saturation_in_nvfp4() -> None:
    x = np.float32([2688.0 * 2, 6 * 448, 1.0, -2688.0625])
    assert tensor_error(x, "nvfp4", block=4).saturated_ratio == 0
    assert tensor_error(x, "nvfp4", block=4, tensor_scale=1.0).saturated_ratio == 0.5
