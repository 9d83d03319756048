"""A short queue of narrow tags in registers: an entry for each outstanding transaction."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, named, noted, truncated, update
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger, PowerOfTwo


class TagQueueConfiguration(Configuration):
    """A `TagQueue`.

    Parameters
    ----------
    tag_bits : int
        Bits of a tag.
    depth : int
        Tags that have room, a power of two, at least 2.
    """

    tag_bits: PositiveInteger = 1
    depth: PowerOfTwo = 32

    def __post_init__(self) -> None:
        if self.depth < 2:
            raise ValueError(f"depth must be 2 or more, not {self.depth}")

    latency = 1
    """Cycles from a tag to its standing at the head of an empty queue."""


class TagQueue(Unit[TagQueueConfiguration]):
    """A queue in registers: tags leave in the order in which they came.

    Attributes
    ----------
    push : In(1), tag : In(tag_bits)
        A tag enters; not where `full` is set, whatever leaves.
    pop : In(1)
        The oldest tag leaves; not where `empty` is set.
    oldest : Out(tag_bits)
        The oldest tag.
    empty, full : Out(1)
        Nothing is there; nothing has room.
    """

    def ports(self) -> Ports:
        bits = self.config.tag_bits
        return {
            "push": In(1),
            "tag": In(bits),
            "pop": In(1),
            "oldest": Out(bits),
            "empty": Out(1),
            "full": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        bits, depth = self.config.tag_bits, self.config.depth
        held = Signal(range(depth + 1), name="tags_held")
        m.d.sync += held.eq(held + self.push - self.pop)
        tags = [Signal(bits, name=f"tag_{age}", reset_less=True) for age in range(depth)]
        noted(tags[0], "Tags wait newest first, so only a push moves them.")
        update(m, Cat(*tags), (self.push, Cat(self.tag, *tags[:-1])))
        last = truncated(m, "oldest_at", len(held) - 1, held - 1)
        m.d.comb += [
            self.oldest.eq(chosen(m, "oldest_tag", last, tags)),
            self.empty.eq(~held.any()),
            self.full.eq(named(m, "is_full", 1, held[-1])),
        ]
