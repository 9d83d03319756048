"""The training pass against plain products of dequantised matrices, and its traffic counted."""

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.model.gemm import Arithmetic
from verif.support.tests import raises, refused

SHAPES = {"x": (10, 20), "w": (20, 13), "dy": (10, 13)}


def tensors(block: object = (8, 8), **other: object) -> dict[str, object]:
    """X, W and dY of one layer; `other` takes the place of some."""
    rng = np.random.default_rng(1)
    made = {
        name: mx.quantize(rng.standard_normal(shape), block=block) for name, shape in SHAPES.items()
    }
    return made | other


def quantised(shape: tuple[int, ...], fmt: str = "mxsf", **options: object) -> mx.QuantizedTensor:
    return mx.quantize(np.ones(shape), fmt, **{"block": (8, 8)} | options)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_products(arithmetic: Arithmetic) -> None:
    """Each gradient is the product of what the stored codes mean, no other codes."""
    made = tensors()
    got = model.training_pass(**made, arithmetic=arithmetic)
    x, w, dy = (mx.dequantize(made[name], dtype=np.float64) for name in ("x", "w", "dy"))
    tolerance = {"fp12": 2e-2, "exact": 1e-6}[arithmetic]
    for name, expected in {"y": x @ w, "dx": dy @ w.T, "dw": x.T @ dy}.items():
        product = getattr(got, name)
        assert product.dtype == np.float32
        assert product.shape == expected.shape
        error = np.linalg.norm(product - expected) / np.linalg.norm(expected)
        assert error < tolerance


def test_small_integers_are_exact() -> None:
    rng = np.random.default_rng(2)
    values = {name: rng.integers(-4, 5, shape) * 1.0 for name, shape in SHAPES.items()}
    x, w, dy = values.values()
    made = {name: mx.quantize(value, block=(4, 4)) for name, value in values.items()}
    got = model.training_pass(**made, arithmetic="exact")
    assert np.array_equal(got.y, x @ w)
    assert np.array_equal(got.dx, dy @ w.T)
    assert np.array_equal(got.dw, x.T @ dy)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"w": np.ones((20, 13))}, TypeError, "w must be a QuantizedTensor, not ndarray"),
        ({"x": quantised((2, 8, 8))}, ValueError, "x must be a matrix, not a tensor of rank 3"),
        (
            {"dy": quantised((10, 13), block=64)},
            ValueError,
            "dy must have square tiles, which serve both orientations, "
            "not blocks of 64 along axis -1",
        ),
        (
            {"x": quantised((10, 20), block=(8, 4))},
            ValueError,
            "x must have square tiles, which serve both orientations, not tiles of (8, 4)",
        ),
        (
            {"w": quantised((20, 13), block=(4, 4))},
            ValueError,
            "w must have tiles of (8, 8) like x, not (4, 4)",
        ),
        (
            {"dy": quantised((10, 13), "mxfp8_e4m3")},
            ValueError,
            "dy must have the format mxsf of x, not mxfp8_e4m3",
        ),
        (
            {"w": quantised((21, 13))},
            ValueError,
            "w must have the 20 rows that x has columns, not 21",
        ),
        ({"dy": quantised((9, 13))}, ValueError, "dy must have the 10 rows of x, not 9"),
        ({"dy": quantised((10, 12))}, ValueError, "dy must have the 13 columns of w, not 12"),
        (
            tensors(block=(6, 6)),
            ValueError,
            "lanes must divide the block length 6 in k, not 4",
        ),
        (
            {"arithmetic": "bf16"},
            ValueError,
            "arithmetic must be one of fp12, exact, not 'bf16'",
        ),
        ({"lanes": 3}, ValueError, "lanes must be a power of two, not 3"),
    ],
)
def test_what_is_no_training_pass(
    wrong: dict[str, object], error: type[Exception], message: str
) -> None:
    with raises(error, message):
        model.training_pass(**tensors() | wrong)


def packed(
    shapes: dict[str, tuple[int, int]], fmt: str, block: object, axes: dict[str, list[int]]
) -> dict[str, list[int]]:
    """Bytes of really quantised and packed tensors, by name and axis."""
    rng = np.random.default_rng(3)
    return {
        name: [
            mx.packing.to_bytes(
                mx.quantize(rng.standard_normal(shape), fmt, block=block, axis=axis)
            ).size
            for axis in axes[name]
        ]
        for name, shape in shapes.items()
    }


BOTH_AXES = {"x": [-1, -2], "w": [-2, -1], "dy": [-1, -2]}


@pytest.mark.parametrize("sizes", [(64, 384, 96), (10, 20, 13), (1, 3, 130)])
@pytest.mark.parametrize("fmt", ["mxsf", "mxfp4_e2m1", "mxfp6_e3m2"])
@pytest.mark.parametrize("source", ["bfloat16", "float32"])
@pytest.mark.parametrize("block", [64, 32])
def test_traffic_of_rows(sizes: tuple[int, int, int], fmt: str, source: str, block: int) -> None:
    b, i, o = sizes
    shapes = {"x": (b, i), "w": (i, o), "dy": (b, o)}
    size = {"bfloat16": 2, "float32": 4}[source]
    values = {name: m * n * size for name, (m, n) in shapes.items()}
    images = packed(shapes, fmt, block, BOTH_AXES)
    every = sum(map(sum, images.values()))
    later = model.pass_traffic(*sizes, block=block, format=fmt, source=source)
    assert later == model.PassTraffic(
        quantisations=6,
        source_read=2 * sum(values.values()),
        written=every,
        operands_read=every,
        kept=values["x"] + values["w"],
    )
    assert later.moved == 2 * sum(values.values()) + 2 * every
    at_once = model.pass_traffic(*sizes, block=block, format=fmt, source=source, at_once=True)
    assert at_once == model.PassTraffic(
        quantisations=6,
        source_read=sum(values.values()),
        written=every,
        operands_read=every,
        kept=images["x"][1] + images["w"][1],
    )


@pytest.mark.parametrize("sizes", [(64, 384, 96), (10, 20, 13), (1, 3, 130)])
@pytest.mark.parametrize("fmt", ["mxsf", "mxfp4_e2m1"])
def test_traffic_of_tiles(sizes: tuple[int, int, int], fmt: str) -> None:
    b, i, o = sizes
    shapes = {"x": (b, i), "w": (i, o), "dy": (b, o)}
    images = packed(shapes, fmt, (8, 8), {name: [-1] for name in shapes})
    once = sum(map(sum, images.values()))
    got = model.pass_traffic(*sizes, block=(8, 8), format=fmt)
    assert got == model.PassTraffic(
        quantisations=3,
        source_read=2 * (b * i + i * o + b * o),
        written=once,
        operands_read=2 * once,
        kept=images["x"][0] + images["w"][0],
    )


test_traffic_that_cannot_be = refused(
    model.pass_traffic,
    [
        ({"batch": 0}, "batch must be a positive integer, not 0"),
        ({"inputs": 2.5}, "inputs must be a positive integer, not 2.5"),
        ({"outputs": -1}, "outputs must be a positive integer, not -1"),
        ({"block": (8, 4)}, "block must be a length or a square tile, not (8, 4)"),
        (
            {"block": 0},
            "block must be a positive integer or a pair of positive integers, not 0",
        ),
        ({"source": "int8"}, "source must be one of bfloat16, float32, not 'int8'"),
        ({"block": (8, 8), "at_once": True}, "at_once goes with 1-D blocks, but tiles were given"),
    ],
    batch=8,
    inputs=8,
    outputs=8,
    block=64,
)
