"""Descriptors out of memory: asked for ahead, judged, numbered, handed over in order."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import DESCRIPTOR_BITS, DESCRIPTOR_BYTES, ERRORS
from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS
from mxsafe.rtl.machine.control.descriptor_check import (
    DescriptorCheck,
    DescriptorCheckConfiguration,
)
from mxsafe.rtl.machine.ports import ERROR_BITS, RUN_BITS
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place

NUMBER_BITS = 32
"""Bits of the length of a program, and of a descriptor's number."""
_AHEAD = 16
"""Most descriptors that are asked for and not handed over; half of them are at a time."""


class FetchConfiguration(Configuration):
    """A `Fetch`.

    Parameters
    ----------
    check : DescriptorCheckConfiguration
        What it judges descriptors by. If that is for an FPGA, it is said from a register that words
        are wanted, too.
    """

    check: DescriptorCheckConfiguration = field(default_factory=DescriptorCheckConfiguration)

    @property
    def target(self) -> Target:
        """Target that it is built for."""
        return self.check.target

    @property
    def latency(self) -> int:
        """Cycles from the last word of a descriptor to the descriptor."""
        return 3 + self.check.latency

    @property
    def properties(self) -> Mapping[str, Any]:
        return {"ahead": _AHEAD}

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return self.check.machine.word_bytes

    @property
    def words(self) -> int:
        """Words of a descriptor."""
        return DESCRIPTOR_BYTES // self.word_bytes

    @property
    def run(self) -> data.StructLayout:
        """Request to memory: the address of the first word, in words, and their number."""
        first = ADDRESS_BITS - (self.word_bytes.bit_length() - 1)
        return data.StructLayout({"first": first, "words": RUN_BITS})

    @property
    def word(self) -> data.StructLayout:
        """A word that came, and whether memory answered with an error."""
        return data.StructLayout({"data": 8 * self.word_bytes, "error": 1})

    memory = Part(BeatMemory, beat_bits=lambda c: c.word.size, depth=lambda _: _AHEAD)


class Fetch(Unit[FetchConfiguration]):
    """Reads a program and hands its descriptors over, one after the other.

    It asks for no more words than it has room for, so it takes them at any time: other streams of
    words behind them never wait for a queue of descriptors. A descriptor is judged when all before
    it have been handed over; one with an error stays. One with a word at an address of 2^64 or more
    has the error of one that memory did not give, and is not asked for.

    Attributes
    ----------
    start : In(1)
        A program begins; not while one is in flight.
    address : In
        Address of its first byte; the bits within a word do not count.
    length : In
        Its descriptors.
    stop : In(1)
        Nothing is asked for or handed over any more.
    run : Out(stream)
        Words that are wanted: ``first``: address of the first one, in words; ``words``: how many.
    word_valid, word : In
        A word that came, in order: ``data``, ``error``. It is taken at once.
    descriptor_valid, descriptor_ready, descriptor : Out, In, Out
        A descriptor without an error of its own.
    number : Out
        Its number, from 0, or that of the one with an error.
    error : Out(4)
        Code of the error of the next descriptor.
    ended : Out(1)
        All descriptors are handed over.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "start": In(1),
            "address": In(ADDRESS_BITS),
            "length": In(NUMBER_BITS),
            "stop": In(1),
            "run": Out(stream.Signature(config.run)),
            "word_valid": In(1),
            "word": In(config.word),
            "descriptor_valid": Out(1),
            "descriptor_ready": In(1),
            "descriptor": Out(DESCRIPTOR_BITS),
            "number": Out(NUMBER_BITS),
            "error": Out(ERROR_BITS),
            "ended": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        leaves = named(m, "leaves", 1, self.descriptor_valid & self.descriptor_ready)
        self._ask(m, leaves)
        memories = [
            place(m, platform, f"memory_{number}", BeatMemory(self.config.memory))
            for number in range(self.config.words)
        ]
        complete = self._store(m, memories)
        self._hand_over(m, platform, memories, complete, leaves)

    def _ask(self, m: Module, leaves: Value) -> None:
        """Ask for words while there is room for them."""
        config = self.config
        at_a_time = _AHEAD // 2
        left = Signal(NUMBER_BITS, name="descriptors_left")
        bits = len(self.run.payload.first)
        low = Signal(bits // 2, name="next_word_low", reset_less=True)
        high = Signal(bits - len(low), name="next_word_high", reset_less=True)
        is_past = Signal(name="next_word_is_past")
        first = Cat(low, high)
        noted(low, "Addresses in two halves: no chain of carries goes through both.")
        room_bits = (at_a_time * config.words - 1).bit_length()
        near_top = named(m, "is_close_to_top", 1, first[room_bits:].all())
        noted(near_top, "Close to the top of memory descriptors are asked for one by one.")
        is_close: Value = near_top
        is_lost: Value = is_past
        if config.words > 1:
            fits = named(m, "fits", 1, first[:room_bits] <= (1 << room_bits) - config.words)
            is_lost = named(m, "is_lost", 1, is_past | (is_close & ~fits))
        # Nothing is wanted in the cycle behind a change.
        is_close = held(m, "held_close_to_top", is_close, at(config, "wanted"), reset=True)
        ahead = Signal(range(_AHEAD + 1), name="descriptors_ahead")
        has_room = named(m, "has_room", 1, ahead <= _AHEAD - at_a_time)
        noted(
            ahead,
            "Credits: descriptors that are asked for or wait here. Half of the places are asked "
            "for at a time, once they are free.",
        )
        ends = named(m, "ends_program", 1, left <= at_a_time)
        most = named(m, "most_asked", len(ahead), Mux(ends, left, at_a_time))
        asked = named(m, "descriptors_asked", len(ahead), Mux(is_close, 1, most))
        taken = named(m, "run_taken", 1, self.run.valid & self.run.ready)
        wanted: Value = left.any() & has_room & ~self.stop & ~is_lost
        all_asked: Value = ~left.any()
        if at(config, "wanted"):
            changes = named(m, "left_changes", 1, self.start | taken)
            now = Mux(changes, 0, Cat(wanted, all_asked))
            wanted, all_asked = held(m, "is_wanted_or_all_asked", now, reset=True)
        m.d.comb += [
            self.run.valid.eq(wanted),
            self.run.payload.first.eq(first),
            self.run.payload.words.eq(asked * config.words),
            self.ended.eq(all_asked & ~ahead.any()),
        ]
        more = named(m, "more_ahead", len(ahead), Mux(taken, asked, 0))
        # Whether it is close to the top takes as long to know as either sum.
        nearer, further = low + config.words, low + at_a_time * config.words
        next_low = named(m, "next_low", len(low) + 1, Mux(is_close, nearer, further))
        next_high = named(m, "next_high", len(high) + 1, high + 1)
        lost = named(m, "next_is_lost", 1, left.any() & is_lost & ~ahead.any())
        self._lost = held(m, "held_lost", lost, at(config, "wanted"), reset=True)
        m.d.sync += ahead.eq(ahead + more - leaves)
        with m.If(self.start):
            fine = config.word_bytes.bit_length() - 1
            m.d.sync += [left.eq(self.length), first.eq(self.address[fine:]), is_past.eq(0)]
        with m.Elif(taken):
            m.d.sync += [left.eq(left - asked), low.eq(next_low[:-1])]
            update(m, Cat(high, is_past), (next_low[-1], next_high))

    def _store(self, m: Module, memories: list[BeatMemory]) -> Value:
        """Store words as they come; return whether one ends a descriptor."""
        words = self.config.words
        into = Signal(range(_AHEAD), name="into")
        ends: Value = self.word_valid
        gates: list[Value] = [self.word_valid]
        if words > 1:
            which = Signal(range(words), name="which_word")
            update(m, which, (self.word_valid, which + 1))
            gates = [self.word_valid & (which == number) for number in range(words)]
            ends = gates[-1]
        complete = named(m, "descriptor_is_complete", 1, ends)
        update(m, into, (complete, into + 1))
        for gate, memory in zip(gates, memories, strict=True):
            m.d.comb += [
                memory.write_en.eq(gate),
                memory.write_address.eq(into),
                memory.write_data.eq(self.word.as_value()),
            ]
        return complete

    def _hand_over(
        self,
        m: Module,
        platform: object,
        memories: list[BeatMemory],
        complete: Value,
        leaves: Value,
    ) -> None:
        """Show the oldest descriptor, judge it, and let it go."""
        config = self.config
        waiting = Signal(range(_AHEAD + 1), name="waiting")
        out_of = Signal(range(_AHEAD), name="out_of")
        shows, judged = Signal(name="shows"), Signal(name="judged")
        reads = named(m, "reads", 1, waiting.any() & (~shows | leaves))
        m.d.sync += [
            waiting.eq(waiting + complete - reads),
            shows.eq(reads | (shows & ~leaves)),
        ]
        noted(
            judged, "A descriptor is offered a cycle after it is shown: its check has a register."
        )
        is_checked: Value = shows & ~leaves
        if config.check.latency:
            is_checked = is_checked & held(m, "is_checked", is_checked, reset=True)
        m.d.sync += judged.eq(is_checked)
        update(m, out_of, (reads, out_of + 1))
        words = [data.View(config.word, memory.read_data) for memory in memories]
        for memory in memories:
            m.d.comb += [memory.read_en.eq(reads), memory.read_address.eq(out_of)]
        check = place(m, platform, "check", DescriptorCheck(config.check))
        failed = named(m, "fetch_failed", 1, Cat(word.error for word in words).any())
        found = Mux(failed, ERRORS["fetch"], check.error)
        verdict = kept(m, shows & ~judged, "verdict", found)
        m.d.comb += [
            self.descriptor.eq(Cat(word.data for word in words)),
            check.descriptor.eq(self.descriptor),
            self.descriptor_valid.eq(judged & ~verdict.any() & ~self.stop),
            self.error.eq(Mux(judged, verdict, Mux(self._lost, ERRORS["fetch"], 0))),
        ]
        following = truncated(m, "next_number", NUMBER_BITS, self.number + 1)
        update(m, self.number, (self.start, 0), (leaves, following))
