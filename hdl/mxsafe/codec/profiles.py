"""Quantisers of other libraries, reproduced bit for bit, and where they differ from ours.

A profile is a published MX quantiser at a stated version, described by the few facts in which its
results can differ from `mxsafe.quantize`; those of NVFP4 are in `mxsafe.codec.nvfp4_profiles`. Each
fact was measured by running that library on a CPU, and `verif/codec/test_other_libraries.py` checks
the profiles against the libraries that are installed. None of them is needed here.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.codec import elements
from mxsafe.codec._inputs import FLOAT_DTYPES, require_numbers, to_float64, widened
from mxsafe.codec._scales import require_tensor_scale
from mxsafe.codec._subnormals import subnormals
from mxsafe.codec.blocks import SCALE_MODES, QuantizedTensor, ScaleMode, dequantize, quantize
from mxsafe.codec.nvfp4_profiles import NVFP4_PROFILES, NVFP4Profile, quantize_nvfp4_like
from mxsafe.formats import BLOCK_FORMATS, E8M0, MX_FORMATS, FloatFormat, MXFormat, mx_format
from mxsafe.validation import one_of, require_count, require_integer, require_one_of, shown

_MIN_NORMAL_FLOAT32 = 2.0**-126
_BEYOND_FLOAT32 = 128  # exponent of the smallest power of two that float32 has not
_OCP_FLOATS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1")


_WORDS = {
    "scale_mode": SCALE_MODES,
    "rounding": ("rne", "rna", "rtz"),
    "arithmetic": ("float32", "float64"),
    "log2": ("exact", "float32", "float64"),
    "infinity": ("nan", "2^128", "largest scale"),
    "overflow": ("saturate", "nan"),
}
_NAMES = {
    "formats": tuple(MX_FORMATS),
    "input_dtypes": FLOAT_DTYPES,
    "unsigned_zero_formats": tuple(MX_FORMATS),
}
_FLAGS = (
    "whole_blocks",
    "carry_is_infinity",
    "half_rounds_up",
    "negative_zero",
    "integer_negative_zero",
    "finite",
)
_BY_LOGARITHM = ("floor", "rceil")  # scale modes in which a library takes a rounded logarithm


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Rules of a library for a 1-D block, as far as they can differ from `mxsafe.quantize`.

    The defaults are our contract. `dataclasses.replace` makes a variant, such as microxcaling with
    another of its roundings.

    Parameters
    ----------
    name : str
        Name in `PROFILES`.
    library, version : str
        What it describes.
    description : str
        The call, and what is peculiar about it, in a line.
    formats : tuple of str
        Catalogued formats that the library has and the profile describes.
    input_dtypes : tuple of str
        Types of input it was measured with.
    whole_blocks : bool
        Whether the library refuses an axis that is no multiple of the block.
    scale_mode : {"floor", "ceil", "even", "rceil"}
        As in `mxsafe.quantize`; ``floor`` or ``rceil`` unless `log2` is exact.
    rounding : {"rne", "rna", "rtz"}
        As in `mxsafe.quantize`.
    arithmetic : {"float32", "float64"}
        Type in which it computes and returns values. What is beyond its range becomes Inf.
    log2 : {"exact", "float32", "float64"}
        How exponents are found: from bits, or by a logarithm in that type, which rounds to a whole
        number close to a power of two. With ``rceil`` the quotient by the largest element is
        rounded to that type too.
    infinity : {"nan", "2^128", "largest scale"}
        A block with an Inf and no NaN becomes NaN; has its scale chosen as for ``amax = 2^128``;
        or has scale byte 254. In the last two its Inf saturate as elements, and come back as Inf
        because the largest element under that scale is beyond float32.
    carry_is_infinity : bool
        Whether an ``amax`` that ``even`` rounds up to ``2^128`` is treated as Inf. For that scale
        mode only.
    overflow : {"saturate", "nan"}
        What a scale above ``2^127`` becomes; where `log2` is exact it saturates.
    zero_amax : float
        What the largest magnitude of a block of zeros counts as where a logarithm is taken.
    byte_zero_exponent : int
        Elements under scale byte 0 are divided by 2 to this power, and come back multiplied by
        ``2^-127`` all the same.
    half_rounds_up : bool
        Whether rounding adds 0.5 in `arithmetic`, by which the largest number below half the
        smallest element becomes the smallest element.
    negative_zero : bool
        Whether a -0 that comes in stays -0.
    unsigned_zero_formats : tuple of str
        Formats in which negative numbers that round to zero become +0.
    integer_negative_zero : bool
        Whether values of integer formats can be -0.
    even_bits : int, optional
        To how many bits of mantissa ``even`` rounds ``amax``; by default those of the element.
    finite : bool
        Whether the profile describes finite numbers alone, below those that `even_bits` rounds to
        ``2^128``: others are refused.

    Raises
    ------
    ValueError
        If a fact is not one of these, or two do not go together.
    """

    name: str
    library: str
    version: str
    description: str
    formats: tuple[str, ...] = tuple(MX_FORMATS)
    input_dtypes: tuple[str, ...] = FLOAT_DTYPES
    whole_blocks: bool = False
    scale_mode: ScaleMode = "floor"
    rounding: elements.Rounding = "rne"
    arithmetic: Literal["float32", "float64"] = "float32"
    log2: Literal["exact", "float32", "float64"] = "exact"
    infinity: Literal["nan", "2^128", "largest scale"] = "nan"
    carry_is_infinity: bool = False
    overflow: Literal["saturate", "nan"] = "saturate"
    zero_amax: float = 0.0
    byte_zero_exponent: int = -E8M0.bias
    half_rounds_up: bool = False
    negative_zero: bool = True
    unsigned_zero_formats: tuple[str, ...] = ()
    integer_negative_zero: bool = False
    even_bits: int | None = None
    finite: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _WORDS.items():
            require_one_of(name, getattr(self, name), allowed)
        for name, known in _NAMES.items():
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(one in known for one in value):
                raise ValueError(
                    f"{name} must be a tuple of names among {', '.join(known)}, not {shown(value)}"
                )
        for name in _FLAGS:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, not {shown(value)}")
        zero = self.zero_amax
        if not isinstance(zero, int | float) or not 0 <= zero < math.inf:
            raise ValueError(f"zero_amax must be a finite number of at least 0, not {shown(zero)}")
        exponent = require_integer("byte_zero_exponent", self.byte_zero_exponent, -1022, 1022)
        object.__setattr__(self, "byte_zero_exponent", exponent)
        if self.even_bits is not None:
            bits = require_integer("even_bits", self.even_bits, 0, 22)
            object.__setattr__(self, "even_bits", bits)
        self._require_facts_that_go_together()

    def _require_facts_that_go_together(self) -> None:
        """Refuse what no library was seen to do and `quantize_like` does not do either."""
        if self.log2 != "exact":
            require_one_of("scale_mode", self.scale_mode, _BY_LOGARITHM, f" with log2 {self.log2}")
        if self.log2 == "exact" and self.overflow != "saturate":
            raise ValueError(
                f"overflow must be 'saturate' with log2 exact, not {shown(self.overflow)}"
            )
        if self.carry_is_infinity and self.scale_mode != "even":
            raise ValueError(
                f"carry_is_infinity must be False with scale_mode {self.scale_mode}: "
                "only even carries"
            )
        if self.even_bits is not None and self.scale_mode != "even":
            raise ValueError(
                f"even_bits must be None with scale_mode {self.scale_mode}, not {self.even_bits}"
            )


def _torchao(mode: ScaleMode, description: str, **quirks: Any) -> Profile:
    facts: dict[str, Any] = {"infinity": "2^128", "byte_zero_exponent": -126} | quirks
    return Profile(
        name=f"torchao_{mode}",
        library="torchao",
        version="0.18.0",
        description=f"to_mx(..., ScaleCalculationMode.{mode.upper()}): {description}",
        formats=_OCP_FLOATS,
        input_dtypes=("float32", "bfloat16"),
        whole_blocks=True,
        scale_mode=mode,
        **facts,
    )


def _microxcaling(name: str, description: str, **quirks: Any) -> Profile:
    return Profile(
        name=name,
        library="microxcaling",
        version="7bc4195 (August 2024)",
        description=description,
        formats=(*_OCP_FLOATS, "mxint8"),
        rounding="rna",
        overflow="nan",
        zero_amax=_MIN_NORMAL_FLOAT32,
        half_rounds_up=True,
        negative_zero=False,
        integer_negative_zero=True,
        **quirks,
    )


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                name="mxsafe",
                library="OCP MX",
                version="v1.0 as mxsafe reads it",
                description="mxsafe.quantize with its defaults: floor, rne, all exact",
            ),
            _torchao("floor", "Inf saturates; elements under scale byte 0 come out at half"),
            _torchao("ceil", "Inf saturates; elements under scale byte 0 come out at half"),
            _torchao("even", "Inf saturates; elements under scale byte 0 come out at half"),
            _torchao(
                "rceil",
                "float32 quotient and log2; Inf saturates; nothing is scaled under byte 0",
                log2="float32",
                infinity="largest scale",
                byte_zero_exponent=0,
            ),
            Profile(
                name="quark_even",
                library="amd-quark",
                version="0.13",
                description="fake_quantize_mx(..., 'even') on a CPU: Inf stays Inf and its block "
                "gets the largest scale, as does an amax that rounds to 2^128; "
                "no -0 in fp6 and fp4",
                formats=_OCP_FLOATS,
                input_dtypes=("float32",),
                scale_mode="even",
                infinity="largest scale",
                carry_is_infinity=True,
                unsigned_zero_formats=("mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"),
            ),
            Profile(
                name="compressed_tensors_mxfp8",
                library="compressed-tensors",
                version="0.20.1",
                description="calculate_qparams and the compressor mxfp8-quantized, of finite "
                "numbers: amax rounded to one bit of mantissa, whatever the element has",
                formats=("mxfp8_e4m3",),
                input_dtypes=("float32",),
                whole_blocks=True,
                scale_mode="even",
                even_bits=1,
                finite=True,
            ),
            _microxcaling(
                "microxcaling",
                "_quantize_mx(x, 8, ...) on a CPU, its default rounding: float32 log2, "
                "scales above 2^127 are NaN",
                input_dtypes=("float32",),
                log2="float32",
            ),
            _microxcaling(
                "microxcaling_float64",
                "_quantize_mx(x.double(), 8, ...): exact for float32 input, "
                "float64 log2 for float64 input",
                arithmetic="float64",
                log2="float64",
            ),
        )
    }
)
"""Profiles by name. To describe another library, say how it differs and check it there."""


def profile_named(profile: str | Profile) -> Profile:
    """Look a profile up; a profile is passed through.

    Parameters
    ----------
    profile : str or Profile
        Name in `PROFILES`, or a profile of one's own.

    Raises
    ------
    ValueError
        If the name is not in `PROFILES`.
    TypeError
        If `profile` is neither a name nor a profile.
    """
    if isinstance(profile, Profile):
        return profile
    if not isinstance(profile, str):
        raise TypeError(f"profile must be a name or a Profile, not {type(profile).__name__}")
    return PROFILES[require_one_of("profile", profile, PROFILES)]


def _any_profile(profile: str | Profile | NVFP4Profile) -> Profile | NVFP4Profile:
    """A profile of MX formats or of NVFP4; one that is passed stays as it is."""
    if isinstance(profile, NVFP4Profile):
        return profile
    if isinstance(profile, str) and profile in NVFP4_PROFILES:
        return NVFP4_PROFILES[profile]
    return profile_named(profile)


@dataclass(frozen=True, eq=False)
class LibraryResult:
    """Result of a library for a tensor.

    Attributes
    ----------
    values : ndarray of float32 or float64
        Dequantised values, in the type that the profile computes in.
    tensor : QuantizedTensor
        Codes and scale bytes. For a library that returns values only they are those of the scale
        that it divides by. Codes under scale byte 255 mean nothing and are 0.
    profile : Profile or NVFP4Profile
        Whose result it is.
    """

    values: NDArray[Any]
    tensor: QuantizedTensor
    profile: Profile | NVFP4Profile

    def __repr__(self) -> str:
        return f"LibraryResult(profile={self.profile.name!r}, tensor={self.tensor!r})"


def _runs(tensor: QuantizedTensor) -> tuple[int, int]:
    """Length and axis of the 1-D blocks of a tensor."""
    return cast("tuple[int, int]", (tensor.block, tensor.axis))


def _reduce_blocks(
    operation: np.ufunc, values: NDArray[Any], block: int, axis: int
) -> NDArray[Any]:
    """Reduce every run of `block` values along an axis to one; the last run may be shorter."""
    size = values.shape[axis]
    starts = np.arange(0, size, min(block, max(size, 1)))
    return operation.reduceat(values, starts, axis=axis)


def _largest_magnitudes(values: NDArray[np.float64], like: QuantizedTensor) -> NDArray[np.float64]:
    """Largest magnitude of each block: finite, Inf, or NaN if it holds one."""
    return _reduce_blocks(np.maximum, np.abs(values), *_runs(like))


def _exact(
    values: NDArray[np.float64], fmt: MXFormat, block: int | None, axis: int, profile: Profile
) -> QuantizedTensor:
    """Our codec with the scale mode and the rounding of a profile and none of its quirks."""

    def quantised(mode: ScaleMode) -> QuantizedTensor:
        options: dict[str, Any] = {"block": block, "axis": axis, "rounding": profile.rounding}
        return quantize(values, fmt, scale_mode=mode, **options)

    if profile.even_bits is None:
        return quantised(profile.scale_mode)
    low, high = quantised("floor"), quantised("ceil")
    significand, _ = np.frexp(_largest_magnitudes(values, low))
    carries = 2 * significand >= 2 - 2.0 ** -(profile.even_bits + 1)
    spread = replace(low, scales=carries.astype(np.uint8)).element_scales()
    codes = np.where(spread == 1, high.codes, low.codes)
    return replace(low, codes=codes, scales=np.where(carries, high.scales, low.scales))


def _log2(x: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """log2 as it comes out in a type: rounded to it once. Zero gives a very small number."""
    logarithm = np.log2(np.where(x > 0.0, x, 1.0)).astype(dtype).astype(np.float64)
    return np.where(x > 0.0, logarithm, -np.inf)


def _scale_exponents(
    amax: NDArray[np.float64], fmt: MXFormat, profile: Profile
) -> NDArray[np.float64]:
    """Unclamped exponent of each block's scale, by a logarithm; `amax` is finite."""
    if profile.scale_mode == "rceil":
        with np.errstate(under="ignore"):
            quotient = (amax.astype(profile.log2) / fmt.element.max_value).astype(profile.log2)
        return np.ceil(_log2(quotient.astype(np.float64), profile.log2))
    return np.floor(_log2(amax, profile.log2)) - fmt.emax


def _scales(
    amax: NDArray[np.float64], ours: QuantizedTensor, profile: Profile
) -> NDArray[np.uint8]:
    """Scale bytes of a profile; `ours` are those of its scale mode, exact."""
    fmt = ours.format
    scales = ours.scales
    if profile.log2 != "exact":
        finite = np.isfinite(amax)
        counted = np.where(amax == 0.0, profile.zero_amax, amax)
        exponents = _scale_exponents(np.where(finite, counted, 1.0), fmt, profile)
        top = E8M0.nan_code if profile.overflow == "nan" else E8M0.max_code
        scales = np.clip(exponents + E8M0.bias, 0, top)
        scales = np.where(finite, scales, E8M0.nan_code)
    of_2_128 = _BEYOND_FLOAT32 - fmt.emax + E8M0.bias
    of_infinity = {
        "nan": E8M0.nan_code,
        "2^128": of_2_128,
        "largest scale": E8M0.max_code,
    }[profile.infinity]
    infinite = np.isinf(amax)
    if profile.carry_is_infinity:
        infinite |= scales == of_2_128
    return np.where(infinite, of_infinity, scales).astype(np.uint8)


def _round_magnitudes(
    relative: NDArray[np.float64], fmt: MXFormat, profile: Profile
) -> NDArray[np.uint8]:
    """Codes of the magnitudes of elements, roundings of the profile applied."""
    magnitude = np.abs(relative)
    codes = elements.encode(magnitude, fmt, rounding=profile.rounding)
    if profile.half_rounds_up and profile.rounding in ("rne", "rna"):
        # 0.5 + 0.5 (1 - 2^-24) is 1 in float32, so the number just below one half is rounded up.
        half = np.ldexp(np.ones((), profile.arithmetic), fmt.element.quantum_exponent - 1)
        codes = np.where(magnitude == np.nextafter(half, half * 0), np.uint8(1), codes)
    if (
        profile.log2 != "exact"
        and profile.rounding == "rtz"
        and isinstance(fmt.element, FloatFormat)
    ):
        # Just below 2^k it is cut off in the unit of the binade above, twice as large.
        fields = fmt.element.fields
        exponent = np.floor(_log2(magnitude, profile.log2))
        raised = np.isfinite(exponent) & (exponent > fields.min_exponent)
        exponent = np.where(raised, exponent, 0.0).astype(np.int32)
        raised &= magnitude < np.ldexp(1.0, exponent)
        cut = ((exponent + fields.bias) << fields.mantissa_bits) - 2
        codes = np.where(raised, np.minimum(cut, fmt.element.max_magnitude), codes)
    return codes.astype(np.uint8)


@subnormals()
def quantize_like(
    x: ArrayLike,
    profile: str | Profile | NVFP4Profile,
    format: str | MXFormat = "mxfp8_e4m3",
    *,
    block: int | None = None,
    axis: int = -1,
    tensor_scale: float | np.float32 | None = None,
) -> LibraryResult:
    """Quantise a tensor as another library does.

    Parameters
    ----------
    x : array_like
        Tensor of a type that the profile takes; never written to.
    profile : str, Profile or NVFP4Profile
        Name in `PROFILES` or `mxsafe.codec.nvfp4_profiles.NVFP4_PROFILES`, or a profile of one's
        own.
    format : str or MXFormat
        Element format, one that the profile has.
    block : int, optional
        Length of the 1-D blocks; by default the format's.
    axis : int
        Axis they run along.
    tensor_scale : float, optional
        Scale of the tensor, for profiles that have one; by default that of the largest magnitude.

    Returns
    -------
    LibraryResult
        Values, scale bytes and codes, equal to the library's in every bit (all NaN count as one).

    Raises
    ------
    TypeError
        If `x` has another type than the profile takes.
    ValueError
        If the profile is unknown or has no such format, or the blocks or the tensor scale do not
        fit.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.float32([1.0, np.inf, -2.0, 0.0])
    >>> result = quantize_like(x, "torchao_floor", "mxfp8_e4m3", block=4)
    >>> result.values, result.tensor.scales
    (array([ 0., inf, -0.,  0.], dtype=float32), array([247], dtype=uint8))
    """
    chosen, fmt = _any_profile(profile), mx_format(format)
    if fmt.name not in chosen.formats or BLOCK_FORMATS[fmt.name] != fmt:
        known = one_of(chosen.formats, fmt.name, f" for profile {chosen.name}")
        raise ValueError(f"format must be {known}")
    if isinstance(block, tuple | list):
        raise ValueError(f"block must be a positive integer for a profile, not {shown(block)}")
    array = np.asarray(require_numbers("x", x))
    if array.dtype.name not in chosen.input_dtypes:
        raise TypeError(
            f"x must have dtype {', '.join(chosen.input_dtypes)} for profile {chosen.name}, "
            f"not {array.dtype}"
        )
    if isinstance(chosen, NVFP4Profile):
        single = widened(array, np.float32)
        return LibraryResult(
            *quantize_nvfp4_like(single, chosen, block=block, axis=axis, tensor_scale=tensor_scale),
            chosen,
        )
    require_tensor_scale(tensor_scale, fmt)
    values = to_float64("x", array)
    exact = _exact(values, fmt, block, axis, chosen)
    run, along = _runs(exact)
    if chosen.whole_blocks and values.shape[along] % run:
        raise ValueError(
            f"block must divide {values.shape[along]} for profile {chosen.name}, not {run}"
        )

    amax = _largest_magnitudes(values, exact)
    if chosen.finite:
        bits = exact.format.element.mantissa_bits if chosen.even_bits is None else chosen.even_bits
        limit = 2.0**_BEYOND_FLOAT32 * (1 - 2.0 ** -(bits + 2))
        if not (amax < limit).all():
            raise ValueError(
                f"x must be finite and below {limit:.4g} for profile {chosen.name}, not "
                f"{amax[~(amax < limit)][0]:.4g}"
            )
    scales = _scales(amax, exact, chosen)
    tensor = QuantizedTensor(np.zeros(values.shape, np.uint8), scales, fmt, run, along)
    byte = tensor.element_scales()
    exponent = byte.astype(np.int32) - E8M0.bias
    exponent = np.where(byte == 0, chosen.byte_zero_exponent, exponent)
    is_nan = byte == E8M0.nan_code
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        relative = np.ldexp(values, -exponent).astype(chosen.arithmetic).astype(np.float64)
    relative = np.where(is_nan, 0.0, relative)
    codes = _round_magnitudes(relative, fmt, chosen)

    negative = np.signbit(relative) & ~is_nan
    if not chosen.negative_zero:
        negative &= relative != 0.0
    if fmt.name in chosen.unsigned_zero_formats:
        negative &= codes != 0
    width = fmt.element.width
    if isinstance(fmt.element, FloatFormat):
        signed = np.where(negative, codes | np.uint8(1 << (width - 1)), codes)
    else:
        signed = np.where(negative, -codes.astype(np.int16), codes) & ((1 << width) - 1)
    tensor.codes[...] = signed.astype(np.uint8)

    decoded = dequantize(tensor, dtype=chosen.arithmetic)
    if chosen.integer_negative_zero:
        decoded = np.where(negative & (decoded == 0.0), -np.abs(decoded), decoded)
    return LibraryResult(decoded, tensor, chosen)


@dataclass(frozen=True, kw_only=True)
class BlockDivergence:
    """A block that a library quantises otherwise.

    Attributes
    ----------
    index : tuple of int
        Its place in the array of scales.
    our_scale, their_scale : int
        Scale bytes.
    elements : int
        Values that differ: 0 if only the scale byte does.
    largest_difference : float
        Largest absolute difference between two values; NaN if one of the two is NaN.
    reason : str
        The first reason that applies.
    """

    index: tuple[int, ...]
    our_scale: int
    their_scale: int
    elements: int
    largest_difference: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class DivergenceReport:
    """Differences of a library's result from ours; ``str()`` makes a table of them.

    Attributes
    ----------
    profile : Profile
        Whose result was compared.
    format : MXFormat
        Element format.
    block : int
        Length of the blocks.
    axis : int
        Axis they run along, counted from the end.
    total : int
        Blocks that were compared.
    reasons : mapping of str to int
        Differing blocks by reason, the most frequent first.
    blocks : tuple of BlockDivergence
        The first differing blocks, at most `limit` of `divergence`.
    """

    profile: Profile
    format: MXFormat
    block: int
    axis: int
    total: int
    reasons: Mapping[str, int]
    blocks: tuple[BlockDivergence, ...]

    @property
    def differing(self) -> int:
        """Blocks that differ."""
        return sum(self.reasons.values())

    def __str__(self) -> str:
        lines = [
            f"{self.profile.name} ({self.profile.library} {self.profile.version}), "
            f"{self.format.name}, blocks of {self.block} along axis {self.axis}",
            f"{self.differing} of {self.total} blocks differ",
        ]
        lines += [f"  {count:>8}  {reason}" for reason, count in self.reasons.items()]
        if not self.blocks:
            return "\n".join(lines)
        rows = [("block", "ours", "theirs", "elements", "difference", "reason")]
        rows += [
            (
                ",".join(map(str, one.index)),
                str(one.our_scale),
                str(one.their_scale),
                str(one.elements),
                f"{one.largest_difference:.4g}",
                one.reason,
            )
            for one in self.blocks
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[-1]]))
        if self.differing > len(self.blocks):
            lines.append(f"and {self.differing - len(self.blocks)} more")
        return "\n".join(lines)


def _same_bits(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Equal with the sign of zeros; all NaN are one."""
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _reasons(
    values: NDArray[np.float64], ours: QuantizedTensor, theirs: LibraryResult, profile: Profile
) -> NDArray[np.object_]:
    """Reason of every block, if it differs at all."""
    fmt, scales = ours.format, theirs.tensor.scales
    amax = _largest_magnitudes(values, ours)
    exact = _exact(values, fmt, *_runs(ours), profile)
    dtype = theirs.values.dtype
    our_values, exact_values = dequantize(ours, dtype=dtype), dequantize(exact, dtype=dtype)
    differs = ~_same_bits(our_values, theirs.values)
    numbers_differ = differs & (our_values != theirs.values)
    unexplained = numbers_differ & (exact_values != theirs.values)

    def any_of(elements_of: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return _reduce_blocks(np.logical_or, elements_of, *_runs(ours))

    mode: str = profile.scale_mode
    if profile.even_bits is not None:
        mode = f"{mode} to {profile.even_bits} bits of mantissa"
    log2 = f"log2 in {profile.log2} rounded to a whole number near a power of two"
    conditions = [
        (np.isinf(amax), "Inf saturated instead of making the block NaN"),
        (
            (scales == E8M0.nan_code) & (exact.scales == E8M0.max_code) & (amax > 0.0),
            "scale above 2^127 became NaN instead of saturating",
        ),
        (
            (amax == 0.0) & (scales != ours.scales),
            "block of zeros has another scale",
        ),
        (
            (scales == 0) & any_of(numbers_differ) & (profile.byte_zero_exponent != -E8M0.bias),
            f"scale byte 0 divided by 2^{profile.byte_zero_exponent} instead of 2^{-E8M0.bias}",
        ),
        (
            (scales != exact.scales) & profile.carry_is_infinity,
            "amax rounded up to 2^128 treated as Inf",
        ),
        (scales != exact.scales, log2),
        (scales != ours.scales, f"scale mode {mode} instead of floor"),
        (
            any_of(unexplained),
            log2
            if profile.rounding == "rtz"
            else "just below half the smallest element rounded up",
        ),
        (any_of(numbers_differ), f"rounding {profile.rounding} instead of rne"),
    ]
    chosen = np.full(scales.shape, "sign of a zero", dtype=object)
    for holds, reason in reversed(conditions):
        chosen[holds] = reason
    return chosen


@subnormals()
def divergence(
    x: ArrayLike,
    profile: str | Profile,
    format: str | MXFormat = "mxfp8_e4m3",
    *,
    block: int | None = None,
    axis: int = -1,
    limit: int = 20,
) -> DivergenceReport:
    """Report the blocks that a library quantises otherwise than `mxsafe.quantize` does.

    Ours is ``quantize`` with its defaults: scale mode ``floor``, rounding ``rne``.

    Parameters
    ----------
    x, profile, format, block, axis
        As in `quantize_like`, of MX formats only.
    limit : int
        List this many blocks at most; all are counted.

    Returns
    -------
    DivergenceReport
        A block differs if its scale byte or a value does, the sign of a zero included.

    Raises
    ------
    TypeError, ValueError
        As `quantize_like` does, or if `limit` is negative.
    """
    limit = require_count("limit", limit)
    chosen = profile_named(profile)
    theirs = quantize_like(x, chosen, format, block=block, axis=axis)
    tensor = theirs.tensor
    values = to_float64("x", x)
    block, axis = _runs(tensor)
    ours = quantize(values, tensor.format, block=block, axis=axis)
    our_values = dequantize(ours, dtype=theirs.values.dtype)
    differs = ~_same_bits(our_values, theirs.values)
    counts = _reduce_blocks(np.add, differs.astype(np.int64), block, axis)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(our_values.astype(np.float64) - theirs.values.astype(np.float64))
    gaps = _reduce_blocks(np.maximum, np.where(differs, gaps, 0.0), block, axis)
    reasons = _reasons(values, ours, theirs, chosen)

    places = np.argwhere((counts > 0) | (ours.scales != tensor.scales))
    tally = Counter(reasons[tuple(places.T)].tolist())
    blocks = tuple(
        BlockDivergence(
            index=tuple(place),
            our_scale=int(ours.scales[tuple(place)]),
            their_scale=int(tensor.scales[tuple(place)]),
            elements=int(counts[tuple(place)]),
            largest_difference=float(gaps[tuple(place)]),
            reason=str(reasons[tuple(place)]),
        )
        for place in places[:limit].tolist()
    )
    return DivergenceReport(
        profile=chosen,
        format=tensor.format,
        block=block,
        axis=axis,
        total=ours.scales.size,
        reasons=MappingProxyType(dict(tally.most_common())),
        blocks=blocks,
    )
