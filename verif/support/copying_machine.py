"""A machine that only copies: its registers and its bus are those of a whole one."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from amaranth.hdl import Array, Module, Signal
from amaranth.lib.wiring import connect, flipped

from mxsafe.rtl.accelerator.accelerator import Accelerator
from mxsafe.rtl.accelerator.axi import burst_constants
from mxsafe.rtl.accelerator.registers import Registers
from mxsafe.rtl.unit import place

__all__ = ["COPIED_BEATS", "copying_machines"]

COPIED_BEATS = 4


@contextmanager
def copying_machines() -> Iterator[None]:
    """While it lasts, machines copy the first beats of a program to its base, and are done."""
    with mock.patch.object(Accelerator, "elaborate", _elaborate):
        yield


def _elaborate(self: Accelerator, platform: object) -> Module:
    m = Module()
    registers = Registers(self.config.registers)
    place(m, platform, "registers", registers)
    connect(m, flipped(self.s_axi), registers.s_axi)
    axi, bits = self.m_axi, self.config.machine.data_width
    beats = Array(Signal(bits, name=f"beat_{at}") for at in range(COPIED_BEATS))
    read, written = (Signal(range(COPIED_BEATS + 1), name=n) for n in ("read", "written"))
    m.d.comb += [
        self.irq.eq(registers.irq),
        registers.quiet.eq(1),
        axi.araddr.eq(registers.program_base),
        axi.awaddr.eq(registers.base),
        axi.arlen.eq(COPIED_BEATS - 1),
        axi.awlen.eq(COPIED_BEATS - 1),
        *(
            getattr(axi, name).eq(value)
            for c in ("ar", "aw")
            for name, value in burst_constants(c, bits).items()
        ),
        axi.wdata.eq(beats[written]),
        axi.wstrb.eq(-1),
        axi.wlast.eq(written == COPIED_BEATS - 1),
        registers.stopped.eq(0),
    ]
    with m.FSM():
        with m.State("rest"):
            m.d.sync += [read.eq(0), written.eq(0)]
            with m.If(registers.start):
                m.next = "ask"
        with m.State("ask"):
            m.d.comb += axi.arvalid.eq(1)
            with m.If(axi.arready):
                m.next = "read"
        with m.State("read"):
            m.d.comb += axi.rready.eq(1)
            with m.If(axi.rvalid):
                m.d.sync += [beats[read].eq(axi.rdata), read.eq(read + 1)]
                with m.If(axi.rlast):
                    m.next = "offer"
        with m.State("offer"):
            m.d.comb += axi.awvalid.eq(1)
            with m.If(axi.awready):
                m.next = "write"
        with m.State("write"):
            m.d.comb += axi.wvalid.eq(1)
            with m.If(axi.wready):
                m.d.sync += written.eq(written + 1)
                with m.If(axi.wlast):
                    m.next = "wait"
        with m.State("wait"):
            m.d.comb += axi.bready.eq(1)
            with m.If(axi.bvalid):
                m.next = "done"
        with m.State("done"):
            m.d.comb += registers.is_done.eq(1)
            m.next = "rest"
    return m
