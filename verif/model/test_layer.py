"""The layer's model: ReLU on bits, beats and tensors, and how layers follow each other."""

import doctest
import re

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.model.layer import bias_beats, residual_beats
from verif.rtl.array.array_checks import operands
from verif.support.manifest import GEN
from verif.support.quantized import assert_same
from verif.support.tests import raises

BLOCKS: list[int | tuple[int, int]] = [64, 8, 6, (8, 8), (64, 1), (4, 2)]
SHAPES = [(1, 1), (20, 9), (70, 17), (128, 16)]


def tensor(seed: int, shape: tuple[int, int], block: int | tuple[int, int]) -> mx.QuantizedTensor:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))
    return mx.quantize(x, block=block, axis=0 if isinstance(block, int) else -1)


def test_relu() -> None:
    special = [0x80000000, 0xFF800000, 0xFFC00000, 0x7FC00000, 0xFF800001, 0x80000001]
    words = np.array([*special, 0, 1, 0x3F800000, 0x7F800000, 0xBF800000], np.uint32)
    got = model.activate(words.view(np.float32)).view(np.uint32)
    assert got.tolist() == [0, 0, 0xFFC00000, 0x7FC00000, 0xFF800001, 0, 0, 1, *words[8:10], 0]
    assert np.array_equal(model.activate(words.view(np.float32), "none").view(np.uint32), words)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_beats_and_back(shape: tuple[int, int], block: int | tuple[int, int]) -> None:
    q = tensor(1, shape, block)
    beats = model.operand_beats(q, columns=8, lanes=4)
    back = model.operand_tensor(beats, shape, "mxsf", block=block)
    assert_same(back, q)


@pytest.mark.parametrize("block", BLOCKS)
def test_beats_are_those_of_the_schedule(block: int | tuple[int, int]) -> None:
    """Each strip of samples meets all tiles of features."""
    samples = tensor(2, (70, 20), block)
    inner = block if isinstance(block, int) else block[0]
    weights = mx.quantize(np.ones((9, 70)), block=(1, inner))
    schedule = model.LayerSchedule(weights, samples, arithmetic="exact", rows=4, columns=8, lanes=4)
    beats = model.operand_beats(samples, columns=8, lanes=4)
    strips = np.split(np.arange(len(beats)), np.flatnonzero(beats.last)[:-1] + 1)
    assert schedule.strip_last.tolist() == [False, False, True] * 3
    assert schedule.last_row == 0
    for number, tile in enumerate(schedule):
        strip = strips[number // 3]
        assert np.array_equal(tile.w_codes, beats.codes[strip])
        assert np.array_equal(tile.w_scales, beats.scales[strip])
        assert np.array_equal(tile.block_last, beats.block_last[strip])
        assert np.array_equal(tile.last, beats.last[strip])


@pytest.mark.parametrize("block", [8, (8, 8)])
@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_output_is_the_quantised_product(block: int | tuple[int, int], arithmetic: str) -> None:
    weights, samples = operands(np.random.default_rng(4), 27, 40, 13, 8)
    options = {"block": block, "arithmetic": arithmetic}
    q = model.layer_output(weights, samples, **options)
    product = mx.matmul(weights, samples, arithmetic=arithmetic)
    product[product < 0] = 0
    axis = 0 if isinstance(block, int) else -1
    expected = mx.quantize(np.abs(product), block=block, axis=axis)
    assert_same(q, expected)
    beats = model.layer_beats(weights, samples, **options, columns=8)
    back = model.operand_tensor(beats, q.shape, "mxsf", block=block)
    assert_same(back, q)


def test_stages() -> None:
    """Bias, activation, residual in that order, or in another one."""
    weights, samples = operands(np.random.default_rng(7), 11, 16, 5, 8)
    product = mx.matmul(weights, samples, arithmetic="exact")
    rng = np.random.default_rng(8)
    bias = rng.standard_normal(11).astype(np.float32) * np.float32(np.median(np.abs(product)))
    residual = rng.standard_normal((11, 5)).astype(np.float32)
    options = {"block": (4, 2), "arithmetic": "exact"}
    biased = product + bias[:, None]
    cases = [
        ({"bias": bias}, np.maximum(biased, 0)),
        ({"bias": bias, "residual": residual}, np.maximum(biased, 0) + residual),
        ({"bias": bias, "activation": "none"}, biased),
        ({"residual": residual, "stages": ["residual"]}, product + residual),
        (
            {"bias": bias, "residual": residual, "stages": ("residual", "activation", "bias")},
            np.maximum(product + residual, 0) + bias[:, None],
        ),
    ]
    for given, result in cases:
        q = model.layer_output(weights, samples, **given, **options)
        expected = mx.quantize(np.where(result == 0, np.float32(0), result), block=(4, 2))
        assert_same(q, expected)
        # Columns beyond the samples do not count in the scales of tiles.
        beats = model.layer_beats(weights, samples, **given, **options, columns=4)
        back = model.operand_tensor(beats, q.shape, "mxsf", block=(4, 2))
        assert_same(back, q)


def test_beats_of_stages() -> None:
    bias = np.array([1, 2, 3], np.float32)
    numbers, last = bias_beats(bias, 10, columns=4)
    assert numbers.tolist() == [1, 2, 3] * 3
    assert last.tolist() == [3] * 6 + [1] * 3
    assert bias_beats(bias, 4, columns=4)[1].tolist() == [3] * 3
    assert np.isinf(residual_beats([[1e200]], columns=1)).all()
    beats = residual_beats(np.arange(10, dtype=np.float32).reshape(2, 5), columns=4)
    assert beats.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8], [4, 0, 0, 0], [9, 0, 0, 0]]


def test_stages_that_do_not_fit() -> None:
    weights, samples = operands(np.random.default_rng(9), 3, 8, 2, 8)
    bias, residual = np.zeros(3, np.float32), np.zeros((3, 2), np.float32)
    names = "stages must be some of bias, activation, residual, each once"
    agree = "stages must have the operands that are given"
    for given, message in (
        ({"bias": bias[:2]}, "bias must have shape (3,), not (2,)"),
        ({"residual": residual.T}, "residual must have shape (3, 2), not (2, 3)"),
        ({"stages": ("gelu",)}, f"{names}, not ('gelu',)"),
        ({"bias": bias, "stages": ("bias", "bias")}, f"{names}, not ('bias', 'bias')"),
        ({"stages": ("bias",)}, f"{agree}, none, not ('bias',)"),
        (
            {"bias": bias, "residual": residual, "stages": ("bias",)},
            f"{agree}, bias, residual, not ('bias',)",
        ),
    ):
        with raises(ValueError, message):
            model.layer_output(weights, samples, **given)
    for call, message in (
        (lambda: bias_beats(residual, 2), "bias must be a vector, not of shape (3, 2)"),
        (lambda: bias_beats(bias, 0), "samples must be a positive integer, not 0"),
        (lambda: residual_beats(bias), "residual must be a matrix, not of shape (3,)"),
        (
            lambda: residual_beats(residual, columns=0),
            "columns must be a positive integer, not 0",
        ),
    ):
        with raises(ValueError, message):
            call()
    with pytest.raises(TypeError, match=r"^bias must be an array of float32, not float64$"):
        model.layer_output(weights, samples, bias=np.zeros(3))


def test_columns_beyond_the_samples() -> None:
    """They are zeros, but NaN in features whose weights have a NaN."""
    weights, samples = operands(np.random.default_rng(5), 8, 16, 3, 8)
    weights.scales[:] = 127
    weights.scales[5] = 255
    beats = model.layer_beats(weights, samples, block=1, columns=4, lanes=1)
    assert beats.scales[:, 3].tolist() == [0, 0, 0, 0, 0, 255, 0, 0]
    assert not beats.codes[:, 3].any()


def test_arguments_that_do_not_fit() -> None:
    q = tensor(6, (8, 4), 4)
    beats = model.operand_beats(q)
    calls = {
        "activation must be one of none, relu, gelu, silu, tanh, sigmoid, not 'exp'": lambda: (
            model.activate(np.zeros(1, np.float32), "exp")
        ),
        "q must have its blocks along axis -2, not along axis -1": lambda: model.operand_beats(q.T),
        "q must be a matrix with elements, not of shape (8, 0)": lambda: model.operand_beats(
            mx.quantize(np.zeros((8, 0)), block=(4, 4))
        ),
        "columns must be a positive integer, not 0": lambda: model.operand_beats(q, columns=0),
        "lanes must be a positive integer, not 0": lambda: model.operand_beats(q, lanes=0),
        "beats must be the 4 of the matrix, not 2": lambda: model.operand_tensor(
            beats, (8, 17), "mxsf", block=4
        ),
        "shape[0] must be a positive integer, not 0": lambda: model.operand_tensor(
            beats, (0, 1), "mxsf", block=4
        ),
        "block must be a positive integer or a pair of positive integers, not 0": (
            lambda: model.operand_tensor(beats, (8, 16), "mxsf", block=0)
        ),
    }
    for message, call in calls.items():
        with raises(ValueError, message):
            call()
    with pytest.raises(TypeError, match=r"^x must be an array of float32, not float64$"):
        model.activate(np.zeros(1))
    with pytest.raises(TypeError, match=r"^q must be a QuantizedTensor, not 1$"):
        model.operand_beats(1)


def test_sizes_of_numpy() -> None:
    """They are sizes like any other: a length is not taken for the shape of a tile."""
    weights, samples = tensor(1, (8, 16), 8).T, tensor(2, (8, 17), 8)
    eight, four = np.int64(8), np.int64(4)
    whole = model.layer_output(weights, samples, block=8)
    output = model.layer_output(weights, samples, block=eight)
    assert (output.block, output.axis) == (whole.block, whole.axis) == (8, -2)
    assert np.array_equal(output.codes, whole.codes)
    expected = model.layer_beats(weights, samples, block=8, columns=4)
    beats = model.layer_beats(weights, samples, block=eight, columns=four, lanes=four)
    assert np.array_equal(beats.codes, expected.codes)
    back = model.operand_tensor(beats, (np.int64(16), np.int64(17)), "mxsf", block=eight)
    assert np.array_equal(back.codes, whole.codes)
    schedule = model.Schedule(weights, samples, rows=four, columns=four, lanes=four)
    assert [len(beats) for beats in schedule] == [2] * 20


def test_the_page_of_the_layer() -> None:
    page = GEN.parent / "docs" / "layer.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
    links = re.findall(r"\]\(([^)#:]+)(?:#[a-z]+)?\)", page.read_text())
    assert len(links) > 5
    for link in links:
        assert (page.parent / link).exists(), link
