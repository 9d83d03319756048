"""Profiles of NVFP4: what torchao gave, written down; `test_other_libraries` runs it."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.codec.nvfp4_profiles import NVFP4_PROFILES
from mxsafe.codec.profiles import divergence, quantize_like
from verif.support.tests import raises

FLT_MAX = np.finfo(np.float32).max
SPECIAL = np.zeros((7, 16), np.float32)
SPECIAL[1] = -0.0
SPECIAL[2, :3] = np.nan, 1.0, -2.0
SPECIAL[3, :4] = np.inf, 1.0, -2.0, -np.inf
SPECIAL[4] = 1.0
SPECIAL[4, 0] = 1e38
SPECIAL[5, :2] = 1e-45, -1e-40
SPECIAL[6, :4] = 1.0, -0.3, np.nan, -np.nan
"""Blocks whose results with torchao 0.18.0 are below."""


def test_special_blocks_without_a_tensor_scale() -> None:
    result = quantize_like(SPECIAL, "torchao_nvfp4_blocks", "nvfp4")
    tensor = result.tensor
    assert tensor.scales[:, 0].tolist() == [8, 8, 127, 126, 126, 8, 127]
    assert tensor.codes[:, :4].tolist() == [
        [0, 0, 0, 0],
        [8, 8, 8, 8],
        [0, 0, 0, 0],
        [7, 0, 8, 15],
        [7, 0, 0, 0],
        [0, 8, 0, 0],
        [0, 0, 0, 0],
    ]
    assert tensor.tensor_scale == 1
    assert result.profile is NVFP4_PROFILES["torchao_nvfp4_blocks"]
    assert np.isnan(result.values).all(axis=1).tolist() == [s == 127 for s in tensor.scales[:, 0]]
    np.testing.assert_array_equal(result.values, mx.dequantize(tensor))


def test_special_blocks_with_a_tensor_scale() -> None:
    shared = np.float32(0.01)
    result = quantize_like(SPECIAL, "torchao_nvfp4", "nvfp4", tensor_scale=shared)
    assert result.tensor.scales[:, 0].tolist() == [8, 8, 127, 126, 126, 8, 127]
    assert result.tensor.codes[3, :4].tolist() == [7, 0, 9, 15]
    assert result.tensor.tensor_scale == shared
    shared = np.float32(3e38)
    result = quantize_like(SPECIAL, "torchao_nvfp4", "nvfp4", tensor_scale=shared)
    assert result.tensor.scales[:, 0].tolist() == [8, 8, 127, 126, 22, 8, 127]


def test_where_it_is_not_ours() -> None:
    """Small scales are raised; the rest differs by roundings, in few elements."""
    x = np.random.default_rng(1).standard_normal((4000, 16)).astype(np.float32)
    x[0] = 1e-5
    x[1, 0] = 60.0
    ours, theirs = mx.quantize(x, "nvfp4"), quantize_like(x, "torchao_nvfp4", "nvfp4")
    assert theirs.tensor.tensor_scale == ours.tensor_scale
    assert (ours.scales[0, 0], theirs.tensor.scales[0, 0]) == (0, 8)
    np.testing.assert_array_equal(ours.scales[1:], theirs.tensor.scales[1:])
    np.testing.assert_array_equal(ours.codes[1:], theirs.tensor.codes[1:])
    # A value is rounded twice: once in the product of the scales.
    values = mx.dequantize(ours)
    differing = (values != theirs.values).mean()
    assert 0.01 < differing < 0.5
    factors = mx.scalar.decode(theirs.tensor.scales, "float8_e4m3fn") * float(
        ours.tensor_scale or 0
    )
    elements = mx.decode(theirs.tensor.codes, "nvfp4").astype(np.float64)
    once = factors.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal((elements * once).astype(np.float32), theirs.values)


def test_elements_are_multiplied_by_a_reciprocal() -> None:
    """By which some ties, exact with ours, are rounded to the other side."""
    scale = np.float32(15 / 8)  # an E4M3 number whose reciprocal is rounded
    ties = np.float32([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]) * scale
    x = np.zeros((1, 16), np.float32)
    x[0, 0], x[0, 1:8] = 6 * scale, ties
    theirs = quantize_like(x, "torchao_nvfp4_blocks", "nvfp4").tensor
    ours = mx.quantize(x, "nvfp4", tensor_scale=1.0)
    assert mx.scalar.decode(theirs.scales, "float8_e4m3fn") == scale
    np.testing.assert_array_equal(ours.scales, theirs.scales)
    assert ours.codes[0, 1:8].tolist() == [0, 2, 2, 4, 4, 6, 6]
    assert theirs.codes[0, 1:8].tolist() == [0, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes(axis: int) -> None:
    x = np.random.default_rng(2).standard_normal((32, 48, 16)).astype(np.float32)
    result = quantize_like(x, "torchao_nvfp4", "nvfp4", axis=axis)
    lines = np.moveaxis(x, axis, -1)
    last = quantize_like(np.ascontiguousarray(lines), "torchao_nvfp4", "nvfp4")
    for got, wanted in (
        (result.values, last.values),
        (result.tensor.codes, last.tensor.codes),
        (result.tensor.scales, last.tensor.scales),
    ):
        np.testing.assert_array_equal(np.moveaxis(got, axis, -1), wanted)


def test_bfloat16_and_no_elements() -> None:
    x = np.random.default_rng(3).standard_normal((4, 32)).astype(ml_dtypes.bfloat16)
    result = quantize_like(x, "torchao_nvfp4", "nvfp4")
    wide = quantize_like(x.astype(np.float32), "torchao_nvfp4", "nvfp4")
    np.testing.assert_array_equal(result.values, wide.values)
    empty = quantize_like(x[:0], "torchao_nvfp4_blocks", "nvfp4")
    assert empty.values.shape == (0, 32)
    assert empty.tensor.scales.shape == (0, 2)


ONES = np.ones((2, 16), np.float32)
LIMIT = (
    "must be finite and above 2^-122, where no reciprocal is Inf, for profile torchao_nvfp4, not"
)


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (ONES, {"block": 32}, "block must be 16 for profile torchao_nvfp4, not 32"),
        (ONES, {"axis": 0}, "block must divide 2 for profile torchao_nvfp4, not 16"),
        (ONES, {"axis": 2}, "axis must lie in -2..1 for rank 2, not 2"),
        (ONES * 0, {}, f"x: the largest magnitude over 2688 {LIMIT} 0.0"),
        (ONES * np.inf, {}, f"x: the largest magnitude over 2688 {LIMIT} inf"),
        (ONES * np.nan, {}, f"x: the largest magnitude over 2688 {LIMIT} nan"),
        (ONES, {"tensor_scale": 2.0**-122}, f"tensor_scale {LIMIT} {np.float32(2.0**-122)}"),
        (
            ONES,
            {"tensor_scale": 0.1},
            "tensor_scale must be a positive finite float that float32 holds exactly for nvfp4, "
            "not 0.1",
        ),
        (
            ONES,
            {"profile": "torchao_nvfp4_blocks", "tensor_scale": 1.0},
            "tensor_scale must be None for profile torchao_nvfp4_blocks, not 1.0",
        ),
        (
            ONES,
            {"profile": "torchao_floor", "format": "mxfp4_e2m1", "tensor_scale": 1.0},
            "tensor_scale must be None for mxfp4_e2m1, not 1.0",
        ),
        (
            ONES,
            {"format": "mxfp4_e2m1"},
            "format must be one of nvfp4 for profile torchao_nvfp4, not 'mxfp4_e2m1'",
        ),
        (
            ONES,
            {"profile": "torchao_floor"},
            "format must be one of mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1 for "
            "profile torchao_floor, not 'nvfp4'",
        ),
        (
            ONES.astype(np.float64),
            {},
            "x must have dtype float32, bfloat16 for profile torchao_nvfp4, not float64",
        ),
    ],
)
def test_refused(x: np.ndarray, options: dict[str, Any], message: str) -> None:
    given = {"profile": "torchao_nvfp4", "format": "nvfp4"} | options
    with raises((TypeError, ValueError), message):
        quantize_like(x, **given)


def test_profiles_are_named_and_not_of_mx_formats() -> None:
    for name, profile in NVFP4_PROFILES.items():
        assert profile.name == name
        assert profile.formats == ("nvfp4",)
        assert quantize_like(ONES, profile, "nvfp4").profile is profile
        with pytest.raises(ValueError, match=rf"^profile must be one of mxsafe, .*, not '{name}'$"):
            divergence(ONES, name, "nvfp4")
