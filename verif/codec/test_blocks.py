"""Whole blocks: scales, shapes, special blocks, inputs of every kind, properties."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mxsafe as mx
from mxsafe.codec.blocks import ScaleMode
from mxsafe.codec.elements import Rounding
from mxsafe.formats import MX_FORMATS, FloatFields, FloatFormat, MXFormat, ScaleFormat
from verif.codec.exact_blocks import exact_scale, wide_values
from verif.support import exact
from verif.support.quantized import assert_same
from verif.support.tests import raises, some

MODES: tuple[ScaleMode, ...] = ("floor", "ceil", "even", "rceil")
every_format = pytest.mark.parametrize("name", MX_FORMATS)


def exact_block(values: np.ndarray, name: str, mode: str, rounding: str) -> tuple[int, list[int]]:
    """Scale and magnitude codes of one block by brute force."""
    table = exact.mx_table(name)
    magnitudes = [abs(Fraction(float(value))) for value in values]
    scale = exact_scale(max(magnitudes), name, mode)
    factor = Fraction(2) ** (scale - 127)
    return scale, [exact.round_to_table(m / factor, table, rounding) for m in magnitudes]


@every_format
@pytest.mark.parametrize("mode", some(MODES))
def test_blocks_equal_brute_force(name: str, mode: ScaleMode) -> None:
    fmt = MX_FORMATS[name]
    x = wide_values((40, 16))
    # Block maxima around the places where a scale changes.
    tops = np.array([1.0, 1.5, 1.96875, 1.98, 1.984375, 1.999, 2 - 2**-23, 1.75, 1.9375, 1.875])
    x[:, 0] = np.tile(tops, 4) * np.repeat([1.0, 2.0**-100, 2.0**100, 2.0**-130], 10)
    for rounding in ("rne", "rna", "rtz"):
        q = mx.quantize(x, name, block=16, scale_mode=mode, rounding=rounding)
        for row in range(len(x)):
            scale, codes = exact_block(x[row], name, mode, rounding)
            assert q.scales[row, 0] == scale
            magnitude = q.codes[row].astype(int)
            if name == "mxint8":
                magnitude = np.abs(q.codes[row].view(np.int8).astype(int))
            else:
                magnitude &= (1 << (fmt.element.width - 1)) - 1
            assert magnitude.tolist() == codes


@pytest.mark.parametrize(
    ("block", "axis", "shape"),
    [
        (64, -1, (3, 130)),
        (5, 0, (13, 4)),
        (7, 1, (2, 20, 3)),
        (1, -1, (6,)),
        (100, -1, (6,)),
        ((8, 8), -1, (20, 9)),
        ((2, 5), -1, (3, 7, 11)),
        ((1, 64), -1, (2, 65)),
        ((16, 16), -1, (20, 33)),
        (4, -1, (0, 5)),
        (4, -1, (5, 0)),
    ],
)
@pytest.mark.parametrize("name", ["mxsf", "nvfp4"])
def test_block_shapes(
    name: str, block: int | tuple[int, int], axis: int, shape: tuple[int, ...]
) -> None:
    """A block is quantised as it is alone, under the scale of the tensor."""
    x = wide_values(shape)
    q = mx.quantize(x, name, block=block, axis=axis)
    assert q.shape == q.codes.shape == shape
    assert q.codes.dtype == q.scales.dtype == np.uint8
    rows, columns = block if isinstance(block, tuple) else (1, 1)
    blocked = {len(shape) - 2: rows, len(shape) - 1: columns}
    if isinstance(block, int):
        blocked = {axis % len(shape): block}
    for position, n in enumerate(shape):
        length = blocked.get(position, 1)
        assert q.scales.shape[position] == -(-n // length)
    for index in np.ndindex(q.scales.shape):
        part = tuple(
            slice(i * blocked.get(d, 1), (i + 1) * blocked.get(d, 1)) for d, i in enumerate(index)
        )
        alone = mx.quantize(
            x[part].reshape(-1), name, block=x[part].size, tensor_scale=q.tensor_scale
        )
        assert q.scales[index] == alone.scales[0]
        np.testing.assert_array_equal(q.codes[part].reshape(-1), alone.codes)


def test_scale_saturates_for_large_float64() -> None:
    q = mx.quantize(np.array([1e300, 1.0]), "mxsf", block=2)
    assert q.scales.tolist() == [254]
    assert q.codes.tolist() == [0x7F, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["mxsf", "nvfp4"])
def test_input_types(dtype: type, name: str) -> None:
    x = wide_values((4, 70)).astype(dtype)
    before = x.tobytes()
    q = mx.quantize(x, name, block=8)
    reference = mx.quantize(x.astype(np.float64), name, block=8)
    assert_same(q, reference)
    assert x.tobytes() == before


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_layouts(dtype: type) -> None:
    x = wide_values((6, 40)).astype(dtype)
    frozen = x.copy()
    frozen.flags.writeable = False
    reference = mx.quantize(x, block=8)
    for other in (np.asfortranarray(x), frozen, np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1]):
        assert_same(mx.quantize(other, block=8), reference)


def test_dequantize_is_exact() -> None:
    codes = np.tile(np.arange(256, dtype=np.uint8), (256, 1))
    scales = np.arange(256, dtype=np.uint8)[:, None]
    q = mx.QuantizedTensor(codes, scales, MX_FORMATS["mxsf"], 256, -1)
    values = mx.dequantize(q)
    assert values.dtype == np.float32
    for scale in (0, 1, 127, 253, 254):
        for code, value in enumerate(values[scale].tolist()):
            magnitude = exact.mx_table("mxsf")[code & 0x7F] * Fraction(2) ** (scale - 127)
            assert Fraction(value) == (-magnitude if code >> 7 else magnitude)
    assert np.isnan(values[255]).all()
    wide = mx.dequantize(q, dtype=np.float64)
    np.testing.assert_array_equal(wide, values.astype(np.float64))


def test_transposed_square_tiles_need_no_requantisation() -> None:
    x = wide_values((24, 40))
    q = mx.quantize(x, block=(8, 8))
    direct = mx.quantize(np.ascontiguousarray(x.T), block=(8, 8))
    assert_same(q.T, direct)
    assert q.T.shape == (40, 24)
    assert (q.T.block, q.T.axis) == ((8, 8), (-2, -1))
    np.testing.assert_array_equal(mx.dequantize(q.T), mx.dequantize(q).T)


def test_transposed_rows_become_columns() -> None:
    q = mx.quantize(wide_values((6, 20)), block=8)
    assert (q.T.block, q.T.axis, q.T.T.axis) == (8, -2, -1)
    np.testing.assert_array_equal(mx.dequantize(q.T), mx.dequantize(q).T)
    tall = mx.quantize(wide_values((6, 20)), block=(2, 4))
    assert tall.T.block == (4, 2)


blocks = hnp.arrays(np.float32, (2, 8), elements=st.floats(-(2.0**100), 2.0**100, width=32))
any_format = st.sampled_from(list(MX_FORMATS))


@given(blocks, any_format)
def test_quantising_again_changes_nothing(x: np.ndarray, name: str) -> None:
    values = mx.dequantize(mx.quantize(x, name, block=4))
    np.testing.assert_array_equal(mx.dequantize(mx.quantize(values, name, block=4)), values)


@given(blocks, any_format, st.integers(-20, 20))
def test_powers_of_two_move_only_the_scale(x: np.ndarray, name: str, k: int) -> None:
    x = np.where(np.abs(x) < 1e-20, np.float32(0), x)
    q = mx.quantize(x, name, block=4)
    moved = mx.quantize(np.ldexp(x.astype(np.float64), k), name, block=4)
    np.testing.assert_array_equal(moved.codes, q.codes)
    zero = np.abs(x).reshape(2, 2, 4).max(axis=2) == 0
    np.testing.assert_array_equal(moved.scales[~zero].astype(int), q.scales[~zero].astype(int) + k)


@given(blocks, any_format)
def test_negation_flips_signs_only(x: np.ndarray, name: str) -> None:
    plus, minus = mx.quantize(x, name, block=4), mx.quantize(-x, name, block=4)
    np.testing.assert_array_equal(plus.scales, minus.scales)
    np.testing.assert_array_equal(mx.dequantize(plus), -mx.dequantize(minus))


@pytest.mark.parametrize("rounding", ["rne", "sr"])
def test_rounding_reaches_the_elements(rounding: Rounding) -> None:
    x = wide_values((4, 64))
    q = mx.quantize(x, rounding=rounding, random=3 if rounding == "sr" else None)
    scale = mx.e8m0.decode(q.element_scales())
    expected = mx.encode(x / scale, "mxsf", rounding=rounding, random=3)
    np.testing.assert_array_equal(q.codes, expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: mx.quantize(x.astype(int)),
            TypeError,
            "x must have dtype float64, float32, float16, bfloat16, not int64",
        ),
        (
            lambda x: mx.quantize(x, "mxsf", block=0),
            ValueError,
            "block must be a positive integer or a pair of positive integers, not 0",
        ),
        (
            lambda x: mx.quantize(x, "mxsf", block=(8, 0)),
            ValueError,
            "block must be a positive integer or a pair of positive integers, not (8, 0)",
        ),
        (
            lambda x: mx.quantize(x[0], "mxsf", block=(8, 8)),
            ValueError,
            "block (8, 8) needs a tensor of rank 2 or more, not 1",
        ),
        (
            lambda x: mx.quantize(np.float32(1.0)),
            ValueError,
            "x must have rank 1 or more, not 0",
        ),
        (
            lambda x: mx.quantize(x, axis=2),
            ValueError,
            "axis must lie in -2..1 for rank 2, not 2",
        ),
        (
            lambda x: mx.quantize(x, axis=0.5),
            ValueError,
            "axis must be an integer for 1-D blocks, not 0.5",
        ),
        (
            lambda x: mx.quantize(x, scale_mode="round"),
            ValueError,
            "scale_mode must be one of floor, ceil, even, rceil, not 'round'",
        ),
        (
            lambda x: mx.quantize(x, "mxfp9"),
            ValueError,
            "format must be one of mxsf, mxfp8_e2m5, mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, "
            "mxfp6_e2m3, mxfp4_e2m1, mxint8, nvfp4, not 'mxfp9'",
        ),
        (
            lambda x: mx.dequantize(x),
            TypeError,
            "q must be a QuantizedTensor, not ndarray",
        ),
        (
            lambda x: mx.dequantize(mx.quantize(x), dtype=np.float16),
            TypeError,
            "dtype must be float32 or float64, not float16",
        ),
        (
            lambda x: mx.quantize(x[None]).T,
            ValueError,
            "T needs a tensor of rank 2, not 3",
        ),
        (
            lambda x: mx.QuantizedTensor(
                np.zeros((2, 8), np.uint8), np.zeros((2, 3), np.uint8), MX_FORMATS["mxsf"], 4, -1
            ),
            ValueError,
            "scales must have shape (2, 2) for codes of shape (2, 8) in blocks of 4 along axis -1, "
            "not (2, 3)",
        ),
        (
            lambda x: mx.QuantizedTensor(x, np.zeros((2, 2), np.uint8), MX_FORMATS["mxsf"], 4, -1),
            TypeError,
            "codes must be a uint8 array, not float32",
        ),
    ],
)
def test_bad_input(call, error: type[Exception], message: str) -> None:
    with raises(error, message):
        call(wide_values((2, 8)))


def test_parts_are_made_canonical() -> None:
    codes, scales = np.zeros((4, 6), np.uint8), np.zeros((2, 6), np.uint8)
    q = mx.QuantizedTensor(codes, scales, "mxsf", np.int64(2), 0)
    assert (q.format, q.block, q.axis) == (MX_FORMATS["mxsf"], 2, -2)
    assert q.T.axis == -1
    tiled = mx.QuantizedTensor(codes, np.zeros((2, 2), np.uint8), MX_FORMATS["mxsf"], [2, 3], -1)
    assert (tiled.block, tiled.axis) == ((2, 3), (-2, -1))
    wide = np.full((1, 2), 0x40, np.uint8)
    with pytest.raises(ValueError, match=r"^codes must have the 6 bits of mxfp6_e2m3, not 0x40$"):
        mx.QuantizedTensor(wide, np.zeros((1, 1), np.uint8), MX_FORMATS["mxfp6_e2m3"], 2, -1)


@pytest.mark.parametrize("block", [10**12, 2**70, (10**12, 3), (3, 2**70)])
def test_blocks_far_larger_than_the_tensor(block: int | tuple[int, int]) -> None:
    x = wide_values((3, 3))
    q = mx.quantize(x, block=block)
    small = mx.quantize(x, block=3 if isinstance(block, int) else (3, 3))
    np.testing.assert_array_equal(q.codes, small.codes)
    np.testing.assert_array_equal(q.element_scales(), small.element_scales())


def test_formats_beyond_float32_are_exact_in_float64() -> None:
    far = FloatFields(exponent_bits=4, mantissa_bits=3, bias=200)
    fmt = MXFormat(name="far", element=FloatFormat(name="far", fields=far))
    x = np.array([1.0, -0.5, 0.125, 1.75]) * 2.0**-100
    np.testing.assert_array_equal(mx.dequantize(mx.quantize(x, fmt, block=4), dtype=np.float64), x)
    assert mx.decode([8], fmt) == 2.0**-199


def test_tensors_and_axes_are_checked() -> None:
    x = np.ones((4, 4), np.float32)
    with pytest.raises(TypeError, match=r"^q must be a QuantizedTensor, not ndarray$"):
        mx.packing.to_bytes(x)
    with pytest.raises(TypeError, match=r"^q must be a QuantizedTensor, not ndarray$"):
        mx.to_ml_dtypes(x)
    with pytest.raises(ValueError, match=r"^axis must be an integer or \(-2, -1\) for tiles, not"):
        mx.quantize(x, block=(2, 2), axis=None)
    with pytest.raises(
        ValueError, match=r"^rounding must be one of rne, rna, rtz, sr, not \['rne'\]$"
    ):
        mx.quantize(x, rounding=["rne"])
    with pytest.raises(ValueError, match=r"^shape must be a tuple of lengths, not \(-5,\)$"):
        mx.packing.from_bytes(b"", "mxsf", (-5,))
    np.testing.assert_array_equal(
        mx.quantize(x, rounding="sr", random=np.int64(3)).codes,
        mx.quantize(x, rounding="sr", random=3).codes,
    )
    assert mx.decode([], "mxsf").shape == mx.encode([], "mxsf").shape == (0,)


OTHER_SCALES = (
    ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31),
    ScaleFormat(name="e8m0_low", width=8, bias=200, nan_code=255),
    ScaleFormat(name="e1m0", width=1, bias=3, nan_code=1),  # one scale and NaN
)


def with_scale(name: str, scale: ScaleFormat) -> MXFormat:
    return MXFormat(name="own", element=MX_FORMATS[name].element, scale=scale)


@pytest.mark.parametrize("scale", OTHER_SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("mode", MODES)
def test_scales_of_other_formats(scale: ScaleFormat, mode: ScaleMode) -> None:
    """A block has the scale that E8M0 gives it, as far as the format of the scale reaches."""
    x = wide_values((40, 8))
    x[3, 5], x[4, 1], x[5] = np.nan, np.inf, 0.0
    for name in MX_FORMATS:
        table = exact.mx_table(name)
        fmt = with_scale(name, scale)
        q = mx.quantize(x, fmt, block=8, scale_mode=mode)
        values = mx.dequantize(q, dtype=np.float64)
        assert q.scales[3:6].tolist() == [[scale.nan_code], [scale.nan_code], [0]]
        assert np.isnan(values[3:5]).all()
        for row in (*range(3), *range(5, 40)):
            amax = max(abs(Fraction(float(value))) for value in x[row])
            wanted = exact_scale(amax, name, mode) - 127 + scale.bias if amax else 0
            code = min(max(wanted, 0), scale.max_code)
            assert q.scales[row, 0] == code
            factor = Fraction(2) ** (code - scale.bias)
            for value, result in zip(x[row], values[row], strict=True):
                number = Fraction(float(value))
                magnitude = table[exact.round_to_table(abs(number) / factor, table, "rne")]
                assert abs(Fraction(float(result))) == magnitude * factor
                assert np.signbit(result) == np.signbit(value) or result == 0


def test_scales_have_the_bits_of_their_format() -> None:
    fmt = with_scale("mxsf", OTHER_SCALES[0])
    codes = np.zeros((2, 8), np.uint8)
    scales = np.full((2, 1), 32, np.uint8)
    with raises(ValueError, "scales must have the 5 bits of own, not 0x20"):
        mx.QuantizedTensor(codes, scales, fmt, 8, -1)
    assert mx.QuantizedTensor(codes, scales - 1, fmt, 8, -1).scales[0, 0] == 31
    q = mx.quantize(np.ones((2, 8)), fmt, block=8)
    q.scales[:] = 255
    with raises(ValueError, "scales must have the 5 bits of own, not 0xff"):
        mx.dequantize(q)


def test_bytes_keep_other_scales() -> None:
    for scale in OTHER_SCALES:
        fmt = with_scale("mxfp4_e2m1", scale)
        q = mx.quantize(wide_values((3, 11)), fmt, block=4)
        for layout in ("planar", "inline"):
            data = mx.packing.to_bytes(q, layout)
            again = mx.packing.from_bytes(data, fmt, q.shape, block=4, layout=layout)
            np.testing.assert_array_equal(mx.dequantize(again), mx.dequantize(q))
