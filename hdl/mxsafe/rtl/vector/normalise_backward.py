"""Backward pass of layer and RMS normalisation behind AXI4-Stream."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd, MultiplyAddConfiguration
from mxsafe.rtl.vector.normalise_backward_row import (
    NormaliseBackwardRow,
    NormaliseBackwardRowConfiguration,
)
from mxsafe.rtl.vector.summed_rows import SummedRows, SummedRowsConfiguration

__all__ = ["NormaliseBackward", "NormaliseBackwardConfiguration"]


@dataclass(frozen=True, kw_only=True)
class NormaliseBackwardConfiguration(Configuration):
    """A `NormaliseBackward`.

    Parameters
    ----------
    lanes : int
        Values in a beat, a power of two. Rows take all lanes of their beats.
    centre : bool
        Whether a mean was subtracted.
    gain : bool
        Whether results were multiplied by gains.
    depth : int
        Beats in the memory, a power of two: the most that a row may have.
    partials : int
        Partial sums, a power of two from 2 on. It decides about results.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    lanes: int = 16
    centre: bool = True
    gain: bool = False
    depth: int = 512
    partials: int = 2

    def __post_init__(self) -> None:
        rows = self.rows
        self._set(lanes=rows.lanes, depth=rows.depth, partials=rows.partials)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its first results, without stalls, at most."""
        return self.entry_stages + self.rows.latency + self.row.latency + self.stages

    @property
    def entry_stages(self) -> int:
        """Enabled cycles from values and gradients to differences and products with gains."""
        difference = self.difference.latency if self.centre else 0
        return max(self.product.latency if self.gain else 0, difference)

    @property
    def stages(self) -> int:
        """Enabled cycles from a beat and the factors of its row to results."""
        mean = self.difference.latency if self.centre else 0
        return self.correct.latency + mean + self.product.latency

    @property
    def rows(self) -> SummedRowsConfiguration:
        """Configuration of the memory of rows and their sums."""
        return self.part(
            SummedRowsConfiguration,
            totals=self.centre,
            summary_bits=32,
        )

    @property
    def row(self) -> NormaliseBackwardRowConfiguration:
        """Configuration of the unit that makes factors of sums."""
        return NormaliseBackwardRowConfiguration(centre=self.centre)

    @property
    def difference(self) -> MultiplyAddConfiguration:
        """Configuration of the subtraction of a mean."""
        return MultiplyAddConfiguration(multiply=False)

    @property
    def product(self) -> MultiplyAddConfiguration:
        """Configuration of the multiplication by a gain, and by the reciprocal deviation."""
        return MultiplyAddConfiguration(add=False)

    @property
    def correct(self) -> MultiplyAddConfiguration:
        """Configuration of the subtraction of the part along the values."""
        return MultiplyAddConfiguration()

    @property
    def statistics(self) -> data.StructLayout:
        """Statistics of a row from the forward pass."""
        mean = {"mean": 32} if self.centre else {}
        return data.StructLayout({**mean, "reciprocal_deviation": 32})


class NormaliseBackward(Unit[NormaliseBackwardConfiguration]):
    """Gradient of a layer normalisation with respect to its input; without a mean, of an RMS one.

    With ``h = gradient * gain``, ``d = x - mean``, r the reciprocal deviation and s one over the
    number of values, it is ``((h - d * k) - sum(h) * s) * r`` with
    ``k = ((sum(h * d) * s) * r) * r``: bit for bit the gradient of x of
    `mxsafe.model.normalisation.layer_norm_backward` and `rms_norm_backward`, with the same `lanes`
    and `partials`. While h and d of a row enter a memory they are added up; then the row passes the
    lanes, and the next one enters. Each takes a beat a cycle.

    Gradients of gain and bias are sums over rows, which are columns of beats: those of
    ``gradient * y``, with y the forward unit's results without gain and bias, and those of the
    gradient. A `VectorArithmetic` adds them up: for each beat of a row ``multiply``, then ``add``
    with the beat of sums so far, from a memory, as its operand.

    Attributes
    ----------
    share : In(32)
        s, a binary32; steady.
    s_axis_tdata : In(array)
        Values of a row, binary32. Lanes beyond its end hold +0, and so do their gradients.
    s_axis_tlast : In(1)
        The beat ends the row.
    s_axis_gradient_tdata, s_axis_gain_tdata : In(array)
        Gradients, and if there are any gains, taken in the same cycle.
    s_axis_statistics_tdata : In(struct)
        ``mean``, if there is one, and ``reciprocal_deviation``: one beat for each row, taken with
        the row's last beat. It is what `Normalise` gives as `m_axis_statistics`.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values. Every NaN is ``0x7fc00000``.
    m_axis_tlast : Out(1)
        The beat ends the row.

    Notes
    -----
    A row of more beats than the memory has is cut: what the memory holds of it gives NaN, what
    follows is as a row of its own. `m_axis_tready` reaches the inputs' `tready` combinationally,
    and so does the `tvalid` of each input that of the others. A row keeps the multiplier of
    `NormaliseBackwardRow` busy for as many cycles as that takes; shorter ones wait for it.
    """

    def ports(self) -> Mapping[str, Member]:
        """Streams of values, gradients, gains and statistics in, stream of gradients out."""
        config = self.config
        beat = data.ArrayLayout(32, config.lanes)
        return {
            "share": In(32),
            "s_axis": In(AxiStream(beat)),
            "s_axis_gradient": In(AxiStream(beat, last=False)),
            **({"s_axis_gain": In(AxiStream(beat, last=False))} if config.gain else {}),
            "s_axis_statistics": In(AxiStream(config.statistics, last=False)),
            "m_axis": Out(AxiStream(beat)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        rows, shared = SummedRows(config.rows), NormaliseBackwardRow(config.row)
        place(m, platform, "rows", rows)
        place(m, platform, "of_row", shared)
        self._enter(m, platform, rows)
        sums = rows.m_axis_sums
        m.d.comb += [
            shared.share.eq(self.share),
            shared.has_sums.eq(sums.tvalid),
            shared.products.eq(sums.tdata.products[0]),
            shared.reciprocal.eq(sums.tdata.summary),
            sums.tready.eq(shared.sums_taken),
        ]
        if config.centre:
            m.d.comb += shared.totals.eq(sums.tdata.totals[0])
        self._leave(m, platform, rows, shared)
        return m

    def _enter(self, m: Module, platform: object, rows: SummedRows) -> None:
        """Differences and products with gains, in step, into the memory."""
        config = self.config
        streams = [self.s_axis, self.s_axis_gradient, self.s_axis_statistics]
        streams += [self.s_axis_gain] if config.gain else []
        joined = named(m, "has_all", 1, Cat(stream.tvalid for stream in streams).all())
        valid = Signal(max(config.entry_stages, 1), name="entry_valid")
        there = valid[-1] if config.entry_stages else joined
        moves = rows.s_axis.tready
        if config.entry_stages:
            moves = named(m, "entry_moves", 1, ~there | rows.s_axis.tready)
            with m.If(moves):
                m.d.sync += valid.eq(Cat(joined, valid[:-1]))
        takes = named(m, "takes_beat", 1, moves & joined & ~ResetSignal())
        for stream in streams:
            once = self.s_axis.tlast if stream is self.s_axis_statistics else Const(1, 1)
            m.d.comb += stream.tready.eq(takes & once)
        statistics = self.s_axis_statistics.tdata
        stages = config.entry_stages
        m.d.comb += [
            rows.s_axis.tvalid.eq(there),
            rows.s_axis.tlast.eq(delayed(m, moves, "entry_last", self.s_axis.tlast, stages)),
            rows.s_axis.tuser.summary.eq(
                delayed(m, moves, "reciprocal", statistics.reciprocal_deviation, stages)
            ),
        ]
        for lane in range(config.lanes):
            slope = Value.cast(self.s_axis_gradient.tdata[lane])
            value = Value.cast(self.s_axis.tdata[lane])
            slope_latency = value_latency = 0
            if config.gain:
                unit = MultiplyAdd(config.product)
                place(m, platform, f"gain_{lane}", unit, reset=False)
                m.d.comb += [
                    unit.en.eq(moves),
                    unit.x.eq(slope),
                    unit.factor.eq(self.s_axis_gain.tdata[lane]),
                ]
                slope, slope_latency = unit.result, config.product.latency
            if config.centre:
                mean = statistics.mean
                unit = MultiplyAdd(config.difference)
                place(m, platform, f"difference_{lane}", unit, reset=False)
                m.d.comb += [
                    unit.en.eq(moves),
                    unit.x.eq(value),
                    unit.addend.eq(Cat(mean[:31], ~mean[31])),
                ]
                value, value_latency = unit.result, config.difference.latency
            m.d.comb += [
                rows.s_axis.tdata.left[lane].eq(
                    delayed(m, moves, f"slope_{lane}", slope, stages - slope_latency)
                ),
                rows.s_axis.tdata.right[lane].eq(
                    delayed(m, moves, f"value_{lane}", value, stages - value_latency)
                ),
            ]

    def _leave(
        self, m: Module, platform: object, rows: SummedRows, shared: NormaliseBackwardRow
    ) -> None:
        """Rows out of the memory, through the lanes."""
        config = self.config
        valid = Signal(config.stages, name="valid")
        moves = named(m, "moves", 1, ~valid[-1] | self.m_axis.tready)
        enters = named(m, "beat_enters", 1, rows.m_axis.tvalid & shared.valid)
        m.d.comb += [
            rows.m_axis.tready.eq(moves & shared.valid),
            shared.leaves.eq(moves & enters & rows.m_axis.tlast),
        ]
        with m.If(moves):
            m.d.sync += valid.eq(Cat(enters, valid[:-1]))
        last = delayed(m, moves, "last", rows.m_axis.tlast, config.stages)
        m.d.comb += [self.m_axis.tvalid.eq(valid[-1]), self.m_axis.tlast.eq(last)]
        less_slope = named(m, "less_slope", 32, Cat(shared.slope[:31], ~shared.slope[31]))
        before = config.stages - config.product.latency
        # With all these bits set it is NaN, and so is what it is multiplied by.
        spoilt = shared.deviation[:31] | rows.m_axis.tuser.overlong.replicate(31)
        deviation = Cat(spoilt, shared.deviation[31])
        deviation = delayed(m, moves, "deviation", deviation, before)
        less_mean: Value = Const(0, 32)
        if config.centre:
            mean = Cat(shared.mean[:31], ~shared.mean[31])
            less_mean = delayed(m, moves, "less_mean", mean, config.correct.latency)
        for lane in range(config.lanes):
            correct, scale = MultiplyAdd(config.correct), MultiplyAdd(config.product)
            place(m, platform, f"correct_{lane}", correct, reset=False)
            place(m, platform, f"scale_{lane}", scale, reset=False)
            change = correct.result
            if config.centre:
                subtract = MultiplyAdd(config.difference)
                place(m, platform, f"subtract_{lane}", subtract, reset=False)
                m.d.comb += [
                    subtract.en.eq(moves),
                    subtract.x.eq(change),
                    subtract.addend.eq(less_mean),
                ]
                change = subtract.result
            m.d.comb += [
                correct.en.eq(moves),
                correct.x.eq(rows.m_axis.tdata.right[lane]),
                correct.factor.eq(less_slope),
                correct.addend.eq(rows.m_axis.tdata.left[lane]),
                scale.en.eq(moves),
                scale.x.eq(change),
                scale.factor.eq(deviation),
                self.m_axis.tdata[lane].eq(scale.result),
            ]
