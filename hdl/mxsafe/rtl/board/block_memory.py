"""The memory of a board: block RAM behind AXI4, and behind a bridge."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In

from mxsafe.rtl.arithmetic.bits import chosen, equals, kept, named, update
from mxsafe.rtl.board.ports import MemoryAccess
from mxsafe.rtl.machine.axi import BYTES_OF_PAGE, Axi4, require_data_bits
from mxsafe.rtl.stream.beat_memory import BeatMemory
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Long, require_positive_integer

_BYTE = 8
_WORD_BITS = 32
_MOST_DATA_BITS = 1024
_MOST_BEATS = 1 << 16
_DECODE_ERROR = 0b11


class BlockMemoryConfiguration(Configuration):
    """A `BlockMemory`.

    Parameters
    ----------
    data_bits : int
        Bits of the data channels: a power of two from 32 to 1,024.
    memory_bytes : int
        Bytes of the memory: a multiple of 4,096, so that a burst is all inside or all outside, and
        at most 65,536 beats.
    """

    data_bits: int = 64
    memory_bytes: Long = 1 << 16

    def __post_init__(self) -> None:
        require_data_bits("data_bits", self.data_bits, _MOST_DATA_BITS)
        if self.data_bits < _WORD_BITS:
            raise ValueError(f"data_bits must be at least {_WORD_BITS}, not {self.data_bits}")
        size = require_positive_integer("memory_bytes", self.memory_bytes)
        most = _MOST_BEATS * self.beat_bytes
        if size % BYTES_OF_PAGE or size > most:
            raise ValueError(
                f"memory_bytes must be a multiple of {BYTES_OF_PAGE} up to {most}, not {size}"
            )

    latency = 4
    """Cycles from an address that is taken to the first beat."""

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.data_bits // _BYTE

    # Of one byte of all beats.
    lane = Part(
        BeatMemory, beat_bits=lambda _: _BYTE, depth=lambda c: c.memory_bytes // c.beat_bytes
    )


class BlockMemory(Unit[BlockMemoryConfiguration]):
    """Block RAM from address 0 on, for a master of AXI4 and a bridge.

    The master's bursts have whole beats, go up and do not cross 4 KiB, as those of a machine do.
    Beyond the memory they are answered with DECERR, and write nothing. A burst of each direction is
    outstanding at a time, a beat a cycle. The bridge goes first; it takes a cycle for a word.

    Attributes
    ----------
    s_axi : In(Axi4)
        The master.
    access : In(MemoryAccess)
        The bridge.
    """

    def ports(self) -> Ports:
        return {
            "s_axi": In(Axi4(self.config.data_bits)),
            "access": In(MemoryAccess(self.config.memory_bytes // (_WORD_BITS // _BYTE))),
        }

    def fill(self, m: Module, platform: object) -> None:
        config, axi, access = self.config, self.s_axi, self.access
        self._word_bits = (config.data_bits // _WORD_BITS).bit_length() - 1
        write_index, write_fault, writes = self._take_writes(m)
        read_index, moves = self._give_reads(m)
        word = access.address[: self._word_bits]
        entry = access.address[self._word_bits :]
        wanted = Signal(max(self._word_bits, 1), name="word_found")
        update(m, wanted, (access.valid & access.ready & ~access.writes, word))
        takes_word = named(m, "takes_word", 1, access.valid & access.writes)
        gives_word = named(m, "gives_word", 1, access.valid & ~access.writes & moves)
        m.d.comb += access.ready.eq(access.writes | moves)
        # Block RAMs are all over the device: their address comes from a register.
        address_read = kept(m, moves, "address_read", Mux(gives_word, entry, read_index))
        word_asked = kept(m, moves, "word_is_asked", gives_word, reset=True)
        word_shown = held(m, "word_is_shown", word_asked & moves, reset=True)
        m.d.sync += access.there.eq(held(m, "word_is_held", word_shown, reset=True))
        address = held(m, "address_written", Mux(takes_word, entry, write_index))
        beat: list[Value] = []
        for number in range(config.beat_bytes):
            lane = place(m, platform, f"lane_{number}", BeatMemory(config.lane))
            byte = number % (_WORD_BITS // _BYTE)
            is_word = equals(word, number // (_WORD_BITS // _BYTE)) if self._word_bits else 1
            own = axi.wdata.word_select(number, _BYTE)
            # From registers: nobody reads in the cycle behind a write.
            en, byte_written = Signal(name=f"en_{number}"), Signal(_BYTE, name=f"byte_{number}")
            m.d.sync += [
                en.eq(Mux(takes_word, is_word, writes & ~write_fault & axi.wstrb[number])),
                byte_written.eq(Mux(takes_word, access.data.word_select(byte, _BYTE), own)),
            ]
            m.d.comb += [
                lane.write_en.eq(en),
                lane.write_address.eq(address),
                lane.write_data.eq(byte_written),
                lane.read_en.eq(moves),
                lane.read_address.eq(address_read),
            ]
            beat.append(lane.read_data)
        # A block RAM takes half a cycle to show something: nothing else is done in that one.
        found = held(m, "beat_found", Cat(beat))
        update(m, axi.rdata, (moves, Cat(beat)))
        words = [
            found.word_select(number, _WORD_BITS)
            for number in range(config.data_bits // _WORD_BITS)
        ]
        # A register close to all of them, as what wants the word lies elsewhere.
        m.d.sync += access.found.eq(chosen(m, "word_of_beat", wanted, words))

    def _start(self, m: Module, name: str, address: Value) -> tuple[Value, Signal]:
        """Where a burst starts, and whether it is outside."""
        config = self.config
        pages = config.memory_bytes // BYTES_OF_PAGE
        outside = named(
            m, f"{name}_is_outside", 1, address[BYTES_OF_PAGE.bit_length() - 1 :] >= pages
        )
        return address[config.beat_bytes.bit_length() - 1 :], outside

    def _take_writes(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Take write bursts; return where a beat goes, whether that is outside, and when."""
        axi = self.s_axi
        index = Signal(range(self.config.lane.depth), name="write_index")
        fault, writing = Signal(name="write_fault"), Signal(name="is_writing")
        start, outside = self._start(m, "write", axi.awaddr)
        takes_word = self.access.valid & self.access.writes
        m.d.comb += [
            axi.awready.eq(~writing & ~axi.bvalid),
            axi.wready.eq(writing & ~takes_word),
            axi.bresp.eq(Mux(fault, _DECODE_ERROR, 0)),
        ]
        writes = named(m, "beat_is_written", 1, axi.wvalid & axi.wready)
        with m.If(axi.awvalid & axi.awready):
            m.d.sync += [writing.eq(1), index.eq(start), fault.eq(outside)]
        with m.Elif(writes):
            m.d.sync += [index.eq(index + 1), writing.eq(~axi.wlast), axi.bvalid.eq(axi.wlast)]
        update(m, axi.bvalid, (axi.bvalid & axi.bready, 0))
        return index, fault, writes

    def _give_reads(self, m: Module) -> tuple[Signal, Signal]:
        """Answer read bursts; return where a beat comes from, and whether one may."""
        axi = self.s_axi
        index = Signal(range(self.config.lane.depth), name="read_index")
        left = Signal(len(axi.arlen), name="beats_behind")
        fault, reading = Signal(name="read_fault"), Signal(name="is_reading")
        start, outside = self._start(m, "read", axi.araddr)
        moves = named(m, "read_moves", 1, ~axi.rvalid | axi.rready)
        gives_word = self.access.valid & ~self.access.writes
        reads = named(m, "beat_is_read", 1, reading & moves & ~gives_word)
        is_last = named(m, "is_last", 1, equals(left, 0))
        m.d.comb += axi.arready.eq(~reading)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [
                reading.eq(1),
                index.eq(start),
                left.eq(axi.arlen),
                fault.eq(outside),
            ]
        with m.Elif(reads):
            m.d.sync += [index.eq(index + 1), left.eq(left - 1), reading.eq(~is_last)]
        beside: Value = Cat(reads, is_last, Mux(fault, _DECODE_ERROR, 0))
        with m.If(moves):
            for step in ("asked", "shown"):
                beside = held(m, f"beat_is_{step}", beside, reset=True)
            m.d.sync += Cat(axi.rvalid, axi.rlast, axi.rresp).eq(beside)
        return index, moves
