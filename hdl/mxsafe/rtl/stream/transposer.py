"""The transposer of square tiles, behind AXI4-Stream."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named, noted, truncated, update
from mxsafe.rtl.stream.axi_stream import AxiStream, whole_bytes
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike


class TransposerConfiguration(Configuration):
    """A `Transposer`.

    Parameters
    ----------
    size : int
        Rows and columns of a tile.
    element_bits : int
        Bits of an element.

    Raises
    ------
    ValueError
        If a parameter is not a positive integer, or `tdata` would not be whole bytes, as
        AXI4-Stream demands.
    """

    size: Alike = 8
    element_bits: Alike = 8

    def __post_init__(self) -> None:
        whole_bytes("element_bits", "s_axis", self.row)

    @property
    def latency(self) -> int:
        """Cycles from the first row of a tile to its first column, without stalls."""
        return self.size

    @property
    def row(self) -> data.ArrayLayout:
        """Layout of a row or column."""
        return data.ArrayLayout(self.element_bits, self.size)


class Transposer(Unit[TransposerConfiguration]):
    """Square tiles, a row a beat, to their transposes, a row a beat and a beat a cycle.

    One tile of registers is enough: a tile enters row by row from above and leaves column by column
    to the right, while the next tile enters column by column from the left, to leave row by row at
    the bottom; and so on in turn.

    Attributes
    ----------
    s_axis_tdata : In(array)
        A row of `size` elements.
    s_axis_tlast : In(1)
        The row ends the last tile of a packet. If that has fewer than `size` rows, zeros take the
        place of the others.
    m_axis_tdata : Out(array)
        A column of `size` elements, column 0 of a tile first. Always `size` columns a tile.
    m_axis_tlast : Out(1)
        Last column of the last tile of a packet.

    Notes
    -----
    Within a packet a column leaves as a row of the next tile enters: `s_axis_tvalid` reaches
    `m_axis_tvalid` combinationally, and `m_axis_tready` reaches `s_axis_tready`. The last tile of a
    packet leaves by itself, and until it has, no row is taken: a packet of ``n`` tiles takes
    ``(n + 1) * size`` cycles.
    """

    def ports(self) -> Ports:
        row = self.config.row
        return {"s_axis": In(AxiStream(row)), "m_axis": Out(AxiStream(row))}

    def fill(self, m: Module, platform: object) -> None:
        step = Signal(name="step")
        padding = Signal(name="is_padding")
        downwards = self._control(m, step, padding)
        self._shift(m, step, padding, downwards)

    def _control(self, m: Module, step: Signal, padding: Signal) -> Signal:
        """Count steps, a row in and a column out each, in rounds of a tile; return the direction.

        A round takes a tile in, puts one out, or both.
        """
        size = self.config.size
        full = Signal(name="is_full")  # a tile leaves in this round
        draining = Signal(name="is_draining")  # and none enters
        downwards = Signal(name="is_downwards")
        done = Signal(range(max(size, 2)), name="steps_done")
        open_ = named(m, "is_open", 1, ~full | self.m_axis.tready)
        takes = noted(
            named(m, "takes_rows", 1, ~draining & ~padding),
            "A short tile is filled up with rows of zeros: then, and while the last tile drains, "
            "rows come from here and not from the stream.",
        )
        ready = named(m, "is_ready", 1, open_ & takes & ~ResetSignal())
        has_row = named(m, "has_row", 1, ~takes | self.s_axis.tvalid)
        round_last = named(m, "round_last", 1, done == size - 1)
        ends = named(m, "packet_ends", 1, padding | (takes & self.s_axis.tlast))
        m.d.comb += [
            self.s_axis.tready.eq(ready),
            self.m_axis.tvalid.eq(full & has_row),
            self.m_axis.tlast.eq(draining & round_last),
            step.eq(open_ & has_row),
        ]
        next_done = truncated(m, "next_done", len(done), done + 1)
        with m.If(step):
            m.d.sync += [done.eq(Mux(round_last, 0, next_done)), padding.eq(ends & ~round_last)]
        round_ends = named(m, "round_ends", 1, step & round_last)
        noted(downwards, "The tile that has come in leaves at right angles to the way it came.")
        with m.If(round_ends):
            m.d.sync += [full.eq(~draining), draining.eq(ends), downwards.eq(~downwards)]
        return downwards

    def _shift(self, m: Module, step: Signal, padding: Signal, downwards: Signal) -> None:
        """The registers of a tile. Rows enter backwards, so that what came first leaves first."""
        size, bits = self.config.size, self.config.element_bits
        entering = [
            named(m, f"entering_{i}", bits, Mux(padding, 0, self.s_axis.tdata[size - 1 - i]))
            for i in range(size)
        ]
        # Cell (i, j) of the tile is element j of row i.
        layout = data.ArrayLayout(bits, size)
        rows = [
            data.View(layout, Signal(layout.size, name=f"row_{i}", reset_less=True))
            for i in range(size)
        ]
        for i, row in enumerate(rows):
            above = rows[i - 1].as_value() if i else Cat(*entering)
            left = Cat(entering[i], row.as_value()[:-bits]) if size > 1 else entering[i]
            following = noted(
                named(m, f"row_{i}_next", layout.size, Mux(downwards, above, left)),
                "Both directions share the registers: a cell takes one of two neighbours.",
            )
            update(m, row.as_value(), (step, following))
        noted(
            self.m_axis.tdata.as_value(),
            "What leaves is at the bottom of the columns, or at the right end of the rows.",
        )
        columns = [
            Mux(downwards, rows[-1][size - 1 - i], rows[size - 1 - i][size - 1])
            for i in range(size)
        ]
        m.d.comb += self.m_axis.tdata.as_value().eq(Cat(*columns))
