"""The receiver of a serial line: bits to bytes.

Tested by `verif/rtl/board/test_uart.py`.
"""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import equals, named, update
from mxsafe.rtl.board.line import LineConfiguration
from mxsafe.rtl.unit import Ports, Unit

_SAMPLES = 10
"""Start bit, eight of data, stop bit."""
_SYNCHRONISERS = 2


class UartReceiverConfiguration(LineConfiguration):
    """A `UartReceiver`."""

    @property
    def latency(self) -> int:
        """Cycles from the start bit on the line to its byte."""
        return _SYNCHRONISERS + self.divisor // 2 + (_SAMPLES - 1) * self.divisor + 1


class UartReceiver(Unit[UartReceiverConfiguration]):
    """Bytes from a serial line: eight bits, the lowest first, no parity, one stop bit.

    Each bit is read in its middle, counted from the fall into the start bit. A start bit that is
    over by its middle is none.

    Attributes
    ----------
    line : In(1)
        The line, high at rest, from anywhere: it passes two registers first.
    valid : Out(1)
        For one cycle: a byte has come.
    data : Out(8)
        The byte.
    error : Out(1)
        For one cycle, instead of `valid`: a byte without its stop bit has come. The next start bit
        is looked for when the line has been high.
    busy : Out(1)
        A byte is coming.
    """

    def ports(self) -> Ports:
        return {
            "line": In(1),
            "valid": Out(1),
            "data": Out(8),
            "error": Out(1),
            "busy": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        divisor = self.config.divisor
        # Behind a reset the line is taken to be low, so that a byte begins with a real fall.
        seen = Signal(_SYNCHRONISERS, name="line_seen")
        before = Signal(name="line_before")
        level = named(m, "level", 1, seen[-1])
        m.d.sync += [seen.eq(Cat(self.line, seen[:-1])), before.eq(level)]
        wait = Signal(range(divisor), name="clocks_to_sample")
        sample = Signal(range(_SAMPLES), name="sample")
        is_sample = named(m, "is_sample", 1, self.busy & equals(wait, 0))
        is_first = named(m, "is_first", 1, equals(sample, 0))
        is_last = named(m, "is_last", 1, equals(sample, _SAMPLES - 1))
        is_no_start = named(m, "is_no_start", 1, is_first & level)
        m.d.sync += [
            self.valid.eq(is_sample & is_last & level),
            self.error.eq(is_sample & is_last & ~level),
        ]
        with m.If(~self.busy):
            m.d.sync += [
                self.busy.eq(before & ~level),
                wait.eq(divisor // 2 - 1),
                sample.eq(0),
            ]
        with m.Elif(is_sample):
            m.d.sync += [
                self.busy.eq(~(is_last | is_no_start)),
                wait.eq(divisor - 1),
                sample.eq(sample + 1),
            ]
            update(m, self.data, (~is_last, Cat(self.data[1:], level)))
        with m.Else():
            m.d.sync += wait.eq(wait - 1)
