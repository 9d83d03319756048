"""A converter to an MX format whose blocks wait in a memory, in one of two shapes at a time."""

import math
from typing import Annotated, Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Shape, Signal, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from mxsafe.formats import MXFormat
from mxsafe.products import require_scale
from mxsafe.rtl.arithmetic.bits import kept, named, noted, truncated, update
from mxsafe.rtl.stream.alignment import Alignment
from mxsafe.rtl.stream.axi_stream import AxiStream, converted_beat
from mxsafe.rtl.stream.element_encoder import ElementEncoder
from mxsafe.rtl.stream.float_normaliser import FloatNormaliser, source_format
from mxsafe.rtl.stream.largest_exponent import largest_of
from mxsafe.rtl.stream.register_slice import sliced
from mxsafe.rtl.stream.row_replay import RowReplay
from mxsafe.rtl.timing import Target, at, only_for
from mxsafe.rtl.unit import Configuration, Part, Ports, Unit, place
from mxsafe.validation import Alike, within

SHAPES = ("blocks", "tiles")
"""Shapes of blocks: down one lane, or through several lanes side by side."""

_SOURCE = "float32"
Beats = Annotated[int, within(2, 256)]
"""Annotation of the beats of a block."""
_GROUP = 4
"""Most lanes whose exponents are compared between two registers, and then twice as many."""
_BLOCKS_OF_ROOM = 2  # one leaves while the next one enters
_BLOCKS_HELD = 3  # with a short one in between, at the end of a packet


class BlockConverterConfiguration(Configuration):
    """A `BlockConverter`.

    Parameters
    ----------
    format : MXFormat
        Format that is converted to.
    width : int
        Values in a beat.
    shapes : tuple of str
        Which of `SHAPES` there are, one or both.
    block : int
        Beats of a block of one lane, 2 to 256.
    tile : int
        Beats of a tile, and its lanes, which divide the width.
    target : {"asic", "fpga"}
        What it is built for, see `mxsafe.rtl.timing`.
    paced : bool
        Two beats come two cycles apart at least: its register slices have one place each. It gives
        a beat every second cycle then. For an FPGA alone.

    Raises
    ------
    ValueError
        If a parameter is not as above, or the format does not suit.
    """

    shown_if_not_default = frozenset({"target", "paced"})

    format: MXFormat
    width: Alike = 16
    shapes: tuple[str, ...] = SHAPES
    block: Beats = 64
    tile: Beats = 8
    target: Target = "asic"
    paced: bool = False

    def __post_init__(self) -> None:
        require_scale("format", self.format)
        only_for(self, "fpga", "paced")
        Alignment.of(self.format)
        if not self.shapes or any(name not in SHAPES for name in self.shapes):
            raise ValueError(
                f"shapes must be one or both of {', '.join(SHAPES)}, "
                f"not {', '.join(self.shapes) or 'none'}"
            )
        self._set(shapes=tuple(name for name in SHAPES if name in self.shapes))
        if "tiles" in self.shapes and self.width % self.tile:
            raise ValueError(f"tile must divide width {self.width}, not {self.tile}")

    @property
    def latency(self) -> int:
        """Cycles from the last beat of a block to its first codes, if no other block waits."""
        return self.replay.latency + 1 + at(self, "entry") + at(self, "waiting")

    @property
    def alignment(self) -> Alignment:
        """How binades are counted."""
        return Alignment.of(self.format)

    @property
    def beat(self) -> data.StructLayout:
        """Layout of a beat that comes out: a scale for each lane."""
        return converted_beat(self.format, self.width, self.width)

    @property
    def exponent_bits(self) -> int:
        """Bits of the exponent field of a float."""
        return source_format(_SOURCE).fields.exponent_bits

    @property
    def longest(self) -> int:
        """Beats of the longest block."""
        beats = {"blocks": self.block, "tiles": self.tile}
        return max(beats[name] for name in self.shapes)

    @property
    def lane(self) -> data.StructLayout:
        """Layout of a waiting value: a negative exponent is that of a subnormal, less 1."""
        return data.StructLayout(
            {
                "fraction": self.alignment.mantissa_bits + 2,
                "exponent": signed(self.exponent_bits + 1),
                "sign": 1,
            }
        )

    @property
    def grouped(self) -> int:
        """Lanes of a tile whose largest exponent is found before a register."""
        return math.gcd(self.tile, _GROUP) if at(self, "entry") else 1

    @property
    def summary(self) -> data.StructLayout:
        """Summary of a complete block."""
        largest = data.ArrayLayout(self.exponent_bits, self.width)
        return data.StructLayout({"largest": largest, "last": 1})

    replay = Part(
        RowReplay,
        beat_bits=lambda c: -(-c.lane.size * c.width // 8) * 8,
        depth=lambda c: _BLOCKS_OF_ROOM * (1 << (c.longest - 1).bit_length()),
        passes=lambda _: 1,
        rows=lambda _: _BLOCKS_HELD,
        summary_bits=lambda c: c.summary.size,
    )


class BlockConverter(Unit[BlockConverterConfiguration]):
    """Beats of binary32 numbers to element codes and shared scales, a beat a cycle.

    Bit for bit what a `Converter` gives. A block is either one lane of so many beats, or a tile of
    as many beats and lanes. Its beats wait in a memory until its largest magnitude is known; while
    it leaves, the next one enters. What waits is not the float: a value keeps its sign, its
    exponent, and the element's mantissa bits with guard and sticky.

    Attributes
    ----------
    tiles : In(1)
        With both shapes: blocks are tiles. Steady from the first beat of a packet until its last
        codes have left.
    s_axis_tdata : In(array)
        A number of each lane.
    s_axis_tlast : In(1)
        The beat ends its block, however few beats that has.
    m_axis_tdata : Out(struct)
        ``codes``: a code of each lane; ``scales``: the E8M0 byte of its block, the same in every
        beat of it and in every lane of a tile.
    m_axis_tuser : Out(struct)
        ``block_last``: the beat ends a block.
    m_axis_tlast : Out(1)
        As it came with the beat.

    Notes
    -----
    `m_axis_tready` reaches the enable of the memory combinationally, but no `tready`. For an FPGA
    there are register slices behind comparisons of four lanes and behind the memory.
    """

    def ports(self) -> Ports:
        config = self.config
        floats = data.ArrayLayout(source_format(_SOURCE).width, config.width)
        flags = data.StructLayout({"block_last": 1})
        return {
            **({"tiles": In(1)} if len(config.shapes) > 1 else {}),
            "s_axis": In(AxiStream(floats)),
            "m_axis": Out(AxiStream(config.beat, user=flags)),
        }

    def fill(self, m: Module, platform: object) -> None:
        replay = place(m, platform, "waiting", RowReplay(self.config.replay))
        shapes = self.config.shapes
        tiles: Value = self.tiles if len(shapes) > 1 else Const(shapes == ("tiles",), 1)
        entry = self._enter(m, platform)
        beat = entry.payload
        taken = named(m, "beat_taken", 1, entry.valid & entry.ready)
        block_last = self._count_beats(m, beat.last, tiles, taken)
        largest = self._largest(m, platform, beat, tiles, taken, block_last)
        m.d.comb += [
            replay.s_axis.tdata.eq(beat.lanes),
            replay.s_axis.tuser.eq(Cat(*largest, beat.last)),
            replay.s_axis.tlast.eq(block_last),
            replay.s_axis.tvalid.eq(entry.valid),
            entry.ready.eq(replay.s_axis.tready),
        ]
        source = sliced(
            m,
            platform,
            "slice_waiting",
            replay.m_axis,
            halved=self.config.paced,
            registers=at(self.config, "waiting"),
        )
        self._encode(m, platform, source)

    def _enter(self, m: Module, platform: object) -> Any:
        """Beats as they wait, with what their largest exponents are found from.

        ``lanes``: what waits. ``fields``, ``groups``: exponent fields of all lanes, and the largest
        ones of groups of lanes of tiles. ``last``: a beat ends its packet.
        """
        config = self.config
        bits = config.exponent_bits
        lanes: list[Value] = []
        for lane in range(config.width):
            part = FloatNormaliser(format=config.format, source=_SOURCE)
            place(m, platform, f"normalise_{lane}", part)
            m.d.comb += part.word.eq(self.s_axis.tdata[lane])
            # Only exponents of subnormals are negative: they need no flag.
            lanes.append(Cat(part.fraction, part.exponent, part.sign))
        fields = [self.s_axis.tdata[lane][-1 - bits : -1] for lane in range(config.width)]
        groups: list[Value] = []
        if "tiles" in config.shapes:
            for start in range(0, config.width, config.grouped):
                group = fields[start : start + config.grouped]
                name = f"largest_of_group_{start}"
                groups.append(largest_of(m, platform, name, group, config.target))
        parts = {
            "lanes": Cat(*lanes),
            "fields": Cat(*fields),
            "groups": Cat(*groups),
            "last": self.s_axis.tlast,
        }
        layout = data.StructLayout({name: len(part) for name, part in parts.items()})
        registers = at(config, "entry")
        entry = stream.Signature(layout).create(path=("entry",))
        m.d.comb += [
            entry.payload.as_value().eq(Cat(*parts.values())),
            entry.valid.eq(self.s_axis.tvalid),
            self.s_axis.tready.eq(entry.ready & ~ResetSignal() if registers else entry.ready),
        ]
        return sliced(m, platform, "slice_entry", entry, halved=config.paced, registers=registers)

    def _count_beats(self, m: Module, last: Value, tiles: Value, taken: Value) -> Signal:
        """Whether the beat that is offered ends a block."""
        config = self.config
        count = Signal(range(config.longest), name="beat_of_block")
        # A unit without tiles may have blocks that are shorter than those would be.
        beats = {"blocks": config.block, "tiles": config.tile}
        ends = {name: count == beats[name] - 1 for name in config.shapes}
        ended = Mux(tiles, ends.get("tiles", 0), ends.get("blocks", 0))
        block_last = named(m, "block_last", 1, last | ended)
        noted(block_last, "The end of a row ends a block early: beats are counted anew after it.")
        following = truncated(m, "next_beat", len(count), count + 1)
        after = named(m, "beat_after", len(count), Mux(block_last, 0, following))
        update(m, count, (taken, after))
        return block_last

    def _largest(
        self,
        m: Module,
        platform: object,
        beat: data.View,
        tiles: Value,
        taken: Value,
        block_last: Value,
    ) -> list[Value]:
        """The largest exponent field of each lane's block up to this beat."""
        config = self.config
        bits, emax, span = config.exponent_bits, config.alignment.emax, config.tile
        fields = [beat.fields.word_select(lane, bits) for lane in range(config.width)]
        before = [Signal(bits, init=emax, name=f"largest_before_{i}") for i in range(config.width)]
        noted(before[0], "The largest exponent of a block is at least the one of scale byte 0.")
        of_tiles: list[Value] = []
        if "tiles" in config.shapes:
            groups = span // config.grouped
            for tile in range(config.width // span):
                members = [
                    beat.groups.word_select(tile * groups + at, bits) for at in range(groups)
                ]
                members.append(before[tile * span])
                name = f"largest_of_tile_{tile}"
                found = largest_of(m, platform, name, members, config.target)
                of_tiles += [found] * span
        all_found: list[Value] = []
        for lane, (field, earlier) in enumerate(zip(fields, before, strict=True)):
            largest: Value = Const(0, bits)
            if "blocks" in config.shapes:
                rises = named(m, f"rises_{lane}", 1, field > earlier)
                largest = named(m, f"largest_of_lane_{lane}", bits, Mux(rises, field, earlier))
            if of_tiles:
                largest = Mux(tiles, of_tiles[lane], largest)
            largest = named(m, f"largest_{lane}", bits, largest)
            after = named(m, f"largest_after_{lane}", bits, Mux(block_last, emax, largest))
            update(m, earlier, (taken, after))
            all_found.append(largest)
        return all_found

    def _encode(self, m: Module, platform: object, source: Any) -> None:
        """Codes and scales of the beat that leaves the memory."""
        config, alignment = self.config, self.config.alignment
        summary = data.View(config.summary, source.tuser.summary)
        waiting = data.View(
            data.ArrayLayout(config.lane, config.width),
            source.tdata[: config.lane.size * config.width],
        )
        valid, last, block_last = (
            Signal(name=name) for name in ("is_valid", "is_last", "is_block_last")
        )
        moves = named(m, "moves", 1, ~valid | self.m_axis.tready)
        noted(moves, "Elastic register: it takes a beat where it is empty or its beat leaves.")
        m.d.comb += [
            source.tready.eq(moves if at(config, "waiting") else moves & ~ResetSignal()),
            self.m_axis.tvalid.eq(valid),
            self.m_axis.tlast.eq(last),
            self.m_axis.tuser.block_last.eq(block_last),
        ]
        with m.If(moves):
            m.d.sync += [
                valid.eq(source.tvalid),
                last.eq(source.tlast & summary.last),
                block_last.eq(source.tlast),
            ]
        for lane in range(config.width):
            height, special, byte = self._raised(m, lane, waiting[lane], summary.largest[lane])
            bits = Shape.cast(range(1 - alignment.lowest)).width
            steps = (-alignment.lowest, 1 - alignment.bottom)
            chosen = ("special", special)
            if at(config, "lowered"):
                chosen = ("lowered", Mux(special, *steps)[:bits])
            registers = {
                "fraction": waiting[lane].fraction,
                "height": height,
                "sign": waiting[lane].sign & ~special,
                chosen[0]: chosen[1],
                "scale": Mux(special, config.format.nan_scale, byte),
            }
            held = {
                name: kept(m, moves, f"{name}_held_{lane}", value)
                for name, value in registers.items()
            }
            lowering = held[chosen[0]]
            if not at(config, "lowered"):
                lowering = Mux(lowering, *steps)
            lowering = noted(
                named(m, f"lowering_{lane}", bits, lowering),
                "What turns a height into a binade. A block with NaN or Inf is lowered so far "
                "that all its codes are zero: its scale says what it is.",
            )
            encode = place(m, platform, f"encode_{lane}", ElementEncoder(format=config.format))
            binade = named(m, f"binade_{lane}", None, held["height"] - lowering)
            m.d.comb += [
                encode.sign.eq(held["sign"]),
                encode.fraction.eq(held["fraction"]),
                encode.binade.eq(binade),
                self.m_axis.tdata.codes[lane].eq(encode.code),
                self.m_axis.tdata.scales[lane].eq(held["scale"]),
            ]

    def _raised(
        self, m: Module, lane: int, value: data.View, largest: Value
    ) -> tuple[Value, Value, Value]:
        """Steps above nothing, whether the block is NaN or Inf, and its scale if it is not."""
        alignment = self.config.alignment
        lift = named(m, f"lift_{lane}", signed(len(largest) + 1), alignment.steps - largest)
        noted(
            lift, "Lifts the largest exponent of the block to the most steps, all others as much."
        )
        subnormal = value.exponent[-1]
        addends = (
            Cat(Const(1, 1), value.exponent).as_signed(),
            Cat(subnormal, lift).as_signed(),
        )
        raised = noted(
            named(m, f"raised_{lane}", None, addends[0] + addends[1]),
            "One adder for three terms: the lowest bits of its operands make the carry, 1 for "
            "subnormals. What ends up below 0 rounds to zero, wherever it is.",
        )
        bits = alignment.steps.bit_length()
        height = named(m, f"height_{lane}", bits, Mux(raised[-1], 0, raised[1 : bits + 1]))
        special = named(m, f"is_special_{lane}", 1, largest.all())
        return height, special, truncated(m, f"byte_{lane}", len(largest), largest - alignment.emax)
