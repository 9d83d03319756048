"""Scalar floats: value to code and back, for every format up to float64.

Encoding is one path of exact arithmetic. A magnitude lies in a binade, subnormals all in the
lowest; there it is so many quanta, of which a code counts the whole ones. A carry out of the
mantissa is a carry into the exponent field, so rounding up to the next binade, out of the
subnormals and beyond the largest value are ordinary cases.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import e8m0
from mxsafe.codec._inputs import to_codes, to_float64
from mxsafe.codec._subnormals import subnormals
from mxsafe.codec.elements import Random, Rounding, canonical_rounding, random_bits, random_of
from mxsafe.formats import E8M0, FloatFormat, ScaleFormat, scalar_format
from mxsafe.validation import one_of, settled

Codes = NDArray[np.unsignedinteger[Any]]
_E8M0_MODES: dict[Rounding, e8m0.Mode] = {"rne": "rne", "rna": "rna", "rtz": "floor"}


class Fields(NamedTuple):
    """Fields of codes, as they stand in the bits.

    Attributes
    ----------
    sign, exponent, mantissa : ndarray of uint8, uint16, uint32 or uint64
        Unsigned integers; the exponent is biased, the mantissa without its hidden bit.
    """

    sign: Codes
    exponent: Codes
    mantissa: Codes


def _scalar_format(format: str | FloatFormat | ScaleFormat) -> FloatFormat | ScaleFormat:
    fmt = scalar_format(format)
    if isinstance(fmt, FloatFormat) and fmt.sub is not None:
        raise ValueError(f"format must have no second mode, unlike {fmt.name}")
    if isinstance(fmt, ScaleFormat) and fmt != E8M0:
        raise ValueError(f"format must be {E8M0.name} if it is a ScaleFormat, not {fmt.name}")
    return fmt


def _code_dtype(width: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(f"u{next(size for size in (1, 2, 4, 8) if 8 * size >= width)}")


def _finite_magnitudes(
    magnitude: NDArray[np.float64], fmt: FloatFormat, rounding: Rounding, random: Random | None
) -> NDArray[np.int64]:
    """Magnitude codes of finite values, as if the exponent field had no end."""
    fields = fmt.fields
    # Subnormals count as of the lowest binade.
    binade = np.frexp(np.maximum(magnitude, fmt.min_normal))[1] - 1
    quanta = np.ldexp(magnitude, fields.mantissa_bits - binade)
    whole = np.floor(quanta)
    rest = quanta - whole  # exact
    # The hidden bit of a normal number adds itself to the exponent field.
    below = (binade - fields.min_exponent).astype(np.int64) << fields.mantissa_bits
    codes = below + whole.astype(np.int64)
    if rounding == "rne":
        up = (rest > 0.5) | ((rest == 0.5) & (codes % 2 == 1))
    elif rounding == "rna":
        up = rest >= 0.5
    elif rounding == "sr":
        up = random_bits(random, quanta.shape) < np.ldexp(rest, 32)
    else:
        return codes
    return codes + up


@subnormals()
def encode(
    x: ArrayLike,
    format: str | FloatFormat | ScaleFormat,
    *,
    rounding: Rounding | Literal["even"] = "rne",
    saturate: bool = False,
    random: Random | None = None,
) -> Codes:
    """Convert floats to codes of a scalar format.

    Parameters
    ----------
    x : array_like of float64, float32, float16 or bfloat16
        Values to convert, any shape.
    format : str, FloatFormat or ScaleFormat
        Name in `SCALAR_FORMATS`, or a specification without a second mode.
    rounding : {"rne", "rna", "rtz", "sr"}
        To the nearest value with ties to the even code; ties away from zero; towards zero;
        stochastic, up with a probability of the distance to the lower neighbour over their gap.
        float8_e8m0fnu has no ``"sr"``.
    saturate : bool
        With it, Inf and what rounds beyond the largest value give the largest value. Without it
        they give Inf or, in a format that has only NaN, NaN; they saturate where there is
        neither. Rounding a finite number towards zero always stops at the largest value.
    random : numpy.random.Generator, int or ndarray of uint32, optional
        For ``"sr"``: a generator, a seed, or one 32-bit word per element. A value is rounded up
        when ``word < distance / gap * 2^32``.

    Returns
    -------
    ndarray of uint8, uint16, uint32 or uint64, shape of `x`
        Codes in the low bits of the smallest type that holds them. Zeros, what rounds to zero,
        and NaN keep their sign. NaN is the format's `quiet_nan`: payloads are dropped.

    Raises
    ------
    TypeError
        If `x` or `random` has another type.
    ValueError
        If `format` or `rounding` is unknown, `format` has a second mode, or `x` holds a NaN and
        the format none.

    Notes
    -----
    Source: IEEE 754-2019, sections 3.4 and 4.3; OCP MX v1.0, section 5.3. float8_e8m0fnu is
    encoded by `mxsafe.e8m0.encode`, ``"rtz"`` as its ``"floor"``.
    """
    fmt = _scalar_format(format)
    rounding = canonical_rounding(rounding)
    saturate = settled("saturate", bool, saturate)
    if isinstance(fmt, ScaleFormat):
        if rounding == "sr":
            raise ValueError(
                f"rounding must be {one_of(_E8M0_MODES, rounding, f' for {fmt.name}')}"
            )
        random_of(rounding, random, np.shape(x))
        return e8m0.encode(x, mode=_E8M0_MODES[rounding], saturate=saturate)
    values = to_float64("x", x)
    random_of(rounding, random, values.shape)
    magnitude = np.abs(values)
    nan = np.isnan(magnitude)
    if fmt.quiet_nan is None and nan.any():
        raise ValueError(f"x must not hold NaN: {fmt.name} has no code for it")
    finite = np.isfinite(magnitude)
    codes = _finite_magnitudes(np.where(finite, magnitude, 0.0), fmt, rounding, random)
    overflow = fmt.max_magnitude
    if not saturate and not fmt.finite_only:
        overflow += 1  # the code of Inf, else that of the only NaN
    beyond = fmt.max_magnitude if rounding == "rtz" else overflow
    codes = np.where(codes > fmt.max_magnitude, beyond, codes)
    codes = np.where(finite, codes, np.where(nan, fmt.quiet_nan or 0, overflow))
    signs = np.signbit(values).astype(np.uint64) << np.uint64(fmt.fields.width)
    return (codes.astype(np.uint64) | signs).astype(_code_dtype(fmt.width))[()]


@subnormals()
def decode(codes: ArrayLike, format: str | FloatFormat | ScaleFormat) -> NDArray[np.float64]:
    """Convert codes of a scalar format to float64.

    Parameters
    ----------
    codes : array_like of int
        Codes, any shape.
    format : str, FloatFormat or ScaleFormat
        Name in `SCALAR_FORMATS`, or a specification without a second mode.

    Returns
    -------
    ndarray of float64, shape of `codes`
        Exact. Special codes give Inf and NaN with their sign.

    Raises
    ------
    TypeError
        If `codes` are not integers.
    ValueError
        If `format` is unknown or has a second mode, or a code has more bits than the format.
    """
    fmt = _scalar_format(format)
    if isinstance(fmt, ScaleFormat):
        return e8m0.decode(codes).astype(np.float64)
    sign, exponent, mantissa = (field.astype(np.int64) for field in fields(codes, fmt))
    mantissa_bits = fmt.fields.mantissa_bits
    magnitude = exponent << mantissa_bits | mantissa
    finite = magnitude <= fmt.max_magnitude
    significand = np.where(finite, mantissa + ((exponent > 0) << mantissa_bits), 0)
    scale = np.maximum(exponent, 1) - fmt.fields.bias - mantissa_bits
    values = np.ldexp(significand.astype(np.float64), scale.astype(np.int32))
    infinite = ~finite & (magnitude < fmt.nan_magnitudes.start)
    values = np.where(finite, values, np.where(infinite, np.inf, np.nan))
    return np.where(sign == 1, -values, values)[()]


def fields(codes: ArrayLike, format: str | FloatFormat | ScaleFormat) -> Fields:
    """Split codes of a scalar format into their fields.

    Parameters
    ----------
    codes : array_like of int
        Codes, any shape.
    format : str, FloatFormat or ScaleFormat
        Name in `SCALAR_FORMATS`, or a specification without a second mode.

    Returns
    -------
    Fields
        Each of the shape of `codes` and of the smallest unsigned type that holds a code. Of
        float8_e8m0fnu, sign and mantissa are zero.

    Raises
    ------
    TypeError
        If `codes` are not integers.
    ValueError
        If `format` is unknown or has a second mode, or a code has more bits than the format.
    """
    fmt = _scalar_format(format)
    array = to_codes("codes", codes, fmt.width).astype(_code_dtype(fmt.width))
    if isinstance(fmt, ScaleFormat):
        return Fields(np.zeros_like(array)[()], array[()], np.zeros_like(array)[()])
    width, mantissa_bits = fmt.fields.width, fmt.fields.mantissa_bits
    exponent_mask = (1 << fmt.fields.exponent_bits) - 1
    parts = (
        array >> array.dtype.type(width),
        array >> array.dtype.type(mantissa_bits) & array.dtype.type(exponent_mask),
        array & array.dtype.type((1 << mantissa_bits) - 1),
    )
    return Fields(*(part[()] for part in parts))
