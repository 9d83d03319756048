"""The converter from floats to an MX format, behind AXI4-Stream (paper, Table IV)."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, MXFormat
from mxsafe.rtl.arithmetic.bits import gated_or, leading_one, named, ones_below_leading
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.stream.element_encoder import ElementEncoder
from mxsafe.rtl.stream.float_normaliser import FloatNormaliser, source_format
from mxsafe.rtl.unit import Unit, place
from mxsafe.validation import require_positive_integer

__all__ = ["BeatBlocks", "Converter"]

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


class Converter(Unit):
    """Rows of floats to element codes and shared scales, a beat a cycle.

    A block can leave only once its largest magnitude is known, and that takes the exponents of its
    last beat. Until then its beats wait in a chain of as many stages as a block has beats, each
    moving on as soon as there is room; there is no second buffer, because a block leaves while the
    next one enters.

    What waits is not the float: a lane keeps the sign, the element's mantissa bits with guard and
    sticky, and how many binades above nothing it stands under the largest exponent so far in the
    block. A beat keeps that largest exponent; in the last beat of a block it is that of the block.
    So MXSF takes 12 bits a lane instead of 32.

    Parameters
    ----------
    format : MXFormat
        Format that is converted to.
    block : int or tuple of int, optional
        Length of blocks along a row, or shape ``(rows, columns)`` of tiles; by default the format's
        usual length.
    width : int
        Values in a beat.
    source : {"float32", "bfloat16"}
        Format of the values.

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
    latency : int
        Clocks from a beat to its codes, without stalls: as many as a block has beats.
    blocks : BeatBlocks
        How blocks lie in beats.

    Raises
    ------
    ValueError
        If the block does not fit the width or has more than 256 beats, there is no such source, the
        format does not suit, or `tdata` of a stream would not be whole bytes, as AXI4-Stream
        demands.

    Notes
    -----
    `m_axis_tready` reaches `s_axis_tready` combinationally, never a `tvalid`. Codes come from
    registers through the encoders.

    Exponents are never subtracted to find the largest: bit by bit from the top, those fields drop
    out that lack a bit that others have. On the way to this (MXSF, blocks of 64, nangate45):

    =====================================================  =========  ===========
    whole converter                                        area: GE   timing: ns
    =====================================================  =========  ===========
    normalising by one-hot, largest by pairs               12,610     1.5
    normalising by shifts                                  11,961     1.5
    largest bit by bit                                     11,789     1.5
    the largest so far is one more of the numbers: this    11,649     1.7
    =====================================================  =========  ===========

    Some 56 % of it is registers and their enables. The paper's converter, of a width that it does
    not tell, has 10.4k GE (Table IV, 65 nm).
    """

    def __init__(
        self,
        *,
        format: MXFormat,
        block: Block | None = None,
        width: int = 16,
        source: str = "float32",
    ) -> None:
        width = require_positive_integer("width", width)
        word = source_format(source)
        block = format.block if block is None else block
        self.blocks = BeatBlocks.of(block, width)
        if self.blocks.beats > _MOST_BEATS:
            raise ValueError(
                f"block must have at most {_MOST_BEATS} beats, not {self.blocks.beats}"
            )
        self.alignment = Alignment.of(format)
        self.format, self.width, self.source = format, width, source
        self._exponent_bits = word.fields.exponent_bits
        result = data.StructLayout(
            {
                "codes": data.ArrayLayout(format.element.width, width),
                "scales": data.ArrayLayout(E8M0.width, self.blocks.groups),
            }
        )
        if result.size % 8:
            raise ValueError(f"m_axis_tdata must be whole bytes, not {result.size} bits")
        super().__init__(
            {
                "s_axis_tdata": In(data.ArrayLayout(word.width, width)),
                "s_axis_tvalid": In(1),
                "s_axis_tready": Out(1),
                "s_axis_tlast": In(1),
                "m_axis_tdata": Out(result),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                "m_axis_tlast": Out(1),
                "m_axis_tuser": Out(data.StructLayout({"block_last": 1})),
            },
            module_name=_module_name(format, block, width, source),
            parameters={
                "format": format.name,
                "source": source,
                "width": width,
                "block": block if isinstance(block, int) else list(block),
                "block_beats": self.blocks.beats,
                "groups": self.blocks.groups,
            },
            latency=self.blocks.beats,
        )
        self._waiting = data.StructLayout(
            {
                "lanes": data.ArrayLayout(
                    data.StructLayout(
                        {
                            "fraction": self.alignment.mantissa_bits + 2,
                            "height": self.alignment.steps.bit_length(),
                            "sign": 1,
                        }
                    ),
                    width,
                ),
                "largest": data.ArrayLayout(self._exponent_bits, self.blocks.groups),
                "last": 1,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        taken = Signal(name="taken")
        block_last = self._count_beats(m, taken)
        entering = self._align(m, platform, taken, block_last)
        head, largest = self._wait(m, taken, entering, block_last)
        self._encode(m, platform, head, largest)
        return m

    def _count_beats(self, m: Module, taken: Signal) -> Signal:
        """Whether the beat that is offered ends a block."""
        beats = self.blocks.beats
        if beats == 1:
            return named(m, "block_last", 1, 1)
        left = Signal(range(beats), init=beats - 1, name="beats_left")
        block_last = named(m, "block_last", 1, self.s_axis_tlast | ~left.any())
        with m.If(taken):
            m.d.sync += left.eq(Mux(block_last, beats - 1, left - 1))
        return block_last

    def _align(self, m: Module, platform: object, taken: Signal, block_last: Signal) -> Value:
        """What of a beat has to wait."""
        waiting, references = [], []
        for group in range(self.blocks.groups):
            members = range(group * self.blocks.span, (group + 1) * self.blocks.span)
            fields = [self._exponent_field(lane) for lane in members]
            largest = named(
                m,
                f"largest_{group}",
                self._exponent_bits,
                self._running_largest(m, group, fields, taken, block_last),
            )
            references.append(largest)
            lift = named(
                m, f"lift_{group}", signed(len(largest) + 1), self.alignment.steps - largest
            )
            for lane in members:
                normalise = FloatNormaliser(format=self.format, source=self.source)
                place(m, platform, f"normalise_{lane}", normalise)
                m.d.comb += normalise.word.eq(self.s_axis_tdata[lane])
                # One adder for three terms: the lowest bits of its operands make the carry.
                raised = (
                    Cat(Const(1, 1), normalise.exponent).as_signed()
                    + Cat(normalise.subnormal, lift).as_signed()
                )
                height = named(
                    m,
                    f"height_{lane}",
                    self.alignment.steps.bit_length(),
                    Mux(raised < 0, 0, raised >> 1),
                )
                waiting += [normalise.fraction, height, normalise.sign]
        return Cat(*waiting, *references, self.s_axis_tlast)

    def _exponent_field(self, lane: int) -> Value:
        return self.s_axis_tdata[lane][-1 - self._exponent_bits : -1]

    def _running_largest(
        self, m: Module, group: int, fields: list[Value], taken: Signal, block_last: Signal
    ) -> Value:
        """Largest exponent field of a block up to this beat; the one of scale byte 0 at least."""
        bits, emax = self._exponent_bits, self.alignment.emax
        if self.blocks.beats == 1:
            return _largest(m, f"largest_{group}", [*fields, Const(emax, bits)])
        before = Signal(bits, init=emax, name=f"largest_before_{group}")
        largest = _largest(m, f"largest_{group}", [*fields, before])
        with m.If(taken):
            m.d.sync += before.eq(Mux(block_last, emax, largest))
        return largest

    def _wait(
        self, m: Module, taken: Signal, entering: Value, block_last: Signal
    ) -> tuple[data.View, list[Value]]:
        """The chain: the beat at its head, and the largest exponents of that beat's blocks."""
        stages = range(self.blocks.beats)
        valid = [Signal(name=f"valid_{stage}") for stage in stages]
        ends = [Signal(name=f"block_end_{stage}") for stage in stages]  # of a block, and valid
        beats = [
            data.View(
                self._waiting, Signal(self._waiting.size, name=f"beat_{stage}", reset_less=True)
            )
            for stage in stages
        ]
        leaves = named(m, "leaves", 1, self.m_axis_tvalid & self.m_axis_tready)
        # A stage at or after this one is empty.
        gap = ones_below_leading(m, "gap", ~Cat(*valid))
        moves = named(m, "moves", len(stages), gap | leaves.replicate(len(stages)))
        ready = named(m, "is_ready", 1, moves[0] & ~ResetSignal())
        m.d.comb += [self.s_axis_tready.eq(ready), taken.eq(ready & self.s_axis_tvalid)]
        for stage in stages:
            with m.If(moves[stage]):
                m.d.sync += [
                    beats[stage].as_value().eq(beats[stage - 1].as_value() if stage else entering),
                    valid[stage].eq(valid[stage - 1] if stage else taken),
                    ends[stage].eq(ends[stage - 1] if stage else taken & block_last),
                ]
        # The first block to leave ends where the end nearest to the head is.
        first_end = named(
            m, "first_end", len(stages), leading_one(ones_below_leading(m, "ended", Cat(*ends)))
        )
        bits = self._exponent_bits
        every = named(
            m,
            "block_largest",
            bits * self.blocks.groups,
            gated_or(zip(first_end, (beat.largest.as_value() for beat in beats), strict=True)),
        )
        largest = [every[bits * group : bits * (group + 1)] for group in range(self.blocks.groups)]
        head = beats[-1]
        m.d.comb += [
            self.m_axis_tvalid.eq(valid[-1] & Cat(*ends).any()),
            self.m_axis_tlast.eq(head.last),
            self.m_axis_tuser.block_last.eq(ends[-1]),
        ]
        return head, largest

    def _encode(
        self, m: Module, platform: object, head: data.View, largest: Sequence[Value]
    ) -> None:
        """Codes and scales of the beat at the head."""
        alignment, span = self.alignment, self.blocks.span
        for group, block_largest in enumerate(largest):
            special = named(m, f"is_special_{group}", 1, block_largest.all())
            # By how much the block grew after the beat, and what turns a height into a binade.
            growth: Value = Const(0, 1)
            if self.blocks.beats > 1:
                bits = self._exponent_bits
                grown = (block_largest - head.largest[group])[:bits]
                growth = named(m, f"growth_{group}", bits, grown)
            far = special | (growth >= alignment.steps)
            lowering = named(
                m,
                f"lowering_{group}",
                Shape.cast(range(1 - alignment.lowest)),
                Mux(far, -alignment.lowest, growth + (1 - alignment.bottom)),
            )
            m.d.comb += self.m_axis_tdata.scales[group].eq(
                Mux(special, E8M0.nan_code, block_largest - alignment.emax)
            )
            for lane in range(group * span, (group + 1) * span):
                encode = ElementEncoder(format=self.format)
                place(m, platform, f"encode_{lane}", encode)
                waiting = head.lanes[lane]
                m.d.comb += [
                    encode.sign.eq(waiting.sign & ~special),
                    encode.fraction.eq(waiting.fraction),
                    encode.binade.eq(waiting.height - lowering),
                    self.m_axis_tdata.codes[lane].eq(encode.code),
                ]


def _largest(m: Module, name: str, values: Sequence[Value]) -> Value:
    """The largest of unsigned numbers: bit by bit, those drop out that lack what others have."""
    left: Value = Const((1 << len(values)) - 1, len(values))
    largest: list[Value] = []
    for bit in reversed(range(len(values[0]))):
        have = named(
            m, f"{name}_have_{bit}", len(values), Cat(*(value[bit] for value in values)) & left
        )
        some = named(m, f"{name}_some_{bit}", 1, have.any())
        if bit:
            left = named(m, f"{name}_left_{bit}", len(values), Mux(some, have, left))
        largest.insert(0, some)
    return Cat(*largest)


def _module_name(format: MXFormat, block: Block, width: int, source: str) -> str:
    """The usual configuration is plain, others say what differs."""
    parts = [format.name, "converter"]
    if not isinstance(block, int):
        parts.append("x".join(map(str, block)))
    elif block != format.block:
        parts.append(f"block{block}")
    if width != 16:
        parts.append(f"width{width}")
    if source != "float32":
        parts.append(source)
    return "_".join(parts)
