"""Reductions of rows that come in beats: softmax, norms and sums."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.rtl.arithmetic.bits import kept, named, update
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, MANTISSA_BITS
from mxsafe.rtl.stream.axi_stream import AxiStream, joined
from mxsafe.rtl.stream.largest_exponent import LargestExponent
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.stream.row_replay import RowReplay, RowReplayConfiguration
from mxsafe.rtl.timing import Target, at
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.normalise_core import NormaliseCore, NormaliseCoreConfiguration
from mxsafe.rtl.vector.row_lane import RowLane
from mxsafe.rtl.vector.softmax_core import SoftmaxCore, SoftmaxCoreConfiguration
from mxsafe.rtl.vector.softmax_entry import SoftmaxEntry
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.tables import MOST_IN_ROW, Grade
from mxsafe.tables.softmax import LONGEST_ROW
from mxsafe.validation import Alike, PowerOfTwo

_GROUP = 8
"""Lanes whose largest exponent is found by itself: bit by bit from the top, as that of groups is,
which therefore follows a bit behind, and a step takes no longer than eight lanes need."""


_STEADY = ("centred", "summing", "epsilon")
_FACTORS = ("s_axis_gain", "s_axis_bias")
_PORTS = (
    "is_softmax",
    "centred",
    "summing",
    "sweep",
    "epsilon",
    "s_axis",
    *_FACTORS,
    "m_axis",
    "m_axis_statistics",
)
"""Ports, in their order; what a core of norms has beside these ends inside."""


class _Largest(NamedTuple):
    """Largest exponents of rows, 1 for subnormals: with the beat that is there, and without."""

    now: Value
    before: Value


class RowsConfiguration(Configuration):
    """A `Rows`.

    Parameters
    ----------
    lanes : int
        Values in a beat, a power of two with norms.
    softmax : bool
        Whether there is softmax.
    norms : bool
        Whether there are norms or sums; one of both at least.
    along : {"lanes", "beats"}
        Where rows run: a row is the lanes of its beats, one after the other; or each lane has a row
        of its own, a value a beat. The latter with both.
    centre, gain, bias, statistics, optional, sums, dividers, registered
        Of norms, see `NormaliseCoreConfiguration`.
    depth : int
        Beats in the memory, a power of two. With room for two rows, one enters while another
        leaves.
    sweeps : bool
        Along beats: whether rows can come in sweeps, see `SWEEP`.
    grade : {"compact", "fine"}
        How exact it is, see `mxsafe.model.softmax` and `mxsafe.model.normalisation`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    """

    lanes: Alike = 16
    softmax: bool = True
    norms: bool = True
    along: Literal["lanes", "beats"] = "beats"
    centre: bool = True
    gain: bool = False
    bias: bool = False
    statistics: bool = False
    optional: bool = True
    sums: bool = True
    dividers: Alike = 4
    registered: bool = False
    depth: PowerOfTwo = 512
    sweeps: bool = False
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        if self.along == "lanes" and (self.sweeps or (self.softmax and self.norms)):
            raise ValueError(
                "along must be beats in sweeps, and with both softmax and norms, not lanes"
            )
        if self.softmax and (self.gain or self.bias or self.statistics):
            raise ValueError("softmax must not be set with gain, bias or statistics")
        _ = self.lane, self.replay, self.softmax_core, self.norm_core  # which check what they get

    @property
    def latency(self) -> int:
        """Cycles from the last beat of rows that fill the memory to results, at most."""
        waits = self.replay.latency + at(self, "rows", of="Rows")
        found = []
        if self.softmax_core:
            core = self.softmax_core
            found.append(self.depth + sum(core.pauses) - core.rest + core.latency)
        if self.norm_core:
            found.append(self.norm_core.latency)
        return waits + max(found)

    @property
    def properties(self) -> Mapping[str, Any]:
        """Of softmax, cycles without a beat: before the first and the second pass of a row."""
        return {"pauses": list(self.softmax_core.pauses)} if self.softmax_core else {}

    lane = Part(RowLane)
    entry = Part(SoftmaxEntry)

    @property
    def softmax_core(self) -> SoftmaxCoreConfiguration | None:
        """What softmax needs beside lanes."""
        if not self.softmax:
            return None
        return self.part(
            SoftmaxCoreConfiguration,
            longest=self._longest,
            shared=self.norms,
            settling=self.norm_core.settling if self.norm_core else 0,
        )

    @property
    def _longest(self) -> int:
        """Values of the longest row of softmax."""
        if self.sweeps:
            return MOST_IN_ROW
        return self.depth if self.along == "beats" else LONGEST_ROW

    @property
    def norm_core(self) -> NormaliseCoreConfiguration | None:
        """What norms need beside lanes."""
        if not self.norms:
            return None
        return self.part(NormaliseCoreConfiguration, shared=self.softmax)

    @property
    def replay(self) -> RowReplayConfiguration:
        """Configuration of the memory of rows: softmax goes without the first of three passes."""
        if self.norm_core is None:
            return RowReplayConfiguration(
                beat_bits=32 * self.lanes,
                depth=self.depth,
                summary_bits=0,
                may_stream=self.sweeps,
                target=self.target,
            )
        replay = self.norm_core.replay
        skips = replay.passes > 2 and (self.optional or self.softmax)
        return replace(replay, may_skip=skips)


class Rows(Unit[RowsConfiguration]):
    """Softmax, norms and sums of rows.

    Bit for bit what `mxsafe.model.softmax`, `mxsafe.model.normalisation.normalise` and
    `mxsafe.model.window_sum` compute. All share a memory, from which rows come as often as they are
    wanted while the next one enters, what finds the largest values while rows enter, and lanes.
    What is found between passes, and kept of each row, has two units: `SoftmaxCore` and
    `NormaliseCore`.

    Attributes
    ----------
    is_softmax : In(1)
        If there are norms too: what is wanted. Steady while there is a row.
    centred, summing, sweep
        As of `NormaliseCore`; steady as well.
    epsilon, s_axis_gain, s_axis_bias, m_axis_statistics
        With `norms`: as of `NormaliseCore`.
    s_axis_tdata : In(array)
        Values of a row (or, along beats, a value of each lane's row), binary32.
    s_axis_tlast : In(1)
        The beat ends the row, or the rows.
    s_axis_tuser : In(struct)
        With `softmax`, see `SoftmaxEntry`.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values; of sums a beat.
    m_axis_tlast : Out(1)
        The beat ends the row, or the rows.

    Notes
    -----
    Of rows of more beats than the memory has what fits gives NaN, what follows any numbers.

    A row of ``n`` beats keeps softmax busy for ``2 n`` cycles and those of
    `SoftmaxCoreConfiguration.pauses`; a norm for ``passes * n`` cycles and at most
    ``(passes - 1) * NormaliseRowConfiguration.latency`` more.
    """

    def ports(self) -> Ports:
        config = self.config
        beat = data.ArrayLayout(32, config.lanes)
        found = dict(NormaliseCore(config.norm_core).ports()) if config.norm_core else {}
        found |= {
            "s_axis": In(AxiStream(beat, user=config.entry.controls if config.softmax else None)),
            "m_axis": Out(AxiStream(beat)),
        }
        if config.softmax and config.norms:
            found["is_softmax"] = In(1)
        if config.sweeps:
            found["sweep"] = In(SWEEP)
        return {name: found[name] for name in _PORTS if name in found}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        replay = place(m, platform, "replay", RowReplay(config.replay))
        both = config.softmax and config.norms
        is_softmax: Value = self.is_softmax if both else Const(config.softmax, 1)
        entry = self._entry(m, platform, is_softmax, replay) if config.softmax else None
        if config.norms:
            largest = (
                _Largest(entry.largest.as_value(), entry.largest_before.as_value())
                if entry
                else self._largest(m, platform, replay)
            )
            m.d.comb += replay.s_axis.tuser.eq(largest.now)
            if config.replay.may_skip:
                uncentred = ~self.centred if config.optional else Const(0, 1)
                m.d.comb += replay.skip.eq(is_softmax | uncentred)
            if config.sums:
                m.d.comb += replay.stop.eq(self.summing)
        if config.sweeps:
            m.d.comb += replay.stream.eq(self.sweep.streams)
        waiting = sliced(
            m, platform, "slice", replay.m_axis, registers=at(config, "rows", of="Rows")
        )
        softmax, norm = None, None
        if entry:
            softmax = self._softmax(m, platform, is_softmax, waiting, entry)
        if config.norms:
            norm = self._norm(m, platform, is_softmax, waiting, largest.before)
        if softmax and norm:
            self._share(m, is_softmax, softmax, norm)
        self._lanes(m, platform, is_softmax, [core for core in (softmax, norm) if core])
        self._give(m, is_softmax, waiting, softmax, norm)

    def _entry(
        self, m: Module, platform: object, is_softmax: Value, replay: RowReplay
    ) -> SoftmaxEntry:
        """What finds the largest values of rows on their way into the memory."""
        entry = place(m, platform, "entry", SoftmaxEntry(self.config.entry))
        m.d.comb += joined(self.s_axis, entry.s_axis)
        m.d.comb += joined(entry.m_axis, replay.s_axis)
        if self.config.norms:
            m.d.comb += entry.is_softmax.eq(is_softmax)
        if self.config.sweeps:
            m.d.comb += entry.sweep.eq(self.sweep)
        return entry

    def _largest(self, m: Module, platform: object, replay: RowReplay) -> _Largest:
        """Without softmax: values into the memory as they are, and their largest exponents."""
        source, sink = self.s_axis, replay.s_axis
        ready: Value = sink.tready
        m.d.comb += joined(source, sink)
        looks = named(m, "looks_at_beat", 1, source.tvalid & source.tready)
        ends: Value = source.tlast
        if self.config.sweeps:
            sweep = self.sweep
            m.d.comb += sink.tvalid.eq(source.tvalid & ~sweep.largest)
            ready = ready | sweep.largest
            looks = looks & ~sweep.streams
            ends = (ends & ~sweep.largest) | sweep.begins
            looks = named(m, "looks_or_begins", 1, looks | sweep.begins)
        m.d.comb += source.tready.eq(ready & ~ResetSignal())
        rows = self.config.lanes if self.config.along == "beats" else 1
        span = self.config.lanes // rows
        fields = [word[MANTISSA_BITS:31] for word in source.tdata]
        found, before = [], []
        for row in range(rows):
            held = Signal(EXPONENT_BITS, name=f"largest_before_{row}")
            own = fields[row * span : (row + 1) * span]
            largest = self._largest_of(m, platform, f"largest_{row}", own, held)
            going = named(m, f"largest_going_{row}", EXPONENT_BITS, Mux(ends, 0, largest))
            update(m, held, (looks, going))
            found.append(_normal(m, f"largest_{row}", largest))
            before.append(_normal(m, f"largest_before_{row}", held))
        return _Largest(Cat(found), Cat(before))

    def _largest_of(
        self, m: Module, platform: object, name: str, fields: list[Value], before: Value
    ) -> Value:
        """The largest of some exponents, first of groups of them, and of what was before."""
        if len(fields) > _GROUP:
            fields = [
                self._largest_of_all(
                    m, platform, f"{name}_{start // _GROUP}", fields[start : start + _GROUP]
                )
                for start in range(0, len(fields), _GROUP)
            ]
        return self._largest_of_all(m, platform, name, [*fields, before])

    def _largest_of_all(
        self, m: Module, platform: object, name: str, fields: Sequence[Value]
    ) -> Value:
        unit = LargestExponent(count=len(fields), target=self.config.target)
        place(m, platform, name, unit)
        m.d.comb += [port.eq(field) for port, field in zip(unit.fields, fields, strict=True)]
        return unit.largest

    def _softmax(
        self, m: Module, platform: object, is_softmax: Value, waiting: Any, entry: SoftmaxEntry
    ) -> SoftmaxCore:
        core = place(m, platform, "softmax", SoftmaxCore(self.config.softmax_core))
        flags = waiting.tuser
        m.d.comb += [
            core.s_axis.tdata.as_value().eq(waiting.tdata),
            core.s_axis.tlast.eq(waiting.tlast),
            core.s_axis.tvalid.eq(waiting.tvalid & is_softmax),
            core.s_axis.tuser.overlong.eq(flags.overlong),
        ]
        m.d.comb += joined(entry.m_axis_summary, core.s_axis_summary)
        if self.config.sweeps:
            m.d.comb += core.sweep.eq(self.sweep)
        return core

    def _norm(
        self, m: Module, platform: object, is_softmax: Value, waiting: Any, before: Value
    ) -> NormaliseCore:
        config = self.config
        core = place(m, platform, "norm", NormaliseCore(config.norm_core))
        m.d.comb += [
            core.s_axis.tdata.as_value().eq(waiting.tdata),
            core.s_axis.tlast.eq(waiting.tlast),
            core.s_axis.tvalid.eq(waiting.tvalid & ~is_softmax),
            core.s_axis.tuser.as_value().eq(waiting.tuser.as_value()),
        ]
        for name in _STEADY:
            if hasattr(core, name):
                m.d.comb += getattr(core, name).eq(getattr(self, name))
        for name in _FACTORS:
            if hasattr(core, name):
                connect(m, flipped(getattr(self, name)), getattr(core, name))
        if config.statistics:
            connect(m, core.m_axis_statistics, flipped(self.m_axis_statistics))
        if config.sweeps:
            flags = waiting.tuser
            m.d.comb += [
                core.sweep.eq(self.sweep),
                core.looked.eq(self._looked(m) & ~is_softmax),
                core.s_axis.tuser.number.eq(
                    Mux(self.sweep.streams, self.sweep.number, flags.number)
                ),
                core.s_axis.tuser.summary.eq(Mux(self.sweep.streams, before, flags.summary)),
            ]
        return core

    def _looked(self, m: Module) -> Value:
        """Whether a sweep for the largest, or a piece of one, ends."""
        source = self.s_axis
        ends = source.tvalid & source.tready & source.tlast
        return ends & self.sweep.largest

    def _share(
        self, m: Module, is_softmax: Value, softmax: SoftmaxCore, norm: NormaliseCore
    ) -> None:
        """Sums and registers of rows for both."""
        low, bits = self.config.lane.term_place, softmax.config.logarithm.total_bits
        m.d.comb += [
            norm.other.eq(is_softmax),
            norm.adds.eq(softmax.adds),
            norm.clears.eq(softmax.clears),
            softmax.totals.as_value().eq(Cat(total[low : low + bits] for total in norm.totals)),
        ]
        room = norm.config.stored_bits
        of_row = softmax.of_row.as_value()
        m.d.comb += [norm.stored.eq(of_row[:room]), norm.stores.eq(softmax.loads)]
        for row, loads in enumerate(softmax.loads):
            # What norms have no room for.
            rest = kept(m, loads, f"rest_of_row_{row}", of_row[room:])
            m.d.comb += softmax.held[row].as_value().eq(Cat(norm.held[row], rest))

    def _lanes(
        self,
        m: Module,
        platform: object,
        is_softmax: Value,
        cores: Sequence[SoftmaxCore | NormaliseCore],
    ) -> None:
        enables = [core.lanes_en for core in cores]
        both = len(cores) > 1
        en = named(m, "lanes_en", 1, Mux(is_softmax, *enables)) if both else enables[0]
        for number in range(self.config.lanes):
            # It holds data alone.
            lane = place(m, platform, f"lane_{number}", RowLane(self.config.lane), reset=False)
            m.d.comb += lane.en.eq(en)
            if both:
                m.d.comb += lane.is_softmax.eq(is_softmax)
            for core in cores:
                into, out = core.lane_inputs[number], core.lane_outputs[number]
                m.d.comb += (getattr(lane, name).eq(into[name]) for name, _ in into.shape())
                m.d.comb += (out[name].eq(getattr(lane, name)) for name, _ in out.shape())

    def _give(
        self,
        m: Module,
        is_softmax: Value,
        waiting: Any,
        softmax: SoftmaxCore | None,
        norm: NormaliseCore | None,
    ) -> None:
        """Results of the one that is wanted."""
        sink = self.m_axis
        there: list[tuple[Value, Value, Value]] = []
        if softmax:
            owes: Value = Const(0, 1)
            if self.config.sweeps:
                # A beat where a sweep for the largest ends.
                owes = Signal(name="owes_beat")
                update(m, owes, (self._looked(m) & is_softmax, 1), (sink.tready, 0))
            given = softmax.m_axis
            there.append((given.tvalid | owes, given.tlast | owes, given.tdata.as_value()))
        if norm:
            there.append((norm.m_axis.tvalid, norm.m_axis.tlast, Value.cast(norm.m_axis.tdata)))
        cores = [core for core in (softmax, norm) if core]
        m.d.comb += (core.m_axis.tready.eq(sink.tready) for core in cores)
        beats = [Cat(*each) for each in there]
        ready = [core.s_axis.tready for core in cores]
        both = len(cores) > 1
        m.d.comb += [
            waiting.tready.eq(Mux(is_softmax, *ready) if both else ready[0]),
            Cat(sink.tvalid, sink.tlast, sink.tdata.as_value()).eq(
                Mux(is_softmax, *beats) if both else beats[0]
            ),
        ]


def _normal(m: Module, name: str, field: Value) -> Value:
    """An exponent field; that of subnormals is 1."""
    some = named(m, f"{name}_has_bits", 1, field.any())
    zero = named(m, f"{name}_is_zero", 1, ~some)
    return Cat(field[0] | zero, field[1:])
