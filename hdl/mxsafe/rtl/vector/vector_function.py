"""Functions of binary32 numbers behind AXI4-Stream: a beat in, a beat out."""

from dataclasses import field

from amaranth.hdl import Cat, Module, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import delayed, named
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration
from mxsafe.validation import Count


class VectorFunctionConfiguration(Configuration):
    """A `VectorFunction`.

    Parameters
    ----------
    lanes : ActivationConfiguration
        Functions, numbers in a beat, and registers.
    user_bits : int
        Bits of `tuser` that go along with a beat.

    Raises
    ------
    ValueError
        If `user_bits` is not a non-negative integer.
    """

    lanes: ActivationConfiguration = field(
        default_factory=lambda: ActivationConfiguration(functions="relu+gelu+silu+tanh")
    )
    user_bits: Count = 0

    @property
    def base(self) -> str:
        return f"{self.lanes.base}_stream"

    @property
    def latency(self) -> int:
        """Cycles from a beat to its results, without stalls."""
        return self.lanes.latency

    @property
    def user(self) -> data.StructLayout | None:
        """`tuser` of beats that come in, if they have one."""
        parts = {"function": self.lanes.code_bits, "along": self.user_bits}
        used = {name: width for name, width in parts.items() if width}
        return data.StructLayout(used) if used else None


class VectorFunction(Unit[VectorFunctionConfiguration]):
    """A function on every number of a beat, and a beat a cycle.

    Attributes
    ----------
    s_axis_tdata : In(array of 32)
        Binary32 numbers.
    s_axis_tuser : In(struct)
        `function`, the code of the function if there are several (`Activation`), and `along`, if it
        has bits.
    s_axis_tlast : In(1)
        It goes along.
    m_axis_tdata : Out(array of 32)
        Results.
    m_axis_tuser : Out
        `along`, if it has bits.
    m_axis_tlast : Out(1)

    Notes
    -----
    All registers move together, where the sink takes a beat or there is none in the last one. A
    unit without any has no clock: beats pass as they come.
    """

    def ports(self) -> Ports:
        config = self.config
        numbers = data.ArrayLayout(32, config.lanes.width)
        along = config.user_bits or None
        return {
            "s_axis": In(AxiStream(numbers, user=config.user)),
            "m_axis": Out(AxiStream(numbers, user=along)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        lanes = place(m, platform, "lanes", Activation(config.lanes), reset=False)
        source, sink = self.s_axis, self.m_axis
        m.d.comb += [lanes.values.eq(source.tdata), sink.tdata.eq(lanes.results)]
        if config.lanes.code_bits:
            m.d.comb += lanes.code.eq(source.tuser.function)
        flags: list[Value] = [source.tlast]
        if config.user_bits:
            flags.append(source.tuser.along)
        if not config.latency:
            m.d.comb += [
                sink.tvalid.eq(source.tvalid),
                source.tready.eq(sink.tready),
                Cat(sink.tlast, *self._along()).eq(Cat(*flags)),
            ]
            return
        enable = Signal(name="moves")
        taken = named(m, "is_taken", 1, source.tvalid & source.tready)
        valid = delayed(m, enable, "valid", taken, config.latency, reset=True)
        out = delayed(m, enable, "flags", Cat(*flags), config.latency)
        m.d.comb += [
            enable.eq(~valid | sink.tready),
            lanes.en.eq(enable),
            source.tready.eq(enable & ~ResetSignal()),
            sink.tvalid.eq(valid),
            Cat(sink.tlast, *self._along()).eq(out),
        ]

    def _along(self) -> list[Value]:
        return [self.m_axis.tuser] if self.config.user_bits else []
