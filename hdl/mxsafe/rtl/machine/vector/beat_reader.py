"""Rows of beats from a buffer, read ahead of who takes them."""

from typing import Annotated

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.machine.dma.row_address_generator import (
    RowAddressGenerator,
    RowAddressGeneratorConfiguration,
)
from mxsafe.rtl.machine.ports import WIDTHS, BufferRead
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import PositiveInteger, within

_MOST_AHEAD = 8
_MOST_BITS = 32
_WIDTHS = WIDTHS["vector"]


class BeatReaderConfiguration(Configuration):
    """A `BeatReader`.

    Parameters
    ----------
    beat_bits : int
        Bits of a beat.
    depth : int
        Beats of the buffer.
    address_bits, rows_bits : int
        Bits of an address, and of the number of rows.
    ahead : int
        Beats that are kept here, 1 to 8. With 3 a beat is taken every cycle, with 2 two in three,
        with 1 one in three.
    later : bool
        That a beat is wanted is said from a register, every second cycle at most, and so it is
        that one has been taken.
    """

    shown_if_not_default = frozenset({"later"})

    beat_bits: PositiveInteger = 512
    depth: int = 2048
    address_bits: Annotated[int, within(_WIDTHS["x_stride"], _MOST_BITS)] = 14
    rows_bits: PositiveInteger = 8
    ahead: Annotated[int, within(1, _MOST_AHEAD)] = 3
    later: bool = False

    def __post_init__(self) -> None:
        _ = self.walk  # which checks the others

    @property
    def latency(self) -> int:
        """Cycles from `start` to the first beat, if nobody else reads."""
        return self.walk.latency + 2 + 2 * self.later

    @property
    def walk(self) -> RowAddressGeneratorConfiguration:
        """Address generator configuration."""
        return RowAddressGeneratorConfiguration(
            depth=self.depth, address_bits=self.address_bits, stride_bits=_WIDTHS["x_stride"]
        )


class BeatReader(Unit[BeatReaderConfiguration]):
    """Reads rows of beats as long as there is room for them here.

    A beat is asked for only if there is room for it, and taken from the buffer's port in the next
    cycle: nothing is held there, so nobody who reads the same bank has to wait for who takes beats
    here. Whether there is room is known from registers.

    Attributes
    ----------
    start : In(1)
        Begin; all that was wanted before has been taken.
    origin, stride : In
        Where the first row begins, and what lies between two rows; steady until the last beat.
    beats, rows : In
        Beats of a row, and rows, at least 1; steady until the last beat.
    stop : In(1)
        No beat is asked for.
    read : Out(BufferRead)
        The buffer's port.
    m_axis_tdata : Out
        A beat.
    m_axis_tlast : Out(1)
        It ends its row.
    outside : Out(1)
        The next beat is wanted from an address that the buffer does not have. It is not read, and
        no other follows.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "start": In(1),
            "origin": In(config.address_bits),
            "stride": In(config.walk.stride_bits),
            "beats": In(_WIDTHS["beats"]),
            "rows": In(config.rows_bits),
            "stop": In(1),
            "read": Out(BufferRead(config.depth, config.beat_bits)),
            "m_axis": Out(AxiStream(config.beat_bits)),
            "outside": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        walk = place(m, platform, "walk", RowAddressGenerator(config.walk), reset=False)
        rows_left = Signal(config.rows_bits, name="rows_left")
        beats_left = Signal(len(self.beats), name="beats_left", reset_less=True)
        room = noted(
            Signal(range(config.ahead + 1), init=config.ahead, name="room"),
            "Credits: a beat is asked for only where it finds a place here when it comes, so "
            "nothing that was read has to wait in the memory.",
        )
        taken = named(m, "beat_taken", 1, self.m_axis.tvalid & self.m_axis.tready)
        has_room = named(m, "has_room", 1, room.any())
        wanted = named(m, "beat_wanted", 1, rows_left.any() & has_room & ~self.stop)
        asked = named(m, "beat_asked", 1, self.read.valid & self.read.ready)
        ends_row: Value = named(m, "ends_row", 1, beats_left == 1)
        offers: Value = wanted & ~walk.outside
        is_outside: Value = wanted & walk.outside
        if config.later:
            later = Signal(2, name="is_offered_or_outside")
            noted(later, "A cycle late: what is wanted stays so until it is read.")
            m.d.sync += later.eq(Cat(offers & ~asked & ~self.start, is_outside & ~self.start))
            offers, is_outside = later
            # Two beats are asked for two cycles apart at least.
            ends_row = held(m, "ends_row_held", ends_row)
        beats_less_1 = truncated(m, "beats_less_1", len(beats_left), beats_left - 1)
        m.d.comb += [
            walk.start.eq(self.start),
            walk.origin.eq(self.origin),
            walk.stride.eq(self.stride),
            walk.step.eq(asked),
            walk.ends_row.eq(ends_row),
            self.read.valid.eq(offers),
            self.read.address.eq(walk.address),
            self.read.hold.eq(0),
            self.outside.eq(is_outside),
        ]
        m.d.sync += room.eq(room + taken - asked)
        with m.If(self.start):
            m.d.sync += [rows_left.eq(self.rows), beats_left.eq(self.beats)]
        with m.Elif(asked):
            m.d.sync += [
                rows_left.eq(rows_left - ends_row),
                beats_left.eq(Mux(ends_row, self.beats, beats_less_1)),
            ]
        self._keep(m, taken, asked, ends_row)

    def _keep(self, m: Module, taken: Value, asked: Value, ends_row: Value) -> None:
        """Beats as they come, the oldest in the first place."""
        config = self.config
        leaves = held(m, "beat_leaves", taken, config.later, reset=True)
        arrives = held(m, "beat_arrives", asked, reset=True)
        arrives = held(m, "beat_arrives_later", arrives, config.later, reset=True)
        incoming = Cat(self.read.data, kept(m, asked, "arriving_is_last", ends_row))
        filled = Signal(config.ahead, name="is_held")  # places are taken from the first on
        places = [
            Signal(config.beat_bits + 1, name=f"beat_{place}", reset_less=True)
            for place in range(config.ahead)
        ]
        after = named(m, "held_after", config.ahead, Mux(leaves, filled[1:], filled))
        free = named(m, "first_free", config.ahead, ~after & Cat(1, after[:-1]))
        noted(after, "Places are taken from the first on: beats move up as the oldest one leaves.")
        m.d.sync += filled.eq(after | Mux(arrives, free, 0))
        for number, register in enumerate(places):
            load = named(m, f"loads_{number}", 1, arrives & free[number])
            moves_up = [(leaves, behind) for behind in places[number + 1 : number + 2]]
            update(m, register, (load, incoming), *moves_up)
        m.d.comb += [
            Cat(self.m_axis.tdata, self.m_axis.tlast).eq(places[0]),
            self.m_axis.tvalid.eq(filled[0] & ~leaves if config.later else filled[0]),
        ]
