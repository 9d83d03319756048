"""An activation function in a chain of streams."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration
from mxsafe.validation import require_count

__all__ = ["ActivationStage", "ActivationStageConfiguration"]


@dataclass(frozen=True, kw_only=True)
class ActivationStageConfiguration(Configuration):
    """An `ActivationStage`.

    Parameters
    ----------
    function, width
        See `mxsafe.rtl.vector.activation.ActivationConfiguration`.
    registers : int
        How many there are behind the function: one cuts the path from what comes before to what
        follows.

    Raises
    ------
    ValueError
        As there, or if `registers` is negative.
    """

    unnamed = frozenset({"function"})

    function: str = "relu"
    width: int = 16
    registers: int = 0

    def __post_init__(self) -> None:
        registers = require_count("registers", self.registers)
        self._set(width=self.activation.width, registers=registers)

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return f"activation_{self.function}"

    @property
    def activation(self) -> ActivationConfiguration:
        """The function itself."""
        return ActivationConfiguration(function=self.function, width=self.width)

    @property
    def latency(self) -> int:
        """Clocks from a beat to its results, without stalls."""
        return self.activation.latency + self.registers


class ActivationStage(Unit[ActivationStageConfiguration]):
    """`mxsafe.rtl.vector.activation.Activation` between AXI4-Streams.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Binary32 numbers.
    m_axis_tdata : Out(array)
        What the function makes of them.
    s_axis_tlast, m_axis_tlast
        Goes along.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally. Without any latency `s_axis_tvalid`
    reaches `m_axis_tvalid` too.
    """

    def ports(self) -> Mapping[str, Member]:
        """Stream of numbers in, stream of results out."""
        numbers = data.ArrayLayout(32, self.config.width)
        return {"s_axis": In(AxiStream(numbers)), "m_axis": Out(AxiStream(numbers))}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        activate = Activation(self.config.activation)
        place(m, platform, "activate", activate)
        m.d.comb += activate.values.as_value().eq(self.s_axis.tdata.as_value())
        results: Value = activate.results.as_value()
        if not self.latency:
            m.d.comb += [
                self.m_axis.tdata.as_value().eq(results),
                self.m_axis.tvalid.eq(self.s_axis.tvalid),
                self.m_axis.tlast.eq(self.s_axis.tlast),
                self.s_axis.tready.eq(self.m_axis.tready),
            ]
            return m
        valid = Signal(self.latency, name="valid")
        moves = named(m, "moves", 1, ~valid[-1] | self.m_axis.tready)
        with m.If(moves):
            m.d.sync += valid.eq(Cat(self.s_axis.tvalid, valid[:-1]))
        last = delayed(m, moves, "last", self.s_axis.tlast, self.latency)
        results = delayed(m, moves, "results", results, self.config.registers)
        m.d.comb += [
            self.m_axis.tdata.as_value().eq(results),
            self.m_axis.tvalid.eq(valid[-1]),
            self.m_axis.tlast.eq(last),
            self.s_axis.tready.eq(moves & ~ResetSignal()),
        ]
        return m
