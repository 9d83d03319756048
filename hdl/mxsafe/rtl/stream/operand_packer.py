"""The packer of converted beats into operand beats of the array, behind AXI4-Stream."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, MXFormat
from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.unit import Unit
from mxsafe.validation import require_positive_integer, require_power_of_two

__all__ = ["OperandPacker", "operand_layout"]


def operand_layout(format: MXFormat, columns: int, lanes: int) -> data.StructLayout:
    """An operand beat: for every column `lanes` codes, then the scale byte of every column."""
    codes = data.ArrayLayout(data.ArrayLayout(format.element.width, lanes), columns)
    return data.StructLayout({"codes": codes, "scales": data.ArrayLayout(E8M0.width, columns)})


class OperandPacker(Unit):
    """Beats of a converter, each one value of k, gathered into operand beats of the array.

    An operand beat has a beat for each lane. All but the last wait in registers that shift; the
    last, and the scales, which are the same in every beat of a block, go straight through. So there
    are registers for the codes of ``lanes - 1`` beats, and for nothing else.

    A block starts a new operand beat: where a block ends within one, code 0 takes the place of the
    lanes that are missing, in a clock for each, while the block's last beat waits.

    Parameters
    ----------
    format : MXFormat
        Element format.
    width : int
        Codes in a beat, one a column.
    lanes : int
        Beats in an operand beat, a power of two. With one the packer is combinational and has no
        clock.
    groups : int, optional
        Scales in a beat, each for as many neighbouring columns; by default one a column.

    Attributes
    ----------
    s_axis_tdata : In(struct)
        ``codes``: a code of each column; ``scales``: the E8M0 byte of each group.
    s_axis_tuser : In(struct)
        ``block_last``: the beat ends a block.
    s_axis_tlast : In(1)
        The beat ends a packet, and its block.
    m_axis_tdata : Out(struct)
        ``codes``: for each column `lanes` codes, first beat lowest; ``scales``: the E8M0 byte of
        each column. The layout of the array's operand streams.
    m_axis_tuser : Out(struct)
        ``block_last``: the operand beat ends a block.
    m_axis_tlast : Out(1)
        The operand beat ends a packet.
    latency : int
        Clocks from the first of `lanes` beats to the operand beat, without stalls: ``lanes - 1``.

    Raises
    ------
    ValueError
        If a number is not as above, or `tdata` would not be whole bytes, as AXI4-Stream demands.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally, and `s_axis_tvalid`, `tlast` and
    `tuser` reach `m_axis_tvalid`, `tlast` and `tuser`. A source must hold its beat until it is
    taken, as AXI4-Stream demands: codes of the last beat of a short block are copied before that.
    """

    def __init__(
        self, *, format: MXFormat, width: int = 16, lanes: int = 4, groups: int | None = None
    ) -> None:
        self.width = require_positive_integer("width", width)
        self.lanes = require_power_of_two("lanes", lanes)
        self.groups = require_positive_integer("groups", width if groups is None else groups)
        if self.width % self.groups:
            raise ValueError(f"groups must divide width {width}, not {groups}")
        self._beat = data.ArrayLayout(format.element.width, width)
        beat = data.StructLayout(
            {"codes": self._beat, "scales": data.ArrayLayout(E8M0.width, self.groups)}
        )
        operand = operand_layout(format, width, lanes)
        for name, layout in (("s_axis", beat), ("m_axis", operand)):
            if layout.size % 8:
                raise ValueError(f"{name}_tdata must be whole bytes, not {layout.size} bits")
        flags = data.StructLayout({"block_last": 1})
        super().__init__(
            {
                "s_axis_tdata": In(beat),
                "s_axis_tvalid": In(1),
                "s_axis_tready": Out(1),
                "s_axis_tlast": In(1),
                "s_axis_tuser": In(flags),
                "m_axis_tdata": Out(operand),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                "m_axis_tlast": Out(1),
                "m_axis_tuser": Out(flags),
            },
            module_name=f"{format.name}_operand_packer_{width}by{lanes}_{self.groups}",
            parameters={
                "format": format.name,
                "width": width,
                "operand_lanes": lanes,
                "groups": self.groups,
            },
            latency=lanes - 1,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        codes = self.s_axis_tdata.codes
        if self.lanes == 1:
            beats = [codes]
            m.d.comb += [
                self.s_axis_tready.eq(self.m_axis_tready),
                self.m_axis_tvalid.eq(self.s_axis_tvalid),
            ]
        else:
            step, padding = self._control(m)
            entering = named(m, "entering", self._beat.size, Mux(padding, 0, codes.as_value()))
            beats = self._gather(m, step, entering)
        for column in range(self.width):
            group = column // (self.width // self.groups)
            m.d.comb += [
                self.m_axis_tdata.codes[column].as_value().eq(Cat(b[column] for b in beats)),
                self.m_axis_tdata.scales[column].eq(self.s_axis_tdata.scales[group]),
            ]
        m.d.comb += [
            self.m_axis_tlast.eq(self.s_axis_tlast),
            self.m_axis_tuser.eq(self.s_axis_tuser),
        ]
        return m

    def _control(self, m: Module) -> tuple[Signal, Signal]:
        """When a lane is filled, and whether with zeros."""
        ends_block = named(m, "ends_block", 1, self.s_axis_tuser.block_last | self.s_axis_tlast)
        step, padding = Signal(name="step"), Signal(name="is_padding")
        lane = Signal(range(self.lanes), name="lane")
        full = named(m, "is_full", 1, lane.all())
        with m.If(step):
            m.d.sync += [lane.eq(lane + 1), padding.eq(~full & ends_block)]
        ready = named(m, "is_ready", 1, Mux(full, self.m_axis_tready, ~ends_block))
        m.d.comb += [
            step.eq(self.s_axis_tvalid & (~full | self.m_axis_tready)),
            self.s_axis_tready.eq(ready & ~ResetSignal()),
            self.m_axis_tvalid.eq(self.s_axis_tvalid & full),
        ]
        return step, padding

    def _gather(self, m: Module, step: Signal, entering: Signal) -> list[data.View]:
        """The beats of an operand beat, the first one first."""
        beats = [data.View(self._beat, entering)]
        for place in reversed(range(self.lanes - 1)):
            register = Signal(self._beat.size, name=f"beat_{place}", reset_less=True)
            with m.If(step):
                m.d.sync += register.eq(beats[0].as_value())
            beats.insert(0, data.View(self._beat, register))
        return beats
