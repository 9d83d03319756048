"""NVFP4: block scales with a mantissa and a scale of the tensor, against rational arithmetic."""

import itertools
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model, vectors
from mxsafe.codec import _engines, elements, numpy_engine
from mxsafe.codec.elements import ROUNDINGS, Rounding
from mxsafe.formats import MX_FORMATS, NVFP4, SCALAR_FORMATS, FloatFields, FloatFormat, MXFormat
from mxsafe.verilog.presets import build
from verif.codec.codec_cases import DTYPES
from verif.support import exact
from verif.support.quantized import assert_same
from verif.support.tests import Tally, raises, some

ELEMENTS = exact.float_table(2, 1, 1, 8)
SCALES = exact.float_table(4, 3, 7, 127)
NAN_SCALE = 0x7F
FLT_MAX = float(np.finfo(np.float32).max)
SMALLEST = 2.0**-149
TENSOR_SCALES = (1.0, 0.75, float(np.float32(0.1)), 2.0**-126, 3 * SMALLEST, SMALLEST, FLT_MAX)
every_rounding = pytest.mark.parametrize("rounding", ["rne", "rna", "rtz", "sr"])


def exact_scale(amax: Fraction, tensor_scale: Fraction) -> int:
    return exact.round_to_table(amax / (ELEMENTS[-1] * tensor_scale), SCALES, "rne")


def exact_element(
    magnitude: Fraction, rounding: str, word: int, table: tuple[Fraction, ...] = ELEMENTS
) -> int:
    """Magnitude code of an element relative to both scales."""
    if rounding != "sr":
        return exact.round_to_table(magnitude, table, rounding)
    lower = exact.round_to_table(magnitude, table, "rtz")
    if lower == len(table) - 1:
        return lower
    gap = table[lower + 1] - table[lower]
    return lower + (word < (magnitude - table[lower]) / gap * 2**32)


def exact_block(
    values: np.ndarray, tensor_scale: float, rounding: str, words: np.ndarray
) -> tuple[int, list[int]]:
    """Scale and element codes of one block, by trying all of them."""
    if not np.isfinite(values).all():
        return NAN_SCALE, [0] * len(values)
    shared = Fraction(tensor_scale)
    magnitudes = [abs(Fraction(float(value))) for value in values]
    scale = exact_scale(max(magnitudes), shared)
    factor = SCALES[scale] * shared
    codes = [
        exact_element(magnitude / factor, rounding, int(word)) if factor else 0
        for magnitude, word in zip(magnitudes, words, strict=True)
    ]
    signs = np.signbit(values).astype(int) << 3
    return scale, [int(code | sign) for code, sign in zip(codes, signs, strict=True)]


def exact_tensor_scale(values: np.ndarray) -> Fraction:
    finite = [abs(Fraction(float(value))) for value in values.flat if np.isfinite(value)]
    amax = max(finite, default=Fraction(0))
    if amax == 0:
        return Fraction(1)
    scale = exact.nearest_float(amax / (6 * 448), 23, -126)
    return min(max(scale, Fraction(SMALLEST)), Fraction(FLT_MAX))


def assert_exact(x: np.ndarray, rounding: Rounding, tensor_scale: float | None = None) -> Any:
    """Quantise rows as blocks and compare every scale and code with brute force."""
    words = np.random.default_rng(5).integers(0, 1 << 32, x.shape, dtype=np.uint32)
    words.flat[: min(2, x.size)] = 0, (1 << 32) - 1
    q = mx.quantize(
        x, "nvfp4", block=x.shape[1], rounding=rounding, tensor_scale=tensor_scale, random=words
    )
    wanted = exact_tensor_scale(x) if tensor_scale is None else Fraction(tensor_scale)
    assert q.tensor_scale is not None
    assert type(q.tensor_scale) is np.float32
    assert Fraction(float(q.tensor_scale)) == wanted
    for row, line in enumerate(x):
        scale, codes = exact_block(line, float(q.tensor_scale), rounding, words[row])
        assert q.scales[row, 0] == scale, line
        assert q.codes[row].tolist() == codes, line
    return q


def around(values: Any) -> np.ndarray:
    """Float64 values with their neighbours on both sides."""
    middle = np.asarray(values, np.float64)
    return np.stack([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf)], axis=-1)


@every_rounding
@pytest.mark.parametrize("spread", [1, 6, 40])
def test_random_blocks(rounding: Rounding, spread: int) -> None:
    rng = np.random.default_rng(spread)
    binades = rng.integers(-spread, 1, (60, 16)) + rng.integers(-spread, 1, (60, 1))
    x = (rng.standard_normal((60, 16)) * np.exp2(binades)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = -0.0
    x[3], x[4, 2], x[5, 3], x[6, 4] = 0.0, np.nan, np.inf, -np.inf
    q = assert_exact(x, rounding)
    assert q.scales[4:7, 0].tolist() == [NAN_SCALE] * 3
    assert q.scales.max(where=q.scales != NAN_SCALE, initial=0) == 126  # the block of the largest


@every_rounding
@pytest.mark.parametrize("tensor_scale", TENSOR_SCALES)
def test_elements_at_and_beside_ties(rounding: Rounding, tensor_scale: float) -> None:
    """Values and midpoints of the elements under each of some scales, and their neighbours."""
    table = np.array([float(value) for value in ELEMENTS])
    points = np.concatenate([table, (table[1:] + table[:-1]) / 2, [5.5, 6.5, 7.0]])
    rows = []
    for scale in (1, 2, 7, 8, 13, 0x39, 0x7D, 0x7E):
        factor = float(SCALES[scale]) * tensor_scale
        near = (around(points) * 1.0).reshape(-1) * factor  # exact where the point is
        beside = around(points * factor).reshape(-1)
        for line in (near, -near, beside, -beside):
            rows.append(np.concatenate([[6 * factor], np.minimum(np.abs(line), 6 * factor)]))
            rows[-1][1:] = np.copysign(rows[-1][1:], line)
    x = np.array(rows)
    q = assert_exact(x, rounding, tensor_scale)
    assert set(q.scales[:, 0]) == {1, 2, 7, 8, 13, 0x39, 0x7D, 0x7E}


@pytest.mark.parametrize("tensor_scale", TENSOR_SCALES)
def test_scales_at_and_beside_ties(tensor_scale: float) -> None:
    """Largest magnitudes for which the scale is every value and every midpoint, and neighbours."""
    table = np.array([float(value) for value in SCALES])
    points = np.concatenate([table, (table[1:] + table[:-1]) / 2, [460.0, 464.0, 480.0, 1e4]])
    amax = around(points * 6 * tensor_scale).reshape(-1, 1)
    x = np.concatenate([amax, -amax / 3, amax * 0.07], axis=1)
    q = assert_exact(x, "rne", tensor_scale)
    assert set(q.scales[:, 0].tolist()) == set(range(127))
    zero = q.scales[:, 0] == 0
    lost = (x != 0) & zero[:, None]
    assert lost.any()  # numbers whose scale rounds to 0
    assert not (q.codes[zero] & 7).any()
    assert np.array_equal(q.codes[zero] >> 3, np.signbit(x[zero]))


def test_extreme_numbers() -> None:
    x = np.array(
        [
            [1e308, -1e300, 1.0, 5e-324],
            [5e-324, -5e-324, 0.0, -0.0],
            [FLT_MAX, SMALLEST, -SMALLEST, 1e-40],
            [2.0**-1022, -(2.0**-1060), 2.0**-140, 0.0],
        ]
    )
    for rounding in ("rne", "rna", "rtz", "sr"):
        for part in (x, x[1:], x[1:2], x[2:3], x[3:]):
            assert_exact(part, rounding)
        for tensor_scale in (SMALLEST, 1.0, FLT_MAX):
            assert_exact(x, rounding, tensor_scale)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([], 1.0),
        ([0.0, -0.0], 1.0),
        ([np.nan, np.inf], 1.0),
        ([2688.0], 1.0),
        ([-2688.0, np.inf, 1.0, np.nan], 1.0),
        ([5e-324], SMALLEST),
        ([2688 * SMALLEST * 0.5], SMALLEST),
        ([2688 * SMALLEST * 1.5], 2 * SMALLEST),
        ([2688 * SMALLEST * 2.5], 2 * SMALLEST),
        ([1e308], FLT_MAX),
        ([2688 * FLT_MAX], FLT_MAX),
    ],
)
def test_tensor_scale(values: list[float], scale: float) -> None:
    q = mx.quantize(np.array(values, np.float64), "nvfp4")
    assert q.tensor_scale == np.float32(scale)
    assert type(q.tensor_scale) is np.float32


def test_tensor_scale_is_rounded_once() -> None:
    """At the ties of float32, among its subnormals too, and at the numbers beside them."""
    rng = np.random.default_rng(1)
    ties = (rng.integers(1 << 23, 1 << 24, 200) + 0.5) * np.exp2(rng.integers(-60, 60, 200))
    low = (rng.integers(1, 1 << 12, 50) + 0.5) * SMALLEST
    for amax in around(np.concatenate([ties, low]) * 2688).reshape(-1):
        q = mx.quantize(np.array([amax]), "nvfp4")
        assert q.tensor_scale is not None
        assert Fraction(float(q.tensor_scale)) == exact_tensor_scale(np.array([amax]))


def test_tensor_scale_is_that_of_all_parts() -> None:
    x = np.ones(3 * numpy_engine.PART, np.float32)
    x[-1] = -26880.0
    q = mx.quantize(x, "nvfp4")
    assert q.tensor_scale == 10
    assert q.scales[0] == exact_scale(Fraction(1), Fraction(10)) == 9
    assert q.scales[-1] == 126
    assert mx.dequantize(q)[-1] == -26880


@pytest.mark.parametrize("tensor_scale", TENSOR_SCALES)
def test_dequantize_is_exact(tensor_scale: float) -> None:
    """Every scale with every element; float32 is rounded once."""
    codes = np.tile(np.arange(16, dtype=np.uint8), (128, 1))
    scales = np.arange(128, dtype=np.uint8)[:, None]
    q = mx.QuantizedTensor(codes, scales, NVFP4, 16, -1, np.float32(tensor_scale))
    wide, narrow = mx.dequantize(q, dtype=np.float64), mx.dequantize(q)
    assert narrow.dtype == np.float32
    assert np.isnan(wide[127]).all()
    assert np.isnan(narrow[127]).all()
    for scale in range(127):
        for code in range(16):
            value = ELEMENTS[code & 7] * SCALES[scale] * Fraction(tensor_scale)
            assert Fraction(abs(wide[scale, code])) == value
            rounded = exact.nearest_float(value, 23, -126)
            beyond = rounded >= 2**128
            assert abs(narrow[scale, code]) == (np.inf if beyond else float(rounded))
            assert np.signbit(wide[scale, code]) == np.signbit(narrow[scale, code]) == code >> 3


def test_codes_mean_what_ml_dtypes_says() -> None:
    codes = np.arange(16, dtype=np.uint8)
    elements = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    scales = np.arange(127, dtype=np.uint8)
    factors = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    q = mx.QuantizedTensor(np.tile(codes, (127, 1)), scales[:, None], NVFP4, 16, -1, np.float32(1))
    np.testing.assert_array_equal(
        mx.dequantize(q, dtype=np.float64), elements * factors[:, np.newaxis]
    )
    x = np.random.default_rng(1).uniform(-448, 448, (1000, 1))
    nearest = np.abs(x / 6).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    ours = mx.quantize(x.astype(np.float32), "nvfp4", block=1, tensor_scale=1.0).scales
    assert np.array_equal(ours, nearest)  # random numbers, none so near a tie that float32 matters


def small(**options: Any) -> mx.QuantizedTensor:
    x = np.random.default_rng(4).standard_normal((6, 40)).astype(np.float32)
    return mx.quantize(x, "nvfp4", **options)


def test_transposed() -> None:
    for q in (small(), small(block=(16, 16))):
        assert q.T.tensor_scale == q.tensor_scale
        np.testing.assert_array_equal(mx.dequantize(q.T), mx.dequantize(q).T)
    assert repr(small(tensor_scale=0.25)) == (
        "QuantizedTensor(format='nvfp4', shape=(6, 40), block=16, axis=-1, tensor_scale=0.25)"
    )


def test_views() -> None:
    q = small()
    elements, scales = mx.to_ml_dtypes(q)
    assert (elements.dtype, scales.dtype) == (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn)
    assert np.shares_memory(elements, q.codes)
    assert np.shares_memory(scales, q.scales)
    assert_same(mx.from_ml_dtypes(elements, scales, block=16, tensor_scale=q.tensor_scale), q)
    power = np.full(scales.shape, 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    assert mx.from_ml_dtypes(elements, power, block=16).format is MX_FORMATS["mxfp4_e2m1"]
    eight = q.codes.view(ml_dtypes.float8_e4m3fn)
    with raises(TypeError, "scales must have dtype float8_e8m0fnu, not float8_e4m3fn"):
        mx.from_ml_dtypes(eight, scales, block=16)


E4M3 = SCALAR_FORMATS["float8_e4m3fn"]
E3M3 = FloatFormat(
    name="e3m3", fields=FloatFields(exponent_bits=3, mantissa_bits=3, bias=3), specials="nan"
)


@every_rounding
@pytest.mark.parametrize("scale", [E4M3, E3M3], ids=lambda scale: scale.name)
@pytest.mark.parametrize("name", ["mxsf", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8"])
@pytest.mark.parametrize("tensor_scale", [False, True])
def test_other_formats_with_such_scales(
    name: str, scale: FloatFormat, tensor_scale: bool, rounding: Rounding
) -> None:
    """Elements and scales of one's own, with and without a scale of the tensor."""
    element, table = MX_FORMATS[name].element, exact.mx_table(name)
    fmt = MXFormat(name="own", element=element, scale=scale, tensor_scale=tensor_scale)
    factors = exact.float_table(
        scale.fields.exponent_bits, 3, scale.fields.bias, scale.max_magnitude + 1
    )
    rng = np.random.default_rng(6)
    x = rng.standard_normal((30, 8)) * np.exp2(rng.integers(-9, 9, (30, 8)))
    x = x.astype(np.float32)
    x[0, 0], x[1] = np.nan, 0.0
    words = rng.integers(0, 1 << 32, x.shape, dtype=np.uint32)
    q = mx.quantize(x, fmt, block=8, rounding=rounding, random=words)
    assert (q.tensor_scale is None) == (not tensor_scale)
    shared = Fraction(1 if q.tensor_scale is None else float(q.tensor_scale))
    assert q.scales[0] == fmt.nan_scale
    assert not q.codes[0].any()
    values = mx.dequantize(q, dtype=np.float64)
    for row in range(1, 30):
        magnitudes = [abs(Fraction(float(value))) for value in x[row]]
        code = exact.round_to_table(max(magnitudes) / (table[-1] * shared), factors, "rne")
        assert q.scales[row, 0] == code
        factor = factors[code] * shared
        for magnitude, word, value in zip(magnitudes, words[row], values[row], strict=True):
            if not factor:
                assert value == 0
                continue
            wanted = exact_element(magnitude / factor, rounding, int(word), table)
            assert abs(Fraction(value)) == table[wanted] * factor


def tied(fmt: MXFormat, dtype: type, tensor_scale: float, seed: int) -> np.ndarray:
    """Blocks of numbers that lie on and beside ties of elements, under every kind of scale."""
    rng = np.random.default_rng(seed)
    table = elements.magnitudes(fmt.element)
    ties = np.concatenate([table, (table[1:] + table[:-1]) / 2])
    scales = rng.choice(elements.magnitudes(fmt.scale), (48, 1))
    numbers = rng.choice(ties, (48, 16)) * scales
    numbers[:, 0] = table[-1] * scales[:, 0]
    with np.errstate(over="ignore", under="ignore"):
        x = (numbers * tensor_scale).astype(dtype)
        x = np.nextafter(x, rng.choice([-np.inf, 0.0, np.inf], x.shape).astype(dtype))
    x[::9, 3], x[4], x[5] = np.nan, 0.0, x[5] * dtype(2.0**-60)
    return np.copysign(x, rng.standard_normal(x.shape)).astype(dtype)


ENGINE_CASES = [
    (fmt, dtype, rounding)
    for fmt in (NVFP4, MXFormat(name="own", element=MX_FORMATS["mxsf"].element, scale=E4M3))
    for dtype, rounding in itertools.product((np.float32, np.float64), ROUNDINGS)
]


@pytest.mark.parametrize(
    "case",
    some(ENGINE_CASES, every=15),
    ids=lambda case: f"{case[0].name}-{case[1].__name__}-{case[2]}",
)
def test_the_compiled_engine_gives_the_same_bits(
    case: tuple[MXFormat, type, Rounding], tally: Tally
) -> None:
    fmt, dtype, rounding = case
    compared = 0
    for seed, scale in enumerate(TENSOR_SCALES if fmt.tensor_scale else (1.0,)):
        x = tied(fmt, dtype, scale, seed)
        words = np.random.default_rng(9).choice(np.uint32([0, 1, 1 << 31, (1 << 32) - 1]), x.shape)
        for given in (scale if fmt.tensor_scale else None, None):
            for blocking in ({"block": 16}, {"block": (4, 4)}, {"block": 5, "axis": 0}):
                options: dict[str, Any] = {
                    "rounding": rounding,
                    "random": words,
                    "tensor_scale": given,
                    **blocking,
                }
                plain = mx.quantize(x, fmt, engine="numpy", **options)
                fast = mx.quantize(x, fmt, engine="numba", **options)
                assert_same(fast, plain)
                for result in (np.float32, np.float64):
                    wanted = mx.dequantize(plain, dtype=result, engine="numpy")
                    values = mx.dequantize(plain, dtype=result, engine="numba")
                    np.testing.assert_array_equal(values, wanted)
                    number = ~np.isnan(wanted)
                    np.testing.assert_array_equal(
                        np.signbit(values)[number], np.signbit(wanted)[number]
                    )
                compared += x.size
    assert compared > 0
    tally("numba", "codec", compared)


def test_large_tensors_take_the_compiled_engine() -> None:
    chosen = _engines.choose_engine("auto", NVFP4, _engines.WORTH_COMPILING)
    assert chosen is _engines.choose_engine("numba", MX_FORMATS["mxsf"], 1)


BAD_SCALES = (None, 0.0, -1.0, np.inf, np.nan, 0.1, 1, True, "1", 1e39, 1e-46, np.float32(0))


@pytest.mark.parametrize("value", BAD_SCALES, ids=repr)
def test_tensor_scales_refused(value: Any) -> None:
    message = (
        "tensor_scale must be a positive finite float that float32 holds exactly for nvfp4, "
        f"not {value!r}"
    )
    calls = [
        lambda: mx.QuantizedTensor(
            np.zeros((1, 16), np.uint8), np.zeros((1, 1), np.uint8), NVFP4, 16, -1, value
        ),
        lambda: mx.packing.from_bytes(bytes(9), "nvfp4", (1, 16), tensor_scale=value),
    ]
    if value is not None:
        calls.append(lambda: small(tensor_scale=value))
    for call in calls:
        with raises(ValueError, message):
            call()


def test_formats_without_a_tensor_scale_refuse_one() -> None:
    codes, scales = np.zeros((1, 16), np.uint8), np.zeros((1, 1), np.uint8)
    for call in (
        lambda: mx.quantize(np.ones(4), "mxsf", tensor_scale=1.0),
        lambda: mx.QuantizedTensor(codes, scales, "mxsf", 16, -1, 1.0),
        lambda: mx.packing.from_bytes(bytes(17), "mxsf", (1, 16), tensor_scale=1.0),
    ):
        with raises(ValueError, "tensor_scale must be None for mxsf, not 1.0"):
            call()


def test_scales_are_not_negative() -> None:
    codes = np.zeros((1, 16), np.uint8)
    for scale in (0x80, 0xFF):
        scales = np.full((1, 1), scale, np.uint8)
        with raises(
            ValueError, f"scales must be non-negative codes of float8_e4m3fn, not {scale:#x}"
        ):
            mx.QuantizedTensor(codes, scales, NVFP4, 16, -1, np.float32(1))
    q = mx.quantize(np.ones((1, 16)), "nvfp4")
    q.scales[0] = 0x80
    with pytest.raises(ValueError, match=r"^scales must be non-negative codes of float8_e4m3fn"):
        mx.dequantize(q)


def test_there_is_one_scale_mode() -> None:
    assert_same(small(scale_mode="nearest"), small())
    for mode in ("floor", "rceil", "round"):
        with raises(ValueError, f"scale_mode must be nearest for nvfp4, not {mode!r}"):
            small(scale_mode=mode)
    with raises(ValueError, "scale_mode must be one of floor, ceil, even, rceil, not 'nearest'"):
        mx.quantize(np.ones(4), "mxsf", scale_mode="nearest")


def test_the_hardware_refuses_it() -> None:
    q = small(block=16)
    message = re.escape("must have scales of float8_e8m0fnu")
    calls = (
        lambda: model.Schedule(q, q.T),
        lambda: model.operand_beats(q.T),
        lambda: build("sta_exact", q.format),
        lambda: build("sta", q.format),
        lambda: build("converter", q.format),
        lambda: vectors.build("converter", q.format),
    )
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensor_scale": "0x1.8p+200"}, "tensor_scale must be a positive finite float"),
        ({"tensor_scale": "0x0p+0"}, "tensor_scale must be a positive finite float"),
        ({"tensor_scale": "one"}, "invalid hexadecimal floating-point string"),
        ({"format": "mxfp4_e2m1"}, "tensor_scale must be None for mxfp4_e2m1"),
        ({"tensor_scale": None}, "it has no 'tensor_scale'"),
    ],
)
def test_files_that_are_not_right(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    import json

    path = tmp_path / "q.npz"
    mx.save(path, {"w": small()})
    with np.load(path) as archive:
        entries = dict(archive)
    about = json.loads(str(entries["mxsafe"]))
    assert float.fromhex(about["w"]["tensor_scale"]) == small().tensor_scale
    about["w"] |= change
    about["w"] = {name: value for name, value in about["w"].items() if value is not None}
    np.savez(path, **(entries | {"mxsafe": np.array(json.dumps(about))}))
    with pytest.raises(ValueError) as error:
        mx.load(path)
    assert str(error.value).startswith(f"{path} does not hold quantised tensors: {message}")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_rows_of_whole_blocks_and_their_ties(dtype: type) -> None:
    """Elements on and beside all points between two codes, under scales with a mantissa."""
    points = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 6])
    scales = np.array([1, 1.125, 1.875, 14, 0.0625, 448])[:, None]
    exact = (points * scales).astype(dtype)
    x = np.concatenate([exact, -exact, np.nextafter(exact.astype(np.float64), 0).astype(dtype)])
    x = np.concatenate([x, np.full((1, 16), np.nan, dtype), np.zeros((1, 16), dtype)])
    for rounding in ("rne", "rna", "rtz"):
        for scale in (np.float32(1), np.float32(0.3), None):
            options: Any = {"rounding": rounding, "tensor_scale": scale}
            reference = mx.quantize(x, "nvfp4", engine="numpy", **options)
            q = mx.quantize(x, "nvfp4", engine="numba", **options)
            np.testing.assert_array_equal(q.codes, reference.codes)
            np.testing.assert_array_equal(q.scales, reference.scales)
            assert q.tensor_scale == reference.tensor_scale
