"""Reductions of rows that come in beats, a row in each lane: softmax, norms and sums."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream, joined
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.stream.row_replay import RowReplay, RowReplayConfiguration
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Part, Unit, place
from mxsafe.rtl.vector.normalise_core import NormaliseCore, NormaliseCoreConfiguration
from mxsafe.rtl.vector.row_lane import RowLane
from mxsafe.rtl.vector.softmax_core import SoftmaxCore, SoftmaxCoreConfiguration
from mxsafe.rtl.vector.softmax_entry import SoftmaxEntry
from mxsafe.rtl.vector.sweeps import SWEEP
from mxsafe.tables import MOST_IN_ROW, Grade
from mxsafe.validation import Alike, AlikePower, PowerOfTwo


@dataclass(frozen=True, kw_only=True)
class RowsConfiguration(Configuration):
    """A `Rows`.

    Parameters
    ----------
    lanes : int
        Rows side by side, a power of two.
    softmax : bool
        Whether there is softmax.
    norms : bool
        Whether there are norms or sums; one of both at least.
    centre, optional, sums, dividers, registered
        Of norms, see `NormaliseCoreConfiguration`.
    depth : int
        Beats in the memory, a power of two.
    sweeps : bool
        Whether rows can come in sweeps, see `SWEEP`.
    grade : {"compact", "fine"}
        How exact it is, see `mxsafe.model.softmax` and `mxsafe.model.normalisation`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.arithmetic.target`.
    """

    lanes: AlikePower = 16
    softmax: bool = True
    norms: bool = True
    centre: bool = True
    optional: bool = True
    sums: bool = True
    dividers: Alike = 4
    registered: bool = False
    depth: PowerOfTwo = 512
    sweeps: bool = False
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        _ = self.lane, self.replay, self.softmax_core, self.norm_core  # which check what they get

    @property
    def latency(self) -> int:
        """Cycles from the last beat of rows that fill the memory to results, at most."""
        waits = self.replay.latency + at(self, "rows")
        found = []
        if self.softmax_core:
            core = self.softmax_core
            found.append(self.depth + sum(core.pauses) - core.rest + core.latency)
        if self.norm_core:
            found.append(self.norm_core.latency)
        return waits + max(found)

    lane = Part(RowLane)
    entry = Part(SoftmaxEntry, along=lambda _: "beats")

    @property
    def softmax_core(self) -> SoftmaxCoreConfiguration | None:
        """What softmax needs beside lanes."""
        if not self.softmax:
            return None
        return self.part(
            SoftmaxCoreConfiguration,
            along="beats",
            longest=MOST_IN_ROW if self.sweeps else self.depth,
            shared=self.norms,
            settling=self.norm_core.settling if self.norm_core else 0,
        )

    @property
    def norm_core(self) -> NormaliseCoreConfiguration | None:
        """What norms need beside lanes."""
        if not self.norms:
            return None
        return self.part(NormaliseCoreConfiguration, along="beats", shared=self.softmax)

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
        return replace(replay, may_skip=skips, target=self.target)


class Rows(Unit[RowsConfiguration]):
    """Softmax, norms and sums of rows, each of which goes along a lane.

    Bit for bit what `mxsafe.model.softmax`, `mxsafe.model.normalisation.normalise` and
    `mxsafe.model.window_sum` compute. All share a memory, from which rows come as often as they are
    wanted, what finds the largest values while rows enter, and lanes. What is found between passes,
    and kept of each row, has two units: `SoftmaxCore` and `NormaliseCore`.

    Attributes
    ----------
    is_softmax : In(1)
        If there are norms too: what is wanted. Steady while there is a row.
    centred, summing, sweep
        As of `NormaliseCore`; steady as well.
    epsilon : In(32)
        With `norms`: see there.
    s_axis_tdata : In(array)
        A value of each lane's row, binary32.
    s_axis_tlast : In(1)
        The beat ends the rows.
    s_axis_tuser : In(struct)
        Of softmax, see `SoftmaxEntry`.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values; of sums a beat.
    m_axis_tlast : Out(1)
        The beat ends the rows.

    Notes
    -----
    Of rows of more beats than the memory has what fits gives NaN, what follows any numbers.
    """

    def ports(self) -> Mapping[str, Member]:
        config = self.config
        beat = config.entry.core.beat
        both = config.softmax and config.norms
        return {
            **({"is_softmax": In(1)} if both else {}),
            **({"centred": In(1)} if config.norms and config.optional else {}),
            **({"summing": In(1)} if config.norms and config.sums else {}),
            **({"sweep": In(SWEEP)} if config.sweeps else {}),
            **({"epsilon": In(32)} if config.norms else {}),
            "s_axis": In(AxiStream(beat, user=config.entry.controls)),
            "m_axis": Out(AxiStream(beat)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        entry, replay = SoftmaxEntry(config.entry), RowReplay(config.replay)
        place(m, platform, "entry", entry)
        place(m, platform, "replay", replay)
        is_softmax: Value = Const(config.softmax, 1)
        if config.softmax and config.norms:
            is_softmax = self.is_softmax
        m.d.comb += joined(self.s_axis, entry.s_axis)
        m.d.comb += joined(entry.m_axis, replay.s_axis)
        if config.norms:
            m.d.comb += [
                entry.is_softmax.eq(is_softmax),
                replay.s_axis.tuser.eq(entry.largest.as_value()),
            ]
            if config.replay.may_skip:
                uncentred = ~self.centred if config.optional else Const(0, 1)
                m.d.comb += replay.skip.eq(is_softmax | uncentred)
            if config.sums:
                m.d.comb += replay.stop.eq(self.summing)
        if config.sweeps:
            m.d.comb += [entry.sweep.eq(self.sweep), replay.stream.eq(self.sweep.streams)]
        waiting = sliced(m, platform, "slice", replay.m_axis, registers=at(config, "rows"))
        softmax = self._softmax(m, platform, is_softmax, waiting, entry)
        norm = self._norm(m, platform, is_softmax, waiting, entry)
        if softmax and norm:
            self._share(m, platform, is_softmax, softmax, norm)
        self._give(m, is_softmax, waiting, softmax, norm)

    def _softmax(
        self,
        m: Module,
        platform: object,
        is_softmax: Value,
        waiting: Any,
        entry: SoftmaxEntry,
    ) -> SoftmaxCore | None:
        if self.config.softmax_core is None:
            return None
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
        self,
        m: Module,
        platform: object,
        is_softmax: Value,
        waiting: Any,
        entry: SoftmaxEntry,
    ) -> NormaliseCore | None:
        config = self.config
        if config.norm_core is None:
            return None
        core = place(m, platform, "norm", NormaliseCore(config.norm_core))
        m.d.comb += [
            core.s_axis.tdata.as_value().eq(waiting.tdata),
            core.s_axis.tlast.eq(waiting.tlast),
            core.s_axis.tvalid.eq(waiting.tvalid & ~is_softmax),
            core.s_axis.tuser.as_value().eq(waiting.tuser.as_value()),
            core.epsilon.eq(self.epsilon),
        ]
        if config.optional:
            m.d.comb += core.centred.eq(self.centred)
        if config.sums:
            m.d.comb += core.summing.eq(self.summing)
        if config.sweeps:
            flags = waiting.tuser
            m.d.comb += [
                core.sweep.eq(self.sweep),
                core.looked.eq(self._looked(m) & ~is_softmax),
                core.s_axis.tuser.number.eq(
                    Mux(self.sweep.streams, self.sweep.number, flags.number)
                ),
                core.s_axis.tuser.summary.eq(
                    Mux(self.sweep.streams, entry.largest_before.as_value(), flags.summary)
                ),
            ]
        return core

    def _looked(self, m: Module) -> Value:
        """Whether a sweep for the largest, or a piece of one, ends."""
        source = self.s_axis
        ends = source.tvalid & source.tready & source.tlast
        return ends & self.sweep.largest

    def _share(
        self,
        m: Module,
        platform: object,
        is_softmax: Value,
        softmax: SoftmaxCore,
        norm: NormaliseCore,
    ) -> None:
        """Lanes and sums for both."""
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
            rest = Signal(len(of_row) - room, name=f"rest_of_row_{row}", reset_less=True)
            with m.If(loads):
                m.d.sync += rest.eq(of_row[room:])
            m.d.comb += softmax.held[row].as_value().eq(Cat(norm.held[row], rest))
        en = named(m, "lanes_en", 1, Mux(is_softmax, softmax.lanes_en, norm.lanes_en))
        for number in range(self.config.lanes):
            # It holds data alone.
            lane = RowLane(self.config.lane)
            place(m, platform, f"lane_{number}", lane, reset=False)
            m.d.comb += [lane.en.eq(en), lane.is_softmax.eq(is_softmax)]
            for core in (softmax, norm):
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
                with m.If(self._looked(m) & is_softmax):
                    m.d.sync += owes.eq(1)
                with m.Elif(sink.tready):
                    m.d.sync += owes.eq(0)
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
