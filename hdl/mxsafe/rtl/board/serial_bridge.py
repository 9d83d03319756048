"""The bridge between a host's bytes and a machine: its registers, and the memory beside it."""

from typing import Annotated

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.machine.description import REGISTERS
from mxsafe.machine.frames import (
    BOARD_WORDS,
    COMMANDS,
    FRAMES_VERSION,
    INTERRUPT_BIT,
    MOST_WORDS,
    STATUSES,
    WORD_BYTES,
)
from mxsafe.rtl.arithmetic.bits import chosen, equals, kept, named, update
from mxsafe.rtl.board.frame_receiver import FrameReceiver, FrameReceiverConfiguration
from mxsafe.rtl.board.frame_sender import FrameSender
from mxsafe.rtl.board.ports import MemoryAccess
from mxsafe.rtl.board.steps import Steps
from mxsafe.rtl.machine.axi import AxiLite
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Long, within

_BYTE = 8
_WORD_BITS = _BYTE * WORD_BYTES
_COUNTER_BITS = 16
_STATUS_ADDRESS = next(r.address for r in REGISTERS if r.name == "status")
_STATUS_BITS = 3
_REGISTERS, _MEMORY, _BOARD = range(3)
"""Target of a command: its bits above the lowest."""


class SerialBridgeConfiguration(Configuration):
    """A `SerialBridge`.

    Parameters
    ----------
    memory_bytes : int
        Bytes of the memory: a multiple of 4, 8 to 2^32.
    patience : int
        Cycles without a byte after which a frame is given up.
    """

    memory_bytes: Annotated[int, within(2 * WORD_BYTES, 1 << 32)] = 1 << 16
    patience: Long = FrameReceiverConfiguration.patience

    def __post_init__(self) -> None:
        if self.memory_bytes % WORD_BYTES:
            raise ValueError(
                f"memory_bytes must be a multiple of {WORD_BYTES}, not {self.memory_bytes}"
            )
        _ = self.receiver  # which checks the patience

    @property
    def latency(self) -> int:
        """Cycles from the last byte of a request that is wrong to the first byte of its answer."""
        return self.receiver.latency + 3

    receiver = Part(FrameReceiver)

    @property
    def register_bits(self) -> int:
        """Bits of the address of a register."""
        return max(register.address for register in REGISTERS).bit_length()


class SerialBridge(Unit[SerialBridgeConfiguration]):
    """Does what requests ask for, one after the other, and answers each.

    What requests and answers are `mxsafe.machine.frames` says. Nothing of a request is done before
    its checksum is right. A write with the number of the right request before it is not done again,
    but answered as that was, so that a host may repeat what has had no answer. Between requests the
    status of the machine is read, for lights.

    Attributes
    ----------
    byte_valid, byte_value, byte_error : In
        A byte has come; or a broken one. They are not kept waiting.
    send_valid, send_byte, send_ready : Out, Out, In
        Bytes to the host.
    registers : Out(AxiLite)
        Registers of the machine.
    access : Out(MemoryAccess)
        The memory.
    irq : In(1)
        The machine's interrupt, which answers show.
    status : Out(3)
        The machine's status register, as read last.
    gives_up : Out(1)
        For one cycle: a request is given up, or has a wrong checksum.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "byte_valid": In(1),
            "byte_value": In(_BYTE),
            "byte_error": In(1),
            "send_valid": Out(1),
            "send_byte": Out(_BYTE),
            "send_ready": In(1),
            "registers": Out(AxiLite(config.register_bits)),
            "access": Out(MemoryAccess(config.memory_bytes // WORD_BYTES)),
            "irq": In(1),
            "status": Out(_STATUS_BITS),
            "gives_up": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        memory = BeatMemory(beat_bits=_WORD_BITS, depth=MOST_WORDS)
        self._receiver = place(m, platform, "receiver", FrameReceiver(self.config.receiver))
        self._sender = place(m, platform, "sender", FrameSender())
        self._buffer = place(m, platform, "buffer", memory)
        # A block RAM takes half a cycle to show something, and what it goes to lies elsewhere.
        self._shown = Signal(_WORD_BITS, name="word_of_buffer", reset_less=True)
        m.d.sync += self._shown.eq(self._buffer.read_data)
        receiver = self._receiver
        self._writes = receiver.command[0]
        self._space = named(m, "space", 2, receiver.command[1:3])
        self._index = Signal(range(MOST_WORDS), name="index")
        self._outcome = Signal(range(len(STATUSES.members)), name="outcome")
        self._connect(m)
        first, verdict = self._judge(m)
        # A step stands between an index and the step that uses the address.
        address = named(m, "next_address", None, first + self._index)
        self._address = Signal(len(address), name="word_address", reset_less=True)
        m.d.sync += self._address.eq(address)
        self._sequence(m, verdict)

    def _connect(self, m: Module) -> None:
        """Bytes in and out, and counts of what is wrong with them."""
        receiver, sender = self._receiver, self._sender
        m.d.comb += [
            receiver.byte_valid.eq(self.byte_valid),
            receiver.byte_value.eq(self.byte_value),
            receiver.byte_error.eq(self.byte_error),
            self.gives_up.eq(receiver.gives_up),
            self.send_valid.eq(sender.valid),
            self.send_byte.eq(sender.byte_value),
            sender.ready.eq(self.send_ready),
            sender.read_data.eq(self._shown),
        ]
        counts = []
        for name, event in (("frames", self.gives_up), ("bytes", self.byte_error)):
            count = Signal(_COUNTER_BITS, name=f"broken_{name}")
            update(m, count, (event & ~count.all(), count + 1))
            counts.append(count)
        values = {
            "version": Const(FRAMES_VERSION, _WORD_BITS),
            "memory_bytes": Const(self.config.memory_bytes & 0xFFFFFFFF, _WORD_BITS),
            "broken_frames": Cat(counts[0], Const(0, _WORD_BITS - _COUNTER_BITS)),
            "broken_bytes": Cat(counts[1], Const(0, _WORD_BITS - _COUNTER_BITS)),
        }
        number = self._index[: (len(BOARD_WORDS) - 1).bit_length()]
        self._board_word = chosen(m, "board_word", number, [values[name] for name in BOARD_WORDS])

    def _judge(self, m: Module) -> tuple[Value, Signal]:
        """The number of a request's first word, and what is to be answered to it at once."""
        config, receiver = self.config, self._receiver
        limits = {
            _REGISTERS: (1 << config.register_bits) // WORD_BYTES,
            _MEMORY: config.memory_bytes // WORD_BYTES,
            _BOARD: len(BOARD_WORDS),
        }
        first = receiver.address[WORD_BYTES.bit_length() - 1 :]
        last = named(m, "last_word", None, first + receiver.words_less_1)
        inside = [
            named(m, f"fits_{space}", 1, equals(self._space, space) & (last < limit))
            for space, limit in limits.items()
        ]
        # The board's own words begin at 0, so that its table needs no address.
        begins = ~equals(self._space, _BOARD) | equals(first, 0)
        is_whole = equals(receiver.address[: WORD_BYTES.bit_length() - 1], 0)
        fits = named(m, "fits", 1, is_whole & begins & Cat(inside).any())
        is_known = named(m, "is_known", 1, receiver.command < len(COMMANDS.members))
        verdict = named(
            m,
            "verdict",
            len(self._outcome),
            Mux(
                is_known,
                Mux(fits, STATUSES["done"], STATUSES["address"]),
                STATUSES["command"],
            ),
        )
        return first, verdict

    def _sequence(self, m: Module, verdict: Signal) -> None:
        """Wait for a request, do it word by word, answer."""
        receiver, bus = self._receiver, self.registers
        index, outcome, writes = self._index, self._outcome, self._writes
        last_number, remembers = Signal(_BYTE, name="last_number"), Signal(name="remembers")
        same = named(m, "is_same_number", 1, remembers & (receiver.number == last_number))
        ends = named(m, "ends", 1, index == receiver.words_less_1)
        is_register = held(m, "is_register", equals(self._space, _REGISTERS))
        is_memory = held(m, "is_memory", equals(self._space, _MEMORY))
        answered = named(m, "is_answered", 1, bus.rvalid | bus.bvalid)
        failed = named(m, "has_failed", 1, Mux(bus.rvalid, bus.rresp[1], bus.bresp[1]))
        step = Steps(m, ("rest", "poll", "fetch", "show", "word", "wait", "answer", "sent"))
        taken = named(m, "word_is_taken", 1, ~is_memory | self.access.ready)
        there = Mux(is_register, answered, ~is_memory | writes | self.access.there)
        found = named(m, "word_is_done", 1, step["wait"] & there)
        begins = named(m, "begins", 1, step["rest"] & receiver.valid & receiver.good)
        repeats = named(m, "repeats", 1, same & writes)
        works = named(m, "works", 1, ~repeats & equals(verdict, STATUSES["done"]))
        polls = named(m, "polls", 1, step["rest"] & ~receiver.valid)
        step.go("rest", "poll", ~receiver.valid)
        step.go("rest", "fetch", begins & works)
        step.go("rest", "answer", receiver.valid & ~(receiver.good & works))
        step.go("poll", "rest", bus.rvalid)
        step.go("fetch", "show")
        step.go("show", "word")
        step.go("word", "wait", taken)
        step.go("wait", "fetch", found & ~ends)
        step.go("wait", "answer", found & ends)
        step.go("answer", "sent")
        step.go("sent", "rest", ~self._sender.busy)
        step.finish()
        m.d.comb += receiver.ready.eq(step["sent"] & ~self._sender.busy)
        update(m, self.status, (step["poll"] & bus.rvalid, bus.rdata))
        with m.If(begins):
            m.d.sync += [last_number.eq(receiver.number), remembers.eq(1)]
        update(
            m,
            outcome,
            (begins & ~repeats, verdict),
            (found & is_register & failed, STATUSES["bus"]),
        )
        update(m, index, (step["rest"], 0), (found, index + 1))
        self._use_bus(m, polls, named(m, "begins_access", 1, step["word"] & is_register))
        wants = named(m, "wants_word", 1, step["word"] & is_memory)
        self._use_memory(m, step["fetch"] & writes, found, wants)
        self._answer(m, step["answer"])

    def _use_bus(self, m: Module, polls: Signal, begins: Signal) -> None:
        """Offer addresses and data to the registers."""
        bus, writes = self.registers, self._writes
        reads = named(m, "begins_read", 1, polls | begins & ~writes)
        own = Cat(Const(0, WORD_BYTES.bit_length() - 1), self._address)
        m.d.comb += [
            bus.awaddr.eq(own),
            bus.awprot.eq(0),
            bus.wdata.eq(self._shown),
            bus.wstrb.eq((1 << WORD_BYTES) - 1),
            bus.arprot.eq(0),
            bus.bready.eq(1),
            bus.rready.eq(1),
        ]
        for valid, ready, sets in (
            (bus.awvalid, bus.awready, begins & writes),
            (bus.wvalid, bus.wready, begins & writes),
            (bus.arvalid, bus.arready, reads),
        ):
            m.d.sync += valid.eq(sets | valid & ~ready)
        update(m, bus.araddr, (reads, Mux(polls, _STATUS_ADDRESS, own)))

    def _use_memory(self, m: Module, fetches: Value, found: Signal, wants: Signal) -> None:
        """Words between the memory and the buffer, which requests and answers pass."""
        receiver, sender, buffer = self._receiver, self._sender, self._buffer
        access, writes = self.access, self._writes
        reads = named(m, "word_is_read", 1, found & ~writes)
        values = [self.registers.rdata, access.found, self._board_word]
        m.d.comb += [
            access.valid.eq(wants),
            access.writes.eq(writes),
            access.address.eq(self._address),
            access.data.eq(self._shown),
            buffer.write_en.eq(receiver.word_valid | reads),
            buffer.write_address.eq(Mux(reads, self._index, receiver.word_index)),
            buffer.write_data.eq(
                Mux(reads, chosen(m, "word_read", self._space, values), receiver.word)
            ),
            buffer.read_en.eq(sender.read_en | fetches),
            buffer.read_address.eq(Mux(fetches, self._index, sender.read_index)),
        ]

    def _answer(self, m: Module, answers: Signal) -> None:
        """The header of the answer."""
        receiver, sender = self._receiver, self._sender
        # The answer begins in the cycle after this one.
        held = kept(m, answers, "interrupt_held", self.irq, reset=True)
        is_done = named(m, "is_done", 1, equals(self._outcome, STATUSES["done"]))
        has_words = named(m, "has_words", 1, receiver.good & is_done & ~self._writes)
        code = Mux(receiver.good, self._outcome, STATUSES["checksum"])
        m.d.comb += [
            sender.start.eq(answers),
            sender.number.eq(receiver.number),
            sender.status.eq(Cat(code, Const(0, INTERRUPT_BIT - len(code)), held)),
            sender.words.eq(Mux(has_words, receiver.words_less_1 + 1, 0)),
        ]
