"""Softmax of rows that come twice: first for the sum of their powers, then for the results."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import chosen, named, truncated
from mxsafe.rtl.arithmetic.pipeline import delayed
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.softmax_constants import SoftmaxConstants
from mxsafe.rtl.vector.softmax_lane import DIGITS, POSITION, TERM_BITS, SoftmaxLane
from mxsafe.rtl.vector.softmax_logarithm import TOTAL_BITS, SoftmaxLogarithm
from mxsafe.tables import softmax as widths
from mxsafe.validation import require_positive_integer

__all__ = ["ALONG", "SoftmaxCore", "SoftmaxCoreConfiguration"]

ALONG = ("lanes", "beats")
_GROUP = 2  # terms that are added before a register
_HALF = TERM_BITS // 2  # bits of a term that are added up by themselves there
_DIGIT_GROUPS = 8  # groups of lanes with digits of their own
_POSITIONS = 2  # groups of lanes with a position of their own
_DIGIT_STEPS = 4  # in which digits reach them; no more than there are before a row


@dataclass(frozen=True, kw_only=True)
class SoftmaxCoreConfiguration(Configuration):
    """A `SoftmaxCore`.

    Parameters
    ----------
    lanes : int
        Values in a beat.
    along : {"lanes", "beats"}
        Where rows run: a row is the lanes of its beats, one after the other; or each lane has a row
        of its own, a value a beat.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    lanes: int = 16
    along: str = "lanes"

    def __post_init__(self) -> None:
        self._set(lanes=require_positive_integer("lanes", self.lanes))
        if self.along not in ALONG:
            raise ValueError(f"along must be one of {', '.join(ALONG)}, not {self.along!r}")

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return "softmax_core"

    @property
    def rows(self) -> int:
        """Rows at a time."""
        return self.lanes if self.along == "beats" else 1

    @property
    def latency(self) -> int:
        """Clocks from a beat of the second pass to its results."""
        return SoftmaxLane().latency

    @property
    def pauses(self) -> tuple[int, int]:
        """Clocks without a beat, before a first pass and before a second one."""
        return self.setup_steps, self.sum_latency + self.rows + self.finish_latency

    @property
    def setup_steps(self) -> int:
        """Clocks until the constants of all rows are there."""
        # Those of a single row stay where they were computed.
        stored = self.rows if self.rows > 1 else 0
        return self.choosing + SoftmaxConstants().latency + stored

    @property
    def choosing(self) -> int:
        """Clocks that it takes to look at one of several rows."""
        return int(self.rows > 1)

    @property
    def finish_latency(self) -> int:
        """Clocks from the sum of a row to its logarithm."""
        return self.choosing + SoftmaxLogarithm().latency

    @property
    def sum_latency(self) -> int:
        """Clocks from the clock after a beat to the sum with its terms."""
        return self.latency + (1 if self.along == "lanes" else 0)

    @property
    def beat(self) -> data.ArrayLayout:
        """Layout of keys and of results."""
        return data.ArrayLayout(32, self.lanes)

    @property
    def summary(self) -> data.StructLayout:
        """What is known of rows before they come."""
        return data.StructLayout({"factor": 32, "maxima": data.ArrayLayout(32, self.rows)})

    @property
    def flags(self) -> data.StructLayout:
        """What stands beside a beat."""
        return data.StructLayout({"number": 1, "first": 1, "overlong": 1, "summary": self.summary})


class SoftmaxCore(Unit[SoftmaxCoreConfiguration]):
    """Softmax of rows of at most 4,096 values, each of which comes twice.

    What it computes stands in `mxsafe.model.softmax`. A beat is taken in every clock, but for
    `SoftmaxCoreConfiguration.pauses`: before a row (or the rows of all lanes) constants are made
    from its maximum, and before its second pass the logarithm of the sum.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Keys, see `SoftmaxLane`.
    s_axis_tlast : In(1)
        The beat ends a pass.
    s_axis_tuser : In(struct)
        ``summary``: ``factor``, `scale * log2(e)`, and ``maxima``, the largest key of each row;
        they stay as they are through both passes. ``overlong``: the results are NaN. ``number``
        and ``first`` are not read: passes take turns.
    m_axis_tdata : Out(array)
        Results, binary32.
    m_axis_tlast : Out(1)
        Last beat of a row, or of the rows of all lanes.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally.
    """

    def ports(self) -> Mapping[str, Member]:
        """Stream of keys in, stream of results out."""
        config = self.config
        return {
            "s_axis": In(AxiStream(config.beat, user=config.flags)),
            "m_axis": Out(AxiStream(config.beat)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        tokens = _Tokens(m, self)
        constants = SoftmaxConstants()
        logarithm = SoftmaxLogarithm()
        place(m, platform, "row_constants", constants, reset=False)
        place(m, platform, "sum_logarithm", logarithm, reset=False)
        rows = [_Row(m, config, row) for row in range(config.rows)]
        self._constants(m, tokens, constants, rows)
        terms = self._lanes(m, platform, tokens, constants, rows)
        self._sums(m, tokens, terms, rows)
        self._logarithms(m, tokens, constants, logarithm, rows)
        return m

    def _constants(
        self, m: Module, tokens: "_Tokens", constants: SoftmaxConstants, rows: "list[_Row]"
    ) -> None:
        """Constants of each row in turn, from its maximum."""
        summary = self.s_axis.tuser.summary
        maxima = [summary.maxima[row] for row in range(len(rows))]
        m.d.comb += [
            constants.en.eq(tokens.moves),
            constants.factor.eq(summary.factor),
            constants.maximum.eq(_looked_at(m, "maximum", tokens, maxima)),
            constants.spoilt.eq(self.s_axis.tuser.overlong),
        ]
        if len(rows) == 1:
            # They stay, as the maximum does. Results of the row before are still on the way.
            m.d.comb += [
                rows[0].threshold.eq(constants.threshold),
                rows[0].complement.eq(constants.complement),
            ]
            with m.If(tokens.moves):
                m.d.sync += rows[0].invalid.eq(constants.invalid)
            return
        first = self.config.choosing + constants.latency
        for number, row in enumerate(rows):
            loads = tokens.at("setup", f"loads_row_{number}", first + number)
            with m.If(loads):
                m.d.sync += [
                    row.threshold.eq(constants.threshold),
                    row.complement.eq(constants.complement),
                    row.invalid.eq(constants.invalid),
                ]

    def _lanes(
        self,
        m: Module,
        platform: object,
        tokens: "_Tokens",
        constants: SoftmaxConstants,
        rows: "list[_Row]",
    ) -> list[Value]:
        """The lanes; return their terms."""
        positions = [
            Signal(POSITION, name=f"position_{copy}", reset_less=True) for copy in range(_POSITIONS)
        ]
        for step, position in enumerate(positions):
            with m.If(tokens.at("setup", f"loads_position_{step}", step)):
                m.d.sync += position.eq(constants.position)
        digits = self._digits(m, tokens, constants.digits)
        terms: list[Value] = []
        for number in range(self.config.lanes):
            row = rows[number % len(rows)]
            lane = SoftmaxLane()
            place(m, platform, f"lane_{number}", lane, reset=False)
            m.d.comb += [
                lane.en.eq(tokens.moves),
                lane.key.eq(self.s_axis.tdata[number]),
                lane.threshold.eq(row.threshold),
                lane.position.eq(positions[number * _POSITIONS // self.config.lanes]),
                lane.complement.eq(row.complement),
                lane.digits.eq(digits[number * _DIGIT_GROUPS // self.config.lanes]),
                lane.offset.eq(row.offset if number < row.half else ~row.inverted),
                lane.invalid.eq(row.invalid),
                self.m_axis.tdata[number].eq(lane.result),
            ]
            terms.append(lane.term)
        return terms

    def _digits(self, m: Module, tokens: "_Tokens", source: data.View) -> list[data.View]:
        """Registers for the digits, which have many loads: one for each group of lanes.

        No two load the same thing at the same time: synthesis would make one of them.
        """
        digits: list[data.View] = []
        before: list[data.View] = []
        for step in range(_DIGIT_STEPS):
            loads = tokens.at("setup", f"loads_digits_{step}", step)
            level: list[data.View] = []
            for value in (source, *before):
                name = f"digits_{len(digits) + len(level)}"
                held = data.View(DIGITS, Signal(DIGITS.size, name=name, reset_less=True))
                with m.If(loads):
                    m.d.sync += held.eq(value)
                level.append(held)
            digits += level
            before = level
        return digits[:_DIGIT_GROUPS]

    def _sums(self, m: Module, tokens: "_Tokens", terms: list[Value], rows: "list[_Row]") -> None:
        """Sums of the terms: exact, so that their order does not matter."""
        clear = tokens.at("setup", "clears_sums", 0)
        if self.config.along == "beats":
            for number, (row, term) in enumerate(zip(rows, terms, strict=True)):
                row.add(m, f"{number}", tokens.term, clear, [term])
            return
        groups: list[Value] = []
        for first in range(0, len(terms), _GROUP):
            group = terms[first : first + _GROUP]
            # Two halves: the carry from one to the other is added a clock later.
            halves = [[term[:_HALF] for term in group], [term[_HALF:] for term in group]]
            for start, half in zip((0, _HALF), halves, strict=True):
                name = f"lanes_from_{first}_bits_from_{start}"
                bits = len(half[0]) + (len(group) - 1).bit_length()
                total = Signal(bits, name=f"terms_from_{first}_bits_from_{start}", reset_less=True)
                with m.If(tokens.term):
                    m.d.sync += total.eq(_sum(m, name, bits, half))
                groups.append(total << start)
        follows = delayed(m, tokens.moves, "has_terms", tokens.passing_term, 1, reset=True)
        added = named(m, "adds_terms", 1, follows & tokens.moves)
        rows[0].add(m, "0", added, clear, groups)

    def _logarithms(
        self,
        m: Module,
        tokens: "_Tokens",
        constants: SoftmaxConstants,
        logarithm: SoftmaxLogarithm,
        rows: "list[_Row]",
    ) -> None:
        """Offsets: at first that of the factor, then less the logarithm of each sum in turn."""
        start = Signal(widths.PRODUCT_BITS, name="start", reset_less=True)
        starts = tokens.at("setup", "starts", 1)
        with m.If(tokens.at("setup", "loads_start", 0)):
            m.d.sync += start.eq(constants.start)
        m.d.comb += [
            logarithm.en.eq(tokens.moves),
            logarithm.total.eq(_looked_at(m, "total", tokens, [row.total for row in rows])),
        ]
        lowered = truncated(m, "lowered", widths.PRODUCT_BITS, start - logarithm.logarithm)
        for number, row in enumerate(rows):
            step = self.config.finish_latency + number
            loads = tokens.at("finish", f"lowers_row_{number}", step)
            with m.If(starts | loads):
                offset = Mux(starts, start, lowered)
                m.d.sync += row.offset.eq(offset)
                if row.half < self.config.lanes:
                    m.d.sync += row.inverted.eq(~offset)


def _looked_at(m: Module, name: str, tokens: "_Tokens", values: list[Value]) -> Value:
    """The value of the row that is looked at; of several rows, in the clock after."""
    value = chosen(m, name, tokens.row, values)
    return value if len(values) == 1 else delayed(m, tokens.moves, f"{name}_held", value, 1)


def _sum(m: Module, name: str, width: int, values: list[Value]) -> Value:
    """The sum of some values, of that width."""
    total = values[0]
    for number, value in enumerate(values[1:], start=1):
        total = named(m, f"{name}_to_{number}", width, total + value)
    return total


class _Row:
    """What is known of a row: constants of its maximum, its sum, the offset of its exponents."""

    def __init__(self, m: Module, config: SoftmaxCoreConfiguration, number: int) -> None:
        name = f"row_{number}"
        self.threshold = Signal(32, name=f"{name}_threshold", reset_less=True)
        self.complement = Signal(widths.WINDOW_BITS, name=f"{name}_complement", reset_less=True)
        self.invalid = Signal(name=f"{name}_is_invalid", reset_less=True)
        self.offset = Signal(widths.PRODUCT_BITS, name=f"{name}_offset", reset_less=True)
        # For half of many lanes. Synthesis would make one register of two that are alike.
        self.inverted = Signal(widths.PRODUCT_BITS, name=f"{name}_inverted", reset_less=True)
        self.half = config.lanes // 2 if config.rows == 1 else config.lanes
        self.total = Signal(TOTAL_BITS, name=f"{name}_total", reset_less=True)

    def add(self, m: Module, name: str, adds: Value, clear: Value, terms: list[Value]) -> None:
        """Add terms to the sum, or begin it anew."""
        total = _sum(m, f"row_{name}_sum", TOTAL_BITS, [self.total, *terms])
        with m.If(adds | clear):
            m.d.sync += self.total.eq(Mux(clear, 0, total))


class _Tokens:
    """Which beats are where, and what is done in the clocks between passes.

    Phases follow one another: ``setup``, a pass for the sum, ``finish``, a pass for the results.

    Attributes
    ----------
    moves : Signal
        The pipeline advances.
    row : Value
        Which row is looked at in ``setup`` and ``finish``.
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
        self._phases = {
            "setup": named(m, "in_setup", 1, between & ~second & s_axis.tvalid & self.moves),
            "finish": named(m, "in_finish", 1, between & second & self.moves),
        }
        ready = named(m, "is_ready", 1, ~between & self.moves & ~ResetSignal())
        taken = named(m, "takes_beat", 1, ready & s_axis.tvalid)
        ends = named(m, "ends_pass", 1, taken & s_axis.tlast)
        set_up = self.at("setup", "is_set_up", last_setup)
        finished = self.at("finish", "is_finished", last_finish)
        # Steps of `finish` begin below 0, as long as terms are on the way to the sum.
        with m.If(ends):
            m.d.sync += [
                between.eq(1),
                second.eq(~second),
                step.eq(Mux(second, 0, (1 << bits) - wait)),
            ]
        with m.Elif(self._phases["setup"] | self._phases["finish"]):
            m.d.sync += [step.eq(step + 1), between.eq(~(set_up | finished))]
        stages = config.latency
        term = named(m, "takes_term", 1, taken & ~second)
        result = named(m, "takes_result", 1, taken & second)
        last = named(m, "takes_last", 1, s_axis.tlast)
        self.passing_term = delayed(m, self.moves, "term", term, stages, reset=True)
        self.term = named(m, "adds_term", 1, self.passing_term & self.moves)
        before = delayed(m, self.moves, "result", result, stages - 1, reset=True)
        with m.If(self.moves):
            m.d.sync += given.eq(before)
        m.d.comb += [
            s_axis.tready.eq(ready),
            m_axis.tvalid.eq(given),
            m_axis.tlast.eq(delayed(m, self.moves, "last", last, stages)),
        ]

    def at(self, phase: str, name: str, step: int) -> Signal:
        """Whether a step of a phase is being done."""
        here = self._step == step if step else ~self._step.any()
        return named(self._m, name, 1, self._phases[phase] & here)
