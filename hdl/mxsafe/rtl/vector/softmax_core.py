"""Softmax of rows that come twice: first for the sum of their powers, then for the results."""

from collections.abc import Callable

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import chosen, delayed, kept, named, truncated, update
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Part, Ports, Unit, place
from mxsafe.rtl.vector.row_lane import (
    POSITION,
    RowLane,
    RowLaneConfiguration,
    digits_of_factor,
    lane_ports,
)
from mxsafe.rtl.vector.softmax_constants import SoftmaxConstants
from mxsafe.rtl.vector.softmax_logarithm import SoftmaxLogarithm
from mxsafe.rtl.vector.softmax_stages import SoftmaxPartConfiguration, SoftmaxRowsConfiguration
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.tables.softmax import LONGEST_ROW
from mxsafe.validation import Count, PowerOfTwo

_GROUP = 4  # terms that are added before a register
_LOW = 20  # bits of the sum of a row of its own that are added up by themselves
_DIGIT_GROUPS = 2  # groups of lanes with digits of their own
_POSITIONS = 2  # groups of lanes with a position of their own
_DIGIT_STEPS = 2  # in which digits reach them; no more than there are before a row


class SoftmaxCoreConfiguration(SoftmaxPartConfiguration, SoftmaxRowsConfiguration):
    """A `SoftmaxCore`.

    Parameters
    ----------
    lanes, along, sweeps
        See `SoftmaxRowsConfiguration`.
    longest : int
        Values of the longest row, a power of two.
    shared : bool
        Along beats: whether sums are outside, for something else needs them and the lanes too.
    settling : int
        If they are `shared`: cycles from a term to its sum.
    grade, target
        See `SoftmaxPartConfiguration`.
    """

    longest: PowerOfTwo = LONGEST_ROW
    shared: bool = False
    settling: Count = 0

    @property
    def rows(self) -> int:
        """Rows at a time."""
        return self.lanes if self.along == "beats" else 1

    @property
    def latency(self) -> int:
        """Cycles from a beat of the second pass to its results."""
        return self.lane.power_latency

    lane = Part(RowLane, norms=lambda core: core.shared)
    constants = Part(SoftmaxConstants)
    logarithm = Part(SoftmaxLogarithm)

    @property
    def rest(self) -> int:
        """Cycles between the last beat of a row and `setup`, which changes constants.

        A lane with more registers needs them as many cycles longer.
        """
        return self.latency - RowLaneConfiguration().power_latency

    @property
    def pauses(self) -> tuple[int, int]:
        """Cycles without a beat, before a first pass and before a second one."""
        return self.rest + self.setup_steps, self.sum_latency + self.rows + self.finish_latency

    @property
    def setup_steps(self) -> int:
        """Cycles until the constants of all rows are there."""
        # Those of a single row stay where they were computed.
        stored = self.rows if self.rows > 1 else 0
        return self.choosing + self.constants.latency + stored

    @property
    def choosing(self) -> int:
        """Cycles that it takes to look at one of several rows."""
        return int(self.rows > 1)

    @property
    def finish_latency(self) -> int:
        """Cycles from the sum of a row to its logarithm."""
        return self.choosing + self.logarithm.latency

    @property
    def sum_latency(self) -> int:
        """Cycles from the cycle after a beat to the sum with its terms."""
        return self.latency + (2 if self.along == "lanes" else self.settling)

    @property
    def beat(self) -> data.ArrayLayout:
        """Layout of keys and of results."""
        return data.ArrayLayout(32, self.lanes)

    @property
    def of_row(self) -> data.StructLayout:
        """Constants of a row's maximum."""
        bits = self.widths.window_bits
        return data.StructLayout({"threshold": 32, "complement": bits, "invalid": 1})

    @property
    def summary(self) -> data.StructLayout:
        """Summary of rows, known before they come."""
        return data.StructLayout({"factor": 32, "maxima": data.ArrayLayout(32, self.rows)})

    @property
    def flags(self) -> data.StructLayout:
        """Flags beside a beat."""
        return data.StructLayout({"number": 1, "first": 1, "overlong": 1})


class SoftmaxCore(Unit[SoftmaxCoreConfiguration]):
    """Softmax of rows of at most 4,096 values, each of which comes twice.

    What it computes stands in `mxsafe.model.softmax`. A beat is taken in every cycle, but for
    `SoftmaxCoreConfiguration.pauses`: before a row (or the rows of all lanes) constants are made
    from its maximum, and before its second pass the logarithm of the sum.

    Attributes
    ----------
    sweep : In(struct)
        With `sweeps`, see `SWEEP`. A row that is whole, or begins its first sweep, comes first.
    lanes_en : Out(1)
        Clock enable of lanes (`RowLane`), which are outside.
    lane_inputs, lane_outputs : Out(array), In(array)
        What they are given, and what they give.
    adds, clears : Out(1)
        If sums are `shared`: lanes have terms, which are to be added; sums are to become 0.
    totals : In(array)
        As well: sums.
    of_row, loads : Out(struct), Out(rows)
        As well: constants of a row, and which row's they are, if any.
    held : In(array)
        As well: constants of each row, as they were loaded last.
    s_axis_tdata : In(array)
        Keys, see `RowLane`.
    s_axis_tlast : In(1)
        The beat ends a pass.
    s_axis_tuser : In(struct)
        ``overlong``: the results are NaN. ``number`` and ``first`` are not read: passes take turns.
    s_axis_summary_tdata : In(struct)
        A beat for each row, for which its first beat waits unless it is ``overlong``: ``factor``,
        `scale * log2(e)`, and ``maxima``, the largest key of each row.
    m_axis_tdata : Out(array)
        Results, binary32.
    m_axis_tlast : Out(1)
        Last beat of a row, or of the rows of all lanes.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            **({"sweep": In(SWEEP)} if config.sweeps else {}),
            "s_axis": In(AxiStream(config.beat, user=config.flags)),
            "m_axis": Out(AxiStream(config.beat)),
            "s_axis_summary": In(AxiStream(config.summary, last=False)),
            **lane_ports(config.lane.of_powers, config.lanes),
            **(
                {
                    "adds": Out(1),
                    "clears": Out(1),
                    "totals": In(data.ArrayLayout(config.logarithm.total_bits, config.lanes)),
                    "of_row": Out(config.of_row),
                    "loads": Out(config.rows),
                    "held": In(data.ArrayLayout(config.of_row, config.rows)),
                }
                if config.shared
                else {}
            ),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        tokens = _Tokens(m, self)
        # They hold data alone.
        parts = SoftmaxConstants(config.constants), SoftmaxLogarithm(config.logarithm)
        constants = place(m, platform, "row_constants", parts[0], reset=False)
        logarithm = place(m, platform, "sum_logarithm", parts[1], reset=False)
        rows = [_Row(m, config, row) for row in range(config.rows)]
        self._constants(m, tokens, constants, rows)
        terms = self._lanes(m, tokens, constants, rows)
        self._sums(m, tokens, terms, rows)
        self._logarithms(m, tokens, constants, logarithm, rows)

    def _constants(
        self, m: Module, tokens: "_Tokens", constants: SoftmaxConstants, rows: "list[_Row]"
    ) -> None:
        """Constants of each row in turn, from its maximum."""
        summary = self.s_axis_summary
        maxima = [summary.tdata.maxima[row] for row in range(len(rows))]
        m.d.comb += [
            summary.tready.eq(tokens.set_up),
            constants.en.eq(tokens.in_setup),
            constants.factor.eq(summary.tdata.factor),
            constants.maximum.eq(_looked_at(m, "maximum", tokens, maxima)),
            constants.spoilt.eq(self.s_axis.tuser.overlong),
        ]
        if len(rows) == 1:
            # They stay where they were computed. Results of the row before have left by then.
            m.d.comb += [
                rows[0].threshold.eq(constants.threshold),
                rows[0].complement.eq(constants.complement),
                rows[0].invalid.eq(constants.invalid),
            ]
            if self.config.shared:  # so nothing is held elsewhere
                m.d.comb += [self.of_row.as_value().eq(0), self.loads.eq(0)]
            return
        first = self.config.choosing + constants.latency
        found = Cat(constants.threshold, constants.complement, constants.invalid)
        if self.config.shared:
            m.d.comb += self.of_row.as_value().eq(found)
        for number, row in enumerate(rows):
            loads = tokens.at("setup", f"loads_row_{number}", first + number)
            if self.config.shared:
                held = self.held[number]
                m.d.comb += [
                    self.loads[number].eq(loads),
                    Cat(row.threshold, row.complement, row.invalid).eq(held.as_value()),
                ]
                continue
            with m.If(loads):
                m.d.sync += [
                    row.threshold.eq(constants.threshold),
                    row.complement.eq(constants.complement),
                    row.invalid.eq(constants.invalid),
                ]

    def _lanes(
        self,
        m: Module,
        tokens: "_Tokens",
        constants: SoftmaxConstants,
        rows: "list[_Row]",
    ) -> list[Value]:
        """What lanes are given; return their terms."""
        positions = [
            Signal(POSITION, name=f"position_{copy}", reset_less=True) for copy in range(_POSITIONS)
        ]
        for step, position in enumerate(positions):
            update(
                m,
                position,
                (tokens.at("setup", f"loads_position_{step}", step), constants.position),
            )
        digits = self._digits(m, tokens, constants.digits)
        terms: list[Value] = []
        for number in range(self.config.lanes):
            row = rows[number % len(rows)]
            into, out = self.lane_inputs[number], self.lane_outputs[number]
            m.d.comb += [
                into.key.eq(self.s_axis.tdata[number]),
                into.threshold.eq(row.threshold),
                into.position.eq(positions[number * _POSITIONS // self.config.lanes]),
                into.complement.eq(row.complement),
                into.digits.eq(digits[number * _DIGIT_GROUPS // self.config.lanes]),
                into.offset.eq(row.offset),
                into.invalid.eq(row.invalid),
                self.m_axis.tdata[number].eq(out.power),
            ]
            if not self.config.shared:
                terms.append(out.term)
        m.d.comb += self.lanes_en.eq(tokens.moves)
        if self.config.shared:
            m.d.comb += [
                self.adds.eq(tokens.term),
                # Once all have been looked at: who needs sums next finds none.
                self.clears.eq(tokens.finished),
            ]
        return terms

    def _digits(self, m: Module, tokens: "_Tokens", source: data.View) -> list[data.View]:
        """Registers for the digits, which have many loads: one for each group of lanes.

        No two load the same thing at the same time: synthesis would make one of them.
        """
        layout = digits_of_factor(self.config.widths)
        digits: list[data.View] = []
        before: list[data.View] = []
        for step in range(_DIGIT_STEPS):
            loads = tokens.at("setup", f"loads_digits_{step}", step)
            level: list[data.View] = []
            for value in (source, *before):
                name = f"digits_{len(digits) + len(level)}"
                level.append(data.View(layout, kept(m, loads, name, value.as_value())))
            digits += level
            before = level
        return digits[:_DIGIT_GROUPS]

    def _sums(self, m: Module, tokens: "_Tokens", terms: list[Value], rows: "list[_Row]") -> None:
        """Sums of the terms: exact, so that their order does not matter."""
        if self.config.shared:
            return
        clear = tokens.at("setup", "clears_sums", 0)
        if self.config.along == "beats":
            for row, term in zip(rows, terms, strict=True):
                row.add(m, tokens.term, clear, term)
            return
        # In two halves: carries from one to the other come last. And first those of a few lanes.
        half = self.config.widths.term_bits // 2
        halves = {0: [term[:half] for term in terms], half: [term[half:] for term in terms]}
        adds, follows = tokens.term, tokens.passing_term
        for name, size in (("terms", _GROUP), ("groups", len(terms))):
            halves = {
                start: _sums_of(m, (f"{name}_from", f"bits_from_{start}"), adds, values, size)
                for start, values in halves.items()
            }
            follows = delayed(m, tokens.moves, f"has_{name}", follows, 1, reset=True)
            adds = named(m, f"adds_{name}", 1, follows & tokens.moves)
        rows[0].add_all(m, adds, clear, [value << start for start, (value,) in halves.items()])

    def _logarithms(
        self,
        m: Module,
        tokens: "_Tokens",
        constants: SoftmaxConstants,
        logarithm: SoftmaxLogarithm,
        rows: "list[_Row]",
    ) -> None:
        """Offsets: at first that of the factor, then less the logarithm of each sum in turn."""
        widths = self.config.widths
        starts = tokens.at("setup", "starts", 1)
        start = kept(m, tokens.at("setup", "loads_start", 0), "start", constants.start)
        if self.config.shared:
            total = _looked_at(m, "total", tokens, list(self.totals))
        else:
            total = _looked_at(m, "total", tokens, [row.total for row in rows], rows[0].with_carry)
        m.d.comb += [logarithm.en.eq(tokens.moves), logarithm.total.eq(total)]
        lowered = truncated(m, "lowered", widths.product_bits, start - logarithm.logarithm)
        for number, row in enumerate(rows):
            step = self.config.finish_latency + number
            loads = tokens.at("finish", f"lowers_row_{number}", step)
            update(m, row.offset, (starts | loads, Mux(starts, start, lowered)))


def _looked_at(
    m: Module,
    name: str,
    tokens: "_Tokens",
    values: list[Value],
    finished: Callable[[Module, Value], Value] = lambda m, value: value,
) -> Value:
    """The value of the row that is looked at; of several rows, in the cycle after."""
    value = finished(m, chosen(m, name, tokens.row, values))
    return value if len(values) == 1 else delayed(m, tokens.moves, f"{name}_held", value, 1)


def _sum(m: Module, name: str, width: int, values: list[Value]) -> Value:
    """The sum of some values, of that width."""
    total = values[0]
    for number, value in enumerate(values[1:], start=1):
        total = named(m, f"{name}_to_{number}", width, total + value)
    return total


def _sums_of(
    m: Module, names: tuple[str, str], adds: Value, values: list[Value], size: int
) -> list[Value]:
    """Registers for sums of so many neighbours each."""
    totals: list[Value] = []
    for first in range(0, len(values), size):
        group = values[first : first + size]
        name = f"{names[0]}_{first}_{names[1]}"
        bits = max(map(len, group)) + (len(group) - 1).bit_length()
        totals.append(kept(m, adds, name, _sum(m, f"{name}_sum", bits, group)))
    return totals


class _Row:
    """State of a row: constants of its maximum, its sum, the offset of its exponents."""

    def __init__(self, m: Module, config: SoftmaxCoreConfiguration, number: int) -> None:
        name, widths = f"row_{number}", config.widths
        registered = not config.shared

        def constant(name: str, bits: int) -> Signal:
            return Signal(bits, name=name, reset_less=registered)

        self.threshold = constant(f"{name}_threshold", 32)
        self.complement = constant(f"{name}_complement", widths.window_bits)
        self.invalid = constant(f"{name}_is_invalid", 1)
        self.offset = Signal(widths.product_bits, name=f"{name}_offset", reset_less=True)
        self._bits = widths.total_bits(config.longest)
        bits = self._bits + (1 if config.along == "beats" else 0)
        if not config.shared:
            self.total = Signal(bits, name=f"{name}_total", reset_less=True)
        self._name = name

    def add(self, m: Module, adds: Value, clear: Value, term: Value) -> None:
        """Add a term to the sum, or begin it anew; see `with_carry` for the sum's bits."""
        low = named(m, f"{self._name}_low", _LOW + 1, self.total[:_LOW] + term[:_LOW])
        # The carry comes in from below.
        above = Cat(Const(1, 1), self.total[_LOW + 1 :]) + Cat(self.total[_LOW], term[_LOW:])
        high = truncated(m, f"{self._name}_high", self._bits - _LOW + 1, above)
        self._load(m, adds, clear, Cat(low, high[1:]))

    def with_carry(self, m: Module, total: Value) -> Value:
        """A sum, whose low part may have above it the carry that its high part does not have."""
        if len(total) == self._bits:
            return total
        high = truncated(m, "total_high", self._bits - _LOW, total[_LOW + 1 :] + total[_LOW])
        return Cat(total[:_LOW], high)

    def add_all(self, m: Module, adds: Value, clear: Value, terms: list[Value]) -> None:
        """Add several to the sum, or begin it anew."""
        self._load(m, adds, clear, _sum(m, f"{self._name}_sum", self._bits, [self.total, *terms]))

    def _load(self, m: Module, adds: Value, clear: Value, total: Value) -> None:
        update(
            m,
            self.total,
            (named(m, f"{self._name}_total_changes", 1, adds | clear), Mux(clear, 0, total)),
        )


class _Tokens:
    """Which beats are where, and what is done in the cycles between passes.

    Phases follow one another: ``setup``, a pass for the sum, ``finish``, a pass for the results.

    Attributes
    ----------
    moves : Signal
        The pipeline advances.
    row : Value
        Which row is looked at in ``setup`` and ``finish``.
    in_setup, set_up, finished : Signal
        A step of ``setup`` is done; it is the last one; the last one of ``finish`` is.
    term : Signal
        Terms leave the lanes, and the pipeline advances.
    passing_term : Value
        Terms leave the lanes.
    """

    def __init__(self, m: Module, core: SoftmaxCore) -> None:
        config = core.config
        s_axis, m_axis = core.s_axis, core.m_axis
        self._m = m
        rows, finish = config.rows, config.finish_latency
        last_setup, last_finish = config.setup_steps - 1, finish + rows - 1
        wait = config.sum_latency
        bits = max(last_setup, last_finish + wait).bit_length()
        self._step = step = Signal(bits, name="step")
        between = Signal(name="is_between", init=1)  # two passes: setup or finish
        second = Signal(name="is_second")  # the pass that is, or comes next
        given = Signal(name="has_results")
        self.moves = named(m, "moves", 1, ~given | m_axis.tready)
        self.row = step[: max((rows - 1).bit_length(), 1)]
        known = named(m, "row_is_known", 1, core.s_axis_summary.tvalid | s_axis.tuser.overlong)
        starts = named(m, "row_starts", 1, s_axis.tvalid & known)
        rests = Signal(config.rest, name="rests")
        if config.rest:
            starts = starts & ~rests.any()
        self._phases = {
            "setup": named(m, "in_setup", 1, between & ~second & starts & self.moves),
            "finish": named(m, "in_finish", 1, between & second & self.moves),
        }
        ready = named(m, "is_ready", 1, ~between & self.moves & ~ResetSignal())
        taken = named(m, "takes_beat", 1, ready & s_axis.tvalid)
        last: Value = s_axis.tlast
        empty: Value = Const(0, 1)
        if config.sweeps:
            last = last & (~core.sweep.streams | (core.sweep.ends & ~second))
            empty = core.sweep.streams & s_axis.tlast & ~second
        ends = named(m, "ends_pass", 1, taken & last)
        self.in_setup = self._phases["setup"]
        self.set_up = set_up = self.at("setup", "is_set_up", last_setup)
        self.finished = finished = self.at("finish", "is_finished", last_finish)
        # Steps of `finish` begin below 0, as long as terms are on the way to the sum.
        with m.If(ends):
            m.d.sync += [
                between.eq(1),
                second.eq(~second),
                step.eq(Mux(second, 0, (1 << bits) - wait)),
            ]
        with m.Elif(self._phases["setup"] | self._phases["finish"]):
            m.d.sync += [step.eq(step + 1), between.eq(~(set_up | finished))]
        if config.sweeps:
            with m.If(core.sweep.begins):
                m.d.sync += [between.eq(1), second.eq(0), step.eq(0)]
        if config.rest:
            update(m, rests, (self.moves, Cat(ends & second, rests[:-1])))
        stages = config.latency
        term = named(m, "takes_term", 1, taken & ~second)
        # Instead of results the end of a row has one, behind its terms.
        result = named(m, "takes_result", 1, taken & (second | empty))
        last = named(m, "takes_last", 1, s_axis.tlast)
        self.passing_term = delayed(m, self.moves, "term", term, stages, reset=True)
        self.term = named(m, "adds_term", 1, self.passing_term & self.moves)
        before = delayed(m, self.moves, "result", result, stages - 1, reset=True)
        update(m, given, (self.moves, before))
        m.d.comb += [
            s_axis.tready.eq(ready),
            m_axis.tvalid.eq(given),
            m_axis.tlast.eq(delayed(m, self.moves, "last", last, stages)),
        ]

    def at(self, phase: str, name: str, step: int) -> Signal:
        """Whether a step of a phase is being done."""
        here = self._step == step if step else ~self._step.any()
        return named(self._m, name, 1, self._phases[phase] & here)
