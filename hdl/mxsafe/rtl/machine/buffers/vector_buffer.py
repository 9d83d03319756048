"""The buffer of binary32 numbers between the engines: banks, and who may use them when."""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In

from mxsafe.rtl.arithmetic.bits import any_of, equals, gated_or, named, noted, update
from mxsafe.rtl.machine.ports import BufferRead, BufferWrite
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, AlikePower, PowerOfTwo

READERS = ("x", "y", "store")
WRITERS = ("gemm", "vector", "load")
"""Who uses the buffer, in the order in which they go first."""


class VectorBufferConfiguration(Configuration):
    """A `VectorBuffer`.

    Parameters
    ----------
    columns : int
        Binary32 numbers of a beat, an even number.
    banks : int
        Banks, a power of two.
    bank_depth : int
        Beats of each, a power of two, at least 2.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    columns: Alike = 16
    banks: AlikePower = 4
    bank_depth: PowerOfTwo = 1024
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.columns % 2:
            raise ValueError(f"columns must be even, not {self.columns}")
        if self.bank_depth < 2:
            raise ValueError(f"bank_depth must be 2 or more, not {self.bank_depth}")

    @property
    def latency(self) -> int:
        """Cycles from an address to what stands there."""
        return 1 + at(self, "beat")

    @property
    def beats(self) -> int:
        """Beats in all banks."""
        return self.banks * self.bank_depth

    @property
    def beat_bits(self) -> int:
        """Bits of a beat."""
        return 32 * self.columns

    half = Part(BeatMemory, beat_bits=lambda c: c.beat_bits // 2, depth=lambda c: c.bank_depth)


class VectorBuffer(Unit[VectorBufferConfiguration]):
    """Beats of binary32 numbers in banks, each of which is read once and written once a cycle.

    The bank is the top of the address, so beats that follow one another are in one bank. Who finds
    the bank taken waits; those in front of the list go first. A read of a beat that is written in
    the same cycle is not defined.

    For an FPGA a turn comes a cycle after it was asked for, from a register: what is asked for has
    to stay until then. Nobody has two turns in two cycles, no bank is read twice in two cycles, and
    in a cycle one alone writes.
    What is written waits in a register in front of its bank, so a read in the cycle behind the
    write is not defined either. What is read waits in one behind its bank, so it is there in the
    second cycle behind its turn, and who needs it for longer begins to hold it a cycle before.

    Attributes
    ----------
    gemm, vector, load : In(BufferWrite)
        Writing, in the order in which they go first: results of products, of vectors, and words
        from memory.
    x, y, store : In(BufferRead)
        Reading, in the order in which they go first: both operands of vectors, and words to memory.
    """

    def ports(self) -> Ports:
        config = self.config
        writes = {name: In(BufferWrite(config.beats, config.beat_bits)) for name in WRITERS}
        reads = {name: In(BufferRead(config.beats, config.beat_bits)) for name in READERS}
        return writes | reads

    def fill(self, m: Module, platform: object) -> None:
        writers: dict[str, Any] = {name: getattr(self, name) for name in WRITERS}
        readers: dict[str, Any] = {name: getattr(self, name) for name in READERS}
        shown = {
            name: Signal(self.config.banks, name=f"{name}_shows", reset_less=True)
            for name in readers
        }
        holds = named(
            m,
            "held",
            self.config.banks,
            any_of(
                named(m, f"{name}_holds", self.config.banks, Mux(reader.hold, shown[name], 0))
                for name, reader in readers.items()
            ),
        )
        noted(holds, "Banks not to be read: somebody still looks at what they show.")
        blocked: Value = holds
        turns: dict[str, Signal] = {}
        if at(self.config, "turns"):
            turns = {
                name: Signal(self.config.banks, name=f"{name}_has_turn")
                for name in (*writers, *readers)
            }
            # What is read now may have to be held in the next cycle.
            blocked = blocked | any_of(turns[name] for name in readers)
        writes = self._grant(m, writers, turns, Const(0, self.config.banks))
        reads = self._grant(m, readers, turns, blocked)
        held_writes = self._held_writes(m, writes, turns) if turns else None
        wanted = {name: self._wanted(name) for name in writers}
        # A turn alone says from where is read.
        read_by = {name: (turns or reads)[name] for name in readers}
        banks = []
        for bank in range(self.config.banks):
            if held_writes:
                write = held_writes[bank]
            else:
                choices = ((gets[bank], wanted[name]) for name, gets in writes.items())
                write = data.View(self._write, gated_or(m, f"write_{bank}", choices))
            banks.append(self._place_bank(m, platform, bank, write, reads, read_by))
        for name, reader in readers.items():
            update(m, shown[name], (reads[name].any(), reads[name]))
            bank = held(m, f"{shown[name].name}_later", shown[name], at(self.config, "beat"))
            beat = gated_or(m, f"{name}_data", zip(bank, banks, strict=True))
            m.d.comb += reader.data.eq(beat)

    def _grant(
        self,
        m: Module,
        users: Mapping[str, Any],
        turns: Mapping[str, Signal],
        blocked: Value,
    ) -> dict[str, Signal]:
        """Which bank each of them gets, if any, one-hot; those that come first go first."""
        config = self.config
        bits = config.banks.bit_length() - 1
        grants: dict[str, Signal] = {}
        for name, user in users.items():
            number = user.address[len(user.address) - bits :]
            banks = (equals(number, bank) if bits else Const(1) for bank in range(config.banks))
            asks = user.valid & ~turns[name].any() if turns else user.valid
            wanted = Cat(asks & is_bank for is_bank in banks)
            wants = named(m, f"{name}_wants", config.banks, wanted)
            noted(wants, "Fixed priority: a bank goes to the first one that wants it.")
            free = named(m, f"{name}_may_have", config.banks, ~blocked)
            gets: Value = wants & free
            if turns:
                m.d.sync += turns[name].eq(gets)
                # A read that is not wanted any more does no harm.
                gets = turns[name] if name in READERS else Mux(user.valid, turns[name], 0)
            grants[name] = named(m, f"{name}_gets", config.banks, gets)
            m.d.comb += user.ready.eq((turns or grants)[name].any())
            # For an FPGA there is one register for all writers.
            is_alone = turns and name in WRITERS
            blocked = blocked | (wants.any().replicate(config.banks) if is_alone else wants)
        return grants

    @property
    def _offset_bits(self) -> int:
        """Bits of an address in a bank."""
        return self.config.bank_depth.bit_length() - 1

    @property
    def _write(self) -> data.StructLayout:
        """Layout of a write to a bank."""
        return data.StructLayout(
            {"address": self._offset_bits, "halves": 2, "data": self.config.beat_bits}
        )

    def _wanted(self, name: str) -> Value:
        """Return the write that a writer requests."""
        user = getattr(self, name)
        return Cat(user.address[: self._offset_bits], user.halves, user.data)

    def _held_writes(
        self, m: Module, writes: Mapping[str, Signal], turns: Mapping[str, Signal]
    ) -> list[data.View]:
        """Return the writes to all banks a cycle later, one for all: memories lie far apart.

        A turn alone says what it is, and a grant to which bank.
        """
        wanted = ((turns[name].any(), self._wanted(name)) for name in writes)
        view = data.View(self._write, held(m, "write_held", gated_or(m, "write", wanted)))
        banks = held(m, "banks_written", any_of(writes.values()), reset=True)
        return [
            data.View(self._write, Cat(view.address, Mux(is_written, view.halves, 0), view.data))
            for is_written in banks
        ]

    def _place_bank(
        self,
        m: Module,
        platform: object,
        bank: int,
        write: data.View,
        reads: Mapping[str, Signal],
        read_by: Mapping[str, Signal],
    ) -> Value:
        """A bank, with what is written, and who reads from where; return what it shows."""
        config = self.config
        gets_read = named(m, f"read_{bank}_en", 1, any_of(gets[bank] for gets in reads.values()))
        addresses = (
            (turn[bank], getattr(self, name).address[: self._offset_bits])
            for name, turn in read_by.items()
        )
        read_address = gated_or(m, f"read_{bank}_address", addresses)
        halves = []
        for number in range(2):
            memory = place(m, platform, f"bank_{bank}_{number}", BeatMemory(config.half))
            m.d.comb += [
                memory.write_en.eq(write.halves[number]),
                memory.write_address.eq(write.address),
                memory.write_data.eq(write.data.word_select(number, config.half.beat_bits)),
                memory.read_en.eq(gets_read),
                memory.read_address.eq(read_address),
            ]
            halves.append(memory.read_data)
        # A block RAM takes half a cycle to show something, and wires are long.
        return held(m, f"beat_of_bank_{bank}", Cat(halves), at(config, "beat"))
