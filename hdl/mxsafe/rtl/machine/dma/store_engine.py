"""The STORE engine of the machine: words of the buffers into memory."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import ERRORS, STORE_BUFFERS
from mxsafe.rtl.arithmetic.bfloat16 import rounded_to_bfloat16
from mxsafe.rtl.arithmetic.bits import equals, gated_or, named, noted, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.dma.buffer_address_generator import BUFFER_FIELDS, BufferAddressGenerator
from mxsafe.rtl.machine.dma.memory_address_generator import MEMORY_FIELDS, MemoryAddressGenerator
from mxsafe.rtl.machine.dma.packing import Parts
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.machine.ports import BufferRead, EnginePort, MemoryRead
from mxsafe.rtl.stream.axi_stream import joined
from mxsafe.rtl.stream.register_slice import RegisterSlice
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Part, Ports, Unit, place

_DESCRIPTOR = descriptor_layout("store")
_VECTOR = "vector"
_UNWRITTEN_BITS = 2
_CODE_BITS = 8
_NIBBLE_BITS = 4


class StoreEngineConfiguration(PartConfiguration, eq=False):
    """A `StoreEngine`, of the sizes of its machine."""

    decided_by = (
        "rows",
        "out_beats",
        "vector_beats",
        "code_bytes",
        "scaled",
        "store_packings",
        "target",
    )
    shown_if_not_default = frozenset({"code_bytes", "scaled", "store_packings", "target"})

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to its first word."""
        return self.memory.latency

    memory = Part(MemoryAddressGenerator, paced=lambda engine: bool(at(engine, "runs")))

    @property
    def buffers(self) -> dict[str, tuple[int, int]]:
        """Entries of each buffer, and words of an entry."""
        m = self.machine
        sizes = {
            "out_codes": (m.out_beats, m.beat_words),
            "out_scales": (m.out_entries // 2, 1),
            _VECTOR: (m.vector_beats, 2),
        }
        return {name: size for name, size in sizes.items() if name in m.store_buffers}

    @property
    def operands(self) -> list[str]:
        """Names of the buffers of results that are operands."""
        return [name for name in self.buffers if name != _VECTOR]

    @property
    def more_bits(self) -> int:
        """Bits of the number of a word in a beat of codes, beside the lowest one."""
        return self.machine.beat_words.bit_length() - 2


class StoreEngine(Unit[StoreEngineConfiguration]):
    """Runs STORE descriptors: reads words of a buffer, and hands them over to be written.

    While the writes of a descriptor are not answered, the next one begins.

    Attributes
    ----------
    engine : In(EnginePort)
        The queue. `done` comes when all writes of a descriptor are answered.
    base : In
        Where the memory of the program begins, in words.
    run : Out(stream)
        Runs of words; ``last``: of a descriptor.
    words : Out(stream)
        The words of all runs, one after the other.
    written : In(1)
        All runs up to the next one with ``last`` are written.
    write_error : In(1)
        Memory answered a write with an error; with `written` it belongs to what that tells.
    out_codes, out_scales : Out(MemoryRead)
        The buffer of results.
    vector : Out(BufferRead)
        The vector buffer.

    Notes
    -----
    A word stays in the register of its buffer until it is taken, so that there is none here, but
    for words of which memory has several in one: those wait here for the last one. `words_ready`
    reaches `out_codes_en` and its like combinationally. For an FPGA there is a register for a word,
    which takes one every second cycle at most. A word for an address of 2^64 or more is an error as
    one that memory answers with an error, and is not written. After such an error, `error` stays.
    """

    def ports(self) -> Ports:
        config = self.config
        ports = {
            name: Out(
                (BufferRead if name == _VECTOR else MemoryRead)(entries, words * config.word_bits)
            )
            for name, (entries, words) in config.buffers.items()
        }
        return {
            "engine": In(EnginePort(_DESCRIPTOR)),
            "base": In(ADDRESS_BITS - config.memory.byte_bits),
            "run": Out(stream.Signature(config.memory.run)),
            "words": Out(stream.Signature(config.word_bits)),
            "written": In(1),
            "write_error": In(1),
            **ports,
        }

    def fill(self, m: Module, platform: object) -> None:
        walk = BufferAddressGenerator(paced=bool(at(self.config, "within")))
        place(m, platform, "buffer_walk", walk)
        unwritten = self._take_descriptors(m, platform, walk)
        past = self._read(m, platform, walk)
        self._finish(m, unwritten, past)

    def _take_descriptors(
        self, m: Module, platform: object, walk: BufferAddressGenerator
    ) -> Signal:
        """Begin a descriptor when the words of the one before are read; count those not written."""
        memory = place(m, platform, "memory_walk", MemoryAddressGenerator(self.config.memory))
        engine, fields = self.engine, self.engine.descriptor
        taken = Signal(name="is_taken")
        unwritten = Signal(_UNWRITTEN_BITS, name="descriptors_unwritten")
        ends = walk.advance & walk.last
        if at(self.config, "within"):
            ends = Const(0, 1)  # a cycle later, from a register
        is_free = named(m, "is_free", 1, ~walk.active | ends)
        has_room = named(m, "has_room", 1, ~unwritten.all())
        takes = named(m, "takes", 1, engine.valid & ~taken & is_free & has_room)
        leaves = named(m, "descriptor_leaves", 1, taken & memory.asked)
        update(m, taken, (leaves, 0), (takes, 1))
        self._runs_past = memory.past
        self._parts = Parts(
            m, self.config.machine, self.config.machine.store_packings, fields, takes
        )
        wanted = {name: fields[name] for name in MEMORY_FIELDS} | {"count_0": self._parts.run}
        noted(
            unwritten, "Descriptors begun whose last answer is not there: they are done in order."
        )
        m.d.sync += unwritten.eq(unwritten + takes - self.written)
        m.d.comb += [
            engine.ready.eq(leaves),
            memory.base.eq(self.base),
            *(memory.fields[name].eq(value) for name, value in wanted.items()),
            memory.valid.eq(engine.valid & taken),
            memory.leaves.eq(leaves),
            *joined(memory.run, self.run),
            walk.take.eq(takes),
            walk.start.eq(fields["from"]),
            *(walk.fields[name].eq(fields[name]) for name in BUFFER_FIELDS),
        ]
        self._buffer = Signal(_DESCRIPTOR["buffer"].shape, name="buffer", reset_less=True)
        self._narrow = Signal(name="narrows", reset_less=True)
        with m.If(takes):
            m.d.sync += [self._buffer.eq(fields.buffer), self._narrow.eq(fields.narrow)]
        return unwritten

    def _read(self, m: Module, platform: object, walk: BufferAddressGenerator) -> Value:
        """Read words and offer them; return whether the next one is past the end of its buffer."""
        config, words, here = self.config, self.words, walk.place
        chosen = {
            name: named(m, f"is_{name}", 1, equals(self._buffer, STORE_BUFFERS[name]))
            for name in config.buffers
        }
        # Places of numbers that are narrowed count whole beats.
        in_words = named(m, "place_in_words", None, Mux(self._narrow, here << 1, here))
        limits = [
            (chosen[name], Const(entries * size, len(in_words)))
            for name, (entries, size) in config.buffers.items()
        ]
        within = named(m, "is_within", 1, in_words < gated_or(m, "limit", limits))
        is_active: Value = walk.active
        may_read: Value | None = None
        if at(self.config, "within"):
            inside, is_active = within, walk.settled
            within = held(m, "held_within", inside, reset=True)
            may_read = held(m, "may_read", inside & ~self.engine.stop, reset=True)
        pending = Signal(name="word_is_read")
        source = {name: Signal(name=f"from_{name}", reset_less=True) for name in config.buffers}
        half = Signal(name="is_upper_half", reset_less=True)
        more = Signal(config.more_bits, name="half_of_beat", reset_less=True)
        narrowed = Signal(name="is_narrowed", reset_less=True)
        is_held = at(self.config, "beat")
        # For an FPGA it holds the beat that is read, of which words are made behind it.
        slice_ = RegisterSlice(bits=2 * config.word_bits + 2, halved=True)
        ends_word = Signal(name="word_is_whole", reset_less=True)
        is_taken = named(
            m, "word_is_taken", 1, (slice_.source.ready if is_held else words.ready) | ~ends_word
        )
        moves = named(m, "word_moves", 1, ~pending | is_taken)
        comes = Signal(name="word_comes")
        if is_held:
            # What the buffers show goes through registers, and no word is read meanwhile.
            moves = named(m, "word_may_be_read", 1, moves & ~comes)
        wanted = is_active & within & moves & ~self.engine.stop
        if may_read is not None:
            wanted = is_active & may_read & moves
        wants = named(m, "wants", 1, wanted)
        reads = named(m, "reads", 1, wants & (self.vector.ready | ~chosen[_VECTOR]))
        if is_held:
            m.d.sync += [comes.eq(reads), pending.eq(comes | pending & ~is_taken)]
        else:
            update(m, pending, (moves, reads))
        parts = self._parts
        self._part = Signal.like(parts.number, name="part_read", reset_less=True)
        self._packed = {
            name: Signal(name=f"is_part_of_{name}", reset_less=True) for name in parts.packed
        }
        ends = parts.step(reads, walk.ends_run)
        with m.If(reads):
            m.d.sync += [
                *(source[name].eq(chosen[name]) for name in source),
                half.eq(here[0]),
                *((more.eq(here[1:]),) if config.more_bits else ()),
                narrowed.eq(self._narrow),
                self._part.eq(parts.number),
                *(self._packed[name].eq(packed) for name, packed in parts.packed.items()),
                ends_word.eq(ends),
            ]
        m.d.comb += walk.advance.eq(reads)
        self._gathers = named(m, "part_is_gathered", 1, pending & ~ends_word)
        self._offers = named(m, "word_is_offered", 1, pending & ends_word)
        is_needed = pending & source[_VECTOR] & ~is_taken
        if is_held:
            is_needed = is_needed | comes & source[_VECTOR]
        for name, (entries, size) in config.buffers.items():
            port = getattr(self, name)
            address = here[size.bit_length() - 1 :]
            if name == _VECTOR:
                address = in_words[1:]
                m.d.comb += [
                    port.valid.eq(wants & chosen[name]),
                    port.hold.eq(is_needed),
                ]
            else:
                m.d.comb += port.en.eq(wants & chosen[name])
            m.d.comb += port.address.eq(address[: (entries - 1).bit_length()])
        if is_held:
            place(m, platform, "slice", slice_)
            self._offer_later(m, slice_, source, half, more, narrowed)
        else:
            self._offer(m, source, half, more, narrowed)
        return named(m, "is_past_end", 1, is_active & ~within)

    def _offer(
        self,
        m: Module,
        source: Mapping[str, Signal],
        half: Signal,
        more: Signal,
        narrowed: Signal,
    ) -> None:
        """The word that has been read."""
        config, bits = self.config, self.config.word_bits
        wide = named(m, "is_wide", 1, source[_VECTOR] & narrowed)
        whole = named(m, "is_whole", 1, source[_VECTOR] & ~narrowed)
        beat = self.vector.data
        choices = (
            (wide, Cat(self._rounded(m, beat))),
            (whole, _half(beat, half, bits)),
            *self._operands(
                m, source, {name: getattr(self, name).data for name in config.operands}, half, more
            ),
        )
        m.d.comb += [
            self.words.valid.eq(self._offers),
            self.words.payload.eq(gated_or(m, "word", choices)),
        ]

    def _offer_later(
        self,
        m: Module,
        slice_: RegisterSlice,
        source: Mapping[str, Signal],
        half: Signal,
        more: Signal,
        narrowed: Signal,
    ) -> None:
        """The word that has been read, by way of registers for what the buffers show."""
        config, bits = self.config, self.config.word_bits
        beat = self.vector.data
        shown_of = {}
        for name in config.operands:
            shown = getattr(self, name).data
            shown_of[name] = Signal.like(shown, name=f"{name}_shown", reset_less=True)
            m.d.sync += shown_of[name].eq(shown)
        choices = (
            (source[_VECTOR], beat[:bits]),
            *self._operands(m, source, shown_of, half, more),
        )
        low = gated_or(m, "low_half", choices)
        is_upper = half & source[_VECTOR] & ~narrowed
        m.d.comb += [
            slice_.source.valid.eq(self._offers),
            slice_.source.payload.eq(Cat(low, beat[bits:], narrowed & source[_VECTOR], is_upper)),
        ]
        held = slice_.sink.payload
        numbers = self._rounded(m, held)
        is_wide, is_upper = held[-2:]
        whole = _half(held[: 2 * bits], is_upper, bits)
        m.d.comb += [
            self.words.valid.eq(slice_.sink.valid),
            self.words.payload.eq(Mux(is_wide, Cat(numbers), whole)),
            slice_.sink.ready.eq(self.words.ready),
        ]

    def _rounded(self, m: Module, beat: Value) -> list[Value]:
        """The numbers of a vector beat as bfloat16."""
        count = self.config.machine.rows
        return [rounded_to_bfloat16(m, i, beat.word_select(i, 32)) for i in range(count)]

    def _operands(
        self,
        m: Module,
        source: Mapping[str, Signal],
        shown: Mapping[str, Value],
        half: Signal,
        more: Signal,
    ) -> list[tuple[Value, Value]]:
        """Words of codes and scales with their gates; of packed ones, parts gathered so far."""
        packed, times, size = self._packed, self.config.machine.word_parts, self.config.word_bits
        codes = shown["out_codes"]
        for bit in reversed(more):
            codes = _half(codes, bit, len(codes) // 2)
        codes = _half(codes, half, size)
        of_codes = source["out_codes"]
        if not self.config.machine.scaled:
            return [(of_codes, codes)]
        scales, of_scales = shown["out_scales"], source["out_scales"]
        parts: dict[str, Value] = {}
        if "nibbles" in packed:
            of_codes = of_codes & ~packed["nibbles"]
            nibbles = (codes.word_select(i, _CODE_BITS) for i in range(size // _CODE_BITS))
            parts["nibbles"] = Cat(one[:_NIBBLE_BITS] for one in nibbles)
        if "tiles" in packed:
            of_scales = of_scales & ~packed["tiles"]
            rows = times["tiles"] * _CODE_BITS
            parts["tiles"] = Cat(scales[i : i + _CODE_BITS] for i in range(0, size, rows))
        choices = [(of_codes, codes), (of_scales, scales)]
        if not parts:
            return choices
        gathered = Signal(size, name="parts_gathered", reset_less=True)
        noted(gathered, "Parts of a word of memory, each in its place; the last one goes past it.")
        for name, part in parts.items():
            word: list[Value] = []
            for number in range(times[name]):
                place = gathered.word_select(number, len(part))
                here = named(m, f"{name}_at_{number}", 1, equals(self._part, number))
                if number == times[name] - 1:
                    word.append(gated_or(m, f"{name}_{number}", [(here, part)]))
                    break
                there = named(m, f"{name}_from_{number}", 1, self._part > number)
                update(m, place, (self._gathers & packed[name] & here, part))
                word.append(gated_or(m, f"{name}_{number}", ((here, part), (there, place))))
            choices.append((packed[name], Cat(word)))
        return choices

    def _finish(self, m: Module, unwritten: Signal, past: Value) -> None:
        """Tell when a descriptor is written, or that the oldest one has an error."""
        engine = self.engine
        failed = Signal(name="has_failed")
        is_oldest = noted(
            named(m, "is_oldest", 1, unwritten == 1),
            "An address belongs to the newest descriptor: those before it come to their end first.",
        )
        alone = named(m, "is_alone", 1, past & is_oldest)
        update(m, failed, (self.write_error | (self._runs_past & is_oldest), 1))
        wrong = named(m, "write_failed", 1, failed | self.write_error)
        code = Mux(wrong, ERRORS["write"], Mux(alone, ERRORS["address"], ERRORS["none"]))
        m.d.comb += [engine.done.eq(self.written & ~wrong), engine.error.eq(code)]


def _half(beat: Value, upper: Value, bits: int) -> Value:
    return Mux(upper, beat[bits:], beat[:bits])
