"""Elements and their scales in operations of PyTorch, on any device.

The arithmetic is that of `mxsafe.codec.numba_engine`, written again: exponents are read from bits,
and an element is rounded in floating point, to the quantum of the binade that its exponent names.
To nearest even, a number whose last place is that quantum is added and subtracted. All of it is
exact or rounded once, so neither a compiler that fuses operations nor another order of them changes
a bit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from mxsafe.formats import E8M0, FloatFormat, IntFormat, MXFormat

_EMIN, _EMAX = -100, 100  # what is added to elements of these binades is still a float32


class Layout(NamedTuple):
    """A floating-point dtype, the integer dtype of its bits, and its fields."""

    real: torch.dtype
    integer: torch.dtype
    mantissa_bits: int
    bias: int

    @property
    def mantissa_mask(self) -> int:
        """Bits of the mantissa."""
        return (1 << self.mantissa_bits) - 1

    @property
    def exponent_mask(self) -> int:
        """Bits of the exponent field, which are also those of Inf."""
        return (2 * self.bias + 1) << self.mantissa_bits

    def field(self, exponent: int) -> int:
        """Bits of a power of two."""
        return (exponent + self.bias) << self.mantissa_bits


FLOAT32 = Layout(torch.float32, torch.int32, 23, 127)
FLOAT64 = Layout(torch.float64, torch.int64, 52, 1023)


class _Runs(NamedTuple):
    """Two runs of binades: numbers below `emin` have `sub_mantissa` bits, from `sub_emin` on.

    Formats with one mode say the same twice. An integer format is one binade, which all share.
    """

    mantissa: int
    emin: int
    sub_mantissa: int
    sub_emin: int


def supports(fmt: MXFormat) -> bool:
    """Whether the functions of this file are exact for a format: as those of all catalogues are."""
    element = fmt.element
    scale = fmt.scale
    if isinstance(scale, FloatFormat):
        if not fmt.tensor_scale or scale.mantissa_bits < 1 or scale.quantum_exponent < _EMIN:
            return False
    elif scale != E8M0:
        return False
    if element.quantum_exponent < _EMIN or fmt.emax > _EMAX or element.mantissa_bits < 1:
        return False
    if isinstance(element, FloatFormat) and element.sub is not None:
        top = (1 << element.sub.exponent_bits) - 1 - element.sub.bias
        return element.sub.mantissa_bits >= 1 and top == element.fields.min_exponent - 1
    return True


def _runs(element: FloatFormat | IntFormat) -> _Runs:
    if isinstance(element, IntFormat):
        return _Runs(element.mantissa_bits, element.emax, element.mantissa_bits, element.emax)
    fields, sub = element.fields, element.sub or element.fields
    return _Runs(fields.mantissa_bits, fields.min_exponent, sub.mantissa_bits, sub.min_exponent)


def rounded(
    magnitude: torch.Tensor,
    element: FloatFormat | IntFormat,
    rounding: str,
    words: torch.Tensor | None,
    layout: Layout,
) -> torch.Tensor:
    """Values of a format that magnitudes round to; beyond the largest they saturate.

    Parameters
    ----------
    magnitude : Tensor of `layout`
        Not negative; may be overwritten.
    element : FloatFormat or IntFormat
        The format.
    rounding : {"rne", "rna", "rtz", "sr"}
        See `mxsafe.encode`.
    words : Tensor of float64, optional
        Random words for ``sr``.
    layout : Layout
        Of `magnitude`; `FLOAT64` for ``sr``.
    """
    runs, bits = _runs(element), layout.mantissa_bits
    field = magnitude.view(layout.integer) & layout.exponent_mask
    up, sub_up = ((bits - mantissa) << bits for mantissa in (runs.mantissa, runs.sub_mantissa))
    lowest, sub_lowest = layout.field(runs.emin), layout.field(runs.sub_emin)
    if lowest == sub_lowest:
        unit_bits = field.clamp_min_(lowest).add_(up)
    else:  # PyTorch's `where` of integers is slower than arithmetic with the sign of a difference
        more = ((field - lowest) >> (layout.integer.itemsize * 8 - 1)) & (sub_up - up)
        unit_bits = field.clamp_min_(sub_lowest).add_(up).add_(more)
    unit = unit_bits.view(layout.real)  # 2^mantissa_bits quanta of the binade
    if rounding == "rne":
        return magnitude.add_(unit).sub_(unit).clamp_max_(element.max_value)
    per_unit = ((2 * layout.bias << bits) - unit_bits).view(layout.real)
    exact = (magnitude * 2.0**bits).mul_(per_unit)
    whole = exact.trunc()
    if rounding == "rna":
        whole = whole + (exact - whole >= 0.5).to(layout.real)
    elif rounding == "sr":
        assert words is not None
        whole = whole + (words < (exact - whole) * 2.0**32).to(layout.real)
    return (whole * 2.0**-bits).mul_(unit).clamp_max_(element.max_value)


def element_codes(
    values: torch.Tensor, element: FloatFormat | IntFormat, layout: Layout
) -> torch.Tensor:
    """Magnitude codes, as integers, of values of a format that are not negative."""
    runs, bits = _runs(element), layout.mantissa_bits
    drop, sub_drop = bits - runs.mantissa, bits - runs.sub_mantissa
    lowest, sub_lowest = layout.field(runs.emin), layout.field(runs.sub_emin)
    place = values.view(layout.integer)
    # Codes of normal numbers follow one another as bits of floats do.
    codes = ((place - lowest) >> drop) + (1 << runs.mantissa)
    if lowest != sub_lowest:
        sub_codes = ((place - sub_lowest) >> sub_drop) + (1 << runs.sub_mantissa)
        codes = torch.where(place < lowest, sub_codes, codes)
    quanta = (values * 2.0 ** (runs.sub_mantissa - runs.sub_emin)).to(layout.integer)
    return torch.where(place < sub_lowest, quanta, codes)


def powers(codes: torch.Tensor, sign: int, layout: Layout) -> torch.Tensor:
    """Scales of bytes of E8M0 (integers of `layout`), or with `sign` -1 their reciprocals.

    The byte of NaN gives NaN.
    """
    exponent = sign * (codes - E8M0.bias)
    field = (exponent + layout.bias) << layout.mantissa_bits
    if layout.real == torch.float32:  # 2^-127 is subnormal
        field = torch.where(exponent == -layout.bias, 1 << (layout.mantissa_bits - 1), field)
    nan = layout.exponent_mask | 1 << (layout.mantissa_bits - 1)
    return torch.where(codes == E8M0.nan_code, nan, field).view(layout.real)


def _carry(fmt: MXFormat, scale_mode: str, bits: int) -> int:
    """Smallest mantissa of a block's maximum for which its scale takes the next power of two."""
    element = fmt.element
    if scale_mode == "floor":
        return 1 << bits  # none
    if scale_mode == "ceil":
        return 1
    if scale_mode == "even":  # rounding up to the element's mantissa carries out of the binade
        return (1 << bits) - (1 << (bits - element.mantissa_bits - 1))
    return int((element.max_value / 2.0**element.emax - 1.0) * 2.0**bits) + 1


_SUBNORMALS = 64
"""Exponent of what makes a subnormal float32 a normal one."""


def scale_bytes(amax: torch.Tensor, fmt: MXFormat, scale_mode: str, layout: Layout) -> torch.Tensor:
    """Bytes of E8M0, as integers, from the largest magnitudes of blocks, NaN and Inf among them."""
    bits = layout.mantissa_bits
    lifted = amax
    if layout.real == torch.float32:  # the exponents of float64's subnormals are far below byte 0
        tiny = amax < 2.0 ** (1 - layout.bias)
        lifted = torch.where(tiny, amax * 2.0**_SUBNORMALS, amax)
    place = lifted.view(layout.integer)
    byte = (place >> bits) - (layout.bias + fmt.emax - E8M0.bias)
    if scale_mode != "floor":
        carries = (place & layout.mantissa_mask) >= _carry(fmt, scale_mode, bits)
        byte = byte + carries.to(layout.integer)
    if layout.real == torch.float32:
        byte = torch.where(tiny, byte - _SUBNORMALS, byte)
    byte = torch.where(amax == 0, 0, byte.clamp(0, E8M0.max_code))
    return torch.where(torch.isfinite(amax), byte, E8M0.nan_code)


# Scales with a mantissa: everything below is for NVFP4 and the like, and divides in float64.

_SCALE_BITS = 31


def _quotients(numerator: torch.Tensor, divisor: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Quotients as numbers of `layout` that round to a format as the exact ones do.

    They are on the same side of all numbers of 22 bits (float64: 44 bits) or fewer as the exact
    quotients, and equal such a number only if the exact ones do. Neither operand (float64) is
    negative; the divisor has at most 31 significant bits, or is Inf, and is not zero.

    A rounded quotient can only be wrong where it is such a number itself. There the products of the
    divisor with both its halves, of 22 bits each, are exact, so they tell whether anything is left
    over, and on which side.
    """
    narrow = layout.real == torch.float32
    # Beyond all formats; the power of two that is added to round it is still finite.
    far = 2.0**100 if narrow else 2.0**900
    quotient = (numerator / divisor).clamp_max_(far).to(layout.real)
    bits = quotient.view(layout.integer)
    spare = (1 << 2) - 1 if narrow else (1 << 9) - 1
    if narrow:
        left = numerator - quotient.double() * divisor
    else:
        high = (bits & -(1 << _SCALE_BITS)).view(layout.real)
        left = (numerator - high * divisor) - (quotient - high) * divisor
    whole = bits & spare == 0
    inexact = (whole & (left > 0)).to(layout.integer) - (whole & (left < 0)).to(layout.integer)
    return (bits + inexact).view(layout.real)


def scale_codes(
    amax: torch.Tensor, fmt: MXFormat, tensor_scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of scales with a mantissa, and the scales times that of the tensor.

    Parameters
    ----------
    amax : Tensor of float64
        Largest magnitudes of blocks, NaN and Inf among them.
    fmt : MXFormat
        The format.
    tensor_scale : Tensor of float64
        Scale of the tensor.
    """
    assert isinstance(fmt.scale, FloatFormat)
    finite = torch.isfinite(amax)
    divisor = fmt.element.max_value * tensor_scale
    wanted = _quotients(torch.where(finite, amax, 0.0), divisor, FLOAT64)
    scales = rounded(wanted, fmt.scale, "rne", None, FLOAT64)
    codes = torch.where(finite, element_codes(scales, fmt.scale, FLOAT64), fmt.nan_scale)
    return codes, torch.where(finite, scales, torch.nan) * tensor_scale


def scaled_by_quotient(
    magnitude: torch.Tensor, factors: torch.Tensor, layout: Layout
) -> torch.Tensor:
    """Magnitudes over their scales (both float64), as numbers of `layout` that round alike.

    0 under a scale of 0, and anything under one that is NaN.
    """
    return _quotients(magnitude, torch.where(factors > 0.0, factors, torch.inf), layout)


def largest_magnitude(values: torch.Tensor) -> torch.Tensor:
    """Largest finite magnitude, or 0, as float64 in a tensor of rank 0."""
    magnitude = values.abs()
    finite = torch.where(torch.isfinite(magnitude), magnitude, 0.0)
    return (finite.amax() if finite.numel() else finite.new_zeros(())).to(torch.float64)


def tensor_scale_of(amax: torch.Tensor, fmt: MXFormat) -> torch.Tensor:
    """Scale of a tensor from its largest finite magnitude (float64), see `mxsafe.quantize`.

    As float32 in a tensor of rank 0.
    """
    top = amax.new_tensor(fmt.scale.max_value * fmt.element.max_value)
    limits = torch.finfo(torch.float32)
    smallest = 2.0**-149
    quotient = _quotients(amax, top, FLOAT64).clamp(smallest, limits.max).to(torch.float32)
    return torch.where(amax == 0, 1.0, quotient)
