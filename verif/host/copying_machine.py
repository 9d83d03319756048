"""A machine that only copies: its registers and its bus are those of a whole one."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import connect, flipped

from mxsafe.rtl.machine.accelerator import Accelerator
from mxsafe.rtl.machine.axi import burst_constants
from mxsafe.rtl.machine.control.registers import Registers
from mxsafe.rtl.unit import place

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
    beats = Signal(COPIED_BEATS * bits)
    number = Signal(range(COPIED_BEATS))
    with m.If(axi.rvalid & axi.rready | axi.wvalid & axi.wready):
        m.d.sync += [beats.eq(Cat(beats[bits:], axi.rdata)), number.eq(number + 1)]
    begins = registers.start
    # What it does, one after the other, and what ends each of them.
    for does, ends in (
        (axi.arvalid, axi.arready),
        (axi.rready, axi.rvalid & axi.rlast),
        (axi.awvalid, axi.awready),
        (axi.wvalid, axi.wready & axi.wlast),
        (axi.bready, axi.bvalid),
        (registers.is_done, Const(1)),
    ):
        state = Signal(name=f"does_{does.name}")
        m.d.sync += state.eq(begins | state & ~ends)
        m.d.comb += does.eq(state)
        begins = state & ends
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
        axi.wdata.eq(beats[:bits]),
        axi.wstrb.eq(-1),
        axi.wlast.eq(number == COPIED_BEATS - 1),
        registers.stopped.eq(0),
    ]
    return m
