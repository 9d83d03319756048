"""A queue of descriptors in front of an engine: in order, each when its tokens are there.

Tested by `verif/rtl/machine/control/test_queues.py`.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import DESCRIPTOR_BITS, ERRORS, HEADER_BITS, QUEUES
from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated, update
from mxsafe.rtl.machine.ports import EnginePort
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, PositiveInteger

PAYLOAD_BITS = DESCRIPTOR_BITS - HEADER_BITS
"""Bits of a descriptor that an engine sees."""


class DescriptorQueueConfiguration(Configuration):
    """A `DescriptorQueue`.

    Parameters
    ----------
    depth : int
        Descriptors that have a place in it; those that run keep theirs.
    under_way : int
        Most descriptors that run at a time.
    number_bits : int
        Bits of a descriptor's number.
    """

    depth: Alike = 8
    under_way: Alike = 1
    number_bits: PositiveInteger = 32

    latency = 3
    """Cycles from a descriptor in an empty queue to its start."""

    @property
    def entry(self) -> data.StructLayout:
        """Layout of a queue entry: a descriptor without its opcode, which has done its work."""
        return data.StructLayout(
            {
                "wait": len(QUEUES),
                "signal": len(QUEUES),
                "number": self.number_bits,
                "payload": PAYLOAD_BITS,
            }
        )

    memory = Part(BeatMemory, beat_bits=lambda c: c.entry.size, depth=lambda c: max(c.depth, 2))


class DescriptorQueue(Unit[DescriptorQueueConfiguration]):
    """Descriptors in order: each starts when its tokens are there, and signals when it is done.

    With `under_way` of 1 a descriptor starts after the signals of the one before. With more it may
    start earlier, but only while the counters have room for the signals of all that run: so nobody
    can tell from tokens that it did.

    Attributes
    ----------
    entry_valid, entry_ready, entry : In, Out, In
        A descriptor and its number; it has a place if the queue is not full.
    available : In(4)
        By queue whether there is a token of it for this one.
    take : Out(4)
        Tokens that are taken; all that a descriptor waits for at once.
    has_room, has_room_for_all : In(4)
        By queue whether the counter of tokens for it takes another one, and whether it takes those
        of all descriptors that may run together.
    give : Out(4)
        Tokens that are given, each as soon as it has room.
    engine : Out(EnginePort)
        The engine.
    stop : In(1)
        Nothing starts any more, and nothing signals.
    lacks_load, lacks_gemm, lacks_vector, lacks_store : Out(1)
        The engine is free for the next descriptor, which waits for a token of this queue.
    is_empty : Out(1)
        No descriptor has a place.
    is_stuck : Out(1)
        Nothing happens until other queues do something: it is empty, or its oldest descriptor
        waits for tokens, or for room for its signals.
    error : Out(4)
        The engine's error.
    number : Out
        Of the oldest descriptor: the one with the error, or the one that waits.
    """

    def ports(self) -> Ports:
        config = self.config
        queues = len(QUEUES)
        return {
            "entry_valid": In(1),
            "entry_ready": Out(1),
            "entry": In(config.entry),
            "available": In(queues),
            "take": Out(queues),
            "has_room": In(queues),
            "has_room_for_all": In(queues),
            "give": Out(queues),
            "engine": Out(EnginePort(PAYLOAD_BITS)),
            "stop": In(1),
            **{f"lacks_{name}": Out(1) for name in QUEUES},
            "is_empty": Out(1),
            "is_stuck": Out(1),
            "error": Out(4),
            "number": Out(config.number_bits),
        }

    def fill(self, m: Module, platform: object) -> None:
        started, retired = Signal(name="started"), Signal(name="retired")
        shows, head = self._store(m, platform, retired)
        oldest, running = self._under_way(m, started, retired, head)
        m.d.comb += self.number.eq(Mux(running.any(), oldest.number, head.number))
        waits = self._start(m, started, shows, head, running)
        blocked = self._retire(m, retired, oldest)
        m.d.comb += self.is_stuck.eq(self.is_empty | Mux(running.any(), blocked, waits))

    def _store(self, m: Module, platform: object, retired: Signal) -> tuple[Signal, data.View]:
        """Take descriptors in and show the next one; return whether it is there, and what it is."""
        config = self.config
        memory = place(m, platform, "memory", BeatMemory(config.memory))
        places = Signal(range(config.depth + 1), name="places_taken")
        unread = Signal(range(config.depth + 1), name="unread")
        into = Signal(range(config.depth), name="into")
        out_of = Signal(range(config.depth), name="out_of")
        shows = Signal(name="shows")
        taken = named(m, "taken", 1, self.entry_valid & self.entry_ready)
        leaves = named(m, "leaves", 1, self.engine.valid & self.engine.ready)
        reads = named(m, "reads", 1, unread.any() & (~shows | leaves))
        m.d.comb += [
            self.entry_ready.eq(places != config.depth),
            self.is_empty.eq(~places.any()),
            memory.write_en.eq(taken),
            memory.write_address.eq(into),
            memory.write_data.eq(self.entry.as_value()),
            memory.read_en.eq(reads),
            memory.read_address.eq(out_of),
        ]
        noted(
            places, "A descriptor keeps its place until its tokens are given, not until it starts."
        )
        m.d.sync += [
            places.eq(places + taken - retired),
            unread.eq(unread + taken - reads),
            shows.eq(reads | (shows & ~leaves)),
        ]
        noted(
            shows, "The memory shows the head a cycle after it is read, until the next one is read."
        )
        for event, pointer in ((taken, into), (reads, out_of)):
            following = truncated(m, f"after_{pointer.name}", len(pointer), pointer + 1)
            update(m, pointer, (event, Mux(pointer == config.depth - 1, 0, following)))
        head = data.View(config.entry, memory.read_data)
        m.d.comb += self.engine.descriptor.eq(head.payload)
        return shows, head

    def _under_way(
        self, m: Module, started: Signal, retired: Signal, head: data.View
    ) -> tuple[data.View, Signal]:
        """Keep what is to be known of descriptors that run; return the oldest and their count."""
        config = self.config
        layout = data.StructLayout({"signal": len(QUEUES), "number": config.number_bits})
        running = Signal(range(config.under_way + 1), name="running")
        m.d.sync += running.eq(running + started - retired)
        kept = [
            Signal(layout.size, name=f"running_{age}", reset_less=True)
            for age in range(config.under_way)
        ]
        update(m, Cat(*kept), (started, Cat(head.signal, head.number, *kept[:-1])))
        ages = Cat(running == age + 1 for age in range(config.under_way))
        is_oldest = named(m, "is_oldest", config.under_way, ages)
        noted(is_oldest, "Descriptors that run stand newest first, and are done in order.")
        oldest = gated_or(m, "oldest", zip(is_oldest, kept, strict=True))
        return data.View(layout, oldest), running

    def _start(
        self, m: Module, started: Signal, shows: Signal, head: data.View, running: Signal
    ) -> Value:
        """Start the descriptor that is shown; return whether it waits for tokens."""
        runs = Signal(name="head_runs")
        waits = named(m, "waits_for_start", 1, shows & ~runs)
        missing = named(m, "missing", len(QUEUES), head.wait & ~self.available)
        is_next = noted(
            named(m, "is_next", 1, ~running.any() | self.has_room_for_all.all()),
            "A descriptor starts before the one in front is done only if the tokens of all that "
            "run are sure to find room.",
        )
        noted(missing, "All tokens that are waited for are taken at once, when none is missing.")
        fits = named(m, "fits", 1, running != self.config.under_way)
        may_start = named(m, "may_start", 1, fits & is_next & ~self.stop)
        m.d.comb += [
            started.eq(waits & ~missing.any() & may_start),
            self.take.eq(Mux(started, head.wait, 0)),
            Cat(getattr(self, f"lacks_{name}") for name in QUEUES).eq(
                Mux(waits & self.engine.ready, missing, 0)
            ),
            self.engine.valid.eq(runs),
            self.engine.stop.eq(self.stop),
        ]
        m.d.sync += runs.eq(started | (runs & ~self.engine.ready))
        return named(m, "waits_for_tokens", 1, waits & missing.any())

    def _retire(self, m: Module, retired: Signal, oldest: data.View) -> Value:
        """Let the oldest descriptor signal once it is done; return whether it waits for room."""
        is_done = noted(
            Signal(name="oldest_is_done"),
            "Waits here until its tokens are given. Only the last one that runs can find a counter "
            "full, so no other is done meanwhile.",
        )
        given = Signal(len(QUEUES), name="given")
        owed = named(m, "owed", len(QUEUES), Mux(is_done, oldest.signal & ~given, 0))
        m.d.comb += [
            self.give.eq(Mux(self.stop, 0, owed & self.has_room)),
            retired.eq(is_done & ~(owed & ~self.has_room).any() & ~self.stop),
            self.error.eq(Mux(is_done, ERRORS["none"], self.engine.error)),
        ]
        m.d.sync += [
            is_done.eq(self.engine.done | (is_done & ~retired)),
            given.eq(Mux(retired, 0, given | self.give)),
        ]
        noted(
            self.error, "While one is done, an error would be taken for that one: it comes later."
        )
        full = named(m, "finds_full", 1, ~(owed & self.has_room).any())
        return named(m, "waits_for_room", 1, owed.any() & full)
