"""A memory of beats: one port to write and one to read, the only kind of memory in the hardware."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger


class BeatMemoryConfiguration(Configuration):
    """A `BeatMemory`.

    Parameters
    ----------
    beat_bits : int
        Bits of a beat.
    depth : int
        Beats, at least 2.
    """

    beat_bits: PositiveInteger = 512
    depth: PositiveInteger = 512

    def __post_init__(self) -> None:
        if self.depth < 2:
            raise ValueError(f"depth must be 2 or more, not {self.depth}")

    latency = 1
    """Cycles from an address to what stands there."""


class BeatMemory(Unit[BeatMemoryConfiguration]):
    """A memory with a port to write and a port to read, whose output is a register.

    It is a module of its own without anything else in it, so that FPGA tools infer block RAM, and
    an ASIC flow puts a macro in its place. Nothing is reset. What a read gives of the address that
    is written in the same cycle is not defined.

    Attributes
    ----------
    write_en, write_address, write_data : In
        Where `write_en` is set, the beat is stored.
    read_en, read_address : In
        Where `read_en` is set, `read_data` changes.
    read_data : Out
        What stood at the address that was read last.
    """

    is_memory = True
    is_parametric = True

    def ports(self) -> Ports:
        config = self.config
        address = range(config.depth)
        return {
            "write_en": In(1),
            "write_address": In(address),
            "write_data": In(config.beat_bits),
            "read_en": In(1),
            "read_address": In(address),
            "read_data": Out(config.beat_bits),
        }

    def fill(self, m: Module, platform: object) -> None:
        beats = Memory(shape=self.config.beat_bits, depth=self.config.depth, init=[])
        m.submodules.beats = beats
        write, read = beats.write_port(), beats.read_port()
        m.d.comb += [
            write.en.eq(self.write_en),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.read_en),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
        ]
