"""The systolic tensor array (paper, Fig. 5a, b and d) behind AXI4-Stream."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, delayed, gated_or, named, noted, truncated, update
from mxsafe.rtl.arithmetic.register_copy import RegisterCopy
from mxsafe.rtl.array.arithmetic import Arithmetic
from mxsafe.rtl.array.scale_distances import ScaleDistances
from mxsafe.rtl.array.shape import ArrayShape
from mxsafe.rtl.array.sub_matrix_unit import SubMatrixUnit, SubMatrixUnitConfiguration
from mxsafe.rtl.array.token import Token
from mxsafe.rtl.mac.operand import SIDES, Side
from mxsafe.rtl.mac.operand_decoder import LaneDecoder
from mxsafe.rtl.mac.special_codes import SpecialCodes
from mxsafe.rtl.stream.axi_stream import AxiStream, operand_beat, whole_bytes
from mxsafe.rtl.stream.beat_memory import BeatMemory, BeatMemoryConfiguration
from mxsafe.rtl.stream.code_unpacker import CodeUnpacker, operand_user
from mxsafe.rtl.unit import Configuration, Ports, Unit, place


class SystolicArrayConfiguration(Configuration):
    """A `SystolicArray`.

    Parameters
    ----------
    shape : ArrayShape
        Its size.
    arithmetic : Arithmetic
        `Fp12`, `Exact`, `Window` or `Bf16`.
    gated : bool
        `tready` of operands is low during a reset. What comes from registers that the same reset
        clears need not be kept away.

    Raises
    ------
    ValueError
        If they do not fit each other, or `tdata` of an operand stream would not be whole bytes, as
        AXI4-Stream demands (elements of 6 and 4 bits).
    """

    shown_if_not_default = frozenset({"gated"})

    shape: ArrayShape = field(default_factory=ArrayShape)
    arithmetic: Arithmetic
    gated: bool = True

    def __post_init__(self) -> None:
        self._set(arithmetic=self.arithmetic.settled(self.shape.unit))
        whole_bytes("shape", "s_axis_a", self.operand("a"))
        whole_bytes("shape", "s_axis_w", self.operand("w"))

    @property
    def base(self) -> str:
        return self.arithmetic.base("sta")

    @property
    def unit(self) -> SubMatrixUnitConfiguration:
        """A sub-matrix unit: rows leave as they complete, if all lines have time for theirs."""
        shape, arithmetic = self.shape, self.arithmetic
        unit = SubMatrixUnitConfiguration(shape=shape.unit, arithmetic=arithmetic)
        in_time = arithmetic.completes_rows(shape.unit) and shape.pu_rows <= unit.row_steps
        return unit if in_time else replace(unit, row_interval=shape.pu_rows)

    @property
    def row_interval(self) -> int:
        """Enabled cycles from one row of a sub-matrix unit's results to the next."""
        interval = self.unit.row_interval
        assert interval is not None
        return interval

    @property
    def tile_cycles(self) -> int:
        """Least number of cycles from the end of a tile to the end of the next."""
        turns = self.arithmetic.turns
        return -(-self.shape.rows * self.row_interval // turns) * turns

    @property
    def block_cycles(self) -> int:
        """Least number of cycles from the end of a block to the end of the next."""
        return max(self.arithmetic.block_cycles(self.shape.unit), self.arithmetic.turns)

    @property
    def entrance(self) -> int:
        """Registers between the streams and the first sub-matrix unit.

        On an FPGA whether a beat is taken would else reach the enables of registers all over it.
        """
        return int(self.arithmetic.runs_free)

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a tile to its first result row, without stalls."""
        in_queue = 2 if self.arithmetic.runs_free else 0
        return self.entrance + self.unit.latency + (self.shape.pu_columns - 1) + 1 + in_queue

    @property
    def last_row(self) -> int:
        """Cycles from the last beat of a tile to its last result row, without stalls."""
        shape = self.shape
        return self.latency + (shape.rows - 1) * self.row_interval + shape.pu_rows - 1

    @property
    def tiles_under_way(self) -> int:
        """Most tiles whose last beats are in and whose last row is not out.

        Without stalls there are never more: they end no closer than their rows leave.
        """
        return self.last_row // max(self.tile_cycles, self.block_cycles) + 1

    @property
    def queue(self) -> BeatMemoryConfiguration | None:
        """Where rows wait if the array runs free: room for all tiles in flight."""
        if not self.arithmetic.runs_free:
            return None
        rows = max(self.tiles_under_way * self.shape.array_rows, 2)
        # A power of two, so that addresses wrap by themselves.
        return BeatMemoryConfiguration(
            beat_bits=32 * self.shape.array_columns, depth=1 << (rows - 1).bit_length()
        )

    @property
    def properties(self) -> Mapping[str, Any]:
        room = {"tiles_under_way": self.tiles_under_way} if self.queue else {}
        return {"block_cycles": self.block_cycles, "row_interval": self.row_interval, **room}

    def operand(self, side: Side) -> data.StructLayout:
        """Layout of `tdata` of an operand stream."""
        shape = self.shape
        return operand_beat(
            code_width=self.arithmetic.code_width(side),
            scale_width=self.arithmetic.scale_width(side),
            anchor_width=self.arithmetic.anchor_width(side),
            lanes=shape.lanes,
            count=shape.array_rows if side == "a" else shape.array_columns,
        )


class SystolicArray(Unit[SystolicArrayConfiguration]):
    """An output-stationary array of sub-matrix units that multiplies matrices tile by tile.

    A beat of the two operand streams holds `lanes` values of k for every array row and column. It
    enters the sub-matrix unit in the corner first and reaches its neighbours a cycle later, so the
    edges are skewed; the caller never sees that. Beats are taken together, when both streams have
    one. Results leave one array row a beat, row 0 first, while the next tile computes.

    Lines of sub-matrix units have the rows of the array in turn: with four lines, row 5 is the
    second of the second line. The caller never sees that either.

    With `interleave` a beat goes to the first or to the second half of a MAC's lanes, in the phases
    of a round of two cycles. Beats of a block that follow each other share a round; its last one
    goes to the second half, and waits a cycle for that if it is by itself. With `Window` the halves
    are groups that work on different columns; with `Exact` the first beat waits for the second, and
    both are multiplied together, of the first columns when the second beat comes and of the others
    a cycle later.

    Beats wait in only two cases, so that nothing is ever lost: a block must end at least
    `block_cycles` after the block before it, and a tile at least as many cycles after the tile
    before it as the array has rows. A result that is not taken stops the clock enable of the whole
    array. For an FPGA nothing stops the array (`Arithmetic.runs_free`), and rows wait in a queue
    with places for `tiles_under_way` tiles. A tile has its place from its last beat until its last
    row has left, and its last beat also waits for a place.

    Attributes
    ----------
    s_axis_a_tdata : In(struct)
        ``codes``: for each array row `lanes` element codes; ``scales``: its E8M0 byte, the same in
        every beat of a block. A code for NaN or Inf counts as a NaN scale of its block. With `bf16`
        there are only codes, of bfloat16 numbers. With `Window` also
        ``anchors``: for each array row the largest scale byte that it has in the whole product, the
        same in every beat of a tile; see `mxsafe.model.window`.
    s_axis_a_tuser : In(2)
        Bit 0 `first`: the beat starts a tile, accumulators begin at +0. Without it a tile goes on
        from the results of the tile before it; in the middle of a tile it drops what came before.
        Bit 1 `block_last`: it ends a block.
    s_axis_a_tlast : In(1)
        The beat ends the tile (and its block).
    s_axis_w_tdata, s_axis_w_tlast : In
        The same for the array columns.
    s_axis_a_tuser.format, s_axis_w_tuser.format : In
        Only of an operand with a set of formats: the mode, which stays from the first to the last
        beat of a block; see `FormatSet`. Codes lie as in `CodeUnpacker`: where narrow ones are
        packed, a beat holds what the array takes in as many cycles, and a block takes whole beats
        of both streams.
    m_axis_c_tdata : Out(array of 32)
        One binary32 for each array column.
    m_axis_c_tlast : Out(1)
        Last row of the tile.
    m_axis_c_tuser : Out(2)
        What has gone wrong since the last reset. Bit 0 `out_of_step`: `tlast` of the two operand
        streams has disagreed, so they have lost step and no result can be trusted; the tile ends
        where `s_axis_a` says. Bit 1 `overlong`: a block has had more than ``ceil(block / lanes)``
        beats, and its sums may have wrapped (only with `Exact` and `Window`); or a
        tile more than ``inner / lanes`` with `Window`. Every row of the
        tile in which it happens is flagged, as are later ones and perhaps earlier ones.

    Notes
    -----
    Some paths through the handshakes are combinational: `m_axis_c_tready` reaches the clock enable
    of the whole array and both `s_axis_*_tready`; each operand stream's `tready` depends on the
    `tvalid` of the other, and `s_axis_*_tready` on `tlast`, `block_last` and `rst`. A source
    must not wait for `tready` before it shows `tvalid`, or the two operand streams wait for each
    other for ever. Where timing is tight, put a register slice (skid buffer) on `m_axis_c`, and one
    on each operand stream.

    For an FPGA `m_axis_c_tready` reaches counters and the memory of the queue, and neither the
    array nor `s_axis_*_tready`; sub-matrix units are reset a cycle later than the rest.
    """

    def ports(self) -> Ports:
        config = self.config
        results = data.ArrayLayout(32, config.shape.array_columns)
        errors = data.StructLayout({"out_of_step": 1, "overlong": 1})
        user_a, user_w = (
            operand_user(config.arithmetic.format_set(side), begins=side == "a") for side in SIDES
        )
        return {
            "s_axis_a": In(AxiStream(config.operand("a"), user=user_a)),
            "s_axis_w": In(AxiStream(config.operand("w"), user=user_w)),
            "m_axis_c": Out(AxiStream(results, user=errors)),
        }

    def fill(self, m: Module, platform: object) -> None:
        errors = self.m_axis_c.tuser
        if self.config.queue is None:
            en = named(m, "en", 1, ~self.m_axis_c.tvalid | self.m_axis_c.tready)
            noted(en, "A result that is not taken stops the whole array: nothing can overflow.")
        else:
            en = named(m, "en", 1, Const(1))
            errors = data.View(errors.shape(), Signal(errors.shape().size, name="errors"))
        streams = self._unpack(m, platform)
        turns = self.config.arithmetic.turns
        phase = Signal(range(turns), name="phase") if turns > 1 else None
        token = self._admit(m, en, streams, errors, phase)
        units = self._place_units(m, platform)
        self._enter_rows(m, platform, en, token, units, streams, phase)
        self._enter_columns(m, platform, en, units, streams)
        valid, row = self._collect(m, platform, en, units)
        moves: Value = en
        if self.config.queue is not None:
            moves, valid, row = self._queue_rows(m, platform, valid, row, errors)
        self._put_out(m, moves, valid, row)

    def _unpack(self, m: Module, platform: object) -> dict[Side, Any]:
        """The operand streams, a code in each place."""
        streams: dict[Side, Any] = {"a": self.s_axis_a, "w": self.s_axis_w}
        for side, stream in streams.items():
            format = self.config.arithmetic.format_set(side)
            if format is None or max(format.packed) == 1:
                continue
            shape = self.config.shape
            unpack = CodeUnpacker(
                format=format,
                lanes=shape.lanes,
                count=shape.array_rows if side == "a" else shape.array_columns,
                begins=side == "a",
            )
            place(m, platform, f"unpack_{side}", unpack)
            wiring.connect(m, wiring.flipped(stream), unpack.s_axis)
            streams[side] = unpack.m_axis
        return streams

    def _admit(
        self,
        m: Module,
        en: Signal,
        streams: dict[Side, Any],
        errors: data.View,
        phase: Signal | None,
    ) -> Token:
        """Take beats of both streams together, and hold those back that would come too early."""
        stream_a, stream_w = streams["a"], streams["w"]
        # Phases keep the ends of blocks apart by themselves.
        block_cycles = self.config.arithmetic.block_cycles(self.config.shape.unit)
        ends_tile = stream_a.tlast
        ends_block = named(m, "ends_block", 1, stream_a.tuser.block_last | ends_tile)
        take = Signal()
        first, early = self._phase(m, phase, en, take, streams, ends_block)
        # On an FPGA flags that a beat waits for are registers: so much follows them.
        registered = self.config.queue is not None
        for kind, ends, cycles in (
            ("block", ends_block, block_cycles),
            ("tile", ends_tile, self.config.tile_cycles),
        ):
            if kind == "tile" and cycles <= block_cycles:
                break  # a tile ends a block
            wait = noted(
                Signal(range(max(cycles, 2)), name=f"{kind}_wait"),
                "Counts down from the last end while the array runs; no end passes before it is 0.",
            )
            if registered:
                waits = Signal(name=f"{kind}_waits")
            else:
                waits = named(m, f"{kind}_waits", 1, wait.any())
            early.append(named(m, f"{kind}_too_early", 1, ends & waits))
            taken = named(m, f"{kind}_end_taken", 1, take & ends)
            less = truncated(m, f"{kind}_wait_less_1", len(wait), wait - 1)
            with m.If(taken):
                m.d.sync += wait.eq(cycles - 1)
                if registered:
                    m.d.sync += waits.eq(cycles > 1)
            with m.Elif(en & waits):
                m.d.sync += wait.eq(less)
                if registered:
                    m.d.sync += waits.eq(less.any())
        if registered:
            early.append(self._lacks_room(m, take, ends_tile))
        in_time = named(m, "is_in_time", 1, ~Cat(*early).any())
        works = en & in_time
        ready = named(m, "is_ready", 1, works & ~ResetSignal() if self.config.gated else works)
        open_ = noted(
            named(m, "is_open", 1, ready & stream_a.tvalid),
            "A beat of A and one of W are taken together, so tready of each waits for tvalid of "
            "the other. Whether they come too early shows once s_axis_a holds its beat.",
        )
        m.d.comb += [
            take.eq(open_ & stream_w.tvalid),
            stream_a.tready.eq(take),
            stream_w.tready.eq(open_),
        ]
        differ = named(m, "tlast_differ", 1, stream_a.tlast ^ stream_w.tlast)
        update(m, errors.out_of_step, (take & differ, 1))
        overlong: list[Value] = []
        longest = self.config.arithmetic.block_beats(self.config.shape.lanes)
        if longest is not None:
            overlong.append(self._overlong(m, take, "", stream_a.tuser.first, ends_block, longest))
        longest = self.config.arithmetic.tile_beats(self.config.shape.lanes)
        if longest is not None:
            # A tile may go on in the next one: only the first beat of another ends the count.
            begins, never = stream_a.tuser.first, Const(0, 1)
            overlong.append(self._overlong(m, take, "tile_", begins, never, longest))
        if overlong:
            several = len(overlong) > 1
            either = named(m, "sums_may_wrap", 1, Cat(*overlong).any()) if several else overlong[0]
            update(m, errors.overlong, (either, 1))

        token = Token(Signal(Token, name="token"))
        m.d.comb += [
            token.valid.eq(take),
            token.first.eq(first),
            token.block_last.eq(stream_a.tuser.block_last),
            token.last.eq(stream_a.tlast),
        ]
        return token

    def _phase(
        self,
        m: Module,
        phase: Signal | None,
        en: Signal,
        take: Signal,
        streams: dict[Side, Any],
        ends_block: Value,
    ) -> tuple[Value, list[Value]]:
        """Whether a beat starts a tile, and whether it has to wait for its phase.

        Beats in the phases of one round go to lanes whose products are added to the same
        sums, so they have to be of one block. Units are told of a beat that starts a tile while it
        waits, too.
        """
        stream_a, stream_w = streams["a"], streams["w"]
        if phase is None:
            return stream_a.tuser.first, []
        first = named(m, "first_comes", 1, stream_a.tuser.first & stream_a.tvalid)
        comes = named(m, "beat_comes", 1, stream_a.tvalid & stream_w.tvalid)
        closed, fresh = Signal(name="block_is_closed", init=1), Signal(name="sums_are_fresh")
        is_last = named(m, "is_last_phase", 1, phase == self.config.arithmetic.turns - 1)
        following = truncated(m, "next_phase", len(phase), phase + 1)
        goes_on = named(m, "phase_goes_on", 1, en & (phase.any() | ~closed | comes))
        noted(goes_on, "Sums go round while a block lasts; the first phase waits for the next one.")
        update(m, phase, (goes_on, Mux(is_last, 0, following)))
        update(m, closed, (take, ends_block))
        starts = named(m, "sums_start", 1, Mux(phase.any(), fresh, closed | first))
        noted(fresh, "A block starts in the first phase, or later if no beat came until then.")
        update(m, fresh, (en, starts & ~take))
        return first, [
            named(m, "ends_out_of_turn", 1, ends_block & ~is_last),
            named(m, "starts_out_of_turn", 1, first & ~starts),
        ]

    def _lacks_room(self, m: Module, take: Signal, ends_tile: Value) -> Value:
        """Whether a beat ends a tile whose rows have no place in the queue."""
        room = self.config.tiles_under_way
        free = Signal(range(room + 1), init=room, name="tiles_free")
        reserved = named(m, "tile_reserved", 1, take & ends_tile)
        row_leaves = named(m, "row_leaves", 1, self.m_axis_c.tvalid & self.m_axis_c.tready)
        freed = named(m, "tile_freed", 1, row_leaves & self.m_axis_c.tlast)
        is_full = Signal(name="is_full_of_tiles")
        noted(
            free,
            "Credits: a place in the queue of results is reserved when the end of a tile is taken, "
            "and is free again when its last row leaves. The array itself never stops.",
        )
        m.d.sync += [
            free.eq(free - reserved + freed),
            is_full.eq((free == reserved) & ~freed),
        ]
        return named(m, "tile_lacks_room", 1, ends_tile & is_full)

    def _overlong(
        self, m: Module, take: Signal, prefix: str, first: Value, ends: Value, longest: int
    ) -> Value:
        """Count the beats of a block or tile; return whether sums cannot hold this one."""
        beats = Signal(range(longest + 1), name=f"{prefix or 'block_'}beats")
        before = named(m, f"{prefix}beats_before", len(beats), Mux(first, 0, beats))
        full = named(m, f"{prefix}is_full", 1, before == longest)
        noted(full, "Sums hold no more beats: the count stays here, and the error is flagged.")
        update(m, beats, (take, Mux(ends, 0, before + ~full)))
        return named(m, f"{prefix}is_overlong", 1, take & full)

    def _place_units(self, m: Module, platform: object) -> list[list[SubMatrixUnit]]:
        """The sub-matrix units, line by line, with their neighbours' beats."""
        shape, unit = self.config.shape, self.config.unit
        units = [
            [SubMatrixUnit(unit) for _ in range(shape.pu_columns)] for _ in range(shape.pu_rows)
        ]
        for i, line in enumerate(units):
            for j, unit_ in enumerate(line):
                name = f"pu_{i}_{j}"
                if self.config.arithmetic.runs_free:
                    reset = self._late_reset(m, platform, f"reset_{i}_{j}")
                    place(m, platform, name, unit_, reset=reset, late=True)
                else:
                    place(m, platform, name, unit_)
                if j:
                    left = line[j - 1]
                    m.d.comb += Cat(unit_.token.as_value(), unit_.operand("a")).eq(
                        Cat(left.token_next.as_value(), left.operand("a", "_next"))
                    )
                if i:
                    m.d.comb += unit_.operand("w").eq(units[i - 1][j].operand("w", "_next"))
        return units

    def _late_reset(self, m: Module, platform: object, name: str) -> Value:
        """The reset a cycle later, from a register for what is near it.

        A beat that is taken when the reset is over reaches a unit a cycle later than that.
        """
        late = place(m, platform, name, RegisterCopy(), reset=False)
        m.d.comb += [late.en.eq(1), late.value.eq(ResetSignal())]
        return late.copy

    def _enter_rows(
        self,
        m: Module,
        platform: object,
        en: Signal,
        token: Token,
        units: list[list[SubMatrixUnit]],
        streams: dict[Side, Any],
        phase: Signal | None,
    ) -> None:
        """Give the first unit of each line its rows of a beat and the flags, a cycle later each."""
        offset = self._offset(m, streams)
        for i, line in enumerate(units):
            m.d.comb += [unit.en.eq(en) for unit in line]
            skew = self.config.entrance + i
            flags = delayed(m, en, f"token_{i}_skew", token.as_value(), skew, reset=True)
            # All lines complete their first row, then all their second: those are neighbours.
            rows = range(i, self.config.shape.array_rows, len(units))
            m.d.comb += line[0].token.as_value().eq(flags)
            entering = self._skewed(m, platform, "a", i, rows, en, line[0], streams)
            if phase is not None:
                entering = Cat(entering, delayed(m, en, f"phase_{i}_skew", phase, skew, reset=True))
            if offset is not None:
                entering = Cat(entering, delayed(m, en, f"offset_{i}_skew", offset, skew))
            m.d.comb += line[0].operand("a").eq(entering)

    def _offset(self, m: Module, streams: dict[Side, Any]) -> Signal | None:
        """Return the exponent offset of the block, of both modes together."""
        arithmetic = self.config.arithmetic
        parts: list[Value] = []
        for side, stream in streams.items():
            format = arithmetic.format_set(side)
            if format is None or not any(format.exponents):
                continue
            width = max(format.exponents).bit_length()
            # A mode that is none stands for the first member.
            lacks = [
                (named(m, f"is_mode_{mode}_{side}", 1, stream.tuser.format == mode), emax)
                for mode, emax in enumerate(format.exponents)
                if mode and emax != format.exponents[0]
            ]
            first = ~Cat(gate for gate, _ in lacks).any()
            if format.exponents[0]:
                lacks.append((named(m, f"is_first_mode_{side}", 1, first), format.exponents[0]))
            choices = ((gate, Const(emax, width)) for gate, emax in lacks if emax)
            parts.append(gated_or(m, f"emax_{side}", choices))
        if not parts:
            return None
        return named(m, "scale_offset", arithmetic.offset_width, sum(parts[1:], parts[0]))

    def _enter_columns(
        self,
        m: Module,
        platform: object,
        en: Signal,
        units: list[list[SubMatrixUnit]],
        streams: dict[Side, Any],
    ) -> None:
        """Give the first unit of each column its columns of a beat, a cycle later each."""
        width = self.config.shape.columns
        for j, unit in enumerate(units[0]):
            columns = range(j * width, (j + 1) * width)
            entering = self._skewed(m, platform, "w", j, columns, en, unit, streams)
            m.d.comb += unit.operand("w").eq(entering)

    def _skewed(
        self,
        m: Module,
        platform: object,
        side: Side,
        line: int,
        members: range,
        en: Signal,
        unit: SubMatrixUnit,
        streams: dict[Side, Any],
    ) -> Value:
        """Operands and scales of some rows or columns of a beat, at least `line` cycles later.

        Decoders and guards stand behind the registers: they see a code when its flags are there.
        """
        tdata, token = streams[side].tdata, unit.token
        codes = Cat(*(tdata.codes[member].as_value() for member in members))
        parts = [codes]
        if self.config.arithmetic.scale_width(side):
            parts += [tdata.scales[member] for member in members]
        before_anchors = sum(map(len, parts))
        if self.config.arithmetic.anchor_width(side):
            parts += [tdata.anchors[member] for member in members]
        skew = self.config.entrance + line
        beat = delayed(m, en, f"{side}_{line}_skew", Cat(*parts), skew)
        codes, scales = beat[: len(codes)], beat[len(codes) : before_anchors]
        anchors = beat[before_anchors:]
        mode = None
        if self.config.arithmetic.format_set(side) is not None:
            mode = delayed(m, en, f"{side}_{line}_mode_skew", streams[side].tuser.format, skew)
        arithmetic = self.config.arithmetic
        if arithmetic.turns == 1:
            operands = self._decoded(m, platform, side, str(line), codes, mode)
        elif side == "a":
            present = codes & token.valid.replicate(len(codes))
            entered = named(m, f"a_{line}_or_0", len(codes), present)
            noted(entered, "Products of lanes without a beat are added, too.")
            if arithmetic.groups == 1:
                begins = self._first_phase(m, f"a_{line}", en, unit.phase)
                earlier = delayed(m, begins, f"a_{line}_earlier", entered, 1)
                entered = _joined(earlier, entered, len(members))
            decoded = self._decoded(m, platform, side, str(line), entered, mode)
            operands = decoded.replicate(arithmetic.groups)
        elif arithmetic.groups == 1:
            operands = self._columns_of_rounds(m, platform, line, codes, en, unit.phase)
        else:
            operands = self._columns_in_turn(m, platform, line, codes, en, unit.phase)
        # To what stands behind the edge a code for NaN or Inf is a NaN scale of its block.
        guard = self.config.arithmetic.guard(
            side, lanes=self.config.shape.lanes, count=len(members)
        )
        if guard is not None:
            special = place(m, platform, f"special_{side}_{line}", SpecialCodes(guard))
            if guard.clocked:
                m.d.comb += [
                    special.en.eq(en),
                    special.valid.eq(token.valid),
                    special.first.eq(token.first),
                ]
            m.d.comb += [
                special.codes.as_value().eq(codes),
                special.scales.as_value().eq(scales),
            ]
            scales = special.guarded.as_value()
        distances = self.config.arithmetic.distances(len(members))
        if distances is None:
            return Cat(operands, scales)
        below = place(m, platform, f"distances_{side}_{line}", ScaleDistances(distances))
        m.d.comb += [
            below.en.eq(en),
            below.valid.eq(token.valid),
            below.first.eq(token.first),
            below.ends.eq(token.block_last | token.last),
            below.scales.as_value().eq(scales),
            below.anchors.as_value().eq(anchors),
        ]
        return Cat(operands, below.distances.as_value(), below.guarded.as_value())

    def _first_phase(self, m: Module, name: str, en: Signal, phase: Value) -> Value:
        """Enable of what keeps the first beat of a round until the second is there."""
        return named(m, f"{name}_begins_round", 1, en & ~phase)

    def _columns_of_rounds(
        self,
        m: Module,
        platform: object,
        line: int,
        codes: Value,
        en: Signal,
        phase: Value,
    ) -> Value:
        """Operands of two beats together, of the columns whose turn it is.

        The first columns have theirs when the second beat comes, the others a cycle later.
        """
        half = len(codes) // 2
        begins = self._first_phase(m, f"w_{line}", en, phase)
        earlier = delayed(m, begins, f"w_{line}_earlier", codes, 1)
        later = delayed(m, en, f"w_{line}_later", codes[half:], 1)
        count = self.config.unit.row_steps
        turns = [
            _joined(earlier[half:], later, count),
            _joined(earlier[:half], codes[:half], count),
        ]
        entering = chosen(m, f"w_{line}_of_turn", phase, turns)
        return self._decoded(m, platform, "w", str(line), entering, None)

    def _columns_in_turn(
        self,
        m: Module,
        platform: object,
        line: int,
        codes: Value,
        en: Signal,
        phase: Value,
    ) -> Value:
        """Operands of columns for each group of lanes: those whose turn it is with its beat."""
        turns = self.config.arithmetic.turns
        width = len(codes) // turns
        decoded = []
        for turn in range(turns):
            # In turn after turn a group has its beat: a cycle longer ago each.
            waiting = delayed(m, en, f"w_{line}_turn_{turn}", codes.word_select(turn, width), turn)
            decoded.append(self._decoded(m, platform, "w", f"{line}_{turn}", waiting, None))
        groups = []
        for group in range(turns):
            in_phase = [decoded[(number - group) % turns] for number in range(turns)]
            groups.append(chosen(m, f"w_{line}_group_{group}", phase, in_phase))
        return Cat(*groups)

    def _decoded(
        self,
        m: Module,
        platform: object,
        side: Side,
        line: str,
        codes: Value,
        mode: Value | None,
    ) -> Value:
        """Operands of codes, decoded here once for all units of a line or column."""
        arithmetic = self.config.arithmetic
        decoder = arithmetic.decoder(side, len(codes) // arithmetic.code_width(side))
        if decoder is None:
            return codes
        decode = place(m, platform, f"decode_{side}_{line}", LaneDecoder(decoder))
        m.d.comb += decode.codes.as_value().eq(codes)
        if mode is not None:
            m.d.comb += decode.mode.eq(mode)
        return decode.operands.as_value()

    def _collect(
        self, m: Module, platform: object, en: Signal, units: list[list[SubMatrixUnit]]
    ) -> tuple[Value, Value]:
        """Pick up whole array rows as the sub-matrix units show them.

        A line shows its rows a cycle after the line above it, and takes at least as long from row
        to row as there are lines: so no two lines of a column are ever done together.
        """
        shape = self.config.shape
        columns = []
        for j in range(shape.pu_columns):
            shown = ((line[j].done, line[j].results.as_value()) for line in units)
            row = gated_or(m, f"row_{j}", shown)
            noted(
                row,
                "At most one unit of a column is done: a line shows its rows a cycle after the "
                "line above, at least as many cycles apart as there are lines. So an OR is "
                "enough.",
            )
            columns.append(delayed(m, en, f"c_{j}_skew", row, shape.pu_columns - j))
        done = named(m, "is_done", 1, Cat(line[-1].done for line in units).any())
        noted(done, "The last column is done last; the others are delayed until it is.")
        if self.config.arithmetic.runs_free:
            late = self._late_reset(m, platform, "reset_results")
            done = noted(
                named(m, "is_done_since_reset", 1, done & ~late),
                "The reset reaches the units a cycle later: until then they say what was before.",
            )
        return delayed(m, en, "c_valid", done, 1, reset=True), Cat(*columns)

    def _queue_rows(
        self, m: Module, platform: object, valid: Value, row: Value, errors: data.View
    ) -> tuple[Value, Value, Value]:
        """Let rows wait; return whether the oldest may leave, whether there is one, and itself."""
        queue = self.config.queue
        assert queue is not None
        memory = place(m, platform, "queue", BeatMemory(queue))
        waiting = Signal(range(queue.depth + 1), name="rows_waiting")
        into = Signal(range(queue.depth), name="write_address")
        out_of = Signal(range(queue.depth), name="read_address")
        shows = Signal(name="shows_row")
        moves = named(m, "output_moves", 1, ~shows | self.m_axis_c.tready)
        reads = named(m, "reads", 1, waiting.any() & moves)
        noted(shows, "The memory shows a row a cycle after it is read, and until the next one is.")
        noted(
            self.m_axis_c.tuser.as_value(),
            "Taken with each row: the array goes on, and what is beside a row on offer must stay.",
        )
        m.d.comb += [
            memory.write_en.eq(valid),
            memory.write_address.eq(into),
            memory.write_data.eq(row),
            memory.read_en.eq(reads),
            memory.read_address.eq(out_of),
        ]
        m.d.sync += waiting.eq(waiting + valid - reads)
        update(m, into, (valid, into + 1))
        update(m, shows, (moves, reads))
        with m.If(reads):
            m.d.sync += [out_of.eq(out_of + 1), self.m_axis_c.tuser.eq(errors)]
        return moves, shows, memory.read_data

    def _put_out(self, m: Module, moves: Value, valid: Value, row: Value) -> None:
        """Show a row, and the end of its tile."""
        count = self.config.shape.array_rows
        row_number = Signal(range(max(count, 2)))
        last = named(m, "is_last_row", 1, row_number == count - 1)
        next_row = truncated(m, "next_row", len(row_number), row_number + 1)
        row_taken = named(m, "row_taken", 1, moves & valid)
        update(m, row_number, (row_taken, Mux(last, 0, next_row)))
        m.d.comb += [
            self.m_axis_c.tdata.as_value().eq(row),
            self.m_axis_c.tvalid.eq(valid),
            self.m_axis_c.tlast.eq(last),
        ]


def _joined(earlier: Value, later: Value, count: int) -> Value:
    """Codes of two beats, for each of `count` rows or columns those of both."""
    width = len(later) // count
    parts = (
        Cat(earlier.word_select(member, width), later.word_select(member, width))
        for member in range(count)
    )
    return Cat(*parts)
