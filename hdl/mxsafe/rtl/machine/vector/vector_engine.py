"""The engine that runs VECTOR descriptors of the machine: rows of vectors, buffer to buffer."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import DESCRIPTORS, ERRORS, FOLLOWING, REDUCTION, SWEEP
from mxsafe.rtl.arithmetic.bits import kept, named, noted, update
from mxsafe.rtl.machine.buffers.operand_writer import FIELDS, TARGETS, OperandWriter
from mxsafe.rtl.machine.dma.row_address_generator import RowAddressGenerator
from mxsafe.rtl.machine.part import PartConfiguration
from mxsafe.rtl.machine.ports import WIDTHS, BufferRead, BufferWrite, EnginePort
from mxsafe.rtl.machine.vector.beat_reader import BeatReader, BeatReaderConfiguration
from mxsafe.rtl.machine.vector.folded_chain import FoldedChain, FoldedChainConfiguration
from mxsafe.rtl.machine.vector.second_operand import SecondOperand
from mxsafe.rtl.machine.vector.vector_chain import VectorChain, VectorChainConfiguration
from mxsafe.rtl.stream.axi_stream import joined
from mxsafe.rtl.stream.block_converter import BlockConverter, BlockConverterConfiguration
from mxsafe.rtl.stream.number_rounder import NumberRounder, NumberRounderConfiguration
from mxsafe.rtl.stream.operand_packer import OperandPacker
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.timing import at, held
from mxsafe.rtl.unit import Part, Ports, Unit, place
from mxsafe.tables import MOST_IN_ROW
from mxsafe.validation import about

_Chain = VectorChain | FoldedChain
_DESCRIPTOR = DESCRIPTORS["vector"]
_WIDTHS = WIDTHS["vector"]
_NAMES = {each.name: each.enumeration for each in _DESCRIPTOR.own}


def _number(name: str, value: str) -> int:
    """The number that a field has for a name."""
    enumeration = _NAMES[name]
    assert enumeration is not None
    return enumeration[value]


_CLOCKS_OF_RESULT = 4
"""Between two results, if each enters an empty register and is written by turns."""
_LEAST_ROW = 2
"""Beats of the shortest memory of rows."""


class VectorEngineConfiguration(PartConfiguration, eq=False):
    """A `VectorEngine`, of the sizes of its machine.

    Raises
    ------
    ValueError
        If rows are reduced that are shorter than two beats.
    """

    shown_if_not_default = frozenset({"parts", "target"})

    def __post_init__(self) -> None:
        beats = self.machine.reduction_beats
        if self.machine.reductions and beats < _LEAST_ROW:
            raise ValueError(f"reduction_beats must be {_LEAST_ROW} or more, not {beats}")
        # The parts check what they are given.
        with about(depth="reduction_beats"):
            _ = self.folded
        with about(width="rows"):
            _ = self.machine.conversions and (self.converter, self.writer)

    @classmethod
    def sizes(cls, machine: MachineConfiguration) -> dict[str, Any]:
        """Beats, units, and the buffers that it writes."""
        return {
            "format": machine.conversion_format,
            "columns": machine.vector_lanes,
            "lanes": machine.lanes,
            "functions": machine.functions,
            "reductions": machine.reductions,
            "conversions": machine.conversions,
            "reduction_beats": machine.reduction_beats,
            "sweeps": machine.sweeps,
            "vector_beats": machine.vector_beats,
            "operand_beats": tuple(getattr(machine, f"{name}_beats") for name in TARGETS),
            "affine": machine.affine,
            "grade": machine.grade,
            "parts": machine.vector_parts,
            "target": machine.target,
        }

    @property
    def base(self) -> str:
        return f"{self.machine.conversion_format.name}_vector_engine"

    @property
    def latency(self) -> int:
        """Cycles from a descriptor to its first result, if rows are only copied."""
        folding = at(self.folded, "parts") + at(self.folded, "results") if self.folded else 0
        return self.reader.latency + 1 + self.chain.slices + folding

    @property
    def descriptor(self) -> data.StructLayout:
        """Layout of a descriptor above its header."""
        return data.StructLayout(_WIDTHS)

    @property
    def reader(self) -> BeatReaderConfiguration:
        """Configuration of the reader of both operands."""
        return BeatReaderConfiguration(
            beat_bits=32 * self.machine.rows,
            depth=self.machine.vector_beats,
            address_bits=_WIDTHS["x"],
            rows_bits=_WIDTHS["rows"],
            # Only the first parts of whole rows come faster than a beat in two cycles.
            ahead=2 if self.machine.vector_parts > 1 and at(self, "reads") else 3,
            later=bool(at(self, "reads")),
        )

    @property
    def is_slow(self) -> bool:
        """Whether results come so rarely that one need not enter as soon as another is taken."""
        return bool(at(self, "results")) and self.machine.vector_parts >= _CLOCKS_OF_RESULT

    @property
    def number_reader(self) -> BeatReaderConfiguration:
        """Configuration of the reader of gains and biases: a beat is for many beats of results."""
        # A bit more than an address has: biases stand behind the gains.
        # Those of a row come for each of its parts.
        more = self.machine.vector_parts.bit_length() - 1
        return replace(
            self.reader,
            address_bits=_WIDTHS["y"] + 1,
            rows_bits=_WIDTHS["rows"] + more,
            ahead=1,
        )

    feed = Part(SecondOperand, columns=lambda engine: engine.machine.rows)

    @property
    def chain(self) -> VectorChainConfiguration:
        """Vector chain configuration."""
        lanes = self.machine.rows // self.machine.vector_parts
        return self.part(
            VectorChainConfiguration,
            columns=lanes,
            functions="+".join(self.machine.functions),
            depth=self.machine.reduction_beats,
            dividers=max(min(4, lanes // 2), 1),
        )

    @property
    def folded(self) -> FoldedChainConfiguration | None:
        """The same for beats of several parts, if they have."""
        if self.machine.vector_parts == 1:
            return None
        return FoldedChainConfiguration(chain=self.chain, parts=self.machine.vector_parts)

    blocks = Part(
        BlockConverter,
        format=lambda c: c.machine.conversion_format,
        width=lambda c: c.machine.rows,
        shapes=lambda c: c.machine.conversions,
        paced=lambda c: bool(at(c, "results")) and c.machine.vector_parts > 1,
    )
    numbers = Part(NumberRounder, width=lambda c: c.machine.rows)

    @property
    def converter(self) -> BlockConverterConfiguration | NumberRounderConfiguration:
        """What results are converted by: to blocks with scales, or to numbers without."""
        return self.blocks if self.machine.scaled else self.numbers

    def build_converter(self) -> BlockConverter | NumberRounder:
        """The unit of that configuration: both have the same streams."""
        return BlockConverter(self.blocks) if self.machine.scaled else NumberRounder(self.numbers)

    packer = Part(
        OperandPacker,
        format=lambda c: c.machine.conversion_format,
        width=lambda c: c.machine.rows,
    )

    writer = Part(
        OperandWriter,
        packer=lambda c: c.packer,
        beats=lambda c: tuple(getattr(c.machine, f"{name}_beats") for name in TARGETS),
        later=lambda c: bool(at(c, "results")),
    )


class VectorEngine(Unit[VectorEngineConfiguration]):
    """Rows of the vector buffer through arithmetic, function, reduction and conversion.

    It runs one descriptor at a time, a beat a cycle where a unit does not need longer: a reduction
    takes a row two or three times (`Softmax`, `Normalise`). The next descriptor begins once all of
    the one before is written, and it takes `latency` cycles and those of the units in between until
    its first result.

    Attributes
    ----------
    queue : In(EnginePort)
        Descriptors. `ready` and `done` come together, when all is written. An `error` is an
        address outside a buffer: nothing is read or written there; or a piece of a row that does
        not follow the one before it, of which nothing is written.
    x, y : Out(BufferRead)
        Operands from the vector buffer; gains and biases come through `y` too.
    d : Out(BufferWrite)
        Results to it.
    out_codes, a_codes, w_codes, out_scales, a_scales, w_scales : Out(BufferWrite)
        With conversions: results to operand buffers, see `OperandWriter`.

    Notes
    -----
    Beats of x and y are read ahead of the results of beats before. So a descriptor must not read
    beats that it writes, but x and y may be where the results of the same beats go.
    """

    def ports(self) -> Ports:
        config = self.config
        size = config.machine.vector_beats, 32 * config.machine.rows
        writes = config.writer.write_ports if config.machine.conversions else {}
        return {
            "queue": In(EnginePort(config.descriptor)),
            "x": Out(BufferRead(*size)),
            "y": Out(BufferRead(*size)),
            "d": Out(BufferWrite(*size)),
            **{name: Out(port) for name, port in writes.items()},
        }

    def fill(self, m: Module, platform: object) -> None:
        command = self.queue.descriptor
        busy = Signal(name="is_busy")
        start = named(m, "starts", 1, self.queue.valid & ~busy & ~self.queue.stop)
        folded = self.config.folded
        chain = FoldedChain(folded) if folded else VectorChain(self.config.chain)
        place(m, platform, "chain", chain)
        self._control(m, chain, start)
        misplaced = self._sweep(m, start)
        outside = self._read(m, platform, chain, start)
        valid, last, beat, taken = self._masked(m, chain, start)
        sinks = [self._write_vectors(m, platform, start, valid, last, beat, outside)]
        codes_left: Value = Const(0, 1)
        if self.config.machine.conversions:
            sink, codes_left = self._convert(m, platform, start, valid, last, beat, outside)
            sinks.append(sink)
        _share(m, sinks, valid, taken)
        rows_left = Signal(_WIDTHS["rows"], name="rows_left", reset_less=True)
        update(m, rows_left, (start, command.rows), (taken & last, rows_left - 1))
        is_converted = named(m, "is_converted", 1, ~codes_left.any())
        done = named(m, "is_done", 1, busy & ~rows_left.any() & is_converted)
        if at(self.config, "results"):
            # The queue lies elsewhere.
            ends, done = done, Signal(name="descriptor_is_done")
            m.d.sync += done.eq(ends & ~done)
        m.d.sync += busy.eq((busy | start) & ~done)
        failed = named(m, "is_outside", 1, Cat(*outside).any())
        m.d.comb += [
            self.queue.ready.eq(done),
            self.queue.done.eq(done),
            self.queue.error.eq(Mux(misplaced, ERRORS["sweep"], Mux(failed, ERRORS["address"], 0))),
        ]

    def _sweep(self, m: Module, start: Value) -> Value:
        """Follow the sweeps of a row; return whether a piece of one comes where it must not."""
        if not self.config.machine.sweeps:
            return Const(0, 1)
        command = self.queue.descriptor
        following = Signal(len(command.sweep), name="next_sweep")
        reduction = Signal(len(command.reduction), name="swept_reduction", reset_less=True)
        beats = Signal(MOST_IN_ROW.bit_length(), name="swept_beats", reset_less=True)
        misplaced = Signal(name="sweep_is_misplaced")
        sweeps = named(m, "sweeps", 1, command.sweep.any())
        is_next = named(m, "sweep_is_next", 1, command.sweep == following)
        is_same = named(m, "reduction_is_same", 1, command.reduction == reduction)
        follows = named(m, "follows", 1, command.clear | (is_next & is_same))
        total = named(m, "swept_beats_now", None, Mux(command.clear, 0, beats) + command.beats)
        long = named(m, "row_is_too_long", 1, total > MOST_IN_ROW)
        wrong = named(m, "does_not_follow", 1, sweeps & (long | ~follows))
        kind, bits = Cat(command.sweep, command.reduction), len(following)
        behind: list[list[Value]] = [[Const(0, 1)] for _ in range(bits)]
        for name, steps in FOLLOWING.items():
            for here, later in pairwise((*steps, "whole")):
                number = SWEEP[here] | REDUCTION[name] << bits
                found = named(m, f"is_{here}_of_{name}", 1, kind == number)
                for bit in range(bits):
                    if SWEEP[later] >> bit & 1:
                        behind[bit].append(found)
        ended = Cat(Cat(found).any() for found in behind)
        after = named(m, "sweep_after", bits, Mux(command.ends, ended, command.sweep))
        with m.If(start):
            m.d.sync += [
                misplaced.eq(wrong),
                following.eq(after),
                reduction.eq(command.reduction),
                beats.eq(Mux(command.ends, 0, total)),
            ]
        return misplaced

    def _control(self, m: Module, chain: _Chain, start: Value) -> None:
        """Tell the units what to do."""
        command = self.queue.descriptor
        controls = Signal(self.config.chain.controls, name="controls", reset_less=True)
        noted(
            controls.as_value(),
            "From registers, for all lanes see them; the first beat comes later.",
        )
        if self.config.folded:
            m.d.comb += chain.beats.eq(kept(m, start, "beats", command.beats))
        if self.config.folded or self.config.chain.has_start:
            m.d.comb += chain.start.eq(held(m, "has_started", start, reset=True))
        with m.If(start):
            m.d.sync += [
                controls.operation.eq(command.arithmetic),
                controls.single.eq(command.y_mode == _number("y_mode", "numbers")),
                controls.function.eq(command.function),
                controls.reduction.eq(command.reduction),
                controls.causal.eq(command.causal),
                controls.affine.eq(command.affine),
                controls.before.eq(command.y),
                controls.parameter.eq(command.parameter),
            ]
            if self.config.chain.sweeps:
                m.d.sync += [
                    controls.sweep.eq(command.sweep),
                    controls.clear.eq(command.clear | ~command.sweep.any()),
                    controls.ends.eq(command.ends),
                ]
        m.d.comb += chain.controls.eq(controls)

    def _read(self, m: Module, platform: object, chain: _Chain, start: Value) -> list[Value]:
        """Read both operands; return what says that an address is outside."""
        command, columns = self.queue.descriptor, self.config.machine.rows
        feed = place(m, platform, "feed", SecondOperand(self.config.feed))
        numbers, constant = (
            named(m, f"y_is_{name}", 1, command.y_mode == _number("y_mode", name))
            for name in ("numbers", "constant")
        )
        kinds = ("add", "multiply", "axpy")
        has_y = Cat(command.arithmetic == _number("arithmetic", kind) for kind in kinds).any()
        whole = named(m, "beats_of_numbers", None, command.beats + (columns - 1))
        beats_y = Mux(numbers, whole >> columns.bit_length() - 1, Mux(constant, 1, command.beats))
        readers = {}
        starts = {"x": start, "y": start & has_y}
        beats = {"x": command.beats, "y": beats_y}
        for name in ("x", "y"):
            reader = place(m, platform, f"read_{name}", BeatReader(self.config.reader))
            m.d.comb += [
                reader.start.eq(named(m, f"{name}_starts", 1, starts[name])),
                reader.origin.eq(command[name]),
                reader.stride.eq(command[f"{name}_stride"]),
                reader.beats.eq(beats[name]),
                reader.rows.eq(command.rows),
                reader.stop.eq(self.queue.stop),
            ]
            readers[name] = reader
        kind = kept(m, start, "kind_of_y", Cat(numbers, constant))
        m.d.comb += [
            *joined(readers["x"].m_axis, chain.s_axis),
            feed.start.eq(start),
            feed.beats.eq(command.beats),
            Cat(feed.numbers, feed.constant).eq(kind),
            *joined(readers["y"].m_axis, feed.s_axis),
        ]
        operands: Any = sliced(
            m,
            platform,
            "slice_operands",
            feed.m_axis,
            halved=self.config.machine.vector_parts > 1,
            registers=at(self.config, "operands"),
        )
        connect(m, operands, chain.s_axis_operand)
        connect(m, readers["x"].read, flipped(self.x))
        others = self._read_numbers(m, platform, chain, start, whole)
        _share_port(m, self.y, [readers["y"], *others], later=bool(at(self.config, "reads")))
        return [reader.outside for reader in (*readers.values(), *others)]

    def _read_numbers(
        self, m: Module, platform: object, chain: _Chain, start: Value, whole: Value
    ) -> list[BeatReader]:
        """Read gains, and biases behind them, if norms have them; return the readers."""
        if not self.config.machine.affine:
            return []
        command = self.queue.descriptor
        beats = whole >> self.config.machine.rows.bit_length() - 1
        rows = Cat(Const(0, self.config.machine.vector_parts.bit_length() - 1), command.rows)
        origins = {"s_axis_gain": command.y, "s_axis_bias": command.y + beats}
        starts = named(m, "affine_starts", 1, start & command.affine)
        found = []
        for name, origin in origins.items():
            only_numbers = SecondOperand(replace(self.config.feed, only_numbers=True))
            kind = name.removeprefix("s_axis_")
            reader = place(m, platform, f"read_{kind}", BeatReader(self.config.number_reader))
            feed = place(m, platform, f"feed_{kind}", only_numbers)
            m.d.comb += [
                reader.start.eq(starts),
                reader.origin.eq(origin),
                # All rows have the same.
                reader.stride.eq(0),
                reader.beats.eq(beats),
                reader.rows.eq(rows),
                reader.stop.eq(self.queue.stop),
                feed.start.eq(start),
                feed.beats.eq(command.beats),
                *joined(reader.m_axis, feed.s_axis),
            ]
            # One of many numbers is chosen, and drives all lanes.
            numbers: Any = sliced(m, platform, f"slice_{kind}", feed.m_axis)
            connect(m, numbers, getattr(chain, name))
            found.append(reader)
        return found

    def _masked(self, m: Module, chain: _Chain, start: Value) -> tuple[Value, Value, Value, Signal]:
        """Results of lanes that count, from registers: whether there are, the last, the beat.

        The last of what is returned says that they are taken.
        """
        lanes = self.queue.descriptor.lanes
        columns = self.config.machine.rows
        counts = kept(m, start, "counts", Cat(lanes > lane for lane in range(columns)))
        noted(counts, "Lanes that count: the others put out 0.")
        taken = Signal(name="result_taken")
        valid = Signal(name="has_result")
        last = Signal(name="result_is_last", reset_less=True)
        beat = Signal(32 * self.config.machine.rows, name="result", reset_less=True)
        source = chain.m_axis
        words = [Mux(counts[lane], source.tdata[lane], 0) for lane in range(columns)]
        moves = named(m, "result_moves", 1, ~valid if self.config.is_slow else ~valid | taken)
        if self.config.is_slow:
            update(m, valid, (taken, 0))
        m.d.comb += source.tready.eq(moves)
        with m.If(moves):
            m.d.sync += [valid.eq(source.tvalid), last.eq(source.tlast), beat.eq(Cat(*words))]
        return valid, last, beat, taken

    def _write_vectors(
        self,
        m: Module,
        platform: object,
        start: Value,
        valid: Value,
        last: Value,
        beat: Value,
        outside: list[Value],
    ) -> "_Sink":
        """Offer results to the vector buffer, if they are for it."""
        command = self.queue.descriptor
        # A result is taken a cycle after it is written, if engines are in slices.
        walk = RowAddressGenerator(
            replace(self.config.reader.walk, later=bool(at(self.config, "results")))
        )
        place(m, platform, "walk_d", walk, reset=False)
        sink = _Sink(m, "vector", valid & command.to_vector, later=bool(at(self.config, "results")))
        offered = named(m, "vector_offered", 1, sink.wants & ~walk.outside)
        steps, ends_row = sink.takes, last
        if self.config.is_slow:
            # The place of the next result is known long before it comes.
            steps, ends_row = Signal(name="vector_is_written"), Signal(name="row_is_written")
            m.d.sync += [steps.eq(sink.takes), ends_row.eq(last)]
        m.d.comb += [
            sink.takes.eq(offered & self.d.ready),
            walk.start.eq(start),
            walk.origin.eq(command.d),
            walk.stride.eq(command.d_stride),
            walk.step.eq(steps),
            walk.ends_row.eq(ends_row),
            self.d.valid.eq(offered),
            self.d.address.eq(walk.address),
            self.d.halves.eq(0b11),
            self.d.data.eq(beat),
        ]
        outside.append(sink.wants & walk.outside)
        return sink

    def _convert(
        self,
        m: Module,
        platform: object,
        start: Value,
        valid: Value,
        last: Value,
        beat: Value,
        outside: list[Value],
    ) -> tuple["_Sink", Value]:
        """Offer results to the converter, if they are for it; return also how many rows it owes."""
        config, command = self.config, self.queue.descriptor
        converter: Any = config.build_converter()
        packer = OperandPacker(config.packer)
        writer = OperandWriter(config.writer)
        for name, unit in (("convert", converter), ("pack", packer), ("write", writer)):
            place(m, platform, name, unit)
        converts = named(m, "converts", 1, command.convert.any())
        sink = _Sink(m, "converter", valid & converts, later=bool(at(self.config, "results")))
        if len(config.machine.conversions) > 1:
            m.d.comb += converter.tiles.eq(command.convert == _number("convert", "tiles"))
        # A beat comes in as many cycles as it has parts.
        codes, beats = (
            sliced(
                m,
                platform,
                f"slice_{name}",
                unit.m_axis,
                halved=config.machine.vector_parts > 1,
                registers=at(config, "codes"),
            )
            for name, unit in (("codes", converter), ("beats", packer))
        )
        connect(m, codes, packer.s_axis)
        connect(m, beats, writer.s_axis)
        m.d.comb += [
            converter.s_axis.tdata.eq(beat),
            converter.s_axis.tlast.eq(last),
            converter.s_axis.tvalid.eq(sink.wants),
            sink.takes.eq(sink.wants & converter.s_axis.tready),
            writer.start.eq(start),
            writer.target.eq(command.target),
        ]
        for kind in config.kinds:
            origin, stride = FIELDS[kind]
            m.d.comb += [
                getattr(writer, f"{kind}_origin").eq(command[origin]),
                getattr(writer, f"{kind}_stride").eq(command[stride]),
            ]
        for name in config.writer.write_ports:
            port: Any = getattr(self, name)
            connect(m, getattr(writer, name), flipped(port))
        outside.append(writer.outside)
        left = Signal(_WIDTHS["rows"], name="codes_left", reset_less=True)
        row_written = held(
            m, "row_of_codes_is_written", writer.row_written, at(config, "codes"), reset=True
        )
        update(m, left, (start, Mux(converts, command.rows, 0)), (row_written, left - 1))
        return sink, left


class _Sink:
    """One of those that take each result, each when it can.

    Parameters
    ----------
    m : Module
    name : str
    offered : Value
        There is a result for it.
    later : bool
        It is known only from registers that it has taken a result: a cycle later.

    Attributes
    ----------
    wants : Signal
        It has not taken the result yet.
    takes : Signal
        It does; set by its owner.
    served : Signal
        It need not be waited for.
    keeps : Signal
        It has the result after this cycle.
    """

    def __init__(self, m: Module, name: str, offered: Value, *, later: bool) -> None:
        self.has = Signal(name=f"{name}_has_result")
        self.wants = named(m, f"{name}_wants", 1, offered & ~self.has)
        self.takes = Signal(name=f"{name}_takes")
        takes: Value = Const(0, 1) if later else self.takes
        noted(
            self.has,
            "A result goes to each of its sinks when that can take it, and is done with when all "
            "have it: this one has.",
        )
        self.served = named(m, f"{name}_is_served", 1, ~self.wants | takes)
        self.keeps = named(m, f"{name}_keeps", 1, self.has | self.takes)


def _share_port(m: Module, port: Any, readers: list[BeatReader], *, later: bool) -> None:
    """Let several readers read through one port, those in front of the list first.

    Where it is known only from registers who reads, they read by turns: what one wants stays until
    it is read, and the next one's turn comes then, or if there is nothing.
    """
    reads = [reader.read for reader in readers]
    wants: Value = Const(0, 1)
    chosen: list[Value]
    if later and len(reads) > 1:
        turn = Signal(len(reads), name="turn_of_reader", init=1)
        wants = named(m, "reader_wants", 1, (turn & Cat(read.valid for read in reads)).any())
        noted(
            turn,
            "Readers of one port take turns: what one wants stays until it is read. The next turn "
            "comes then, or if there is nothing to read.",
        )
        update(m, turn, (~wants | port.ready, Cat(turn[-1], turn[:-1])))
        turns = chosen = list(turn)
    else:
        turns, chosen = [], [read.valid for read in reads]
        for read in reads:
            turns.append(~wants)
            wants = wants | read.valid
    address: Value = reads[-1].address
    for is_chosen, read in zip(reversed(chosen[:-1]), reversed(reads[:-1]), strict=True):
        address = Mux(is_chosen, read.address, address)
    for is_turn, read in zip(turns, reads, strict=True):
        m.d.comb += [read.ready.eq(port.ready & is_turn), read.data.eq(port.data)]
    m.d.comb += [port.valid.eq(wants), port.address.eq(address), port.hold.eq(0)]


def _share(m: Module, sinks: list[_Sink], valid: Value, taken: Signal) -> None:
    """A result is taken once all have it."""
    m.d.comb += taken.eq(valid & Cat(sink.served for sink in sinks).all())
    for sink in sinks:
        m.d.sync += sink.has.eq(sink.keeps & ~taken)
