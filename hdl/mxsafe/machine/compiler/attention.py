"""Attention on the machine, as units of a schedule."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.layers import (
    Layer,
    added,
    linear,
    multiply,
    out_block,
    require_features,
)
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.units import Panel, Unit, groups, merged, run
from mxsafe.model.softmax import softmax_factor

_Uses = Counter[tuple[str, int, int]]
"""How many products need keys or values, of which group of queries, and of which head."""
_FEWEST = 64
"""Beats of results that are worth a descriptor of their own: each costs the units' latency."""


@dataclass(frozen=True, kw_only=True)
class StoredHeads:
    """Where keys and values are in memory.

    Attributes
    ----------
    keys : sequence of Operand
        Of each head: tokens by features of a head.
    values : Operand
        Of all heads: features by tokens.
    """

    keys: Sequence[Operand]
    values: Operand


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Heads of an attention.

    Attributes
    ----------
    query, key, value : Layer
        Features of all heads by features of the input.
    count, shared : int
        Heads of queries, and of keys and values, each for as many of queries.
    tokens : int
    causal : bool
        Whether a token sees itself and those before it only.
    tables : tuple of Vectors
        Cosines and sines that rotate queries and keys, or nothing.
    stored : StoredHeads or None
        With it, keys and values go to memory and come from there.
    """

    query: Layer
    key: Layer
    value: Layer
    count: int
    shared: int
    tokens: int
    causal: bool = False
    tables: tuple[Vectors, ...] = ()
    stored: StoredHeads | None = None

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.query.weights.layout.rows // self.count

    @property
    def per_key(self) -> int:
        """Heads of queries that share keys."""
        return self.count // self.shared


@dataclass(frozen=True)
class _Turn:
    """A head of some strips of queries.

    Attributes
    ----------
    group : int
        Number of the strips.
    strips : range
    head, key : int
        Of queries, and of keys and values.
    """

    group: int
    strips: range
    head: int
    key: int


class Attention:
    """Units of an attention: context of all heads, converted with features as k.

    Scores of a head come between projections of the next one and values, and their product with
    values later still: so softmax always has time. Values of the last heads come last, to leave
    something to do while softmax of the last head runs.

    Parameters
    ----------
    emitter : Emitter
    heads : Heads
    x : Placed
        Tokens as operand w.
    copy : callable
        Gives the place of tokens as operand a.
    out : callable
        Gives the place where the context goes, as operand w.
    parts : sequence of range
        Strips of queries that are worked on together. If these are not all of them, keys and
        values must be stored.

    Raises
    ------
    CompileError
        If the heads do not fit into blocks.
    """

    def __init__(
        self,
        emitter: Emitter,
        heads: Heads,
        x: Placed,
        copy: Callable[[], Placed],
        out: Callable[[], Placed],
        parts: Sequence[range],
    ) -> None:
        require_features(emitter, heads.features)
        self.emitter, self.heads, self.x = emitter, heads, x
        self._copy, self._out = copy, out
        self._strips = heads.features // emitter.configuration.rows
        self._turns = [
            _Turn(group, part, head, head // heads.per_key)
            for group, part in enumerate(parts)
            for head in range(heads.count)
        ]
        together = max(1, out_block(emitter) // heads.features)
        self._blocks = [
            range(first, min(first + together, start + heads.count))
            for start in range(0, len(self._turns), heads.count)
            for first in range(start, start + heads.count, together)
        ]
        self._rotation = _Rotation(emitter, heads)
        room = emitter.vector.largest_gap
        self._beats = room * 3 // 10
        self._score_beats, self._context_beats = room * 2 // 5, room // 5
        uses = self._uses()
        self._keys: _MadeKeys | _StoredKeys = (
            _MadeKeys(emitter, heads, uses)
            if heads.stored is None
            else _StoredKeys(emitter, heads, heads.stored, uses)
        )
        self._queries: dict[_Turn, Placed] = {}
        self._weights: dict[_Turn, Placed] = {}
        # So many heads have their values, and so many blocks of turns their context.
        self._valued = self._done = 0
        if heads.stored is not None and x.strips * x.stride <= emitter.allocators["w"].largest_gap:
            # Where there is little room, nothing small comes between tokens and context.
            out()
        self._first, self._rest = self._projected(self._turns[0], ahead=len(parts) == 1)

    @property
    def first(self) -> list[Unit]:
        """Units to begin with, one for each two strips of tokens."""
        return self._first

    def emit(self, copies: list[Unit], others: list[Unit]) -> None:
        """Emit all units but the first, with what makes the copy of tokens, and with others.

        Parameters
        ----------
        copies : list
            Units that must come before the copy is used.
        others : list
            Units that can come at any time after these.
        """
        e, count = self.emitter, len(self._turns)
        for place in (self._copy, self._out, self._keys.begin):
            place()
        crowded = not copies and self._crowded
        if crowded:
            run(unit for key in range(self.heads.shared) for unit in self._value(key))
            self._valued = self.heads.count
            e.free(self._copy())
        run(self._rest)
        # Others come with the third turn and those after it.
        parts = dict(enumerate(groups(len(others), -(-len(others) // max(count - 2, 1))), start=2))
        for number, turn in enumerate(self._turns):
            scores, work = self._scores(turn), self._beside(number, copies)
            more = [others[index] for index in parts.pop(number, ())]
            # Softmax of the last turn begins as early as it can.
            early = len(scores) if number + 1 == count else len(work)
            run(merged(scores, merged(work[:early], more)) + work[early:])
        run(self._context(self._blocks[-1]))
        run(others[index] for part in parts.values() for index in part)
        self._rotation.end()
        self._keys.end()
        if not crowded:
            e.free(self._copy())

    @property
    def _crowded(self) -> bool:
        """Whether keys, values and weights of a head have no room beside the copy of tokens."""
        e, heads, copy = self.emitter, self.heads, self._copy()
        sizes = (heads.tokens, heads.features), (heads.features, heads.tokens)
        layouts = [heads.query.weights.layout, *(e.layout(*size) for size in sizes)]
        needed = self._strips * layouts[0].beats
        needed += sum(layout.strips * layout.beats for layout in layouts[1:])
        return copy.strips * copy.stride + needed > e.allocators["a"].size

    def _beside(self, number: int, copies: list[Unit]) -> list[Unit]:
        """Return the array's work between the scores of a turn, which leaves softmax its time."""
        turns, blocks = self._turns, self._blocks
        last = number + 1 == len(turns)
        work: list[Unit] = []
        if not last:
            first, rest = self._projected(turns[number + 1])
            work = first + rest
        if number == min(1, len(turns) - 1):
            work = merged(copies, work)
        # Copies come beside the second turn. Where values are stored, they leave room soon.
        if number > (self.heads.stored is None) or last:
            ready = self.heads.count
            if not last:
                ready = min(ready, number, blocks[-1].start)
            for head in range(self._valued, ready):
                if not head % self.heads.per_key:
                    work += self._value(head // self.heads.per_key)
            self._valued = max(ready, self._valued)
            behind = -1 if last or self.heads.stored is not None else -2
            done = [block for block in blocks[:behind] if block.stop <= number]
            for block in done[self._done :]:
                if turns[block[-1]].head < ready:
                    work += self._context(block)
                    self._done += 1
        return work

    def _projected(self, turn: _Turn, *, ahead: bool = False) -> tuple[list[Unit], list[Unit]]:
        """Queries of a head as operand w and, unless there are, its keys as operand a."""
        e, heads = self.emitter, self.heads
        # Strip by strip only if the weights of queries and keys fit in beside each other.
        needed = 2 * self._strips * heads.query.weights.layout.beats
        ahead = ahead and needed <= e.allocators["a"].largest_gap
        like = Operand("queries", e.layout(heads.tokens, heads.features))
        query = self._queries[turn] = e.place("w", like, len(turn.strips), keep=True)

        def take(rows: Rows, work: Pass, part: range, done: int) -> None:
            e.compute(rows, work, out=query.some(part).from_beat(done))

        made = [self._projection(heads.query, turn.head, turn.strips, take, ahead=ahead)]
        if not turn.group and not turn.head % heads.per_key:
            self._keys.place(turn.key)
            take_keys = partial(self._keys.take, turn.key)
            whole = range(self.x.strips)
            made.append(self._projection(heads.key, turn.key, whole, take_keys, ahead=ahead))
        pairs = zip(*(units for units, _ in made), strict=True)
        first: list[Unit] = [partial(run, units) for units in pairs]
        return first, [unit for _, units in made for unit in units]

    def _projection(
        self,
        layer: Layer,
        head: int,
        strips: range,
        take: Callable[[Rows, Pass, range, int], None],
        *,
        ahead: bool,
    ) -> tuple[list[Unit], list[Unit]]:
        """Units that make queries or keys of a head and some strips, and have them taken.

        Some of their strips, counted from the first one, are taken from a beat on, by a last pass.
        """
        e, heads, width = self.emitter, self.heads, self.heads.features
        own = range(head * width, (head + 1) * width)
        together = width if heads.tables or heads.stored else min(width, out_block(e))
        x = self.x.some(strips)

        def finish(results: list[Rows], part: range, features: range) -> None:
            at = range(strips.start + part.start, strips.start + part.stop)
            done = (features.start - own.start) // e.configuration.lanes
            with self._rotation.last(results[0], added(e, layer.bias, features), at) as work:
                take(results[0], work, part, done)

        beats = min(self._beats // self._rotation.share, _halved(x.strips, together))
        blocks = width // together if ahead else 0
        return linear(
            e, [layer.weights], own, x, finish, beats=beats, ahead=blocks, together=together
        )

    def _value(self, key: int) -> list[Unit]:
        """Values of a head, with tokens as k."""
        tokens = self.heads.tokens
        first, most = key * self._strips, self._beats // tokens
        return [
            partial(self._value_strips, range(first + part.start, first + part.stop))
            for part in groups(self._strips, min(most, _halved(self._strips, tokens) // tokens))
        ]

    def _value_strips(self, strips: range) -> None:
        e, value, tokens = self.emitter, self.heads.value, self.heads.tokens
        if len(strips) * value.weights.layout.beats > e.allocators["w"].largest_gap:
            for strip in strips[1:]:
                self._value_strips(range(strip, strip + 1))
            strips = strips[:1]
        placed = e.load(value.weights, strips, "w")
        rows = e.rows(tokens, len(strips), "values")
        e.multiply(self._copy(), placed, rows.start, stride_a=e.configuration.rows, stride_w=tokens)
        e.free(placed)
        work = Pass()
        if value.bias is not None:
            bias = Rows(value.bias.start + strips.start, 1, len(strips), 1)
            work = Pass(arithmetic="add", y=bias, y_mode="constant")
        self._keys.take_values(rows, work, strips)
        e.vector.free(rows.start)

    def _score_parts(self, turn: _Turn) -> list[range]:
        """Strips of queries, those of a turn counted from 0, whose scores are made together."""
        return groups(len(turn.strips), self._score_beats // self.heads.tokens)

    def _seen(self, turn: _Turn, part: range) -> int:
        """Tokens that some query of a part sees."""
        heads, rows = self.heads, self.emitter.configuration.rows
        last = (turn.strips.start + part.stop) * rows
        return min(heads.tokens, last) if heads.causal else heads.tokens

    def _scores(self, turn: _Turn) -> list[Unit]:
        """Attention weights of a head as operand w: a strip for each strip of queries."""
        return [partial(self._scores_of, turn, part) for part in self._score_parts(turn)]

    def _scores_of(self, turn: _Turn, part: range) -> None:
        e, heads, seen = self.emitter, self.heads, self._seen(turn, part)
        if not part.start:
            like = Operand("attention weights", e.layout(heads.tokens, heads.tokens))
            self._weights[turn] = e.place("w", like, len(turn.strips))
        rows = e.rows(seen, len(part), "scores")
        multiply(e, self._keys.keys(turn), self._queries[turn].some(part), rows)
        before = (turn.strips.start + part.start) * e.configuration.rows
        work = Pass(
            reduction="softmax",
            parameter=float(softmax_factor(1 / math.sqrt(heads.features))),
            causal=before if heads.causal else None,
        )
        e.compute(rows, work, out=self._weights[turn].some(part))
        e.vector.free(rows.start)
        if part.stop == len(turn.strips):
            e.free(self._queries.pop(turn))

    def _context_parts(self, block: range) -> list[range]:
        """Strips of queries whose context is made together."""
        turn = self._turns[block.start]
        return groups(len(turn.strips), self._context_beats // (len(block) * self.heads.features))

    def _context(self, block: range) -> list[Unit]:
        """Sums of values of heads that share a block."""
        return [partial(self._context_of, block, part) for part in self._context_parts(block)]

    def _context_of(self, block: range, part: range) -> None:
        e, width = self.emitter, self.heads.features
        rows = e.rows(len(block) * width, len(part), "context")
        turns = [self._turns[number] for number in block]
        for place, turn in enumerate(turns):
            own = rows.cut(place * width, width)
            for seen, some in self._runs(turn, part):
                weights = _columns(self._weights[turn].some(some), seen, e.configuration.lanes)
                to = own.some(range(some.start - part.start, some.stop - part.start))
                multiply(e, self._keys.values(turn), weights, to)
            if part.stop == len(turn.strips):
                e.free(self._weights.pop(turn))
        first = turns[0]
        strips = range(first.strips.start + part.start, first.strips.start + part.stop)
        done = first.head * width // e.configuration.lanes
        e.compute(rows, Pass(), out=self._out().some(strips).from_beat(done))
        e.vector.free(rows.start)

    def _runs(self, turn: _Turn, part: range) -> list[tuple[int, range]]:
        """Strips of queries that see as many tokens, and how many."""
        seen = [self._seen(turn, own) for own in self._score_parts(turn) for _ in own]
        runs = [(n, list(strips)) for n, strips in groupby(part, lambda strip: seen[strip])]
        return [(n, range(strips[0], strips[-1] + 1)) for n, strips in runs]

    def _uses(self) -> _Uses:
        """How many products need keys and values of a head, for each group of strips."""
        uses: _Uses = Counter()
        for block in self._blocks:
            for turn in (self._turns[number] for number in block):
                uses["keys", turn.group, turn.key] += len(self._score_parts(turn))
                runs = [self._runs(turn, part) for part in self._context_parts(block)]
                uses["values", turn.group, turn.key] += sum(map(len, runs))
        return uses


class _MadeKeys:
    """Keys and values that stay in their buffer; there is one group of queries.

    Parameters
    ----------
    e : Emitter
    heads : Heads
    uses : Counter
        How many products need them.
    """

    def __init__(self, e: Emitter, heads: Heads, uses: _Uses) -> None:
        self._e, self._heads, self._uses = e, heads, uses
        shape = heads.shared * heads.features, heads.tokens
        like = Operand("values", e.layout(*shape))
        self.begin = cache(partial(e.place, "a", like, like.layout.strips, keep=True))
        self._strips = heads.features // e.configuration.rows
        self._placed: dict[int, Placed] = {}
        self._panels: dict[int, Panel] = {}

    def end(self) -> None:
        """Values are no longer needed."""
        self._e.free(self.begin())

    def place(self, key: int) -> None:
        """Allocate keys of a head."""
        like = Operand("keys", self._e.layout(self._heads.tokens, self._heads.features))
        strips = range(like.layout.strips)
        placed = self._placed[key] = self._e.place("a", like, len(strips), keep=True)
        uses = self._uses["keys", 0, key]
        self._panels[key] = Panel(self._e, like, strips, "a", uses, placed)

    def take(self, key: int, rows: Rows, work: Pass, strips: range, done: int) -> None:
        """Some strips of keys from a beat on, by a last pass over them."""
        self._e.compute(rows, work, out=self._placed[key].some(strips).from_beat(done))

    def take_values(self, rows: Rows, work: Pass, strips: range) -> None:
        """Some strips of values."""
        self._e.compute(rows, work, out=self.begin().some(strips))

    def keys(self, turn: _Turn) -> AbstractContextManager[list[Placed]]:
        """For a product."""
        return self._panels[turn.key].used()

    def values(self, turn: _Turn) -> AbstractContextManager[list[Placed]]:
        """For a product."""
        first = turn.key * self._strips
        return nullcontext([self.begin().some(range(first, first + self._strips))])


class _StoredKeys:
    """Keys and values that go to memory and come from there.

    Parameters
    ----------
    e : Emitter
    heads : Heads
    stored : StoredHeads
    uses : Counter
        How many products need them.
    """

    def __init__(
        self,
        e: Emitter,
        heads: Heads,
        stored: StoredHeads,
        uses: _Uses,
    ) -> None:
        self._e, self._heads, self._stored, self._uses = e, heads, stored, uses
        self._panels: dict[tuple[str, int, int], Panel] = {}

    def begin(self) -> None:
        """Values need no allocation."""

    def end(self) -> None:
        """Nor is any left."""

    def place(self, key: int) -> None:
        """Keys need no allocation."""

    def take(self, key: int, rows: Rows, work: Pass, strips: range, done: int) -> None:
        """Some strips of whole keys, by a last pass over them."""
        assert not done
        self._store(rows, work, self._stored.keys[key], strips)

    def take_values(self, rows: Rows, work: Pass, strips: range) -> None:
        """Some strips of values."""
        self._store(rows, work, self._stored.values, strips)

    def _store(self, rows: Rows, work: Pass, operand: Operand, strips: range) -> None:
        out = self._e.place("out", operand, len(strips))
        for lanes, part in self._e.by_lanes(operand.layout.rows, strips):
            y = None if work.y is None else work.y.some(part)
            own = replace(work, y=y)
            self._e.compute(rows.some(part), own, out=out.some(part), lanes=lanes)
        self._e.store(out, operand, strips)
        self._e.free(out)

    def keys(self, turn: _Turn) -> AbstractContextManager[list[Placed]]:
        """For a product."""
        keys = self._stored.keys[turn.key]
        seen = turn.strips.stop if self._heads.causal else keys.layout.strips
        return self._used("keys", turn, keys, range(seen))

    def values(self, turn: _Turn) -> AbstractContextManager[list[Placed]]:
        """For a product."""
        strips = self._heads.features // self._e.configuration.rows
        first = turn.key * strips
        return self._used("values", turn, self._stored.values, range(first, first + strips))

    def _used(
        self, kind: str, turn: _Turn, operand: Operand, strips: range
    ) -> AbstractContextManager[list[Placed]]:
        name = kind, turn.group, turn.key
        if name not in self._panels:
            self._panels[name] = Panel(self._e, operand, strips, "a", self._uses[name])
        return self._panels[name].used()


class _Rotation:
    """Rotation of queries and keys: ``x * cosines + (halves of x exchanged) * sines``.

    Features are beats, so to exchange halves is to read them from elsewhere.
    """

    def __init__(self, e: Emitter, heads: Heads) -> None:
        self._e, self._tables = e, heads.tables
        self._kept: list[Rows] = []
        strips = -(-heads.tokens // e.configuration.rows)
        if heads.tables and 3 * 2 * heads.features * strips <= e.vector.largest_gap:
            for table in heads.tables:
                rows = e.rows(heads.features, strips, table.name, keep=True)
                e.load_rows(table, range(strips), rows)
                self._kept.append(rows)

    @property
    def share(self) -> int:
        """How many times the results themselves a rotation needs of the vector buffer."""
        if not self._tables:
            return 1
        return 2 if self._kept else 4

    def end(self) -> None:
        """Tables are no longer needed."""
        for rows in self._kept:
            self._e.vector.free(rows.start)

    @contextmanager
    def last(self, rows: Rows, work: Pass, strips: range) -> Iterator[Pass]:
        """The last pass, of all that some strips need after work: others are emitted."""
        if not self._tables:
            yield work
            return
        e, half = self._e, rows.beats // 2
        if work.y is not None:
            e.compute(rows, work, d=rows)
        cosines, sines = tables = self._loaded(rows, strips)
        turned = e.rows(rows.beats, rows.count, "rotated")
        for to, source in ((0, half), (half, 0)):
            work = Pass(arithmetic="multiply", y=sines.cut(to, half))
            e.compute(rows.cut(source, half), work, d=turned.cut(to, half))
        e.compute(rows, Pass(arithmetic="multiply", y=cosines), d=rows)
        yield Pass(arithmetic="add", y=turned)
        for used in [turned] if self._kept else [turned, *tables]:
            e.vector.free(used.start)

    def _loaded(self, rows: Rows, strips: range) -> tuple[Rows, Rows]:
        """Cosines and sines of some strips."""
        if self._kept:
            cosines, sines = (table.some(strips) for table in self._kept)
            return cosines, sines
        loaded = [self._e.rows(rows.beats, rows.count, table.name) for table in self._tables]
        for table, to in zip(self._tables, loaded, strict=True):
            self._e.load_rows(table, strips, to)
        cosines, sines = loaded
        return cosines, sines


def _columns(placed: Placed, count: int, lanes: int) -> Placed:
    """The first so many values of k of each strip."""
    beats = -(-count // lanes)
    return replace(placed, beats=beats, entries=-(-beats // placed.block_beats))


def _halved(strips: int, beats: int) -> int:
    """Beats of half of some strips, of so many beats each, or of all if a half is too few."""
    half = -(-strips // 2) * beats
    return half if half >= _FEWEST else strips * beats
