"""Multiplication by digits from -2 to 2, each of whose rows is cut by itself where the sum ends."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Value

from mxsafe.rtl.arithmetic.bits import named


@dataclass(frozen=True)
class Digit:
    """A digit from -2 to 2: whether its magnitude is 1, or 2, and whether it is negative."""

    one: Value
    two: Value
    negative: Value


def digits_of(m: Module, name: str, number: Value) -> list[Digit]:
    """Digits of an unsigned number, two bits each, lowest first (Booth); the last is never below 0.

    Half as many as the number has bits, and one more.
    """
    bits = Cat(Const(0, 1), number, Const(0, 2))
    digits = []
    for place in range(0, len(number) + 1, 2):
        low, high, minus = (bits[place + index] for index in range(3))
        digit = f"{name}_digit_{place // 2}"
        one = named(m, f"{digit}_is_one", 1, low ^ high)
        two = named(m, f"{digit}_is_two", 1, (high ^ minus) & ~one)
        negative = named(m, f"{digit}_is_negative", 1, minus & ~(low & high))
        digits.append(Digit(one, two, negative))
    return digits


@dataclass(frozen=True, kw_only=True)
class Factors:
    """A product of a factor and digits, in rows that are cut.

    A row, the factor times a digit, is cut by itself. It is its magnitude without the bits below
    bit `cut` of the product, inverted where the digit is negative. So each row that begins below
    bit `cut` loses up to 1.

    Attributes
    ----------
    start : Value
        What rows are added to; its width is that of the sum.
    factor : Value
        Unsigned.
    digits : list of Digit
        Lowest first; the last one is not below 0.
    cut : int
        Bits that are left out.
    complete : tuple of Value and int, optional
        Whether rows of negative digits are to be numbers below 0 in the sum's lower bits, and how
        many of these are asked for; `start` has to have `constant_of` then. Else they lack the ones
        above them, and the one that makes a complement of two where no bit is cut.
    """

    start: Value
    factor: Value
    digits: list[Digit]
    cut: int
    complete: tuple[Value, int] | None = None


def sum_of_rows(
    m: Module,
    name: str,
    factors: Factors,
    cross: Callable[[str, Value], Value] = lambda name, value: value,
    *,
    cross_digits: bool = False,
) -> Value:
    """`start`, and the product without its lowest bits.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the sum.
    factors : Factors
    cross : callable
        By a name, a value on the far side of registers that stand behind half of the rows.
    cross_digits : bool
        Whether digits that are left cross them too: they need not if they stay as they are.
    """
    total, factor, digits = factors.start, factors.factor, list(factors.digits)
    width, last = len(total), len(digits) - 1
    for place in reversed(range(len(digits))):
        if place == last // 2 - 1:
            total, factor = cross("total", total), cross("factor", factor)
            if cross_digits:
                digits = [
                    Digit(*(cross(f"digit_{n}_{part}", bit) for part, bit in vars(each).items()))
                    for n, each in enumerate(digits[: place + 1])
                ]
        digit, shift = digits[place], factors.cut - 2 * place
        once, twice = Cat(factor, Const(0, 1)), Cat(Const(0, 1), factor)
        length = len(once)
        chosen = (once & digit.one.replicate(length)) | (twice & digit.two.replicate(length))
        inverted = digit.negative.replicate(length)
        row: Value = named(m, f"{name}_row_{place}", length, chosen ^ inverted)
        row = row[shift:] if shift > 0 else Cat(Const(0, -shift), row)
        added = total + row
        if factors.complete and place < last:
            whole, bits = factors.complete
            if length - shift < bits:
                added = total + Cat(row, ~digit.negative & whole)
            if shift <= 0:
                added = added + ((digit.negative & whole) << -shift)
        # Every step is cut to the same width, so that synthesis sees one sum of many.
        total = named(m, f"{name}_from_{place}", width, added)
    return total


def constant_of(factor_bits: int, digits: int, cut: int, bits: int) -> int:
    """What `complete` rows lack in so many lower bits."""
    lengths = (factor_bits + 1 - (cut - 2 * place) for place in range(digits - 1))
    return -sum(1 << length for length in lengths if length < bits) % (1 << bits)
