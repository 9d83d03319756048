"""Sums, or sums of products, over rows of binary32 numbers, behind AXI4-Stream."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import STAGES
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd, MultiplyAddConfiguration
from mxsafe.validation import AlikePower, require_integer

__all__ = ["RowDot", "RowDotConfiguration"]


@dataclass(frozen=True, kw_only=True)
class RowDotConfiguration(Configuration):
    """A `RowDot`.

    Parameters
    ----------
    lanes : int
        Numbers in a beat, a power of two.
    multiply : bool
        Whether products with a second stream are added, else the numbers themselves.
    partials : int
        Partial sums that beats are dealt out to, a power of two from 2 on. It belongs to the order
        of additions, so it decides about results; the numbers of registers do not.
    multiply_stages, add_stages : int
        Registers within multipliers and adders, 0 to 4, and fewer of the latter than partial sums.
        Each has one more behind it.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    lanes: AlikePower = 16
    multiply: bool = True
    partials: AlikePower = 8
    multiply_stages: int = 2
    add_stages: int = 1

    def __post_init__(self) -> None:
        if self.partials == 1:
            raise ValueError("partials must be a power of two from 2 on, not 1")
        most = min(STAGES["Float32Adder"]["asic"].most, self.partials - 1)
        self._set(
            multiply_stages=self.lane.multiply_stages,
            add_stages=require_integer("add_stages", self.add_stages, 0, most),
        )

    @property
    def lane(self) -> MultiplyAddConfiguration:
        """Configuration of the multiplier; of no matter without products."""
        stages = self.multiply_stages if self.multiply else 2
        return MultiplyAddConfiguration(add=False, multiply_stages=stages)

    @property
    def front_latency(self) -> int:
        """Cycles from a beat to its sum."""
        products = self.lane.latency if self.multiply else 0
        return products + (self.lanes.bit_length() - 1) * (self.add_stages + 1)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its sum, without stalls.

        Of a row with at least as many beats as there are partial sums.
        """
        levels = self.partials.bit_length() - 1
        return self.front_latency + self.partials + levels * (self.add_stages + 1)


class RowDot(Unit[RowDotConfiguration]):
    """Sum of the products of two rows, or of one row, in binary32; a packet is a row.

    The order of additions is that of `mxsafe.model.row_dot.row_sum`: within a beat by a binary
    tree, then beat i goes to the partial sum i modulo `partials`, and in the end these are added by
    a binary tree. It does not depend on the number of registers, or on stalls.

    Partial sums go round in a ring: an adder, and registers behind it that make as many places as
    there are partial sums. A beat is taken each cycle, also from row to row: while beats of the
    next row enter, partial sums of the last one leave. A row of fewer beats than there are partial
    sums takes as many cycles as there are of them.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Numbers of a row. Lanes beyond its end hold +0.
    s_axis_tlast : In(1)
        The beat ends its row.
    s_axis_factor_tdata : In(array)
        With `multiply`, the numbers that they are multiplied by, taken in the same cycle.
    m_axis_tdata : Out(array)
        The sum of each row. Every NaN is ``0x7fc00000``.
    m_axis_tlast : Out(1)
        Always set.

    Notes
    -----
    `m_axis_tready` reaches the inputs' `tready` combinationally, and so does the `tvalid` of each
    input that of the other. What comes out comes from registers.
    """

    def ports(self) -> Mapping[str, Member]:
        """Streams of numbers in, stream of sums out."""
        row, total = data.ArrayLayout(32, self.config.lanes), data.ArrayLayout(32, 1)
        factor = {"s_axis_factor": In(AxiStream(row, last=False))} if self.config.multiply else {}
        return {"s_axis": In(AxiStream(row)), **factor, "m_axis": Out(AxiStream(total))}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        moves = named(m, "moves", 1, ~self.m_axis.tvalid | self.m_axis.tready)
        takes = Signal(name="takes_beats")
        beat, has_beat, last = self._add_lanes(m, platform, takes)
        step, clear, leaves = self._control(m, moves, takes, has_beat, last)
        # What is no beat adds nothing, not even to the sign of a sum that is +0.
        addend = named(m, "addend", 32, Mux(has_beat & takes, beat, 0))
        partial = self._accumulate(m, platform, step, clear, addend)
        total, there = self._add_partials(m, platform, moves, partial, leaves)
        m.d.comb += [
            self.m_axis.tdata[0].eq(total),
            self.m_axis.tvalid.eq(there),
            self.m_axis.tlast.eq(1),
        ]
        return m

    def _added(
        self, m: Module, platform: object, name: str, en: Value, a: Value, b: Value
    ) -> Value:
        """Sum of two numbers, from a register."""
        add = MultiplyAdd(multiply=False, add_stages=self.config.add_stages)
        place(m, platform, name, add, reset=False)
        m.d.comb += [add.en.eq(en), add.x.eq(a), add.addend.eq(b)]
        total: Value = add.result
        return total

    def _add_lanes(self, m: Module, platform: object, takes: Signal) -> tuple[Value, Value, Value]:
        """Sums of beats, whether there is one, and whether it ends its row."""
        config = self.config
        valid = Signal(max(config.front_latency, 1), name="valid")
        # Without anything in front of them, partial sums take beats straight from the stream.
        direct = config.front_latency == 0
        moves = takes if direct else named(m, "front_moves", 1, ~valid[-1] | takes)
        ready = named(m, "is_ready", 1, moves & ~ResetSignal())
        enters, joined = self.s_axis.tvalid, Const(1, 1)
        values = [Value.cast(self.s_axis.tdata[lane]) for lane in range(config.lanes)]
        if config.multiply:
            joined = self.s_axis_factor.tvalid
            enters = named(m, "enters", 1, self.s_axis.tvalid & joined)
            m.d.comb += self.s_axis_factor.tready.eq(ready & self.s_axis.tvalid)
            for lane, value in enumerate(values):
                unit = MultiplyAdd(config.lane)
                place(m, platform, f"multiply_{lane}", unit, reset=False)
                m.d.comb += [
                    unit.en.eq(moves),
                    unit.x.eq(value),
                    unit.factor.eq(self.s_axis_factor.tdata[lane]),
                ]
                values[lane] = unit.result
        m.d.comb += self.s_axis.tready.eq(ready & joined)
        while len(values) > 1:
            count = len(values)
            values = [
                self._added(m, platform, f"add_{count}_{i}", moves, values[i], values[i + 1])
                for i in range(0, count, 2)
            ]
        if direct:
            return values[0], named(m, "has_beat", 1, enters & ~ResetSignal()), self.s_axis.tlast
        with m.If(moves):
            m.d.sync += valid.eq(Cat(enters, valid[:-1]))
        last = delayed(m, moves, "last", self.s_axis.tlast, config.front_latency)
        return values[0], valid[-1], last

    def _control(
        self, m: Module, moves: Value, takes: Signal, has_beat: Value, last: Value
    ) -> tuple[Value, Value, Value]:
        """Whether the ring moves on, whether a partial sum begins, and whether a final one leaves.

        The ring has a place for each partial sum, and every step takes one from its end and puts
        one at its start: a beat's; or an empty one, to fill up a short row, or to push out what is
        final while no row is there.
        """
        partials = self.config.partials
        taken = Signal(range(partials + 1), name="places_taken")  # by the row; all if as many
        filling = Signal(name="fills_up")
        final = Signal(range(partials + 1), name="final_left")
        some_final = named(m, "has_final", 1, final.any())
        between_rows = named(m, "is_between_rows", 1, ~has_beat & ~taken.any())
        m.d.comb += takes.eq(moves & ~filling)
        enters = named(m, "beat_enters", 1, has_beat & takes)
        pushes = named(m, "pushes_out", 1, moves & between_rows & some_final)
        in_row = named(m, "is_of_row", 1, enters | (filling & moves))
        step = named(m, "step", 1, in_row | pushes)
        new = named(m, "begins_sum", 1, ~taken[-1])
        next_taken = truncated(m, "next_taken", len(taken), taken + new)
        all_taken = named(m, "all_taken", 1, next_taken[-1])
        last = named(m, "last_beat_in", 1, filling | last)
        ends = named(m, "row_ends", 1, in_row & all_taken & last)
        with m.If(in_row):
            m.d.sync += [
                taken.eq(Mux(ends, 0, next_taken)),
                filling.eq(last & ~all_taken),
            ]
        leaves = named(m, "final_leaves", 1, step & some_final)
        less = truncated(m, "final_less_1", len(final), final - leaves)
        m.d.sync += final.eq(Mux(ends, partials, less))
        return step, new, leaves

    def _accumulate(
        self, m: Module, platform: object, step: Value, clear: Value, addend: Value
    ) -> Value:
        """The ring; returns the partial sum at its end."""
        config = self.config
        add = Float32Adder(pipeline=config.add_stages, clearable=True)
        place(m, platform, "accumulate", add, reset=False)
        places = config.partials - config.add_stages
        partial = delayed(m, step, "partial", add.sum, places)
        m.d.comb += [add.a.eq(partial), add.b.eq(addend), add.clear_a.eq(clear)]
        if add.latency:
            m.d.comb += add.en_last.eq(step)
        if add.latency > 1:
            m.d.comb += add.en.eq(step)
        return partial

    def _add_partials(
        self, m: Module, platform: object, moves: Value, value: Value, there: Value
    ) -> tuple[Value, Value]:
        """Sum of partial sums that come one after the other, and whether there is one."""
        for level in range(self.config.partials.bit_length() - 1):
            second = Signal(name=f"has_first_{level}")
            first = Signal(32, name=f"first_{level}", reset_less=True)
            arrives = named(m, f"arrives_{level}", 1, there & moves)
            with m.If(arrives):
                m.d.sync += second.eq(~second)
            with m.If(arrives & ~second):
                m.d.sync += first.eq(value)
            pair = named(m, f"has_pair_{level}", 1, there & second)
            value = self._added(m, platform, f"add_partials_{level}", moves, first, value)
            there = delayed(
                m, moves, f"has_sum_{level}", pair, self.config.add_stages + 1, reset=True
            )
        return value, there
