"""Multiplication whose low columns are left out, for products that are rounded anyway."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, Value

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.notes import noted

_GROUP = 4
"""Terms that are added up before a register."""


def truncated_product(
    m: Module,
    name: str,
    a: Value,
    b: Value,
    *,
    cut: int,
    correction: int,
    cross: Callable[[str, Value], Value] | None = None,
) -> Value:
    """About ``(a * b >> cut) + correction``, without most of the adders below bit `cut`.

    `b` is recoded to digits of -2 to 2, two bits each (Booth), so there are half as many rows to
    add up as it has bits. A row is cut by itself: it becomes ``row >> cut`` rounded down, and where
    its digit is negative the one's complement of what is left of its magnitude. So each of the rows
    that begin below bit `cut` loses up to 1.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the product.
    a, b : Value
        Unsigned factors.
    cut : int
        Bits that are left out.
    correction : int
        What is added; it costs next to nothing.
    cross : callable, optional
        Given a name and a value, the value on the far side of a register. Sums of a few rows each
        pass it.
    """
    width, product_bits = len(a) + 1, len(a) + len(b) - cut
    digits = Cat(Const(0, 1), b, Const(0, 2))
    terms: list[Value] = []
    constant = correction
    for place in range(0, len(b) + 1, 2):
        low, high, minus = (digits[place + index] for index in range(3))
        row = f"{name}_row_{place // 2}"
        once = named(m, f"{row}_once", 1, low ^ high)
        twice = named(m, f"{row}_twice", 1, (high ^ minus) & ~once)
        negative = named(m, f"{row}_negative", 1, minus & ~(low & high))
        multiple = Mux(once, a, 0) | Mux(twice, a << 1, 0)
        magnitude = named(m, f"{row}_magnitude", width, multiple)
        complement = magnitude ^ negative.replicate(width)
        cut_bits = max(cut - place, 0)
        kept = Cat(complement, ~negative)[cut_bits:]
        left = max(place - cut, 0)
        constant -= 1 << width + place - cut
        placed = noted(
            named(m, row, len(kept), kept),
            "Booth row, low columns left out. A negative one has ones above it without end: they "
            "are part of the constant, for which its inverted sign stands.",
        )
        terms.append(placed << left)
        if place >= cut:  # what makes a complement of two of it; below, it is lost
            terms.append(negative << left)
    terms.append(Const(constant % (1 << product_bits), product_bits))
    if cross:
        groups = [terms[start : start + _GROUP] for start in range(0, len(terms), _GROUP)]
        terms = [
            cross(
                f"{name}_sum_{number}",
                truncated(m, f"{name}_group_{number}", product_bits, sum(group, Const(0, 1))),
            )
            for number, group in enumerate(groups)
        ]
    total = sum(terms, Const(0, 1))
    return truncated(m, name, product_bits, total)
