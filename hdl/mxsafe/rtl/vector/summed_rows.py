"""Rows of pairs of numbers that wait in memory for the sum of their products."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import gated_or, named, truncated
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.row_replay import RowReplay, RowReplayConfiguration
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.row_dot import RowDot, RowDotConfiguration
from mxsafe.validation import Count, require_one_of

__all__ = ["ALONG", "SummedRows", "SummedRowsConfiguration"]

ALONG = ("lanes", "beats")
_MOST_WAITING = 4
"""Rows in the memory: with fewer, short ones would wait for sums of those before them."""


@dataclass(frozen=True, kw_only=True)
class SummedRowsConfiguration(Configuration):
    """A `SummedRows`.

    Parameters
    ----------
    lanes : int
        Pairs in a beat, a power of two.
    along : {"lanes", "beats"}
        A row takes all lanes of its beats, or each lane is a row.
    totals : bool
        Whether the left numbers are added up too.
    depth : int
        Beats in the memory, a power of two: the most that a row may have. With room for two rows,
        one enters while another leaves.
    partials : int
        See `RowDotConfiguration`. With fewer, short rows take less time; long ones have sums with
        larger errors.
    summary_bits : int
        Bits that come with the last beat of a row and leave beside its sums.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    lanes: int = 16
    along: Literal["lanes", "beats"] = "lanes"
    totals: bool = False
    depth: int = 512
    partials: int = 2
    summary_bits: Count = 0

    def __post_init__(self) -> None:
        require_one_of("along", self.along, ALONG)
        self._set(
            lanes=RowDotConfiguration(lanes=self.lanes).lanes,
            partials=self.products.partials,
            depth=self.replay.depth,
        )

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its sums, without stalls, at most."""
        return max(self.products.latency + self.partials - 1, self.replay.latency)

    @property
    def rows(self) -> int:
        """Rows side by side."""
        return 1 if self.along == "lanes" else self.lanes

    @property
    def products(self) -> RowDotConfiguration:
        """Configuration of the sums of products of a row."""
        return RowDotConfiguration(lanes=self.lanes // self.rows, partials=self.partials)

    @property
    def left_totals(self) -> RowDotConfiguration:
        """Configuration of the sums of left numbers of a row."""
        lanes = self.lanes // self.rows
        return RowDotConfiguration(lanes=lanes, partials=self.partials, multiply=False)

    @property
    def beat(self) -> data.StructLayout:
        """Layout of a beat."""
        numbers = data.ArrayLayout(32, self.lanes)
        return data.StructLayout({"left": numbers, "right": numbers})

    @property
    def sums(self) -> data.StructLayout:
        """Final sums of a row."""
        each = data.ArrayLayout(32, self.rows)
        totals = {"totals": each} if self.totals else {}
        summary = {"summary": self.summary_bits} if self.summary_bits else {}
        return data.StructLayout({"products": each, **totals, **summary})

    @property
    def most_rows(self) -> int:
        """Rows that have ended and whose sums have not left, at most.

        The last beat of one may already be on its way out of the memory.
        """
        return self.replay.rows + 1

    @property
    def may_lack_room(self) -> bool:
        """Whether a row may leave no room for the beats that push its partial sums out.

        Not if there are two: the first beat of a row that fills the memory makes room for one beat
        when it goes to the output, and the other sum has left by itself before that beat comes.
        """
        return self.partials > 2

    @property
    def replay(self) -> RowReplayConfiguration:
        """Where rows wait."""
        return RowReplayConfiguration(
            beat_bits=self.beat.size,
            depth=self.depth,
            passes=1,
            rows=_MOST_WAITING,
            summary_bits=0,
        )


class SummedRows(Unit[SummedRowsConfiguration]):
    """Rows of pairs, and beside them sums over each row: of products, and of left numbers.

    A beat goes into a memory and into `RowDot` in the same cycle. A row is there once all of it is,
    with its sums or before them; whoever takes it takes those first. Meanwhile the next one enters.

    Attributes
    ----------
    s_axis_tdata : In(struct)
        ``left`` and ``right``: `lanes` pairs of binary32 of one row, or of as many rows.
    s_axis_tlast : In(1)
        The beat ends the row, or the rows.
    s_axis_tuser : In(struct)
        ``summary``, read with `tlast`, if it has bits.
    m_axis_tdata, m_axis_tlast : Out
        The same beats.
    m_axis_tuser : Out(struct)
        As `RowReplay` has it, for one pass. ``overlong``: the row did not fit. What the memory
        holds of it leaves so, with sums of its own and the summary that is there in its last beat;
        what follows is another row.
    m_axis_sums_tdata : Out(struct)
        ``products``, and ``totals`` and ``summary`` if there are any: a beat for each row that
        leaves, or for the rows of all lanes.
    m_axis_sums_tlast : Out(1)
        Always set.

    Notes
    -----
    `m_axis_sums_tready` reaches `s_axis_tready` combinationally.
    """

    def ports(self) -> Mapping[str, Member]:
        """Stream of rows in, streams of rows and of their sums out."""
        config = self.config
        summary = data.StructLayout({"summary": config.summary_bits})
        user = summary if config.summary_bits else None
        return {
            "s_axis": In(AxiStream(config.beat, user=user)),
            "m_axis": Out(AxiStream(config.beat, user=config.replay.flags)),
            "m_axis_sums": Out(AxiStream(config.sums)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        replay = RowReplay(config.replay)
        place(m, platform, "replay", replay)
        taken = named(m, "beat_taken", 1, self.s_axis.tvalid & self.s_axis.tready)
        # The memory cuts a row that does not fit by itself; sums have to know where.
        in_row = Signal(range(config.depth), name="beats_in_row")
        fills = named(m, "row_fills_memory", 1, in_row == config.depth - 1)
        ends = named(m, "row_ends", 1, self.s_axis.tlast | fills)
        row_taken = named(m, "row_taken", 1, taken & ends)
        following = truncated(m, "next_in_row", len(in_row), in_row + 1)
        with m.If(taken):
            m.d.sync += in_row.eq(Mux(ends, 0, following))
        waits: Value = Const(0, 1)
        if config.may_lack_room or config.summary_bits:
            unsummed = self._count(m, row_taken)
        if config.may_lack_room:
            waits = self._wait_for_sums(m, row_taken, in_row, unsummed)
        stored = named(m, "is_stored", 1, replay.s_axis.tready & ~waits)
        ready, valid = self._sum(m, platform, ends, stored)
        m.d.comb += [
            self.s_axis.tready.eq(ready & stored),
            replay.s_axis.tvalid.eq(self.s_axis.tvalid & ready & ~waits),
            replay.s_axis.tdata.eq(self.s_axis.tdata.as_value()),
            replay.s_axis.tlast.eq(self.s_axis.tlast),
            self.m_axis.tdata.as_value().eq(replay.m_axis.tdata),
            self.m_axis.tvalid.eq(replay.m_axis.tvalid),
            self.m_axis.tlast.eq(replay.m_axis.tlast),
            self.m_axis.tuser.eq(replay.m_axis.tuser),
            replay.m_axis.tready.eq(self.m_axis.tready),
            self.m_axis_sums.tvalid.eq(valid),
            self.m_axis_sums.tlast.eq(1),
        ]
        if config.summary_bits:
            self._keep_summaries(m, row_taken, unsummed)
        return m

    def _wait_for_sums(self, m: Module, row_taken: Value, in_row: Value, unsummed: Value) -> Value:
        """Whether the next row may not begin before all that have ended have their sums.

        Its beats push partial sums of the row before out of `RowDot`. If the memory had no room for
        as many of them, that row would wait for them, and they for room.
        """
        config = self.config
        most = max(config.depth - config.partials + 1, 0)
        little = named(m, "leaves_little_room", 1, in_row >= most)
        waits = Signal(name="next_row_waits")
        with m.If(row_taken):
            m.d.sync += waits.eq(little)
        with m.Elif(~unsummed.any()):
            m.d.sync += waits.eq(0)
        return waits

    def _sum(self, m: Module, platform: object, ends: Value, stored: Value) -> tuple[Value, Value]:
        """Add up; return whether a beat can be taken, and whether there are sums."""
        config = self.config
        span = config.lanes // config.rows
        left, right = self.s_axis.tdata.left, self.s_axis.tdata.right
        products = [RowDot(config.products) for _ in range(config.rows)]
        totals = [RowDot(config.left_totals) for _ in range(config.rows * config.totals)]
        # All of a kind move together, so that the first of them speaks for it. Those of the left
        # numbers are ready without regard to what comes.
        others = totals[0].s_axis.tready if totals else 1
        offered = named(m, "pair_is_offered", 1, self.s_axis.tvalid & stored & others)
        ready = named(m, "sums_take_beat", 1, products[0].s_axis.tready & others)
        valid: Value = products[0].m_axis.tvalid
        leaves: Value = self.m_axis_sums.tready
        if totals:
            # They are there before products, and must not wait where they keep beats from moving.
            held = Signal(name="has_totals")
            free = Signal(name="totals_are_free")
            valid = named(m, "has_sums", 1, valid & held)
            leaves = named(m, "sums_leave", 1, leaves & valid)
            m.d.comb += free.eq(~held | leaves)
            with m.If(free):
                m.d.sync += held.eq(totals[0].m_axis.tvalid)
            left_offered = named(
                m, "left_is_offered", 1, self.s_axis.tvalid & stored & products[0].s_axis.tready
            )
        for row, unit in enumerate(products):
            place(m, platform, f"products_{row}", unit)
            for lane in range(span):
                m.d.comb += [
                    unit.s_axis.tdata[lane].eq(left[row * span + lane]),
                    unit.s_axis_factor.tdata[lane].eq(right[row * span + lane]),
                ]
            m.d.comb += [
                unit.s_axis.tvalid.eq(offered),
                unit.s_axis.tlast.eq(ends),
                unit.s_axis_factor.tvalid.eq(offered),
                unit.m_axis.tready.eq(leaves),
                self.m_axis_sums.tdata.products[row].eq(unit.m_axis.tdata[0]),
            ]
        for row, unit in enumerate(totals):
            place(m, platform, f"totals_{row}", unit)
            for lane in range(span):
                m.d.comb += unit.s_axis.tdata[lane].eq(left[row * span + lane])
            total = Signal(32, name=f"total_{row}", reset_less=True)
            with m.If(free):
                m.d.sync += total.eq(unit.m_axis.tdata[0])
            m.d.comb += [
                unit.s_axis.tvalid.eq(left_offered),
                unit.s_axis.tlast.eq(ends),
                unit.m_axis.tready.eq(free),
                self.m_axis_sums.tdata.totals[row].eq(total),
            ]
        return ready, valid

    def _count(self, m: Module, row_taken: Value) -> Signal:
        """How many rows have ended whose sums have not left."""
        leave = named(m, "sums_taken", 1, self.m_axis_sums.tvalid & self.m_axis_sums.tready)
        count = Signal(range(self.config.most_rows + 1), name="rows_without_sums")
        m.d.sync += count.eq(count + row_taken - leave)
        return count

    def _keep_summaries(self, m: Module, row_taken: Value, count: Signal) -> None:
        """Summaries of rows whose sums have not left."""
        config = self.config
        rows = config.most_rows
        kept = [
            Signal(config.summary_bits, name=f"summary_{age}", reset_less=True)
            for age in range(rows)
        ]
        with m.If(row_taken):
            m.d.sync += Cat(*kept).eq(Cat(self.s_axis.tuser.summary, *kept[:-1]))
        ages = named(m, "is_oldest", rows, Cat(count == age + 1 for age in range(rows)))
        oldest = gated_or(m, "oldest_summary", zip(ages, kept, strict=True))
        m.d.comb += self.m_axis_sums.tdata.summary.eq(oldest)
