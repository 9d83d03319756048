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

__all__ = ["DEPTH", "FORMS", "FUNCTIONS", "Form", "Function"]

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
    first, last : int
        Exponents with segments.
    small, large : str
        Forms of arguments with exponents below and above.
    odd : bool
        The result has the sign of the argument; else it has that of the sum.
    """

    first: int
    last: int
    small: str
    large: str
    odd: bool


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "gelu": Function(
            first=-16, last=2, small="half_argument", large="positive_argument", odd=True
        ),
        "silu": Function(
            first=-16, last=3, small="half_argument", large="positive_argument", odd=True
        ),
        "tanh": Function(first=-8, last=2, small="argument", large="one", odd=True),
        "gelu_derivative": Function(first=-14, last=2, small="half", large="step", odd=False),
        "silu_derivative": Function(first=-13, last=3, small="half", large="step", odd=False),
        "tanh_derivative": Function(first=-8, last=2, small="one", large="zero", odd=False),
    }
)
"""By name."""
