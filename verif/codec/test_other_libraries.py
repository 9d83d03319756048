"""The codec and the profiles against the libraries that publish MX quantisers.

They are heavy and optional: what is not installed is skipped. Versions that were compared are in
`mxsafe.codec.profiles.PROFILES`; another version may differ, and then the profile is what to mend.
`mx`, `microxcaling`'s package, is a source folder without releases: put it on ``PYTHONPATH``.
"""

import dataclasses
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec.blocks import SCALE_MODES, ScaleMode
from mxsafe.codec.elements import Rounding
from mxsafe.codec.nvfp4_profiles import NVFP4_PROFILES
from mxsafe.codec.profiles import PROFILES, LibraryResult, divergence, quantize_like
from verif.codec.corner_blocks import BLOCK, mixed_blocks, random_blocks
from verif.support.tests import Tally

torch = pytest.importorskip("torch", reason="torch is not installed")

OCP_FLOATS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1")
MODES: tuple[ScaleMode, ...] = ("floor", "ceil", "even", "rceil")
ROUND: dict[Rounding, str] = {"rne": "even", "rna": "nearest", "rtz": "floor"}
ELEMENTS = {
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp4_e2m1": "fp4_e2m1",
    "mxint8": "int8",
}
ocp_float = pytest.mark.parametrize("name", OCP_FLOATS)
scale_mode = pytest.mark.parametrize("mode", MODES)
rounding_mode = pytest.mark.parametrize("rounding", ROUND)

Quantiser = Callable[..., Any]


def library(module: str, hint: str) -> ModuleType:
    """A module of another library; its import may warn, its results may not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(module)
        except ImportError as error:
            pytest.skip(f"{hint}: {error}")


@pytest.fixture(scope="module")
def to_mx() -> Quantiser:
    """Quantiser of torchao: scale bytes, codes and dequantised values."""
    tensors = library("torchao.prototype.mx_formats.mx_tensor", "torchao is not installed")
    config = library("torchao.prototype.mx_formats.config", "torchao is not installed")
    dtypes = {
        "mxfp8_e4m3": torch.float8_e4m3fn,
        "mxfp8_e5m2": torch.float8_e5m2,
        "mxfp6_e3m2": "fp6_e3m2",
        "mxfp6_e2m3": "fp6_e2m3",
        "mxfp4_e2m1": torch.float4_e2m1fn_x2,
    }

    def run(x: Any, name: str, mode: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dtype = dtypes[name]
        scales, data = tensors.to_mx(x, dtype, BLOCK, config.ScaleCalculationMode(mode))
        values = tensors.to_dtype(data, scales, dtype, BLOCK, torch.float32)
        if name == "mxfp4_e2m1":
            data = tensors.unpack_uint4(data)
        codes = data.view(torch.uint8).numpy().reshape(x.shape)
        return scales.view(torch.uint8).numpy(), codes, values.numpy()

    return run


@pytest.fixture(scope="module")
def nvfp4() -> ModuleType:
    """The module of torchao for NVFP4."""
    return library("torchao.prototype.mx_formats.nvfp4_tensor", "torchao is not installed")


@pytest.fixture(scope="module")
def quantize_mx() -> Quantiser:
    """Quantiser of microxcaling: dequantised values."""
    return library("mx.mx_ops", "microxcaling is not on the path")._quantize_mx


@pytest.fixture(scope="module")
def fake_quantize_mx() -> Quantiser:
    """Quantiser of amd-quark: dequantised values."""
    name = "quark.torch.kernel.hw_emulation.hw_emulation_interface"
    return library(name, "amd-quark is not installed whole").fake_quantize_mx


def microxcaling(run: Quantiser, x: np.ndarray, element: object, round_mode: str) -> np.ndarray:
    return run(
        torch.from_numpy(x.copy()), 8, element, axes=[-1], block_size=BLOCK, round=round_mode
    ).numpy()


def assert_same_bits(got: np.ndarray, expected: np.ndarray, x: np.ndarray) -> int:
    """Equal in every bit, all NaN counting as one; returns how many."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.size > 0
    same = (got == expected) & (np.signbit(got) == np.signbit(expected))
    rows = np.flatnonzero(~(same | (np.isnan(got) & np.isnan(expected))).all(axis=1))
    assert not rows.size, (
        f"{rows.size} of {len(got)} blocks differ, the first is {x[rows[0]]}: "
        f"{got[rows[0]]} instead of {expected[rows[0]]}"
    )
    return got.size


@ocp_float
@scale_mode
def test_whole_blocks_equal_torchao(
    to_mx: Quantiser, name: str, mode: ScaleMode, tally: Tally
) -> None:
    x = random_blocks(1, 10_000)
    scales, codes, values = to_mx(torch.from_numpy(x), name, mode)
    q = mx.quantize(x, name, block=BLOCK, scale_mode=mode)
    assert q.scales.min() > 0
    np.testing.assert_array_equal(q.scales, scales)
    np.testing.assert_array_equal(q.codes, codes)
    tally("torchao", f"codec {name}", assert_same_bits(mx.dequantize(q), values, x))


@pytest.mark.parametrize("name", ELEMENTS)
@rounding_mode
def test_values_equal_microxcaling_in_float64(
    quantize_mx: Quantiser, name: str, rounding: Rounding, tally: Tally
) -> None:
    x = random_blocks(2, 5_000)
    values = microxcaling(quantize_mx, x.astype(np.float64), ELEMENTS[name], ROUND[rounding])
    q = mx.quantize(x, name, block=BLOCK, rounding=rounding)
    # Only the sign of zero is its own.
    np.testing.assert_array_equal(mx.dequantize(q, dtype=np.float64), values)
    tally("microxcaling", f"codec {name}", values.size)


@rounding_mode
def test_e2m5_equals_a_format_entry_of_microxcaling(
    quantize_mx: Quantiser, rounding: Rounding, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    formats = importlib.import_module("mx.formats")
    # Exponent and mantissa bits (two more than ours), emax, largest, smallest normal for bias 1:
    # bias 3 with the scale moved by 2.
    monkeypatch.setitem(formats._FORMAT_CACHE, ("e2m5",), (2, 7, 2, 7.875, 1.0))
    x = random_blocks(3, 5_000)
    values = microxcaling(quantize_mx, x.astype(np.float64), ("e2m5",), ROUND[rounding])
    q = mx.quantize(x, "mxfp8_e2m5", block=BLOCK, rounding=rounding)
    np.testing.assert_array_equal(mx.dequantize(q, dtype=np.float64), values)
    tally("microxcaling", "codec mxfp8_e2m5", values.size)


def as_numpy(tensor: Any) -> np.ndarray:
    """Of float32 or bfloat16, the same numbers in NumPy."""
    if tensor.dtype == torch.float32:
        return tensor.numpy()
    return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)


def assert_no_meaning_lost(result: LibraryResult, x: np.ndarray) -> None:
    """Codes and scale bytes give the values, but for -0 in integers."""
    values = mx.dequantize(result.tensor, dtype=result.values.dtype)
    np.testing.assert_array_equal(values, result.values)
    assert result.tensor.shape == x.shape


@ocp_float
@scale_mode
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_profiles_of_torchao(
    to_mx: Quantiser, name: str, mode: str, dtype: str, tally: Tally
) -> None:
    tensor = torch.from_numpy(mixed_blocks(name, 4, 1_000)).to(getattr(torch, dtype))
    x = tensor.to(torch.float32).numpy()
    scales, codes, values = to_mx(tensor, name, mode)
    result = quantize_like(as_numpy(tensor), f"torchao_{mode}", name, block=BLOCK)
    np.testing.assert_array_equal(result.tensor.scales, scales)
    meant = np.repeat(scales != 255, BLOCK, axis=1)
    np.testing.assert_array_equal(result.tensor.codes[meant], codes[meant])
    tally("torchao", f"profile {name}", assert_same_bits(result.values, values, x))
    assert_no_meaning_lost(result, x)


NVFP4_BLOCK = 16
NVFP4_TENSORS = ("ordinary", "corners", "bits", "small", "large", "zeros")


def nvfp4_tensor(kind: str, name: str) -> np.ndarray:
    """Blocks of 16 by what is special about them."""
    rng = np.random.default_rng(9)
    if kind == "zeros":
        return np.array([[0.0] * 16, [-0.0] * 16, [0.0, 1.0] * 8], np.float32)
    if kind in ("corners", "bits"):
        x = mixed_blocks("mxfp4_e2m1", 9, 500 if kind == "bits" else 0).reshape(-1, NVFP4_BLOCK)
        return x if name == "torchao_nvfp4_blocks" else x[np.isfinite(x).all(axis=1)]
    exponents = {"ordinary": 0, "small": -104, "large": 110}[kind] + rng.integers(-12, 1, (3000, 1))
    return (rng.standard_normal((3000, NVFP4_BLOCK)) * np.exp2(exponents)).astype(np.float32)


@pytest.mark.parametrize("kind", NVFP4_TENSORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NVFP4_PROFILES)
def test_profiles_of_nvfp4(
    nvfp4: ModuleType, name: str, dtype: str, kind: str, tally: Tally
) -> None:
    tensor = torch.from_numpy(nvfp4_tensor(kind, name)).to(getattr(torch, dtype))
    if name == "torchao_nvfp4":
        tensor = tensor[torch.isfinite(tensor).all(dim=1)]  # rounding to bfloat16 makes Inf too
    x, given = tensor.to(torch.float32).numpy(), as_numpy(tensor)
    shared = None
    if NVFP4_PROFILES[name].tensor_scale:
        shared = nvfp4.per_tensor_amax_to_scale(torch.max(torch.abs(tensor)))
    compare_nvfp4(nvfp4, tensor, shared, quantize_like(given, name, "nvfp4"), x, tally)


@pytest.mark.parametrize("scale", [1.0, 0.01, 1e30, 3e38, 2.0**-121, 1e-30])
def test_profile_of_nvfp4_with_a_calibrated_scale(
    nvfp4: ModuleType, scale: float, tally: Tally
) -> None:
    tensor = torch.from_numpy(nvfp4_tensor("bits", "torchao_nvfp4_blocks"))  # NaN and Inf too
    shared = torch.tensor(scale, dtype=torch.float32)
    x = tensor.numpy()
    result = quantize_like(x, "torchao_nvfp4", "nvfp4", tensor_scale=np.float32(scale))
    compare_nvfp4(nvfp4, tensor, shared, result, x, tally)


def compare_nvfp4(
    nvfp4: ModuleType, tensor: Any, shared: Any, result: LibraryResult, x: np.ndarray, tally: Tally
) -> None:
    """Block scales, codes and values of a result with those of torchao."""
    theirs = nvfp4.NVFP4Tensor.to_nvfp4(tensor, per_tensor_scale=shared)
    scales = theirs.scale.view(torch.uint8).numpy()
    meant = scales & 0x7F != 0x7F  # not NaN, whose sign says nothing
    np.testing.assert_array_equal(result.tensor.scales[meant], scales[meant])
    np.testing.assert_array_equal(result.tensor.scales == 0x7F, ~meant)
    codes = nvfp4.unpack_uint4(theirs.qdata.view(torch.uint8)).numpy()
    wide = np.repeat(meant, NVFP4_BLOCK, axis=1)
    np.testing.assert_array_equal(result.tensor.codes[wide], codes[wide])
    if shared is not None:
        assert result.tensor.tensor_scale == shared.item()
    values = theirs.dequantize(torch.float32).numpy()
    tally("torchao", "profile nvfp4", assert_same_bits(result.values, values, x))


def test_profile_of_compressed_tensors(tally: Tally) -> None:
    """Scales by its rule, codes by its compressor; of finite numbers that it does not overflow."""
    quantization = library("compressed_tensors.quantization", "compressed-tensors is not installed")
    base = library("compressed_tensors.compressors.base", "compressed-tensors is not installed")
    arguments = quantization.QuantizationArgs(
        type="float", num_bits=8, strategy="group", group_size=32, scale_dtype=torch.uint8
    )
    scheme = quantization.QuantizationScheme(targets=["Linear"], weights=arguments)
    x = mixed_blocks("mxfp8_e4m3", 12, 3_000)
    with np.errstate(invalid="ignore"):
        x = x[(np.abs(x) < 1.75 * 2.0**127).all(axis=1)]
    t = torch.from_numpy(x)
    ends = t.amin(1, keepdim=True), t.amax(1, keepdim=True)
    scale, _ = quantization.utils.calculate_qparams(*ends, arguments)
    kind = base.BaseCompressor.get_value_from_registry("mxfp8-quantized")
    theirs = kind.compress({"weight": t, "weight_scale": scale}, scheme)
    result = quantize_like(x, "compressed_tensors_mxfp8", "mxfp8_e4m3")
    np.testing.assert_array_equal(result.tensor.scales, theirs["weight_scale"])
    np.testing.assert_array_equal(result.tensor.codes, theirs["weight"].view(torch.uint8))
    for mode in SCALE_MODES:  # it is none of ours
        ours = mx.quantize(x, "mxfp8_e4m3", scale_mode=mode)
        assert (ours.scales != result.tensor.scales).any(), mode
    tally("compressed-tensors", "profile mxfp8_e4m3", result.tensor.codes.size)


@ocp_float
def test_profile_of_quark(fake_quantize_mx: Quantiser, name: str, tally: Tally) -> None:
    x = mixed_blocks(name, 5, 2_000)
    element = ELEMENTS[name].removesuffix("_e2m1")
    values = fake_quantize_mx(
        torch.from_numpy(x.copy()), -1, BLOCK, "even", mx_element_dtype=element
    ).numpy()
    result = quantize_like(x, "quark_even", name, block=BLOCK)
    tally("quark", f"profile {name}", assert_same_bits(result.values, values, x))
    assert_no_meaning_lost(result, x)


@pytest.mark.parametrize("name", ELEMENTS)
@rounding_mode
@pytest.mark.parametrize("profile", ["microxcaling", "microxcaling_float64"])
def test_profiles_of_microxcaling(
    quantize_mx: Quantiser, name: str, rounding: Rounding, profile: str, tally: Tally
) -> None:
    x = mixed_blocks(name, 6, 1_000)
    like = dataclasses.replace(PROFILES[profile], rounding=rounding)
    with np.errstate(invalid="ignore"):  # signalling NaN
        given = x.astype(like.arithmetic)
    values = microxcaling(quantize_mx, given, ELEMENTS[name], ROUND[rounding])
    result = quantize_like(x, like, name, block=BLOCK)
    tally("microxcaling", f"profile {name}", assert_same_bits(result.values, values, x))
    assert_no_meaning_lost(result, x)


@pytest.mark.parametrize("name", ELEMENTS)
@rounding_mode
def test_profile_of_microxcaling_for_float64_input(
    quantize_mx: Quantiser, name: str, rounding: Rounding, tally: Tally
) -> None:
    rng = np.random.default_rng(7)
    x = mixed_blocks(name, 7, 1_000)
    x = x[np.isfinite(x).all(axis=1)].astype(np.float64)
    # A few units in the last place of float64, and beyond float32's range on both sides.
    x *= 1 + rng.integers(-9, 10, x.shape) * 2.0**-52
    x = np.ldexp(x, rng.choice([0, 0, 0, 130, -130], (len(x), 1)))
    like = dataclasses.replace(PROFILES["microxcaling_float64"], rounding=rounding)
    values = microxcaling(quantize_mx, x, ELEMENTS[name], ROUND[rounding])
    result = quantize_like(x, like, name, block=BLOCK)
    tally("microxcaling", f"profile {name}", assert_same_bits(result.values, values, x))


@ocp_float
def test_a_report_counts_what_torchao_does(to_mx: Quantiser, name: str) -> None:
    x = mixed_blocks(name, 8, 500)
    scales, _, values = to_mx(torch.from_numpy(x), name, "rceil")
    q = mx.quantize(x, name, block=BLOCK)
    ours = mx.dequantize(q)
    same = (ours == values) & (np.signbit(ours) == np.signbit(values))
    same |= np.isnan(ours) & np.isnan(values)
    differing = ~same.all(axis=1) | (q.scales != scales)[:, 0]
    report = divergence(x, "torchao_rceil", name, block=BLOCK)
    assert report.differing == differing.sum() > 0
    assert [one.index for one in report.blocks] == [(i, 0) for i in np.flatnonzero(differing)[:20]]


def test_microxcaling_in_float32_is_wrong_just_below_a_power_of_two(
    quantize_mx: Quantiser,
) -> None:
    x = np.zeros((1, BLOCK), np.float32)
    x[0, 0] = np.nextafter(np.float32(2.0**100), np.float32(0))
    assert microxcaling(quantize_mx, x, "fp8_e4m3", "even")[0, 0] == 2.0**100
    wide = microxcaling(quantize_mx, x.astype(np.float64), "fp8_e4m3", "even")[0, 0]
    assert wide == 1.75 * 2.0**99
    assert mx.dequantize(mx.quantize(x, "mxfp8_e4m3"))[0, 0] == wide


@pytest.mark.parametrize("name", ["mxfp4_e2m1", "nvfp4"])
def test_bytes_of_gguf(name: str, tally: Tally) -> None:
    """gguf-py decodes our bytes, and we decode its bytes; every scale, every code."""
    quants = library("gguf.quants", "gguf is not installed")
    kind = quants.GGMLQuantizationType[{"mxfp4_e2m1": "MXFP4", "nvfp4": "NVFP4"}[name]]
    elements, size = (32, 17) if name == "mxfp4_e2m1" else (64, 36)
    scales = 1 if name == "mxfp4_e2m1" else 4
    rng = np.random.default_rng(61)
    compared = 0
    for rows in range(1, 20):
        for columns in range(elements, 9 * elements, elements):
            shape = (rows, columns)
            data = rng.integers(0, 256, (rows, columns // elements, size), np.uint8)
            some_scales = np.arange(255 if scales == 1 else 0x7F, dtype=np.uint8)
            data[..., :scales] = rng.choice(some_scales, data[..., :scales].shape)
            with np.errstate(over="ignore"):  # elements under the largest scales
                theirs = quants.dequantize(data.reshape(rows, -1), kind)
            shared = 1.0 if name == "nvfp4" else None
            q = mx.packing.from_bytes(
                data.reshape(-1), name, shape, layout="gguf", tensor_scale=shared
            )
            np.testing.assert_array_equal(mx.dequantize(q), theirs)
            np.testing.assert_array_equal(mx.packing.to_bytes(q, "gguf"), data.reshape(-1))
            compared += q.codes.size
    if name == "mxfp4_e2m1":  # gguf-py has no quantiser of NVFP4
        x = rng.choice(np.float32([0.5, 1, 1.5, 2, 3, 4, 6]), (8, 320)) * np.float32(2.0**-20)
        ours = mx.packing.to_bytes(mx.quantize(x, name), "gguf")
        np.testing.assert_array_equal(ours, quants.quantize(x, kind).reshape(-1))
    assert compared > 0
    tally("gguf-py", name, compared)
