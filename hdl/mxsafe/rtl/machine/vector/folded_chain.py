"""A chain of vector units with fewer lanes than a beat has numbers.

Tested by `verif/rtl/machine/vector/test_vector_engine.py`.
"""

from dataclasses import field
from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from mxsafe.rtl.arithmetic.bits import named
from mxsafe.rtl.machine.vector.beat_parts import BeatJoiner, BeatSplitter
from mxsafe.rtl.machine.vector.vector_chain import AFFINE, VectorChain, VectorChainConfiguration
from mxsafe.rtl.stream.axi_stream import AxiStream, joined
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.timing import Target, at, held
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import AlikePower, about


class FoldedChainConfiguration(Configuration):
    """A `FoldedChain`.

    Parameters
    ----------
    chain : VectorChainConfiguration
        The units, and their lanes.
    parts : int
        Parts of a beat, each as wide as the units: a power of two, at least 2.
    """

    chain: VectorChainConfiguration = field(default_factory=VectorChainConfiguration)
    parts: AlikePower = 2

    def __post_init__(self) -> None:
        with about(columns="parts: columns"):
            _ = self.splitter, self.joiner  # which check what they are given

    @property
    def base(self) -> str:
        return f"folded_{self.chain.base.removeprefix('vector_')}"

    @property
    def target(self) -> Target:
        """Target that it is built for."""
        return self.chain.target

    @property
    def latency(self) -> int:
        """Cycles from a beat to its results through arithmetic and function."""
        return self.chain.latency + self.parts - 1 + at(self, "parts") + at(self, "results")

    @property
    def columns(self) -> int:
        """Numbers of a beat."""
        return self.chain.columns * self.parts

    @property
    def has_rows(self) -> bool:
        """Whether rows go through units part by part, as reductions need it."""
        return bool(self.chain.reductions)

    splitter = Part(
        BeatSplitter,
        columns=lambda c: c.columns,
        depth=lambda c: c.chain.depth,
        rows=lambda c: c.has_rows,
    )

    joiner = Part(
        BeatJoiner,
        columns=lambda c: c.columns,
        depth=lambda c: c.chain.depth,
        rows=lambda c: c.has_rows,
    )


class FoldedChain(Unit[FoldedChainConfiguration]):
    """`VectorChain` whose units take a part of each beat per cycle.

    Reductions run along each lane. So the parts of a row are rows of their own, one after the
    other, and the same lane sees all of its row.

    Attributes
    ----------
    start : In(1)
        Rows begin, and nothing is in flight.
    beats : In
        Beats of a row; steady until the last result has left, as controls are.
    controls, s_axis, s_axis_operand, m_axis
        As of a `VectorChain`; `s_axis` has no `tlast`.
    s_axis_gain, s_axis_bias
        As well, but those of a row come once for each of its parts.
    """

    def ports(self) -> Ports:
        config = self.config
        ports = VectorChain(config.chain).ports()
        beat = config.splitter.beat
        return {
            **ports,
            "start": In(1),
            "beats": In(config.splitter.beats_bits),
            "s_axis": In(AxiStream(beat, last=False)),
            "s_axis_operand": In(AxiStream(beat, last=False)),
            "m_axis": Out(AxiStream(beat)),
        }

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        chain: Any = place(m, platform, "chain", VectorChain(config.chain))
        joiner = place(m, platform, "join", BeatJoiner(config.joiner))
        splitters = {
            name: place(m, platform, f"split_{name}", BeatSplitter(config.splitter))
            for name in ("beats", "operands")
        }
        for splitter in splitters.values():
            m.d.comb += [splitter.start.eq(self.start), splitter.beats.eq(self.beats)]
        if config.has_rows:
            by_rows: Value = named(m, "by_rows", 1, self.controls.reduction.any())
            # Controls are steady before the first beat comes.
            by_rows = held(m, "by_rows_held", by_rows, at(config, "controls"))
            m.d.comb += joiner.by_rows.eq(by_rows)
            m.d.comb += (splitter.by_rows.eq(by_rows) for splitter in splitters.values())
        of_beats, of_operands = splitters.values()
        m.d.comb += [
            of_operands.single.eq(self.controls.single),
            chain.controls.eq(self.controls),
        ]
        if config.chain.has_start:
            m.d.comb += chain.start.eq(self.start)
        for name in AFFINE if config.chain.affine else ():
            connect(m, flipped(getattr(self, name)), getattr(chain, name))
        connect(m, flipped(self.s_axis), of_beats.s_axis)
        beats: Any = of_beats.m_axis
        operands: Any = of_operands.m_axis
        # Behind the memory, and in front of units in which all registers move together.
        parts = at(config, "parts")
        beats = sliced(m, platform, "slice_beats", beats, registers=parts)
        operands = sliced(
            m, platform, "slice_operands", operands, registers=parts, left_out={"tlast"}
        )
        m.d.comb += joined(operands, chain.s_axis_operand)
        connect(m, flipped(self.s_axis_operand), of_operands.s_axis)
        connect(m, beats, chain.s_axis)
        results: Any = chain.m_axis
        results = sliced(m, platform, "slice_results", results, registers=at(config, "results"))
        connect(m, results, joiner.s_axis)
        connect(m, joiner.m_axis, flipped(self.m_axis))
