"""The converter's model: beats of a matrix are the quantised matrix, and feed the array."""

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.model import Schedule, convert_beats, converted_tensor, matrix_beats
from verif.support.quantized import assert_same
from verif.support.tests import raises

SHAPES = [(1, 1), (5, 70), (20, 33), (16, 64), (9, 200)]


def matrix(seed: int, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 9, shape))
    x[rng.random(shape) < 0.002] = np.nan
    return x.astype(np.float32)


@pytest.mark.parametrize("block", [64, 32, 16, 8, (8, 8), (5, 16), (64, 1), (3, 4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_beats_of_a_matrix(shape: tuple[int, int], block: int | tuple[int, int]) -> None:
    x = matrix(1, shape)
    values, last = matrix_beats(x, block=block)
    beats = convert_beats(values, last, "mxsf", block=block)
    tensor = converted_tensor(beats, shape, "mxsf", block=block)
    expected = mx.quantize(x, "mxsf", block=block)
    assert_same(tensor, expected)
    assert np.array_equal(beats.last, last)
    assert beats.block_last[last].all()


def test_rows_of_results_are_beats_for_tiles() -> None:
    """The array's results go into a converter of 8x8 tiles as they come."""
    a, w = (mx.quantize(matrix(seed, (32, 32)), block=(8, 8)) for seed in (2, 3))
    c = mx.matmul(a, w, arithmetic="exact")
    tiles = [c[i : i + 16, j : j + 16] for i in (0, 16) for j in (0, 16)]
    stream = np.concatenate(tiles)
    got = convert_beats(stream, np.zeros(64, np.bool_), block=(8, 8))
    expected = mx.quantize(c, block=(8, 8))
    codes = [expected.codes[i : i + 16, j : j + 16] for i in (0, 16) for j in (0, 16)]
    assert np.array_equal(got.codes, np.concatenate(codes))


def test_four_beats_of_columns_are_an_operand_beat() -> None:
    """Results of the transposed product, in blocks along k, gathered four at a time."""
    c = matrix(4, (16, 96))
    beats = convert_beats(c.T, np.arange(96) == 95, block=(64, 1))
    q = mx.quantize(c, block=64)
    other = mx.quantize(matrix(5, (96, 16)), block=64, axis=0)
    (tile,) = Schedule(q, other)
    codes = beats.codes.reshape(24, 4, 16).swapaxes(1, 2)
    assert np.array_equal(codes, tile.a_codes)
    assert np.array_equal(beats.scales[::4], tile.a_scales)
    assert np.array_equal(beats.block_last[3::4], tile.block_last)


def test_a_block_that_goes_on_does_not_come_out() -> None:
    x = matrix(6, (7, 16))
    ends = np.arange(7) == 1
    beats = convert_beats(x, ends, block=64)
    assert len(beats) == 6
    assert beats.block_last.tolist() == [False, True, False, False, False, True]
    assert np.array_equal(beats.codes[:2], mx.quantize(x[:2].reshape(1, -1)).codes.reshape(2, 16))


def test_arguments_that_do_not_fit() -> None:
    x, last = matrix(7, (4, 16)), np.zeros(4, np.bool_)
    calls = {
        "x must be a matrix with elements, not of shape (64,)": lambda: matrix_beats(x.ravel()),
        "width must be a positive integer, not 0": lambda: matrix_beats(x, width=0),
        "block must divide width 16 or be divided by it, not 24": lambda: matrix_beats(x, block=24),
        "block must have columns that divide width 16, not 3": lambda: convert_beats(
            x, last, block=(8, 3)
        ),
        "last must have one flag a beat, not (3,) for (4, 16)": lambda: convert_beats(x, last[:3]),
        "beats must be the 8 of the matrix, not 4": lambda: converted_tensor(
            convert_beats(x, last), (4, 17), "mxsf", block=64
        ),
    }
    for message, call in calls.items():
        with raises(ValueError, message):
            call()
