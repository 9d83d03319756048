"""Traffic of a training pass, against tensors that are really quantised and packed."""

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from verif.support.tests import refused


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
