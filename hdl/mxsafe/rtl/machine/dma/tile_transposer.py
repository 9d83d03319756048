"""Transposition of 8x8 tiles of codes in a strip, as words pass on their way into a buffer."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import equals, gated_or, kept, named, noted, update
from mxsafe.rtl.unit import Configuration, Ports, Unit

_ROWS = (8, 16)
_MOST_ROWS = 16
_LANES = 4
"""Codes of a row in an operand beat, and so in a word."""
_CODE_BITS = 8
_SQUARE_BITS = _LANES * _LANES * _CODE_BITS
"""Four rows of a word."""


class TileTransposerConfiguration(Configuration):
    """A `TileTransposer`.

    Parameters
    ----------
    rows : int
        Rows of a strip: 8 or 16.
    """

    rows: int = 16

    def __post_init__(self) -> None:
        if self.rows not in _ROWS:
            raise ValueError(f"rows must be 8 or 16, not {self.rows!r}")

    @property
    def latency(self) -> int:
        """Cycles from the first word of a group to the first one that leaves."""
        return 2 if self.rows == _MOST_ROWS else 0

    @property
    def overlaps(self) -> bool:
        """Whether words of a group enter while those of the one before it leave."""
        return self.rows == _MOST_ROWS

    clocked = True
    """Whether the module has the ports ``clk`` and ``rst``."""

    @property
    def word_bits(self) -> int:
        """Bits of a word: half the rows of an operand beat."""
        return self.rows // 2 * _LANES * _CODE_BITS


class TileTransposer(Unit[TileTransposerConfiguration]):
    """Groups of four words, two operand beats, with their 8x8 tiles transposed.

    With 16 rows the first two words that leave are the upper tile's transpose, four columns each,
    the other two the lower tile's; a group takes four cycles. With 8 rows the four words are the
    one tile's transpose, beat by beat; a group takes five cycles.

    Attributes
    ----------
    s : In(stream)
        Words as they stand in a strip, four in a group.
    m : Out(stream)
        Four words for each group.
    alone : In(1)
        With 16 rows: the group that leaves, or will leave next, is the last one. When it has come,
        no word enters before all of it has left; with 8 rows that is always so.

    Notes
    -----
    A word leaves as another enters: `s_valid` reaches `m_valid` combinationally, and `m_ready`
    reaches `s_ready`. What a group still holds when its last word has come leaves by itself.
    """

    def ports(self) -> Ports:
        words = stream.Signature(self.config.word_bits)
        alone = {"alone": In(1)} if self.config.overlaps else {}
        return {"s": In(words), "m": Out(words), **alone}

    def fill(self, m: Module, platform: object) -> None:
        number = Signal(2, name="word_of_group")
        takes = named(m, "word_enters", 1, self.s.valid & self.s.ready)
        update(m, number, (takes, number + 1))
        at = [named(m, f"is_at_{i}", 1, equals(number, i)) for i in range(4)]
        ends = named(m, "group_ends", 1, takes & at[3])
        if self.config.overlaps:
            self._two_tiles(m, number[1], at, takes, ends)
        else:
            self._one_tile(m, at, takes, ends)

    def _two_tiles(
        self, m: Module, second: Value, at: Sequence[Value], takes: Value, ends: Value
    ) -> None:
        """Squares of four rows: those of the upper tile leave while the second beat enters.

        `waiting` words of the group before leave while the first beat of the next one enters.
        """
        waiting = Signal(2, name="words_waiting")
        leaves = named(m, "word_leaves", 1, self.m.valid & self.m.ready)
        update(m, waiting, (ends, 2), (leaves & waiting.any(), waiting - 1))
        waits = named(m, "some_wait", 1, waiting.any())
        has_place = noted(
            named(m, "has_place", 1, ~waits | (waiting[0] & at[0])),
            "A word of the first beat takes the place of one that waits, if as many wait as will "
            "come.",
        )
        enters = named(m, "may_enter", 1, self.m.ready | (has_place & ~second))
        m.d.comb += [
            self.s.ready.eq(enters & ~(self.alone & waits)),
            self.m.valid.eq(waits | (second & self.s.valid)),
        ]
        low, high = (
            named(m, name, _SQUARE_BITS, self.s.payload.word_select(i, _SQUARE_BITS))
            for i, name in enumerate(("entering_low", "entering_high"))
        )
        swapped = noted(
            Signal(name="is_swapped"),
            "Which of the two squares in the middle holds the upper tile takes turns, because "
            "places become free in another order than that in which they were filled.",
        )
        update(m, swapped, (ends, ~swapped))
        upper = named(m, "takes_upper", 1, at[0] | at[3])
        first = kept(m, takes & ~at[1], "first_square", Mux(at[2], high, low))
        middles = []
        for index in range(2):
            mine = named(m, f"is_upper_{index}", 1, swapped if index else ~swapped)
            enters = takes & Mux(mine, upper, at[1])
            middles.append(kept(m, enters, f"middle_{index}", Mux(mine, high, low)))
        last = kept(m, takes & at[1], "last_square", high)
        upper_middle = Mux(swapped, middles[1], middles[0])
        lower_middle = Mux(swapped, middles[0], middles[1])
        last_waits = named(m, "last_waits", 1, waiting[0])
        from_first = named(m, "from_first", 1, at[2])
        others = named(m, "from_middle", 1, ~last_waits & ~from_first)
        beat_0 = gated_or(
            m, "columns_0_to_3", ((from_first, first), (others, upper_middle), (last_waits, last))
        )
        beat_1 = gated_or(
            m, "columns_4_to_7", ((from_first, low), (others, first), (last_waits, lower_middle))
        )
        m.d.comb += self.m.payload.eq(Cat(_turned(beat_0), _turned(beat_1)))

    def _one_tile(self, m: Module, at: Sequence[Value], takes: Value, ends: Value) -> None:
        """Squares of four rows, of which the second leaves after the third."""
        waits = Signal(name="word_waits")
        passes = noted(
            named(m, "word_passes", 1, at[0] | at[2]),
            "Of four words of a group the first and the third leave as they come, the second one "
            "while the last enters, and that one behind it: no word enters then.",
        )
        update(m, waits, (ends, 1), (self.m.ready, 0))
        held = kept(m, takes & ~passes, "held_square", self.s.payload)
        m.d.comb += [
            self.s.ready.eq(Mux(at[1], 1, self.m.ready & ~waits)),
            self.m.valid.eq(waits | (self.s.valid & ~at[1])),
            self.m.payload.eq(_turned(Mux(passes & ~waits, self.s.payload, held))),
        ]


def _turned(square: Value) -> Value:
    """Four rows of four codes, column by column."""
    codes = [square.word_select(i, _CODE_BITS) for i in range(_LANES * _LANES)]
    return Cat(codes[_LANES * row + column] for column in range(_LANES) for row in range(_LANES))
