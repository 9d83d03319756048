"""The engine of products: operands out of buffers, through the array, into the vector buffer."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import ERRORS
from mxsafe.rtl.arithmetic.bits import chosen, kept, named, noted, truncated, update
from mxsafe.rtl.array.arithmetic import Arithmetic
from mxsafe.rtl.array.bf16 import Bf16
from mxsafe.rtl.array.exact import Exact
from mxsafe.rtl.array.fp12 import Fp12
from mxsafe.rtl.array.shape import ArrayShape
from mxsafe.rtl.array.systolic_array import SystolicArray, SystolicArrayConfiguration
from mxsafe.rtl.array.window import Window
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.machine.control.queues import descriptor_layout
from mxsafe.rtl.machine.gemm.operand_feed import OperandFeed
from mxsafe.rtl.machine.gemm.result_rows import ResultRows
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.machine.ports import EnginePort, MemoryRead
from mxsafe.rtl.stream.axi_stream import joined
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Part, Ports, Unit, place

LANES = 4
"""Values of k of a row that a beat of operands holds."""
_TURNS = 2
"""Columns that a MAC serves in turn: the shortest block takes as many cycles."""
_BYTE = 8


def array_of(machine: MachineConfiguration) -> SystolicArrayConfiguration:
    """The array of a machine, which takes blocks and tiles alike at the full rate.

    Half as many MACs take two beats of a tile at once, for two columns in turn. Not so, but with
    windows, where a tile takes more cycles: there several MACs share an accumulator.

    For an FPGA it has one accumulator in each sub-matrix unit: there an adder is fast only with
    more registers than there are cycles between two tiles, which therefore come more slowly.
    """
    units, side = machine.rows // machine.unit_rows, machine.unit_rows
    shape = ArrayShape(
        pu_rows=units, pu_columns=units, rows=side, columns=side, lanes=machine.array_lanes
    )
    # As many units fewer, each of as many columns more, if there are several.
    across = max(units // _TURNS, 1)
    in_turn = replace(shape, pu_columns=across, columns=machine.rows // across)
    # A tile lasts so many cycles, and each accumulator has so many sums to serve meanwhile.
    clocks = machine.tile_beats * machine.lanes // machine.array_lanes
    arithmetic: Arithmetic
    if machine.arithmetic == "fp12":
        arithmetic = Fp12(formats=machine.formats)
    elif machine.arithmetic == "bf16":
        arithmetic = Bf16(first_behind=True)
    elif machine.arithmetic == "window":
        arithmetic = Window(
            formats=machine.formats, block=machine.block_beats * machine.lanes, interleave=_TURNS
        )
        shape = in_turn
    elif at(machine, "columns in turn", of="Exact") and clocks == _TURNS:
        arithmetic = Exact(
            formats=machine.formats,
            block=machine.block_beats * machine.lanes,
            accumulators=in_turn.unit.macs // _TURNS,
            carry_save=not machine.formats.has_integers,
            interleave=_TURNS,
        )
        shape = in_turn
    else:
        one = at(machine, "one accumulator", of="GemmEngine")
        shared = 1 if one else max(shape.unit.macs // clocks, 1)
        arithmetic = Exact(
            formats=machine.formats,
            block=machine.block_beats * machine.lanes,
            accumulators=shared,
            target=machine.target,
        )
    return SystolicArrayConfiguration(shape=shape, arithmetic=arithmetic)


class GemmEngineConfiguration(PartConfiguration, eq=False):
    """A `GemmEngine`, of the sizes of its machine."""

    decided_by = ("a_beats", "w_beats", "vector_beats")

    @classmethod
    def sizes(cls, machine: MachineConfiguration) -> dict[str, Any]:
        """The array, and the buffers."""
        return {"array": array_of(machine), **super().sizes(machine)}

    @property
    def array(self) -> SystolicArrayConfiguration:
        """GEMM engine configuration."""
        return array_of(self.machine)

    @property
    def base(self) -> str:
        return self.array.arithmetic.base("gemm_engine")

    feed = Part(OperandFeed)

    rows = Part(
        ResultRows,
        beats=lambda c: c.machine.vector_beats,
        under_way=lambda c: c.under_way,
    )

    def memory(self, side: Side, kind: str) -> MemoryRead:
        """Port to a memory: of the ``codes`` or the ``scales`` of a side."""
        bits = self.code_bits * LANES if kind == "codes" else _BYTE
        return MemoryRead(self.feed.depth(side, kind), self.machine.rows * bits)

    @property
    def code_bits(self) -> int:
        """Bits of a code in a buffer."""
        return _BYTE * self.machine.code_bytes

    @property
    def under_way(self) -> int:
        """Descriptors in flight: one enters while single tiles of those before it leave."""
        return self.array.tiles_under_way + 1

    @property
    def latency(self) -> int:
        """Cycles from a descriptor of one beat to its first row, without waiting."""
        return self.feed.latency + self.holds_beat + self.parts - 1 + self.array.latency

    @property
    def holds_beat(self) -> bool:
        """Whether what the buffers show waits in a register, from which the parts come."""
        return bool(at(self, "streams")) and self.parts > 1

    @property
    def parts(self) -> int:
        """Cycles in which the array takes a beat of the buffers, some of its lanes in each."""
        return self.machine.array_parts


class GemmEngine(Unit[GemmEngineConfiguration]):
    """Runs descriptors of products: each tile is a strip of `a` times a strip of `w`.

    Operands come a beat of each a cycle, across tiles and descriptors; only the array's own rules
    make them wait. A descriptor is done when its last row is written. Numbers of bfloat16 are two
    bytes each, and have no scales.

    Attributes
    ----------
    engine : In(EnginePort)
        The queue. Several descriptors may be in flight. The only error is an address outside a
        buffer; the engine then stands still.
    a_codes, a_scales, w_codes, w_scales : Out(MemoryRead)
        Buffers of operands: codes are bytes, of which formats with shorter codes use the low bits.
    result : Out(BufferWrite)
        The vector buffer.
    array_busy : Out(1)
        The array takes a beat.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "engine": In(EnginePort(descriptor_layout("gemm"))),
            **{
                f"{side}_{kind}": Out(config.memory(side, kind))
                for side in SIDES
                for kind in config.kinds
            },
            "result": Out(config.rows.write),
            "array_busy": Out(1),
        }

    def fill(self, m: Module, platform: object) -> None:
        feed, rows = OperandFeed(self.config.feed), ResultRows(self.config.rows)
        # What enters the array comes from slices that its reset clears too.
        array = SystolicArray(replace(self.config.array, gated=not at(self.config, "streams")))
        for name, unit in (("feed", feed), ("array", array), ("rows", rows)):
            place(m, platform, name, unit)
        self._feed(m, platform, feed, array)
        # A tile takes two cycles or more for each of its rows.
        tile_rows: Any = sliced(
            m,
            platform,
            "slice_rows",
            array.m_axis_c,
            halved=True,
            registers=at(self.config, "rows"),
            left_out={"tuser"},
        )
        registers = at(self.config, "result")
        into: Any = sliced(
            m, platform, "slice_result", rows.result, halved=True, registers=registers
        )
        m.d.comb += [
            feed.valid.eq(self.engine.valid),
            self.engine.ready.eq(feed.ready),
            feed.has_room.eq(rows.has_room),
            rows.enters.eq(feed.enters),
            rows.stop.eq(self.engine.stop),
            rows.s_axis.tdata.eq(tile_rows.tdata.as_value()),
            rows.s_axis.tvalid.eq(tile_rows.tvalid),
            rows.s_axis.tlast.eq(tile_rows.tlast),
            tile_rows.tready.eq(rows.s_axis.tready),
            self.engine.done.eq(rows.done),
        ]
        for unit in (feed, rows):
            m.d.comb += unit.descriptor.as_value().eq(self.engine.descriptor.as_value())
        noted(
            self.engine.error,
            "An error belongs to the oldest descriptor: one of the feed, which is ahead of the "
            "rows, waits until its descriptor is the only one.",
        )
        fault = rows.fault | (feed.fault & rows.is_only_one)
        m.d.comb += self.engine.error.eq(Mux(fault, ERRORS["address"], ERRORS["none"]))
        m.d.comb += joined(into, self.result)

    def _feed(self, m: Module, platform: object, feed: OperandFeed, array: SystolicArray) -> None:
        """Beats that the memories show to the array, part by part if it has fewer lanes."""
        parts, lanes = self.config.parts, self.config.array.shape.lanes
        part: Value = Const(0, 1)
        beat = self._show(m, feed)
        first: Value = beat.first
        lasts: list[Value] = [beat.last, beat.block_last]
        streams: dict[Side, Any] = {"a": array.s_axis_a, "w": array.s_axis_w}
        ready: Value = streams["a"].tready
        if at(self.config, "streams"):
            streams = {
                side: self._sliced(m, platform, side, port) for side, port in streams.items()
            }
            ready = streams["a"].tready & streams["w"].tready
        if parts > 1:
            part = Signal(range(parts), name="part_of_beat")
            following = truncated(m, "next_part", len(part), part + 1)
            is_last: Value = named(m, "is_last_part", 1, part.all())
            if at(self.config, "streams"):
                is_other = Signal(name="is_other_part", init=1)
                noted(
                    is_other, "Of two registers one chooses between many bits, this one goes far."
                )
                is_last = ~is_other
                update(m, is_other, (beat.valid & ready, ~following.all()))
            update(m, part, (beat.valid & ready, following))
            first = first & ~part.any()
            ready = ready & is_last
            lasts = [flag & is_last for flag in lasts]
        bits = self.config.code_bits
        for side in SIDES:
            for kind in self.config.kinds:
                name = f"{side}_{kind}"
                memory = getattr(self, name)
                m.d.comb += [
                    memory.en.eq(getattr(feed, f"{name}_en")),
                    memory.address.eq(getattr(feed, f"{name}_address")),
                ]
            width = self.config.array.arithmetic.code_width(side)
            codes = beat.data[f"{side}_codes"]
            count = len(codes) // bits
            low = [codes.word_select(number, bits)[:width] for number in range(count)]
            rows = [low[start : start + LANES] for start in range(0, count, LANES)]
            shown = [
                Cat(*(code for row in rows for code in row[lanes * number : lanes * (number + 1)]))
                for number in range(parts)
            ]
            tdata = streams[side].tdata
            m.d.comb += [
                Value.cast(tdata.codes).eq(chosen(m, f"{side}_part", part, shown)),
                *self._scales(tdata, beat.data, side),
                streams[side].tvalid.eq(beat.valid),
                streams[side].tlast.eq(lasts[0]),
            ]
            if self.config.feed.anchors is not None:
                m.d.comb += [
                    getattr(feed, f"{side}_entry").eq(getattr(self, f"{side}_scales").data),
                    Value.cast(tdata.anchors).eq(getattr(feed, f"{side}_anchors").as_value()),
                ]
        m.d.comb += [
            streams["a"].tuser.first.eq(first),
            streams["a"].tuser.block_last.eq(lasts[1]),
            beat.ready.eq(ready),
            self.array_busy.eq(beat.valid & ready),
        ]

    def _scales(self, tdata: Any, shown: Mapping[str, Value], side: Side) -> list[Any]:
        """Statements that hand a side's scales over, if there are any."""
        if not self.config.machine.scaled:
            return []
        return [Value.cast(tdata.scales).eq(shown[f"{side}_scales"])]

    def _show(self, m: Module, feed: OperandFeed) -> "_Beat":
        """Return the data of the memories, from registers if reading takes half a cycle."""
        data = {
            f"{side}_{kind}": getattr(self, f"{side}_{kind}").data
            for side in SIDES
            for kind in self.config.kinds
        }
        beat = _Beat(feed.beat_valid, feed.beat_ready, feed.first, feed.last, feed.block_last, data)
        if not self.config.holds_beat:
            return beat
        valid, ready = Signal(name="beat_is_held"), Signal(name="held_beat_goes")
        taken = Signal(name="beat_was_taken")
        noted(
            taken, "The memories lie far from here: they go on a cycle after their beat was taken."
        )
        flags = {name: getattr(beat, name) for name in ("first", "last", "block_last")}
        moves = named(m, "held_beat_moves", 1, ~valid | ready)
        comes: Value = feed.beat_valid & ~taken
        takes = Signal(name="beat_is_taken")
        if self.config.feed.later:
            comes = held(m, "beat_is_shown", comes & ~takes, reset=True)
        m.d.comb += [takes.eq(moves & comes), feed.beat_ready.eq(taken)]
        m.d.sync += [taken.eq(takes), valid.eq(takes | valid & ~ready)]
        flags, data = (
            {name: kept(m, moves, f"held_{name}", value) for name, value in each.items()}
            for each in (flags, data)
        )
        return _Beat(valid, ready, flags["first"], flags["last"], flags["block_last"], data)

    def _sliced(self, m: Module, platform: object, side: Side, port: Any) -> Any:
        """Return an input stream of the array behind a register slice.

        The array takes beats of both streams together, so both slices have room together.
        """
        entry = port.signature.create(path=(f"entry_{side}",))
        behind = sliced(m, platform, f"slice_{side}", entry)
        names = [name for name in port.signature.members if name != "tready"]
        m.d.comb += [
            *(Value.cast(getattr(port, one)).eq(Value.cast(getattr(behind, one))) for one in names),
            behind.tready.eq(port.tready),
        ]
        return entry


@dataclass(frozen=True)
class _Beat:
    """A beat of operands.

    Attributes
    ----------
    valid, ready : Value
        There is one; it goes.
    first, last, block_last : Value
        It starts a tile from 0, ends a tile, ends a block.
    data : Mapping
        Codes and scales of both sides.
    """

    valid: Value
    ready: Any
    first: Value
    last: Value
    block_last: Value
    data: Mapping[str, Value]
