"""Numbers that hold products of two operands and their sums: formats, widths and quanta.

`OperandFormats` says what the two operands of a product are, and all that follows from it. Both the
models and the hardware build on these facts; how numbers are rounded and added they describe each
for itself. Imports neither NumPy nor Amaranth.
"""

import math
import operator
from dataclasses import dataclass, fields, replace
from typing import Literal

from mxsafe.formats import (
    E8M0,
    FP12_E4M7,
    FloatFormat,
    IntFormat,
    MXFormat,
    element_format,
    has_special_codes,
)
from mxsafe.validation import require_power_of_two

__all__ = [
    "WIDEST_SUM",
    "OperandFormats",
    "exact_sum_bits",
    "fp12_format",
    "product_bits",
    "require_float",
    "require_scale",
    "signed_name",
]

WIDEST_SUM = 80
"""Most bits that the magnitude of an exact sum may have: enough for a block of E5M2 of 65,536."""

_FP12_EMAX, _FP12_QUANTUM = 48, -64  # within them binary32 holds products and sums exactly


def _magnitude_bits(element: FloatFormat | IntFormat) -> int:
    """Exponent of a power of two that no finite element exceeds, counted in its quanta.

    Only the most negative integer reaches it; everything else is less, hence has so many bits.
    """
    if isinstance(element, IntFormat):
        return element.width - 1
    return element.emax + 1 - element.quantum_exponent


def require_scale(name: str, fmt: MXFormat) -> None:
    """Refuse an operand whose scales the hardware cannot add; the one place that says which.

    Raises
    ------
    ValueError
        If its scales are not E8M0. The scales of two blocks are multiplied by adding their codes.
    """
    if fmt.scale != E8M0:
        raise ValueError(
            f"{name} must have scales of {E8M0.name}, whose codes the hardware adds, "
            f"not of {fmt.scale.name} as {fmt.name} has"
        )


@dataclass(frozen=True)
class OperandFormats:
    """What the two operands of a product are: the one place that says so.

    Parameters
    ----------
    a, w : MXFormat
        Format of each operand, elements and scales: of `a`, whose rows are multiplied with the
        columns of `w`.

    Raises
    ------
    TypeError
        If one of them is not a specification.
    ValueError
        If their scales are not both E8M0.
    """

    a: MXFormat
    w: MXFormat

    def __post_init__(self) -> None:
        for field in fields(self):
            fmt = getattr(self, field.name)
            if not isinstance(fmt, MXFormat):
                raise TypeError(f"{field.name} must be an MXFormat, not {type(fmt).__name__}")
            require_scale(field.name, fmt)

    @classmethod
    def same(cls, fmt: MXFormat) -> "OperandFormats":
        """Both operands in one format.

        Raises
        ------
        TypeError, ValueError
            If it is not a specification, or its scales are not E8M0.
        """
        element_format(fmt)
        return cls(fmt, fmt)

    def of(self, side: Literal["a", "w"]) -> MXFormat:
        """Format of one operand."""
        return self.a if side == "a" else self.w

    @property
    def name(self) -> str:
        """Name of the format, or of both."""
        return self.a.name if self.a == self.w else f"{self.a.name}_{self.w.name}"

    @property
    def has_special_codes(self) -> bool:
        """Whether a code of an operand stands for NaN or Inf."""
        return has_special_codes(self.a) or has_special_codes(self.w)

    @property
    def quantum_exponent(self) -> int:
        """Every product is an integer multiple of ``2^quantum_exponent`` (MXSF: -22)."""
        return self.a.element.quantum_exponent + self.w.element.quantum_exponent

    @property
    def product_bits(self) -> int:
        """Bits of the magnitude of a product of two finite elements, exact (MXSF: 24).

        In quanta of the product. Of two integer formats the largest product is that of the two most
        negative codes.
        """
        both_reach_it = all(isinstance(fmt.element, IntFormat) for fmt in (self.a, self.w))
        return _magnitude_bits(self.a.element) + _magnitude_bits(self.w.element) + both_reach_it

    def sum_bits(self, products: int) -> int:
        """Bits of the magnitude of an exact sum of products, in quanta of the product.

        Parameters
        ----------
        products : int
            How many are added.

        Raises
        ------
        ValueError
            If there are more bits than `WIDEST_SUM`.
        """
        products = operator.index(products)
        bits = self.product_bits + (products - 1).bit_length()
        if bits > WIDEST_SUM:
            names = self.a.name if self.a == self.w else f"{self.a.name} and {self.w.name}"
            raise ValueError(
                f"the sum of {products} products of {names} must have at most {WIDEST_SUM} bits, "
                f"not {bits}"
            )
        return bits

    def fp12_format(self, lanes: int) -> FloatFormat:
        """The format of products and sums in the adder tree of arithmetic ``fp12``.

        It is E4M7 with the largest bias that leaves room for `lanes` times the largest product. So
        whatever the elements are, no sum overflows, and the smallest subnormal lies 22 binades
        below the top. For four lanes of MXSF that is the paper's, `FP12_E4M7`; others are called
        after their bias, ``fp12_bias8`` or, where it is negative, ``fp12_biasm4``.

        Parameters
        ----------
        lanes : int
            Products that are added, a power of two. Rounding them, and their sums in pairs, never
            passes the largest value.

        Raises
        ------
        ValueError
            If elements are integers, or so large or small that binary32 cannot hold every product;
            or `lanes` is not a power of two.
        """
        a, w = require_float(self.a), require_float(self.w)
        lanes = require_power_of_two("lanes", lanes)
        for fmt, element in ((self.a, a), (self.w, w)):
            if element.emax > _FP12_EMAX or element.quantum_exponent < _FP12_QUANTUM:
                raise ValueError(
                    f"format must have elements that are multiples of 2^{_FP12_QUANTUM} below "
                    f"2^{_FP12_EMAX + 1} for arithmetic fp12, not {fmt.name} with multiples of "
                    f"2^{element.quantum_exponent} below 2^{element.emax + 1}"
                )
        fraction, exponent = math.frexp(lanes * a.max_value * w.max_value)
        fields = FP12_E4M7.fields
        largest_fraction = 1 - 2.0 ** -(fields.mantissa_bits + 1)
        top_exponent = exponent - (fraction <= largest_fraction)
        bias = (1 << fields.exponent_bits) - 1 - top_exponent
        if bias == fields.bias:
            return FP12_E4M7
        name = f"{FP12_E4M7.name}_bias{signed_name(bias)}"
        return FloatFormat(name=name, fields=replace(fields, bias=bias))


def fp12_format(fmt: MXFormat, lanes: int) -> FloatFormat:
    """The format of the adder tree for operands in one format, see `OperandFormats.fp12_format`.

    Raises
    ------
    TypeError, ValueError
        As there, and if `fmt` is not a specification.
    """
    return OperandFormats.same(fmt).fp12_format(lanes)


def product_bits(element: FloatFormat | IntFormat) -> int:
    """Bits of the magnitude of the product of two elements, see `OperandFormats.product_bits`."""
    return 2 * _magnitude_bits(element) + isinstance(element, IntFormat)


def exact_sum_bits(fmt: MXFormat, products: int) -> int:
    """Bits of an exact sum for operands in one format, see `OperandFormats.sum_bits`.

    Raises
    ------
    TypeError, ValueError
        As there, and if `fmt` is not a specification.
    """
    return OperandFormats.same(fmt).sum_bits(products)


def require_float(fmt: MXFormat) -> FloatFormat:
    """Element format of a format that the adder tree of arithmetic ``fp12`` can take.

    Raises
    ------
    ValueError
        If the elements are integers.
    TypeError
        If `fmt` is not a specification.
    """
    element = element_format(fmt)
    if not isinstance(element, FloatFormat):
        raise ValueError(
            f"format must have floating-point elements for arithmetic fp12, not {fmt.name}: "
            "products of integers are integers, which arithmetic exact adds without loss and in "
            "less hardware"
        )
    return element


def signed_name(number: int) -> str:
    """A number as part of a name: ``m`` stands for minus."""
    return f"m{-number}" if number < 0 else str(number)
