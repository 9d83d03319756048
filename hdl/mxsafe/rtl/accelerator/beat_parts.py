"""Beats in parts, for vector units of fewer lanes, and parts of results to beats again."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import chosen, equals, named, truncated
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.beat_memory import BeatMemory, BeatMemoryConfiguration
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import AlikePower, require_positive_integer, require_power_of_two

__all__ = [
    "BeatJoiner",
    "BeatJoinerConfiguration",
    "BeatSplitter",
    "BeatSplitterConfiguration",
]


@dataclass(frozen=True, kw_only=True)
class _PartsConfiguration(Configuration):
    columns: AlikePower = 16
    parts: AlikePower = 2
    depth: int = 512

    def __post_init__(self) -> None:
        for name in ("columns", "parts", "depth"):
            self._set(**{name: require_power_of_two(name, getattr(self, name))})
        if not 2 <= self.parts <= self.columns:
            raise ValueError(f"parts must be from 2 to {self.columns}, not {self.parts}")
        if self.depth < 2:
            raise ValueError(f"depth must be 2 or more, not {self.depth}")

    @property
    def latency(self) -> int:
        """Clocks from a beat of a row to a part of it that waits for the end of the row."""
        return 2

    @property
    def beat(self) -> data.ArrayLayout:
        """Layout of a beat."""
        return data.ArrayLayout(32, self.columns)

    @property
    def part(self) -> data.ArrayLayout:
        """Layout of a part."""
        return data.ArrayLayout(32, self.columns // self.parts)


@dataclass(frozen=True, kw_only=True)
class BeatSplitterConfiguration(_PartsConfiguration):
    """A `BeatSplitter`.

    Parameters
    ----------
    columns : int
        Numbers of a beat, a power of two.
    parts : int
        Parts of a beat, a power of two, at least 2.
    depth : int
        Beats of the longest row that is given part by part, a power of two.
    beats_bits : int
        Bits of the number of beats of a row.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    beats_bits: int = 13

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(beats_bits=require_positive_integer("beats_bits", self.beats_bits))

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return "beat_splitter"

    @property
    def memory(self) -> BeatMemoryConfiguration:
        """What holds all parts of a row but the first."""
        bits = self.beat.size - self.part.size
        return BeatMemoryConfiguration(beat_bits=bits, depth=self.depth)


class BeatSplitter(Unit[BeatSplitterConfiguration]):
    """Gives the parts of each beat one after the other, or the first parts of a whole row first.

    Attributes
    ----------
    start : In(1)
        A row begins with the next beat.
    beats : In(beats_bits)
        Beats of a row, at least 1; steady.
    by_rows : In(1)
        The first parts of a row's beats come first, then their second parts; each ends with
        `m_axis_tlast`, as a row of its own. Such rows have `depth` beats at most. Steady.
    single : In(1)
        Only the number in lane 0 counts, and is in lane 0 of every part. Steady.
    s_axis_tdata : In(array)
        A beat.
    m_axis_tdata : Out(array)
        A part of one.
    m_axis_tlast : Out(1)
        It is of the last beat of a row.
    """

    def ports(self) -> Mapping[str, Member]:
        """How parts are wanted, beats, parts."""
        config = self.config
        return {
            "start": In(1),
            "beats": In(config.beats_bits),
            "by_rows": In(1),
            "single": In(1),
            "s_axis": In(AxiStream(config.beat, last=False)),
            "m_axis": Out(AxiStream(config.part)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        memory = BeatMemory(config.memory)
        place(m, platform, "memory", memory)
        part = Signal(range(config.parts), name="part")
        left = Signal(config.beats_bits, name="beats_left", reset_less=True)
        index = Signal(range(config.depth), name="index")
        shown = Signal(name="is_shown")
        stored = named(m, "is_stored", 1, self.by_rows & part.any())
        moves = named(m, "moves", 1, self.m_axis.tvalid & self.m_axis.tready)
        ends_row = named(m, "ends_row", 1, left == 1)
        turns = named(m, "turns", 1, moves & (ends_row | ~self.by_rows))
        steps = named(m, "steps", 1, moves & (self.by_rows | part.all()))
        enters = named(m, "enters", 1, moves & self.by_rows & ~part.any())
        reads = named(m, "reads", 1, stored & (~shown | moves))
        left_less_1 = truncated(m, "left_less_1", len(left), left - 1)
        with m.If(self.start):
            m.d.sync += [part.eq(0), index.eq(0), shown.eq(0), left.eq(self.beats)]
        with m.Else():
            with m.If(steps):
                m.d.sync += left.eq(Mux(ends_row, self.beats, left_less_1))
            with m.If(turns):
                m.d.sync += [part.eq(part + 1), index.eq(0), shown.eq(0)]
            with m.Elif(enters | reads):
                m.d.sync += [index.eq(index + 1), shown.eq(reads | shown)]
        bits = config.part.size
        whole = self.s_axis.tdata.as_value()
        first, *others = [whole[at : at + bits] for at in range(0, len(whole), bits)]
        others[0] = Mux(self.single, first, others[0])
        later = [memory.read_data[at : at + bits] for at in range(0, bits * len(others), bits)]
        number = named(m, "part_shown", len(part), Mux(self.single, 0, part))
        of_beat = chosen(m, "part_of_beat", part, [first, *others])
        of_beat = named(m, "part_or_number", bits, Mux(self.single, first, of_beat))
        following = truncated(m, "part_stored", len(part), Mux(self.single, 0, number - 1))
        of_row = chosen(m, "part_of_row", following, [*later, later[0]])
        m.d.comb += [
            memory.write_en.eq(enters),
            memory.write_address.eq(index),
            memory.write_data.eq(Cat(*others)),
            memory.read_en.eq(reads),
            memory.read_address.eq(index),
            self.s_axis.tready.eq(self.m_axis.tready & ~stored & (self.by_rows | part.all())),
            self.m_axis.tvalid.eq(Mux(stored, shown, self.s_axis.tvalid)),
            self.m_axis.tlast.eq(ends_row),
            self.m_axis.tdata.as_value().eq(Mux(stored, of_row, of_beat)),
        ]
        return m


@dataclass(frozen=True, kw_only=True)
class BeatJoinerConfiguration(_PartsConfiguration):
    """A `BeatJoiner`.

    Parameters
    ----------
    columns : int
        Numbers of a beat, a power of two.
    parts : int
        Parts of a beat, a power of two, at least 2.
    depth : int
        Beats of the longest row that comes part by part, a power of two.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return "beat_joiner"

    @property
    def memory(self) -> BeatMemoryConfiguration:
        """What holds one part of a row's beats."""
        return BeatMemoryConfiguration(beat_bits=self.part.size, depth=self.depth)


class BeatJoiner(Unit[BeatJoinerConfiguration]):
    """Beats of parts as a `BeatSplitter` gives them.

    Attributes
    ----------
    by_rows : In(1)
        All first parts of a row come first, and so on. Steady.
    s_axis_tdata : In(array)
        A part.
    s_axis_tlast : In(1)
        It is of the last beat of a row.
    m_axis_tdata : Out(array)
        A beat, with its last part.
    m_axis_tlast : Out(1)
        It ends its row.
    """

    def ports(self) -> Mapping[str, Member]:
        """How parts come, parts, beats."""
        config = self.config
        return {
            "by_rows": In(1),
            "s_axis": In(AxiStream(config.part)),
            "m_axis": Out(AxiStream(config.beat)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        source, sink = self.s_axis, self.m_axis
        part = Signal(range(config.parts), name="part")
        index = Signal(range(config.depth), name="index")
        shown = Signal(name="is_shown")
        is_last = named(m, "is_last_part", 1, part.all())
        there = named(m, "others_are_there", 1, shown | ~self.by_rows)
        moves = named(m, "moves", 1, source.tvalid & source.tready)
        turns = named(m, "turns", 1, moves & (source.tlast | ~self.by_rows))
        enters = named(m, "enters", 1, moves & ~is_last)
        reads = named(m, "reads", 1, is_last & self.by_rows & (~shown | moves))
        with m.If(turns):
            m.d.sync += [part.eq(part + 1), index.eq(0), shown.eq(0)]
        with m.Elif(enters | reads):
            m.d.sync += [index.eq(index + 1), shown.eq(reads | shown)]
        others: list[Value] = []
        for number in range(config.parts - 1):
            memory = BeatMemory(config.memory)
            place(m, platform, f"memory_{number}", memory)
            kept = Signal(config.part.size, name=f"part_{number}", reset_less=True)
            writes = named(m, f"writes_{number}", 1, enters & equals(part, number))
            with m.If(writes):
                m.d.sync += kept.eq(source.tdata.as_value())
            m.d.comb += [
                memory.write_en.eq(writes),
                memory.write_address.eq(index),
                memory.write_data.eq(source.tdata.as_value()),
                memory.read_en.eq(reads),
                memory.read_address.eq(index),
            ]
            others.append(Mux(self.by_rows, memory.read_data, kept))
        m.d.comb += [
            source.tready.eq((~is_last | (sink.tready & there)) & ~ResetSignal()),
            sink.tvalid.eq(source.tvalid & is_last & there),
            sink.tlast.eq(source.tlast),
            sink.tdata.as_value().eq(Cat(*others, source.tdata.as_value())),
        ]
        return m
