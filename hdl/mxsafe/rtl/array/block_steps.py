"""Shared parts of sequencers: steps of the MACs, and where blocks and tiles start.

Tested by `verif/rtl/array/test_block_sequencer.py`.
"""

from amaranth.hdl import Module, Mux, Signal, Value

from mxsafe.rtl.arithmetic.bits import named, noted, truncated, update
from mxsafe.rtl.array.token import Token


def count_steps(m: Module, *, en: Value, ends: Value, index: Signal, macs: int) -> Value:
    """Count the steps that follow an end, one an enabled cycle, until each MAC has had its turn.

    Parameters
    ----------
    m : amaranth.hdl.Module
    en : Value
        Clock enable.
    ends : Value
        What is worth `macs` steps ends in this cycle: this is the first step.
    index : Signal
        The counter.
    macs : int
        Steps.

    Returns
    -------
    Value
        There is a step in this cycle.
    """
    stepping = named(m, "is_stepping", 1, ends | index.any())
    next_index = truncated(m, "next_index", len(index), index + 1)
    at_last = named(m, "is_at_last", 1, index == macs - 1)
    noted(stepping, "The end itself is step 0; the others follow, one an enabled cycle.")
    counts = named(m, "counts", 1, en & stepping)
    update(m, index, (counts, Mux(at_last, 0, next_index)))
    return stepping


def mark_starts(m: Module, *, en: Value, token: Token, ends: Value) -> tuple[Value, Value]:
    """Tell where blocks and tiles start.

    After a reset a block and a tile start, whatever the flags say. A flag of one beat of a block
    counts for the whole block, hence until a block ends.

    Parameters
    ----------
    m : amaranth.hdl.Module
    en : Value
        Clock enable.
    token : Token
        Flags of the beat.
    ends : Value
        It ends a block.

    Returns
    -------
    starts, is_first : Value
        The beat starts a block; its block is the first of a tile.
    """
    block_starts = Signal(init=1)
    tile_starts = Signal(init=1)
    noted(block_starts, "Set by the reset: a block and a tile start then, whatever the flags say.")
    starts = named(m, "starts_now", 1, block_starts | token.first)
    is_first = named(m, "is_first", 1, tile_starts | token.first)
    beat_taken = named(m, "beat_taken", 1, en & token.valid)
    with m.If(beat_taken):
        m.d.sync += [block_starts.eq(ends), tile_starts.eq(is_first & ~ends)]
    return starts, is_first
