"""Table of activation functions: forms, and the values outside of its segments.

The functions are evaluated without leaving floating-point form. A segment belongs to a function and
an exponent ``e``, and to the highest bits of the mantissa; the offset is made of bits of the
mantissa below them. With the significand ``s`` of the argument, the result of the polynomial is
added to a *base*, or subtracted from it, in units of ``2^e``, or of 1 where a form is absolute. The
base is 0, a half or all of the significand (of 1, where a form is absolute).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mxsafe.tables import Grade

BASE_BITS: Mapping[Grade, int] = MappingProxyType({"compact": 14, "fine": 23})
"""Fraction bits of a base: what is below them in the argument is cut off."""


@dataclass(frozen=True, kw_only=True)
class PowerOfE:
    """Widths of the product that turns a power of e into one of two.

    Attributes
    ----------
    log2_e : int
        log2(e) in units of ``2^-log2_e_bits``.
    log2_e_bits : int
    argument_bits : int
        Bits of the argument's mantissa that are multiplied.
    sum_bits : int
        Fraction bits of the sum of 1 and a power, relative to the larger of both.
    """

    log2_e: int
    log2_e_bits: int
    argument_bits: int
    sum_bits: int


POWERS: Mapping[Grade, PowerOfE] = MappingProxyType(
    {
        "compact": PowerOfE(log2_e=189097, log2_e_bits=17, argument_bits=21, sum_bits=16),
        "fine": PowerOfE(log2_e=96817625, log2_e_bits=26, argument_bits=23, sum_bits=23),
    }
)
"""By grade."""
DEPTH = 4
"""Most bits of the mantissa that choose a segment."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a result is made of a base and a polynomial; pairs are for arguments >= 0 and < 0.

    Attributes
    ----------
    base : tuple of int
        Halves of the significand, or of 1, in the base: 0, 1 or 2.
    subtract : tuple of bool
        Whether the value of the polynomial is subtracted from it, and not added.
    absolute : bool
        Whether results are in units of 1, and not of ``2^e``.
    """

    base: tuple[int, int]
    subtract: tuple[bool, bool] = (False, False)
    absolute: bool = False


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        # x/2 plus an even function.
        "even": Form(base=(1, 1), subtract=(False, True)),
        # x or 0 for x of either sign, plus an even function.
        "tail": Form(base=(2, 0), subtract=(False, True)),
        # x less an odd function.
        "odd": Form(base=(2, 2), subtract=(True, True)),
        # 1 plus or less an even function, which has the sign of x.
        "one_plus": Form(base=(2, 2), absolute=True),
        "one_less": Form(base=(2, 2), subtract=(True, True), absolute=True),
        # 1/2 plus an odd function.
        "half_plus": Form(base=(1, 1), subtract=(False, True), absolute=True),
        # Beyond the segments, where the polynomial counts as 0.
        "argument": Form(base=(2, 2)),
        "half_argument": Form(base=(1, 1)),
        "positive_argument": Form(base=(2, 0)),
        "one": Form(base=(2, 2), absolute=True),
        "half": Form(base=(1, 1), absolute=True),
        "step": Form(base=(2, 0), absolute=True),
        "zero": Form(base=(0, 0), absolute=True),
    }
)
"""By name."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function in the table.

    Attributes
    ----------
    exponents : Mapping
        By grade the first and the last exponent with segments.
    small, large : str
        Forms of arguments with exponents below and above.
    odd : bool
        The result has the sign of the argument; else it has that of the sum.
    """

    exponents: Mapping[Grade, tuple[int, int]]
    small: str
    large: str
    odd: bool


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "gelu": Function(
            exponents={"compact": (-11, 1), "fine": (-16, 2)},
            small="half_argument",
            large="positive_argument",
            odd=True,
        ),
        "silu": Function(
            exponents={"compact": (-10, 2), "fine": (-16, 3)},
            small="half_argument",
            large="positive_argument",
            odd=True,
        ),
        "tanh": Function(
            exponents={"compact": (-5, 1), "fine": (-8, 2)}, small="argument", large="one", odd=True
        ),
        "gelu_derivative": Function(
            exponents={"compact": (-9, 1), "fine": (-14, 2)}, small="half", large="step", odd=False
        ),
        "silu_derivative": Function(
            exponents={"compact": (-8, 3), "fine": (-13, 3)}, small="half", large="step", odd=False
        ),
        "tanh_derivative": Function(
            exponents={"compact": (-5, 1), "fine": (-8, 2)}, small="one", large="zero", odd=False
        ),
    }
)
"""By name."""
