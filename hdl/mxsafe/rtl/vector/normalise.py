"""Layer and RMS normalisation of rows of a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Member, connect, flipped

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.arithmetic.float_steps import EXPONENT_BITS, MANTISSA_BITS
from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.stream.largest_exponent import LargestExponent
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Part, Unit, place
from mxsafe.rtl.vector.normalise_core import NormaliseCore
from mxsafe.tables import Grade
from mxsafe.validation import Alike, AlikePower, PowerOfTwo

_GROUP = 8
"""Lanes whose largest exponent is found by itself: bit by bit from the top, as that of groups is,
which therefore follows a bit behind, and a step takes no longer than eight lanes need."""


@dataclass(frozen=True, kw_only=True)
class NormaliseConfiguration(Configuration):
    """A `Normalise`.

    Parameters
    ----------
    lanes, along, centre, gain, bias, depth, statistics, optional, dividers, grade, target
        See `NormaliseCoreConfiguration`.
    """

    lanes: AlikePower = 16
    along: Literal["lanes", "beats"] = "lanes"
    centre: bool = True
    gain: bool = False
    bias: bool = False
    depth: PowerOfTwo = 512
    statistics: bool = False
    optional: bool = False
    dividers: Alike = 1
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        _ = self.core  # which checks what it is given

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a row to its first result, without stalls, at most."""
        return self.core.replay.latency + self.core.latency + at(self, "rows")

    core = Part(NormaliseCore)


class Normalise(Unit[NormaliseConfiguration]):
    """Rows to rows with mean 0 and mean square 1: layer normalisation, or without a mean, RMS.

    While a row enters the memory only its largest exponent is found. Then a `NormaliseCore` takes
    it two or three times, while the next one enters.

    Attributes
    ----------
    s_axis_tdata : In(array)
        `lanes` binary32 of one row, or of as many rows.
    s_axis_tlast : In(1)
        The beat ends the row, or the rows. Of more than `depth` beats the first `depth` give NaN,
        and the others any number.
    centred, epsilon, s_axis_gain, s_axis_bias, m_axis, m_axis_statistics
        As of `NormaliseCore`.

    Notes
    -----
    A row of n beats keeps the core busy for ``passes * n`` cycles and at most
    ``(passes - 1) * NormaliseRowConfiguration.latency`` more.
    """

    def ports(self) -> Mapping[str, Member]:
        config = self.config
        beat = data.ArrayLayout(32, config.lanes)
        core = NormaliseCore(config.core).ports()
        own = {"s_axis": In(AxiStream(beat))}
        return {**own, **{name: port for name, port in core.items() if name != "s_axis"}}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        replay, core = RowReplay(config.core.replay), NormaliseCore(config.core)
        place(m, platform, "replay", replay)
        place(m, platform, "core", core)
        waiting = sliced(m, platform, "slice", replay.m_axis, registers=at(config, "rows"))
        taken = named(m, "beat_taken", 1, self.s_axis.tvalid & self.s_axis.tready)
        rows = range(config.core.rows)
        summary = Cat(self._largest(m, platform, row, taken) for row in rows)
        m.d.comb += [
            replay.s_axis.tdata.eq(self.s_axis.tdata.as_value()),
            replay.s_axis.tuser.eq(summary),
            replay.s_axis.tvalid.eq(self.s_axis.tvalid),
            replay.s_axis.tlast.eq(self.s_axis.tlast),
            self.s_axis.tready.eq(replay.s_axis.tready),
            core.s_axis.tdata.as_value().eq(waiting.tdata),
            core.s_axis.tuser.as_value().eq(waiting.tuser.as_value()),
            core.s_axis.tvalid.eq(waiting.tvalid),
            core.s_axis.tlast.eq(waiting.tlast),
            waiting.tready.eq(core.s_axis.tready),
            core.epsilon.eq(self.epsilon),
        ]
        if config.optional:
            m.d.comb += [core.centred.eq(self.centred), replay.skip.eq(~self.centred)]
        for name in ("s_axis_gain", "s_axis_bias"):
            if hasattr(core, name):
                connect(m, flipped(getattr(self, name)), getattr(core, name))
        connect(m, core.m_axis, flipped(self.m_axis))
        if config.statistics:
            connect(m, core.m_axis_statistics, flipped(self.m_axis_statistics))

    def _largest(self, m: Module, platform: object, row: int, taken: Value) -> Value:
        """The largest exponent of a row up to the beat that is there; that of subnormals is 1."""
        span = self.config.lanes // self.config.core.rows
        words = [self.s_axis.tdata[row * span + i] for i in range(span)]
        fields = [word[MANTISSA_BITS:31] for word in words]
        groups = [fields[start : start + _GROUP] for start in range(0, span, _GROUP)]
        if len(groups) > 1:
            fields = []
            for number, group in enumerate(groups):
                unit = place(m, platform, f"largest_{row}_{number}", LargestExponent(count=_GROUP))
                m.d.comb += [port.eq(field) for port, field in zip(unit.fields, group, strict=True)]
                fields.append(unit.largest)
        unit = place(m, platform, f"largest_{row}", LargestExponent(count=len(fields) + 1))
        before = Signal(EXPONENT_BITS, name=f"largest_before_{row}")
        fields.append(before)
        m.d.comb += [port.eq(field) for port, field in zip(unit.fields, fields, strict=True)]
        zero = named(m, f"largest_is_zero_{row}", 1, ~unit.largest.any())
        largest = Cat(unit.largest[0] | zero, unit.largest[1:])
        with m.If(taken):
            m.d.sync += before.eq(Mux(self.s_axis.tlast, 0, unit.largest))
        return largest
