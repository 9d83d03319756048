"""Functions of the numbers of a beat by fewer lanes than it has.

Tested by `verif/rtl/machine/vector/test_vector_engine.py`.
"""

from dataclasses import field

from amaranth.hdl import Cat, Module, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.rtl.arithmetic.bits import chosen, named, noted, update
from mxsafe.rtl.machine.vector.beat_parts import BeatJoiner
from mxsafe.rtl.stream.axi_stream import AxiStream
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.rtl.vector.vector_function import VectorFunction, VectorFunctionConfiguration
from mxsafe.validation import AlikePower


class NarrowFunctionConfiguration(Configuration):
    """A `NarrowFunction`.

    Parameters
    ----------
    function : VectorFunctionConfiguration
        The functions, and their lanes.
    parts : int
        Parts of a beat, each as wide as the lanes: a power of two, at least 2.
    """

    function: VectorFunctionConfiguration = field(default_factory=VectorFunctionConfiguration)
    parts: AlikePower = 4

    def __post_init__(self) -> None:
        _ = self.joiner  # which checks what it is given

    @property
    def base(self) -> str:
        return f"narrow_{self.function.base}"

    @property
    def latency(self) -> int:
        """Cycles from a beat to its results, without stalls."""
        return self.function.latency + self.parts

    @property
    def columns(self) -> int:
        """Numbers of a beat."""
        return self.function.lanes.width * self.parts

    joiner = Part(BeatJoiner, columns=lambda c: c.columns, rows=lambda _: False)


class NarrowFunction(Unit[NarrowFunctionConfiguration]):
    """`VectorFunction` that takes a part of each beat per cycle.

    Attributes
    ----------
    s_axis, m_axis
        As of a `VectorFunction` that is as wide as a beat. A beat stays until its last part is
        taken.

    Notes
    -----
    It is for powers and roots: a lane of them takes twice the gates of one with all other
    functions, and programs seldom use them.
    """

    def ports(self) -> Ports:
        numbers = data.ArrayLayout(32, self.config.columns)
        return {
            "s_axis": In(AxiStream(numbers, user=self.config.function.user)),
            "m_axis": Out(AxiStream(numbers)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        function = place(m, platform, "function", VectorFunction(config.function))
        joiner = place(m, platform, "join", BeatJoiner(config.joiner))
        source, narrow = self.s_axis, function.s_axis
        part = Signal(range(config.parts), name="part")
        there = Signal(name="part_is_there")
        ends = named(m, "is_last_part", 1, part.all())
        moves = named(m, "moves", 1, ~there | narrow.tready)
        whole, bits = source.tdata.as_value(), 32 * config.function.lanes.width
        parts = [whole[start : start + bits] for start in range(0, len(whole), bits)]
        given = Cat(chosen(m, "part_of_beat", part, parts), source.tlast & ends)
        taken = Cat(narrow.tdata.as_value(), narrow.tlast)
        if config.function.user:
            given, taken = Cat(given, source.tuser), Cat(taken, narrow.tuser)
        held = Signal(len(given), name="part_held", reset_less=True)
        noted(held, "The choice of a part leaves no time for a function in the same cycle.")
        with m.If(moves):
            m.d.sync += [held.eq(given), there.eq(source.tvalid)]
        update(m, part, (moves & source.tvalid, part + 1))
        m.d.comb += [
            taken.eq(held),
            narrow.tvalid.eq(there),
            source.tready.eq(moves & ends & ~ResetSignal()),
        ]
        connect(m, function.m_axis, joiner.s_axis)
        connect(m, joiner.m_axis, flipped(self.m_axis))
