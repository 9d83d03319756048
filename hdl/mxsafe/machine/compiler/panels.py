"""Panels of a product that fit into the buffers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows
from mxsafe.machine.compiler.units import cut
from mxsafe.machine.description import DESCRIPTORS

Block = int | tuple[int, int]

_MOST_WORDS = (1 << DESCRIPTORS["load"].field("count_0").width) - 1
_MOST_STRIPS = (1 << DESCRIPTORS["gemm"].field("strips_a").width) - 1
_PANEL = 8
"""Strips that are kept while those of the other side pass: more would save few loads."""
_RESULTS = 64
"""Rows of side a in a panel: more would not make a descriptor much longer."""


@dataclass(frozen=True)
class Side:
    """Strips of one side of a product.

    Attributes
    ----------
    name : {"a", "w"}
        The buffer.
    operand : Operand
        In memory; of tiles it has whole ones.
    turned : bool
        Whether the strips are of its columns.
    outer, inner : int
        Rows of all strips, and k.
    least : int
        Strips of a part of k that the buffer must hold: two, so that one comes while the other is
        multiplied, or one.
    """

    name: Literal["a", "w"]
    operand: Operand
    turned: bool
    outer: int
    inner: int
    least: int = 2

    @property
    def strips(self) -> int:
        """Strips of all rows."""
        return -(-self.outer // self.operand.layout.configuration.rows)

    def sizes(self, inner: int) -> tuple[int, int]:
        """Operand beats and scale entries that a strip of so many values of k takes."""
        layout = self.operand.layout
        # Turned are whole strips of what is in memory.
        inner = _up(inner, layout.configuration.rows) if self.turned else inner
        columns = layout.filled(inner)
        beats = -(-columns // layout.configuration.lanes)
        return beats, _up(layout.configuration.entries(beats, layout.block_beats), 2)

    def place(self, e: Emitter, strips: range) -> Placed:
        """Allocate some strips with all of k."""
        layout = self.operand.layout
        beats = self.sizes(self.inner)[0]
        like = Operand(
            self.operand.name, replace(layout, columns=beats * layout.configuration.lanes)
        )
        return self._counted(e.place(self.name, like, len(strips)), strips, self.inner)

    def load(self, e: Emitter, strips: range, k: range, into: Placed | None = None) -> Placed:
        """Some strips with all of k, or one with a part of it, to the buffer."""
        if self.operand.parts:
            placed = self._load_parts(e, strips, k, into)
        elif self.turned:
            placed = e.load_transposed(_rows_of(self.operand, k), strips, self.name, into)
        elif len(k) == self.inner:
            placed = e.load(self.operand, strips, self.name, into)
        else:
            own = strip_of(self.operand, strips[0])
            placed = e.load(columns_of(own, k), range(1), self.name, into)
        return self._counted(placed, strips, len(k))

    def _load_parts(self, e: Emitter, strips: range, k: range, into: Placed | None) -> Placed:
        """The same, from parts of its columns."""
        c = self.operand.layout.configuration
        placed = replace(self, inner=len(k)).place(e, strips) if into is None else into
        start = 0
        for part in self.operand.parts:
            if self.turned:
                first = start // c.rows
                own = _both(strips, range(first, first + part.layout.columns // c.rows))
                there = placed.some(_less(own, strips.start))
                if own:
                    rows = _rows_of(part, k)
                    e.load_transposed(rows, _less(own, first), self.name, there)
            elif own := _both(k, range(start, start + part.layout.columns)):
                there = placed.from_beat((own.start - k.start) // c.lanes)
                columns = columns_of(part, _less(own, start))
                e.load(columns, strips, self.name, there)
            start += part.layout.columns
        return placed

    def _counted(self, placed: Placed, strips: range, inner: int) -> Placed:
        """Without what fills the last tile."""
        c = self.operand.layout.configuration
        beats = -(-inner // c.lanes)
        return replace(
            placed,
            beats=beats,
            entries=c.entries(beats, placed.block_beats),
            last_rows=min(c.rows, self.outer - c.rows * strips[-1]),
        )


class _Coming:
    """A panel that is loaded strip by strip, while there are still products with the one before.

    Parameters
    ----------
    e : Emitter
    side : Side
    strips : range
    steps : int
        How often something of it is loaded.
    """

    def __init__(self, e: Emitter, side: Side, strips: range, steps: int) -> None:
        self._e, self._side, self._strips, self._steps = e, side, strips, steps
        self._done = self._step = 0
        self.placed = side.place(e, strips)

    def step(self) -> None:
        """Load the next strips."""
        self._step += 1
        stop = -(-len(self._strips) * self._step // self._steps)
        part = range(self._done, stop)
        if part:
            own = self._strips[part.start : part.stop]
            into = self.placed.some(part)
            self._side.load(self._e, own, range(self._side.inner), into)
        self._done = stop


class Panels:
    """The parts of a product, which fit into the buffers twice.

    Strips of side w are loaded in panels; for each of them all strips of side a, in panels too, or
    once for all panels if they fit together. If k is too long for that, or for the array's sums,
    tiles are made one by one, from parts of k. With arithmetic ``window`` each part is a product of
    its own, and they are added in binary32.

    Parameters
    ----------
    e : Emitter
    w, a : Side
        Results are a strip for each strip of side w, with a number for each row of side a.
    grain : int
        What the number of results of a part of a strip is a multiple of.
    block : int or tuple of int, optional
        Results are converted, with these blocks.
    share : int
        What part of the vector buffer the results of a part may take.
    held_a : Placed, optional
        All strips of side a, where they are already; they stay.
    rooms : Mapping, optional
        By side how many beats and scale entries there are; by default all of the buffers.

    Attributes
    ----------
    k : list of range
        Parts of k, in their order.
    """

    def __init__(
        self,
        e: Emitter,
        w: Side,
        a: Side,
        *,
        grain: int,
        block: Block | None = None,
        share: int = 2,
        held_a: Placed | None = None,
        rooms: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        c = e.configuration
        self._rooms = rooms or {"a": (c.a_beats, c.a_entries), "w": (c.w_beats, c.w_entries)}
        self._held_a = held_a
        self._e, self._w, self._a, self._share = e, w, a, share
        # Those that fill the last tile are zeros.
        self._results = _up(a.outer, block[1]) if isinstance(block, tuple) else a.outer
        self.k = parts_of_k(w, a)
        results = min(grain, self._results)
        self._panel = self._strips_together(results, block)
        self._spans = cut(self._results, self._results_together(grain, block))

    def results(self) -> Iterator[tuple[Rows, range, range]]:
        """Add the products; after each part, where its results are, of which strips, and which."""
        e = self._e
        resident = self._held_a or self._resident()
        panels = cut(self._w.strips, self._panel)
        parts = [(span, self._panels(span)) for span in self._spans]
        steps = sum(len(own) for _, own in parts)
        whole = len(self.k) == 1
        ahead = whole and self._fit(self._w, self._w.sizes(self._w.inner)) > 1
        w = None
        for strips, following in zip(panels, [*panels[1:], None], strict=True):
            if whole and w is None:
                w = self._w.load(e, strips, self.k[0])
            later = _Coming(e, self._w, following, steps) if ahead and following else None
            for span, own in parts:
                rows = e.rows(len(span), len(strips), "results")
                for panel in own:
                    self._multiply(w, resident, strips, panel, span, rows)
                    if later is not None:
                        later.step()
                yield rows, strips, span
            if w is not None:
                e.free(w)
            w = None if later is None else later.placed
        if resident is not None and self._held_a is None:
            e.free(resident)

    def _multiply(
        self,
        w: Placed | None,
        resident: Placed | None,
        strips: range,
        panel: range,
        span: range,
        rows: Rows,
    ) -> None:
        """Strips of side w with a panel of side a."""
        e, size = self._e, self._e.configuration.rows
        at = rows.start + panel.start * size - span.start
        last = min(size, self._results - panel[-1] * size)
        if w is None:
            whole = self._sum_of_parts if e.configuration.anchored else self._tile
            whole(strips, panel, at, last)
            return
        a = self._a.load(e, panel, self.k[0]) if resident is None else resident.some(panel)
        e.multiply(a, w, at, stride_a=size, stride_w=rows.stride, last_rows=last)
        if resident is None:
            e.free(a)

    def _tile(self, strips: range, panel: range, at: int, last: int) -> None:
        """One tile, which goes on from one part of k to the next."""
        for k in self.k:
            self._part(
                strips, panel, k, at, last, clear=k.start == 0, write=k.stop == self.k[-1].stop
            )

    def _sum_of_parts(self, strips: range, panel: range, at: int, last: int) -> None:
        """One tile, for which a product of each part of k is added to those before it."""
        e = self._e
        self._part(strips, panel, self.k[0], at, last)
        for k in self.k[1:]:
            own = e.rows(last, 1, "a part of k")
            self._part(strips, panel, k, own.start, last)
            total = Rows(at, last)
            e.compute(total, Pass(arithmetic="add", y=own), d=total)
            e.vector.free(own.start)

    def _part(
        self, strips: range, panel: range, k: range, at: int, last: int, **flags: bool
    ) -> None:
        """One strip of each side with a part of k."""
        e = self._e
        w, a = self._w.load(e, strips, k), self._a.load(e, panel, k)
        e.multiply(a, w, at, stride_a=0, stride_w=0, last_rows=last, **flags)
        e.free(w)
        e.free(a)

    def _resident(self) -> Placed | None:
        """All of side a, if it fits and serves more than one panel of side w."""
        a = self._a
        if len(self.k) > 1 or self._panel >= self._w.strips:
            return None
        if a.strips > min(self._fit(a, a.sizes(a.inner)), _MOST_STRIPS):
            return None
        return a.load(self._e, range(a.strips), self.k[0])

    def _panels(self, span: range) -> list[range]:
        """Strips of side a that are multiplied together, for some of the results."""
        size = self._e.configuration.rows
        first, stop = span.start // size, -(-span.stop // size)
        return [range(first + p.start, first + p.stop) for p in cut(stop - first, self._most())]

    def _most(self) -> int:
        """Strips of side a in a panel."""
        if len(self.k) > 1:
            return 1
        fit = self._fit(self._a, self._a.sizes(self._a.inner)) // 2
        return max(1, min(_RESULTS // self._e.configuration.rows, fit))

    def _fit(self, side: Side, sizes: tuple[int, int]) -> int:
        """Strips of a size that a buffer holds."""
        return fit(self._rooms[side.name], sizes)

    def _strips_together(self, results: int, block: Block | None) -> int:
        """Strips of side w in a panel, each with so many results."""
        w = self._w
        if len(self.k) > 1:
            return 1
        fit = self._fit(w, w.sizes(w.inner))
        limits = [_PANEL, w.strips, self._results_fit(results, block)]
        if w.strips > fit:
            limits.append(fit // 2)
        return max(1, min(limits))

    def _results_together(self, grain: int, block: Block | None) -> int:
        """Results of each strip of a panel that are in the vector buffer together."""
        # No more than a panel of side a gives: so results leave early.
        panel = -(-self._most() * self._e.configuration.rows // grain)
        return grain * max(1, min(self._results_fit(self._panel * grain, block), panel))

    def _results_fit(self, results: int, block: Block | None) -> int:
        """How many times so many results have room, also when they are converted, twice."""
        c = self._e.configuration
        fits = [c.vector_beats // (self._share * results)]
        if block is not None:
            beats = -(-results // c.lanes)
            entries = _up(c.entries(beats, length_of(block) // c.lanes), 2)
            fits.append(fit((c.out_beats, c.out_entries), (2 * beats, 2 * entries)))
        return min(fits)


def parts_of_k(*sides: Side) -> list[range]:
    """Parts of k of which buffers hold some strips of each side, moved in one run, and sums one."""
    layout, inner = sides[0].operand.layout, sides[0].inner
    c = layout.configuration
    longest = min(inner, c.product_beats * c.lanes)
    # Two entries are a word, the least that is loaded; what is turned comes in strips.
    grain = max(2 * layout.length, c.rows)

    def fits(side: Side) -> bool:
        sizes = side.sizes(longest)
        room = getattr(c, f"{side.name}_beats"), getattr(c, f"{side.name}_entries")
        return fit(room, sizes) >= side.least and c.beat_words * sizes[0] <= _MOST_WORDS

    while longest > grain and not all(map(fits, sides)):
        longest = max(grain, _up(longest // 2, grain))
    return cut(inner, longest)


def _both(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _less(one: range, first: int) -> range:
    return range(one.start - first, one.stop - first)


def fit(room: tuple[int, int], sizes: tuple[int, int]) -> int:
    """How many times so many operand beats and scale entries have room."""
    return min(have // need for have, need in zip(room, sizes, strict=True) if need)


def length_of(block: Block) -> int:
    """Values of k of a block."""
    return block[1] if isinstance(block, tuple) else block


def strip_of(operand: Operand, strip: int) -> Operand:
    """One strip of an operand in memory."""
    layout = operand.layout
    size = layout.configuration.rows
    rows = min(size, layout.rows - strip * size)
    return _rows_of(operand, range(strip * size, strip * size + rows))


def columns_of(operand: Operand, columns: range) -> Operand:
    """Some columns of an operand in memory."""
    layout = operand.layout
    c = layout.configuration
    return Operand(
        operand.name,
        replace(layout, columns=len(columns)),
        operand.codes + columns.start // c.lanes * layout.beat_bytes,
        operand.scales + columns.start // layout.length * layout.entry_bytes,
        operand.whole or layout,
    )


def _rows_of(operand: Operand, rows: range) -> Operand:
    """Some rows of an operand in memory, from the first one of a strip on."""
    layout = operand.layout
    first = operand.from_strip(rows.start // layout.configuration.rows)
    return replace(first, layout=replace(layout, rows=len(rows)))


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
