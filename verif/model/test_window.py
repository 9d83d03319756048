"""Arithmetic ``window`` against rational arithmetic, and what it promises about order and range."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.formats import MX_FORMATS
from mxsafe.model.window import anchors
from mxsafe.products import OperandFormats
from verif.support.exact import element_value, mx_table, nearest_float
from verif.support.tests import raises

PAIRS = list(itertools.product(MX_FORMATS, repeat=2))
every_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


def log2_ceil(number: int) -> int:
    return next(bits for bits in itertools.count() if 1 << bits >= number)


def product_bits(pair: tuple[str, str]) -> tuple[Fraction, int]:
    """The smallest product, and the bits of what no product exceeds, in units of that."""
    units, bits = Fraction(1), 0
    for name in pair:
        smallest = min(value for value in mx_table(name) if value)
        largest = 2 * Fraction(64) / 64 if name == "mxint8" else max(mx_table(name))
        units *= smallest
        # Only an integer reaches a power of two.
        steps = largest / smallest
        bits += log2_ceil(int(steps)) if name == "mxint8" else int(steps).bit_length()
    return units, bits + (pair == ("mxint8", "mxint8"))


def rational(
    a: mx.QuantizedTensor, w: mx.QuantizedTensor, block: int, window: int, inner: int
) -> np.ndarray:
    """The docstring of the model with `fractions.Fraction`, one output at a time."""
    (m, k), n = a.shape, w.shape[1]
    pair = (a.format.name, w.format.name)
    unit, bits = product_bits(pair)
    lowest = unit * Fraction(2) ** (bits + log2_ceil(inner) + 1 - window)
    scale_a, scale_w = a.element_scales().astype(int), w.element_scales().astype(int)
    result = np.zeros((m, n), np.float32)
    for i, j in np.ndindex(m, n):
        top = Fraction(2) ** int(max(scale_a[i]) + max(scale_w[:, j]) - 254)
        output, nan = 0, False
        for start in range(0, k, block):
            nan |= scale_a[i, start] == 255 or scale_w[start, j] == 255
            total = Fraction(0)
            for inside in range(start, min(start + block, k)):
                x = element_value(pair[0], int(a.codes[i, inside]))
                y = element_value(pair[1], int(w.codes[inside, j]))
                nan |= x is None or y is None
                total += (x or 0) * (y or 0)
            total *= Fraction(2) ** int(scale_a[i, start] + scale_w[start, j] - 254)
            steps = total / (lowest * top) + Fraction(1, 2)
            output += steps.numerator // steps.denominator
        assert nan or -(1 << window - 1) <= output < 1 << window - 1
        magnitude = nearest_float(abs(output) * lowest * top, mantissa_bits=23, min_exponent=-126)
        number = np.float32(float(magnitude)) if magnitude < 1 << 128 else np.float32(np.inf)
        result[i, j] = np.nan if nan else -number if output < 0 else number
    nans = np.isnan(result)
    result[nans] = np.uint32(0x7FC00000).view(np.float32)
    return result


def random_operands(
    pair: tuple[str, str], k: int, block: int, scales: list[int], seed: int
) -> list[mx.QuantizedTensor]:
    """Codes of every kind, NaN and Inf among them here and there, and scales from a list."""
    rng = np.random.default_rng(seed)
    tensors = []
    for name, shape, axis in zip(pair, ((5, k), (k, 4)), (-1, -2), strict=True):
        width = MX_FORMATS[name].element.width
        codes = rng.integers(0, 1 << width, shape).astype(np.uint8)
        special = ~np.isfinite(mx.decode(codes, name))
        codes[special & (rng.random(shape) < 0.97)] = 1
        blocks = list(shape)
        blocks[axis] = -(-k // block)
        chosen = rng.choice(scales, blocks).astype(np.uint8)
        tensors.append(mx.QuantizedTensor(codes, chosen, MX_FORMATS[name], block, axis))
    return tensors


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@every_pair
def test_equals_rational_arithmetic(pair: tuple[str, str]) -> None:
    a, w = random_operands(pair, 40, 16, [110, 120, 124, 126, 127, 129, 130], 3)
    got = mx.matmul(a, w, arithmetic="window", window=32, inner=64)
    same_bits(got, rational(a, w, 16, 32, 64))
    assert len(np.unique(got)) > 3


@pytest.mark.parametrize("window", [18, 24, 31, 37, 44, 53])
@pytest.mark.parametrize("inner", [64, 100])
def test_windows_of_every_width(window: int, inner: int) -> None:
    a, w = random_operands(("mxsf", "mxsf"), 63, 8, [*range(118, 131)], window)
    got = mx.matmul(a, w, arithmetic="window", window=window, inner=inner)
    same_bits(got, rational(a, w, 8, window, inner))


@pytest.mark.parametrize("scales", [[0, 1, 40], [200, 254], [0, 254], [0, 127, 255], [3, 60]])
def test_extreme_scales(scales: list[int]) -> None:
    """Results beyond binary32, subnormal ones, blocks far below the anchor, and NaN."""
    a, w = random_operands(("mxsf", "mxsf"), 48, 8, scales, 9)
    same_bits(mx.matmul(a, w, arithmetic="window"), rational(a, w, 8, 32, 4096))


@pytest.mark.parametrize("distance", [28, 29, 30, 31, 100])
def test_sums_that_fill_a_word_vanish_far_below_the_anchor(distance: int) -> None:
    """The widest sums of 64 bits, from where they are half a unit on."""
    block = 4096
    # The largest E5M2, then zeros at the anchor.
    codes = np.repeat(np.array([0x7B, 0], np.uint8), block)
    scales = np.array([127, 127 + distance], np.uint8)
    a = mx.QuantizedTensor(codes[None], scales[None], MX_FORMATS["mxfp8_e5m2"], block, -1)
    largest = np.full((2 * block, 1), 0x7E, np.uint8)
    ones = np.full((2, 1), 127, np.uint8)
    w = mx.QuantizedTensor(largest, ones, MX_FORMATS["mxfp8_e4m3"], block, -2)
    got = mx.matmul(a, w, arithmetic="window", inner=2 * block)
    same_bits(got, rational(a, w, block, 32, 2 * block))


@pytest.mark.parametrize("block", [(8, 8), 1, 64])
def test_blocks_of_every_shape(block: int | tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.standard_normal(shape) * np.exp2(rng.integers(-9, 3, shape)) for shape in
            ((9, 70), (70, 10)))  # fmt: skip
    a, w = mx.quantize(x, block=block, axis=-1), mx.quantize(y, block=block, axis=-2)
    inner = block if isinstance(block, int) else block[0]
    same_bits(mx.matmul(a, w, arithmetic="window"), rational(a, w, inner, 32, 4096))


def test_a_result_does_not_depend_on_the_order_of_blocks() -> None:
    """A result of `exact` does depend on it: both are tried with the same operands."""
    rng = np.random.default_rng(8)
    blocks, block = 40, 8
    a, w = random_operands(("mxsf", "mxsf"), blocks * block, block, [*range(118, 131)], 8)
    order = rng.permutation(blocks)
    places = (order[:, None] * block + np.arange(block)).reshape(-1)
    b = mx.QuantizedTensor(a.codes[:, places], a.scales[:, order], a.format, block, -1)
    v = mx.QuantizedTensor(w.codes[places], w.scales[order], w.format, block, -2)
    same_bits(mx.matmul(b, v, arithmetic="window"), mx.matmul(a, w, arithmetic="window"))
    assert (mx.matmul(b, v, arithmetic="exact") != mx.matmul(a, w, arithmetic="exact")).any()


def test_wide_windows_are_as_near_as_one_rounding() -> None:
    """Where all scales are alike and nothing is cut, the exact sum is rounded once."""
    a, w = random_operands(("mxsf", "mxsf"), 320, 8, [127], 4)
    wide = mx.matmul(a, w, arithmetic="window", window=37)
    exact = mx.dequantize(a).astype(np.float64) @ mx.dequantize(w).astype(np.float64)
    np.testing.assert_array_equal(wide, exact.astype(np.float32))


@every_pair
def test_the_largest_sums_fit(pair: tuple[str, str]) -> None:
    """The largest products there are, in blocks of one, whose rounding all goes up."""
    formats = OperandFormats(*(MX_FORMATS[name] for name in pair))
    largest = [int(max(mx_table(name)) / min(v for v in mx_table(name) if v)) for name in pair]
    most = [number + (name == "mxint8") for number, name in zip(largest, pair, strict=True)]
    inner, narrow = 4096, None
    for window in range(16, 54):
        try:
            exponent = formats.window_exponent(window, inner) - formats.quantum_exponent
        except ValueError:
            narrow = window
            continue
        steps = Fraction(most[0] * most[1]) / Fraction(2) ** exponent + Fraction(1, 2)
        assert inner * (steps.numerator // steps.denominator) < 1 << window - 1
    assert narrow is None or narrow < 24


def test_anchors() -> None:
    a, w = random_operands(("mxfp8_e4m3", "mxsf"), 32, 8, [100, 101, 102], 5)
    a.codes[:] = 1
    a.codes[2, 20] = 0x7F  # NaN
    a.scales[3, 1] = 255
    expected = a.scales.max(axis=1)
    expected[2] = 255
    assert anchors(a, 1).tolist() == expected.tolist()
    assert anchors(w, 0).tolist() == w.scales.max(axis=0).tolist()
    got = mx.matmul(a, w, arithmetic="window")
    assert (got[2:4].view(np.uint32) == 0x7FC00000).all()
    assert np.isfinite(got[[0, 1, 4]]).all()


def test_nothing_to_add() -> None:
    a, w = mx.quantize(np.ones((2, 0)), block=8), mx.quantize(np.ones((0, 3)), block=8, axis=0)
    assert mx.matmul(a, w, arithmetic="window").tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 15}, "window must be an integer from 16 to 53, not 15"),
        ({"window": 54}, "window must be an integer from 16 to 53, not 54"),
        ({"window": 17}, "window must be at least 18 for 4096 products of mxsf, not 17"),
        ({"inner": 1 << 33}, "inner must be at most 4294967296, not 8589934592"),
        ({"inner": 16}, "a must have at most inner = 16 columns, which windows hold, not 32"),
        (
            {"start": np.zeros((5, 4), np.float32)},
            "start must be None for arithmetic window, not an array",
        ),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    a, w = random_operands(("mxsf", "mxsf"), 32, 8, [127], 1)
    with raises(ValueError, message):
        mx.matmul(a, w, arithmetic="window", **options)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
@pytest.mark.parametrize("name", ["window", "inner"])
def test_other_arithmetics_have_no_windows(arithmetic: str, name: str) -> None:
    a, w = random_operands(("mxsf", "mxsf"), 32, 8, [127], 1)
    message = f"^{name} must be None for arithmetic {arithmetic}, not 32$"
    with pytest.raises(ValueError, match=message):
        mx.matmul(a, w, **{"arithmetic": arithmetic, name: 32})


def test_scales_with_a_mantissa_are_refused() -> None:
    a = mx.quantize(np.ones((2, 32)), "nvfp4")
    with pytest.raises(ValueError, match="format must have scales of float8_e8m0fnu"):
        mx.matmul(a, a.T, arithmetic="window")


def test_operands_that_are_no_matrices_are_refused() -> None:
    vector = mx.quantize(np.ones(32), block=8)
    a, w = mx.quantize(np.ones((2, 32)), block=8), mx.quantize(np.ones((16, 3)), block=8, axis=0)
    with pytest.raises(ValueError, match=r"^q must be a matrix, not a tensor of rank 1$"):
        anchors(vector, 0)
    with pytest.raises(ValueError, match=r"^w must be a matrix, not a tensor of rank 1$"):
        mx.matmul(a, vector, arithmetic="window")
    with pytest.raises(ValueError, match=r"^w must have the 32 rows that a has columns, not 16$"):
        mx.matmul(a, w, arithmetic="window")
