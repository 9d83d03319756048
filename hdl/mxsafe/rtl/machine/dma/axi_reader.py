"""Reads of memory: runs of words that two clients ask for, through one AXI4 port."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import kept, named, noted, update
from mxsafe.rtl.machine.axi import Axi4Read, burst_constants
from mxsafe.rtl.machine.dma.axi_master import AxiMasterConfiguration
from mxsafe.rtl.machine.dma.burst_splitter import BurstSplitter
from mxsafe.rtl.machine.dma.tag_queue import TagQueue
from mxsafe.rtl.unit import Ports, Unit, place
from mxsafe.validation import PowerOfTwo

_CLIENTS = 2


class AxiReaderConfiguration(AxiMasterConfiguration):
    """An `AxiReader`.

    Parameters
    ----------
    word_bytes, data_bits, burst, bursts
        As of `AxiMasterConfiguration`.
    window : int
        A burst is asked for while fewer beats than this are outstanding: the cycles of latency that
        do not slow reading down. A power of two.
    """

    window: PowerOfTwo = 128

    @property
    def run(self) -> data.StructLayout:
        """A run: address of the first word, in words, and number of words."""
        return data.StructLayout(self.run_fields)

    @property
    def word(self) -> data.StructLayout:
        """A word that came: its bits, whether memory answered with an error, and for whom it is."""
        return data.StructLayout({"data": 8 * self.word_bytes, "error": 1, "client": 1})


class AxiReader(Unit[AxiReaderConfiguration]):
    """Runs of words out of memory: incrementing bursts, in order, several outstanding.

    Attributes
    ----------
    run_0, run_1 : In(stream)
        What a client wants: ``first``: address of the first word, in words. ``words``: 1 or more.
        Where bursts of both could go out, that of client 0 is first.
    words : Out(stream)
        The words of both clients in the order of their bursts: ``data``, ``error``: memory answered
        at least one beat of it with an error, ``client``.
    stop : In(1)
        While it is set, no further burst is asked for, and words that come are dropped.
    idle : Out(1)
        No burst is outstanding and no address is offered.
    m_axi : Out(Axi4Read)

    Notes
    -----
    The data channel waits where nobody takes words: `words_ready` reaches `m_axi_rready`
    combinationally. So there is no memory for words here, and the only limit to the latency that is
    hidden is `window`. After a stop the unit is to be reset when it is idle.
    """

    def ports(self) -> Ports:
        config = self.config
        runs = {f"run_{client}": In(stream.Signature(config.run)) for client in range(_CLIENTS)}
        return {
            **runs,
            "words": Out(stream.Signature(config.word)),
            "stop": In(1),
            "idle": Out(1),
            "m_axi": Out(Axi4Read(config.data_bits)),
        }

    def fill(self, m: Module, platform: object) -> None:
        splitters = self._split(m, platform)
        asked = Signal(name="burst_asked")
        took = Signal(name="beat_taken")
        client = self._remember(m, platform, asked, took)
        self._ask(m, splitters, asked, took)
        self._take(m, took, client)

    def _split(self, m: Module, platform: object) -> list[BurstSplitter]:
        """Cut the runs of each client into bursts."""
        config = self.config
        splitters = []
        for client in range(_CLIENTS):
            splitter = place(m, platform, f"splitter_{client}", BurstSplitter(config.splitter))
            splitters.append(splitter)
            run = getattr(self, f"run_{client}")
            fine = Const(0, config.beats_of_word.bit_length() - 1)
            m.d.comb += [
                splitter.run.valid.eq(run.valid),
                splitter.run.payload.first.eq(Cat(fine, run.payload.first)),
                splitter.run.payload.beats.eq(Cat(fine, run.payload.words)),
                splitter.run.payload.last.eq(0),
                run.ready.eq(splitter.run.ready),
            ]
        return splitters

    def _remember(self, m: Module, platform: object, asked: Signal, took: Signal) -> Value:
        """The client whose burst the next beat belongs to."""
        self._client = Signal(name="client")
        self._full = Signal(name="too_many_bursts")
        tags = place(m, platform, "tags", TagQueue(self.config.tags))
        m.d.comb += [
            tags.push.eq(asked),
            tags.tag.eq(self._client),
            tags.pop.eq(took & self.m_axi.rlast),
            self._full.eq(tags.full),
        ]
        return tags.oldest

    def _ask(self, m: Module, splitters: list[BurstSplitter], asked: Signal, took: Signal) -> None:
        """Offer addresses, one a cycle, while there is room in the window."""
        config, axi = self.config, self.m_axi
        under_way = Signal(range(config.window + config.burst), name="beats_under_way")
        window_bits = config.window.bit_length() - 1
        open_ = named(m, "window_is_open", 1, ~under_way[window_bits:].any())
        noted(
            under_way,
            "Credits: beats that are asked for and not there. A burst may begin where one beat "
            "less than the window is outstanding.",
        )
        moves = named(m, "address_moves", 1, ~axi.arvalid | axi.arready)
        may = named(m, "may_ask", 1, moves & open_ & ~self._full & ~self.stop)
        free: Value = may
        for number, splitter in enumerate(splitters):
            m.d.comb += splitter.burst.ready.eq(free)
            free = named(m, f"free_after_{number}", 1, free & ~splitter.burst.valid)
            noted(free, "Fixed priority: the first client that has a burst goes first.")
        first, second = (splitter.burst for splitter in splitters)
        bursts = named(
            m,
            "burst_from_0",
            None,
            Mux(first.valid, first.payload.as_value(), second.payload.as_value()),
        )
        burst = data.View(config.splitter.bursts, bursts)
        wanted = named(m, "is_wanted", 1, Cat(s.burst.valid for s in splitters).any())
        m.d.comb += [
            asked.eq(may & wanted),
            self._client.eq(~first.valid),
            *(
                getattr(axi, name).eq(v)
                for name, v in burst_constants("ar", config.data_bits).items()
            ),
            self.idle.eq(~under_way.any()),
        ]
        update(m, axi.arvalid, (moves, asked))
        held = kept(m, asked, "burst_offered", burst.as_value())
        offered = data.View(config.splitter.bursts, held)
        m.d.comb += [axi.araddr.eq(offered.address), axi.arlen.eq(offered.more)]
        more = Mux(asked, burst.more + 1, 0)
        m.d.sync += under_way.eq(under_way + more - took)

    def _take(self, m: Module, took: Signal, client: Value) -> None:
        """Gather beats to words."""
        config, axi, words = self.config, self.m_axi, self.words
        valid = Signal(name="word_is_valid")
        word = Signal(config.word.size, name="word", reset_less=True)
        held = data.View(config.word, word)
        moves = noted(
            named(m, "word_moves", 1, ~valid | words.ready | self.stop),
            "While all is to end, beats are taken and dropped: AXI cannot take back a burst.",
        )
        m.d.comb += [
            axi.rready.eq(moves),
            took.eq(axi.rvalid & moves),
            words.valid.eq(valid & ~self.stop),
            words.payload.as_value().eq(word),
        ]
        first: Value = Const(1, 1)
        last: Value = Const(1, 1)
        if config.beats_of_word > 1:
            number = Signal(range(config.beats_of_word), name="beat_of_word")
            first, last = ~number.any(), number.all()
            update(m, number, (took, number + 1))
        update(m, valid, (moves, took & last))
        with m.If(took):
            m.d.sync += [
                held.data.eq(Cat(held.data, axi.rdata)[config.data_bits :]),
                # The upper bit says that an answer is an error.
                held.error.eq(axi.rresp[1] | (held.error & ~first)),
                held.client.eq(client),
            ]
