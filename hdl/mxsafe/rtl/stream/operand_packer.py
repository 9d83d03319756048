"""The packer of converted beats into operand beats of the array, behind AXI4-Stream."""

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat, MXFormat
from mxsafe.rtl.arithmetic.bits import kept, named, noted
from mxsafe.rtl.stream.axi_stream import AxiStream, converted_beat, operand_beat, whole_bytes
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import Alike, AlikePower, PositiveInteger


class OperandPackerConfiguration(Configuration):
    """An `OperandPacker`.

    Parameters
    ----------
    format : MXFormat or FloatFormat
        Element format, or a scalar one such as `BF16`, whose beats have no scales.
    width : int
        Codes in a beat, one a column.
    lanes : int
        Beats in an operand beat, a power of two. With one the packer is combinational and has no
        clock.
    groups : int, optional
        Scales in a beat, each for as many neighbouring columns; by default one a column. None of
        a scalar format.

    Raises
    ------
    ValueError
        If a parameter is not as above, or `tdata` of a stream would not be whole bytes, as
        AXI4-Stream demands.
    """

    format: MXFormat | FloatFormat
    width: Alike = 16
    lanes: AlikePower = 4
    groups: PositiveInteger | None = None

    def __post_init__(self) -> None:
        if not self.scaled and self.groups is not None:
            raise ValueError(
                f"groups must be None with {self.format.name}, which has no scales, "
                f"not {self.groups}"
            )
        self._settle(groups=self.width if self.scaled else 0)
        if self.scaled and self.width % self.scales:
            raise ValueError(f"groups must divide width {self.width}, not {self.groups}")
        whole_bytes("width", "s_axis", self.converted)
        whole_bytes("width", "m_axis", self.operand)

    @property
    def scaled(self) -> bool:
        """Whether there are scales."""
        return isinstance(self.format, MXFormat)

    @property
    def code_width(self) -> int:
        """Bits of a code."""
        return self.format.element.width if isinstance(self.format, MXFormat) else self.format.width

    @property
    def flags(self) -> data.StructLayout | None:
        """Layout of `tuser`, where there are blocks."""
        return data.StructLayout({"block_last": 1}) if self.scaled else None

    @property
    def scales(self) -> int:
        """Scales in a beat."""
        assert self.groups is not None
        return self.groups

    @property
    def latency(self) -> int:
        """Cycles from the first of `lanes` beats to the operand beat, without stalls."""
        return self.lanes - 1

    @property
    def converted(self) -> data.StructLayout:
        """Layout of a beat that comes in."""
        return converted_beat(self.format, self.width, self.scales)

    @property
    def operand(self) -> data.StructLayout:
        """Layout of an operand beat."""
        return operand_beat(
            code_width=self.code_width,
            scale_width=self.format.scale.width if isinstance(self.format, MXFormat) else 0,
            lanes=self.lanes,
            count=self.width,
        )


class OperandPacker(Unit[OperandPackerConfiguration]):
    """Beats of a converter, each one value of k, gathered into operand beats of the array.

    An operand beat has a beat for each lane. All but the last wait in registers that shift; the
    last, and the scales, which are the same in every beat of a block, go straight through. So there
    are registers for the codes of ``lanes - 1`` beats, and for nothing else.

    A block starts a new operand beat: where a block ends within one, code 0 takes the place of the
    lanes that are missing, in a cycle for each, while the block's last beat waits. Numbers of a
    scalar format have no scales and no blocks: only a packet's end does that.

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
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "s_axis": In(AxiStream(config.converted, user=config.flags)),
            "m_axis": Out(AxiStream(config.operand, user=config.flags)),
        }

    def fill(self, m: Module, platform: object) -> None:
        codes = self.s_axis.tdata.codes
        if self.config.lanes == 1:
            beats = [codes]
            m.d.comb += [
                self.s_axis.tready.eq(self.m_axis.tready),
                self.m_axis.tvalid.eq(self.s_axis.tvalid),
            ]
        else:
            step, padding = self._control(m)
            entering = named(
                m, "entering", len(codes.as_value()), Mux(padding, 0, codes.as_value())
            )
            beats = self._gather(m, step, entering)
        for column in range(self.config.width):
            codes_out = self.m_axis.tdata.codes[column].as_value()
            m.d.comb += codes_out.eq(Cat(beat[column] for beat in beats))
            if self.config.scaled:
                # A tile's scale belongs to each of its columns.
                group = column // (self.config.width // self.config.scales)
                scale = self.s_axis.tdata.scales[group]
                m.d.comb += self.m_axis.tdata.scales[column].eq(scale)
        m.d.comb += self.m_axis.tlast.eq(self.s_axis.tlast)
        if self.config.scaled:
            m.d.comb += self.m_axis.tuser.eq(self.s_axis.tuser)

    def _control(self, m: Module) -> tuple[Signal, Signal]:
        """When a lane is filled, and whether with zeros."""
        ends = self.s_axis.tlast
        if self.config.scaled:
            ends = self.s_axis.tuser.block_last | ends
        ends_block = named(m, "ends_block", 1, ends)
        step, padding = Signal(name="step"), Signal(name="is_padding")
        lane = Signal(range(self.config.lanes), name="lane")
        full = named(m, "is_full", 1, lane.all())
        noted(full, "The last lane goes straight through in the cycle in which the beat leaves.")
        open_ = named(m, "is_open", 1, ~full | self.m_axis.tready)
        with m.If(step):
            # A power of two of lanes: the count wraps by itself.
            m.d.sync += [lane.eq(lane + 1), padding.eq(~full & ends_block)]
        ready = noted(
            named(m, "is_ready", 1, Mux(full, self.m_axis.tready, ~ends_block)),
            "The last beat of a block is taken last: it waits while code 0 fills the lanes that "
            "are missing, and its scales are those of the operand beat.",
        )
        m.d.comb += [
            step.eq(self.s_axis.tvalid & open_),
            self.s_axis.tready.eq(ready & ~ResetSignal()),
            self.m_axis.tvalid.eq(self.s_axis.tvalid & full),
        ]
        return step, padding

    def _gather(self, m: Module, step: Signal, entering: Signal) -> list[data.View]:
        """The beats of an operand beat, the first one first."""
        layout = self.config.converted["codes"].shape
        # Registers shift towards the first lane, so that each beat needs no enable of its own.
        beats = [data.View(layout, entering)]
        for place in reversed(range(self.config.lanes - 1)):
            register = kept(m, step, f"beat_{place}", beats[0].as_value())
            beats.insert(0, data.View(layout, register))
        return beats
