"""Rows of products into the vector buffer: where each of them goes, and which are dropped."""

from typing import Annotated

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import gated_or, named, noted, truncated, update
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.ports import BufferWrite
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike, within

_GEMM = descriptor_layout("gemm")
_KEPT = (
    "result",
    "result_stride_a",
    "result_stride_w",
    "strips_a",
    "strips_w",
    "last_rows",
    "write",
)


class ResultRowsConfiguration(Configuration):
    """`ResultRows`.

    Parameters
    ----------
    rows : int
        Rows of the array, and its columns.
    beats : int
        Beats of the vector buffer, at most as many as a descriptor can say.
    under_way : int
        Most descriptors whose rows are not all written.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`. For an FPGA what
        says where a row goes comes from registers, and rows must come at least three cycles apart.
    """

    rows: Alike = 16
    beats: Annotated[int, within(2, 1 << _GEMM["result"].width)] = 4096
    under_way: Alike = 3
    target: Target = "asic"

    clocked = True
    """It counts, though a row passes within a cycle."""

    @property
    def write(self) -> BufferWrite:
        """Port to the vector buffer."""
        return BufferWrite(self.beats, 32 * self.rows)

    @property
    def entry(self) -> data.StructLayout:
        """Descriptor fields that are kept."""
        return data.StructLayout({name: _GEMM[name].width for name in _KEPT})


class ResultRows(Unit[ResultRowsConfiguration]):
    """Writes the rows of the array's tiles where the descriptors say, in their order.

    Attributes
    ----------
    enters, descriptor : In
        A descriptor whose tiles will come after those of all before.
    has_room : Out(1)
        Another one may enter.
    is_only_one : Out(1)
        There are no rows to come but those of one descriptor.
    s_axis : In(AxiStream)
        Rows of tiles, `tlast` with the last one of a tile.
    result : Out(BufferWrite)
        The vector buffer.
    done : Out(1)
        The last row of the oldest descriptor is written or dropped.
    fault : Out(1)
        The next row would be written outside the buffer: nothing more is taken.
    stop : In(1)
        Nothing is written or taken any more.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "enters": In(1),
            "descriptor": In(_GEMM),
            "has_room": Out(1),
            "is_only_one": Out(1),
            "s_axis": In(AxiStream(32 * config.rows)),
            "result": Out(config.write),
            "done": Out(1),
            "fault": Out(1),
            "stop": In(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        there: Value = self.s_axis.tvalid
        may_go: Value = ~self.stop
        if at(self.config, "descriptor"):
            changes = Signal(2, name="changes")
            noted(
                changes, "Behind the last row of a descriptor it takes cycles until all is settled."
            )
            m.d.sync += changes.eq(Cat(changes[1], self.done))
            there, may_go = there & ~changes.any(), may_go & ~changes.any()
        taken = named(m, "row_taken", 1, self.s_axis.tvalid & self.s_axis.tready)
        tile_taken = named(m, "tile_taken", 1, taken & self.s_axis.tlast)
        oldest = self._keep(m)
        ends_inner = self._count_strips(m, oldest, tile_taken)
        address = self._address(m, oldest, taken, tile_taken, ends_inner)
        wanted = self._is_wanted(m, oldest, taken, ends_inner)
        outside = named(m, "is_outside", 1, wanted & (address >= self.config.beats))
        outside, wanted = (self._settled(m, value) for value in (outside, wanted))
        valid = there & wanted & ~outside & ~self.stop
        ready = may_go & Mux(wanted, self.result.ready & ~outside, 1)
        if at(self.config, "row"):
            goes = Signal(name="row_goes")
            noted(goes, "A row and room for it stay, so it goes a cycle after both were seen.")
            m.d.sync += goes.eq(self.s_axis.tvalid & ready & ~goes)
            valid, ready = goes & wanted, goes
        m.d.comb += [
            self.fault.eq(there & outside),
            self.result.valid.eq(valid),
            self.result.address.eq(address[: len(self.result.address)]),
            self.result.halves.eq(0b11),
            self.result.data.eq(self.s_axis.tdata),
            self.s_axis.tready.eq(ready),
        ]

    def _keep(self, m: Module) -> data.View:
        """Keep descriptors, newest first; return the oldest."""
        config = self.config
        count = Signal(range(config.under_way + 1), name="descriptors")
        kept = [
            Signal(config.entry.size, name=f"descriptor_{age}", reset_less=True)
            for age in range(config.under_way)
        ]
        following = count + self.enters - self.done
        m.d.sync += count.eq(following)
        with m.If(self.enters):
            newest = Cat(self.descriptor[name] for name in _KEPT)
            m.d.sync += Cat(*kept).eq(Cat(newest, *kept[:-1]))
        ages = Cat(count == age + 1 for age in range(config.under_way))
        is_oldest = named(m, "is_oldest", config.under_way, ages)
        if at(config, "room"):
            has_room = Signal(name="room_held", init=1)
            m.d.sync += has_room.eq(following != config.under_way)
        else:
            has_room = count != config.under_way
        m.d.comb += [self.has_room.eq(has_room), self.is_only_one.eq(count == 1)]
        oldest = gated_or(m, "oldest", zip(is_oldest, kept, strict=True))
        return data.View(config.entry, self._settled(m, oldest))

    def _settled(self, m: Module, value: Signal) -> Value:
        """Return a value that is stable until a row is taken; on an FPGA it is from a register."""
        return held(m, f"{value.name}_settled", value, at(self.config, "descriptor"))

    def _count_strips(self, m: Module, oldest: data.View, tile_taken: Value) -> Value:
        """Follow both loops; return whether the strip of `a` is the last one."""
        turns_a = Signal(_GEMM["strips_a"].width, name="strips_a_done")
        turns_w = Signal(_GEMM["strips_w"].width, name="strips_w_done")
        next_a = truncated(m, "strips_a_next", len(turns_a), turns_a + 1)
        next_w = truncated(m, "strips_w_next", len(turns_w), turns_w + 1)
        ends_inner = named(m, "ends_inner_loop", 1, next_a == oldest.strips_a)
        ends_outer = named(m, "ends_outer_loop", 1, next_w == oldest.strips_w)
        m.d.comb += self.done.eq(tile_taken & ends_inner & ends_outer)
        with m.If(tile_taken):
            m.d.sync += turns_a.eq(Mux(ends_inner, 0, next_a))
            update(m, turns_w, (ends_inner, Mux(ends_outer, 0, next_w)))
        return ends_inner

    def _address(
        self, m: Module, oldest: data.View, taken: Value, tile_taken: Value, ends_inner: Value
    ) -> Value:
        """The beat of the next row."""
        width = _GEMM["result"].width + 1
        begins = Signal(name="begins", init=1)
        update(m, begins, (taken, self.done))
        column, tile, row = (
            Signal(width, name=f"{what}_held", reset_less=True)
            for what in ("column", "tile", "row")
        )
        noted(
            row, "A bit more than in a descriptor: the first address that is too large is an error."
        )
        now = {
            held.name: named(m, held.name[:-5], width, Mux(begins, oldest.result, held))
            for held in (column, tile, row)
        }
        column_now, tile_now, row_now = now.values()
        base = named(m, "base", width, Mux(ends_inner, column_now, tile_now))
        stride = named(
            m,
            "stride",
            None,
            Mux(ends_inner, oldest.result_stride_w, oldest.result_stride_a),
        )
        next_tile = truncated(m, "next_tile", width, base + stride)
        next_row = truncated(m, "next_row", width, row_now + 1)
        with m.If(taken):
            m.d.sync += [
                row.eq(Mux(tile_taken, next_tile, next_row)),
                tile.eq(Mux(tile_taken, next_tile, tile_now)),
                column.eq(Mux(tile_taken & ends_inner, next_tile, column_now)),
            ]
        return row_now

    def _is_wanted(self, m: Module, oldest: data.View, taken: Value, ends_inner: Value) -> Value:
        """Whether the next row is written."""
        number = Signal(range(max(self.config.rows, 2)), name="row_number")
        following = truncated(m, "next_number", len(number), number + 1)
        update(m, number, (taken, Mux(self.s_axis.tlast, 0, following)))
        beyond = named(m, "is_beyond", 1, ends_inner & (number >= oldest.last_rows))
        noted(beyond, "Rows of the last strip that only fill up its tile are not written.")
        return named(m, "is_wanted", 1, oldest.write & ~beyond)
