"""A machine with its memory at a serial line: all of a board but clock and pins.

Tested by `verif/rtl/board/test_ulx3s.py`.
"""

from dataclasses import field
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out, connect

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.rtl.board.block_memory import BlockMemory, BlockMemoryConfiguration
from mxsafe.rtl.board.line import Divisor
from mxsafe.rtl.board.serial_bridge import SerialBridge, SerialBridgeConfiguration
from mxsafe.rtl.board.uart_receiver import UartReceiver, UartReceiverConfiguration
from mxsafe.rtl.board.uart_transmitter import UartTransmitter
from mxsafe.rtl.machine.accelerator import Accelerator
from mxsafe.rtl.machine.axi import sliced_axi
from mxsafe.rtl.machine.part import differing_sizes
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, describe, part_of_name, place
from mxsafe.validation import Long

LIGHTS = {
    "running": "a program runs",
    "done": "a program has ended",
    "error": "a program has ended with an error",
    "interrupt": "the interrupt is raised",
    "trouble": "a request was given up or had a wrong checksum, since the reset",
    "receives": "a byte is coming",
    "sends": "a byte is going",
    "beats": "the clock runs: on and off by turns",
}
"""Lights from 0 on."""
_BEAT_BITS = 25


class SerialMachineConfiguration(Configuration):
    """A `SerialMachine`.

    Parameters
    ----------
    machine : MachineConfiguration
        Its sizes.
    memory_bytes : int
        Bytes of its memory, a multiple of 4,096.
    divisor : int
        Cycles of a bit on the line.
    patience : int
        Cycles without a byte after which a request is given up.
    """

    machine: MachineConfiguration = field(default_factory=MachineConfiguration)
    memory_bytes: Long = BlockMemoryConfiguration.memory_bytes
    divisor: Divisor = UartReceiverConfiguration.divisor
    patience: Long = SerialBridgeConfiguration.patience

    def __post_init__(self) -> None:
        if self.machine.counts:
            raise ValueError("counts must be False on a serial line, which reaches none, not True")
        _ = self.accelerator, self.memory, self.bridge, self.receiver  # which check the values

    @property
    def base(self) -> str:
        return f"{self.machine.formats.name}_serial_machine"

    @property
    def differences(self) -> list[str]:
        names = ("memory_bytes", "divisor", "patience")
        own = [(name, getattr(self, name)) for name in names]
        default = SerialMachineConfiguration.__dataclass_fields__
        return [
            *differing_sizes(vars(self.machine)),
            *(part_of_name(name, value) for name, value in own if value != default[name].default),
        ]

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields, the sizes of the machine among them."""
        own = {name: describe(getattr(self, name)) for name in ("memory_bytes", "divisor")}
        return {**describe(self.machine), **own, "patience": self.patience}

    @property
    def latency(self) -> int:
        """Cycles from the start bit of a byte to the byte."""
        return self.receiver.latency

    accelerator = Part(Accelerator)
    memory = Part(BlockMemory, data_bits=lambda whole: whole.machine.data_width)
    bridge = Part(SerialBridge)
    receiver = Part(UartReceiver)
    transmitter = Part(UartTransmitter)


class SerialMachine(Unit[SerialMachineConfiguration]):
    """A machine, block RAM as its memory, and a host behind a serial line.

    Attributes
    ----------
    from_host : In(1)
        The line from the host.
    to_host : Out(1)
        The line to it.
    lights : Out(8)
        What `LIGHTS` says.
    """

    def ports(self) -> Ports:
        return {"from_host": In(1), "to_host": Out(1), "lights": Out(len(LIGHTS))}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        machine, memory = Accelerator(config.accelerator), BlockMemory(config.memory)
        bridge = SerialBridge(config.bridge)
        receiver = UartReceiver(config.receiver)
        transmitter = UartTransmitter(config.transmitter)
        for name, unit in (
            ("machine", machine),
            ("memory", memory),
            ("bridge", bridge),
            ("receiver", receiver),
            ("transmitter", transmitter),
        ):
            place(m, platform, name, unit)
        registers = sliced_axi(m, platform, "registers", bridge.registers)
        for name, member in bridge.registers.signature.members.items():
            own, its = getattr(machine.s_axi, name), getattr(registers, name)
            m.d.comb += own.eq(its) if member.flow == Out else its.eq(own)
        connect(m, bridge.access, memory.access)
        connect(m, machine.m_axi, memory.s_axi)
        m.d.comb += [
            receiver.line.eq(self.from_host),
            bridge.byte_valid.eq(receiver.valid),
            bridge.byte_value.eq(receiver.data),
            bridge.byte_error.eq(receiver.error),
            transmitter.valid.eq(bridge.send_valid),
            transmitter.data.eq(bridge.send_byte),
            bridge.send_ready.eq(transmitter.ready),
            self.to_host.eq(transmitter.line),
            bridge.irq.eq(machine.irq),
        ]
        trouble, beats = Signal(name="trouble"), Signal(_BEAT_BITS, name="beats")
        m.d.sync += [
            trouble.eq(trouble | bridge.gives_up),
            beats.eq(beats + 1),
            self.lights.eq(
                Cat(
                    bridge.status,
                    machine.irq,
                    trouble,
                    receiver.busy,
                    ~transmitter.ready,
                    beats[-1],
                )
            ),
        ]
