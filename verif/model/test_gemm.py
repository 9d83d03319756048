"""`matmul` against the unit models composed step by step, and against float64."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.formats import FORMAT_SETS, MX_FORMATS, ScaleFormat
from mxsafe.model.float_arithmetic import decode_float
from mxsafe.model.gemm import Arithmetic
from mxsafe.products import OperandFormats
from verif.support.exact import element_value, float_table, nearest_float
from verif.support.tests import INTEGERS, raises


def matrices(
    m: int,
    k: int,
    n: int,
    block: int | tuple[int, int],
    seed: int = 1,
    fmt: str = "mxsf",
    format_w: str | None = None,
) -> tuple[mx.QuantizedTensor, mx.QuantizedTensor]:
    rng = np.random.default_rng(seed)
    a, w = (
        (rng.standard_normal(shape) * np.exp2(rng.integers(-8, 2, shape))).astype(np.float32)
        for shape in ((m, k), (k, n))
    )
    return (
        mx.quantize(a, fmt, block=block, axis=-1),
        mx.quantize(w, format_w or fmt, block=block, axis=-2),
    )


def composed(
    a: mx.QuantizedTensor, w: mx.QuantizedTensor, arithmetic: str, step: int
) -> np.ndarray:
    """The same product from the models of MAC and accumulator: all outputs take a step at once."""
    (m, k), n = a.shape, w.shape[1]
    i, j = np.divmod(np.arange(m * n), n)
    scale_a, scale_w = a.element_scales(), w.element_scales()
    formats = OperandFormats(a.format, w.format)
    acc = np.zeros(m * n, np.float32)
    for start in range(0, k, step):
        x = np.zeros((m * n, step), np.uint8)
        y = np.zeros((m * n, step), np.uint8)
        stop = min(start + step, k)
        x[:, : stop - start] = a.codes[i, start:stop]
        y[:, : stop - start] = w.codes[start:stop, j].T
        if arithmetic == "fp12":
            code = model.safe_mac(x, y, a.format, format_w=w.format)
            partial = decode_float(code, formats.fp12_format(step)).astype(np.float64)
        else:
            lanes = 1 << (step - 1).bit_length()
            x, y = (np.pad(v, ((0, 0), (0, lanes - step))) for v in (x, y))
            dot = model.safe_mac_exact(x, y, a.format, format_w=w.format)
            partial = np.ldexp(dot.astype(np.float64), formats.quantum_exponent)
        acc = model.scale_and_accumulate(acc, partial, scale_a[i, start], scale_w[start, j])
    return acc.reshape(m, n)


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


@pytest.mark.parametrize(
    ("fmt", "arithmetic"),
    [
        (fmt, arithmetic)
        for fmt in mx.MX_FORMATS
        for arithmetic in ("fp12", "exact")
        if fmt != "mxsf" and (fmt, arithmetic) != ("mxint8", "fp12")
    ],
)
def test_other_formats_equal_the_units_composed(fmt: str, arithmetic: Arithmetic) -> None:
    a, w = matrices(4, 40, 3, 16, fmt=fmt)
    got = mx.matmul(a, w, arithmetic=arithmetic)
    step = 4 if arithmetic == "fp12" else 16
    np.testing.assert_array_equal(
        got.view(np.uint32), composed(a, w, arithmetic, step).view(np.uint32)
    )


PAIRS = list(itertools.permutations(mx.MX_FORMATS, 2))
every_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


@every_pair
def test_two_formats_equal_the_units_composed(pair: tuple[str, str]) -> None:
    a, w = matrices(3, 24, 2, 16, 1, *pair)
    for arithmetic in ("exact",) if "mxint8" in pair else ("exact", "fp12"):
        got = mx.matmul(a, w, arithmetic=arithmetic)
        expected = composed(a, w, arithmetic, 4 if arithmetic == "fp12" else 16)
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def rational(a: mx.QuantizedTensor, w: mx.QuantizedTensor, block: int) -> np.ndarray:
    """Arithmetic `exact` with `fractions.Fraction`, one output at a time."""
    (m, k), n = a.shape, w.shape[1]
    result = np.zeros((m, n), np.float32)
    scale_a, scale_w = a.element_scales(), w.element_scales()
    element_a, element_w = (
        {"nvfp4": "mxfp4_e2m1"}.get(q.format.name, q.format.name) for q in (a, w)
    )
    for i, j in np.ndindex(m, n):
        for start in range(0, k, block):
            total = Fraction(0)
            for inner in range(start, min(start + block, k)):
                x = element_value(element_a, int(a.codes[i, inner]))
                y = element_value(element_w, int(w.codes[inner, j]))
                assert x is not None
                assert y is not None
                total += x * y
            scale = scale_value(a, scale_a[i, start]) * scale_value(w, scale_w[start, j])
            rounded = nearest_float(abs(total) * scale, mantissa_bits=23, min_exponent=-126)
            addend = np.float32(float(rounded) if rounded < 1 << 128 else np.inf)
            result[i, j] += -addend if total < 0 else addend
    factors = [Fraction(float(q.tensor_scale)) for q in (a, w) if q.tensor_scale is not None]
    for index in np.ndindex(m, n) if factors else ():
        exact = Fraction(float(result[index])) * math.prod(factors)
        wide = nearest_float(abs(exact), mantissa_bits=52, min_exponent=-1022)
        magnitude = nearest_float(wide, mantissa_bits=23, min_exponent=-126)
        finite = np.float32(float(magnitude)) if magnitude < 1 << 128 else np.float32(np.inf)
        result[index] = np.copysign(finite, result[index])
    return result


def scale_value(q: mx.QuantizedTensor, code: int) -> Fraction:
    """A scale of E8M0, or of E4M3 where there is a scale of the tensor too."""
    if q.tensor_scale is None:
        return Fraction(2) ** (int(code) - 127)
    return float_table(4, 3, 7, 127)[int(code)]


@pytest.mark.parametrize("pair", [("nvfp4", "nvfp4"), ("nvfp4", "mxsf"), ("mxfp4_e2m1", "nvfp4")])
def test_scales_with_a_mantissa(pair: tuple[str, str]) -> None:
    """NVFP4 with itself and with others in blocks of 16: block scales exact, then the tensor's."""
    a, w = matrices(5, 80, 6, 16, 3, *pair)
    got = mx.matmul(a, w, arithmetic="exact")
    np.testing.assert_array_equal(got.view(np.uint32), rational(a, w, 16).view(np.uint32))
    near = mx.dequantize(a).astype(np.float64) @ mx.dequantize(w).astype(np.float64)
    assert np.abs(got - near).max() < 1e-5 * np.abs(near).max()
    assert np.isfinite(mx.matmul(a, w, arithmetic="fp12")).all()


@pytest.mark.parametrize("magnitude", [1e23, 1e-19])
def test_scales_of_tensors_whose_product_float32_does_not_hold(magnitude: float) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((3, 32)), rng.standard_normal((32, 2)) * 1e-12 * magnitude
    x[1] = 0
    if magnitude < 1:
        y *= 1e12
    a = mx.quantize(x * magnitude, "nvfp4")
    w = mx.quantize(y, "nvfp4", axis=0)
    got = mx.matmul(a, w, arithmetic="exact")
    near = mx.dequantize(a, dtype=np.float64) @ mx.dequantize(w, dtype=np.float64)
    np.testing.assert_array_equal(got.view(np.uint32), rational(a, w, 16).view(np.uint32))
    assert (got[1] == 0).all()
    assert np.abs(got - near).max() <= 1e-6 * np.abs(near).max() + 2.0**-149


def test_zero_rows_stay_zero_beside_large_tensor_scales() -> None:
    x = np.full((2, 16), 3e35, np.float32)
    x[0] = 0
    a, w = mx.quantize(x, "nvfp4"), mx.quantize(x.T, "nvfp4", axis=0)
    got = mx.matmul(a, w, arithmetic="exact")
    assert got.tolist() == [[0.0, 0.0], [0.0, np.inf]]


def test_nan_scale_with_a_mantissa() -> None:
    x = np.ones((3, 32), np.float32)
    x[1, 20] = np.nan
    a = mx.quantize(x, "nvfp4")
    w = mx.quantize(np.ones((32, 2), np.float32), "nvfp4", axis=0)
    got = mx.matmul(a, w, arithmetic="exact")
    assert (got[1].view(np.uint32) == 0x7FC00000).all()
    np.testing.assert_array_equal(got[[0, 2]], np.full((2, 2), 32, np.float32))


def test_wide_sums_with_scales_that_have_a_mantissa() -> None:
    element = mx.MX_FORMATS["mxfp8_e5m2"].element
    fmt = mx.MXFormat(name="own", element=element, scale=mx.BLOCK_FORMATS["nvfp4"].scale)
    a = mx.quantize(np.ones((2, 32)), fmt, block=32)
    w = mx.quantize(np.ones((32, 2)), fmt, block=32, axis=0)
    with raises(ValueError, "sums of own must have at most 53 bits with their scales, not 75"):
        mx.matmul(a, w, arithmetic="exact")


@pytest.mark.parametrize("pair", [*itertools.product(mx.MX_FORMATS, repeat=2)], ids="-".join)
def test_exact_equals_rational_arithmetic(pair: tuple[str, str]) -> None:
    """Sums of up to 70 bits, rounded once; codes and scales of every size, and cancellation."""
    rng = np.random.default_rng(70)
    block = 32
    elements = [mx.MX_FORMATS[name].element for name in pair]
    codes = []
    for shape, element in zip(((4, 96), (96, 4)), elements, strict=True):
        magnitudes = rng.integers(0, element.max_magnitude + 1, shape)
        signs = rng.integers(0, 2, shape) << (element.width - 1)
        codes.append((magnitudes | signs).astype(np.uint8))
    # Products that cancel all but the rest of a block.
    negative = 0 if pair[1] == "mxint8" else 1 << elements[1].width - 1
    codes[0][:, 1:40:2] = codes[0][:, 0:40:2]
    codes[1][1:40:2] = codes[1][0:40:2] ^ np.uint8(negative)
    scales = [rng.choice([1, 60, 120, 127, 130, 190], shape) for shape in ((4, 3), (3, 4))]
    a, w = (
        mx.QuantizedTensor(part, scale.astype(np.uint8), mx.MX_FORMATS[name], block, axis)
        for part, scale, name, axis in zip(codes, scales, pair, (-1, -2), strict=True)
    )
    got = mx.matmul(a, w, arithmetic="exact")
    np.testing.assert_array_equal(got.view(np.uint32), rational(a, w, block).view(np.uint32))
    assert len(np.unique(got)) > 12


def test_long_blocks_of_wide_sums_equal_rational_arithmetic() -> None:
    """More products than are added at a time: 56 bits and more."""
    rng = np.random.default_rng(71)
    k = 1500
    a, w = (
        mx.QuantizedTensor(
            rng.integers(0, 1 << width, shape).astype(np.uint8) & np.uint8(mask),
            np.full(scales, 127, np.uint8),
            mx.MX_FORMATS[name],
            k,
            axis,
        )
        for name, width, mask, shape, scales, axis in (
            ("mxfp8_e5m2", 8, 0xFB, (2, k), (2, 1), -1),
            ("mxfp8_e4m3", 8, 0xFE, (k, 2), (1, 2), -2),
        )
    )
    a.codes[a.codes & 0x7C == 0x7C] = 0x7B  # largest numbers instead of NaN and Inf
    got = mx.matmul(a, w, arithmetic="exact")
    np.testing.assert_array_equal(got.view(np.uint32), rational(a, w, k).view(np.uint32))


@pytest.mark.parametrize("last", [0, 1, -1])
def test_sums_of_more_than_53_bits_are_rounded_once(last: int) -> None:
    """A tie of binary32 that one product, 62 binades below, decides: 2^30 + 2^6 + last * 2^-32."""
    a = np.array([[2.0**15, 2.0**3, last * 2.0**-16, 0.0]])
    w = np.array([[2.0**15, 2.0**3, 2.0**-16, 0.0]]).T
    scale = np.full((1, 1), 127, np.uint8)
    qa, qw = (
        mx.QuantizedTensor(mx.encode(x, "mxfp8_e5m2"), scale, mx.MX_FORMATS["mxfp8_e5m2"], 4, axis)
        for x, axis in ((a, -1), (w, -2))
    )
    expected = 2.0**30 + (128 if last > 0 else 0)
    assert mx.matmul(qa, qw, arithmetic="exact").item() == expected
    negative = mx.QuantizedTensor(qa.codes ^ 0x80, scale, qa.format, 4, -1)
    assert mx.matmul(negative, qw, arithmetic="exact").item() == -expected


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
@pytest.mark.parametrize(
    ("fmt", "code"),
    [("mxfp8_e4m3", 0xFF), ("mxfp8_e5m2", 0x7C), ("mxfp8_e5m2", 0xFC), ("mxfp8_e5m2", 0x7D)],
)
def test_special_codes_make_their_row_nan(fmt: str, code: int, arithmetic: Arithmetic) -> None:
    a, w = matrices(3, 64, 4, 16, fmt=fmt)
    clean = mx.matmul(a, w, arithmetic=arithmetic)
    a.codes[1, 21] = code
    expected = clean.copy()
    expected[1] = np.uint32(0x7FC00000).view(np.float32)
    got = mx.matmul(a, w, arithmetic=arithmetic)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))
    w.codes[63, 2] = code
    expected[:, 2] = expected[1, 0]
    got = mx.matmul(a, w, arithmetic=arithmetic)
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_integers_have_no_adder_tree() -> None:
    a, w = matrices(2, 16, 2, 8, fmt="mxint8")
    with raises(ValueError, INTEGERS.replace("format", "a", 1)):
        mx.matmul(a, w)
    a, w = matrices(2, 16, 2, 8, 1, "mxsf", "mxint8")
    with raises(ValueError, INTEGERS.replace("format", "w", 1)):
        mx.matmul(a, w)


def test_sums_that_no_hardware_holds() -> None:
    a, w = matrices(2, 16, 2, 1 << 17, fmt="mxfp8_e5m2")
    with raises(
        ValueError, "a must have sums of at most 80 bits, not 131072 of mxfp8_e5m2 with 81"
    ):
        mx.matmul(a, w, arithmetic="exact")


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


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
def test_a_product_that_is_continued(arithmetic: Arithmetic) -> None:
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(5, 192)).astype("f4"), rng.normal(size=(192, 7)).astype("f4")
    whole = mx.matmul(mx.quantize(x), mx.quantize(y, axis=0), arithmetic=arithmetic)
    first, second = (
        (mx.quantize(x[:, part]), mx.quantize(y[part], axis=0))
        for part in (slice(64), slice(64, 192))
    )
    start = model.matmul(*first, arithmetic=arithmetic)
    before = start.copy()
    assert np.array_equal(model.matmul(*second, arithmetic=arithmetic, start=start), whole)
    assert np.array_equal(start, before)
    with pytest.raises(ValueError, match=r"start must be of float32 and shape \(5, 7\), not floa"):
        model.matmul(*second, start=start[:4])


def test_empty_inner_dimension() -> None:
    a = mx.quantize(np.zeros((2, 0), np.float32), block=8)
    w = mx.quantize(np.zeros((0, 3), np.float32), block=8, axis=0)
    np.testing.assert_array_equal(mx.matmul(a, w), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a, w: mx.matmul(a, w, arithmetic="fp16"),
            "arithmetic must be one of fp12, exact, window, not 'fp16'",
        ),
        (lambda a, w: mx.matmul(a, w, lanes=3), "lanes must be a power of two, not 3"),
        (lambda a, w: mx.matmul(a, w, lanes=True), "lanes must be a power of two, not True"),
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
            lambda a, w: model.Schedule(
                a, w, operands=OperandFormats(MX_FORMATS["mxsf"], MX_FORMATS["mxint8"])
            ),
            "w must have the format mxint8, not mxsf",
        ),
        (
            lambda a, w: model.Schedule(
                mx.quantize(np.ones((2, 16)), "mxfp8_e4m3", block=8),
                w,
                operands=OperandFormats.same(FORMAT_SETS["multi"]),
            ),
            "format must be one of mxsf, mxfp8_e2m5, mxfp6_e3m2, mxfp6_e2m3, mxfp4_e2m1, "
            "not 'mxfp8_e4m3'",
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
    with raises(ValueError, message):
        call(a, w)


def test_operand_of_another_type() -> None:
    with pytest.raises(TypeError, match=r"^a must be a QuantizedTensor, not ndarray$"):
        mx.matmul(np.ones((2, 2)), np.ones((2, 2)))


def test_scales_that_the_hardware_cannot_add() -> None:
    coarse = ScaleFormat(name="e5m0", width=5, bias=15, nan_code=31)
    fmt = mx.MXFormat(name="own", element=mx.MX_FORMATS["mxsf"].element, scale=coarse)
    a = mx.quantize(np.ones((8, 8)), fmt, block=(8, 8))
    message = "must have scales of float8_e8m0fnu, which the hardware takes, not of e5m0 as own"
    np.testing.assert_array_equal(mx.matmul(a, a), np.full((8, 8), 8, np.float32))
    calls = (lambda: model.Schedule(a, a), lambda: model.operand_beats(a))
    for call, name in zip(calls, "aq", strict=True):
        with raises(ValueError, f"{name} {message} has"):
            call()
