"""Numbers that hold products of two operands and their sums: formats, widths and quanta.

`OperandFormats` says what the two operands of a product are, and all that follows from it. Both the
models and the hardware build on these facts; how numbers are rounded and added they describe each
for itself. Imports neither NumPy nor Amaranth.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from mxsafe.formats import (
    E8M0,
    FP12_E4M7,
    FloatFormat,
    FormatSet,
    IntFormat,
    MXFormat,
    element_format,
    has_special_codes,
)
from mxsafe.validation import (
    Wide,
    about,
    checked,
    require_count,
    require_integer,
    require_power_of_two,
    shown,
)

WIDEST_SUM = 80
"""Most bits that the magnitude of an exact sum may have: enough for a block of E5M2 of 65,536."""

LEAST_WINDOW, WIDEST_WINDOW = 16, 53
"""Bits that the outputs of arithmetic ``window`` may have; float64 holds the largest."""

DEFAULT_WINDOW, DEFAULT_INNER = 32, 4096
"""Bits of an output of arithmetic ``window``, and most products that it holds, by default."""

WIDEST_ELEMENT = 52
"""Most bits that the magnitude of one of its elements may have; E5M2, the widest of OCP, has 32."""

_FP12_EMAX, _FP12_QUANTUM = 48, -64  # within them binary32 holds products and sums exactly


def _is_integer(fmt: MXFormat | FormatSet) -> bool:
    return isinstance(fmt, MXFormat) and isinstance(fmt.element, IntFormat)


def _quantum_exponent(fmt: MXFormat | FormatSet) -> int:
    return fmt.quantum_exponent if isinstance(fmt, FormatSet) else fmt.element.quantum_exponent


def _magnitude_bits(fmt: MXFormat | FormatSet) -> int:
    """Exponent of a power of two that no finite element exceeds, counted in its quanta.

    Only the most negative integer reaches it; everything else is less, hence has so many bits.
    """
    if isinstance(fmt, FormatSet):
        return 1 - fmt.quantum_exponent
    if isinstance(fmt.element, IntFormat):
        return fmt.element.width - 1
    return fmt.emax + 1 - fmt.element.quantum_exponent


def _largest(fmt: MXFormat | FormatSet) -> int:
    """The largest magnitude of a finite element, in its quanta."""
    if isinstance(fmt, FormatSet):
        return (1 << _magnitude_bits(fmt)) - 1
    if isinstance(fmt.element, IntFormat):
        return 1 << (fmt.element.width - 1)
    return int(math.ldexp(fmt.element.max_value, -fmt.element.quantum_exponent))


@checked
def require_scale(name: str, fmt: MXFormat | FormatSet) -> None:
    """Refuse a format whose scales the hardware does not take; the one place that says which.

    The models multiply scales of any format.

    Raises
    ------
    ValueError
        If its scales are not E8M0. The array multiplies the scales of two blocks by adding their
        codes, and the converter takes those of its results from exponents.
    """
    if fmt.scale != E8M0:
        raise ValueError(
            f"{name} must have scales of {E8M0.name}, which the hardware takes, "
            f"not of {fmt.scale.name} as {fmt.name} has"
        )


@dataclass(frozen=True)
class OperandFormats:
    """Formats of the two operands of a product: the one place that says so.

    Parameters
    ----------
    a, w : MXFormat or FormatSet
        Format of each operand, elements and scales: of `a`, whose rows are multiplied with the
        columns of `w`. Of a set, elements count relative to ``2^emax`` of their format.

    Raises
    ------
    TypeError
        If one of them is not a specification.
    """

    a: MXFormat | FormatSet
    w: MXFormat | FormatSet

    def __post_init__(self) -> None:
        for field in fields(self):
            fmt = getattr(self, field.name)
            if not isinstance(fmt, MXFormat | FormatSet):
                raise TypeError(
                    f"{field.name} must be an MXFormat or a FormatSet, not {type(fmt).__name__}"
                )

    @classmethod
    def same(cls, format: MXFormat | FormatSet) -> "OperandFormats":
        """Both operands in one format.

        Raises
        ------
        TypeError
            If it is not a specification.
        """
        if not isinstance(format, FormatSet):
            element_format(format)
        return cls(format, format)

    @checked
    def of(self, side: Literal["a", "w"]) -> MXFormat | FormatSet:
        """Format of one operand.

        Raises
        ------
        ValueError
            If there is no such operand.
        """
        return self.a if side == "a" else self.w

    @property
    def name(self) -> str:
        """Name of the format, or of both; part of the names of modules."""
        return self.a.name if self.a == self.w else f"{self.a.name}_{self.w.name}"

    @property
    def label(self) -> str:
        """Name of the format, or of both, in a sentence."""
        return self.a.name if self.a == self.w else f"{self.a.name} and {self.w.name}"

    @property
    def has_integers(self) -> bool:
        """Whether both operands are integers, which need no decoding."""
        return _is_integer(self.a) and _is_integer(self.w)

    @checked
    def element_bits(self, side: Literal["a", "w"]) -> int:
        """Bits of the magnitude of an element of one operand, in its quanta (MXSF: 12).

        Raises
        ------
        ValueError
            If there is no such operand.
        """
        return _magnitude_bits(self.of(side))

    @property
    def has_special_codes(self) -> bool:
        """Whether a code of an operand stands for NaN or Inf."""
        return has_special_codes(self.a) or has_special_codes(self.w)

    @property
    def quantum_exponent(self) -> int:
        """Every product is an integer multiple of ``2^quantum_exponent`` (MXSF: -22)."""
        return _quantum_exponent(self.a) + _quantum_exponent(self.w)

    @property
    def product_bits(self) -> int:
        """Bits of the magnitude of a product of two finite elements, exact (MXSF: 24).

        In quanta of the product. Of two integer formats the largest product is that of the two most
        negative codes.
        """
        return _magnitude_bits(self.a) + _magnitude_bits(self.w) + self.has_integers

    def sum_bits(self, products: int) -> int:
        """Bits of the magnitude of an exact sum of products, in quanta of the product.

        Parameters
        ----------
        products : int
            How many are added, from 0 on.

        Raises
        ------
        ValueError
            If a parameter is not as above, there are more bits than `WIDEST_SUM`, or an element
            has more than `WIDEST_ELEMENT`.
        """
        products = require_count("products", products)
        bits = self.product_bits + (products - 1).bit_length()
        if bits > WIDEST_SUM:
            raise ValueError(
                f"products must have sums of at most {WIDEST_SUM} bits, not {shown(products)} of "
                f"{self.label} with {bits}"
            )
        for side in ("a", "w"):
            if (wide := self.element_bits(side)) > WIDEST_ELEMENT:
                raise ValueError(
                    f"elements of {self.of(side).name} must have at most {WIDEST_ELEMENT} bits for "
                    f"exact sums, not {wide}"
                )
        return bits

    def window_exponent(self, window: int, inner: int) -> int:
        """Exponent of the weight of a window's lowest bit, where both scales are 1.

        A sum of `inner` products at its anchor just fits the window, see `mxsafe.model.window`.

        Parameters
        ----------
        window : int
            Bits of the window, sign included: 16 to 53.
        inner : int
            Most products that are added up, from 0 on.

        Raises
        ------
        ValueError
            If a parameter is not as above, the window is too narrow for the rounding of so many
            products, or `sum_bits` refuses them.
        """
        window = require_integer("window", window, LEAST_WINDOW, WIDEST_WINDOW)
        with about(products="inner"):
            cut = self.sum_bits(inner) + 1 - window  # bits below the window of a sum at its anchor
        spare = (1 << self.product_bits) - _largest(self.a) * _largest(self.w)
        # Half a unit a product, which rounding may add, must not take a sum past the top.
        if cut > 0 and 1 << (cut - 1) >= spare:
            least = self.sum_bits(inner) + 1 - (spare - 1).bit_length()
            raise ValueError(
                f"window must be at least {least} for {inner} products of {self.label}, "
                f"not {window}"
            )
        return self.quantum_exponent + cut

    def require_scales(self) -> None:
        """Refuse operands whose scales the hardware does not take, see `require_scale`."""
        require_scale("format", self.a)
        require_scale("format_w", self.w)

    @property
    def float_elements(self) -> tuple[FloatFormat, FloatFormat]:
        """Formats of the elements of both operands, for arithmetic ``fp12``.

        Raises
        ------
        ValueError
            If one has integers, or is a set of formats.
        """
        return require_float("format", self.a), require_float("format_w", self.w)

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
        a, w = self.float_elements
        lanes = require_power_of_two("lanes", lanes)
        for operand, name, element in (
            ("format", self.a.name, a),
            ("format_w", self.w.name, w),
        ):
            if element.emax > _FP12_EMAX or element.quantum_exponent < _FP12_QUANTUM:
                raise ValueError(
                    f"{operand} must have elements that are multiples of 2^{_FP12_QUANTUM} below "
                    f"2^{_FP12_EMAX + 1} for arithmetic fp12, not {name} with multiples of "
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


@checked
def require_float(name: str, fmt: MXFormat | FormatSet) -> FloatFormat:
    """Element format of a format that the adder tree of arithmetic ``fp12`` can take.

    Raises
    ------
    ValueError
        If the elements are integers, or `fmt` is a set of formats.
    TypeError
        If `fmt` is not a specification.
    """
    if isinstance(fmt, FormatSet):
        raise ValueError(
            f"{name} must be a single one for arithmetic fp12, not the set {fmt.name}: the bias of "
            "its sums follows from the formats of the operands"
        )
    element = element_format(fmt)
    if not isinstance(element, FloatFormat):
        raise ValueError(
            f"{name} must have floating-point elements for arithmetic fp12, not {fmt.name}: "
            "products of integers are integers, which arithmetic exact adds without loss and in "
            "less hardware"
        )
    return element


@checked
def signed_name(number: Wide) -> str:
    """A number as part of a name: ``m`` stands for minus."""
    return f"m{-number}" if number < 0 else str(number)
