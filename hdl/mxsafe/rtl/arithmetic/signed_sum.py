"""Adding numbers that carry their sign beside them, the cheap way.

A *term* is a pair ``(value, negate)`` that stands for ``-value`` where `negate` is set. Adding two
complements one of them where their signs differ and hands the other's sign on, so a sum of n terms
takes n - 1 rows of XOR gates instead of n, and every ``+ 1`` of a two's complement is the carry
input of an adder that is there anyway. A term that is never negated has a constant 0 there, and
costs none of that.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.arithmetic.full_adders import FullAdders
from mxsafe.rtl.unit import place

Term = tuple[Value, Value]


def add(m: Module, name: str, left: Term, right: Term) -> tuple[Signal, Value]:
    """Sum of two terms, exact: one bit wider, and signed.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the resulting signal.
    left, right : tuple of (value, negate)
        Terms; unsigned or signed values.
    """
    (left_value, left_negate), (right_value, right_negate) = left, right
    width = _sum_width(left_value, right_value)
    shape = Shape(width, signed=True)
    if isinstance(left_negate, Const) and isinstance(right_negate, Const):
        return named(m, f"{name}_sum", shape, left_value + right_value), left_negate
    differ = noted(
        named(m, f"{name}_differ", 1, left_negate ^ right_negate),
        "Signs stay beside the sums: where they differ one addend is complemented, whose missing "
        "one is the carry into the addition. The other sign is that of the result.",
    )
    addend = _negated(m, f"{name}_addend", right_value, differ)
    total = named(m, f"{name}_sum", shape, (left_value + addend + differ)[:width].as_signed())
    return total, left_negate


def add_in_two_parts(
    m: Module, name: str, left: Term, right: Term, upper: int
) -> tuple[Signal, Signal, Value]:
    """Sum of two terms as `add` makes it, whose upper bits lack the carry of those below.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Name of the resulting signals.
    left, right : tuple of (value, negate)
        Terms, at least one of which may be negated.
    upper : int
        Upper bits of the sum, 1 or more.

    Returns
    -------
    lower : Signal
        The bits below, and their carry on top.
    upper : Signal
        Signed; the sum has the carry added here.
    negate : Value
    """
    (left_value, left_negate), (right_value, right_negate) = left, right
    cut = _sum_width(left_value, right_value) - upper
    differ = named(m, f"{name}_differ", 1, left_negate ^ right_negate)
    addend = _negated(m, f"{name}_addend", right_value, differ)
    lower = left_value[:cut] + addend[:cut] + differ
    without = _upper(left_value, cut) + _upper(addend, cut)
    first = named(m, f"{name}_lower", cut + 1, lower)
    noted(first, "In two parts: the upper bits take the carry of these behind the next register.")
    return (
        first,
        named(m, f"{name}_upper", Shape(upper, signed=True), without),
        left_negate,
    )


def _upper(value: Value, cut: int) -> Value:
    """A number's bits from a cut on, as a signed number: at least its sign."""
    number = value if value.shape().signed else Cat(value, 0).as_signed()
    return number[min(cut, len(number) - 1) :].as_signed()


def add_pairs(m: Module, terms: Sequence[Term]) -> list[Term]:
    """One level of an adder tree: sums of neighbours, exact."""
    return [
        add(m, f"level{len(terms)}_{left // 2}", terms[left], terms[left + 1])
        for left in range(0, len(terms), 2)
    ]


def add_pairs_with_carry(m: Module, terms: Sequence[Term]) -> list[Term]:
    """One level of an adder tree whose terms stand for ``value + flag``, exact.

    One of the two flags is the carry into the addition, the other stays: a sum of n terms has n - 1
    carry chains without a gate in front of them, and one flag is left.
    """
    sums: list[Term] = []
    for left in range(0, len(terms), 2):
        (value, carry), (other, flag) = terms[left], terms[left + 1]
        name, width = f"level{len(terms)}_{left // 2}_sum", _sum_width(value, other)
        total = value + other if isinstance(carry, Const) else value + other + carry
        added = named(m, name, Shape(width, signed=True), total[:width].as_signed())
        noted(added, "One of two carries goes into this addition, the other one into a later one.")
        sums.append((added, flag))
    return sums


def add_pairs_in_chains(m: Module, terms: Sequence[Term]) -> list[Term]:
    """As `add_pairs_with_carry`, of terms some of which are never negated; see `add_in_a_chain`."""
    sums: list[Term] = []
    for left in range(0, len(terms), 2):
        (value, carry), (other, flag) = terms[left], terms[left + 1]
        if isinstance(carry, Const):
            carry, flag = flag, carry
        sums.append(
            (add_in_a_chain(m, f"level{len(terms)}_{left // 2}", value, other, carry), flag)
        )
    return sums


def add_in_a_chain(m: Module, name: str, left: Value, right: Value, carry: Value) -> Signal:
    """Sum of two signed values and a carry, exact, one bit wider.

    The carry comes out of a bit below both. So tools see an addition of two numbers, whose sum they
    do not merge with the next one: for three they would make rows of full adders of look-up tables.
    """
    total = Cat(Const(1, 1), left).as_signed() + Cat(carry, right).as_signed()
    return noted(
        named(m, f"{name}_sum", Shape(len(total) - 1, signed=True), total[1:].as_signed()),
        "The carry comes out of a bit below both numbers: tools then see an addition of two, with "
        "one carry chain, and do not merge it with the next.",
    )


def add_resolved(m: Module, name: str, left: Term, right: Term) -> Signal:
    """Sum of two terms as a plain signed number, exact: the last addition of a tree."""
    (left_value, left_negate), (right_value, right_negate) = left, right
    width = _sum_width(left_value, right_value)
    shape = Shape(width, signed=True)
    if isinstance(left_negate, Const) and isinstance(right_negate, Const):
        return named(m, f"{name}_sum", shape, left_value + right_value)
    addends = [
        _negated(m, f"{name}_left", left_value, left_negate),
        _negated(m, f"{name}_right", right_value, right_negate),
    ]
    total = addends[0] + addends[1] + (left_negate + right_negate)
    result = named(m, f"{name}_sum", shape, total[:width].as_signed())
    return noted(result, "Both signs are due now: two complements, and up to two carries.")


def add_without_carries(
    m: Module, platform: object, terms: Sequence[Term]
) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Two signed numbers and two carries whose sum is that of terms, by rows of full adders.

    Nothing is added in a chain, so nothing has to wait for a carry: less glitches than a tree of
    additions makes, and less time.

    A negated number ``v`` of ``n`` bits is ``~v + 1 - 2^n``. Sign bits are 1 for what is not
    negated, so that each number lacks ``2^n``: all of them together what the sign of the sum is
    worth. Each row leaves the lowest bit of its carries free, for the 1 of a number.

    Parameters
    ----------
    m : amaranth.hdl.Module
    platform : object
    terms : sequence of (value, negate)
        As many as a power of two, 2 or more: unsigned values of equally many bits.

    Returns
    -------
    numbers : tuple of Value
        The first is never negative.
    carries : tuple of Value
    """
    sign = len(terms[0][0]) + (len(terms) - 1).bit_length()
    ones = [negate for _, negate in terms]
    signed = [
        named(m, f"signed_{i}", len(value) + 1, Cat(value ^ negate.replicate(len(value)), ~negate))
        for i, (value, negate) in enumerate(terms)
    ]
    noted(
        signed[0],
        "Complements with inverted signs, each 2^n above its number: together what the sign of the "
        "sum is worth. So the sum is negative unless one of the last two numbers has that bit.",
    )
    numbers: list[Value] = [*signed]
    while len(numbers) > 2:
        rows = [numbers[start : start + 3] for start in range(0, len(numbers), 3)]
        numbers = []
        for row in rows:
            if len(row) < 3:
                numbers += row
            else:
                sums, carries = _full_adders(m, platform, f"row_{len(ones)}", row)
                numbers += [sums, Cat(ones.pop(0), carries)]
    first, second = numbers
    # All numbers together are less than twice that: one of the two at most has the bit.
    lacks = named(m, "lacks_sign", 1, ~(first[sign:].any() | second[sign:].any()))
    padded = Cat(second[:sign], Const(0, max(sign - len(second), 0)))
    return (
        (Cat(first[:sign], 0).as_signed(), Cat(padded, lacks).as_signed()),
        (ones[0], ones[1]),
    )


def _full_adders(
    m: Module, platform: object, name: str, numbers: Sequence[Value]
) -> tuple[Value, Value]:
    """Sums and carries of three numbers; where the shortest has no bits half adders do."""
    shortest, other, longest = sorted(numbers, key=len)
    bits = len(shortest)
    adders = place(m, platform, name, FullAdders(bits=bits))
    m.d.comb += [
        adders.a.eq(shortest),
        adders.b.eq(other[:bits]),
        adders.c.eq(longest[:bits]),
    ]
    left, right = longest[bits:], other[bits:]
    above = left[len(right) :]
    return (
        Cat(adders.sums, left[: len(right)] ^ right, above),
        Cat(adders.carries, left[: len(right)] & right),
    )


def _sum_width(left: Value, right: Value) -> int:
    """Bits of the signed sum of two values, each of which may be negated."""
    return 1 + max(len(value) + (not value.shape().signed) for value in (left, right))


def _negated(m: Module, name: str, value: Value, negate: Value) -> Signal:
    """One's complement of `value` where `negate` is set, else `value`; in a signed shape."""
    # An unsigned value gets a sign bit, for its complement is negative.
    number = value if value.shape().signed else Cat(value, 0).as_signed()
    return named(m, name, number.shape(), Mux(negate, ~number, number))
