"""Transposition of 8x8 tiles of codes of several bytes in a strip, on their way into a buffer."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import equals, kept, named, noted, truncated, update
from mxsafe.rtl.unit import Configuration, Ports, Unit

_ROWS = (8, 16)
_TILE = 8
_LANES = 4
"""Codes of a row in an operand beat."""
_BEATS = _TILE // _LANES
"""Operand beats of a group."""
_WORD_BYTES = 2
"""Bytes of a word for each row of a strip."""


class WideTransposerConfiguration(Configuration):
    """A `WideTransposer`.

    Parameters
    ----------
    rows : int
        Rows of a strip: 8 or 16.
    code_bytes : int
        Bytes of a code: 2 or 4.
    """

    rows: int = 16
    code_bytes: int = 2

    def __post_init__(self) -> None:
        if self.rows not in _ROWS:
            raise ValueError(f"rows must be 8 or 16, not {self.rows!r}")
        if self.code_bytes not in (2, 4):
            raise ValueError(f"code_bytes must be 2 or 4, not {self.code_bytes!r}")

    @property
    def latency(self) -> int:
        """Cycles from the first word of a group to the first one that leaves."""
        return self.words

    overlaps = True
    """Whether words of a group enter while those of the one before it leave."""

    @property
    def words(self) -> int:
        """Words of a group."""
        return _BEATS * _LANES * self.code_bytes // _WORD_BYTES

    @property
    def word_bits(self) -> int:
        """Bits of a word."""
        return 8 * _WORD_BYTES * self.rows


class WideTransposer(Unit[WideTransposerConfiguration]):
    """Groups of two operand beats with their 8x8 tiles transposed, for codes of several bytes.

    A group of codes of 16 bits is eight words. They leave tile by tile, upper one first, each as
    the two operand beats of its transpose; a group takes as many cycles as it has words.

    Attributes
    ----------
    s : In(stream)
        Words as they stand in a strip.
    m : Out(stream)
        As many words for each group.
    alone : In(1)
        The group that leaves, or will leave next, is the last one. When it has come, no word enters
        before all of it has left.

    Notes
    -----
    `TileTransposer` holds half a group and lets words leave as others enter, in an order that is
    its own for words of two squares of 4x4 codes and for words of one. Here a word is one square,
    or with 8 rows half of one, and there would be two more such orders. So a group is gathered in
    registers, and turned at once into others, from which it leaves while the next one is gathered:
    one order for all, at the full rate, for twice the registers of a group (3,840 with 16 rows).
    With the registers of one group alone it would take twice the cycles.

    A word that enters never reaches `m` in its cycle; `m_ready` reaches `s_ready`.
    """

    def ports(self) -> Ports:
        words = stream.Signature(self.config.word_bits)
        return {"s": In(words), "m": Out(words), "alone": In(1)}

    def fill(self, m: Module, platform: object) -> None:
        config = self.config
        number = Signal(range(config.words), name="word_of_group")
        left = Signal(range(config.words + 1), name="words_left")
        completes = named(m, "completes", 1, number.all())
        waits = named(m, "some_wait", 1, left.any())
        is_last = named(m, "is_last", 1, left == 1)
        moves = named(m, "word_leaves", 1, waits & self.m.ready)
        has_room = noted(
            named(m, "has_room", 1, ~waits | (is_last & self.m.ready)),
            "The last word of a group takes it all where the one before it has left.",
        )
        ready = named(m, "may_enter", 1, (has_room | ~completes) & ~(self.alone & waits))
        takes = named(m, "word_enters", 1, self.s.valid & ready)
        ends = named(m, "group_ends", 1, takes & completes)
        m.d.comb += [self.s.ready.eq(ready), self.m.valid.eq(waits)]
        # A power of two of words: the count wraps by itself.
        following = truncated(m, "next_word", len(number), number + 1)
        update(m, number, (takes, following))
        fewer = truncated(m, "fewer_left", len(left), left - 1)
        update(m, left, (ends, config.words), (moves, fewer))
        gathered = (
            kept(m, takes & equals(number, index), f"word_{index}", self.s.payload)
            for index in range(config.words - 1)
        )
        turned = _turned(Cat(*gathered, self.s.payload), config)
        # Words shift towards the one that leaves.
        shifts: list[tuple[Value, Value]] = []
        for index in reversed(range(config.words)):
            word = Signal(config.word_bits, name=f"turned_{index}", reset_less=True)
            update(m, word, (ends, turned.word_select(index, config.word_bits)), *shifts)
            shifts = [(moves, word)]
        m.d.comb += self.m.payload.eq(word)


def _turned(group: Value, config: WideTransposerConfiguration) -> Value:
    """Beats of a transposed tile behind those of the tile above it."""
    size, rows = 8 * config.code_bytes, config.rows

    def code(column: int, row: int) -> Value:
        beat, lane = divmod(column, _LANES)
        return group.word_select((beat * rows + row) * _LANES + lane, size)

    return Cat(
        code(column, tile + _LANES * beat + lane)
        for tile in range(0, rows, _TILE)
        for beat in range(_BEATS)
        for column in range(_TILE)
        for lane in range(_LANES)
    )
