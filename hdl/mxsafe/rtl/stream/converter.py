"""The converter from floats to an MX format, behind AXI4-Stream (paper, Table IV)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat
from mxsafe.products import require_scale
from mxsafe.rtl.arithmetic.bits import (
    any_of,
    leading_one,
    named,
    noted,
    ones_below_leading,
    truncated,
    update,
)
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.stream.axi_stream import AxiStream, converted_beat, whole_bytes
from mxsafe.rtl.stream.beat_chain import MOST_STAGES, BeatChain
from mxsafe.rtl.stream.element_encoder import ElementEncoder
from mxsafe.rtl.stream.float_normaliser import FloatNormaliser, source_format
from mxsafe.rtl.stream.largest_exponent import largest_of
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import Alike, require_positive_integer

Block = int | tuple[int, int]
_MOST_BEATS = 256


@dataclass(frozen=True)
class BeatBlocks:
    """How blocks lie in a stream: side by side within a beat, each through several beats.

    Attributes
    ----------
    beats : int
        Beats of a whole block.
    span : int
        Values of one block in a beat.
    groups : int
        Blocks side by side.
    """

    beats: int
    span: int
    groups: int

    @classmethod
    def of(cls, block: Block, width: int) -> "BeatBlocks":
        """Blocks of a shape in beats of `width` values.

        Raises
        ------
        ValueError
            If they do not fit.
        """
        if isinstance(block, tuple | list):
            if len(block) != 2:
                raise ValueError(f"block must be a length or a pair of lengths, not {block!r}")
            beats, span = (require_positive_integer("block", length) for length in block)
            if width % span:
                raise ValueError(f"block must have columns that divide width {width}, not {span}")
            return cls(beats, span, width // span)
        length = require_positive_integer("block", block)
        if width % length and length % width:
            raise ValueError(f"block must divide width {width} or be divided by it, not {length}")
        span = min(length, width)
        return cls(length // span, span, width // span)


class ConverterConfiguration(Configuration):
    """A `Converter`.

    Parameters
    ----------
    format : MXFormat
        Format that is converted to.
    block : int or tuple of int, optional
        Length of blocks along a row, or shape ``(rows, columns)`` of tiles; by default that of the
        format.
    width : int
        Values in a beat.
    source : {"float32", "bfloat16"}
        Format of the values.

    Raises
    ------
    ValueError
        If the block does not fit the width or has more than 256 beats, there is no such source, the
        format does not suit, or `tdata` of a stream would not be whole bytes, as AXI4-Stream
        demands.
    """

    format: MXFormat
    block: Block | None = None
    width: Alike = 16
    source: str = "float32"

    def __post_init__(self) -> None:
        require_scale("format", self.format)
        source_format(self.source)
        self._settle(block=self.format.block)
        if not isinstance(self.block, int):
            self._set(block=tuple(self.block))  # type: ignore[arg-type]
        if self.blocks.beats > _MOST_BEATS:
            raise ValueError(
                f"block must have at most {_MOST_BEATS} beats, not {self.blocks.beats}"
            )
        Alignment.of(self.format)
        whole_bytes("width", "m_axis", self.beat)

    @property
    def blocks(self) -> BeatBlocks:
        """How blocks lie in beats."""
        assert self.block is not None
        return BeatBlocks.of(self.block, self.width)

    @property
    def alignment(self) -> Alignment:
        """How binades are counted."""
        return Alignment.of(self.format)

    @property
    def beat(self) -> data.StructLayout:
        """Layout of `tdata` of the converted stream."""
        return converted_beat(self.format, self.width, self.blocks.groups)

    @property
    def exponent_bits(self) -> int:
        """Bits of the exponent field of a float."""
        return source_format(self.source).fields.exponent_bits

    @property
    def latency(self) -> int:
        """Cycles from a beat to its codes, without stalls: as many as a block has beats."""
        return self.blocks.beats

    @property
    def properties(self) -> Mapping[str, Any]:
        """How blocks lie in beats."""
        return {"block_beats": self.blocks.beats, "groups": self.blocks.groups}


class Converter(Unit[ConverterConfiguration]):
    """Rows of floats to element codes and shared scales, a beat a cycle.

    A block can leave only once its largest magnitude is known, and that takes the exponents of its
    last beat. Until then its beats wait in a chain of as many stages as a block has beats, each
    moving on as soon as there is room; there is no second buffer, because a block leaves while the
    next one enters.

    What waits is not the float: a lane keeps the sign, the element's mantissa bits with guard and
    sticky, and how many binades above nothing it stands under the largest exponent so far in the
    block. A beat keeps that largest exponent; in the last beat of a block it is that of the block.
    So MXSF takes 12 bits a lane instead of 32.

    Attributes
    ----------
    s_axis_tdata : In(array)
        `width` floats of one row.
    s_axis_tlast : In(1)
        The beat ends its block, however few beats that has.
    m_axis_tdata : Out(struct)
        ``codes``: `width` element codes; ``scales``: the E8M0 byte of each block side by side, the
        same in every beat of a block.
    m_axis_tuser : Out(struct)
        ``block_last``: the beat ends a block.
    m_axis_tlast : Out(1)
        As it came with the beat.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally, never a `tvalid`. Codes come from
    registers through the encoders.

    Exponents are never subtracted to find the largest: bit by bit from the top, those fields drop
    out that lack a bit that others have (`LargestExponent`). What was tried is in
    ``docs/experiments.md``.
    """

    def ports(self) -> Ports:
        config = self.config
        floats = data.ArrayLayout(source_format(config.source).width, config.width)
        flags = data.StructLayout({"block_last": 1})
        return {
            "s_axis": In(AxiStream(floats)),
            "m_axis": Out(AxiStream(config.beat, user=flags)),
        }

    def _waiting(self) -> data.ArrayLayout:
        """Layout of the waiting lanes of a beat."""
        config = self.config
        lane = data.StructLayout(
            {
                "fraction": config.alignment.mantissa_bits + 2,
                "height": config.alignment.steps.bit_length(),
                "sign": 1,
            }
        )
        return data.ArrayLayout(lane, config.width)

    def fill(self, m: Module, platform: object) -> None:
        taken = Signal(name="taken")
        block_last = self._count_beats(m, taken)
        # Front: floats to what waits. Chain: it waits for its block. Back: codes and scales.
        lanes, largest = self._align(m, platform, taken, block_last)
        pieces = self._place_chain(m, platform, lanes, largest, taken & block_last)
        self._move(m, taken, pieces)
        self._encode(m, platform, pieces)

    def _count_beats(self, m: Module, taken: Signal) -> Signal:
        """Whether the beat that is offered ends a block."""
        beats = self.config.blocks.beats
        if beats == 1:
            return named(m, "block_last", 1, 1)
        left = Signal(range(beats), init=beats - 1, name="beats_left")
        block_last = named(m, "block_last", 1, self.s_axis.tlast | ~left.any())
        noted(block_last, "tlast ends a block early: beats are counted down anew after it.")
        less = truncated(m, "beats_left_less_1", len(left), left - 1)
        update(m, left, (taken, Mux(block_last, beats - 1, less)))
        return block_last

    def _align(
        self, m: Module, platform: object, taken: Signal, block_last: Signal
    ) -> tuple[Value, Value]:
        """Return the waiting parts of a beat's lanes, and its blocks' largest exponents so far."""
        waiting: list[Value] = []
        references: list[Value] = []
        for group in range(self.config.blocks.groups):
            members = range(group * self.config.blocks.span, (group + 1) * self.config.blocks.span)
            fields = [self.s_axis.tdata[n][-1 - self.config.exponent_bits : -1] for n in members]
            largest = self._running_largest(m, platform, group, fields, taken, block_last)
            references.append(largest)
            lift = named(
                m, f"lift_{group}", signed(len(largest) + 1), self.config.alignment.steps - largest
            )
            noted(lift, "Lifts the largest exponent so far to the most steps, all others as much.")
            for lane in members:
                normalise = FloatNormaliser(format=self.config.format, source=self.config.source)
                place(m, platform, f"normalise_{lane}", normalise)
                m.d.comb += normalise.word.eq(self.s_axis.tdata[lane])
                addends = (
                    Cat(Const(1, 1), normalise.exponent).as_signed(),
                    Cat(normalise.subnormal, lift).as_signed(),
                )
                raised = noted(
                    named(m, f"raised_{lane}", None, addends[0] + addends[1]),
                    "One adder for three terms: the lowest bits of its operands make the carry, "
                    "the one that a subnormal adds to its exponent. What ends up below 0 rounds "
                    "to zero.",
                )
                bits = self.config.alignment.steps.bit_length()
                height = named(m, f"height_{lane}", bits, Mux(raised[-1], 0, raised[1 : bits + 1]))
                waiting += [normalise.fraction, height, normalise.sign]
        return Cat(*waiting), Cat(*references)

    def _running_largest(
        self,
        m: Module,
        platform: object,
        group: int,
        fields: list[Value],
        taken: Signal,
        block_last: Signal,
    ) -> Value:
        """Largest exponent field of a block up to this beat; the one of scale byte 0 at least."""
        bits, emax = self.config.exponent_bits, self.config.alignment.emax
        name = f"maximum_{group}"
        if self.config.blocks.beats == 1:
            return largest_of(m, platform, name, [*fields, Const(emax, bits)])
        before = Signal(bits, init=emax, name=f"largest_before_{group}")
        noted(before, "The largest so far is one more of the numbers: no comparison of its own.")
        largest = largest_of(m, platform, name, [*fields, before])
        update(m, before, (taken, Mux(block_last, emax, largest)))
        return largest

    def _place_chain(
        self, m: Module, platform: object, lanes: Value, largest: Value, ends: Value
    ) -> list[BeatChain]:
        """The chain, a stage for each beat of a block, in pieces of a few stages."""
        pieces: list[BeatChain] = []
        beats = self.config.blocks.beats
        for first in range(0, beats, MOST_STAGES):
            chain = BeatChain(
                stages=min(MOST_STAGES, beats - first),
                lane_bits=self._waiting().size,
                largest_bits=len(largest),
            )
            place(m, platform, f"waiting_{first // MOST_STAGES}", chain)
            if pieces:
                m.d.comb += [
                    chain.beat.eq(pieces[-1].waiting),
                    chain.beat_valid.eq(pieces[-1].valid[-1]),
                    chain.beat_ends.eq(pieces[-1].ends[-1]),
                ]
            else:
                m.d.comb += [
                    chain.beat.lanes.eq(lanes),
                    chain.beat.largest.eq(largest),
                    chain.beat.last.eq(self.s_axis.tlast),
                    chain.beat_ends.eq(ends),
                ]
            pieces.append(chain)
        return pieces

    def _move(self, m: Module, taken: Signal, pieces: list[BeatChain]) -> None:
        """Let beats move on where there is room, and offer the one at the head of the chain."""
        stages = self.config.blocks.beats
        valid = named(m, "valid", stages, Cat(chain.valid for chain in pieces))
        ends = named(m, "ends", stages, Cat(chain.ends for chain in pieces))
        leaves = named(m, "leaves", 1, self.m_axis.tvalid & self.m_axis.tready)
        gap = ones_below_leading(m, "gap", named(m, "is_empty", stages, ~valid))
        noted(gap, "A stage at or after this one is empty: beats move on and close the gap.")
        moves = named(m, "moves", stages, gap | leaves.replicate(stages))
        ready = named(m, "is_ready", 1, moves[0] & ~ResetSignal())
        ended = ones_below_leading(m, "ended", ends)
        first_end = noted(
            named(m, "first_end", stages, leading_one(ended)),
            "The block at the head ends where the end nearest to the head is: the largest "
            "exponents there are those of the whole block.",
        )
        noted(
            self.m_axis.tvalid,
            "A beat leaves only once the end of its block is there, and the largest exponent "
            "known.",
        )
        for first, chain in zip(range(0, stages, MOST_STAGES), pieces, strict=True):
            own = slice(first, first + chain.config.stages)
            m.d.comb += [chain.moves.eq(moves[own]), chain.shown.eq(first_end[own])]
        head = pieces[-1]
        m.d.comb += [
            pieces[0].beat_valid.eq(taken),
            self.s_axis.tready.eq(ready),
            taken.eq(ready & self.s_axis.tvalid),
            self.m_axis.tvalid.eq(head.valid[-1] & ends.any()),
            self.m_axis.tlast.eq(head.waiting.last),
            self.m_axis.tuser.block_last.eq(head.ends[-1]),
        ]

    def _encode(self, m: Module, platform: object, pieces: list[BeatChain]) -> None:
        """Codes and scales of the beat at the head."""
        config, alignment, span = self.config, self.config.alignment, self.config.blocks.span
        head = pieces[-1].waiting
        lanes = data.View(self._waiting(), head.lanes)
        layout = data.ArrayLayout(config.exponent_bits, config.blocks.groups)
        shown = named(m, "block_largest", layout.size, any_of(c.shown_largest for c in pieces))
        for group, block_largest in enumerate(data.View(layout, shown)):
            special = named(m, f"is_special_{group}", 1, block_largest.all())
            growth: Value = Const(0, 1)
            # A block of one beat cannot grow after it.
            if config.blocks.beats > 1:
                bits = config.exponent_bits
                then = data.View(layout, head.largest)[group]
                growth = truncated(
                    m,
                    f"growth_{group}",
                    bits,
                    block_largest - then,
                    note="By how much the largest exponent of the block grew after this beat.",
                )
            far = named(m, f"is_far_{group}", 1, special | (growth >= alignment.steps))
            steps = named(m, f"steps_{group}", None, growth + (1 - alignment.bottom))
            bits = Shape.cast(range(1 - alignment.lowest)).width
            lowering = noted(
                named(m, f"lowering_{group}", bits, Mux(far, -alignment.lowest, steps[:bits])),
                "What turns a height into a binade. From so far up all codes are zero; so are "
                "those of a block with NaN or Inf, whose scale says what it is.",
            )
            finite = named(m, f"is_finite_{group}", 1, ~special)
            nan_code, scale = config.format.nan_scale, self.m_axis.tdata.scales[group]
            byte = truncated(m, f"scale_{group}", len(scale), block_largest - alignment.emax)
            m.d.comb += scale.eq(Mux(special, nan_code, byte))
            for lane in range(group * span, (group + 1) * span):
                encode = place(m, platform, f"encode_{lane}", ElementEncoder(format=config.format))
                waiting = lanes[lane]
                binade = named(m, f"binade_{lane}", None, waiting.height - lowering)
                m.d.comb += [
                    encode.sign.eq(waiting.sign & finite),
                    encode.fraction.eq(waiting.fraction),
                    encode.binade.eq(binade),
                    self.m_axis.tdata.codes[lane].eq(encode.code),
                ]
