"""What happens to values on their way into softmax's memory: masks, and the largest of a row."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import gated_or, named, truncated
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, INFINITY, MANTISSA_BITS
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.softmax_core import SoftmaxCoreConfiguration
from mxsafe.tables import softmax as widths

__all__ = ["SoftmaxEntry", "SoftmaxEntryConfiguration"]

_LOWEST = 0xFFFFFFFF ^ INFINITY
"""Key of -Inf."""
_LENGTH = range(widths.LONGEST_ROW + 1)


@dataclass(frozen=True, kw_only=True)
class SoftmaxEntryConfiguration(Configuration):
    """A `SoftmaxEntry`.

    Parameters
    ----------
    lanes : int
        Values in a beat.
    along : {"lanes", "beats"}
        Where rows run, see `SoftmaxCoreConfiguration`.

    Raises
    ------
    ValueError
        If a parameter is not as above.
    """

    lanes: int = 16
    along: str = "lanes"

    def __post_init__(self) -> None:
        self._set(lanes=self.core.lanes)

    @property
    def base(self) -> str:
        """Name of the module in its usual configuration."""
        return "softmax_entry"

    @property
    def latency(self) -> int:
        """Clocks from a beat of values to its keys."""
        return 1

    @property
    def core(self) -> SoftmaxCoreConfiguration:
        """What the rows are for."""
        return SoftmaxCoreConfiguration(lanes=self.lanes, along=self.along)

    @property
    def controls(self) -> data.StructLayout:
        """What stands beside a beat of values."""
        causal = {"causal": 1} if self.along == "beats" else {}
        return data.StructLayout({"factor": 32, "length": _LENGTH, **causal})


class SoftmaxEntry(Unit[SoftmaxEntryConfiguration]):
    """Numbers to keys that keep their order; what does not count to that of -Inf; the maxima.

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
    m_axis_tdata : Out(array)
        Keys, see `SoftmaxLane`. That of any NaN is one of a positive NaN.
    m_axis_tlast : Out(1)
    m_axis_tuser : Out(struct)
        With the last beat: ``factor``, and ``maxima``, the largest key of each row.
    """

    def ports(self) -> Mapping[str, Member]:
        """Stream of values in, stream of keys out."""
        core = self.config.core
        return {
            "s_axis": In(AxiStream(core.beat, user=self.config.controls)),
            "m_axis": Out(AxiStream(core.beat, user=core.summary)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        s_axis, m_axis = self.s_axis, self.m_axis
        held = Signal(name="is_held")
        moves = named(m, "moves", 1, ~held | m_axis.tready)
        ready = named(m, "is_ready", 1, moves & ~ResetSignal())
        taken = named(m, "takes_beat", 1, ready & s_axis.tvalid)
        along_lanes = self.config.along == "lanes"
        counts = self._in_lanes(m, taken) if along_lanes else self._in_rows(m, taken)
        ordered = [_ordered(m, f"key_{lane}", word) for lane, word in enumerate(s_axis.tdata)]
        found = [
            named(m, f"key_{lane}", 32, Mux(count, key, Const(_LOWEST, 32)))
            for lane, (key, count) in enumerate(zip(ordered, counts, strict=True))
        ]
        keys = [Signal(32, name=f"held_key_{lane}", reset_less=True) for lane in range(len(found))]
        factor = Signal(32, name="factor", reset_less=True)
        last = Signal(name="last", reset_less=True)
        with m.If(moves):
            m.d.sync += held.eq(s_axis.tvalid)
        with m.If(taken):
            m.d.sync += [key.eq(value) for key, value in zip(keys, found, strict=True)]
            m.d.sync += [factor.eq(s_axis.tuser.factor), last.eq(s_axis.tlast)]
        maxima = (
            self._maximum(m, taken, ordered, counts)
            if along_lanes
            else self._maxima(m, taken, found)
        )
        m.d.comb += [
            s_axis.tready.eq(ready),
            m_axis.tvalid.eq(held),
            m_axis.tlast.eq(last),
            m_axis.tdata.as_value().eq(Cat(*keys)),
            m_axis.tuser.factor.eq(factor),
            m_axis.tuser.maxima.as_value().eq(Cat(*maxima)),
        ]
        return m

    def _in_lanes(self, m: Module, taken: Value) -> list[Value]:
        """Whether the values of a beat of one row count."""
        lanes = self.config.lanes
        begins = Signal(name="row_begins", init=1)
        left = Signal(_LENGTH, name="values_left", reset_less=True)  # from the second beat on
        # Comparisons are registered too: what they are for takes most of a clock.
        follow = Signal(lanes, name="following_count", reset_less=True)
        length = self.s_axis.tuser.length
        remaining = named(m, "remaining", len(left), Mux(begins, length, left))
        lowered = truncated(m, "remaining_after", len(left), remaining - lanes)
        rest = named(m, "remaining_after_or_0", len(left), Mux(remaining > lanes, lowered, 0))
        with m.If(taken):
            m.d.sync += [
                begins.eq(self.s_axis.tlast),
                left.eq(rest),
                follow.eq(Cat(rest > lane for lane in range(lanes))),
            ]
        first = named(m, "first_count", lanes, Cat(length > lane for lane in range(lanes)))
        counts = named(m, "counts", lanes, Mux(begins, first, follow))
        return list(counts)

    def _in_rows(self, m: Module, taken: Value) -> list[Value]:
        """Whether the value of each lane's row counts."""
        controls = self.s_axis.tuser
        passed = Signal(_LENGTH, name="values_passed")
        # A row that is too long does not begin again.
        following = Mux(passed == _LENGTH[-1], passed, passed + 1)
        with m.If(taken):
            m.d.sync += passed.eq(Mux(self.s_axis.tlast, 0, following))
        beyond = named(m, "beyond_length", None, passed - controls.length)
        early = named(m, "counts_without_mask", 1, beyond < 0)
        return [
            named(m, f"counts_{lane}", 1, early | (controls.causal & (beyond < lane)))
            for lane in range(self.config.lanes)
        ]

    def _maximum(
        self, m: Module, taken: Value, ordered: list[Value], counts: list[Value]
    ) -> list[Value]:
        """The largest key of one row up to the beat that is held."""
        # Half of the comparisons come before the register, half behind it. Which values count is
        # known late, so keys are compared before they are masked.
        level = list(zip(ordered, counts, strict=True))
        while len(level) ** 2 > len(ordered):
            level = _halved(m, f"largest_of_{len(level)}", level)
        held = [Signal(32, name=f"largest_{at}", reset_less=True) for at in range(len(level))]
        with m.If(taken):
            m.d.sync += [
                to.eq(Mux(count, value, Const(_LOWEST, 32)))
                for to, (value, count) in zip(held, level, strict=True)
            ]
        before = Signal(32, name="maximum_before", init=_LOWEST)
        maximum = _largest(m, "maximum", [before, *held])
        with m.If(self.m_axis.tvalid & self.m_axis.tready):
            m.d.sync += before.eq(Mux(self.m_axis.tlast, _LOWEST, maximum))
        return [maximum]

    def _maxima(self, m: Module, taken: Value, found: list[Value]) -> list[Value]:
        """The largest key of each lane's row up to the beat that is held."""
        begins = Signal(name="row_begins", init=1)
        with m.If(taken):
            m.d.sync += begins.eq(self.s_axis.tlast)
        maxima: list[Value] = []
        for lane, value in enumerate(found):
            maximum = Signal(32, name=f"maximum_{lane}", reset_less=True)
            rises = named(m, f"rises_{lane}", 1, maximum.as_signed() < value.as_signed())
            with m.If(taken & (begins | rises)):
                m.d.sync += maximum.eq(value)
            maxima.append(maximum)
        return maxima


def _ordered(m: Module, name: str, word: Value) -> Value:
    """The key of a number."""
    top = word[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS].all()
    nan = named(m, f"{name}_is_nan", 1, top & word[:MANTISSA_BITS].any())
    negative = named(m, f"{name}_is_negative", 1, word[-1] & ~nan)
    inverted = word[:-1] ^ negative.replicate(31)
    return named(m, f"{name}_ordered", 32, Cat(inverted, negative))


def _halved(m: Module, name: str, values: list[tuple[Value, Value]]) -> list[tuple[Value, Value]]:
    """The larger of each pair of neighbours, and whether it counts.

    Where a value counts, all before it do. So of a pair in which the first does not, either may be
    taken.
    """
    larger = []
    for at, (left, right) in enumerate(zip(values[0::2], values[1::2], strict=False)):
        rises = named(m, f"{name}_{at}_rises", 1, left[0].as_signed() < right[0].as_signed())
        swap = named(m, f"{name}_{at}_is_right", 1, rises & right[1])
        larger.append((named(m, f"{name}_{at}", 32, Mux(swap, right[0], left[0])), left[1]))
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
