"""The machine: registers on AXI4-Lite, and everything behind them."""

from amaranth.hdl import Cat, Module, ResetSignal, Signal
from amaranth.lib.wiring import Out, connect, flipped

from mxsafe.machine.description import COUNTERS
from mxsafe.rtl.arithmetic.bits import noted
from mxsafe.rtl.machine.accelerator_core import AcceleratorCore, AcceleratorCoreConfiguration
from mxsafe.rtl.machine.axi import Axi4
from mxsafe.rtl.machine.control.registers import Registers
from mxsafe.rtl.unit import Part, Ports, Unit, place

_ASKED = ("start", "program_base", "program_length", "base", "stop")
_TOLD = (
    "quiet",
    "is_done",
    "stopped",
    "error",
    "error_number",
    *(name for name in COUNTERS if name != "cycles"),
)


class AcceleratorConfiguration(AcceleratorCoreConfiguration, eq=False):
    """An `Accelerator`, of the sizes of its core."""

    @property
    def base(self) -> str:
        return f"{self.gemm.array.arithmetic.prefix}_accelerator"

    @property
    def latency(self) -> int:
        """Cycles from the taken write of the start to the address of the program's first word."""
        return self.registers.latency + self.core.latency

    registers = Part(Registers)
    core = Part(AcceleratorCore)


class Accelerator(Unit[AcceleratorConfiguration]):
    """Runs programs out of memory: products, functions, reductions, conversions.

    What its descriptors and registers are `mxsafe.machine.description` says, and what it computes,
    byte for byte in memory, `mxsafe.model.machine.Machine`.

    Attributes
    ----------
    s_axi : In(AxiLite)
        Registers.
    m_axi : Out(Axi4)
        Memory: bursts that go up, in order, of one identifier.
    irq : Out(1)
        The interrupt.
    """

    def ports(self) -> Ports:
        registers = Registers(self.config.registers).ports()
        return {
            "s_axi": registers["s_axi"],
            "m_axi": Out(Axi4(self.config.machine.data_width)),
            "irq": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        registers, core = Registers(self.config.registers), AcceleratorCore(self.config.core)
        place(m, platform, "registers", registers)
        connect(m, flipped(self.s_axi), registers.s_axi)
        connect(m, flipped(self.m_axi), core.m_axi)
        if stages := self.config.registers.reset_stages:
            resets = [
                Signal(name=f"core_reset_{stage}", reset_less=True, init=1)
                for stage in range(stages)
            ]
            noted(
                resets[0],
                "A soft reset is one of all but the registers. It takes cycles to arrive, in which "
                "nothing is asked of memory any more.",
            )
            # Each has as many copies as reach all that the next one drives.
            m.d.sync += Cat(resets).eq(Cat(ResetSignal() | registers.clear, *resets[:-1]))
            place(m, platform, "core", core, reset=resets[-1], late=True)
            # Before the reset has gone through all of them.
            for name in ("arvalid", "awvalid", "wvalid"):
                asked = getattr(core.m_axi, name) & ~resets[0]
                m.d.comb += getattr(self.m_axi, name).eq(asked)
        else:
            place(m, platform, "core", core, reset=registers.clear)
        m.d.comb += [
            self.irq.eq(registers.irq),
            *(getattr(core, name).eq(getattr(registers, name)) for name in _ASKED),
            *(getattr(registers, name).eq(getattr(core, name)) for name in _TOLD),
        ]
        if self.config.machine.counts:
            m.d.comb += registers.accesses.eq(core.accesses)
