"""Elements of an MX block: code to value and back, relative to the shared scale.

Everything follows from one table per format, the finite magnitudes in ascending order of their
codes. Decoding indexes it. Encoding searches a second table, of *thresholds*: the k-th is the
smallest float64 that no longer rounds to a magnitude below the k-th. Rounding on the whole table
makes carries, the seam between MXSF's two modes and saturation ordinary cases.
"""

from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec._inputs import to_codes, to_float64
from mxsafe.codec._subnormals import subnormals
from mxsafe.formats import FloatFields, FloatFormat, IntFormat, MXFormat, mx_format
from mxsafe.validation import require_one_of, shown

__all__ = ["Random", "Rounding", "decode", "encode"]

Rounding = Literal["rne", "rna", "rtz", "sr"]
ROUNDINGS = ("rne", "rna", "rtz", "sr")
_AMBIGUOUS = {
    "nearest": "which leaves ties open (to even in PyTorch, away from zero in microxcaling): "
    "say 'rne' or 'rna'",
    "floor": "which microxcaling uses for rounding towards zero, not down: say 'rtz'",
}
Random = np.random.Generator | int | NDArray[np.uint32]
Element = FloatFormat | IntFormat


def _field_values(codes: NDArray[np.int64], fields: FloatFields) -> NDArray[np.float64]:
    exponent = codes >> fields.mantissa_bits
    mantissa = codes & ((1 << fields.mantissa_bits) - 1)
    significand = np.where(exponent == 0, mantissa, mantissa + (1 << fields.mantissa_bits))
    return np.ldexp(
        significand.astype(np.float64),
        (np.maximum(exponent, 1) - fields.bias - fields.mantissa_bits).astype(np.int32),
    )


@lru_cache(maxsize=64)
def magnitudes(element: Element) -> NDArray[np.float64]:
    """Finite magnitudes of a format, indexed by magnitude code, strictly increasing."""
    codes = np.arange(element.max_magnitude + 1)
    if isinstance(element, IntFormat):
        values = np.ldexp(codes.astype(np.float64), -element.fraction_bits)
    else:
        values = _field_values(codes, element.fields)
        if element.sub is not None:
            in_sub = codes >> element.fields.mantissa_bits == 0
            values = np.where(in_sub, _field_values(codes, element.sub), values)
    values.flags.writeable = False
    return values


@lru_cache(maxsize=64)
def code_values(element: Element) -> NDArray[np.float64]:
    """Value of every code of a format, special codes included."""
    table = magnitudes(element)
    values = np.full(1 << element.width, np.nan)
    if isinstance(element, IntFormat):
        codes = np.arange(1 << element.width)
        signed = np.where(codes >> (element.width - 1), codes - (1 << element.width), codes)
        return np.ldexp(signed.astype(np.float64), -element.fraction_bits)
    sign_bit = 1 << (element.width - 1)
    values[: table.size] = table
    values[element.inf_magnitudes.start : element.inf_magnitudes.stop] = np.inf
    values[sign_bit:] = -values[:sign_bit]
    return values


@lru_cache(maxsize=64)
def _thresholds(element: Element, rounding: str) -> NDArray[np.float64]:
    table = magnitudes(element)
    if rounding in ("rtz", "sr"):
        return table[1:]
    midpoints = (table[:-1] + table[1:]) / 2  # exact: a few more bits than the element has
    if rounding == "rna":
        return midpoints
    lower_is_even = np.arange(midpoints.size) % 2 == 0
    return np.where(lower_is_even, np.nextafter(midpoints, np.inf), midpoints)


@lru_cache(maxsize=64)
def _buckets(
    element: Element, rounding: str
) -> tuple[int, int, NDArray[np.int64], NDArray[np.float64]]:
    """Magnitudes in buckets of upper bits, which ascend with them, with one threshold at most.

    Returns
    -------
    shift : int
        Bits of a float64 below those that say which bucket it is in.
    first : int
        The bucket before that of the smallest threshold.
    below : ndarray of int64
        Thresholds before each bucket, from there to behind that of the largest.
    thresholds : ndarray of float64
        Of a code the one to the next; behind the last, Inf does not reach it either.
    """
    thresholds = _thresholds(element, rounding)
    bits = thresholds.view(np.int64)
    shift = next(n for n in range(52, -1, -1) if (np.diff(bits >> n) > 0).all())
    first, last = int(bits[0] >> shift) - 1, int(bits[-1] >> shift) + 1
    below = np.searchsorted(bits >> shift, np.arange(first, last + 1))
    return shift, first, below, np.append(thresholds, np.nan)


def random_source(
    random: Random | None, shape: tuple[int, ...]
) -> np.random.Generator | NDArray[np.uint32]:
    """Supplied words, or a generator that will give them; or a clear error."""
    if isinstance(random, np.random.Generator):
        return random
    if isinstance(random, np.ndarray):
        if random.dtype != np.uint32:
            raise TypeError(f"random must have dtype uint32, not {random.dtype}")
        if random.shape != shape:
            raise ValueError(f"random must have the shape {shape} of the input, not {random.shape}")
        return random
    if isinstance(random, int | np.integer) and not isinstance(random, bool) and random >= 0:
        return np.random.default_rng(random)
    raise TypeError(
        "random must be a numpy Generator, a seed or a uint32 array for rounding 'sr', "
        f"not {shown(random)}"
    )


def random_of(
    rounding: Rounding, random: Random | None, shape: tuple[int, ...]
) -> np.random.Generator | NDArray[np.uint32] | None:
    """Return the `random_source` for rounding ``sr``; check it and return None for any other.

    So a loop over roundings can pass the same source to each.
    """
    if rounding == "sr":
        return random_source(random, shape)
    if random is not None:
        random_source(random, shape)
    return None


def random_bits(random: Random | None, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    """One uniform 32-bit word an element, from supplied words, a generator or a seed."""
    source = random_source(random, shape)
    if isinstance(source, np.ndarray):
        return source
    return source.integers(0, 1 << 32, size=shape, dtype=np.uint32)


def canonical_rounding(rounding: str) -> Rounding:
    """One of `ROUNDINGS`, or a clear error.

    ``even`` is another name of ``rne``. Names that libraries use for different things are refused
    with what to say instead.
    """
    if isinstance(rounding, str) and rounding == "even":
        return "rne"
    if isinstance(rounding, str) and rounding in _AMBIGUOUS:
        raise ValueError(f"rounding must not be {rounding!r}, {_AMBIGUOUS[rounding]}")
    require_one_of("rounding", rounding, ROUNDINGS)
    return cast(Rounding, rounding)


def encode_magnitudes(
    magnitude: NDArray[np.float64],
    element: Element,
    rounding: Rounding,
    random: Random | None,
) -> NDArray[np.int64]:
    """Magnitude codes of non-negative float64 values; beyond the largest they saturate."""
    shift, first, below, thresholds = _buckets(element, rounding)
    bucket = (np.asarray(magnitude).view(np.int64) >> shift) - first
    codes = below[np.clip(bucket, 0, below.size - 1)]
    codes = codes + (magnitude >= thresholds[codes])
    if rounding == "sr":
        table = magnitudes(element)
        low, high = table[codes], table[np.minimum(codes + 1, element.max_magnitude)]
        gap = np.where(high > low, high - low, 1.0)
        # Exact: the gap is a power of two. Saturated values sit on the last code, where it is moot.
        chance = np.where(high > low, (magnitude - low) / gap, 0.0)
        codes = codes + (random_bits(random, magnitude.shape) < np.ldexp(chance, 32))
    return codes


def encode_signed(
    y: NDArray[np.float64],
    element: Element,
    rounding: Rounding,
    random: Random | None,
) -> NDArray[np.uint8]:
    """Codes of float64 values without NaN."""
    magnitude = encode_magnitudes(np.abs(y), element, rounding, random)
    negative = np.signbit(y)
    if isinstance(element, IntFormat):
        codes = np.where(negative, -magnitude, magnitude) & ((1 << element.width) - 1)
    else:
        codes = magnitude | (negative.astype(np.int64) << (element.width - 1))
    return codes.astype(np.uint8)


@subnormals()
def encode(
    y: ArrayLike,
    format: str | MXFormat,
    *,
    rounding: Rounding | Literal["even"] = "rne",
    random: Random | None = None,
) -> NDArray[np.uint8]:
    """Convert values that are relative to a block scale to element codes.

    Parameters
    ----------
    y : array_like of float64, float32, float16 or bfloat16
        Values divided by their scale, any shape. Beyond the largest value of the format, Inf
        included, they saturate.
    format : str or MXFormat
        Name in the catalogue, or a specification.
    rounding : {"rne", "rna", "rtz", "sr"}
        To the nearest value with ties to the even code (``"even"`` says the same); ties away
        from zero; towards zero; stochastic, up with a probability of the distance to the lower
        neighbour over their gap.
    random : numpy.random.Generator, int or ndarray of uint32, optional
        For ``"sr"``: a generator, a seed, or one 32-bit word per element. A value is rounded up
        when ``word < distance / gap * 2^32``. Other roundings take no notice of it.

    Returns
    -------
    ndarray of uint8, shape of `y`
        Codes in the low bits. Zeros, and negative numbers that round to zero, keep their sign
        (two's-complement formats have no -0).

    Raises
    ------
    TypeError
        If `y` or `random` has another type.
    ValueError
        If `format` or `rounding` is unknown, or `y` holds a NaN (in an MX tensor NaN lives in
        the scale, see `quantize`).

    Notes
    -----
    Source: MX-SAFE, Algorithm 1; OCP MX v1.0, section 5.3. MXSF is rounded on its whole value
    table: what rounds up past 0.21875 becomes 0.25.
    """
    element = mx_format(format).element
    rounding = canonical_rounding(rounding)
    values = to_float64("y", y)
    random_of(rounding, random, values.shape)
    if np.isnan(values).any():
        raise ValueError("y must not hold NaN: NaN lives in the scale of a block, not in a code")
    return encode_signed(values, element, rounding, random)


@subnormals()
def decode(codes: ArrayLike, format: str | MXFormat) -> NDArray[Any]:
    """Convert element codes to values that are relative to the block scale.

    Parameters
    ----------
    codes : array_like of int
        Codes, any shape.
    format : str or MXFormat
        Name in the catalogue, or a specification.

    Returns
    -------
    ndarray of float32, shape of `codes`
        Exact (a format of one's own with exponents that float32 has not gives float64). Special
        codes give Inf and NaN.

    Raises
    ------
    TypeError
        If `codes` are not integers.
    ValueError
        If `format` is unknown or a code has more bits than the format.
    """
    element = mx_format(format).element
    array = to_codes("codes", codes, element.width)
    values = code_values(element)
    narrow = values.astype(np.float32)
    return (narrow if np.array_equal(narrow, values, equal_nan=True) else values)[array]
