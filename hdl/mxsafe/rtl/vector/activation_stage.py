"""An activation function in a chain of streams."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration

__all__ = ["ActivationStage", "ActivationStageConfiguration"]


@dataclass(frozen=True, kw_only=True)
class ActivationStageConfiguration(Configuration):
    """An `ActivationStage`.

    Parameters
    ----------
    function, width
        See `mxsafe.rtl.vector.activation.ActivationConfiguration`.

    Raises
    ------
    ValueError
        As there.
    """

    unnamed = frozenset({"function"})

    function: str = "relu"
    width: int = 16

    def __post_init__(self) -> None:
        self._set(width=self.activation.width)

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
        return self.activation.latency


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
    `m_axis_tready` reaches `s_axis_tready` combinationally. So does `s_axis_tvalid` `m_axis_tvalid`
    where the function is combinational.
    """

    def ports(self) -> Mapping[str, Member]:
        """Stream of numbers in, stream of results out."""
        numbers = data.ArrayLayout(32, self.config.width)
        return {"s_axis": In(AxiStream(numbers)), "m_axis": Out(AxiStream(numbers))}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        activate = Activation(self.config.activation)
        place(m, platform, "activate", activate)
        m.d.comb += [
            activate.values.as_value().eq(self.s_axis.tdata.as_value()),
            self.m_axis.tdata.as_value().eq(activate.results.as_value()),
            self.m_axis.tvalid.eq(self.s_axis.tvalid),
            self.m_axis.tlast.eq(self.s_axis.tlast),
            self.s_axis.tready.eq(self.m_axis.tready),
        ]
        return m
