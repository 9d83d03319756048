"""What happens to values on their way into softmax's memory: masks, and the largest of a row."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
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
        counts = self._counting(m, taken)
        found = [
            _key(m, f"key_{lane}", s_axis.tdata[lane], count) for lane, count in enumerate(counts)
        ]
        keys = [Signal(32, name=f"held_key_{lane}", reset_less=True) for lane in range(len(found))]
        factor = Signal(32, name="factor", reset_less=True)
        last = Signal(name="last", reset_less=True)
        with m.If(moves):
            m.d.sync += held.eq(s_axis.tvalid)
        with m.If(taken):
            m.d.sync += [key.eq(value) for key, value in zip(keys, found, strict=True)]
            m.d.sync += [factor.eq(s_axis.tuser.factor), last.eq(s_axis.tlast)]
        maxima = self._maxima(m, taken, found, keys)
        m.d.comb += [
            s_axis.tready.eq(ready),
            m_axis.tvalid.eq(held),
            m_axis.tlast.eq(last),
            m_axis.tdata.as_value().eq(Cat(*keys)),
            m_axis.tuser.factor.eq(factor),
            m_axis.tuser.maxima.as_value().eq(Cat(*maxima)),
        ]
        return m

    def _counting(self, m: Module, taken: Value) -> list[Value]:
        """Whether the values of a beat count."""
        config, controls = self.config, self.s_axis.tuser
        step = config.lanes if config.along == "lanes" else 1
        passed = Signal(_LENGTH, name="values_passed")  # of a row
        following = named(m, "values_with_beat", None, passed + step)
        # A row that is too long does not begin again.
        with m.If(taken):
            ends = self.s_axis.tlast
            m.d.sync += passed.eq(Mux(ends, 0, Mux(following > _LENGTH[-1], passed, following)))
        lanes = range(config.lanes)
        if config.along == "lanes":
            return self._counting_lanes(m, passed)
        beyond = named(m, "beyond_length", None, passed - controls.length)
        early = named(m, "counts_without_mask", 1, beyond < 0)
        return [
            named(m, f"counts_{lane}", 1, early | (controls.causal & (beyond < lane)))
            for lane in lanes
        ]

    def _counting_lanes(self, m: Module, passed: Value) -> list[Value]:
        """Whether the values of a beat of one row count, of which so many have passed."""
        lanes, length = self.config.lanes, self.s_axis.tuser.length
        low = lanes.bit_length() - 1
        if lanes != 1 << low or not low:
            return [named(m, f"counts_{at}", 1, passed + at < length) for at in range(lanes)]
        # What has passed is whole beats of a power of two: so beats are compared, once for all.
        more = named(m, "has_whole_beat", 1, passed[low:] < length[low:])
        ends = named(m, "ends_in_beat", 1, passed[low:] == length[low:])
        partly = [
            named(m, f"counts_{at}", 1, more | (ends & (length[:low] > at)))
            for at in range(lanes - 1)
        ]
        return [*partly, more]

    def _maxima(
        self, m: Module, taken: Value, found: list[Value], keys: list[Signal]
    ) -> list[Value]:
        """The largest key of each row up to the beat that is held."""
        sent = named(m, "sends_beat", 1, self.m_axis.tvalid & self.m_axis.tready)
        if self.config.along == "beats":
            largest: list[Value] = list(keys)
        else:
            # Half of the comparisons come before the register, half behind it.
            level = found
            while len(level) ** 2 > len(found):
                level = _halved(m, f"largest_of_{len(level)}", level)
            first = [Signal(32, name=f"largest_{at}", reset_less=True) for at in range(len(level))]
            with m.If(taken):
                m.d.sync += [to.eq(value) for to, value in zip(first, level, strict=True)]
            largest = list(first)
            while len(largest) > 1:
                largest = _halved(m, f"largest_held_of_{len(largest)}", largest)
        maxima = []
        for row, value in enumerate(largest):
            before = Signal(32, name=f"maximum_before_{row}", init=_LOWEST)
            maximum = _larger(m, f"maximum_{row}", before, value)
            with m.If(sent):
                m.d.sync += before.eq(Mux(self.m_axis.tlast, _LOWEST, maximum))
            maxima.append(maximum)
        return maxima


def _key(m: Module, name: str, word: Value, counts: Value) -> Value:
    """The key of a number, or that of -Inf."""
    top = word[MANTISSA_BITS : MANTISSA_BITS + EXPONENT_BITS].all()
    nan = named(m, f"{name}_is_nan", 1, top & word[:MANTISSA_BITS].any())
    negative = named(m, f"{name}_is_negative", 1, word[-1] & ~nan)
    ordered = Cat(word[:-1] ^ negative.replicate(31), negative)
    return named(m, name, 32, Mux(counts, ordered, Const(_LOWEST, 32)))


def _larger(m: Module, name: str, left: Value, right: Value) -> Value:
    swap = named(m, f"{name}_is_right", 1, left.as_signed() < right.as_signed())
    return named(m, name, 32, Mux(swap, right, left))


def _halved(m: Module, name: str, values: list[Value]) -> list[Value]:
    """The larger of each pair of neighbours."""
    pairs = zip(values[0::2], values[1::2], strict=False)
    larger = [_larger(m, f"{name}_{at}", *pair) for at, pair in enumerate(pairs)]
    return larger + values[len(larger) * 2 :]
