"""Masks and row maxima of values on their way into softmax's memory."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import gated_or, named, truncated, update
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, INFINITY, MANTISSA_BITS
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.timing import held
from mxsafe.rtl.unit import Part, Ports, Unit
from mxsafe.rtl.vector.softmax_core import SoftmaxCore
from mxsafe.rtl.vector.softmax_stages import SoftmaxRowsConfiguration
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.tables.softmax import LENGTH_BITS

_LOWEST = 0xFFFFFFFF ^ INFINITY
"""Key of -Inf."""
_LENGTH = range(1 << LENGTH_BITS)


class SoftmaxEntryConfiguration(SoftmaxRowsConfiguration):
    """A `SoftmaxEntry`.

    Parameters
    ----------
    lanes, along, sweeps
        See `SoftmaxRowsConfiguration`.
    norms : bool
        Along beats: whether an input says that values are for a norm or a sum.
    """

    norms: bool = False

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to what is known of the row."""
        return 2 if self.along == "lanes" else 1

    core = Part(SoftmaxCore)

    @property
    def controls(self) -> data.StructLayout:
        """Controls beside a beat of values."""
        causal = {"causal": 1} if self.along == "beats" else {}
        return data.StructLayout({"factor": 32, "length": _LENGTH, **causal})


class SoftmaxEntry(Unit[SoftmaxEntryConfiguration]):
    """Numbers to keys that keep their order; what does not count to that of -Inf; the maxima.

    Keys leave in the cycle in which values come. What is known of a row stands here until it is
    taken, and the next row does not begin before.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Values of a row (or, along beats, a value of each lane's row), binary32.
    s_axis_tlast : In(1)
        The beat ends the row.
    s_axis_tuser : In(struct)
        The same in all beats of a row: ``factor``, which is handed on; ``length``, how many values
        of the row count, from the first on; along beats ``causal``: lane ``i`` has a row of
        ``length + i`` values that count.
    sweep : In(struct)
        With `sweeps`, see `SWEEP`. Maxima of a row that ends its sweep for the largest are given
        on, and stay as they are in all others.
    is_softmax : In(1)
        With `norms`: values are for softmax. Others go as they are, but that NaN has no sign; no
        summary is made of them. Steady.
    largest, largest_before : Out(array)
        With `norms`, of values that are not for softmax: exponent field of each row's largest, 1
        for subnormals; with the beat that is there, and of those before.
    m_axis_tdata : Out(array)
        Keys, see `RowLane`. That of any NaN is one of a positive NaN.
    m_axis_tlast : Out(1)
    m_axis_summary_tdata : Out(struct)
        A beat behind the last one of each row: ``factor``, and ``maxima``, the largest key of each
        row.
    m_axis_summary_tlast : Out(1)
        Always set.

    Notes
    -----
    A row takes twice as many cycles to leave as to enter. So the next one is there in time if it
    begins once constants have been made of what is known of this one, and maxima need no other
    registers than those they are found in.
    """

    def ports(self) -> Ports:
        core = self.config.core
        return {
            **({"sweep": In(SWEEP)} if self.config.sweeps else {}),
            **(
                {
                    "is_softmax": In(1),
                    "largest": Out(data.ArrayLayout(EXPONENT_BITS, self.config.lanes)),
                    "largest_before": Out(data.ArrayLayout(EXPONENT_BITS, self.config.lanes)),
                }
                if self.config.norms
                else {}
            ),
            "s_axis": In(AxiStream(core.beat, user=self.config.controls)),
            "m_axis": Out(AxiStream(core.beat)),
            "m_axis_summary": Out(AxiStream(core.summary)),
        }

    def fill(self, m: Module, platform: object) -> None:
        s_axis, m_axis, summary = self.s_axis, self.m_axis, self.m_axis_summary
        waits = Signal(name="summary_waits")
        free = named(m, "is_free", 1, ~waits & ~ResetSignal())
        given: Value = s_axis.tvalid
        sinks: Value = m_axis.tready
        ends: Value = s_axis.tlast
        ends_row: Value = s_axis.tlast
        looks: Value = Const(1, 1)
        if self.config.sweeps:
            sweep = self.sweep
            free = named(m, "is_free_in_sweep", 1, free | (sweep.streams & ~ResetSignal()))
            given = s_axis.tvalid & ~sweep.largest
            sinks = m_axis.tready | sweep.largest
            looks = ~sweep.streams
            ends = s_axis.tlast & looks & (sweep.ends | ~sweep.largest)
            ends_row = s_axis.tlast & ~sweep.largest
        ready = named(m, "is_ready", 1, free & sinks)
        taken = named(m, "takes_beat", 1, ready & s_axis.tvalid)
        looked = named(m, "looks_at_beat", 1, taken & looks)
        is_softmax: Value = self.is_softmax if self.config.norms else Const(1, 1)
        is_norm = named(m, "is_norm", 1, ~is_softmax) if self.config.norms else Const(0, 1)
        update(m, waits, (taken & ends & is_softmax, 1), (summary.tready & summary.tvalid, 0))
        begins = Signal(name="row_begins", init=1)
        factor = Signal(32, name="factor", reset_less=True)
        with m.If(looked):
            m.d.sync += [begins.eq(ends_row), factor.eq(s_axis.tuser.factor)]
        if self.config.sweeps:
            with m.If(sweep.begins):
                m.d.sync += [begins.eq(1), waits.eq(0)]
        along_lanes = self.config.along == "lanes"
        counts = self._in_lanes(m, taken, begins) if along_lanes else self._in_rows(m, taken)
        signs = [_is_negative(m, f"key_{lane}", word) for lane, word in enumerate(s_axis.tdata)]
        values = [
            _Number(
                sign & is_softmax, word[:-1], named(m, f"key_{lane}_counts", 1, count | is_norm)
            )
            for lane, (word, sign, count) in enumerate(
                zip(s_axis.tdata, signs, counts, strict=True)
            )
        ]
        ordered = [value.ordered(m, f"key_{lane}") for lane, value in enumerate(values)]
        keys = [
            named(m, f"key_{lane}", 32, Mux(value.counts, number, Const(_LOWEST, 32)))
            for lane, (value, number) in enumerate(zip(values, ordered, strict=True))
        ]
        if along_lanes:
            follows = held(m, "largest_follow", taken, reset=True)
            maxima = [self._maximum(m, taken, begins, follows, values)]
        else:
            follows = Const(0, 1)
            found = [
                _maximum_of(m, lane, (looked, begins), value.counts, number, key)
                for lane, (value, number, key) in enumerate(zip(values, ordered, keys, strict=True))
            ]
            maxima = [maximum for maximum, _ in found]
            if self.config.norms:
                self._largest(m, keys, found)
                # Of a norm magnitudes are compared.
                keys = [
                    Cat(key[:-1], key[-1] | (sign & is_norm))
                    for key, sign in zip(keys, signs, strict=True)
                ]
        m.d.comb += [
            s_axis.tready.eq(ready),
            m_axis.tvalid.eq(free & given),
            m_axis.tlast.eq(s_axis.tlast),
            m_axis.tdata.as_value().eq(Cat(*keys)),
            summary.tvalid.eq(waits & ~follows),
            summary.tlast.eq(1),
            summary.tdata.factor.eq(factor),
            summary.tdata.maxima.as_value().eq(Cat(*maxima)),
        ]

    def _largest(self, m: Module, keys: list[Value], found: list[tuple[Value, Value]]) -> None:
        """Exponents of the largest magnitudes, with the beat that is there and without."""
        for lane, (key, (maximum, changes)) in enumerate(zip(keys, found, strict=True)):
            before, own = maximum[MANTISSA_BITS:31], key[MANTISSA_BITS:31]
            field = named(m, f"field_{lane}", EXPONENT_BITS, Mux(changes, own, before))
            lowest = named(m, f"field_{lane}_is_lowest", 1, ~field.any())
            lowest_before = named(m, f"field_{lane}_was_lowest", 1, ~before.any())
            m.d.comb += [
                self.largest[lane].eq(Cat(field[0] | lowest, field[1:])),
                self.largest_before[lane].eq(Cat(before[0] | lowest_before, before[1:])),
            ]

    def _in_lanes(self, m: Module, taken: Value, begins: Value) -> list[Value]:
        """Whether the values of a beat of one row count."""
        lanes = self.config.lanes
        left = Signal(_LENGTH, name="values_left", reset_less=True)  # from the second beat on
        # Comparisons are registered too: what they are for takes most of a cycle.
        follow = Signal(lanes, name="following_count", reset_less=True)
        length = self.s_axis.tuser.length
        remaining = named(m, "remaining", len(left), Mux(begins, length, left))
        lowered = truncated(m, "remaining_after", len(left), remaining - lanes)
        rest = named(m, "remaining_after_or_0", len(left), Mux(remaining > lanes, lowered, 0))
        next_count = [named(m, f"next_counts_{i}", 1, rest > i) for i in range(lanes)]
        with m.If(taken):
            m.d.sync += [left.eq(rest), follow.eq(Cat(next_count))]
        first = named(m, "first_count", lanes, Cat(length > lane for lane in range(lanes)))
        counts = named(m, "counts", lanes, Mux(begins, first, follow))
        return list(counts)

    def _in_rows(self, m: Module, taken: Value) -> list[Value]:
        """Whether the value of each lane's row counts."""
        controls = self.s_axis.tuser
        passed = Signal(_LENGTH, name="values_passed")
        # A row that is too long does not begin again.
        following = Mux(passed == _LENGTH[-1], passed, passed + 1)
        update(m, passed, (taken, Mux(self.s_axis.tlast, 0, following)))
        beyond = named(m, "beyond_length", None, passed - controls.length)
        early = named(m, "counts_without_mask", 1, beyond < 0)
        near = [named(m, f"is_near_{n}", 1, beyond < n) for n in range(self.config.lanes)]
        return [
            named(m, f"counts_{lane}", 1, early | (controls.causal & each))
            for lane, each in enumerate(near)
        ]

    def _maximum(
        self,
        m: Module,
        taken: Value,
        begins: Value,
        follows: Value,
        values: "list[_Number]",
    ) -> Value:
        """The largest key of one row, a cycle behind the beats."""
        # Half of the comparisons come before a register, half behind it. Signs, and which values
        # count, are known late: magnitudes are compared, and are made keys behind the register.
        level = values
        while len(level) ** 2 > len(values):
            level = _halved(m, f"largest_of_{len(level)}", level)
        held = [Signal(33, name=f"largest_{at}", reset_less=True) for at in range(len(level))]
        with m.If(taken):
            m.d.sync += [
                to.eq(Cat(value.magnitude, value.negative, value.counts))
                for to, value in zip(held, level, strict=True)
            ]
        keys = [
            _Number(number[31], number[:31], number[32]).key(m, f"largest_key_{at}")
            for at, number in enumerate(held)
        ]
        maximum = Signal(32, name="maximum", reset_less=True)
        largest = _largest(m, "larger", [maximum, *keys])
        # A row never begins in the cycle behind the last beat of another.
        restarts = named(m, "maximum_restarts", 1, taken & begins)
        update(m, maximum, (restarts, _LOWEST), (follows, largest))
        return maximum


def _maximum_of(
    m: Module, lane: int, takes: tuple[Value, Value], counts: Value, ordered: Value, key: Value
) -> tuple[Value, Value]:
    """The largest key of a lane's row up to the last beat that was taken; whether it changes.

    Parameters
    ----------
    m : amaranth.hdl.Module
    lane : int
    takes : tuple of Value
        A beat is taken; a row begins with it.
    counts : Value
        Whether a value counts.
    ordered, key : Value
        The key that it has, and that of -Inf if it does not count.
    """
    maximum = Signal(32, name=f"maximum_{lane}", reset_less=True)
    taken, begins = takes
    larger = named(m, f"is_larger_{lane}", 1, maximum.as_signed() < ordered.as_signed())
    rises = named(m, f"rises_{lane}", 1, larger & counts)
    changes = named(m, f"changes_{lane}", 1, begins | rises)
    update(m, maximum, (taken & changes, key))
    return maximum, changes


@dataclass(frozen=True)
class _Number:
    """A number as it is, and whether it counts."""

    negative: Value
    magnitude: Value
    counts: Value

    def ordered(self, m: Module, name: str) -> Value:
        """Its key, if it counts."""
        negative = named(m, f"{name}_inverts", 1, self.negative)
        inverted = negative.replicate(len(self.magnitude))
        below = named(m, f"{name}_below_sign", len(inverted), self.magnitude ^ inverted)
        return Cat(below, self.negative)

    def key(self, m: Module, name: str) -> Value:
        """Its key, that of -Inf where it does not count."""
        return named(m, name, 32, Mux(self.counts, self.ordered(m, name), Const(_LOWEST, 32)))


def _is_negative(m: Module, name: str, word: Value) -> Value:
    """The sign of a number; NaN has none."""
    top = word[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS].all()
    nan = named(m, f"{name}_is_nan", 1, top & word[:MANTISSA_BITS].any())
    return named(m, f"{name}_is_negative", 1, word[-1] & ~nan)


def _halved(m: Module, name: str, values: list[_Number]) -> list[_Number]:
    """The larger of each pair of neighbours, and whether it counts.

    Where a value counts, all before it do. So of a pair in which the first does not, either may be
    taken; and of two that are the same.
    """
    larger = []
    for at, (left, right) in enumerate(zip(values[0::2], values[1::2], strict=False)):
        part = f"{name}_{at}"
        less = named(m, f"{part}_is_less", 1, left.magnitude < right.magnitude)
        # Whether the right one is larger, if the left one is below 0, and if it is not.
        below_zero = named(m, f"{part}_rises_below_0", 1, ~(right.negative & less))
        above_zero = named(m, f"{part}_rises_above_0", 1, ~right.negative & less)
        rises = named(m, f"{part}_rises", 1, Mux(left.negative, below_zero, above_zero))
        swap = named(m, f"{part}_is_right", 1, rises & right.counts)
        magnitude = named(m, part, None, Mux(swap, right.magnitude, left.magnitude))
        negative = named(m, f"{part}_is_negative", 1, Mux(swap, right.negative, left.negative))
        larger.append(_Number(negative, magnitude, left.counts))
    return larger + values[len(larger) * 2 :]


def _largest(m: Module, name: str, values: list[Value]) -> Value:
    """The largest of a few keys: each is compared with every other, at the same time."""
    wins: list[list[Value]] = [[] for _ in values]
    for right, value in enumerate(values):
        for left in range(right):
            first = values[left].as_signed() >= value.as_signed()
            is_first = named(m, f"{name}_{left}_before_{right}", 1, first)
            wins[left].append(is_first)
            wins[right].append(~is_first)
    gates = [named(m, f"{name}_is_{at}", 1, Cat(*others).all()) for at, others in enumerate(wins)]
    return gated_or(m, name, zip(gates, values, strict=True))
