"""Where MX libraries disagree with one another: what we do, and who does otherwise.

Our choices are the codec's contract: OCP MX v1.0 where it speaks, and exact arithmetic. The others
were measured at the versions that `mxsafe.codec.profiles` names; those that are installed with the
tests (ml_dtypes, gfloat) are asserted too, so that a change of theirs is noticed.
"""

import gfloat
import ml_dtypes
import numpy as np
import pytest
from gfloat import formats as gfloat_formats

import mxsafe as mx
from mxsafe.codec.blocks import ScaleMode
from mxsafe.codec.profiles import quantize_like
from mxsafe.formats import MX_FORMATS

MODES: tuple[ScaleMode, ...] = ("floor", "ceil", "even", "rceil")
FLT_MAX = float(np.finfo(np.float32).max)
every_format = pytest.mark.parametrize("name", MX_FORMATS)
scale_mode = pytest.mark.parametrize("mode", MODES)


def test_a_cast_to_e8m0_is_not_the_scale_rule() -> None:
    """The scale is 2^floor(log2 amax): casts of ml_dtypes and gfloat round to nearest.

    They part from each other too: the tie 1.5 * 2^k goes up in ml_dtypes and torch, and to the
    even byte in gfloat. Zero is byte 255 in ml_dtypes and 0 in torch, which gives 127 for -1.0.
    """
    x = np.float32([1.5, 3.0, 1.75])
    cast = x.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    info = gfloat_formats.format_info_ocp_e8m0
    nearest = [gfloat.round_float(info, float(v), gfloat.RoundMode.TiesToEven) for v in x]
    assert cast.tolist() == [128, 129, 128]
    assert nearest == [2.0, 2.0, 2.0]
    assert mx.e8m0.encode(x).tolist() == [127, 128, 127]
    assert mx.quantize(x, "mxsf", block=1).scales.tolist() == [127, 128, 127]
    assert mx.e8m0.encode(x, mode="rna").tolist() == cast.tolist()
    assert mx.e8m0.decode(mx.e8m0.encode(x, mode="rne")).tolist() == nearest
    no_byte = np.float32([np.inf, 0.0]).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert no_byte.tolist() == [255, 255]
    assert mx.e8m0.encode(np.float32([np.inf, 0.0])).tolist() == [255, 0]


@every_format
@scale_mode
def test_a_block_of_zeros_has_scale_byte_0_and_keeps_its_signs(name: str, mode: ScaleMode) -> None:
    """Not so in microxcaling (2^-126 is its largest zero, -0 becomes +0) and in quark (+0, fp4)."""
    q = mx.quantize(np.float32([0.0, -0.0, 0.0, -0.0]), name, block=4, scale_mode=mode)
    sign = 0 if name == "mxint8" else 1 << (MX_FORMATS[name].element.width - 1)
    assert q.scales.tolist() == [0]
    assert q.codes.tolist() == [0, sign, 0, sign]


@every_format
@scale_mode
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_nan_makes_the_whole_block_nan(name: str, mode: ScaleMode, nan: float) -> None:
    """A cast of the elements alone keeps NaN in one of them, and formats without a NaN lose it.

    ml_dtypes casts it to -0 in the fp6 and fp4 formats. torchao, quark and microxcaling make the
    whole block NaN, as we do, but torchao's codes under scale byte 255 are not 0.
    """
    x = np.float32([1.0, nan, -2.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    q = mx.quantize(x, name, block=4, scale_mode=mode)
    values = mx.dequantize(q)
    assert q.scales[0] == 255
    assert q.codes[:4].tolist() == [0, 0, 0, 0]
    assert np.isnan(values).tolist() == [True] * 4 + [False] * 4
    with np.errstate(invalid="ignore"):
        lost = np.float32([np.nan]).astype(ml_dtypes.float4_e2m1fn)
    assert lost.view(np.uint8).tolist() == [0x08]


@every_format
@scale_mode
@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_inf_makes_the_whole_block_nan(name: str, mode: ScaleMode, infinity: float) -> None:
    """In torchao and quark it saturates and the block stays, under scales that differ by mode.

    microxcaling makes the block NaN, as we do.
    """
    q = mx.quantize(np.float32([1.0, infinity, -2.0, 0.0]), name, block=4, scale_mode=mode)
    assert q.scales.tolist() == [255]
    assert q.codes.tolist() == [0, 0, 0, 0]
    assert np.isnan(mx.dequantize(q)).all()


@every_format
@pytest.mark.parametrize("rounding", ["rne", "rna"])
def test_the_largest_element_rounding_past_the_top_saturates(name: str, rounding: str) -> None:
    """Plain casts of ml_dtypes overflow: to NaN in E4M3, to Inf in E5M2.

    torch 2.13 saturates in E4M3, Inf included, and overflows in E5M2.
    """
    element = MX_FORMATS[name].element
    # The largest float32 below the next binade lies past the midpoint above the largest element.
    top = np.nextafter(np.float32(2.0 ** (element.emax + 1)), np.float32(0))
    q = mx.quantize(np.stack([top, -top]), name, block=2, rounding=rounding)
    assert q.scales.tolist() == [127]
    assert mx.dequantize(q).tolist() == [element.max_value, -element.max_value]
    with np.errstate(over="ignore", invalid="ignore"):
        e4m3 = np.float32([500.0]).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        e5m2 = np.float32([61440.0]).astype(ml_dtypes.float8_e5m2).astype(np.float32)
    assert np.isnan(e4m3[0])
    assert np.isposinf(e5m2[0])


@every_format
def test_flt_max_is_the_largest_element_under_the_largest_exponent(name: str) -> None:
    """In float32 microxcaling takes its exponent as 128: Inf in float formats, NaN in MXINT8.

    quark's ``even`` gives its block the scale of an Inf. Under our other scale modes the element is
    2^128 at most, which is beyond float32 and comes back as Inf there: ask for float64.
    """
    fmt = MX_FORMATS[name]
    q = mx.quantize(np.float32([FLT_MAX, -FLT_MAX]), name, block=2)
    largest = fmt.element.max_value * 2.0 ** (127 - fmt.emax)
    assert q.scales.tolist() == [127 + 127 - fmt.emax]
    assert mx.dequantize(q).tolist() == [largest, -largest]
    up = mx.quantize(np.float32([FLT_MAX]), name, block=1, scale_mode="ceil")
    assert up.scales.tolist() == [min(254, 128 + 127 - fmt.emax)]
    assert np.isfinite(mx.dequantize(up, dtype=np.float64)).all()


@every_format
def test_float32_subnormals_count(name: str) -> None:
    """No flushing. On request microxcaling flushes them; torchao halves what is that small."""
    x = np.float32([2.0**-127, 2.0**-128, -(2.0**-133), 2.0**-149])
    q = mx.quantize(x, name, block=4)
    assert q.scales.tolist() == [0]
    expected = mx.encode(np.ldexp(x.astype(np.float64), 127), name)
    assert q.codes.tolist() == expected.tolist()
    assert mx.dequantize(q)[0] == 2.0**-127


@every_format
def test_scale_byte_0_is_two_to_the_minus_127(name: str) -> None:
    """There torchao divides by 2^-126 (rceil: by 1) and multiplies by 2^-127."""
    x = np.float32([2.0**-126, -(2.0**-127)])
    q = mx.quantize(x, name, block=2, scale_mode="floor")
    small = mx.QuantizedTensor(mx.encode([1.0, -0.5], name), np.zeros(1, np.uint8), q.format, 2, -1)
    assert mx.dequantize(small).tolist() == [2.0**-127, -(2.0**-128)]
    assert mx.dequantize(q).tolist() == x.tolist()
    assert mx.e8m0.decode(0) == 2.0**-127
    if name == "mxfp4_e2m1":
        halved = quantize_like(x, "torchao_floor", name, block=2)
        assert halved.values.tolist() == (x / 2).tolist()


@every_format
def test_one_ulp_below_a_power_of_two_stays_below(name: str) -> None:
    """In float32 microxcaling rounds log2 up to the power, and so doubles the scale."""
    fmt = MX_FORMATS[name]
    exponents = np.arange(fmt.emax - 120, 120)
    x = np.nextafter(np.float32(2.0) ** exponents.astype(np.float32), np.float32(0))
    scales = mx.quantize(x, name, block=1).scales
    assert scales.tolist() == (exponents - 1 - fmt.emax + 127).tolist()


def test_mxint8_0x80_decodes_but_is_never_produced() -> None:
    """OCP lets it be left unused. The saturating conversion of gfloat produces it."""
    info = gfloat_formats.format_info_ocp_int8
    assert gfloat.decode_float(info, 0x80).fval == mx.decode(0x80, "mxint8") == -2.0
    theirs = gfloat.round_float(info, -3.0, gfloat.RoundMode.TiesToEven, True)
    assert gfloat.encode_float(info, theirs) == 0x80
    x = np.float32([-1.9999999, 1.9999999, -2.0, -3.0])
    for rounding in ("rne", "rna", "rtz"):
        q = mx.quantize(x, "mxint8", block=2, rounding=rounding)
        assert 0x80 not in q.codes
        assert q.codes[:2].tolist() == [0x81, 0x7F]
        assert (
            mx.encode(np.float64([-2.0, -1e9]), "mxint8", rounding=rounding).tolist() == [0x81] * 2
        )


@every_format
def test_negative_zero_keeps_its_sign(name: str) -> None:
    """Not in microxcaling (-0 becomes +0) and quark (fp6, fp4: all zeros do). MXINT8 has no -0."""
    sign = 0 if name == "mxint8" else 1 << (MX_FORMATS[name].element.width - 1)
    q = mx.quantize(np.float32([1.0, -0.0, -(2.0**-60), 2.0**-60]), name, block=4)
    assert q.codes[1:].tolist() == [sign, sign, 0]
    assert np.signbit(mx.dequantize(q)).tolist() == [False, bool(sign), bool(sign), False]
