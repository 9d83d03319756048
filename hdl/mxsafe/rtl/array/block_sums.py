"""Integer sums of a block, one for each MAC, and those that wait for their turn.

Tested by `verif/rtl/array/test_accumulator.py`.
"""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed

from mxsafe.rtl.arithmetic.bits import named, noted, update


def add_blocks(
    m: Module,
    *,
    adds: Sequence[Value],
    starts: Sequence[Value],
    dots: Sequence[Any],
    carries: Sequence[Any],
    sum_bits: int,
    negated: bool,
    turns: int = 1,
) -> list[list[Signal]]:
    """Registers that add up the dot products of each MAC.

    Parameters
    ----------
    m : amaranth.hdl.Module
    adds : sequence of Value
        For each MAC whether there is a dot product, and its register is enabled.
    starts : sequence of Value
        For each MAC whether that is the first of a block.
    dots : sequence of sequence of array of signed
        For each MAC the halves of its dot products, in groups, each of which is added in front of a
        register of its own.
    carries : sequence of sequence of array
        What comes beside each half, see `OperandDot`.
    sum_bits : int
        Bits of a sum, sign included.
    negated : bool
        Whether halves with a carry are subtracted; else it is added to them.
    turns : int
        Sums of a MAC, which go round in a ring of as many registers; no fewer than groups.

    Returns
    -------
    list of list of Signal
        For each MAC its registers, in the order of the ring.
    """
    sums, shape = [], signed(sum_bits)
    for i, (groups, beside) in enumerate(zip(dots, carries, strict=True)):
        names = [*(f"sum_{i}_{step}" for step in range(turns - 1)), f"sum_{i}"]
        ring = [Signal(shape, name=name, reset_less=True) for name in names]
        kept = noted(
            named(m, f"kept_{i}", shape, Mux(starts[i], 0, ring[-1])),
            "The halves of a dot product are added here, with the sum so far: three numbers take a "
            "row of full adders more than two, and no second carry chain.",
        )
        totals: list[Value] = [kept, *ring[:-1]]
        halves = [
            (step, half, negate)
            for step, of_group in enumerate(zip(groups, beside, strict=True))
            for half, negate in zip(*of_group, strict=True)
        ]
        for j, (step, half, negate) in enumerate(halves):
            addend = half
            if negated:
                addend = named(m, f"half_{i}_{j}", None, Mux(negate, ~half, half))
                noted(addend, "Subtracted by its complement and a carry into the addition.")
            without_carry = named(m, f"without_carry_{i}_{j}", None, totals[step] + addend)
            totals[step] = named(m, f"total_{i}_{j}", None, without_carry + negate)
        with m.If(adds[i]):
            m.d.sync += [register.eq(total) for register, total in zip(ring, totals, strict=True)]
        sums.append(ring)
    return sums


def sums_in_turn(
    m: Module,
    *,
    copies: Sequence[Value],
    turn: Any,
    sums: Sequence[Signal],
    name: str = "waiting",
) -> list[tuple[Value, Value]]:
    """Sums to choose from, each beside the flag of its turn: the first itself, of others copies.

    Turns are one-hot, so that sums need no decoder. The first turn finds all sums complete; by the
    next the following ones may be adding.

    Parameters
    ----------
    m : amaranth.hdl.Module
    copies : sequence of Value
        For each sum but the first whether it is copied.
    turn : Value of one bit a sum
        One-hot: the sum whose turn it is. That of the first comes when they are copied.
    sums : sequence of Signal
        Registers of one shape.
    name : str
        What names of copies begin with.
    """
    waiting = [
        Signal(sum_.shape(), name=f"{name}_{i}", reset_less=True)
        for i, sum_ in enumerate(sums[1:], start=1)
    ]
    if waiting:
        noted(
            waiting[0],
            "Sums wait for their turn at the scaler in copies: the registers go on with the next "
            "block. The first turn comes when they are copied, so the first needs none.",
        )
    for moves, copy, sum_ in zip(copies, waiting, sums[1:], strict=True):
        update(m, copy, (moves, sum_))
    return list(zip(turn, [sums[0], *waiting], strict=True))
