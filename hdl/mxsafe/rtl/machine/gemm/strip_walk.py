"""Addresses in the strips of an operand, tile by tile.

Tested by `verif/rtl/machine/gemm/test_operand_feed.py`.
"""

from amaranth.hdl import Module, Mux, Signal, Value

from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated
from mxsafe.rtl.mac.operand import Side


def strip_address(
    m: Module,
    name: str,
    side: Side,
    place: tuple[Value, Value],
    *,
    enters: Value,
    moves_on: Value,
    ends_strip: Value,
    ends_inner: Value,
) -> Signal:
    """Address of the next beat or entry: of a strip, then of the strip of the next tile.

    Strips of `a` are the inner loop.

    Parameters
    ----------
    m : amaranth.hdl.Module
    name : str
        Prefix of the names of registers.
    side : {"a", "w"}
    place : tuple of Value
        Fields of a descriptor: where its first strip begins, and what lies from strip to strip.
    enters : Value
        That descriptor comes.
    moves_on : Value
        The address after this one is the next of its strip.
    ends_strip : Value
        This address was the last of its strip; counts before `moves_on`.
    ends_inner : Value
        The strip is the last one of the inner loop.
    """
    begin, stride = place
    width = len(begin) + 1
    strip, now = (
        Signal(width, name=f"{name}_{what}", reset_less=True) for what in ("strip", "address")
    )
    step = Signal(len(stride), name=f"{name}_stride", reset_less=True)
    further = truncated(m, f"{name}_further", width, strip + step)
    following = truncated(m, f"{name}_following", width, now + 1)
    if side == "a":
        after = Mux(ends_inner, kept(m, enters, f"{name}_first", begin), further)
    else:
        after = Mux(ends_inner, further, strip)
    next_strip = named(m, f"{name}_next_strip", width, after)
    noted(now, "A bit more than in a descriptor: so the first address that is too large shows.")
    with m.If(enters):
        m.d.sync += [strip.eq(begin), now.eq(begin), step.eq(stride)]
    with m.Elif(ends_strip):
        m.d.sync += [strip.eq(next_strip), now.eq(next_strip)]
    with m.Elif(moves_on):
        m.d.sync += now.eq(following)
    return now
