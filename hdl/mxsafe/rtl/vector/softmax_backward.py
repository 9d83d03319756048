"""Backward pass of softmax behind AXI4-Stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd, MultiplyAddConfiguration
from mxsafe.rtl.vector.summed_rows import SummedRows, SummedRowsConfiguration

__all__ = ["SoftmaxBackward", "SoftmaxBackwardConfiguration"]


@dataclass(frozen=True, kw_only=True)
class SoftmaxBackwardConfiguration(Configuration):
    """A `SoftmaxBackward`.

    Parameters
    ----------
    lanes : int
        Values in a beat, a power of two.
    along : {"lanes", "beats"}
        Where rows run: a row is the lanes of its beats, one after the other; or each lane has a row
        of its own, a value a beat.
    scale : bool
        Whether results are multiplied by a scale.
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
    along: Literal["lanes", "beats"] = "lanes"
    scale: bool = True
    depth: int = 512
    partials: int = 2

    def __post_init__(self) -> None:
        rows = self.rows
        self._set(lanes=rows.lanes, depth=rows.depth, partials=rows.partials)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its first results, without stalls, at most."""
        return self.rows.latency + 1 + self.stages

    @property
    def stages(self) -> int:
        """Enabled cycles from a beat and its sum to results."""
        return self.subtract.latency + (1 + self.scale) * self.multiply.latency

    @property
    def rows(self) -> SummedRowsConfiguration:
        """Configuration of the memory of rows and their sums of products."""
        return self.part(SummedRowsConfiguration)

    @property
    def subtract(self) -> MultiplyAddConfiguration:
        """Configuration of the subtraction of a sum from a gradient."""
        return MultiplyAddConfiguration(multiply=False)

    @property
    def multiply(self) -> MultiplyAddConfiguration:
        """Configuration of the multiplication by a result, and by the scale."""
        return MultiplyAddConfiguration(add=False)


class SoftmaxBackward(Unit[SoftmaxBackwardConfiguration]):
    """Gradient of a softmax with respect to its input: ``scale * p * (g - sum(p * g))``.

    Results p of a row and the gradient g with respect to them come together. While they enter a
    memory their products are added up; then the row passes the lanes, and the next one enters. Each
    takes a beat a cycle. Bit for bit what `mxsafe.model.softmax.softmax_backward` computes, with
    the same `lanes` (1 where each lane is a row) and `partials`.

    Attributes
    ----------
    scale : In(32)
        A binary32, steady: that of the softmax.
    s_axis_tdata : In(array)
        Results of a row (or, along beats, a result of each lane's row), binary32. Lanes beyond the
        end of a row hold +0, in both streams.
    s_axis_tlast : In(1)
        The beat ends the row.
    s_axis_gradient_tdata : In(array)
        Gradients, taken in the same cycle.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values. Every NaN is ``0x7fc00000``.
    m_axis_tlast : Out(1)
        The beat ends the row.

    Notes
    -----
    A row of more beats than the memory has is cut: what the memory holds of it gives NaN, what
    follows is as a row of its own. `m_axis_tready` reaches the inputs' `tready` combinationally,
    and so does the `tvalid` of each input that of the other.
    """

    def ports(self) -> Mapping[str, Member]:
        """Streams of results and gradients in, stream of gradients out."""
        beat = data.ArrayLayout(32, self.config.lanes)
        return {
            **({"scale": In(32)} if self.config.scale else {}),
            "s_axis": In(AxiStream(beat)),
            "s_axis_gradient": In(AxiStream(beat, last=False)),
            "m_axis": Out(AxiStream(beat)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        rows = SummedRows(config.rows)
        place(m, platform, "rows", rows)
        m.d.comb += [
            rows.s_axis.tvalid.eq(self.s_axis.tvalid & self.s_axis_gradient.tvalid),
            rows.s_axis.tdata.left.as_value().eq(self.s_axis.tdata.as_value()),
            rows.s_axis.tdata.right.as_value().eq(self.s_axis_gradient.tdata.as_value()),
            rows.s_axis.tlast.eq(self.s_axis.tlast),
            self.s_axis.tready.eq(rows.s_axis.tready & self.s_axis_gradient.tvalid),
            self.s_axis_gradient.tready.eq(rows.s_axis.tready & self.s_axis.tvalid),
        ]
        moves, sums = self._move(m, rows)
        less = [
            named(m, f"less_sum_{row}", 32, Cat(total[:31], ~total[31]))
            for row, total in enumerate(sums)
        ]
        for lane in range(config.lanes):
            result = self._lane(m, platform, moves, lane, rows.m_axis, less)
            m.d.comb += self.m_axis.tdata[lane].eq(result)
        return m

    def _move(self, m: Module, rows: SummedRows) -> tuple[Value, list[Signal]]:
        """Take beats once their sums are there; return whether lanes move on, and the sums."""
        config = self.config
        valid = Signal(config.stages, name="valid")
        held = Signal(name="has_sums")
        moves = named(m, "moves", 1, ~valid[-1] | self.m_axis.tready)
        takes = named(m, "takes_beat", 1, rows.m_axis.tvalid & held)
        free = named(m, "sums_are_free", 1, ~held | (moves & takes & rows.m_axis.tlast))
        m.d.comb += [
            rows.m_axis.tready.eq(moves & held),
            rows.m_axis_sums.tready.eq(free),
        ]
        sums = [Signal(32, name=f"sum_{row}", reset_less=True) for row in range(config.rows.rows)]
        with m.If(free):
            m.d.sync += held.eq(rows.m_axis_sums.tvalid)
            m.d.sync += [
                total.eq(rows.m_axis_sums.tdata.products[row]) for row, total in enumerate(sums)
            ]
        with m.If(moves):
            m.d.sync += valid.eq(Cat(takes, valid[:-1]))
        last = delayed(m, moves, "last", rows.m_axis.tlast, config.stages)
        m.d.comb += [self.m_axis.tvalid.eq(valid[-1]), self.m_axis.tlast.eq(last)]
        return moves, sums

    def _lane(
        self,
        m: Module,
        platform: object,
        moves: Value,
        lane: int,
        rows: Any,
        less: list[Signal],
    ) -> Value:
        """The result of a lane."""
        config = self.config
        difference = MultiplyAdd(config.subtract)
        product = MultiplyAdd(config.multiply)
        place(m, platform, f"subtract_{lane}", difference, reset=False)
        place(m, platform, f"multiply_{lane}", product, reset=False)
        # With all these bits set it is NaN, and so is what it is multiplied by. The other operand
        # would have to be so early in its clock.
        left = Value.cast(rows.tdata.left[lane])
        spoilt = Cat(left[:31] | rows.tuser.overlong.replicate(31), left[31])
        latency = config.subtract.latency
        m.d.comb += [
            difference.en.eq(moves),
            difference.x.eq(rows.tdata.right[lane]),
            difference.addend.eq(less[lane % len(less)]),
            product.en.eq(moves),
            product.x.eq(difference.result),
            product.factor.eq(delayed(m, moves, f"left_{lane}", spoilt, latency)),
        ]
        if not config.scale:
            return product.result
        scaled = MultiplyAdd(config.multiply)
        place(m, platform, f"scale_{lane}", scaled, reset=False)
        m.d.comb += [
            scaled.en.eq(moves),
            scaled.x.eq(product.result),
            scaled.factor.eq(self.scale),
        ]
        return scaled.result
