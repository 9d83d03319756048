"""The LOAD engine of the machine: words of memory into the buffers."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import ERRORS, LOAD_BUFFERS
from mxsafe.rtl.arithmetic.bits import chosen, equals, gated_or, named, noted, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.dma.buffer_address_generator import BUFFER_FIELDS, BufferAddressGenerator
from mxsafe.rtl.machine.dma.memory_address_generator import MEMORY_FIELDS, MemoryAddressGenerator
from mxsafe.rtl.machine.dma.packing import Parts
from mxsafe.rtl.machine.dma.tile_transposer import TileTransposer
from mxsafe.rtl.machine.dma.wide_transposer import WideTransposer
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.machine.ports import BufferWrite, EnginePort
from mxsafe.rtl.stream.axi_stream import joined
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Part, Ports, Unit, place

_DESCRIPTOR = descriptor_layout("load")
_VECTOR = "vector"
_TILE = 8
_TWO_TILES = 16
"""Rows of a strip in which two tiles stand one above the other."""
_CODE_BITS = 8
_NIBBLE_BITS = 4


class LoadEngineConfiguration(PartConfiguration, eq=False):
    """A `LoadEngine`, of the sizes of its machine."""

    decided_by = (
        "rows",
        "a_beats",
        "w_beats",
        "vector_beats",
        "code_bytes",
        "scaled",
        "load_packings",
        "target",
    )
    shown_if_not_default = frozenset({"code_bytes", "scaled", "load_packings", "target"})

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to its first run; a word is written in the cycle it comes in."""
        return self.memory.latency

    memory = Part(
        MemoryAddressGenerator,
        tells_last=lambda _: False,
        paced=lambda engine: bool(at(engine, "runs")),
    )
    # Of wide codes some words stand side by side, where these are transposed.
    walk = Part(
        BufferAddressGenerator,
        paced=lambda engine: bool(at(engine, "word")),
        together=lambda e: e.machine.code_bytes if e.machine.transposes else 1,
    )

    def build_transposer(self) -> TileTransposer | WideTransposer | None:
        """The transposer of code tiles, if strips have whole ones: both have the same streams."""
        rows, code_bytes = self.machine.rows, self.machine.code_bytes
        if not self.machine.transposes:
            return None
        if code_bytes == 1:
            return TileTransposer(rows=rows)
        return WideTransposer(rows=rows, code_bytes=code_bytes)

    @property
    def word(self) -> data.StructLayout:
        """A word from memory, and whether memory answered with an error."""
        return data.StructLayout({"data": self.word_bits, "error": 1})

    @property
    def buffers(self) -> dict[str, tuple[int, int]]:
        """Entries of each buffer, and words of an entry."""
        m = self.machine
        sizes = {
            "a_codes": (m.a_beats, m.beat_words),
            "a_scales": (m.a_entries // 2, 1),
            "w_codes": (m.w_beats, m.beat_words),
            "w_scales": (m.w_entries // 2, 1),
            _VECTOR: (m.vector_beats, 2),
        }
        return {name: size for name, size in sizes.items() if name in m.load_buffers}


class LoadEngine(Unit[LoadEngineConfiguration]):
    """Runs LOAD descriptors: asks for runs of words, and writes what comes to a buffer.

    While words of a descriptor are still to come, those of the next one are asked for.

    Attributes
    ----------
    engine : In(EnginePort)
        The queue. `done` comes with the last write of a descriptor.
    base : In
        Where the memory of the program begins, in words.
    run : Out(stream)
        Runs of words that are wanted.
    words : In(stream)
        The words of all runs, one after the other: ``data``, ``error``.
    a_codes, a_scales, w_codes, w_scales, vector : Out(BufferWrite)
        The buffers. Half a beat is written at a time, apart from numbers that are widened.

    Notes
    -----
    A word of memory that is several of a buffer waits at the port until all are written.
    A word at an address of 2^64 or more is an error as one that memory answers with an error, and
    is not asked for. After an error, and while the queue says `stop`, words are dropped. `ready` of
    a buffer reaches `words_ready` combinationally, but not for an FPGA: there a word waits in a
    register in front of the buffers, and one comes every second cycle at most; the word there is
    still written in the first cycle of `stop`.
    """

    def ports(self) -> Ports:
        config = self.config
        buffers = {
            name: Out(BufferWrite(entries, words * config.word_bits, max(words, 2)))
            for name, (entries, words) in config.buffers.items()
        }
        return {
            "engine": In(EnginePort(_DESCRIPTOR)),
            "base": In(ADDRESS_BITS - config.memory.byte_bits),
            "run": Out(stream.Signature(config.memory.run)),
            "words": In(stream.Signature(config.word)),
            **buffers,
        }

    def fill(self, m: Module, platform: object) -> None:
        walk = place(m, platform, "buffer_walk", BufferAddressGenerator(self.config.walk))
        self._holds = Signal(name="word_is_held")
        self._take_descriptors(m, platform, walk)
        self._is = {
            name: named(m, f"is_{name}", 1, equals(self._buffer, LOAD_BUFFERS[name]))
            for name in self.config.buffers
        }
        valid, word, moves = self._pass_words(m, platform, walk)
        write = _Write(
            valid=valid,
            word=word,
            numbers=self.words.payload.data,
            place=walk.place,
            last=walk.last,
            widens=self._widen,
            buffers=self._is,
        )
        if at(self.config, "word"):
            write = self._hold(m, walk, write, moves)
        else:
            m.d.comb += [moves.eq(self._written), walk.advance.eq(self._written)]
        self._write(m, write)

    def _hold(
        self, m: Module, walk: BufferAddressGenerator, write: "_Write", moves: Signal
    ) -> "_Write":
        """A word and all that is to be known of it in registers, where one enters if none is."""
        parts = (
            Mux(write.widens, write.numbers, write.word),
            write.place,
            write.last,
            write.widens,
            *write.buffers.values(),
        )
        parts = (*parts[:4], self._is_within(m, write), *parts[4:])
        held = [
            Signal(len(part), name=f"held_{index}", reset_less=True)
            for index, part in enumerate(parts)
        ]
        m.d.comb += [moves.eq(write.valid & ~self._holds), walk.advance.eq(moves)]
        m.d.sync += self._holds.eq(Mux(self._holds, ~self._written, moves) & ~self.engine.stop)
        update(m, Cat(*held), (moves, Cat(*parts)))
        word, place, last, widens, within, *buffers = held
        return _Write(
            valid=self._holds,
            word=word,
            numbers=word,
            place=place,
            last=last,
            widens=widens,
            buffers=dict(zip(write.buffers, buffers, strict=True)),
            within=within,
        )

    def _take_descriptors(self, m: Module, platform: object, walk: BufferAddressGenerator) -> None:
        """Ask for words of one descriptor while those of the one before may still come."""
        memory = place(m, platform, "memory_walk", MemoryAddressGenerator(self.config.memory))
        engine, fields = self.engine, self.engine.descriptor
        taken = Signal(name="is_taken")
        ends = walk.advance & walk.last
        if at(self.config, "word"):
            ends = Const(0, 1)  # a cycle later, from a register
        is_oldest: Value = taken
        if at(self.config, "word"):
            is_oldest = taken & ~self._holds
        self._runs_past = noted(
            named(m, "runs_past", 1, memory.past & is_oldest),
            "An error belongs to the oldest descriptor that is not done: this one is, once its "
            "addresses in the buffer have begun.",
        )
        is_free = noted(
            named(m, "is_free", 1, ~walk.active | ends),
            "Words of the next descriptor are asked for while those of this one still come; its "
            "addresses in the buffer begin when the last of these is written.",
        )
        takes = named(m, "takes", 1, engine.valid & ~taken & is_free)
        leaves = named(m, "descriptor_leaves", 1, taken & memory.asked)
        update(m, taken, (leaves, 0), (takes, 1))
        self._parts = Parts(
            m, self.config.machine, self.config.machine.load_packings, fields, takes
        )
        wanted = {name: fields[name] for name in MEMORY_FIELDS} | {"count_0": self._parts.run}
        m.d.comb += [
            engine.ready.eq(leaves),
            memory.base.eq(self.base),
            *(memory.fields[name].eq(value) for name, value in wanted.items()),
            memory.valid.eq(engine.valid),
            memory.leaves.eq(leaves),
            *joined(memory.run, self.run),
            walk.take.eq(takes),
            walk.start.eq(fields.to),
            *((walk.joins.eq(fields.transpose),) if self.config.walk.together > 1 else ()),
            *(walk.fields[name].eq(fields[name]) for name in BUFFER_FIELDS),
        ]
        self._buffer = Signal(_DESCRIPTOR["buffer"].shape, name="buffer", reset_less=True)
        self._transpose = Signal(name="transposes", reset_less=True)
        self._widen = Signal(name="widens", reset_less=True)
        with m.If(takes):
            m.d.sync += [
                self._buffer.eq(fields.buffer),
                self._transpose.eq(fields.transpose),
                self._widen.eq(fields.widen),
            ]

    def _pass_words(
        self, m: Module, platform: object, walk: BufferAddressGenerator
    ) -> tuple[Value, Value, Signal]:
        """Words as they are to be written, of codes perhaps transposed; say when one moves on."""
        words, engine = self.words, self.engine
        transposer = self.config.build_transposer()
        if transposer is not None:
            place(m, platform, "transposer", transposer)
        self._failed = Signal(name="has_failed")
        self._written = Signal(name="is_written")
        moves = Signal(name="word_moves")
        drops = named(m, "drops", 1, self._failed | engine.stop)
        is_active = walk.settled if at(self.config, "word") else walk.active
        works = named(m, "works", 1, is_active & ~drops)
        of_codes = named(m, "is_of_codes", 1, self._is["a_codes"] | self._is["w_codes"])
        turns = named(m, "turns_tiles", 1, self._transpose & of_codes)
        noted(drops, "After an error, and while all is to end, words are taken and dropped.")
        there = named(m, "word_is_there", 1, words.valid & ~words.payload.error & works)
        wrong = words.valid & words.payload.error & works
        if at(self.config, "word"):
            # What is held belongs to a descriptor before it, or to words before it.
            wrong = wrong & ~self._holds
        self._read_error = named(m, "read_error", 1, wrong)
        parts, codes = self._parts, self._codes(m, words.payload.data)
        is_taken: Value = moves if transposer is None else Mux(turns, transposer.s.ready, moves)
        takes = named(m, "part_is_taken", 1, works & is_taken)
        # What is turned has whole words, and comes in before its places are due.
        ends_word = parts.step(there & takes, walk.ends_run & ~turns)
        m.d.comb += words.ready.eq(drops | (takes & ends_word))
        choices: list[tuple[Value, Value]] = []
        repeats = parts.packed.get("tiles")
        if repeats is not None:
            choices.append((repeats, self._scales(m, words.payload.data)))
        if transposer is None:
            word = codes if repeats is None else gated_or(m, "word", [*choices, (~repeats, codes)])
            return there, word, moves
        valid = named(m, "out_is_valid", 1, Mux(turns, transposer.m.valid & works, there))
        m.d.comb += [
            transposer.s.valid.eq(there & turns),
            transposer.s.payload.eq(codes),
            transposer.m.ready.eq(moves),
        ]
        if transposer.config.overlaps:
            # The words of the next descriptor do not enter while the last tiles leave.
            m.d.comb += transposer.alone.eq(walk.last_turn)
        others = ~turns if repeats is None else ~turns & ~repeats
        as_it_is = named(m, "is_as_it_is", 1, others)
        choices += [(turns, transposer.m.payload), (as_it_is, codes)]
        return valid, gated_or(m, "word", choices), moves

    def _codes(self, m: Module, word: Value) -> Value:
        """Codes as they are in a buffer, a byte each."""
        packed = self._parts.packed.get("nibbles")
        if packed is None:
            return word
        half = len(word) // 2
        own = named(m, "nibbles", half, Mux(self._parts.number[0], word[half:], word[:half]))
        bytes_ = (own.word_select(i, _NIBBLE_BITS) for i in range(half // _NIBBLE_BITS))
        spread = Cat(Cat(one, Const(0, _CODE_BITS - _NIBBLE_BITS)) for one in bytes_)
        return named(m, "codes", len(word), Mux(packed, spread, word))

    def _scales(self, m: Module, word: Value) -> Value:
        """Scales of tiles as they are in a buffer, one for each row."""
        times = self.config.machine.word_parts["tiles"]
        size = len(word) // times
        parts = [word.word_select(i, size) for i in range(times)]
        own = chosen(m, "scales", self._parts.number, parts)
        scales = [own.word_select(i, _CODE_BITS) for i in range(size // _CODE_BITS)]
        if self.config.machine.rows == _TWO_TILES:
            left = named(m, "second_scale", _CODE_BITS, Mux(self._transpose, scales[2], scales[1]))
            right = named(m, "third_scale", _CODE_BITS, Mux(self._transpose, scales[1], scales[2]))
            noted(left, "Tiles left and right of each other become tiles one above the other.")
            scales[1:3] = left, right
        return Cat(scale.replicate(times) for scale in scales)

    def _is_within(self, m: Module, write: "_Write") -> Value:
        """Whether a word is for a place in its buffer."""
        here = write.place
        self._in_words = named(m, "place_in_words", None, Mux(write.widens, here << 1, here))
        limits = [
            (write.buffers[name], Const(entries * words, len(self._in_words)))
            for name, (entries, words) in self.config.buffers.items()
        ]
        return named(m, "is_within", 1, self._in_words < gated_or(m, "limit", limits))

    def _write(self, m: Module, write: "_Write") -> None:
        """Write words where they belong, unless that is past the end."""
        config, engine, here = self.config, self.engine, write.place
        valid, word, chosen = write.valid, write.word, write.buffers
        # Places of numbers that are widened count whole beats.
        if write.within is None:
            within = self._is_within(m, write)
            in_words = self._in_words
        else:
            within = write.within
            in_words = named(m, "held_in_words", None, Mux(write.widens, here << 1, here))
        writes = named(m, "writes", 1, valid & within)
        # Numbers of bfloat16 as binary32.
        narrow = (write.numbers.word_select(i, 16) for i in range(len(word) // 16))
        wide = Cat(Cat(Const(0, 16), number) for number in narrow)
        both = Cat(word, word)
        beat = named(m, "vector_data", None, Mux(write.widens, wide, both))
        ready: Value = Const(0, 1)
        for name, (entries, words) in config.buffers.items():
            port: BufferWrite = getattr(self, name)
            part, address = here[: words.bit_length() - 1], here[words.bit_length() - 1 :]
            half = Cat(_one_of(part)) if words > 1 else Const(3, 2)
            if name == _VECTOR:
                half = half | write.widens.replicate(2)
                address = in_words[1:]
            m.d.comb += [
                port.valid.eq(writes & chosen[name]),
                port.address.eq(address[: (entries - 1).bit_length()]),
                port.halves.eq(half),
                port.data.eq(beat if name == _VECTOR else Cat(word for _ in range(words))),
            ]
            ready = ready | (port.ready & chosen[name])
        m.d.comb += self._written.eq(writes & ready)
        past = named(m, "is_past_end", 1, valid & ~within)
        code = Signal(len(engine.error), name="error_code")
        with m.If(past | self._read_error | self._runs_past):
            m.d.sync += [
                self._failed.eq(1),
                code.eq(Mux(past, ERRORS["address"], ERRORS["read"])),
            ]
        m.d.comb += [
            engine.done.eq(self._written & write.last),
            engine.error.eq(code),
        ]


def _one_of(number: Value) -> list[Value]:
    """Whether a number is 0, 1... one after the other."""
    found: list[Value] = [~number[0], number[0]]
    for bit in number[1:]:
        found = [*(is_low & ~bit for is_low in found), *(is_low & bit for is_low in found)]
    return found


@dataclass(frozen=True)
class _Write:
    """A word that is to be written.

    Attributes
    ----------
    valid : Value
        There is one.
    word, numbers : Value
        It; and as numbers that are widened.
    place, last : Value
        Where it stands, and whether it is the last one of its descriptor.
    widens : Value
        Its numbers are widened.
    buffers : Mapping
        By name whether it is for a buffer.
    within : Value or None
        The place is one of the buffer, if that is known already.
    """

    valid: Value
    word: Value
    numbers: Value
    place: Value
    last: Value
    widens: Value
    buffers: Mapping[str, Value]
    within: Value | None = None
