"""A buffer of operands: codes by beats in two halves, and the scales of their blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.machine.ports import BufferWrite, MemoryRead
from mxsafe.rtl.notes import noted
from mxsafe.rtl.stream.beat_memory import BeatMemory, BeatMemoryConfiguration
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Part, Unit, place
from mxsafe.validation import PositiveInteger

WRITERS = ("vector", "load")
"""Who writes, in the order in which they go first."""


@dataclass(frozen=True, kw_only=True)
class OperandBufferConfiguration(Configuration):
    """An `OperandBuffer`.

    Parameters
    ----------
    word_bits : int
        Bits of a word: half a beat of codes, or two entries of scales.
    beats : int
        Beats of codes, a multiple of 4, at least 8, and twice as many as entries of scales.
    writers : int
        2 where the vector engine and the load engine write, 1 where the vector engine does alone.
    reads_words : bool
        Scales are read by words of two entries.
    target : {"asic", "fpga"}
        What it is built for: for an FPGA what is written waits in a register for a cycle.
    """

    word_bits: PositiveInteger = 256
    beats: PositiveInteger = 2048
    writers: PositiveInteger = 2
    reads_words: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.word_bits % 16:
            raise ValueError(f"word_bits must be a multiple of 16, not {self.word_bits}")
        if self.beats < 8 or self.beats % 4:
            raise ValueError(f"beats must be a multiple of 4 from 8 on, not {self.beats}")
        if self.writers > len(WRITERS):
            raise ValueError(f"writers must be 1 or 2, not {self.writers}")

    latency = 1
    """Cycles from an address to what stands there."""

    @property
    def entries(self) -> int:
        """Entries of scales."""
        return self.beats // 2

    @property
    def beat_bits(self) -> int:
        """Bits of a beat of codes."""
        return 2 * self.word_bits

    @property
    def entry_bits(self) -> int:
        """Bits of an entry of scales."""
        return self.word_bits // 2

    @property
    def scales_read(self) -> MemoryRead:
        """The port to read scales."""
        if self.reads_words:
            return MemoryRead(self.entries // 2, self.word_bits)
        return MemoryRead(self.entries, self.entry_bits)

    codes = Part(BeatMemory, beat_bits=lambda c: c.word_bits, depth=lambda c: c.beats)

    @property
    def scales(self) -> BeatMemoryConfiguration:
        """A memory of every other entry of scales."""
        return BeatMemoryConfiguration(beat_bits=self.entry_bits, depth=self.entries // 2)


class OperandBuffer(Unit[OperandBufferConfiguration]):
    """Codes and scales of operands, written by halves of a beat and single entries.

    Codes and scales are memories apart, each with a port to read of its own. The vector engine goes
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

    def ports(self) -> Mapping[str, Member]:
        config = self.config
        writes = {
            f"{writer}_{kind}": In(signature)
            for writer in WRITERS[: config.writers]
            for kind, signature in (
                ("codes", BufferWrite(config.beats, config.beat_bits)),
                ("scales", BufferWrite(config.entries // 2, config.word_bits)),
            )
        }
        return {
            **writes,
            "codes": In(MemoryRead(config.beats, config.beat_bits)),
            "scales": In(config.scales_read),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        code_halves = self._place_halves(m, platform, "codes", config.codes)
        scale_halves = self._place_halves(m, platform, "scales", config.scales)
        for half in code_halves:
            m.d.comb += [
                half.read_en.eq(self.codes.en),
                half.read_address.eq(self.codes.address),
            ]
        m.d.comb += self.codes.data.eq(Cat(half.read_data for half in code_halves))
        if self.config.reads_words:
            self._read_words(m, scale_halves)
        else:
            self._read_entries(m, scale_halves)

    def _read_words(self, m: Module, halves: Sequence[BeatMemory]) -> None:
        """Two entries side by side at a time."""
        for half in halves:
            m.d.comb += [
                half.read_en.eq(self.scales.en),
                half.read_address.eq(self.scales.address),
            ]
        m.d.comb += self.scales.data.eq(Cat(half.read_data for half in halves))

    def _read_entries(self, m: Module, halves: Sequence[BeatMemory]) -> None:
        """Of two entries side by side only the one that is wanted."""
        is_odd = Signal(name="shows_odd_entry", reset_less=True)
        noted(is_odd, "Of two entries side by side only the memory of the wanted one is read.")
        with m.If(self.scales.en):
            m.d.sync += is_odd.eq(self.scales.address[0])
        for number, half in enumerate(halves):
            m.d.comb += [
                half.read_en.eq(self.scales.en & (self.scales.address[0] == number)),
                half.read_address.eq(self.scales.address[1:]),
            ]
        even, odd = halves
        m.d.comb += self.scales.data.eq(Mux(is_odd, odd.read_data, even.read_data))

    def _place_halves(
        self, m: Module, platform: object, kind: str, config: BeatMemoryConfiguration
    ) -> list[BeatMemory]:
        """Both halves of a kind of memory, with those who write to them."""
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
            named(m, f"{kind}_halves", 2, halves),
            named(m, f"{kind}_data", len(data), data),
        )
        # The memories lie all over the device: what they get comes from registers.
        registers = at(self.config, "write")
        valid = held(m, f"{kind}_is_held", writes, registers, reset=True)
        written = tuple(held(m, f"{value.name}_held", value, registers) for value in written)
        placed = []
        for number in range(2):
            memory = place(m, platform, f"{kind}_{number}", BeatMemory(config))
            m.d.comb += [
                memory.write_en.eq(valid & written[1][number]),
                memory.write_address.eq(written[0]),
                memory.write_data.eq(written[2].word_select(number, config.beat_bits)),
            ]
            placed.append(memory)
        return placed
