"""Multipliers of two elements: exact, and rounded to the format of the adder tree."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib.wiring import In, Member, Out

from mxsafe.formats import FloatFormat
from mxsafe.products import OperandFormats
from mxsafe.rtl.arithmetic.bits import cleared, leading_one, named, select, truncated
from mxsafe.rtl.arithmetic.radix4 import multiply
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.mac.operand import SIDES, Operand, Side, factor_of, operand_layout
from mxsafe.rtl.mac.operand_decoder import OperandDecoder
from mxsafe.rtl.unit import Unit, place

__all__ = [
    "OperandMultiplier",
    "OperandMultiplierConfiguration",
    "Product",
    "RoundingMultiplier",
    "RoundingMultiplierConfiguration",
]


@dataclass(frozen=True)
class Product:
    """Widths and quantum of the exact product of two elements.

    Attributes
    ----------
    significand_bits : int
        Bits of the product of the significands (MXSF: 12).
    max_shift : int
        Largest shift of that product (MXSF: 12); the smallest is 0.
    magnitude_bits : int
        Bits of the largest product (MXSF: 24).
    quantum_exponent : int
        Exponent of its quantum, the product of both smallest positive values (MXSF: -22).
    """

    significand_bits: int
    max_shift: int
    magnitude_bits: int
    quantum_exponent: int

    @classmethod
    def of(cls, formats: OperandFormats) -> "Product":
        """The product of an element of each operand."""
        left, right = Operand.of(formats.a), Operand.of(formats.w)
        return cls(
            significand_bits=left.significand_bits + right.significand_bits,
            # The quantum is that of both smallest shifts, 1.
            max_shift=left.max_shift + right.max_shift - 2,
            magnitude_bits=formats.product_bits,
            quantum_exponent=formats.quantum_exponent,
        )

    @property
    def shift_bits(self) -> int:
        """Bits of the sum of both operands' shifts, which is that of the product plus 2."""
        return (self.max_shift + 2).bit_length()


def _significand_product(m: Module, formats: OperandFormats, a: Any, w: Any, *, dsp: bool) -> Value:
    """Product of the significands of two operands, with ``*`` or by digits."""
    if dsp:
        bits = Product.of(formats).significand_bits
        return named(m, "product", bits, a.significand * w.significand)
    if factor_of(formats, "a", dsp=dsp) == "triple":
        a, w = w, a
    return multiply(m, "product", a.gates, w.significand, w.triple)


@dataclass(frozen=True, kw_only=True)
class OperandMultiplierConfiguration(Configuration):
    """An `OperandMultiplier`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both operands, not both of integers. What is not finite gives any number.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.
    """

    unnamed = frozenset({"formats"})

    formats: OperandFormats
    dsp: bool = False

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.formats.name}_operand_multiplier"

    @property
    def product(self) -> Product:
        """Widths and quantum of the product."""
        return Product.of(self.formats)

    @property
    def properties(self) -> Mapping[str, Any]:
        """The weight of the product's lowest bit."""
        return {"quantum_exponent": self.product.quantum_exponent}


class OperandMultiplier(Unit[OperandMultiplierConfiguration]):
    """Product of two prepared operands as sign and fixed-point magnitude. Combinational.

    Attributes
    ----------
    a, w : In(struct)
        See `operand_layout`.
    sign : Out(1)
    magnitude : Out
        A multiple of the product of both smallest subnormals (MXSF: 24 bits, quantum ``2^-22``).
    """

    def ports(self) -> Mapping[str, Member]:
        """Operands and product."""
        config = self.config
        return {
            **{side: In(operand_layout(config.formats, side, dsp=config.dsp)) for side in SIDES},
            "sign": Out(1),
            "magnitude": Out(config.product.magnitude_bits),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, product = self.config, self.config.product
        significands = _significand_product(m, config.formats, self.a, self.w, dsp=config.dsp)
        shift = named(m, "shift", product.shift_bits, self.a.shift + self.w.shift)
        shifted = named(m, "shifted", None, significands << shift)
        m.d.comb += [
            self.sign.eq(self.a.sign ^ self.w.sign),
            # Both shifts count from 1, so the lowest two bits are always 0.
            self.magnitude.eq(shifted >> 2),
        ]
        return m


@dataclass(frozen=True, kw_only=True)
class RoundingMultiplierConfiguration(Configuration):
    """A `RoundingMultiplier`.

    Parameters
    ----------
    formats : OperandFormats
        Formats of both codes: floating-point elements.
    sum_format : FloatFormat
        Format that products are rounded to.
    finite : bool
        Codes for NaN and Inf come out as any number, and there is no `nan`; no matter for formats
        without such codes.
    dsp : bool
        Multiply with ``*``, which FPGA tools map to DSP blocks, instead of by digits.

    Raises
    ------
    ValueError
        If a format has integer elements.
    """

    unnamed = frozenset({"formats", "sum_format"})

    formats: OperandFormats
    sum_format: FloatFormat
    finite: bool = False
    dsp: bool = False

    def __post_init__(self) -> None:
        _ = self.formats.float_elements  # which refuses integers
        self._set(finite=self.finite and self.formats.has_special_codes)

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"{self.formats.name}_{self.sum_format.name}_multiplier"

    @property
    def product(self) -> Product:
        """Widths and quantum of the exact product."""
        return Product.of(self.formats)

    @property
    def flagged(self) -> bool:
        """Whether there is the output `nan`."""
        return self.formats.has_special_codes and not self.finite

    @property
    def excess(self) -> int:
        """Bits of the exact product below the new quantum; negative if they are missing."""
        return self.sum_format.quantum_exponent - self.product.quantum_exponent

    @property
    def most_drops(self) -> int:
        """Most low bits that rounding takes from a product of significands."""
        bits = self.product.significand_bits
        return min(max(bits - self.sum_format.precision, self.excess, 0), bits + 1)

    @property
    def rounded_bits(self) -> int:
        """Bits of a rounded product of significands."""
        bits = self.product.significand_bits
        # Whether the largest product of significands can round up to one more bit.
        largest = math.prod((1 << element.precision) - 1 for element in self.formats.float_elements)
        carries = largest + (1 << self.most_drops >> 1) >= 1 << bits
        return max(bits + carries, min(self.most_drops, bits) + 1)

    @property
    def magnitude_bits(self) -> int:
        """Bits of the largest product, rounded, as a multiple of the new quantum."""
        largest = math.prod(element.max_value for element in self.formats.float_elements)
        fraction, exponent = math.frexp(largest)
        precision = self.sum_format.precision
        significand = round(math.ldexp(fraction, precision))  # Python's ties go to even too
        shift = exponent - precision - self.sum_format.quantum_exponent
        return (significand << shift).bit_length()


class RoundingMultiplier(Unit[RoundingMultiplierConfiguration]):
    """Product of two element codes, rounded to nearest even in the adder tree's format.

    The result is *in place*: not packed into exponent and mantissa, but sign and fixed-point
    magnitude, a multiple of the smallest subnormal of `sum_format` with at most its number of
    significant bits. Combinational.

    Rounding comes before the shift, where the product is still narrow. With ``p`` significant
    bits kept, the low ``q`` bits go, ``q = max(bits of the product - p, bits below the smallest
    subnormal)``. ``half - 1`` is a run of ones below the guard bit, so adding it and the lowest
    kept bit rounds to nearest even without a sticky bit.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
        Also that of a zero.
    magnitude : Out
        A multiple of the smallest subnormal of `sum_format` (MXSF: 20 bits, quantum ``2^-18``).
    nan : Out(1)
        Only of a format with codes for NaN or Inf, unless `finite`: an operand is one; `magnitude`
        is then 0.
    """

    def ports(self) -> Mapping[str, Member]:
        """Codes and product."""
        config = self.config
        return {
            **{side: In(config.formats.of(side).width) for side in SIDES},
            "sign": Out(1),
            "magnitude": Out(config.magnitude_bits),
            **({"nan": Out(1)} if config.flagged else {}),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        left, right = (self._decoder(m, platform, side) for side in SIDES)
        product = _significand_product(m, config.formats, left, right, dsp=config.dsp)
        shift: Value = named(m, "shift", config.product.shift_bits, left.shift + right.shift)
        # Rounded first, while it is narrow, and shifted then: see `RoundingMultiplier`.
        kept = self._rounded(m, product, shift)
        surplus = config.excess + 2  # bits of the shifted product below the quantum of the result
        if (spare := surplus - config.product.significand_bits) > 0:
            # With less of a shift than that nothing is kept.
            bits = (config.product.max_shift + 2 - spare).bit_length()
            shift, surplus = truncated(m, "distance", bits, shift - spare), surplus - spare
        shifted = named(m, "shifted", None, kept << shift)
        m.d.comb += [
            self.sign.eq(left.sign ^ right.sign),
            self.magnitude.eq(shifted >> surplus if surplus > 0 else shifted << -surplus),
        ]
        if config.flagged:
            flags = (unit.nan for unit in (left, right) if unit.config.nan)
            m.d.comb += self.nan.eq(Cat(*flags).any())
        return m

    def _decoder(self, m: Module, platform: object, side: Side) -> OperandDecoder:
        """The decoder of one operand, with its code."""
        config = self.config
        decoder = OperandDecoder(
            format=config.formats.of(side),
            factor=factor_of(config.formats, side, dsp=config.dsp),
            nan=config.flagged,
        )
        place(m, platform, f"decode_{side}", decoder)
        m.d.comb += decoder.code.eq(getattr(self, side))
        return decoder

    def _rounded(self, m: Module, product: Value, shift: Value) -> Value:
        """The product of significands, its low bits rounded off before it is shifted."""
        config = self.config
        precision, most, width = config.sum_format.precision, config.most_drops, config.rounded_bits
        if not most:
            return product
        # drops[j]: at least j + 1 low bits go, for the precision or for the smallest subnormal.
        long = Cat(product[j + precision :].any() for j in range(most))
        # Both shifts are at least 1: below 2 there is nothing to compare with.
        levels = (config.excess - j + 2 for j in range(most))
        low = Cat(shift < level if level > 2 else Const(0, 1) for level in levels)
        too_long = named(m, "drops_for_precision", most, long)
        too_low = named(m, "drops_for_subnormals", most, low)
        drops = named(m, "drops", most, too_long | too_low)
        # drops[1:] is half of the new quantum less one: together with the lowest kept bit it
        # rounds to nearest even, with no sticky bit.
        tie_to_even = named(
            m, "tie_to_even", 1, select(leading_one(drops), product[1:].as_unsigned())
        )
        with_half = named(m, "with_half", None, product + drops[1:])
        rounded = truncated(m, "rounded", width, with_half + tie_to_even)
        # The low bits that are dropped hold what is left of the addition.
        return named(m, "kept", width, cleared(rounded, drops))
