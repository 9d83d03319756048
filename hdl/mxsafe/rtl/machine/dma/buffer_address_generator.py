"""From the buffer side of a descriptor to the places of its words, while the next one waits.

Tested by `verif/rtl/machine/dma/test_address_generator.py`.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.machine.dma.address_generator import AddressGenerator
from mxsafe.rtl.machine.ports import WIDTHS
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import AlikePower

_LOOPS = (0, 1, 2, 3)
_WIDTHS = WIDTHS["load"]
BUFFER_FIELDS = (*(f"count_{i}" for i in _LOOPS), *(f"step_{i}" for i in _LOOPS))
"""Fields of LOAD and STORE that say where words stand in a buffer, after the first one."""


class BufferAddressGeneratorConfiguration(Configuration):
    """A `BufferAddressGenerator`.

    Parameters
    ----------
    paced : bool
        See `AddressGeneratorConfiguration`; then it says when the next word may be done.
    together : int
        Words that may stand side by side, for each of which a step of the innermost loop is not
        taken: a power of two. Not if it is `paced`.
    """

    shown_if_not_default = frozenset({"paced", "together"})

    paced: bool = False
    together: AlikePower = 1

    def __post_init__(self) -> None:
        if self.paced and self.together > 1:
            raise ValueError(f"together must be 1 if it is paced, not {self.together}")

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to the place of its first word."""
        return self.walk.latency

    walk = Part(
        AddressGenerator,
        count_bits=lambda _: tuple(_WIDTHS[f"count_{i}"] for i in _LOOPS),
        step_bits=lambda _: tuple(_WIDTHS[f"step_{i}"] for i in _LOOPS),
        start_bits=lambda _: _WIDTHS["to"],
        address_bits=lambda _: _WIDTHS["to"] + 1,
    )

    @property
    def fields(self) -> data.StructLayout:
        """Descriptor fields that are kept."""
        return data.StructLayout({name: _WIDTHS[name] for name in BUFFER_FIELDS})


class BufferAddressGenerator(Unit[BufferAddressGeneratorConfiguration]):
    """The places in a buffer of the words of a LOAD or STORE descriptor, in order.

    It keeps what it needs, so that the runs of the next descriptor are asked for meanwhile.

    Attributes
    ----------
    take : In(1)
        A descriptor begins; not while `active` is set, unless the last word is done.
    start : In
        Where its first word stands.
    fields : In(struct)
        Its counts and steps.
    joins : In(1)
        With `together`: so many of its words stand side by side, and steps of the innermost loop
        lead from the first of them to the first of the next.
    active : Out(1)
        There are words left.
    place : Out
        Where the next one stands; the highest bit is set if that is past every buffer.
    ends_run, last, last_turn : Out(1)
        It is the last one of the innermost loop; of all; and whether it is in the last turn of all
        loops but the innermost one.
    settled : Out(1)
        If it is `paced`: there are words left, `place` and `last` have been steady for a cycle, and
        the next one may be done.
    advance : In(1)
        It is done.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "take": In(1),
            "start": In(config.walk.start_bits),
            "fields": In(config.fields),
            **({"joins": In(1)} if config.together > 1 else {}),
            "active": Out(1),
            "place": Out(config.walk.address_bits),
            "ends_run": Out(1),
            "last": Out(1),
            "last_turn": Out(1),
            **({"settled": Out(1)} if config.paced else {}),
            "advance": In(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        walk = place(m, platform, "walk", AddressGenerator(config.walk))
        own = data.View(config.fields, Signal(config.fields.size, name="kept", reset_less=True))
        with m.If(self.take):
            m.d.sync += [self.active.eq(1), own.as_value().eq(self.fields.as_value())]
        with m.Elif(self.advance & self.last):
            m.d.sync += self.active.eq(0)
        if config.paced:
            m.d.sync += self.settled.eq(self.active & ~self.take & ~self.advance)
        joining = _Joined(m, self) if config.together > 1 else None
        for i in _LOOPS:
            name = f"count_{i}"
            count = Mux(self.take, self.fields[name], own[name])
            if joining is not None and i == 0:
                count = joining.count(count)
            now = named(m, f"current_{name}", config.walk.count_bits[i], count)
            noted(now, "The loops begin in the cycle in which their counts come.")
            m.d.comb += [
                getattr(walk, name).eq(now),
                getattr(walk, f"step_{i}").eq(own[f"step_{i}"]),
            ]
        m.d.comb += [
            walk.begins.eq(self.take),
            walk.start.eq(self.start),
            walk.advance.eq(self.advance if joining is None else self.advance & joining.ends),
            self.place.eq(walk.address if joining is None else joining.place(walk.address)),
            self.ends_run.eq(walk.ends_run if joining is None else walk.ends_run & joining.ends),
            self.last.eq(walk.last if joining is None else walk.last & joining.ends),
            self.last_turn.eq(walk.last_turn),
        ]


class _Joined:
    """Words that stand side by side, all at one address of the loops.

    Attributes
    ----------
    ends : Value
        This word is the last of them.
    """

    def __init__(self, m: Module, owner: BufferAddressGenerator) -> None:
        self._m = m
        self._bits = owner.config.together.bit_length() - 1
        self._number = Signal(self._bits, name="word_beside")
        held = kept(m, owner.take, "joins_words", owner.joins)
        self._joins = named(m, "joins_now", 1, Mux(owner.take, owner.joins, held))
        self.ends = named(m, "ends_joined", 1, ~held | self._number.all())
        following = truncated(m, "next_beside", self._bits, self._number + 1)
        update(m, self._number, (owner.take, 0), (owner.advance, Mux(held, following, 0)))

    def count(self, words: Value) -> Value:
        """Turns of the innermost loop, of so many words."""
        return Mux(self._joins, words[self._bits :], words)

    def place(self, address: Value) -> Value:
        """Where the word stands; past every buffer if the first of them does."""
        total = named(self._m, "place_beside", len(address), address[:-1] + self._number)
        return Cat(total[:-1], total[-1] | address[-1])
