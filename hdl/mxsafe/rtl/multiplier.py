"""Multipliers of two element codes: exact, and rounded to the format of the adder tree."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, MXFormat, require_finite_float
from mxsafe.rtl.bits import cleared, leading_one, named, select
from mxsafe.rtl.decoder import SIDES, Operand, OperandDecoder, operand_layout
from mxsafe.rtl.radix4 import multiply
from mxsafe.rtl.unit import Unit, describe, place

__all__ = ["ExactMultiplier", "OperandMultiplier", "Product", "RoundingMultiplier"]


@dataclass(frozen=True)
class Product:
    """Widths and unit of the exact product of two elements.

    Attributes
    ----------
    significand_bits : int
        Bits of the product of the significands (MXSF: 12).
    max_shift : int
        Largest shift of that product (MXSF: 12); the smallest is 0.
    unit_exponent : int
        Exponent of the unit, the square of the smallest subnormal (MXSF: -22).
    """

    significand_bits: int
    max_shift: int
    unit_exponent: int

    @classmethod
    def of(cls, element: FloatFormat) -> "Product":
        """The product of two elements of a format."""
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


def _multiply(
    m: Module, platform: object, fmt: MXFormat, product: Product, a: Value, w: Value
) -> tuple[Value, Signal, Signal]:
    """Decode two codes; return the sign, the product of the significands, and its shift plus 2."""
    left, right = OperandDecoder(format=fmt), OperandDecoder(format=fmt)
    place(m, platform, "decode_a", left)
    place(m, platform, "decode_w", right)
    m.d.comb += [left.code.eq(a), right.code.eq(w)]
    significands = named(
        m, "product", product.significand_bits, left.significand * right.significand
    )
    shift = named(m, "shift", (product.max_shift + 2).bit_length(), left.shift + right.shift)
    return left.sign ^ right.sign, significands, shift


class ExactMultiplier(Unit):
    """Product of two element codes as sign and fixed-point magnitude. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of both codes: floating-point elements without special codes.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
    magnitude : Out
        In units of the square of the smallest subnormal (MXSF: 24 bits, units of ``2^-22``).
    product : Product
        Widths and unit.

    Raises
    ------
    ValueError
        If the format has integer elements or codes for NaN and Inf.
    """

    def __init__(self, *, format: MXFormat) -> None:
        self.format = format
        self.product = Product.of(require_finite_float(format))
        super().__init__(
            {
                "a": In(format.element.width),
                "w": In(format.element.width),
                "sign": Out(1),
                "magnitude": Out(self.product.magnitude_bits),
            },
            module_name=f"{format.name}_multiplier",
            parameters={"format": format.name, "unit_exponent": self.product.unit_exponent},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sign, product, shift = _multiply(m, platform, self.format, self.product, self.a, self.w)
        m.d.comb += [self.sign.eq(sign), self.magnitude.eq((product << shift) >> 2)]
        return m


class OperandMultiplier(Unit):
    """Product of two prepared operands as sign and fixed-point magnitude. Combinational.

    Parameters
    ----------
    format : MXFormat
        Format of both operands: floating-point elements without special codes.

    Attributes
    ----------
    a, w : In(struct)
        See `operand_layout`.
    sign, magnitude : Out
        As for `ExactMultiplier`.
    """

    def __init__(self, *, format: MXFormat) -> None:
        self.product = Product.of(require_finite_float(format))
        super().__init__(
            {
                **{side: In(operand_layout(format, side)) for side in SIDES},
                "sign": Out(1),
                "magnitude": Out(self.product.magnitude_bits),
            },
            module_name=f"{format.name}_operand_multiplier",
            parameters={"format": format.name, "unit_exponent": self.product.unit_exponent},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
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
        Format of both codes: floating-point elements without special codes.
    sum_format : FloatFormat
        Format that products are rounded to.

    Attributes
    ----------
    a, w : In(width)
        Element codes.
    sign : Out(1)
        Also that of a zero.
    magnitude : Out
        In units of the smallest subnormal of `sum_format` (MXSF: 20 bits, units of ``2^-18``).

    Raises
    ------
    ValueError
        If the format has integer elements or codes for NaN and Inf.
    """

    def __init__(self, *, format: MXFormat, sum_format: FloatFormat) -> None:
        self.format = format
        self.sum_format = sum_format
        self.product = Product.of(require_finite_float(format))
        # Bits of the exact product below (positive) or missing above (negative) the new unit.
        self._excess = sum_format.quantum_exponent - self.product.unit_exponent
        significand_bits = self.product.significand_bits
        self._most_drops = max(significand_bits - sum_format.mantissa_bits - 1, self._excess, 0)
        # Whether the largest product of significands can round up to one more bit.
        largest = ((1 << significand_bits // 2) - 1) ** 2
        carries = largest + (1 << self._most_drops >> 1) >= 1 << significand_bits
        self._rounded_bits = max(significand_bits + carries, self._most_drops + 1)
        super().__init__(
            {
                "a": In(format.element.width),
                "w": In(format.element.width),
                "sign": Out(1),
                "magnitude": Out(self._rounded_bits + self.product.max_shift - self._excess),
            },
            module_name=f"{format.name}_{sum_format.name}_multiplier",
            parameters={
                "format": format.name,
                "sum_format": describe(sum_format),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sign, product, shift = _multiply(m, platform, self.format, self.product, self.a, self.w)
        precision = self.sum_format.mantissa_bits + 1
        most, width = self._most_drops, self._rounded_bits
        # drops[j]: at least j + 1 low bits go, for the precision or for the smallest subnormal.
        drops = named(
            m,
            "drops",
            most,
            Cat(
                product[j + precision :].any() | (shift < self._excess - j + 2) for j in range(most)
            ),
        )
        tie_to_even = named(
            m, "tie_to_even", 1, select(leading_one(drops), product[1:].as_unsigned())
        )
        rounded = named(m, "rounded", width, (product + drops[1:] + tie_to_even)[:width])
        kept = named(m, "kept", width, cleared(rounded, drops))
        shifted = kept << shift
        surplus = self._excess + 2  # bits of `shifted` below the unit of the result
        m.d.comb += [
            self.sign.eq(sign),
            self.magnitude.eq(shifted >> surplus if surplus > 0 else shifted << -surplus),
        ]
        return m
