"""Reads of memory: runs of words that several clients ask for, through one AXI4 port."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.machine.axi import Axi4Read, burst_constants
from mxsafe.rtl.machine.dma.axi_master import AxiMasterConfiguration
from mxsafe.rtl.machine.dma.burst_splitter import BurstSplitter
from mxsafe.rtl.machine.dma.tag_queue import TagQueue, TagQueueConfiguration
from mxsafe.rtl.notes import noted
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import PowerOfTwo, within

__all__ = ["AxiReader", "AxiReaderConfiguration"]

_MOST_CLIENTS = 4


@dataclass(frozen=True, kw_only=True)
class AxiReaderConfiguration(AxiMasterConfiguration):
    """An `AxiReader`.

    Parameters
    ----------
    word_bytes, data_bits, count_bits, burst, bursts
        As of `AxiMasterConfiguration`.
    clients : int
        Who asks for words, 1 to 4.
    window : int
        A burst is asked for while fewer beats than this are outstanding: the cycles of latency that
        do not slow reading down. A power of two.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    clients: Annotated[int, within(1, _MOST_CLIENTS)] = 2
    window: PowerOfTwo = 128

    @property
    def most_beats(self) -> int:
        """Most beats outstanding: one less than the window, and then the longest burst."""
        return self.window - 1 + self.burst

    @property
    def tags(self) -> TagQueueConfiguration:
        """Clients of the bursts outstanding."""
        return TagQueueConfiguration(
            tag_bits=max((self.clients - 1).bit_length(), 1), depth=self.bursts
        )

    @property
    def run(self) -> data.StructLayout:
        """A run: address of the first word, in words, and number of words."""
        return data.StructLayout(self.run_fields)

    @property
    def word(self) -> data.StructLayout:
        """A word that came: its bits, whether memory answered with an error, and for whom it is."""
        return data.StructLayout(
            {"data": 8 * self.word_bytes, "error": 1, "client": self.tags.tag_bits}
        )


class AxiReader(Unit[AxiReaderConfiguration]):
    """Runs of words out of memory: incrementing bursts, in order, several outstanding.

    Attributes
    ----------
    run_0, run_1... : In(stream)
        What a client wants: ``first``: address of the first word, in words. ``words``: 1 or more.
        Where bursts of several clients could go out, the one with the lowest number is first.
    words : Out(stream)
        The words of all clients in the order of their bursts: ``data``, ``error``: memory answered
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

    def ports(self) -> Mapping[str, Member]:
        """Streams of runs in, stream of words out, and the channels to memory."""
        config = self.config
        runs = {
            f"run_{client}": In(stream.Signature(config.run)) for client in range(config.clients)
        }
        return {
            **runs,
            "words": Out(stream.Signature(config.word)),
            "stop": In(1),
            "idle": Out(1),
            "m_axi": Out(Axi4Read(config.data_bits)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        splitters = self._split(m, platform)
        asked = Signal(name="burst_asked")
        took = Signal(name="beat_taken")
        client = self._remember(m, platform, asked, took)
        self._ask(m, splitters, asked, took)
        self._take(m, took, client)
        return m

    def _split(self, m: Module, platform: object) -> list[BurstSplitter]:
        """Cut the runs of each client into bursts."""
        config = self.config
        splitters = []
        for client in range(config.clients):
            splitter = BurstSplitter(config.splitter)
            place(m, platform, f"splitter_{client}", splitter)
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
        self._client = Signal(self.config.tags.tag_bits, name="client")
        self._full = Signal(name="too_many_bursts")
        tags = TagQueue(self.config.tags)
        place(m, platform, "tags", tags)
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
        bursts: Value = splitters[-1].burst.payload.as_value()
        client: Value = Const(len(splitters) - 1, len(self._client))
        free: Value = may
        for number, splitter in enumerate(splitters):
            m.d.comb += splitter.burst.ready.eq(free)
            free = named(m, f"free_after_{number}", 1, free & ~splitter.burst.valid)
            noted(free, "Fixed priority: the first client that has a burst goes first.")
        for number, splitter in reversed(list(enumerate(splitters[:-1]))):
            valid = splitter.burst.valid
            bursts = named(
                m,
                f"burst_from_{number}",
                None,
                Mux(valid, splitter.burst.payload.as_value(), bursts),
            )
            client = Mux(valid, number, client)
        burst = data.View(config.splitter.bursts, bursts)
        wanted = named(m, "is_wanted", 1, Cat(s.burst.valid for s in splitters).any())
        m.d.comb += [
            asked.eq(may & wanted),
            self._client.eq(client),
            *(
                getattr(axi, name).eq(v)
                for name, v in burst_constants("ar", config.data_bits).items()
            ),
            self.idle.eq(~under_way.any()),
        ]
        with m.If(moves):
            m.d.sync += axi.arvalid.eq(asked)
        offered = data.View(
            config.splitter.bursts,
            Signal(config.splitter.bursts.size, name="burst_offered", reset_less=True),
        )
        with m.If(asked):
            m.d.sync += offered.as_value().eq(burst.as_value())
        m.d.comb += [axi.araddr.eq(offered.address), axi.arlen.eq(offered.more)]
        more = Mux(asked, burst.more + 1, 0)
        m.d.sync += under_way.eq(under_way + more - took)

    def _take(self, m: Module, took: Signal, client: Value) -> None:
        """Gather beats to words."""
        config, axi, words = self.config, self.m_axi, self.words
        valid = Signal(name="word_is_valid")
        word = Signal(config.word.size, name="word", reset_less=True)
        held = data.View(config.word, word)
        moves = named(m, "word_moves", 1, ~valid | words.ready | self.stop)
        noted(
            moves,
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
            with m.If(took):
                m.d.sync += number.eq(number + 1)
        with m.If(moves):
            m.d.sync += valid.eq(took & last)
        with m.If(took):
            m.d.sync += [
                held.data.eq(Cat(held.data, axi.rdata)[config.data_bits :]),
                # The upper bit says that an answer is an error.
                held.error.eq(axi.rresp[1] | (held.error & ~first)),
                held.client.eq(client),
            ]
