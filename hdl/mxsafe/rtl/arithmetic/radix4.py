"""Multiplication by digits from 0 to 3, prepared once for all multipliers that share an operand.

Of two factors one is cut into digits of two bits, each as three gates, one for every digit but 0;
the other comes with its triple. Then a partial product is a choice of 0, the factor, its double (a
wire away) and its triple, and there are half as many of them to add as the factor has bits. Digits
and triples are made where operands enter the array, so the 256 multipliers of an array have none of
that in them. What it saves is in ``docs/experiments.md``.

In look-up tables of six inputs gates are not worth their wires: `multiply_in_chains` chooses by the
two bits of a digit.

Tested by `verif/rtl/arithmetic/test_float32_multiplier.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated
from mxsafe.rtl.arithmetic.pipeline import Sideband


def gate_bits(width: int, *, top_is_never_one: bool = False) -> int:
    """Gates for the digits of a factor; the digit of an odd top bit has one."""
    return 3 * (width // 2) + width % 2 - top_is_never_one


def digit_gates(factor: Value, *, top_is_never_one: bool = False) -> Value:
    """Flags of each digit of a factor: it is 1, 2, 3.

    If no factor has a 1 for its highest digit, of two bits, there is no gate for that.
    """
    gates: list[Value] = []
    # The digit 0 needs no gate: then none is set, and the row is 0.
    for low in range(0, len(factor) - 1, 2):
        zero, one = factor[low], factor[low + 1]
        gates += [zero & ~one, ~zero & one, zero & one]
    if len(factor) % 2:
        gates.append(factor[-1])
    elif top_is_never_one:
        del gates[-3]
    return Cat(*gates)


def upper_triple(factor: Value) -> Value:
    """The triple of a factor without its lowest bit, which is that of the factor."""
    return (factor + (factor << 1))[1 : len(factor) + 2]


def partial_products(
    m: Module, name: str, gates: Value, factor: Value, triple: Value
) -> list[Value]:
    """Return the partial products, each two places further up than the one before.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the product.
    gates : Value
        One factor, as `digit_gates` makes it.
    factor : Value
        The other.
    triple : Value
        What `upper_triple` makes of it.
    """
    digits, others = divmod(len(gates), 3)
    times = (factor, factor << 1, Cat(factor[0], triple))
    # Of the highest digit there are fewer gates where it has one bit, or is never 1.
    top = {0: (), 1: times[:1], 2: times[1:]}[others]
    rows: list[Value] = []
    for digit, multiples in enumerate([times] * digits + [top] * bool(others)):
        choices = zip(gates[3 * digit : 3 * digit + 3], multiples, strict=True)
        row = gated_or(m, f"{name}_row_{digit}", choices)
        noted(
            row,
            "Radix 4: a digit chooses 0, 1, 2 or 3 times the factor. Its gates are one-hot, so "
            "that is an OR and no multiplexer.",
        )
        rows.append(row)
    return rows


def multiply(m: Module, name: str, gates: Value, factor: Value, triple: Value) -> Value:
    """The product of two factors, from the same as `partial_products`."""
    rows = partial_products(m, name, gates, factor, triple)
    product = rows[0]
    for digit, row in enumerate(rows[1:-1], start=1):
        product = named(m, f"{name}_to_row_{digit}", None, product + (row << 2 * digit))
    if len(rows) > 1:
        product = product + (rows[-1] << 2 * (len(rows) - 1))
    digits, others = divmod(len(gates), 3)
    return truncated(m, name, len(factor) + 2 * digits + others, product)


def multiply_in_chains(
    m: Module,
    name: str,
    digits: Value,
    factor: Value,
    sideband: Sideband,
    boundary: str,
    *,
    top_is_never_one: bool = False,
) -> Value:
    """The product of two factors, for look-up tables of six inputs and carry chains.

    A bit of a row is a choice of four by the two bits of a digit. With the bit that it is added to
    these are six inputs: the table in front of the carry chain does both.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the product.
    digits : Value
        The factor that is cut into digits, unsigned.
    factor : Value
        The other; may be signed.
    sideband : Sideband
        What goes along where there is a register.
    boundary : str
        Where that may stand: behind the first addition.
    top_is_never_one : bool
        Whether no number has a 1 for its highest digit: a choice less.
    """
    triple = named(m, f"{name}_triple", None, factor + (factor << 1))
    rows = []
    for low in range(0, len(digits), 2):
        digit = digits[low : low + 2]
        one = Mux(digit[0], factor, 0)
        if len(digit) == 2:
            low_choice = Const(0, 1) if top_is_never_one and low + 2 == len(digits) else one
            one = Mux(digit[1], Mux(digit[0], triple, factor << 1), low_choice)
        rows.append(named(m, f"{name}_row_{low // 2}", triple.shape(), one))
    is_signed = factor.shape().signed
    product: Value = rows[0]
    for number in range(1, len(rows)):
        done, upper = product[: 2 * number], product[2 * number :]
        added = (upper.as_signed() if is_signed else upper) + rows[number]
        product = noted(
            named(m, f"{name}_to_row_{number}", None, Cat(done, added)),
            "The table in front of a carry chain chooses by the digit and adds. Bits below a row "
            "are done: tools that merge two additions would lose the chain.",
        )
        product = product.as_signed() if is_signed else product
        if number == 1:
            later = {f"row_{place}": rows[place] for place in range(2, len(rows))}
            product, *rows[2:] = sideband.cross(boundary, product=product, **later)
    if len(rows) == 1:
        (product,) = sideband.cross(boundary, product=product)
    width = len(digits) + len(factor)
    product = truncated(m, name, width, product)
    return product.as_signed() if is_signed else product
