"""Numbers added up without a chain of carries: to two numbers whose sum is theirs."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Value

from mxsafe.rtl.arithmetic.bits import named, noted


def carry_save(
    m: Module, name: str, numbers: Sequence[tuple[Value, int]], width: int
) -> tuple[Value, Value]:
    """Two numbers with the sum of several ones, modulo ``2^width``.

    Each level of full and half adders leaves no more bits in a column than the next one can take,
    and adds no more than that needs (Dadda).

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Prefix of the signals' names.
    numbers : sequence of (Value, int)
        Unsigned numbers, and how far each is shifted up.
    width : int
        Bits of the two.
    """
    columns: list[list[Value]] = [[] for _ in range(width)]
    for number, shift in numbers:
        for bit in range(min(len(number), width - shift)):
            columns[shift + bit].append(number[bit])
    heights = [2]
    while heights[-1] < max(len(column) for column in columns):
        heights.append(heights[-1] * 3 // 2)
    for level, height in enumerate(reversed(heights[:-1])):
        columns = _level(m, f"{name}_{level}", columns, height)
    rows = [
        Cat(column[index] if index < len(column) else Const(0, 1) for column in columns)
        for index in range(2)
    ]
    return named(m, f"{name}_sums", width, rows[0]), named(m, f"{name}_carries", width, rows[1])


def _level(m: Module, name: str, columns: list[list[Value]], height: int) -> list[list[Value]]:
    """Columns of at most so many bits, by one adder behind each bit."""
    left: list[list[Value]] = []
    adders: list[tuple[int, list[Value]]] = []
    carries = 0
    for place, column in enumerate(columns):
        bits, spare = list(column), len(column) + carries - height
        carries = 0
        while spare > 0:
            # A half adder takes a bit away, a full adder two.
            count = 2 if spare == 1 else 3
            adders.append((place, [bits.pop(0) for _ in range(count)]))
            spare -= count - 1
            carries += 1
        left.append(bits)
    if not adders:
        return left
    inputs = [[*taken, Const(0, 1)][:3] for _, taken in adders]
    a, b, c = (
        named(m, f"{name}_{which}", len(adders), Cat(taken[index] for taken in inputs))
        for index, which in enumerate("abc")
    )
    sums = named(m, f"{name}_sum", len(adders), a ^ b ^ c)
    going = named(m, f"{name}_carry", len(adders), (a & b) | (c & (a | b)))
    noted(
        sums,
        "Carry-save: full adders side by side, one behind each bit too many of a column (Dadda); "
        "those with a constant 0 at c are half adders.",
    )
    for number, (place, _) in enumerate(adders):
        left[place].append(sums[number])
        if place + 1 < len(left):
            left[place + 1].append(going[number])
    return left
