"""Two layers on the simulated hardware: the bytes that leave the first are operands of the second.

Real activations go through a slice of MiniLM's first feed-forward matrix and ReLU, then through
that slice again, transposed. The network has GELU between them, biases, and another second matrix,
which is not at hand here; shapes and distributions are those of a feed-forward block.
"""

from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from verif.data import minilm
from verif.rtl.machine.layer_checks import (
    compare_beats,
    layer_schedule,
    replayed,
    result_block,
    run_layers,
    small_layer,
)
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import SIMULATORS
from verif.support.stream_job import Job
from verif.support.tests import some

Layers = tuple[mx.QuantizedTensor, mx.QuantizedTensor, mx.QuantizedTensor]
"""Weights of both layers, (features, k), and samples, (k, samples)."""


def two_layers(module: Module, inputs: int, hidden: int, samples: int) -> Layers:
    """Part of the slice as operands of two layers, in the format and blocks of a module."""
    activations, weights = minilm.load()
    fmt, (length, side) = module.format, result_block(module)
    up = weights[:inputs, :hidden].T
    return (
        mx.quantize(up, fmt, block=(side, length)),
        mx.quantize(up.T, fmt, block=(side, length)),
        mx.quantize(activations[:samples, :inputs].T, fmt, block=(length, side)),
    )


def whole_layers(module: Module) -> Layers:
    """The whole layer, whose floats are what the stored MXSF stands for."""
    activations, weights = (mx.dequantize(q) for q in minilm.load_whole_layer())
    fmt, (length, side) = module.format, result_block(module)
    return (
        mx.quantize(weights.T, fmt, block=(side, length)),
        mx.quantize(weights, fmt, block=(side, length)),
        mx.quantize(activations.T, fmt, block=(length, side)),
    )


def check_chain(simulator: str, module: Module, layers: Layers, **stalls: Any) -> int:
    """Both layers are the model's in every bit; returns how many codes were compared."""
    first, second, samples = layers
    p, block = module.parameters, result_block(module)
    ran = run_layers(simulator, module, [(first, samples)], **stalls)
    compared = compare_beats(module, ran.beats[0], (first, samples))
    options = {"arithmetic": p["arithmetic"], "lanes": p["lanes"], "block": block}
    hidden = model.layer_output(first, samples, activation=p["activation"], **options)
    (words,), (beats,) = ran.words, ran.beats
    tiles = layer_schedule(module, second, hidden).grid[0]

    def feed_back(job: Job) -> None:
        """Feed the results back, from a memory that shows each strip once per tile of features."""
        fed = replayed(words, beats.last, tiles)
        stream = "s_axis_w_tdata"
        assert fed.shape == job[stream].shape
        real = hidden.shape[1] % beats.codes.shape[1] == 0
        assert not real or np.array_equal(fed, job[stream]), "the bytes are no operand stream"
        last = replayed(beats.last, beats.last, tiles)
        job |= {stream: fed, "s_axis_w_tlast": module.ports["s_axis_w_tlast"].words(last)}

    again = run_layers(simulator, module, [(second, hidden)], alter=feed_back, **stalls)
    compared += compare_beats(module, again.beats[0], (second, hidden))
    for run in (ran, again):
        assert not run.out_of_step.any()
        assert not run.overlong.any()
    output = model.operand_tensor(
        again.beats[0], (second.shape[0], samples.shape[1]), module.format, block=block
    )
    expected = model.layer_output(second, hidden, activation=p["activation"], **options)
    assert_equal("scales after two layers", output.scales, expected.scales)
    assert_equal("codes after two layers", output.codes, expected.codes)
    assert 0.2 < (hidden.codes == 0).mean() < 0.9, "ReLU makes zeros, and not of everything"
    return compared


@pytest.mark.parametrize("simulator", some(SIMULATORS))
@pytest.mark.parametrize(
    "parameters",
    some([{"arithmetic": "exact"}, {"block": (8, 8), "rows": 1, "columns": 4}]),
    ids=["64x1, exact", "8x8, fp12"],
)
def test_a_small_slice(simulator: str, parameters: dict[str, Any]) -> None:
    """On an array of 4x4 or 2x8, with ragged ends everywhere and stalls."""
    module = small_layer(**parameters)
    layers = two_layers(module, inputs=20, hidden=70, samples=6)
    check_chain(simulator, module, layers, stall_in=0.1, stall_out=0.1)


@pytest.mark.parametrize(
    ("name", "inputs", "samples"),
    [
        pytest.param("mxsf_layer_exact", 384, 64, marks=pytest.mark.full),
        pytest.param("mxsf_layer_8x8", 128, 32, marks=pytest.mark.full),
        pytest.param("mxsf_layer", 384, 64, marks=pytest.mark.full),
    ],
)
def test_the_slice(name: str, inputs: int, samples: int, modules: dict[str, Module]) -> None:
    """Tokens through 96 hidden features and back, on the array of 16x16."""
    module = modules[name]
    layers = two_layers(module, inputs=inputs, hidden=96, samples=samples)
    compared = check_chain("verilator", module, layers)
    assert compared == samples * (96 + inputs)


@pytest.mark.full
@pytest.mark.parametrize("name", ["mxsf_layer", "mxsf_layer_exact", "mxsf_layer_8x8"])
def test_the_whole_layer(name: str, modules: dict[str, Module]) -> None:
    """128 tokens through 384 x 1536 and back."""
    module = modules[name]
    compared = check_chain("verilator", module, whole_layers(module))
    assert compared == 128 * (1536 + 384)
