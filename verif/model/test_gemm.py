"""`matmul` against the unit models composed step by step, and against float64."""

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.model.float_arithmetic import decode_float
from mxsafe.model.gemm import Arithmetic


def matrices(
    m: int, k: int, n: int, block: int | tuple[int, int], seed: int = 1
) -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    rng = np.random.default_rng(seed)
    a, w = (
        (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 2, shape))).astype(np.float32)
        for shape in ((m, k), (k, n))
    )
    return mx.quantize(a, block=block, axis=-1), mx.quantize(w, block=block, axis=-2)


def composed(
    a: mx.QuantizedTensor, w: mx.QuantizedTensor, arithmetic: str, step: int
) -> np.ndarray:
    """The same product from the models of MAC and accumulator, one output at a time."""
    (m, k), n = a.shape, w.shape[1]
    result = np.zeros((m, n), np.float32)
    scale_a, scale_w = a.element_scales(), w.element_scales()
    for i in range(m):
        for j in range(n):
            acc = np.zeros(1, np.float32)
            for start in range(0, k, step):
                x = np.zeros((1, step), np.uint8)
                y = np.zeros((1, step), np.uint8)
                stop = min(start + step, k)
                x[0, : stop - start] = a.codes[i, start:stop]
                y[0, : stop - start] = w.codes[start:stop, j]
                if arithmetic == "fp12":
                    partial = decode_float(model.safe_mac(x, y)).astype(np.float64)
                else:
                    lanes = 1 << (step - 1).bit_length()
                    x, y = (np.pad(v, ((0, 0), (0, lanes - step))) for v in (x, y))
                    partial = np.ldexp(model.safe_mac_exact(x, y).astype(np.float64), -22)
                acc = model.scale_and_accumulate(acc, partial, scale_a[i, start], scale_w[start, j])
            result[i, j] = acc[0]
    return result


@pytest.mark.parametrize("block", [8, (8, 8), (4, 12), 64])
@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
@pytest.mark.parametrize("k", [7, 24, 65])
def test_equals_the_units_composed(
    block: int | tuple[int, int], arithmetic: Arithmetic, k: int
) -> None:
    if block == (4, 12):
        a, _ = matrices(5, k, 6, (4, 12))
        _, w = matrices(5, k, 6, (12, 4))
        inner = 12
    else:
        a, w = matrices(5, k, 6, block)
        inner = block if isinstance(block, int) else block[0]
    got = mx.matmul(a, w, arithmetic=arithmetic)
    step = 4 if arithmetic == "fp12" else inner
    assert got.dtype == np.float32
    np.testing.assert_array_equal(
        got.view(np.uint32), composed(a, w, arithmetic, step).view(np.uint32)
    )


def test_exact_is_exact_within_one_block() -> None:
    a, w = matrices(16, 64, 16, 64)
    reference = mx.dequantize(a).astype(np.float64) @ mx.dequantize(w).astype(np.float64)
    np.testing.assert_array_equal(mx.matmul(a, w, arithmetic="exact"), reference.astype(np.float32))


def test_default_is_the_papers_arithmetic() -> None:
    a, w = matrices(4, 64, 4, 64)
    default = mx.matmul(a, w)
    np.testing.assert_array_equal(default, mx.matmul(a, w, arithmetic="fp12", lanes=4))
    assert (default != mx.matmul(a, w, arithmetic="exact")).any()


def test_transposed_tiles_multiply_without_requantising() -> None:
    a, w = matrices(16, 24, 8, (8, 8))
    forward = mx.matmul(a, w, arithmetic="exact")
    backward = mx.matmul(w.T, a.T, arithmetic="exact")
    np.testing.assert_array_equal(forward, backward.T)


def test_nan_scale_reaches_its_row_only() -> None:
    x = np.ones((3, 16), np.float32)
    x[1, 5] = np.nan
    a = mx.quantize(x, block=8)
    w = mx.quantize(np.ones((16, 2), np.float32), block=8, axis=0)
    for arithmetic in ("fp12", "exact"):
        got = mx.matmul(a, w, arithmetic=arithmetic).view(np.uint32)
        assert (got[1] == 0x7FC00000).all()
        assert (got[[0, 2]].view(np.float32) == 16.0).all()


def test_empty_inner_dimension() -> None:
    a = mx.quantize(np.zeros((2, 0), np.float32), block=8)
    w = mx.quantize(np.zeros((0, 3), np.float32), block=8, axis=0)
    np.testing.assert_array_equal(mx.matmul(a, w), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a, w: mx.matmul(a, w, arithmetic="fp16"),
            "arithmetic must be one of fp12, exact, not 'fp16'",
        ),
        (lambda a, w: mx.matmul(a, w, lanes=3), "lanes must be a power of two, not 3"),
        (lambda a, w: mx.matmul(a, w, lanes=True), "lanes must be a power of two, not True"),
        (
            lambda a, w: mx.matmul(a, w, lanes=8),
            "lanes must keep the largest sum of mxsf products within 15.9375 of fp12, "
            "not 8 with 8 * 1.96875^2 = 31.0078125",
        ),
        (
            lambda a, w: mx.matmul(
                mx.quantize(np.ones((2, 16)), "mxfp8_e4m3", block=8),
                mx.quantize(np.ones((16, 3)), "mxfp8_e4m3", block=8, axis=0),
            ),
            "format must have products within 15.9375 of fp12, "
            "not mxfp8_e4m3 with 448.0^2 = 200704.0",
        ),
        (
            lambda a, w: mx.matmul(a, w, lanes=16),
            "lanes must divide the block length 8 in k, not 16",
        ),
        (
            lambda a, w: mx.matmul(a.T, w),
            "a must have its blocks along axis -1, the inner dimension, not along axis -2",
        ),
        (
            lambda a, w: mx.matmul(a, a),
            "w must have its blocks along axis -2, the inner dimension, not along axis -1",
        ),
        (
            lambda a, w: mx.matmul(a, mx.quantize(np.ones((8, 3)), block=8, axis=0)),
            "w must have the 16 rows that a has columns, not 8",
        ),
        (
            lambda a, w: mx.matmul(a, mx.quantize(np.ones((16, 3)), block=4, axis=0)),
            "w must have blocks of 8 in k like a, not 4",
        ),
        (
            lambda a, w: mx.matmul(a, mx.quantize(np.ones((16, 3)), "mxfp8_e2m5", block=8, axis=0)),
            "w must have the format mxsf of a, not mxfp8_e2m5",
        ),
        (
            lambda a, w: mx.matmul(mx.quantize(np.ones(16), block=8), w),
            "a must be a matrix, not a tensor of rank 1",
        ),
    ],
)
def test_operands_that_do_not_fit(call, message: str) -> None:
    a = mx.quantize(np.ones((2, 16)), block=8)
    w = mx.quantize(np.ones((16, 3)), block=8, axis=0)
    with pytest.raises(ValueError) as error:
        call(a, w)
    assert str(error.value) == message


def test_operand_of_another_type() -> None:
    with pytest.raises(TypeError, match=r"^a must be a QuantizedTensor, not ndarray$"):
        mx.matmul(np.ones((2, 2)), np.ones((2, 2)))
