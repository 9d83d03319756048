"""A buffer of operands: codes by beats of several words, and the scales of their blocks."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib.wiring import In

from mxsafe.rtl.arithmetic.bits import kept, named, noted
from mxsafe.rtl.machine.ports import BufferWrite, MemoryRead
from mxsafe.rtl.stream.beat_memory import BeatMemory, BeatMemoryConfiguration
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import AlikePower, PositiveInteger

WRITERS = ("vector", "load")
"""Who writes, in the order in which they go first."""
_HALVES = 2
"""Entries of a word of scales."""


class OperandBufferConfiguration(Configuration):
    """An `OperandBuffer`.

    Parameters
    ----------
    word_bits : int
        Bits of a word: part of a beat of codes, or two entries of scales.
    beats : int
        Beats of codes, a multiple of 4, at least 8, and twice as many as entries of scales.
    words : int
        Words of a beat of codes, a power of two from 2 on.
    scaled : bool
        Whether codes have scales; else there is neither a memory nor a port for them.
    writers : int
        2 where the vector engine and the load engine write, 1 where the vector engine does alone.
    reads_words : bool
        Scales are read by words of two entries.
    target : {"asic", "fpga"}
        What it is built for: for an FPGA what is written waits in a register for a cycle.
    """

    shown_if_not_default = frozenset({"words", "scaled", "target"})

    word_bits: PositiveInteger = 256
    beats: PositiveInteger = 2048
    words: AlikePower = _HALVES
    scaled: bool = True
    writers: PositiveInteger = 2
    reads_words: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.word_bits % 16:
            raise ValueError(f"word_bits must be a multiple of 16, not {self.word_bits}")
        if self.beats < 8 or self.beats % 4:
            raise ValueError(f"beats must be a multiple of 4 from 8 on, not {self.beats}")
        if self.words < _HALVES:
            raise ValueError(f"words must be {_HALVES} or more, not {self.words}")
        if self.writers > len(WRITERS):
            raise ValueError(f"writers must be 1 or 2, not {self.writers}")
        if self.reads_words and not self.scaled:
            raise ValueError("reads_words must be False without scales, not True")

    latency = 1
    """Cycles from an address to what stands there."""

    @property
    def entries(self) -> int:
        """Entries of scales."""
        return self.beats // 2

    @property
    def beat_bits(self) -> int:
        """Bits of a beat of codes."""
        return self.words * self.word_bits

    @property
    def entry_bits(self) -> int:
        """Bits of an entry of scales."""
        return self.word_bits // 2

    @property
    def writes(self) -> dict[str, BufferWrite]:
        """Ports to write, by kind."""
        codes = BufferWrite(self.beats, self.beat_bits, self.words)
        if not self.scaled:
            return {"codes": codes}
        return {"codes": codes, "scales": BufferWrite(self.entries // 2, self.word_bits)}

    @property
    def scales_read(self) -> MemoryRead:
        """The port to read scales."""
        if self.reads_words:
            return MemoryRead(self.entries // 2, self.word_bits)
        return MemoryRead(self.entries, self.entry_bits)

    codes = Part(BeatMemory, beat_bits=lambda c: c.word_bits, depth=lambda c: c.beats)
    # Each has every other entry.
    scales = Part(BeatMemory, beat_bits=lambda c: c.entry_bits, depth=lambda c: c.entries // 2)


class OperandBuffer(Unit[OperandBufferConfiguration]):
    """Codes and scales of operands, written by halves of a beat and single entries.

    A beat of more `words` than two is written by these. Codes and scales are memories apart, each
    with a port to read of its own; of codes without scales there is one. The vector engine goes
    first where two want to write to codes, or to scales, in one cycle. For an FPGA what is read in
    the cycle behind the one in which it was written is not defined either.

    Attributes
    ----------
    vector_codes, load_codes : In(BufferWrite)
        Writing beats of codes, whose halves are words.
    vector_scales, load_scales : In(BufferWrite)
        Writing words of two entries of scales: the even one is the low half.
    codes : In(MemoryRead)
        Reading a beat of codes.
    scales : In(MemoryRead)
        Reading an entry of scales, or a word of two.
    """

    def ports(self) -> Ports:
        config = self.config
        writes = {
            f"{writer}_{kind}": In(signature)
            for writer in WRITERS[: config.writers]
            for kind, signature in config.writes.items()
        }
        reads = {"codes": In(MemoryRead(config.beats, config.beat_bits))}
        if config.scaled:
            reads["scales"] = In(config.scales_read)
        return {**writes, **reads}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        memories = {"codes": (config.words, config.codes), "scales": (_HALVES, config.scales)}
        parts = {
            kind: self._place_parts(m, platform, kind, *memories[kind]) for kind in config.writes
        }
        _read_together(m, self.codes, parts["codes"])
        if config.reads_words:
            _read_together(m, self.scales, parts["scales"])
        elif config.scaled:
            self._read_entries(m, parts["scales"])

    def _read_entries(self, m: Module, halves: Sequence[BeatMemory]) -> None:
        """Of two entries side by side only the one that is wanted."""
        is_odd = kept(m, self.scales.en, "shows_odd_entry", self.scales.address[0])
        noted(is_odd, "Of two entries side by side only the memory of the wanted one is read.")
        for number, half in enumerate(halves):
            m.d.comb += [
                half.read_en.eq(self.scales.en & (self.scales.address[0] == number)),
                half.read_address.eq(self.scales.address[1:]),
            ]
        even, odd = halves
        m.d.comb += self.scales.data.eq(Mux(is_odd, odd.read_data, even.read_data))

    def _place_parts(
        self, m: Module, platform: object, kind: str, count: int, config: BeatMemoryConfiguration
    ) -> list[BeatMemory]:
        """All parts of a kind of memory, with those who write to them."""
        writers: list[Any] = [
            getattr(self, f"{writer}_{kind}") for writer in WRITERS[: self.config.writers]
        ]
        first, last = writers[0], writers[-1]
        m.d.comb += first.ready.eq(1)
        if last is not first:
            m.d.comb += last.ready.eq(~first.valid)
        writes = named(m, f"{kind}_written", 1, first.valid | last.valid)
        if last is not first:
            noted(
                writes, "The first writer goes first: the other is ready while it writes nothing."
            )
        address = Mux(first.valid, first.address, last.address)
        halves = Mux(first.valid, first.halves, last.halves)
        data = Mux(first.valid, first.data, last.data)
        written: tuple[Value, ...] = (
            named(m, f"{kind}_address", len(address), address),
            named(m, f"{kind}_halves", count, halves),
            named(m, f"{kind}_data", len(data), data),
        )
        # The memories lie all over the device: what they get comes from registers.
        registers = at(self.config, "write")
        valid = held(m, f"{kind}_is_held", writes, registers, reset=True)
        written = tuple(held(m, f"{value.name}_held", value, registers) for value in written)
        placed = []
        for number in range(count):
            memory = place(m, platform, f"{kind}_{number}", BeatMemory(config))
            m.d.comb += [
                memory.write_en.eq(valid & written[1][number]),
                memory.write_address.eq(written[0]),
                memory.write_data.eq(written[2].word_select(number, config.beat_bits)),
            ]
            placed.append(memory)
        return placed


def _read_together(m: Module, port: Any, parts: Sequence[BeatMemory]) -> None:
    """Parts side by side at a time."""
    for part in parts:
        m.d.comb += [part.read_en.eq(port.en), part.read_address.eq(port.address)]
    m.d.comb += port.data.eq(Cat(part.read_data for part in parts))
