"""Rows of beats, each given several times: for functions that need a whole row before a result."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated, update
from mxsafe.rtl.stream.axi_stream import AxiStream, whole_bytes
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, Count, PositiveInteger, PowerOfTwo


class RowReplayConfiguration(Configuration):
    """A `RowReplay`.

    Parameters
    ----------
    beat_bits : int
        Bits of a beat, whole bytes.
    depth : int
        Beats in the memory, a power of two, at least 2: the most that a row may have. With room
        for two rows, one enters while another leaves.
    passes : int
        How often a row leaves.
    rows : int
        Most rows that wait or leave at a time.
    summary_bits : int
        Bits of what comes with the last beat of a row and stands beside all its passes; may be 0.
    may_skip : bool
        Whether rows can go without the first of their passes, two or more.
    may_stop : bool
        Whether rows can go with the first of their passes alone.
    may_stream : bool
        Whether beats can leave as they come.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`. For an FPGA it stands behind a
        register slice: what the reset clears there need not be kept away here, and what is known of
        a row goes through a register.
    """

    beat_bits: PositiveInteger = 512
    depth: PowerOfTwo = 512
    passes: PositiveInteger = 2
    rows: Alike = 2
    summary_bits: Count = 32
    may_skip: bool = False
    may_stop: bool = False
    may_stream: bool = False
    target: Target = "asic"

    def __post_init__(self) -> None:
        whole_bytes("beat_bits", "s_axis", self.beat_bits)
        _ = self.memory  # which checks the depth
        if self.may_stream and at(self, "rows"):
            raise ValueError(f"target must be asic with may_stream, not {self.target}")
        if self.may_skip and self.passes < 2:
            raise ValueError(f"passes must be 2 or more with may_skip, not {self.passes}")

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its first beat out, if no other row waits."""
        return 2 + at(self, "rows")

    memory = Part(BeatMemory)

    @property
    def entry(self) -> data.StructLayout:
        """Summary of a complete row."""
        return data.StructLayout({"last": range(self.depth), "overlong": 1, **self.summary})

    @property
    def summary(self) -> dict[str, int]:
        """The field for a summary, if it has bits."""
        return {"summary": self.summary_bits} if self.summary_bits else {}

    @property
    def flags(self) -> data.StructLayout:
        """Flags beside a beat that leaves."""
        return data.StructLayout(
            {"number": range(max(self.passes, 2)), "first": 1, "overlong": 1, **self.summary}
        )


class RowReplay(Unit[RowReplayConfiguration]):
    """Stores rows as they come, and gives each of them several times in the order of its beats.

    Attributes
    ----------
    skip : In(1)
        If `may_skip`: rows go without their first pass, and `number` begins with 1. Steady while
        there is a row.
    stop : In(1)
        If `may_stop`: rows go with their first pass alone, without `skip`. Steady as well.
    stream : In(1)
        If `may_stream`: beats leave as they come, once, and rows may be of any length. Their
        summaries are not to be read. Steady while there is a beat.
    s_axis_tdata : In
        A beat of a row.
    s_axis_tlast : In(1)
        It ends the row.
    s_axis_tuser : In(summary_bits)
        The summary of the row, read with `tlast`, if it has bits.
    m_axis_tdata : Out
        A beat of a row.
    m_axis_tlast : Out(1)
        It ends the row, in every pass.
    m_axis_tuser : Out(struct)
        ``number``: which pass, from 0. ``first``: the beat begins the pass. ``overlong``: the row
        did not fit. ``summary``: what came with the row's last beat, in all passes.

    Notes
    -----
    A row of more than `depth` beats is cut after so many of them, with the summary that came with
    the last of these; what follows is a row of its own. A beat makes room when it leaves for the
    last time. `m_axis_tready` reaches the enable of the memory combinationally, nothing more.
    """

    def ports(self) -> Ports:
        config = self.config
        summary = config.summary_bits or None
        return {
            **({"skip": In(1)} if config.may_skip else {}),
            **({"stop": In(1)} if config.may_stop else {}),
            **({"stream": In(1)} if config.may_stream else {}),
            "s_axis": In(AxiStream(config.beat_bits, user=summary)),
            "m_axis": Out(AxiStream(config.beat_bits, user=config.flags)),
        }

    def fill(self, m: Module, platform: object) -> None:
        memory = place(m, platform, "memory", BeatMemory(self.config.memory))
        freed, done = Signal(name="beat_freed"), Signal(name="row_done")
        complete = Signal(range(self.config.rows + 1), name="rows_complete")
        waiting, oldest = self._store(m, memory, freed, done, complete)
        self._give(m, memory, waiting, oldest, (freed, done), complete)

    def _store(
        self, m: Module, memory: BeatMemory, freed: Signal, done: Signal, complete: Signal
    ) -> tuple[Value, data.View]:
        """Beats into the memory; return whether there are complete rows, and the oldest of them."""
        config = self.config
        held = Signal(range(config.depth + 1), name="beats_held")
        address = Signal(range(config.depth), name="write_address")
        in_row = Signal(range(config.depth), name="beats_in_row")
        has_room = named(m, "has_room", 1, (held != config.depth) & (complete != config.rows))
        taken = named(m, "beat_taken", 1, self.s_axis.tvalid & self.s_axis.tready)
        full: Value = in_row == config.depth - 1
        if config.may_stream:
            full = full & ~self.stream
        fills = named(m, "row_fills_memory", 1, full)
        noted(fills, "A row longer than the memory would wait for itself for ever: it ends here.")
        ends = named(m, "row_ends", 1, self.s_axis.tlast | fills)
        row_taken = named(m, "row_taken", 1, taken & ends)
        m.d.comb += [
            self.s_axis.tready.eq(has_room if at(config, "rows") else has_room & ~ResetSignal()),
            memory.write_en.eq(taken),
            memory.write_address.eq(address),
            memory.write_data.eq(self.s_axis.tdata),
        ]
        noted(held, "Places taken: a beat frees its own when it is read in the last pass.")
        m.d.sync += [held.eq(held + taken - freed), complete.eq(complete + row_taken - done)]
        next_in_row = truncated(m, "next_in_row", len(in_row), in_row + 1)
        with m.If(taken):
            m.d.sync += [address.eq(address + 1), in_row.eq(Mux(ends, 0, next_in_row))]
        entries = [
            Signal(config.entry.size, name=f"row_{age}", reset_less=True)
            for age in range(config.rows)
        ]
        overlong = named(m, "row_is_overlong", 1, fills & ~self.s_axis.tlast)
        summary = self.s_axis.tuser if config.summary_bits else Const(0, 0)
        newest = Cat(address, overlong, summary)
        enters, known = row_taken, complete
        if at(config, "rows"):
            enters, newest, known = self._hold(m, row_taken, newest, done)
        update(m, Cat(*entries), (enters, Cat(newest, *entries[:-1])))
        ages = Cat(known == age + 1 for age in range(config.rows))
        is_oldest = named(m, "is_oldest", config.rows, ages)
        noted(is_oldest, "Rows wait newest first, so only one that enters moves them.")
        oldest = gated_or(m, "oldest_row", zip(is_oldest, entries, strict=True))
        there: Value = known.any()
        if config.may_stream:
            there = there | (self.stream & held.any())
        waiting = named(m, "rows_wait", 1, there)
        return waiting, data.View(config.entry, oldest)

    def _hold(
        self, m: Module, row_taken: Value, newest: Value, done: Value
    ) -> tuple[Signal, Signal, Signal]:
        """Return, a cycle later, whether a row comes, its summary, and the number of known rows."""
        comes = Signal(name="row_comes")
        held = Signal(len(newest), name="newest_row", reset_less=True)
        known = Signal(range(self.config.rows + 1), name="rows_known")
        m.d.sync += [comes.eq(row_taken), held.eq(newest), known.eq(known + comes - done)]
        return comes, held, known

    def _give(
        self,
        m: Module,
        memory: BeatMemory,
        waiting: Value,
        oldest: data.View,
        progress: tuple[Signal, Signal],
        complete: Signal,
    ) -> None:
        """Beats out of the memory, pass after pass; say when one, and a whole row, is done with."""
        config = self.config
        freed, done = progress
        address = Signal(range(config.depth), name="read_address")
        start = Signal(range(config.depth), name="row_start")
        number = passed = Signal(range(max(config.passes, 2)), name="pass")
        if config.may_skip:
            skips = named(m, "skips_pass", 1, self.skip & ~passed.any())
            number = named(m, "pass_shown", len(passed), Cat(passed[0] | skips, passed[1:]))
        valid, last = Signal(name="valid"), Signal(name="last")
        flags = data.View(config.flags, Signal(config.flags.size, name="flags", reset_less=True))
        moves = named(m, "output_moves", 1, ~valid | self.m_axis.tready)
        reads = named(m, "reads", 1, waiting & moves)
        is_last: Value = address == oldest.last
        if config.may_stream:
            is_last = is_last & complete.any()
        at_last = named(m, "is_at_last", 1, is_last)
        is_first = named(m, "is_first", 1, address == start)
        ends: Value = number == config.passes - 1
        if config.may_stop:
            ends = ends | self.stop
        if config.may_stream:
            ends = ends | self.stream
        in_last_pass = named(m, "is_in_last_pass", 1, ends)
        following = truncated(m, "following", len(address), address + 1)
        starts_again = named(m, "starts_again", 1, at_last & ~in_last_pass)
        noted(starts_again, "The next pass over the same row: reading goes back to its start.")
        next_number = truncated(m, "next_pass", len(number), number + 1)
        m.d.comb += [
            freed.eq(reads & in_last_pass),
            done.eq(freed & at_last),
            memory.read_en.eq(reads),
            memory.read_address.eq(address),
        ]
        update(m, valid, (moves, waiting))
        with m.If(reads):
            m.d.sync += [
                address.eq(Mux(starts_again, start, following)),
                last.eq(at_last),
                flags.as_value().eq(Cat(number, is_first, oldest.as_value()[len(address) :])),
            ]
            update(m, passed, (at_last, Mux(in_last_pass, 0, next_number)))
        update(m, start, (done, following))
        m.d.comb += [
            self.m_axis.tdata.eq(memory.read_data),
            self.m_axis.tvalid.eq(valid),
            self.m_axis.tlast.eq(last),
            self.m_axis.tuser.as_value().eq(flags.as_value()),
        ]
