"""Writes to memory: runs of words through one AXI4 port."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.machine.axi import Axi4Write, burst_constants
from mxsafe.rtl.machine.dma.axi_master import AxiMasterConfiguration
from mxsafe.rtl.machine.dma.burst_splitter import BurstSplitter
from mxsafe.rtl.machine.dma.tag_queue import TagQueue
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Ports, Unit, place


class AxiWriterConfiguration(AxiMasterConfiguration):
    """An `AxiWriter`; a burst is outstanding until its response has come."""

    @property
    def run(self) -> data.StructLayout:
        """A run: address in words, number of words, and whether its end is to be told."""
        return data.StructLayout({**self.run_fields, "last": 1})


class AxiWriter(Unit[AxiWriterConfiguration]):
    """Runs of words into memory: incrementing bursts, in order, several outstanding.

    Attributes
    ----------
    run : In(stream)
        Where words go: ``first``: address of the first word, in words. ``words``: 1 or more.
        ``last``: `done` is to tell when this run, and with it all before it, is written.
    words : In(stream)
        The words of all runs, one after the other.
    done : Out(1)
        For one cycle: all responses up to the end of a run with ``last`` have come.
    error : Out(1)
        For one cycle: memory answered a burst with an error; beside `done` if it ended such a run.
    stop : In(1)
        While it is set, no further burst begins, and those that have begun are completed with beats
        that write nothing. Words are dropped.
    idle : Out(1)
        All responses have come, and no burst has begun.
    m_axi : Out(Axi4Write)

    Notes
    -----
    Beats of a burst may be offered before its address is taken, but not before it is offered. The
    next address follows with the last beat of a burst, so that runs of single words are written one
    a cycle. After a stop the unit is to be reset when it is idle.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "run": In(stream.Signature(config.run)),
            "words": In(stream.Signature(8 * config.word_bytes)),
            "done": Out(1),
            "error": Out(1),
            "stop": In(1),
            "idle": Out(1),
            "m_axi": Out(Axi4Write(config.data_bits)),
        }

    def fill(self, m: Module, platform: object) -> None:
        begins, burst = self._begin(m, platform)
        self._send(m, begins, burst)

    def _begin(self, m: Module, platform: object) -> tuple[Signal, data.View]:
        """Offer addresses and count responses; return whether a burst begins, and which."""
        config, axi = self.config, self.m_axi
        splitter = place(m, platform, "splitter", BurstSplitter(config.splitter))
        tags = place(m, platform, "tags", TagQueue(config.tags))
        run, burst = self.run, splitter.burst.payload
        fine = Const(0, config.beats_of_word.bit_length() - 1)
        self._free = Signal(name="data_are_free")
        moves = named(m, "address_moves", 1, ~axi.awvalid | axi.awready)
        may = named(m, "may_begin", 1, moves & self._free & ~tags.full & ~self.stop)
        begins = named(m, "burst_begins", 1, may & splitter.burst.valid)
        m.d.comb += [
            splitter.run.valid.eq(run.valid),
            splitter.run.payload.first.eq(Cat(fine, run.payload.first)),
            splitter.run.payload.beats.eq(Cat(fine, run.payload.words)),
            splitter.run.payload.last.eq(run.payload.last),
            run.ready.eq(splitter.run.ready),
            splitter.burst.ready.eq(may),
            tags.push.eq(begins),
            tags.tag.eq(burst.last),
            tags.pop.eq(axi.bvalid),
            axi.bready.eq(1),
            *(
                getattr(axi, name).eq(v)
                for name, v in burst_constants("aw", config.data_bits).items()
            ),
            self.idle.eq(tags.empty),
        ]
        update(m, axi.awvalid, (moves, begins))
        m.d.comb += [
            axi.awaddr.eq(kept(m, begins, "address_offered", burst.address)),
            axi.awlen.eq(kept(m, begins, "more_offered", burst.more)),
        ]
        noted(self.error, "The upper bit of bresp says that an answer is an error.")
        m.d.sync += [
            self.done.eq(axi.bvalid & tags.oldest),
            self.error.eq(axi.bvalid & axi.bresp[1]),
        ]
        return begins, burst

    def _send(self, m: Module, begins: Signal, burst: data.View) -> None:
        """Send the beats of the burst that has begun."""
        config, axi, words = self.config, self.m_axi, self.words
        active = Signal(name="burst_is_active")
        left = Signal(len(burst.more), name="beats_after_this", reset_less=True)
        writes = Signal(name="beat_writes", reset_less=True)
        moves = named(m, "beat_moves", 1, ~axi.wvalid | axi.wready)
        at_start: Value = Const(1, 1)
        bits = config.data_bits
        beat: Value = words.payload
        there: Value = words.valid
        if config.beats_of_word > 1:
            number = Signal(range(config.beats_of_word), name="beat_of_word")
            rest = Signal(8 * config.word_bytes - bits, name="rest_of_word", reset_less=True)
            at_start = named(m, "is_at_start", 1, ~number.any())
            there = named(m, "beat_is_there", 1, words.valid | ~at_start)
            whole = named(m, "rest_and_beat", 8 * config.word_bytes, Mux(at_start, beat, rest))
            beat = whole
        sends = named(m, "beat_enters", 1, moves & active & (there | self.stop))
        noted(sends, "While all is to end, a burst that was begun goes on with empty strobes.")
        ends = named(m, "burst_ends", 1, ~left.any())
        m.d.comb += [
            words.ready.eq((sends & at_start) | self.stop),
            # For an FPGA the next burst begins a cycle after the last beat of one.
            self._free.eq(~active if at(config, "next burst") else ~active | (sends & ends)),
            axi.wstrb.eq(writes.replicate(bits // 8)),
        ]
        if config.beats_of_word > 1:
            with m.If(sends):
                m.d.sync += [number.eq(number + 1), rest.eq(beat[bits:])]
        with m.If(self._free):
            m.d.sync += [active.eq(begins), left.eq(burst.more)]
        with m.Elif(sends):
            m.d.sync += left.eq(truncated(m, "next_left", len(left), (left - 1).as_unsigned()))
            if at(config, "next burst"):
                m.d.sync += active.eq(~ends)
        update(m, axi.wvalid, (moves, sends))
        offered = Signal(bits, name="data_offered", reset_less=True)
        last = Signal(name="beat_is_last", reset_less=True)
        with m.If(sends):
            m.d.sync += [offered.eq(beat[:bits]), last.eq(ends), writes.eq(~self.stop)]
        m.d.comb += [axi.wdata.eq(offered), axi.wlast.eq(last)]
