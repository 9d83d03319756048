"""From the memory side of a descriptor to runs of words."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS
from mxsafe.rtl.machine.dma.address_generator import AddressGenerator, AddressGeneratorConfiguration
from mxsafe.rtl.machine.ports import RUN_BITS, WIDTHS
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import PowerOfTwo

_LOOPS = (1, 2, 3)
_WIDTHS = WIDTHS["load"]
MEMORY_FIELDS = (
    "address",
    "count_0",
    *(f"count_{i}" for i in _LOOPS),
    *(f"stride_{i}" for i in _LOOPS),
)
"""Fields of LOAD and STORE that say where words stand in memory."""


class MemoryAddressGeneratorConfiguration(Configuration):
    """A `MemoryAddressGenerator`.

    Parameters
    ----------
    word_bytes : int
        Bytes of a word, a power of two.
    tells_last : bool
        Whether a run says that it is the last one of its descriptor.
    paced : bool
        A run comes every second cycle at most: which loops end is said from registers, and so is
        whether a run has a word past the top, which takes a cycle more.
    """

    shown_if_not_default = frozenset({"paced"})

    word_bytes: PowerOfTwo = 32
    tells_last: bool = True
    paced: bool = False

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to its first run."""
        return 4 if self.paced else 2

    @property
    def byte_bits(self) -> int:
        """Bits of the place of a byte in a word."""
        return self.word_bytes.bit_length() - 1

    @property
    def walk(self) -> AddressGeneratorConfiguration:
        """Loops around the innermost one, with addresses that no descriptor can exceed."""
        counts = tuple(_WIDTHS[f"count_{i}"] for i in _LOOPS)
        strides = tuple(_WIDTHS[f"stride_{i}"] for i in _LOOPS)
        start = _WIDTHS["address"] - self.byte_bits
        turns = zip(counts, strides, strict=True)
        most = (1 << start) + sum(1 << count + stride for count, stride in turns)
        return AddressGeneratorConfiguration(
            count_bits=counts,
            step_bits=strides,
            start_bits=start,
            address_bits=most.bit_length() + 1,
            paced=self.paced,
        )

    @property
    def fields(self) -> data.StructLayout:
        """Fields of a descriptor that matter here."""
        return data.StructLayout({name: _WIDTHS[name] for name in MEMORY_FIELDS})

    @property
    def run(self) -> data.StructLayout:
        """A run: address in words, number of words, and whether it is the descriptor's last."""
        fields = {"first": ADDRESS_BITS - self.byte_bits, "words": RUN_BITS}
        return data.StructLayout(fields | ({"last": 1} if self.tells_last else {}))


class MemoryAddressGenerator(Unit[MemoryAddressGeneratorConfiguration]):
    """The runs of words that a LOAD or STORE descriptor reads or writes, in order.

    A run with a word at an address of 2^64 or more is not handed over, and the addresses end there.

    Attributes
    ----------
    base : In
        Where the memory of the program begins, in words.
    fields : In(struct)
        What the descriptor says of memory.
    valid : In(1)
        There is a descriptor; its fields stay until `leaves`.
    asked : Out(1)
        All runs of the descriptor are on their way.
    past : Out(1)
        The next run has a word at 2^64 or more; it stays until the reset.
    leaves : In(1)
        The descriptor leaves.
    run : Out(stream)
        ``first``: address of the first word, in words. ``words``: how many. ``last``: no more
        follow.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "base": In(ADDRESS_BITS - config.byte_bits),
            "fields": In(config.fields),
            "valid": In(1),
            "asked": Out(1),
            "past": Out(1),
            "leaves": In(1),
            "run": Out(stream.Signature(config.run)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        walk = place(m, platform, "walk", AddressGenerator(config.walk))
        walking, valid = Signal(name="is_walking"), Signal(name="run_is_valid")
        all_asked = Signal(name="all_are_asked")
        run = data.View(config.run, Signal(config.run.size, name="run_held", reset_less=True))
        begins = named(m, "walk_begins", 1, self.valid & ~walking & ~all_asked)
        moves = named(m, "run_moves", 1, ~valid | (self.run.ready & self.run.valid))
        there: Value = walking
        steps = Signal(name="walk_steps")
        if config.paced:
            there = held(m, "walk_is_settled", walking & ~steps, reset=True)
        m.d.comb += steps.eq(there & moves)
        # Above the walk there is only a carry: what comes of either value is there before it.
        low = len(walk.address)
        lower = named(m, "first_word_low", low + 1, self.base[:low] + walk.address)
        upper = self.base[low:]
        raised = named(m, "base_raised", len(upper) + 1, upper + 1)
        higher = named(m, "first_word_high", len(raised), Mux(lower[-1], raised, upper))
        first = Cat(lower[:-1], higher)
        is_past = Signal(name="run_is_past", reset_less=True)
        count = len(run.words)
        below_top = named(m, "is_below_top", 1, run.first[count:].all())
        end = named(m, "run_end", count + 1, run.first[:count] + (run.words - 1)[:count])
        noted(below_top, "The last word of a run that begins below the top may still be past it.")
        past = named(m, "is_past", 1, is_past | (below_top & end[-1]))
        known: Value = valid
        if config.paced:
            past = held(m, "was_past", past)
            known = held(m, "past_is_known", valid & ~moves, reset=True)
        m.d.comb += [
            walk.begins.eq(begins),
            walk.start.eq(self.fields.address[config.byte_bits :]),
            *(getattr(walk, f"count_{i - 1}").eq(self.fields[f"count_{i}"]) for i in _LOOPS),
            *(getattr(walk, f"step_{i - 1}").eq(self.fields[f"stride_{i}"]) for i in _LOOPS),
            walk.advance.eq(steps),
            self.past.eq(known & past),
            self.run.valid.eq(known & ~past),
            self.asked.eq(all_asked & (~valid | self.run.valid)),
            self.run.payload.as_value().eq(run.as_value()),
        ]
        update(m, valid, (moves, there))
        with m.If(steps):
            m.d.sync += [
                run.first.eq(first[:-1]),
                is_past.eq(first[-1]),
                run.words.eq(self.fields.count_0),
            ]
            if config.tells_last:
                m.d.sync += run.last.eq(walk.last)
        with m.If(begins):
            m.d.sync += walking.eq(1)
        with m.Elif(steps & walk.last):
            m.d.sync += [walking.eq(0), all_asked.eq(1)]
        with m.Elif(self.leaves):
            m.d.sync += all_asked.eq(0)
