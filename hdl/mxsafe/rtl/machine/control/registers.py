"""Registers of the machine on AXI4-Lite, made from the description."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ACCESSES,
    COUNTERS,
    ERRORS,
    REGISTERS,
    Register,
    constant_registers,
    counted_accesses,
    registers_of,
)
from mxsafe.rtl.arithmetic.bits import equals, gated_or, kept, named, noted, truncated, update
from mxsafe.rtl.machine.axi import ADDRESS_BITS, AxiLite
from mxsafe.rtl.machine.control.fetch import NUMBER_BITS
from mxsafe.rtl.machine.part import PartConfiguration, shortest
from mxsafe.rtl.machine.ports import ERROR_BITS
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Ports, Unit

ACCESS_BITS = 3
"""Bits of how many accesses of a kind there are in a cycle."""
_BY_NAME = {register.name: register for register in REGISTERS}
_EVENTS = tuple(name for name in COUNTERS if name != "cycles")
"""Counters of what happens elsewhere."""
_REGISTER_BITS = 32
_COUNTER_BITS = 64
_HELD = (
    "interrupt_enable",
    "program_low",
    "program_high",
    "program_length",
    "base_low",
    "base_high",
)
"""Registers that keep what is written to them."""


class RegistersConfiguration(PartConfiguration, eq=False):
    """`Registers`.

    For an FPGA `clear`, a reset of many registers, comes from one, and reaches them by way of
    others; an address that is read waits in a register, too.
    """

    @classmethod
    def sizes(cls, machine: MachineConfiguration) -> dict[str, Any]:
        """Values of the registers that say what the machine is, and the target."""
        constants = tuple(constant_registers(machine).values())
        return {"constants": constants, "target": machine.target}

    @property
    def constants(self) -> dict[str, int]:
        """Values of the registers that say what the machine is, by their names."""
        return constant_registers(self.machine)

    @property
    def differences(self) -> list[str]:
        """Parts of a name: constants that are not those of a machine that has a name."""
        return [*shortest(self._differing), *self._for_target]

    def _differing(self, machine: MachineConfiguration) -> list[str]:
        others = constant_registers(machine)
        return [
            f"{name}{value:x}" for name, value in self.constants.items() if value != others[name]
        ]

    latency = 1
    """Cycles from an address that is taken to its answer, and from a start to `start`."""

    @property
    def reset_stages(self) -> int:
        """Registers between `clear` and what it resets."""
        return at(self, "reset")

    @property
    def address_bits(self) -> int:
        """Bits of an address on the bus."""
        return max(r.address for r in registers_of(self.machine)).bit_length()

    @property
    def accesses(self) -> data.StructLayout | None:
        """Layout of accesses that are counted, if there are such counters."""
        return accesses_layout(self.machine)


def accesses_layout(machine: MachineConfiguration) -> data.StructLayout | None:
    """Layout of how many accesses of each kind there are in a cycle, if a machine counts them."""
    if not machine.counts:
        return None
    return data.StructLayout(dict.fromkeys(counted_accesses(machine), ACCESS_BITS))


class Registers(Unit[RegistersConfiguration]):
    """The registers of the description behind AXI4-Lite, and what starts, ends and resets work.

    Every access is answered with OKAY: what there is not is read as 0 and written in vain. The two
    lowest bits of an address do not count. `awready`, `wready` and `arready` come from registers
    and follow `awvalid` with `wvalid`, or `arvalid`, a cycle later, so that no path goes through.

    A start keeps where the program is, its length and its base in registers of their own, which
    hold them while it runs: the registers on the bus may have those of the next one by then. A
    start that is written with a reset or during one waits for its end. If the program or the base
    is not at a multiple of a word, there is an error instead of a program.

    A soft reset sets `stop` until memory is `quiet`, then `clear` for a cycle, which is the reset
    of all other units. For an FPGA `clear` lasts some cycles, and `stop` until the reset is over.
    Registers that can be written keep their values, apart from `interrupt`, and so do counters.
    An error that is found in a reset raises no interrupt.

    Attributes
    ----------
    s_axi : In(AxiLite)
        The bus.
    irq : Out(1)
        The interrupt: something has happened that is enabled and not yet cleared.
    start : Out(1)
        A program begins.
    program_base, program_length, base : Out
        Its first byte, its descriptors, and what addresses in them are relative to: as they were
        when its start was written, until the next one is.
    stop : Out(1)
        All work is to end.
    quiet : In(1)
        No transaction with memory is outstanding.
    clear : Out(1)
        All work is to be forgotten.
    is_done : In(1)
        All descriptors are done.
    stopped, error, error_number : In
        There has been an error, its code, the number of its descriptor.
    array_busy, wait_load, ... : In(1)
        Something happens in this cycle that is counted while a program runs.
    accesses : In(struct)
        If they are counted: how many accesses of each kind there are in this cycle.
    """

    def ports(self) -> Ports:
        accesses = self.config.accesses
        return {
            "s_axi": In(AxiLite(self.config.address_bits)),
            "irq": Out(1),
            "start": Out(1),
            "program_base": Out(ADDRESS_BITS),
            "program_length": Out(NUMBER_BITS),
            "base": Out(ADDRESS_BITS),
            "stop": Out(1),
            "quiet": In(1),
            "clear": Out(1),
            "is_done": In(1),
            "stopped": In(1),
            "error": In(ERROR_BITS),
            "error_number": In(NUMBER_BITS),
            **{name: In(1) for name in _EVENTS},
            **({} if accesses is None else {"accesses": In(accesses)}),
        }

    def fill(self, m: Module, platform: object) -> None:
        written = self._take_writes(m)
        values: dict[str, Value] = {
            name: Const(value, _REGISTER_BITS) for name, value in self.config.constants.items()
        }
        values |= self._hold(m, written)
        begins, running, states = self._run(m, written, values)
        values |= states | self._count(m, begins, running)
        self._answer_reads(m, values)

    def _take_writes(self, m: Module) -> dict[str, tuple[Value, Value]]:
        """Answer writes; return by register whether it is written, and which bits."""
        bus = self.s_axi
        ready = Signal(name="write_is_ready")
        offered = named(m, "write_offered", 1, bus.awvalid & bus.wvalid)
        taken = named(m, "write_taken", 1, offered & ready)
        m.d.comb += [bus.awready.eq(ready), bus.wready.eq(ready), bus.bresp.eq(0)]
        m.d.sync += [
            ready.eq(offered & ~ready & ~bus.bvalid),
            bus.bvalid.eq(taken | (bus.bvalid & ~bus.bready)),
        ]
        noted(
            ready,
            "Address and data of a write are taken together, in the cycle after both are offered "
            "and the answer before has left.",
        )
        mask = named(m, "write_mask", _REGISTER_BITS, Cat(bit.replicate(8) for bit in bus.wstrb))
        written = {}
        for register in REGISTERS:
            if register.access != "read":
                here = equals(bus.awaddr[2:], register.address >> 2)
                name = f"writes_{register.name}"
                written[register.name] = named(m, name, 1, taken & here), mask
        return written

    def _hold(self, m: Module, written: Mapping[str, tuple[Value, Value]]) -> dict[str, Value]:
        """Registers that keep what is written."""
        values: dict[str, Value] = {}
        for name in _HELD:
            gate, mask = written[name]
            width = _width(_BY_NAME[name])
            held = Signal(width, name=f"{name}_held")
            with m.If(gate):
                kept = held & ~mask[:width]
                m.d.sync += held.eq(kept | (self.s_axi.wdata & mask)[:width])
            values[name] = held
        return values

    def _keep(self, m: Module, starts: Value, values: Mapping[str, Value]) -> Value:
        """Keep what a program is, for as long as it runs; return whether a word begins there."""
        fine = self.config.machine.word_bytes.bit_length() - 1
        program = Cat(values["program_low"], values["program_high"])
        base = Cat(values["base_low"], values["base_high"])
        for port, value, low in (
            (self.program_base, program, fine),
            (self.program_length, values["program_length"], 0),
            (self.base, base, fine),
        ):
            high = kept(m, starts, f"{port.name}_kept", value[low:])
            m.d.comb += port.eq(Cat(Const(0, low), high))
        return kept(m, starts, "is_aligned", ~Cat(program[:fine], base[:fine]).any())

    def _run(
        self,
        m: Module,
        written: Mapping[str, tuple[Value, Value]],
        values: Mapping[str, Value],
    ) -> tuple[Value, Value, dict[str, Value]]:
        """Start programs, notice their ends, reset.

        Return whether one begins, whether one runs, and the registers that tell of it.
        """
        running, done, resetting, failed, waits, refused = (
            Signal(name=name)
            for name in ("running", "done", "resetting", "failed", "start_waits", "refused")
        )
        commands = self._ones(m, written, "control")
        resets = commands["reset"]
        stopped = named(m, "is_stopped", 1, self.stopped | refused)
        is_free = ~waits & (resetting | (~running & ~stopped))
        starts = noted(
            named(m, "start_is_taken", 1, commands["start"] & (resets | is_free)),
            "A start is taken where no program waits, runs or has failed; else a reset comes "
            "first, which may be written with it.",
        )
        aligned = self._keep(m, starts, values)
        begins = named(m, "program_begins", 1, waits & ~resetting & ~resets)
        ends = named(m, "program_ends", 1, running & self.is_done)
        fails = named(m, "program_fails", 1, stopped & ~failed & ~resetting)
        m.d.comb += [self.start.eq(begins & aligned), self.stop.eq(resetting)]
        noted(
            resetting, "A reset waits until bursts that were begun are over: AXI has no way back."
        )
        clear = resetting & self.quiet
        is_clear: Value = self.clear
        if stages := self.config.reset_stages:
            left = noted(
                Signal(range(2 * stages + 2), name="clocks_of_reset_left"),
                "The reset lasts as long as it takes to arrive everywhere, and is over when it has "
                "gone everywhere.",
            )
            less = truncated(m, "clocks_of_reset_less_1", len(left), left - 1)
            m.d.sync += left.eq(Mux(left.any(), less, Mux(clear, 2 * stages + 1, 0)))
            m.d.sync += self.clear.eq(Mux(left.any(), left > stages + 1, clear))
            is_clear = named(m, "reset_ends", 1, left == 1)
        else:
            m.d.comb += self.clear.eq(clear)
        stays = ~(ends | stopped | self.clear)
        m.d.sync += [
            resetting.eq(resets | (resetting & ~is_clear)),
            waits.eq(starts | (waits & ~begins & ~resets)),
            running.eq(self.start | (running & stays)),
            refused.eq(((begins & ~aligned) | refused) & ~self.clear),
            done.eq((ends & ~stopped & ~self.clear) | (done & ~begins & ~self.clear)),
            failed.eq(stopped & ~self.clear),
        ]
        happened = Signal(_width(_BY_NAME["interrupt"]), name="happened")
        cleared = self._ones(m, written, "interrupt")
        events = {"done": ends & ~stopped, "error": fails}
        for field in _BY_NAME["interrupt"].fields:
            bit = happened[field.offset]
            m.d.sync += bit.eq(~self.clear & (events[field.name] | (bit & ~cleared[field.name])))
        m.d.comb += self.irq.eq((happened & values["interrupt_enable"]).any())
        status = {"running": running | resetting | waits, "done": done, "error": stopped}
        return (
            begins,
            running,
            {
                "status": _packed(_BY_NAME["status"], status),
                "error": Mux(self.stopped, self.error, Mux(refused, ERRORS["alignment"], 0)),
                "error_descriptor": Mux(self.stopped, self.error_number, 0),
                "interrupt": happened,
            },
        )

    def _ones(
        self, m: Module, written: Mapping[str, tuple[Value, Value]], name: str
    ) -> dict[str, Value]:
        """By field which bits of a register get a 1."""
        gate, mask = written[name]
        return {
            field.name: named(
                m,
                f"{name}_{field.name}_written",
                1,
                gate & mask[field.offset] & self.s_axi.wdata[field.offset],
            )
            for field in _BY_NAME[name].fields
        }

    def _count(self, m: Module, begins: Value, running: Value) -> dict[str, Value]:
        """Counters of what happens while a program runs."""
        values: dict[str, Value] = {}
        for name in COUNTERS:
            event = Const(1) if name == "cycles" else getattr(self, name)
            values |= _counter(m, name, begins, running & event, Const(1))
        if self.config.accesses is not None:
            for name in ACCESSES:
                if name in self.config.accesses.members:
                    values |= _counter(m, name, begins, running, self.accesses[name])
                else:
                    values |= dict.fromkeys((f"{name}_low", f"{name}_high"), Const(0, 1))
        return values

    def _answer_reads(self, m: Module, values: Mapping[str, Value]) -> None:
        """Answer reads a cycle after their address was taken."""
        bus = self.s_axi
        address: Value = bus.araddr[2:]
        ready = Signal(name="read_is_ready")
        taken = named(m, "read_taken", 1, bus.arvalid & ready)
        m.d.comb += bus.arready.eq(ready)
        m.d.sync += ready.eq(bus.arvalid & ~ready & ~bus.rvalid)
        # An address stays until it is taken, so it was the same in the cycle before.
        address = held(m, "read_address", address, at(self.config, "read address"), reset=True)
        m.d.comb += bus.rresp.eq(0)
        m.d.sync += bus.rvalid.eq(taken | (bus.rvalid & ~bus.rready))
        choices = []
        for register in registers_of(self.config.machine):
            if register.access != "write":
                here = equals(address, register.address >> 2)
                is_read = named(m, f"reads_{register.name}", 1, here)
                value = values[register.name]
                choices.append((is_read, Cat(value, Const(0, _REGISTER_BITS - len(value)))))
        answer = gated_or(m, "read_value", choices)
        update(m, bus.rdata, (taken, answer))


def _counter(m: Module, name: str, begins: Value, counts: Value, by: Value) -> dict[str, Value]:
    """Both halves of a counter, by the names of their registers."""
    counter = Signal(_COUNTER_BITS, name=f"{name}_counter")
    more = truncated(m, f"{name}_next", _COUNTER_BITS, counter + by)
    update(m, counter, (begins, 0), (counts, more))
    return {
        f"{name}_low": counter[:_REGISTER_BITS],
        f"{name}_high": counter[_REGISTER_BITS:],
    }


def _width(register: Register) -> int:
    """Bits of a register that mean something."""
    ends = [field.offset + field.width for field in register.fields]
    return max(ends, default=_REGISTER_BITS)


def _packed(register: Register, values: Mapping[str, Any]) -> Value:
    """A register of single bits from those of its fields."""
    bits = {field.offset: values[field.name] for field in register.fields}
    return Cat(bits.get(bit, Const(0, 1)) for bit in range(_width(register)))
