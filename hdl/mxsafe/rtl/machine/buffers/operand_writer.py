"""Rows of operand beats and of their scales to one of the operand buffers."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.machine import description
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.machine.dma.row_address_generator import (
    RowAddressGenerator,
    RowAddressGeneratorConfiguration,
)
from mxsafe.rtl.machine.ports import KINDS, WIDTHS, BufferWrite
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.operand_packer import OperandPackerConfiguration
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import PositiveInteger

TARGETS = tuple(description.TARGETS.members)
"""Buffers, in the order of their numbers."""
FIELDS = {"codes": ("out", "out_stride"), "scales": ("out_scales", "out_scale_stride")}
"""By kind the fields of a descriptor that say where rows begin, and what lies between two."""
_WIDTHS = WIDTHS["vector"]


class OperandWriterConfiguration(Configuration):
    """An `OperandWriter`.

    Parameters
    ----------
    packer : OperandPackerConfiguration
        What gives operand beats, perhaps with a scale for each column.
    beats : tuple of int
        Operand beats that each of `TARGETS` holds, and half as many scale entries: multiples of 4.
    later : bool
        What is written is offered from a register, a cycle after it has come.
    """

    shown_if_not_default = frozenset({"later"})

    packer: OperandPackerConfiguration
    beats: tuple[PositiveInteger, ...] = (512, 1024, 4096)
    later: bool = False

    def __post_init__(self) -> None:
        if len(self.beats) != len(TARGETS):
            raise ValueError(f"beats must be {len(TARGETS)} numbers, not {len(self.beats)}")
        if any(size % 4 for size in self.beats):
            raise ValueError(f"beats must be multiples of 4, not {self.beats}")
        _ = self.walks  # which check that addresses reach

    @property
    def base(self) -> str:
        return f"{self.packer.format.name}_operand_writer"

    @property
    def latency(self) -> int:
        """Cycles from `start` to the first address."""
        return self.walks["codes"].latency

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of data that there are."""
        return KINDS if self.packer.scaled else KINDS[:1]

    @property
    def code_bits(self) -> int:
        """Bits of a code in a buffer: whole bytes."""
        return -(-self.packer.code_width // 8) * 8

    @property
    def words(self) -> int:
        """Words of an operand beat: the codes of half the columns, in a byte each, are one."""
        return 2 * self.code_bits // 8

    @property
    def entries(self) -> tuple[int, ...]:
        """Scale entries that each of `TARGETS` holds."""
        return tuple(beats // 2 for beats in self.beats)

    @property
    def walks(self) -> dict[str, RowAddressGeneratorConfiguration]:
        """Address generator configurations, by kind."""
        depths = {"codes": max(self.beats), "scales": max(self.entries)}
        found = {}
        for kind in self.kinds:
            origin, stride = (_WIDTHS[field] for field in FIELDS[kind])
            found[kind] = RowAddressGeneratorConfiguration(
                depth=depths[kind], address_bits=origin, stride_bits=stride
            )
        return found

    @property
    def write_ports(self) -> dict[str, BufferWrite]:
        """Ports of the buffers by name: beats of codes, and words of two scale entries."""
        width, lanes = self.packer.width, self.packer.lanes
        ports = {}
        for name, beats, entries in zip(TARGETS, self.beats, self.entries, strict=True):
            ports[f"{name}_codes"] = BufferWrite(beats, self.code_bits * width * lanes, self.words)
            if self.packer.scaled:
                ports[f"{name}_scales"] = BufferWrite(entries // 2, 2 * 8 * width)
        return ports


class OperandWriter(Unit[OperandWriterConfiguration]):
    """Writes each operand beat, a byte for each code, and with the last of a block its scales.

    A code of 16 bits takes two bytes. Without scales, as the packer has them, there are no ports
    for these.

    Attributes
    ----------
    start : In(1)
        Rows begin.
    target : In
        Place in `TARGETS` of the buffer; steady until the last row is written.
    codes_origin, codes_stride : In
        Operand beat of the first row, and what lies between two rows; steady likewise.
    scales_origin, scales_stride : In
        The same of scale entries.
    s_axis_tdata : In(struct)
        An operand beat and its scales, see `mxsafe.rtl.stream.operand_packer.OperandPacker`.
    s_axis_tuser : In(struct)
        ``block_last``: it ends a block.
    s_axis_tlast : In(1)
        It ends a row.
    out_codes, a_codes, w_codes, out_scales, a_scales, w_scales : Out(BufferWrite)
        The buffers' ports. An entry of ``out_scales`` at an even place comes with 0 for the one
        behind it: results are stored by words, and no half of a word is left as it was.
    row_written : Out(1)
        The last of a row is being written.
    outside : Out(1)
        A beat or scales are for an address that the buffer does not have. They are not written,
        and nothing follows.
    """

    def ports(self) -> Ports:
        config = self.config
        rows = {}
        for kind, walk in config.walks.items():
            rows[f"{kind}_origin"] = In(walk.address_bits)
            rows[f"{kind}_stride"] = In(walk.stride_bits)
        return {
            "start": In(1),
            "target": In(range(len(TARGETS))),
            **rows,
            "s_axis": In(AxiStream(config.packer.operand, user=config.packer.flags)),
            **{name: Out(port) for name, port in config.write_ports.items()},
            "row_written": Out(1),
            "outside": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        s_axis = self.s_axis
        sizes = {"codes": self.config.beats, "scales": self.config.entries}
        is_target = [
            named(m, f"is_{name}", 1, ~(self.target ^ number).any())
            for number, name in enumerate(TARGETS)
        ]
        wanted = {"codes": s_axis.tvalid}
        if self.config.packer.scaled:
            wanted["scales"] = s_axis.tvalid & s_axis.tuser.block_last
        finished, served, outside, offered = [], [], [], []
        for kind, walk_config in self.config.walks.items():
            walk = place(m, platform, f"{kind}_walk", RowAddressGenerator(walk_config), reset=False)
            written: Value = Const(0, 1)
            if len(wanted) > 1:
                written = noted(
                    Signal(name=f"{kind}_written"),
                    "Codes and scales of a beat go to different memories, perhaps in different "
                    "cycles: what is written already waits for the other kind.",
                )
            wants = named(m, f"{kind}_wanted", 1, wanted[kind] & ~written)
            fits = Cat(walk.address < size for size in sizes[kind])
            within = named(m, f"{kind}_within", 1, ~walk.outside & (fits & Cat(*is_target)).any())
            noted(
                within, "What is for an address that its buffer does not have is flagged instead."
            )
            offers = [*(wants & within & here for here in is_target), wants & ~within]
            if self.config.later:
                later = Signal(len(offers), name=f"{kind}_offered_or_outside")
                offered.append((later, Cat(*offers)))
                offers = list(later)
            *offers, is_outside = offers
            takes = named(m, f"{kind}_taken", 1, self._write(m, kind, offers, walk.address))
            m.d.comb += [
                walk.start.eq(self.start),
                walk.origin.eq(getattr(self, f"{kind}_origin")),
                walk.stride.eq(getattr(self, f"{kind}_stride")),
                walk.step.eq(takes),
                walk.ends_row.eq(s_axis.tlast),
            ]
            waits = wanted[kind] & ~written & ~takes
            served.append(named(m, f"{kind}_served", 1, ~waits))
            finished.append((written, takes))
            outside.append(is_outside)
        done = named(m, "beat_done", 1, Cat(*served).all())
        for (later, now), (_, takes) in zip(offered, finished, strict=False):
            m.d.sync += later.eq(Mux(takes | done, 0, now))
        m.d.comb += [
            s_axis.tready.eq(done),
            self.row_written.eq(done & s_axis.tvalid & s_axis.tlast),
            self.outside.eq(Cat(*outside).any()),
        ]
        for written, takes in finished:
            if len(wanted) > 1:
                m.d.sync += written.eq((written | takes) & ~done)

    def _write(self, m: Module, kind: str, offers: Sequence[Value], address: Value) -> Value:
        """Offer what there is to the buffer that it is for; return whether it is taken."""
        width, code_bits = self.config.packer.code_width, self.config.code_bits
        values = Value.cast(getattr(self.s_axis.tdata, kind))
        if kind == "codes":
            count = len(values) // width
            codes = (values.word_select(at, width) for at in range(count))
            values = Cat(Cat(code, Const(0, code_bits - width)) for code in codes)
        taken = []
        for name, offer in zip(TARGETS, offers, strict=True):
            port: Any = getattr(self, f"{name}_{kind}")
            if kind == "codes":
                entry, halves, beat = address, (1 << self.config.words) - 1, values
            else:
                # Two entries are a word.
                entry, is_odd = address[1:], address[0]
                halves, beat = Cat(~is_odd, is_odd), Cat(values, values)
                if name == "out":
                    # Behind an entry at an even place stands 0 until that one is written.
                    halves, beat = Cat(~is_odd, 1), Cat(values, Mux(is_odd, values, 0))
            m.d.comb += [
                port.valid.eq(offer),
                port.address.eq(entry[: len(port.address)]),
                port.halves.eq(halves),
                port.data.eq(beat),
            ]
            taken.append(offer & port.ready)
        return Cat(*taken).any()
