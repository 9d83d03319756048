"""The transmitter of a serial line: bytes to bits.

Tested by `verif/rtl/board/test_uart.py`.
"""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import equals, named
from mxsafe.rtl.board.line import LineConfiguration
from mxsafe.rtl.unit import Ports, Unit

_BITS = 10
"""Start bit, eight of data, stop bit."""


class UartTransmitterConfiguration(LineConfiguration):
    """A `UartTransmitter`."""

    latency = 1
    """Cycles from a byte that is taken to its start bit."""


class UartTransmitter(Unit[UartTransmitterConfiguration]):
    """Bytes to a serial line: eight bits, the lowest first, no parity, one stop bit.

    Attributes
    ----------
    valid : In(1)
        There is a byte.
    data : In(8)
        The byte.
    ready : Out(1)
        It is taken.
    line : Out(1)
        The line, a register, high at rest.
    """

    def ports(self) -> Ports:
        return {"valid": In(1), "data": In(8), "ready": Out(1), "line": Out(1, init=1)}

    def fill(self, m: Module, platform: object) -> None:
        divisor = self.config.divisor
        wait = Signal(range(divisor), name="clocks_of_bit")
        left = Signal(range(_BITS + 1), name="bits_left")
        rest = Signal(_BITS - 1, name="bits_behind")
        ends = named(m, "bit_ends", 1, equals(wait, 0))
        m.d.comb += self.ready.eq(equals(left, 0))
        with m.If(self.ready), m.If(self.valid):
            m.d.sync += [
                self.line.eq(0),
                rest.eq(Cat(self.data, Const(1, 1))),
                left.eq(_BITS),
                wait.eq(divisor - 1),
            ]
        with m.Elif(ends):
            m.d.sync += [
                self.line.eq(rest[0]),
                rest.eq(Cat(rest[1:], Const(1, 1))),
                left.eq(left - 1),
                wait.eq(divisor - 1),
            ]
        with m.Else():
            m.d.sync += wait.eq(wait - 1)
