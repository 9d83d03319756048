"""Multipliers of two element codes: exact, and rounded to the format of the adder tree."""

import math
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, IntFormat, MXFormat, element_format, has_special_codes
from mxsafe.products import product_bits, require_float
from mxsafe.rtl.arithmetic.bits import cleared, leading_one, named, select
from mxsafe.rtl.arithmetic.radix4 import digit_gates, multiply, upper_triple
from mxsafe.rtl.arithmetic.signed_sum import Term
from mxsafe.rtl.mac.decoder import (
    SIDES,
    Operand,
    OperandDecoder,
    finite_parameter,
    finite_suffix,
    operand_layout,
)
from mxsafe.rtl.unit import Unit, describe, dsp_parameter, place

__all__ = [
    "ExactMultiplier",
    "OperandMultiplier",
    "Product",
    "RoundingMultiplier",
    "product_term",
]


@dataclass(frozen=True)
class Product:
    """Widths and unit of the exact product of two elements.

    Attributes
    ----------
    significand_bits : int
        Bits of the product of the significands (MXSF: 12); of integers, of the product's magnitude.
    max_shift : int
        Largest shift of that product (MXSF: 12); the smallest is 0. 0 of integers.
    unit_exponent : int
        Exponent of the unit, the square of the smallest positive value (MXSF: -22).
    """

    significand_bits: int
    max_shift: int
    unit_exponent: int

    @classmethod
    def of(cls, element: FloatFormat | IntFormat) -> "Product":
        """The product of two elements of a format."""
        if isinstance(element, IntFormat):
            return cls(
                significand_bits=product_bits(element),
                max_shift=0,
                unit_exponent=2 * element.quantum_exponent,
            )
        operand = Operand.of(element)
        return cls(
            significand_bits=2 * operand.significand_bits,
            max_shift=2 * (operand.max_shift - 1),  # the unit is that of both smallest shifts, 1
            unit_exponent=2 * (operand.unit_exponent + 1),
        )

    @property
    def magnitude_bits(self) -> int:
        """Bits of the largest product (MXSF: 24)."""
        return self.significand_bits + self.max_shift


@dataclass(frozen=True)
class _Factors:
    """Two codes decoded and multiplied, but not shifted yet."""

    sign: Value
    significands: Signal
    shift: Signal
    nan: Value


def _multiply(
    m: Module,
    platform: object,
    fmt: MXFormat,
    product: Product,
    a: Value,
    w: Value,
    *,
    finite: bool = False,
    dsp: bool = False,
) -> _Factors:
    """Decode two codes; the product of their significands, and its shift plus 2."""
    left, right = (OperandDecoder(format=fmt, finite=finite) for _ in range(2))
    place(m, platform, "decode_a", left)
    place(m, platform, "decode_w", right)
    m.d.comb += [left.code.eq(a), right.code.eq(w)]
    significands: Value = left.significand * right.significand
    if not dsp:
        gates, triple = digit_gates(left.significand), upper_triple(right.significand)
        significands = multiply(m, "by_digits", gates, right.significand, triple)
    significands = named(m, "product", product.significand_bits, significands)
    shift = named(m, "shift", (product.max_shift + 2).bit_length(), left.shift + right.shift)
    flagged = has_special_codes(fmt) and not finite
    nan = left.nan | right.nan if flagged else Const(0, 1)
    return _Factors(left.sign ^ right.sign, significands, shift, nan)


class ExactMultiplier(Unit):
    """Product of two element codes as sign and fixed-point magnitude. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of both codes: floating-point elements.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
    magnitude : Out
        In units of the square of the smallest subnormal (MXSF: 24 bits, units of ``2^-22``).
    nan : Out(1)
        Only of a format with codes for NaN or Inf: an operand is one; `magnitude` is then 0.
    product : Product
        Widths and unit.

    Raises
    ------
    ValueError
        If the format has integer elements.
    """

    def __init__(self, *, format: MXFormat, dsp: bool = False) -> None:
        self.format = format
        self._dsp = dsp
        self.product = Product.of(element_format(format))
        super().__init__(
            {
                "a": In(format.element.width),
                "w": In(format.element.width),
                "sign": Out(1),
                "magnitude": Out(self.product.magnitude_bits),
                **({"nan": Out(1)} if has_special_codes(format) else {}),
            },
            module_name=f"{format.name}_multiplier" + ("_dsp" if dsp else ""),
            parameters={
                "format": format.name,
                "unit_exponent": self.product.unit_exponent,
                **dsp_parameter(dsp),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factors = _multiply(m, platform, self.format, self.product, self.a, self.w, dsp=self._dsp)
        m.d.comb += [
            self.sign.eq(factors.sign),
            self.magnitude.eq((factors.significands << factors.shift) >> 2),
        ]
        if has_special_codes(self.format):
            m.d.comb += self.nan.eq(factors.nan)
        return m


class OperandMultiplier(Unit):
    """Product of two prepared operands as sign and fixed-point magnitude. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of both operands: floating-point elements. What is not finite gives any number.
    dsp : bool
        See `ExactMultiplier`.

    Attributes
    ----------
    a, w : In(struct)
        See `operand_layout`.
    sign, magnitude : Out
        As for `ExactMultiplier`.
    """

    def __init__(self, *, format: MXFormat, dsp: bool = False) -> None:
        self._dsp = dsp
        self.product = Product.of(element_format(format))
        super().__init__(
            {
                **{side: In(operand_layout(format, None if dsp else side)) for side in SIDES},
                "sign": Out(1),
                "magnitude": Out(self.product.magnitude_bits),
            },
            module_name=f"{format.name}_operand_multiplier" + ("_dsp" if dsp else ""),
            parameters={
                "format": format.name,
                "unit_exponent": self.product.unit_exponent,
                **dsp_parameter(dsp),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self._dsp:
            bits = self.product.significand_bits
            product: Value = named(m, "product", bits, self.a.significand * self.w.significand)
        else:
            product = multiply(m, "product", self.a.gates, self.w.significand, self.w.triple)
        shift = named(
            m, "shift", (self.product.max_shift + 2).bit_length(), self.a.shift + self.w.shift
        )
        m.d.comb += [
            self.sign.eq(self.a.sign ^ self.w.sign),
            self.magnitude.eq((product << shift) >> 2),
        ]
        return m


class RoundingMultiplier(Unit):
    """Product of two element codes, rounded to nearest even in the adder tree's format.

    The result is *in place*: not packed into exponent and mantissa, but sign and fixed-point
    magnitude, a multiple of the smallest subnormal of `sum_format` with at most its number of
    significant bits. Combinational.

    Rounding comes before the shift, where the product is still narrow. With ``p`` significant
    bits kept, the low ``q`` bits go, ``q = max(bits of the product - p, bits below the smallest
    subnormal)``. ``half - 1`` is a run of ones below the guard bit, so adding it and the lowest
    kept bit rounds to nearest even without a sticky bit.

    Parameters
    ----------
    format : MXFormat
        Format of both codes: floating-point elements.
    sum_format : FloatFormat
        Format that products are rounded to.
    finite, dsp : bool
        See `OperandDecoder` and `ExactMultiplier`.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
        Also that of a zero.
    magnitude : Out
        In units of the smallest subnormal of `sum_format` (MXSF: 20 bits, units of ``2^-18``).
    nan : Out(1)
        Only of a format with codes for NaN or Inf, unless `finite`: an operand is one; `magnitude`
        is then 0.

    Raises
    ------
    ValueError
        If the format has integer elements.
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        sum_format: FloatFormat,
        finite: bool = False,
        dsp: bool = False,
    ) -> None:
        element = require_float(format)
        self.format = format
        self.sum_format = sum_format
        self._finite = finite
        self._dsp = dsp
        self._flagged = has_special_codes(format) and not finite
        self.product = Product.of(element)
        # Bits of the exact product below (positive) or missing above (negative) the new unit.
        self._excess = sum_format.quantum_exponent - self.product.unit_exponent
        significand_bits = self.product.significand_bits
        self._most_drops = min(
            max(significand_bits - sum_format.mantissa_bits - 1, self._excess, 0),
            significand_bits + 1,
        )
        # Whether the largest product of significands can round up to one more bit.
        largest = ((1 << significand_bits // 2) - 1) ** 2
        carries = largest + (1 << self._most_drops >> 1) >= 1 << significand_bits
        self._rounded_bits = max(
            significand_bits + carries, min(self._most_drops, significand_bits) + 1
        )
        super().__init__(
            {
                "a": In(format.element.width),
                "w": In(format.element.width),
                "sign": Out(1),
                "magnitude": Out(_largest_product(element, sum_format).bit_length()),
                **({"nan": Out(1)} if self._flagged else {}),
            },
            module_name=f"{format.name}{finite_suffix(format, finite)}_{sum_format.name}"
            "_multiplier" + ("_dsp" if dsp else ""),
            parameters={"format": format.name, "sum_format": describe(sum_format)}
            | finite_parameter(format, finite)
            | dsp_parameter(dsp),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factors = _multiply(
            m,
            platform,
            self.format,
            self.product,
            self.a,
            self.w,
            finite=self._finite,
            dsp=self._dsp,
        )
        product, shift = factors.significands, factors.shift
        precision = self.sum_format.mantissa_bits + 1
        most, width = self._most_drops, self._rounded_bits
        kept: Value = product
        if most:
            # drops[j]: at least j + 1 low bits go, for the precision or for the smallest subnormal.
            drops = named(
                m,
                "drops",
                most,
                Cat(
                    product[j + precision :].any() | (shift < self._excess - j + 2)
                    for j in range(most)
                ),
            )
            tie_to_even = named(
                m, "tie_to_even", 1, select(leading_one(drops), product[1:].as_unsigned())
            )
            rounded = named(m, "rounded", width, (product + drops[1:] + tie_to_even)[:width])
            kept = named(m, "kept", width, cleared(rounded, drops))
        surplus = self._excess + 2  # bits of the shifted product below the unit of the result
        if (spare := surplus - self.product.significand_bits) > 0:
            # With less of a shift than that nothing is kept.
            bits = (self.product.max_shift + 2 - spare).bit_length()
            shift, surplus = named(m, "distance", bits, (shift - spare)[:bits]), surplus - spare
        shifted = kept << shift
        m.d.comb += [
            self.sign.eq(factors.sign),
            self.magnitude.eq(shifted >> surplus if surplus > 0 else shifted << -surplus),
        ]
        if self._flagged:
            m.d.comb += self.nan.eq(factors.nan)
        return m


def _largest_product(element: FloatFormat, sum_format: FloatFormat) -> int:
    """The largest product, rounded, in units of the smallest subnormal of the sums' format."""
    fraction, exponent = math.frexp(element.max_value**2)
    precision = sum_format.mantissa_bits + 1
    significand = round(math.ldexp(fraction, precision))  # Python's ties go to even too
    return significand << (exponent - precision - sum_format.quantum_exponent)


def product_term(
    m: Module,
    platform: object,
    name: str,
    fmt: MXFormat,
    a: Value,
    w: Value,
    *,
    dsp: bool = False,
) -> tuple[Term, Value]:
    """The exact product of two element codes as a term, and whether one of them is NaN or Inf.

    Parameters
    ----------
    m : amaranth.hdl.Module
        The module being elaborated.
    platform : object
        The platform that `elaborate` was given.
    name : str
        Name of the multiplier in it.
    fmt : MXFormat
        Format of both codes.
    a, w : Value
        Element codes.
    dsp : bool
        See `ExactMultiplier`.
    """
    element = fmt.element
    if isinstance(element, IntFormat):
        shape = signed(Product.of(element).magnitude_bits + 1)
        return (named(m, name, shape, a.as_signed() * w.as_signed()), Const(0, 1)), Const(0, 1)
    multiply = ExactMultiplier(format=fmt, dsp=dsp)
    place(m, platform, name, multiply)
    m.d.comb += [multiply.a.eq(a), multiply.w.eq(w)]
    nan = multiply.nan if has_special_codes(fmt) else Const(0, 1)
    return (multiply.magnitude, multiply.sign), nan
