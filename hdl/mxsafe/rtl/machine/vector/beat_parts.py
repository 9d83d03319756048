"""Beats in parts, for vector units of fewer lanes, and parts of results to beats again."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, equals, kept, named, noted, truncated, update
from mxsafe.rtl.machine.ports import WIDTHS
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.beat_memory import BeatMemory, BeatMemoryConfiguration
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import AlikePower, PositiveInteger, PowerOfTwo


class _PartsConfiguration(Configuration):
    columns: AlikePower = 16
    parts: AlikePower = 2
    depth: PowerOfTwo = 512
    rows: bool = True

    shown_if_not_default = frozenset({"rows"})

    def __post_init__(self) -> None:
        if not 2 <= self.parts <= self.columns:
            raise ValueError(f"parts must be from 2 to {self.columns}, not {self.parts}")
        if self.depth < 2:
            raise ValueError(f"depth must be 2 or more, not {self.depth}")

    @property
    def latency(self) -> int:
        """Cycles from a beat of a row to a part of it that waits for the end of the row."""
        return 2

    @property
    def beat(self) -> data.ArrayLayout:
        """Layout of a beat."""
        return data.ArrayLayout(32, self.columns)

    @property
    def part(self) -> data.ArrayLayout:
        """Layout of a part."""
        return data.ArrayLayout(32, self.columns // self.parts)


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
    rows : bool
        Whether there are such rows; else no memory holds them.
    beats_bits : int
        Bits of the number of beats of a row.
    """

    beats_bits: PositiveInteger = WIDTHS["vector"]["beats"]

    @property
    def memory(self) -> BeatMemoryConfiguration:
        """Configuration of the memory that holds all parts of a row but the first."""
        return BeatMemoryConfiguration(beat_bits=self.beat.size - self.part.size, depth=self.depth)


class BeatSplitter(Unit[BeatSplitterConfiguration]):
    """Gives the parts of each beat one after the other, or the first parts of a whole row first.

    Attributes
    ----------
    start : In(1)
        A row begins with the next beat.
    beats : In(beats_bits)
        Beats of a row, at least 1; steady.
    by_rows : In(1)
        If there are such `rows`: the first parts of a row's beats come first, then their second
        parts; each ends with `m_axis_tlast`, as a row of its own. Such rows have `depth` beats at
        most. Steady.
    single : In(1)
        Only the number in lane 0 counts, and is in lane 0 of every part. Steady.
    s_axis_tdata : In(array)
        A beat.
    m_axis_tdata : Out(array)
        A part of one.
    m_axis_tlast : Out(1)
        It is of the last beat of a row.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "start": In(1),
            "beats": In(config.beats_bits),
            **({"by_rows": In(1)} if config.rows else {}),
            "single": In(1),
            "s_axis": In(AxiStream(config.beat, last=False)),
            "m_axis": Out(AxiStream(config.part)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        part = Signal(range(config.parts), name="part")
        left = Signal(config.beats_bits, name="beats_left", reset_less=True)
        ends_row = named(m, "ends_row", 1, left == 1)
        moves = named(m, "moves", 1, self.m_axis.tvalid & self.m_axis.tready)
        by_rows: Value = self.by_rows if config.rows else Const(0, 1)
        turns = named(m, "turns", 1, moves & (ends_row | ~by_rows))
        steps = named(m, "steps", 1, moves & (by_rows | part.all()))
        noted(
            turns,
            "The next part: after each beat, or after a row where a unit takes all first parts of "
            "a row before the second ones.",
        )
        left_less_1 = truncated(m, "left_less_1", len(left), left - 1)
        with m.If(self.start):
            m.d.sync += [part.eq(0), left.eq(self.beats)]
        with m.Else():
            update(m, left, (steps, Mux(ends_row, self.beats, left_less_1)))
            update(m, part, (turns, part + 1))
        bits = config.part.size
        whole = self.s_axis.tdata.as_value()
        first, *others = [whole[at : at + bits] for at in range(0, len(whole), bits)]
        others[0] = Mux(self.single, first, others[0])
        number = named(m, "part_shown", len(part), Mux(self.single, 0, part))
        of_beat = chosen(m, "part_of_beat", part, [first, *others])
        of_beat = named(m, "part_or_number", bits, Mux(self.single, first, of_beat))
        ready: Value = part.all()
        valid, shown = self.s_axis.tvalid, of_beat
        if config.rows:
            stored = named(m, "is_stored", 1, by_rows & part.any())
            noted(
                stored, "The first parts of a row come from the stream, all others from a memory."
            )
            of_row, there = self._store(m, platform, stored, moves, turns, number, others)
            ready = ~stored & (by_rows | ready)
            valid, shown = Mux(stored, there, valid), Mux(stored, of_row, shown)
        m.d.comb += [
            self.s_axis.tready.eq(self.m_axis.tready & ready),
            self.m_axis.tvalid.eq(valid),
            self.m_axis.tlast.eq(ends_row),
            self.m_axis.tdata.as_value().eq(shown),
        ]

    def _store(
        self,
        m: Module,
        platform: object,
        stored: Value,
        moves: Value,
        turns: Value,
        number: Value,
        others: list[Value],
    ) -> tuple[Value, Signal]:
        """Keep all parts of a row but the first; return the part shown, and whether it is there."""
        config, bits = self.config, self.config.part.size
        memory = place(m, platform, "memory", BeatMemory(config.memory))
        index = Signal(range(config.depth), name="index")
        shown = Signal(name="is_shown")
        enters = named(m, "enters", 1, moves & self.by_rows & ~stored)
        reads = named(m, "reads", 1, stored & (~shown | moves))
        noted(
            shown, "The memory shows a beat a cycle after it is read, until the next one is read."
        )
        with m.If(self.start | turns):
            m.d.sync += [index.eq(0), shown.eq(0)]
        with m.Elif(enters | reads):
            m.d.sync += [index.eq(index + 1), shown.eq(reads | shown)]
        m.d.comb += [
            memory.write_en.eq(enters),
            memory.write_address.eq(index),
            memory.write_data.eq(Cat(*others)),
            memory.read_en.eq(reads),
            memory.read_address.eq(index),
        ]
        parts = [memory.read_data[at : at + bits] for at in range(0, bits * len(others), bits)]
        following = truncated(m, "part_stored", len(number), Mux(self.single, 0, number - 1))
        return chosen(m, "part_of_row", following, [*parts, parts[0]]), shown


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
    rows : bool
        Whether there are such rows; else no memory holds them.
    """

    @property
    def memory(self) -> BeatMemoryConfiguration:
        """Configuration of the memory that holds one part of a row's beats."""
        return BeatMemoryConfiguration(beat_bits=self.part.size, depth=self.depth)


class BeatJoiner(Unit[BeatJoinerConfiguration]):
    """Beats of parts as a `BeatSplitter` gives them.

    Attributes
    ----------
    by_rows : In(1)
        If there are such `rows`: all first parts of a row come first, and so on. Steady.
    s_axis_tdata : In(array)
        A part.
    s_axis_tlast : In(1)
        It is of the last beat of a row.
    m_axis_tdata : Out(array)
        A beat, with its last part.
    m_axis_tlast : Out(1)
        It ends its row.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            **({"by_rows": In(1)} if config.rows else {}),
            "s_axis": In(AxiStream(config.part)),
            "m_axis": Out(AxiStream(config.beat)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        source, sink = self.s_axis, self.m_axis
        part = Signal(range(config.parts), name="part")
        is_last = named(m, "is_last_part", 1, part.all())
        moves = named(m, "moves", 1, source.tvalid & source.tready)
        enters = named(m, "enters", 1, moves & ~is_last)
        turns: Value = moves
        if config.rows:
            turns = named(m, "turns", 1, moves & (source.tlast | ~self.by_rows))
        update(m, part, (turns, part + 1))
        others: list[Value] = []
        writes: list[Value] = []
        for number in range(config.parts - 1):
            writes.append(named(m, f"writes_{number}", 1, enters & equals(part, number)))
            others.append(kept(m, writes[-1], f"part_{number}", source.tdata.as_value()))
        noted(is_last, "A beat leaves with its last part, which goes straight through.")
        there: Value = Const(1, 1)
        if config.rows:
            there, others = self._store(m, platform, is_last, moves, turns, writes, others)
        m.d.comb += [
            source.tready.eq((~is_last | (sink.tready & there)) & ~ResetSignal()),
            sink.tvalid.eq(source.tvalid & is_last & there),
            sink.tlast.eq(source.tlast),
            sink.tdata.as_value().eq(Cat(*others, source.tdata.as_value())),
        ]

    def _store(
        self,
        m: Module,
        platform: object,
        is_last: Value,
        moves: Value,
        turns: Value,
        writes: list[Value],
        held: list[Value],
    ) -> tuple[Value, list[Value]]:
        """Keep all parts of a row but the last; return whether parts are there, and those shown."""
        config, data_written = self.config, self.s_axis.tdata.as_value()
        index = Signal(range(config.depth), name="index")
        shown = Signal(name="is_shown")
        reads = named(m, "reads", 1, is_last & self.by_rows & (~shown | moves))
        with m.If(turns):
            m.d.sync += [index.eq(0), shown.eq(0)]
        with m.Elif((moves & ~is_last) | reads):
            m.d.sync += [index.eq(index + 1), shown.eq(reads | shown)]
        found: list[Value] = []
        for number, (write, part) in enumerate(zip(writes, held, strict=True)):
            memory = place(m, platform, f"memory_{number}", BeatMemory(config.memory))
            m.d.comb += [
                memory.write_en.eq(write),
                memory.write_address.eq(index),
                memory.write_data.eq(data_written),
                memory.read_en.eq(reads),
                memory.read_address.eq(index),
            ]
            found.append(Mux(self.by_rows, memory.read_data, part))
        return named(m, "others_are_there", 1, shown | ~self.by_rows), found
