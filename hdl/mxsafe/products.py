"""Numbers that hold products of two operands and their sums: formats, widths and units.

Both the models and the hardware build on these facts; how numbers are rounded and added they
describe each for itself. Imports neither NumPy nor Amaranth.
"""

import math
from dataclasses import replace

from mxsafe.formats import FP12_E4M7, FloatFormat, IntFormat, MXFormat, element_format
from mxsafe.validation import require_power_of_two

__all__ = [
    "WIDEST_SUM",
    "exact_sum_bits",
    "fp12_format",
    "product_bits",
    "require_float",
    "signed_name",
]


def fp12_format(fmt: MXFormat, lanes: int) -> FloatFormat:
    """The format of products and sums in the adder tree of arithmetic ``fp12``.

    It is E4M7 with the largest bias that leaves room for `lanes` times the largest product. So
    whatever the elements are, no sum overflows, and the smallest subnormal lies 22 binades below
    the top. For four lanes of MXSF that is the paper's, `FP12_E4M7`; others are called after their
    bias, ``fp12_bias8`` or, where it is negative, ``fp12_biasm4``.

    Parameters
    ----------
    fmt : MXFormat
        Format of both operands: floating-point elements.
    lanes : int
        Products that are added, a power of two. Rounding them, and their sums in pairs, never
        passes the largest value.

    Raises
    ------
    ValueError
        If the elements are integers, or so large or small that binary32 cannot hold every product;
        or `lanes` is not a power of two.
    TypeError
        If `fmt` is not a specification.
    """
    element = require_float(fmt)
    lanes = require_power_of_two("lanes", lanes)
    if element.emax > _FP12_EMAX or element.quantum_exponent < _FP12_QUANTUM:
        raise ValueError(
            f"format must have elements that are multiples of 2^{_FP12_QUANTUM} below "
            f"2^{_FP12_EMAX + 1} for arithmetic fp12, not {fmt.name} with multiples of "
            f"2^{element.quantum_exponent} below 2^{element.emax + 1}"
        )
    fraction, exponent = math.frexp(lanes * element.max_value**2)
    fields = FP12_E4M7.fields
    largest_fraction = 1 - 2.0 ** -(fields.mantissa_bits + 1)
    top_exponent = exponent - (fraction <= largest_fraction)
    bias = (1 << fields.exponent_bits) - 1 - top_exponent
    if bias == fields.bias:
        return FP12_E4M7
    name = f"{FP12_E4M7.name}_bias{signed_name(bias)}"
    return FloatFormat(name=name, fields=replace(fields, bias=bias))


_FP12_EMAX, _FP12_QUANTUM = 48, -64  # within them binary32 holds products and sums exactly


def product_bits(element: FloatFormat | IntFormat) -> int:
    """Bits of the magnitude of the product of two finite elements, exact.

    In units of the square of the smallest positive value. That of integers is the product of the
    two most negative codes.
    """
    if isinstance(element, IntFormat):
        return 2 * element.width - 1
    return 2 * (element.emax + 1 - element.quantum_exponent)


WIDEST_SUM = 80
"""Most bits that the magnitude of an exact sum may have: enough for a block of E5M2 of 65,536."""


def exact_sum_bits(fmt: MXFormat, products: int) -> int:
    """Bits of the magnitude of an exact sum of products.

    Parameters
    ----------
    fmt : MXFormat
        Format of both operands.
    products : int
        How many are added.

    Raises
    ------
    ValueError
        If there are more bits than `WIDEST_SUM`.
    """
    bits = product_bits(fmt.element) + (products - 1).bit_length()
    if bits > WIDEST_SUM:
        raise ValueError(
            f"the sum of {products} products of {fmt.name} must have at most {WIDEST_SUM} bits, "
            f"not {bits}"
        )
    return bits


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
