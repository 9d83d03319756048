"""Normalisation of rows that come several times: sums, squares, results."""

from collections.abc import Mapping
from typing import Any, Literal

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import kept, named, update
from mxsafe.rtl.arithmetic.carry_save import carry_save
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd, MultiplyAddConfiguration
from mxsafe.rtl.vector.normalise_row import NormaliseRow
from mxsafe.rtl.vector.row_lane import RowLane, lane_ports
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.tables import MOST_IN_ROW, Grade
from mxsafe.tables.normalise import MOST_VALUES
from mxsafe.validation import Alike, AlikePower, PowerOfTwo


class NormaliseCoreConfiguration(Configuration):
    """A `NormaliseCore`.

    Parameters
    ----------
    lanes : int
        Values in a beat, a power of two.
    along : {"lanes", "beats"}
        A row takes all lanes of its beats, or each lane is a row.
    centre : bool
        Whether the mean is subtracted.
    gain : bool
        Whether results are multiplied by gains.
    bias : bool
        Whether biases are added.
    depth : int
        Beats of the longest row, a power of two.
    statistics : bool
        Whether means and reciprocal deviations leave too, for a backward pass.
    optional : bool
        With `centre`: whether an input says if the mean is subtracted.
    sums : bool
        With `centre`, along beats: whether an input says that rows are added up instead.
    sweeps : bool
        Along beats: whether rows can come in sweeps, see `SWEEP`.
    dividers : int
        Units that find what rows share, each for as many of the rows that lie side by side.
    registered : bool
        Whether results leave from registers even without gain and bias: for a unit behind that has
        no time to wait for them.
    shared : bool
        Whether lanes and sums do something else too.
    grade : {"compact", "fine"}
        How exact results are, see `mxsafe.model.normalisation.normalise`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.

    Raises
    ------
    ValueError
        If a parameter is not as above, or the longest row has more than 8,192 values.
    """

    lanes: AlikePower = 16
    along: Literal["lanes", "beats"] = "lanes"
    centre: bool = True
    gain: bool = False
    bias: bool = False
    depth: PowerOfTwo = 512
    statistics: bool = False
    optional: bool = False
    sums: bool = False
    sweeps: bool = False
    dividers: Alike = 1
    registered: bool = False
    shared: bool = False
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        _ = self.lane  # which checks what it is given
        if self.rows % self.dividers:
            raise ValueError(
                f"dividers must divide the {self.rows} rows side by side, not {self.dividers}"
            )
        most = MOST_VALUES // (self.lanes // self.rows)
        if self.depth > most:
            raise ValueError(
                f"depth must be at most {most} for rows of {MOST_VALUES} values, not {self.depth}"
            )

    @property
    def latency(self) -> int:
        """Cycles from the first beat of a row to its first result, without stalls, at most."""
        wait = self.lane.square_latency + self.sum_latency + self.row.latency
        return (self.passes - 1) * (self.depth + wait) + self.stages

    @property
    def stages(self) -> int:
        """Enabled cycles from a beat of the last pass to its results."""
        affine = self.affine.latency if self.affine else 0
        return self.lane.result_latency + self.holds_results + affine

    @property
    def holds_results(self) -> bool:
        """Whether results before gain and bias wait in registers."""
        return self.registered or self.affine is not None

    @property
    def holds_factors(self) -> bool:
        """Whether gains and biases wait in registers: what all lanes share drives many gates."""
        return self.rows > 1

    @property
    def gain_stage(self) -> int:
        """Enabled cycles from a beat of the last pass until its gains are taken."""
        return self.lane.result_latency + (not self.holds_factors)

    @property
    def affine(self) -> MultiplyAddConfiguration | None:
        """Configuration of what applies gain and bias, behind registers of results."""
        if not self.gain and not self.bias:
            return None
        return self.part(
            MultiplyAddConfiguration,
            multiply=self.gain,
            add=self.bias,
            multiply_stages=at(self, "multiply_stages"),
            late_addend=True,
        )

    @property
    def sum_latency(self) -> int:
        """Enabled cycles from squares to their sum: several are added up before a register.

        For an FPGA that register is always there.
        """
        return int(self.lanes > self.rows or at(self, "squares") > 0)

    @property
    def settling(self) -> int:
        """Cycles from squares to the sum with them."""
        return self.sum_latency + self.row.settling

    @property
    def rows(self) -> int:
        """Rows side by side."""
        return 1 if self.along == "lanes" else self.lanes

    @property
    def passes(self) -> int:
        """How often a row comes."""
        return 2 + self.centre

    lane = Part(RowLane, softmax=lambda core: core.shared)

    @property
    def stored_bits(self) -> int:
        """If it is `shared`: bits of a row that can be kept for something else."""
        return self.row.stored_bits

    @property
    def token(self) -> data.StructLayout:
        """Purpose of a beat, if any, and whether it ends its pass.

        In sweeps also whether it ends a row that has no results.
        """
        purposes = ("values", "squares", "results", "last", *(["empty"] if self.sweeps else []))
        return data.StructLayout(dict.fromkeys(purposes, 1))

    row = Part(
        NormaliseRow,
        rows=lambda c: c.rows // c.dividers,
        span=lambda c: c.lanes // c.rows,
        depth=lambda c: MOST_IN_ROW if c.sweeps else c.depth,
    )

    replay = Part(
        RowReplay,
        beat_bits=lambda core: 32 * core.lanes,
        passes=lambda core: core.passes,
        summary_bits=lambda core: EXPONENT_BITS * core.rows,
        may_skip=lambda core: core.optional,
        may_stop=lambda core: core.sums,
        may_stream=lambda core: core.sweeps,
    )


class NormaliseCore(Unit[NormaliseCoreConfiguration]):
    """Rows that come two or three times to rows with mean 0 and mean square 1.

    The first pass adds up values (with a mean), the next squares of differences, the last gives
    results; each takes a beat a cycle. Between passes the unit waits until `NormaliseRow` has what
    the next one needs, up to `NormaliseRowConfiguration.latency` cycles; after the last it does
    not. Sums are exact, so their order does not matter; the model is
    `mxsafe.model.normalisation.normalise`, which also says how large errors are.

    Attributes
    ----------
    centred : In(1)
        If a mean is `optional`: it is subtracted. Without, there is no first pass. Steady.
    summing : In(1)
        With `sums`: rows are added up, see `mxsafe.model.window_sum`. They come once, `centred` is
        set, and a row gives one beat. Steady.
    sweep : In(struct)
        With `sweeps`, see `SWEEP`; of the largest value's sweep it is told `looked` alone.
    looked : In(1)
        With `sweeps`: the sweep for the largest value has ended. A beat says so.
    lanes_en : Out(1)
        Clock enable of lanes (`RowLane`), which are outside.
    lane_inputs, lane_outputs : Out(array), In(array)
        What they are given, and what they give.
    other : In(1)
        If it is `shared`: something else is done. Then there are no beats; steady.
    adds, clears : In(1)
        As well, for something else: squares, as lanes give them, are to be added; sums are to
        become 0.
    stored, stores : In(stored_bits), In(rows)
        As well, for something else: bits to keep, and for which rows.
    held : Out(array)
        As well: what is kept of each row, until there is a beat.
    totals : Out(array)
        As well: sums, `settling` cycles after what they are of.
    epsilon : In(32)
        A binary32 that is added to variances; steady. A subnormal counts as 0, its sign as none.
    s_axis_tdata : In(array)
        `lanes` binary32 of one row, or of as many rows.
    s_axis_tlast : In(1)
        The beat ends its pass.
    s_axis_tuser : In(struct)
        As `RowReplay` has it. ``number``: which pass, from 0. ``summary``: the exponent field of
        the largest value of each row, 1 for subnormals. Results of ``overlong`` rows are NaN.
    s_axis_gain_tdata, s_axis_bias_tdata : In(array)
        Gains and biases of a beat of results: one for each lane, or where each lane is a row one
        for all. A beat is taken for each beat of results, when it is needed; there is no `tlast`.
    m_axis_tdata : Out(array)
        Results, as the values came.
    m_axis_tlast : Out(1)
        The beat ends its row.
    m_axis_statistics_tdata : Out(array)
        With `statistics`, of each row side by side ``mean``, if there is one, and
        ``reciprocal_deviation``, binary32 numbers: a beat before the first results of a row, or of
        the rows of all lanes. The next row begins when it has been taken.
    m_axis_statistics_tlast : Out(1)
        Always set.

    Notes
    -----
    All stages move on together, if the last one can and there are the gain and bias that are due:
    `m_axis_tready` and `tvalid` of gains and biases reach every `tready` combinationally.

    Squares of the lanes of a row are added up without carries, to two numbers; `NormaliseRow` adds
    those to its sum. Sums of two and two lanes with a register behind each, as before, take 236
    bits of registers more. Gain and bias are applied in binary32 (`MultiplyAdd`), each rounded
    once. A machine has a multiplier and an adder in each lane, which do that behind a core without
    them.
    """

    def ports(self) -> Ports:
        config = self.config
        beat = data.ArrayLayout(32, config.lanes)
        factors = data.ArrayLayout(32, config.lanes // config.rows)
        return {
            **({"centred": In(1)} if config.optional else {}),
            **({"summing": In(1)} if config.sums else {}),
            **({"sweep": In(SWEEP), "looked": In(1)} if config.sweeps else {}),
            "epsilon": In(32),
            "s_axis": In(AxiStream(beat, user=config.replay.flags)),
            **({"s_axis_gain": In(AxiStream(factors, last=False))} if config.gain else {}),
            **({"s_axis_bias": In(AxiStream(factors, last=False))} if config.bias else {}),
            "m_axis": Out(AxiStream(beat)),
            **(
                {
                    "m_axis_statistics": Out(
                        AxiStream(data.ArrayLayout(config.row.of_row, config.rows))
                    )
                }
                if config.statistics
                else {}
            ),
            **lane_ports(config.lane.of_rows, config.lanes),
            **(
                {
                    "other": In(1),
                    "adds": In(1),
                    "clears": In(1),
                    "totals": Out(data.ArrayLayout(config.row.sum_bits, config.rows)),
                    "stored": In(config.stored_bits),
                    "stores": In(config.rows),
                    "held": Out(data.ArrayLayout(config.stored_bits, config.rows)),
                }
                if config.shared
                else {}
            ),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        shared = [NormaliseRow(config.row) for _ in range(config.dividers)]
        for number, unit in enumerate(shared):
            place(m, platform, f"of_row_{number}" if number else "of_row", unit)
            if config.optional:
                m.d.comb += unit.centred.eq(self.centred)
            if config.sums:
                m.d.comb += unit.summing.eq(self.summing)
            if config.sweeps:
                m.d.comb += unit.begins.eq(self.sweep.begins)
            if config.shared:
                start, end = number * config.row.rows, (number + 1) * config.row.rows
                m.d.comb += [
                    unit.other.eq(self.other),
                    unit.clear.eq(self.clears),
                    unit.stored.eq(self.stored),
                    unit.stores.eq(self.stores[start:end]),
                    *(self.held[start + row].eq(kept) for row, kept in enumerate(unit.held)),
                ]
        en = Signal(name="en")
        more: Value = Const(0, 1)  # a beat that is no result of its lanes
        if config.sums or config.sweeps:
            more = Signal(name="has_beat_more")
        passed = Signal(name="empty_row_has_passed")
        result = Signal(name="result_is_there")
        first = self._take(m, en, shared, more, passed, result)
        tokens = self._tokens(m, en, first, more)
        self._end(m, tokens[-1], passed, result)
        m.d.comb += self.lanes_en.eq(en)
        factors = {
            name: [Value.cast(factor) for factor in getattr(self, f"s_axis_{name}").tdata]
            for name in ("gain", "bias")
            if getattr(config, name)
        }
        if config.holds_factors:
            factors = {
                name: [kept(m, en, name, factor) for factor in each]
                for name, each in factors.items()
            }
        for number in range(config.lanes):
            self._connect(m, self.lane_inputs[number], number, shared, tokens)
            found: Value = self.lane_outputs[number].result
            if config.holds_results:
                found = kept(m, en, f"result_{number}", found)
            if config.affine:
                own = {name: each[number % len(each)] for name, each in factors.items()}
                found = self._scaled(m, platform, en, number, found, own)
            if config.sums:
                unit, row = self._of_lane(number, shared)
                found = Mux(more, unit.sums[row], found)
            m.d.comb += self.m_axis.tdata[number].eq(found)
        self._add_up(m, en, list(self.lane_outputs), shared, tokens)

    def _end(self, m: Module, token: data.View, passed: Signal, result: Signal) -> None:
        """Drive flags of the last stage: the end of a row without results, or a result."""
        if self.config.sums or self.config.sweeps:
            m.d.comb += result.eq(token.results)
        if self.config.sweeps:
            m.d.comb += passed.eq(token.empty)

    def _of_lane(self, number: int, shared: list[NormaliseRow]) -> tuple[NormaliseRow, int]:
        """The unit that knows the row of a lane, and which of its rows that is."""
        row = number // (self.config.lanes // self.config.rows)
        return shared[row // self.config.row.rows], row % self.config.row.rows

    def _take(
        self,
        m: Module,
        en: Signal,
        shared: list[NormaliseRow],
        more: Value,
        passed: Value,
        result: Value,
    ) -> data.View:
        """Take beats, but none of a pass before there is what it needs; say what one is for."""
        config = self.config
        flags = self.s_axis.tuser
        waiting = Signal(self.config.dividers, name="waits_for_row")
        dones = Cat(unit.done for unit in shared)
        results = named(m, "is_result_pass", 1, flags.number == self.config.passes - 1)
        blocked: Value = waiting
        done: Value = dones
        if self.config.dividers > 1:
            blocked = named(m, "some_wait", 1, waiting.any())
            left = named(m, "some_go_on", 1, (waiting & ~dones).any())
            done = named(m, "all_are_done", 1, blocked & ~left)
        if self.config.statistics:
            given = self._statistics(m, shared, done, results)
            blocked = named(m, "is_blocked", 1, blocked | given)
        summing: Value = self.summing if config.sums else Const(0, 1)
        if config.sums or config.sweeps:
            looked = self.looked if config.sweeps else Const(0, 1)
            owed = named(m, "beat_is_owed", 1, (done & summing) | passed | looked)
            blocked = self._give_more(m, owed, blocked.any(), more, result)
        ready = named(m, "is_ready", 1, en & ~blocked & ~ResetSignal())
        taken = named(m, "beat_taken", 1, ready & self.s_axis.tvalid)
        squares = named(m, "is_square_pass", 1, flags.number == self.config.passes - 2)
        ends: Value = self.s_axis.tlast
        if config.sweeps:
            # What is known of a row is found at the end of the last of its pieces.
            goes_on = named(m, "row_goes_on", 1, self.sweep.streams & ~self.sweep.ends & ~results)
            ends = named(m, "pass_ends", 1, ends & ~goes_on)
        first = data.View(config.token, Signal(config.token.size, name="token_0"))
        largest = kept(m, taken, "largest", flags.summary)
        overlong = kept(m, taken, "is_overlong", flags.overlong)
        m.d.comb += [
            first.values.eq(taken & ~results & ~squares),
            first.squares.eq(taken & squares),
            first.results.eq(taken & results),
            first.last.eq(ends),
            self.s_axis.tready.eq(ready),
            Cat(unit.largest.as_value() for unit in shared).eq(largest),
        ]
        leaves: Value = first.results & first.last
        if config.sweeps:
            empty = self.sweep.streams & self.s_axis.tlast & ~results
            m.d.comb += first.empty.eq(taken & empty)
            leaves = (leaves & ~self.sweep.streams) | self.sweep.begins
        if config.sums:
            leaves = leaves | (more & self.m_axis.tready & summing)
        leaves = named(m, "row_leaves", 1, leaves)
        for unit in shared:
            m.d.comb += [unit.overlong.eq(overlong), unit.epsilon.eq(self.epsilon)]
            if self.config.centre:
                # The first pass of the next row adds up values themselves, less a mean of 0; what
                # has taken the place of means is a sum.
                m.d.comb += unit.leaves.eq(leaves)
        with m.If(taken & ends & ~results):
            m.d.sync += waiting.eq(Const(1, 1).replicate(self.config.dividers))
        with m.Else():
            m.d.sync += waiting.eq(waiting & ~dones)
        return first

    def _give_more(self, m: Module, owed: Value, waits: Value, more: Value, result: Value) -> Value:
        """Give a beat that is owed once all is found; return whether other beats have to wait.

        Results go before it.
        """
        owes = Signal(name="owes_beat")
        m.d.comb += more.eq(owes & ~waits & ~result)
        update(m, owes, (owed, 1), (more & self.m_axis.tready, 0))
        return named(m, "is_blocked_by_more", 1, waits | owes)

    def _statistics(
        self, m: Module, shared: list[NormaliseRow], done: Value, results: Value
    ) -> Value:
        """Give out what is known of a row; return whether a beat of the next one has to wait."""
        there = Signal(name="has_statistics")
        if self.config.centre:
            # The first of two passes that end so gives a mean.
            deviates = Signal(name="deviation_is_next")
            update(m, deviates, (done, ~deviates))
        else:
            deviates = Const(1, 1)
        update(m, there, (done & deviates, 1), (self.m_axis_statistics.tready, 0))
        m.d.comb += [
            Value.cast(self.m_axis_statistics.tdata).eq(
                Cat(unit.statistics.as_value() for unit in shared)
            ),
            self.m_axis_statistics.tvalid.eq(there),
            self.m_axis_statistics.tlast.eq(1),
        ]
        return named(m, "next_row_waits", 1, there & ~results)

    def _tokens(self, m: Module, en: Signal, first: data.View, more: Value) -> list[data.View]:
        """Return the token of the beat in each stage; everything moves on if the last stage can."""
        config = self.config
        stages = config.stages
        tokens = [first]
        for stage in range(1, stages + 1):
            token = data.View(config.token, Signal(config.token.size, name=f"token_{stage}"))
            following: Value = tokens[-1].as_value()
            moves: Value = en
            if stage == stages:
                # A result leaves also while others wait for a gain or a bias.
                following, moves = Mux(en, following, 0), en | self.m_axis.tready
            update(m, token.as_value(), (moves, following))
            tokens.append(token)
        last = tokens[-1]
        free = named(m, "output_is_free", 1, ~last.results | self.m_axis.tready)
        have: Value = free
        factors = []
        if config.gain:
            factors.append((self.s_axis_gain, tokens[config.gain_stage].results))
        if config.bias:
            assert config.affine is not None
            stage = config.gain_stage + config.affine.addend_latency
            factors.append((self.s_axis_bias, tokens[stage].results))
        for stream, wanted in factors:
            have = have & (stream.tvalid | ~wanted)
        for stream, wanted in factors:
            m.d.comb += stream.tready.eq(en & wanted & ~ResetSignal())
        m.d.comb += [
            en.eq(have),
            self.m_axis.tvalid.eq(last.results | more),
            self.m_axis.tlast.eq(last.last | more),
        ]
        return tokens

    def _connect(
        self,
        m: Module,
        lane: Any,
        number: int,
        shared: list[NormaliseRow],
        tokens: list[data.View],
    ) -> None:
        """A lane's value, and what it needs to know of its row."""
        config = self.config
        span = config.lanes // config.rows
        row = number // span
        unit, own = self._of_lane(number, shared)
        largest = self.s_axis.tuser.summary[EXPONENT_BITS * row : EXPONENT_BITS * (row + 1)]
        m.d.comb += [
            lane.word.eq(self.s_axis.tdata[number]),
            lane.largest.eq(largest),
            lane.squares.eq(tokens[config.lane.flag_latency].squares),
            lane.reciprocal.eq(unit.reciprocal[own]),
            lane.base.eq(unit.base[own]),
            lane.constant.eq(unit.constant[own]),
            lane.not_finite.eq(unit.not_finite[own]),
        ]
        if config.centre:
            copies = config.row.copies
            half = number % span * copies // span
            m.d.comb += lane.mean.eq(unit.mean[own * copies + half])
        if config.optional:
            m.d.comb += lane.centred.eq(self.centred)

    def _scaled(
        self,
        m: Module,
        platform: object,
        en: Signal,
        number: int,
        result: Value,
        factors: Mapping[str, Value],
    ) -> Value:
        """A result times its gain, plus its bias."""
        # It holds data alone; tokens say whether they count.
        lane = MultiplyAdd(self.config.affine)
        unit = place(m, platform, f"affine_{number}", lane, reset=False)
        m.d.comb += [unit.en.eq(en), unit.x.eq(result)]
        ports = {"gain": "factor", "bias": "addend"}
        m.d.comb += (getattr(unit, ports[name]).eq(value) for name, value in factors.items())
        return unit.result

    def _add_up(
        self,
        m: Module,
        en: Signal,
        lanes: list[Any],
        shared: list[NormaliseRow],
        tokens: list[data.View],
    ) -> None:
        """Add up what the lanes of each row give: to two numbers, if a row has several lanes."""
        config = self.config
        token = tokens[config.lane.square_latency]
        valid, last = token.squares, token.last
        terms: list[Value] = [lane.square for lane in lanes]
        if config.centre:
            # Values take the way of squares, from a register further up: passes never overlap.
            early = tokens[1]
            values = [self._value(m, i, lane) for i, lane in enumerate(lanes)]
            terms = [
                named(m, f"term_{i}", len(square), Mux(early.values, value, square))
                for i, (value, square) in enumerate(zip(values, terms, strict=True))
            ]
            last = named(m, "sum_ends", 1, Mux(early.values, early.last, last))
            valid = named(m, "sum_is_valid", 1, early.values | valid)
        if config.shared:
            valid = named(m, "something_is_valid", 1, valid | self.adds)
            m.d.comb += self.totals.as_value().eq(Cat(unit.totals.as_value() for unit in shared))
        span = config.lanes // config.rows
        rows = [terms[start : start + span] for start in range(0, config.lanes, span)]
        if config.sum_latency:
            valid, last = kept(m, en, "sum_flags", Cat(valid, last), reset=True)
            bits = config.row.addend_bits
            sums = [
                carry_save(m, f"compressed_{r}", [(one, 0) for one in row], bits)
                if span > 1
                else tuple(row)
                for r, row in enumerate(rows)
            ]
            rows = [
                [
                    kept(m, en, f"{name}_{r}", value)
                    for name, value in zip(("sums", "carries"), parts, strict=False)
                ]
                for r, parts in enumerate(sums)
            ]
        own = config.row.rows
        for index, unit in enumerate(shared):
            m.d.comb += [unit.add.eq(valid & en), unit.last.eq(last)]
            for r, row in enumerate(rows[index * own : (index + 1) * own]):
                m.d.comb += unit.addends[r].eq(Cat(*row))
                if config.sums:
                    m.d.comb += unit.negative[r].eq(self.summing & row[0][-1])

    def _value(self, m: Module, number: int, lane: Any) -> Value:
        """A value for a mean, with its offset; for a sum with its sign up to the highest bit."""
        value: Value = lane.value
        if not self.config.sums:
            return value
        top = named(m, f"top_{number}", 1, value[-1] ^ self.summing)
        sign = named(m, f"sign_{number}", 1, top & self.summing)
        above = len(lane.square) - len(value)
        return Cat(value[:-1], top, sign.replicate(above))
