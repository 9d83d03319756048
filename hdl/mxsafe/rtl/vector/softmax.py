"""Softmax behind AXI4-Stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.target import Target
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.stream.axi_stream import AxiStream, joined
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.stream.row_replay import RowReplay, RowReplayConfiguration
from mxsafe.rtl.timing import at
from mxsafe.rtl.unit import Part, Unit, place
from mxsafe.rtl.vector.softmax_core import SoftmaxCore
from mxsafe.rtl.vector.softmax_entry import SoftmaxEntry
from mxsafe.tables import Grade


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfiguration(Configuration):
    """A `Softmax`.

    Parameters
    ----------
    lanes : int
        Values in a beat.
    along : {"lanes", "beats"}
        Where rows run: a row is the lanes of its beats, one after the other; or each lane has a row
        of its own, a value a beat.
    depth : int
        Beats in the memory, a power of two. With room for two rows, one enters while another
        leaves.
    grade : {"compact", "fine"}
        How exact it is, see `mxsafe.model.softmax`.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.arithmetic.target`.
    """

    lanes: int = 16
    along: Literal["lanes", "beats"] = "lanes"
    depth: int = 512
    grade: Grade = "compact"
    target: Target = "asic"

    def __post_init__(self) -> None:
        _ = self.core, self.replay  # which check what they are given

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a first row that fills the memory to its results."""
        core = self.core
        waits = self.replay.latency + at(self, "rows") + self.depth
        return waits + sum(core.pauses) - core.rest + core.latency

    @property
    def properties(self) -> Mapping[str, Any]:
        """Cycles without a beat, before the first and before the second pass of a row."""
        return {"pauses": list(self.core.pauses)}

    core = Part(SoftmaxCore)
    entry = Part(SoftmaxEntry)

    @property
    def replay(self) -> RowReplayConfiguration:
        """Configuration of the memory of rows."""
        return RowReplayConfiguration(
            beat_bits=self.core.beat.size,
            depth=self.depth,
            summary_bits=0,
        )


class Softmax(Unit[SoftmaxConfiguration]):
    """``exp(scale * x) / sum(exp(scale * x))`` of rows of at most 4,096 values.

    Bit for bit what `mxsafe.model.softmax` computes. While a row enters the memory its largest
    value is found; from there it comes twice. A beat enters a cycle, if there is room; a row begins
    to enter when the one before begins to leave. A row of ``n`` beats leaves every ``2 n`` cycles
    and those of `SoftmaxCoreConfiguration.pauses`.

    Attributes
    ----------
    s_axis_tdata : In(array)
        Values of a row (or, along beats, a value of each lane's row), binary32.
    s_axis_tlast : In(1)
        The beat ends the row.
    s_axis_tuser : In(struct)
        The same in all beats of a row. ``factor``: binary32 number ``scale * log2(e)``, from
        ``2^-120`` to ``2^121``, see `mxsafe.model.softmax.softmax_factor`. ``length``: how many
        values of the row count, from the first on; the others are as -Inf. Along beats ``causal``:
        lane ``i`` has a row of ``length + i`` values that count.
    m_axis_tdata : Out(array)
        Results, binary32, in the layout of the values.
    m_axis_tlast : Out(1)
        The beat ends the row.

    Notes
    -----
    A row of more beats than the memory has is cut: what the memory holds of it gives NaN, what
    follows any numbers.
    """

    def ports(self) -> Mapping[str, Member]:
        config = self.config
        return {
            "s_axis": In(AxiStream(config.core.beat, user=config.entry.controls)),
            "m_axis": Out(AxiStream(config.core.beat)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        entry, replay = SoftmaxEntry(config.entry), RowReplay(config.replay)
        core = SoftmaxCore(config.core)
        for name, unit in (("entry", entry), ("replay", replay), ("core", core)):
            place(m, platform, name, unit)
        m.d.comb += joined(self.s_axis, entry.s_axis)
        m.d.comb += joined(entry.m_axis, replay.s_axis)
        waiting = sliced(m, platform, "slice", replay.m_axis, registers=at(config, "rows"))
        m.d.comb += joined(waiting, core.s_axis)
        m.d.comb += joined(core.m_axis, self.m_axis)
        m.d.comb += joined(entry.m_axis_summary, core.s_axis_summary)
