"""A piece of the chain in which beats wait for the end of their block."""

from typing import Annotated, Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import gated_or, noted
from mxsafe.rtl.unit import Configuration, Ports, Unit
from mxsafe.validation import PositiveInteger, within

MOST_STAGES = 8
"""Most stages of a piece: longer chains consist of several."""


class BeatChainConfiguration(Configuration):
    """A `BeatChain`; the default one is that of 16 lanes of MXSF and blocks of four beats.

    Parameters
    ----------
    stages : int
        Beats that have room, 1 to 8.
    lane_bits : int
        Bits of what waits of all lanes of a beat.
    largest_bits : int
        Bits of the largest exponents of its blocks.
    """

    stages: Annotated[int, within(1, MOST_STAGES)] = 4
    lane_bits: PositiveInteger = 192
    largest_bits: PositiveInteger = 8

    @property
    def latency(self) -> int:
        """Cycles from a beat to its leaving, if every stage moves."""
        return self.stages

    @property
    def beat(self) -> data.StructLayout:
        """Layout of a waiting beat."""
        return data.StructLayout({"lanes": self.lane_bits, "largest": self.largest_bits, "last": 1})


class BeatChain(Unit[BeatChainConfiguration]):
    """Stages of a chain, each of which moves on when it is told to.

    Who decides about that sees all stages of all pieces: `Converter`. Only `valid` and `ends` are
    reset.

    Attributes
    ----------
    moves : In(stages)
        The stage takes what stands before it.
    beat : In(struct), beat_valid, beat_ends : In(1)
        What stands before the first stage: a beat, whether there is one, and whether it ends a
        block and there is one.
    waiting : Out(struct)
        The beat in the last stage.
    valid, ends : Out(stages)
        Whether there is a beat in each stage; and whether it ends a block too.
    shown : In(stages)
        One-hot: the stage whose largest exponents are wanted.
    shown_largest : Out(largest_bits)
        These; 0 if no stage is shown.
    """

    def ports(self) -> Ports:
        config = self.config
        return {
            "moves": In(config.stages),
            "beat": In(config.beat),
            "beat_valid": In(1),
            "beat_ends": In(1),
            "waiting": Out(config.beat),
            "valid": Out(config.stages),
            "ends": Out(config.stages),
            "shown": In(config.stages),
            "shown_largest": Out(config.largest_bits),
        }

    def fill(self, m: Module, platform: object) -> None:
        beat: Any = self.beat
        valid, ends = self.beat_valid, self.beat_ends
        choices = []
        for stage in range(self.config.stages):
            layout = self.config.beat
            held = data.View(layout, Signal(layout.size, name=f"beat_{stage}", reset_less=True))
            held_valid = Signal(name=f"valid_{stage}")
            held_ends = Signal(name=f"ends_{stage}")
            noted(
                held_valid,
                "A stage takes what the one before it holds. Data need no reset: these flags, "
                "which say whether there are any, have one.",
            )
            with m.If(self.moves[stage]):
                m.d.sync += [
                    held.as_value().eq(beat.as_value()),
                    held_valid.eq(valid),
                    held_ends.eq(ends),
                ]
            m.d.comb += [self.valid[stage].eq(held_valid), self.ends[stage].eq(held_ends)]
            beat, valid, ends = held, held_valid, held_ends
            choices.append((self.shown[stage], held.largest))
        m.d.comb += [
            self.waiting.as_value().eq(beat.as_value()),
            self.shown_largest.eq(gated_or(m, "largest", choices)),
        ]
