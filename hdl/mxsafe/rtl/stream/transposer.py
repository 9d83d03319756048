"""The transposer of square tiles, behind AXI4-Stream."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.unit import Unit
from mxsafe.validation import require_positive_integer

__all__ = ["Transposer"]


class Transposer(Unit):
    """Square tiles, a row a beat, to their transposes, a row a beat and a beat a cycle.

    One tile of registers is enough: a tile enters row by row from above and leaves column by column
    to the right, while the next tile enters column by column from the left, to leave row by row at
    the bottom; and so on in turn.

    Parameters
    ----------
    size : int
        Rows and columns of a tile.
    element_bits : int
        Bits of an element.

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
    latency : int
        Clocks from the first row of a tile to its first column, without stalls: `size`.

    Raises
    ------
    ValueError
        If a parameter is not a positive integer, or `tdata` would not be whole bytes, as
        AXI4-Stream demands.

    Notes
    -----
    Within a packet a column leaves as a row of the next tile enters: `s_axis_tvalid` reaches
    `m_axis_tvalid` combinationally, and `m_axis_tready` reaches `s_axis_tready`. The last tile of a
    packet leaves by itself, and until it has, no row is taken: a packet of ``n`` tiles takes
    ``(n + 1) * size`` cycles.
    """

    def __init__(self, *, size: int = 8, element_bits: int = 8) -> None:
        self.size = require_positive_integer("size", size)
        self.element_bits = require_positive_integer("element_bits", element_bits)
        row = data.ArrayLayout(self.element_bits, self.size)
        if row.size % 8:
            raise ValueError(f"tdata must be whole bytes, not {row.size} bits")
        usual = (self.size, self.element_bits) == (8, 8)
        super().__init__(
            {
                "s_axis_tdata": In(row),
                "s_axis_tvalid": In(1),
                "s_axis_tready": Out(1),
                "s_axis_tlast": In(1),
                "m_axis_tdata": Out(row),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                "m_axis_tlast": Out(1),
            },
            module_name="transposer" if usual else f"transposer_{size}x{size}_{element_bits}bit",
            parameters={"size": self.size, "element_bits": self.element_bits},
            latency=self.size,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = Signal(name="step")
        padding = Signal(name="is_padding")
        downwards = self._control(m, step, padding)
        self._shift(m, step, padding, downwards)
        return m

    def _control(self, m: Module, step: Signal, padding: Signal) -> Signal:
        """Count steps, a row in and a column out each, in rounds of a tile; return the direction.

        A round takes a tile in, puts one out, or both.
        """
        size = self.size
        full = Signal(name="is_full")  # a tile leaves in this round
        draining = Signal(name="is_draining")  # and none enters
        downwards = Signal(name="is_downwards")
        done = Signal(range(max(size, 2)), name="steps_done")
        open_ = named(m, "is_open", 1, ~full | self.m_axis_tready)
        takes = named(m, "takes_rows", 1, ~draining & ~padding)
        ready = named(m, "is_ready", 1, open_ & takes & ~ResetSignal())
        has_row = named(m, "has_row", 1, ~takes | self.s_axis_tvalid)
        round_last = named(m, "round_last", 1, done == size - 1)
        ends = named(m, "packet_ends", 1, padding | (takes & self.s_axis_tlast))
        m.d.comb += [
            self.s_axis_tready.eq(ready),
            self.m_axis_tvalid.eq(full & has_row),
            self.m_axis_tlast.eq(draining & round_last),
            step.eq(open_ & has_row),
        ]
        with m.If(step):
            m.d.sync += [done.eq(Mux(round_last, 0, done + 1)), padding.eq(ends & ~round_last)]
        with m.If(step & round_last):
            m.d.sync += [full.eq(~draining), draining.eq(ends), downwards.eq(~downwards)]
        return downwards

    def _shift(self, m: Module, step: Signal, padding: Signal, downwards: Signal) -> None:
        """The registers of a tile. Rows enter backwards, so that what came first leaves first."""
        size, bits = self.size, self.element_bits
        entering = [
            named(m, f"entering_{i}", bits, Mux(padding, 0, self.s_axis_tdata[size - 1 - i]))
            for i in range(size)
        ]
        cells = [
            [Signal(bits, name=f"cell_{i}_{j}", reset_less=True) for j in range(size)]
            for i in range(size)
        ]
        for i in range(size):
            for j in range(size):
                above: Value = cells[i - 1][j] if i else entering[j]
                left: Value = cells[i][j - 1] if j else entering[i]
                with m.If(step):
                    m.d.sync += cells[i][j].eq(Mux(downwards, above, left))
        columns = [Mux(downwards, cells[-1][-1 - i], cells[-1 - i][-1]) for i in range(size)]
        m.d.comb += self.m_axis_tdata.as_value().eq(Cat(*columns))
