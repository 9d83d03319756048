"""Rounding of binary32 numbers to bfloat16, behind AXI4-Stream."""

from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import BF16
from mxsafe.rtl.arithmetic.bfloat16 import rounded_to_bfloat16
from mxsafe.rtl.stream.axi_stream import AxiStream, converted_beat
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike


class NumberRounderConfiguration(Configuration):
    """A `NumberRounder`.

    Parameters
    ----------
    width : int
        Numbers in a beat.
    """

    width: Alike = 16

    @property
    def beat(self) -> data.StructLayout:
        """Layout of `tdata` of the rounded stream."""
        return converted_beat(BF16, self.width, 0)


class NumberRounder(Unit[NumberRounderConfiguration]):
    """Beats of binary32 numbers as bfloat16, to nearest even. Combinational.

    It stands where a machine with scales has a `BlockConverter`. A number needs no other one to be
    rounded, so nothing waits, and there is no register: those of the results are in front of it,
    those of the packer behind it, and an increment of 16 bits between them is short.

    Attributes
    ----------
    s_axis_tdata : In(array)
        `width` binary32 numbers.
    s_axis_tlast : In(1)
        The beat ends a row.
    m_axis_tdata : Out(struct)
        ``codes``: the same in bfloat16. Subnormals count; every NaN is ``0x7fc0``.
    m_axis_tlast : Out(1)
        As it came with the beat.
    """

    def ports(self) -> Ports:
        numbers = data.ArrayLayout(32, self.config.width)
        return {"s_axis": In(AxiStream(numbers)), "m_axis": Out(AxiStream(self.config.beat))}

    def fill(self, m: Module, platform: object) -> None:
        source, sink = self.s_axis, self.m_axis
        for index in range(self.config.width):
            m.d.comb += sink.tdata.codes[index].eq(
                rounded_to_bfloat16(m, index, source.tdata[index])
            )
        m.d.comb += [
            sink.tvalid.eq(source.tvalid),
            sink.tlast.eq(source.tlast),
            source.tready.eq(sink.tready),
        ]
