"""Layers, attention and normalisation on the machine, as units of a schedule."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows
from mxsafe.machine.compiler.units import Panel, Unit, groups, merged, run
from mxsafe.model.softmax import softmax_factor

__all__ = [
    "Attention",
    "Heads",
    "Layer",
    "Norm",
    "accumulated",
    "biased",
    "copied",
    "linear",
    "require_features",
]


@dataclass(frozen=True)
class Layer:
    """A matrix of features out by features in, and a bias in the vector buffer.

    Attributes
    ----------
    weights : Operand
    bias : Rows
    """

    weights: Operand
    bias: Rows


@dataclass(frozen=True)
class Norm:
    """Normalisation with its numbers in the vector buffer.

    Attributes
    ----------
    numbers : Rows
        Gains of all features, and behind them their biases.
    epsilon : float
    reduction : {"layer_norm", "rms_norm"}
    """

    numbers: Rows
    epsilon: float
    reduction: str = "layer_norm"

    @property
    def gain(self) -> Rows:
        """The gains alone."""
        return Rows(self.numbers.start, self.numbers.beats // 2)

    @property
    def bias(self) -> Rows:
        """The biases alone."""
        return self.gain.cut(self.gain.beats, self.gain.beats)

    @classmethod
    def loaded(
        cls,
        e: Emitter,
        gain: Numbers,
        bias: Numbers,
        epsilon: float,
        reduction: str = "layer_norm",
    ) -> "Norm":
        """Load the numbers."""
        norm = cls(e.rows(2 * gain.layout.rows, 1, gain.name, keep=True), epsilon, reduction)
        e.load_rows(gain, range(1), norm.gain)
        e.load_rows(bias, range(1), norm.bias)
        return norm

    def apply(self, e: Emitter, row: Rows, *, d: Rows | None, out: Placed | None) -> None:
        """Normalise strips of tokens: as numbers, converted, or both.

        A machine whose norms have no gain needs passes of its own for it, and a place for what is
        between them: without `d` that of the strips themselves.
        """
        work = Pass(reduction=self.reduction, parameter=self.epsilon)
        if e.configuration.affine:
            e.compute(row, replace(work, affine=self.numbers), d=d, out=out)
            return
        between = row if d is None else d
        e.compute(row, work, d=between)
        e.compute(between, Pass(arithmetic="multiply", y=self.gain, y_mode="numbers"), d=between)
        e.compute(between, Pass(arithmetic="add", y=self.bias, y_mode="numbers"), d=d, out=out)


@dataclass(frozen=True)
class Heads:
    """Layers of an attention.

    Attributes
    ----------
    query, key, value : Layer
        Features of all heads by features of the input.
    count : int
        Heads.
    """

    query: Layer
    key: Layer
    value: Layer
    count: int

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.query.weights.layout.rows // self.count


def linear(
    e: Emitter,
    layer: Layer,
    features: range,
    x: Placed,
    work: Pass,
    out: Callable[[], Placed],
    *,
    beats: int,
    ahead: int = 0,
) -> tuple[list[Unit], list[Unit]]:
    """Some features of ``function(weights @ x + bias)``, converted: rows of x's columns.

    Parameters
    ----------
    e : Emitter
    layer : Layer
    features : range
        Of the weights: whole strips.
    x : Placed
        Operand w.
    work : Pass
        What follows the bias.
    out : callable
        Gives the place of the converted rows; the first of the features is k = 0.
    beats : int
        Of the vector buffer, for results of a unit.
    ahead : int
        So many blocks of features come first.

    Returns
    -------
    list of callable
        Units of the blocks that come first: one for each two strips of x, so that they begin when
        the first strips are there.
    list of callable
        The other units, block by block.
    """
    size, lanes = e.configuration.rows, e.configuration.lanes
    block = out_block(e)
    first: list[list[Unit]] = [[] for _ in pairs(x)]
    units: list[Unit] = []
    for start in range(features.start, features.stop, block):
        chunk = range(start, min(start + block, features.stop))
        done = start - features.start
        is_ahead = done // block < ahead
        turns = pairs(x) if is_ahead else [range(x.strips)]
        most = beats // len(chunk)
        parts = [(i, p) for i, t in enumerate(turns) for p in groups(len(t), most, t.start)]
        strips = range(chunk.start // size, -(-chunk.stop // size))
        panel = Panel(e, layer.weights, strips, "a", len(parts))
        number = Rows(layer.bias.start + chunk.start // e.configuration.vector_lanes, len(chunk))
        added = replace(work, arithmetic="add", y=number, y_mode="numbers")
        for index, part in parts:
            target = partial(_target, out, part, done // lanes)
            unit = partial(_linear, e, panel, chunk, x.some(part), added, target)
            (first[index] if is_ahead else units).append(unit)
    return [partial(run, together) for together in first if together], units


def out_block(e: Emitter) -> int:
    """Values that share a scale."""
    return e.configuration.block_beats * e.configuration.lanes


def require_features(e: Emitter, features: int) -> None:
    """Refuse features of a head that are no whole strips, or straddle blocks."""
    rows, block = e.configuration.rows, out_block(e)
    if features % rows or (block % features and features % block):
        raise CompileError(
            f"features of a head must be a multiple of {rows} and divide a block of {block} or be "
            f"a multiple of it, not {features}"
        )


def pairs(x: Placed) -> list[range]:
    """Strips in groups of two: norms of two take less time than two norms."""
    return groups(x.strips, 2)


def _target(out: Callable[[], Placed], part: range, beats: int) -> Placed:
    """Some of the strips, from a later beat on."""
    return out().some(part).from_beat(beats)


def _linear(
    e: Emitter, panel: Panel, chunk: range, x: Placed, work: Pass, out: Callable[[], Placed]
) -> None:
    """Features of some strips of x."""
    rows = e.rows(len(chunk), x.strips, "results of a layer")
    _multiply(e, panel, x, rows, chunk)
    e.compute(rows, work, out=out())
    e.vector.give_back(rows.start)


def _multiply(e: Emitter, panel: Panel, x: Placed, rows: Rows, features: range) -> None:
    """Features of x, those of a panel, into rows, one for each strip of x."""
    size = e.configuration.rows
    at = rows.start
    with panel.used() as parts:
        for part in parts:
            last = min(size, rows.start + len(features) - at - size * (part.strips - 1))
            e.multiply(part, x, at, stride_a=size, stride_w=rows.stride, last_rows=last)
            at += size * part.strips


def accumulated(
    e: Emitter,
    weights: Operand,
    x: Placed,
    sums: Rows,
    finish: Callable[[range], object],
    *,
    beats: int,
) -> tuple[list[Unit], list[Unit]]:
    """Units that add ``weights @ x`` to sums in the vector buffer, in two parts.

    The first part goes through the weights, panel by panel. The second one has the rest of the
    weights together in their buffer and goes through strips of x: so strips of the sums are whole
    one after the other, while there is still work for the array. Strips of x are given back when
    they are done with.

    Parameters
    ----------
    e : Emitter
    weights : Operand
    x : Placed
        Operand w.
    sums : Rows
        One for each strip of x, all features.
    finish : callable
        Called with strips once they are whole.
    beats : int
        Of the vector buffer, for results of a unit.
    """
    size, layout = e.configuration.rows, weights.layout
    # Beside the rest there is room for the first block of what comes next.
    block = out_block(e)
    size_next = block // size * -(-sums.beats // e.configuration.lanes)
    room = e.rooms["a"].size
    last = min(layout.strips, max((room - size_next) // layout.beats, 1))
    together = max(1, min(block // size, (room // layout.beats - last) // 2))
    panels = groups(layout.strips - last, together)
    first: list[Unit] = []
    for strips in panels:
        parts = groups(x.strips, beats // (len(strips) * size))
        panel = Panel(e, weights, strips, "a", len(parts))
        first += [partial(_accumulate, e, [panel], x, part, sums) for part in parts]
    rest = [
        Panel(
            e,
            weights,
            range(layout.strips - last + s.start, layout.strips - last + s.stop),
            "a",
            x.strips,
        )
        for s in groups(last, together)
    ]

    at_once = max(beats // (together * size), 1)
    left = x

    def whole(strips: range) -> None:
        nonlocal left
        for strip in strips:
            for index in range(0, len(rest), at_once):
                part = range(strip, strip + 1)
                _accumulate(e, rest[index : index + at_once], x, part, sums)
        left = e.shrink(left, len(strips))
        finish(strips)

    return first, [partial(whole, strips) for strips in pairs(x)]


def _accumulate(e: Emitter, panels: list[Panel], x: Placed, part: range, sums: Rows) -> None:
    """Products of panels that follow one another with some strips of x, added to sums."""
    size = e.configuration.rows
    start = panels[0].strips.start * size
    features = range(start, min(panels[-1].strips.stop * size, sums.beats))
    rows = e.rows(len(features), len(part), "results of a layer")
    for panel in panels:
        own = range(panel.strips.start * size, min(panel.strips.stop * size, features.stop))
        _multiply(e, panel, x.some(part), rows.cut(own.start - start, len(own)), own)
    there = sums.some(part).cut(start, len(features))
    e.compute(rows, Pass(arithmetic="add", y=there), d=there)
    e.vector.give_back(rows.start)


def biased(e: Emitter, sums: Rows, bias: Rows) -> list[Unit]:
    """Units that add numbers of features to sums of strips."""
    work = Pass(arithmetic="add", y=Rows(bias.start, bias.beats), y_mode="numbers")
    rows = [sums.some(strips) for strips in groups(sums.count, 2)]
    return [partial(e.compute, some, work, d=some) for some in rows]


def copied(e: Emitter, sums: Rows, out: Callable[[], Placed]) -> list[Unit]:
    """Units that convert strips."""

    def copy(strips: range) -> None:
        e.compute(sums.some(strips), Pass(), out=out().some(strips))

    return [partial(copy, strips) for strips in groups(sums.count, 2)]


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
    tokens : int
    out : Placed
        Where the context goes.

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
        tokens: int,
        out: Callable[[], Placed],
    ) -> None:
        block = out_block(emitter)
        require_features(emitter, heads.features)
        self.emitter, self.heads, self.x, self.tokens = emitter, heads, x, tokens
        self._copy, self._out = copy, out
        self._together = max(1, block // heads.features)
        self._strips = heads.features // emitter.configuration.rows
        room = emitter.vector.free
        self._beats, self._score_beats = room // 5, room * 3 // 8
        by_feature = Operand("values", self.emitter.layout(heads.query.weights.layout.rows, tokens))
        self._values = cache(
            partial(emitter.place, "a", by_feature, by_feature.layout.strips, keep=True)
        )
        self._queries: dict[int, Placed] = {}
        self._keys: dict[int, Placed] = {}
        self._weights: dict[int, Placed] = {}
        self._blocks = [
            range(first, min(first + self._together, heads.count))
            for first in range(0, heads.count, self._together)
        ]
        # So many heads have their values.
        self._valued = 0
        self._first, self._rest = self._projected(0, ahead=True)

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
        for place in (self._copy, self._out, self._values):
            place()
        run(self._rest)
        count = self.heads.count
        # Others come with the third head and those after it.
        parts = dict(enumerate(groups(len(others), -(-len(others) // max(count - 2, 1))), start=2))
        for head in range(count):
            scores, work = self._scores(head), self._beside(head, copies)
            more = [others[index] for index in parts.pop(head, ())]
            # Softmax of the last head begins as early as it can.
            early = len(scores) if head + 1 == count else len(work)
            run(merged(scores, merged(work[:early], more)) + work[early:])
        run(self._context(self._blocks[-1]))
        run(others[index] for part in parts.values() for index in part)
        self.emitter.give_back(self._values())

    def _beside(self, head: int, copies: list[Unit]) -> list[Unit]:
        """What the array does between scores of a head, which leaves softmax the time it needs."""
        count, blocks = self.heads.count, self._blocks
        block, place = divmod(head, self._together)
        last = head + 1 == count
        work: list[Unit] = []
        if not last:
            first, rest = self._projected(head + 1)
            work = first + rest
        if head == min(1, count - 1):
            work = merged(copies, work)
        if head > 1 or last:
            ready = count if last else min(head, blocks[-1].start)
            work += [unit for one in range(self._valued, ready) for unit in self._value(one)]
            self._valued = ready
        if block and (last or (not place and block + 1 < len(blocks))):
            work += self._context(blocks[block - 1])
        return work

    def _projected(self, head: int, *, ahead: bool = False) -> tuple[list[Unit], list[Unit]]:
        """Queries of a head as operand w and its keys as operand a."""
        e, heads = self.emitter, self.heads
        like = Operand("queries", self.emitter.layout(self.tokens, heads.features))
        strips = like.layout.strips
        features = range(head * heads.features, (head + 1) * heads.features)
        query = self._queries[head] = e.place("w", like, strips, keep=True)
        key = e.place("a", like, strips, keep=True)
        key = self._keys[head] = replace(key, last_rows=like.last_rows(range(strips)))
        # Strip by strip only if the weights of queries and keys fit in beside each other.
        needed = 2 * self._strips * heads.query.weights.layout.beats
        first = self._strips if ahead and needed <= e.rooms["a"].free else 0
        (q_first, q), (k_first, k) = (
            linear(e, layer, features, self.x, Pass(), _there(out), beats=self._beats, ahead=first)
            for layer, out in ((heads.query, query), (heads.key, key))
        )
        first_units: list[Unit] = [
            partial(run, both) for both in zip(q_first, k_first, strict=True)
        ]
        return first_units, q + k

    def _value(self, head: int) -> list[Unit]:
        """Values of a head, with tokens as k."""
        first = head * self._strips
        return [
            partial(self._value_strips, part.start + first, len(part))
            for part in groups(self._strips, self._beats // self.tokens)
        ]

    def _value_strips(self, first: int, count: int) -> None:
        e, heads = self.emitter, self.heads
        placed = e.load(heads.value.weights, range(first, first + count), "w")
        rows = e.rows(self.tokens, count, "values")
        e.multiply(
            self._copy(), placed, rows.start, stride_a=e.configuration.rows, stride_w=self.tokens
        )
        e.give_back(placed)
        bias = Rows(heads.value.bias.start + first, 1, count, 1)
        work = Pass(arithmetic="add", y=bias, y_mode="constant")
        e.compute(rows, work, out=self._values().some(range(first, first + count)))
        e.vector.give_back(rows.start)

    def _scores(self, head: int) -> list[Unit]:
        """Attention weights of a head as operand w: a strip for each strip of queries."""
        parts = groups(self.x.strips, self._score_beats // self.tokens)
        return [partial(self._scores_of, head, part) for part in parts]

    def _scores_of(self, head: int, part: range) -> None:
        e = self.emitter
        if not part.start:
            like = Operand("attention weights", self.emitter.layout(self.tokens, self.tokens))
            self._weights[head] = e.place("w", like, like.layout.strips)
        rows = e.rows(self.tokens, len(part), "scores")
        query, key = self._queries[head], self._keys[head]
        size = e.configuration.rows
        e.multiply(key, query.some(part), rows.start, stride_a=size, stride_w=self.tokens)
        factor = softmax_factor(1 / math.sqrt(self.heads.features))
        work = Pass(reduction="softmax", parameter=float(factor))
        e.compute(rows, work, out=self._weights[head].some(part))
        e.vector.give_back(rows.start)
        if part.stop == self.x.strips:
            e.give_back(self._queries.pop(head))
            e.give_back(self._keys.pop(head))

    def _context(self, heads: range) -> list[Unit]:
        """Sums of values of heads that share a block."""
        parts = groups(self.x.strips, self._beats // (len(heads) * self.heads.features))
        return [partial(self._context_of, heads, part) for part in parts]

    def _context_of(self, heads: range, part: range) -> None:
        e, width = self.emitter, self.heads.features
        size, lanes = e.configuration.rows, e.configuration.lanes
        rows = e.rows(len(heads) * width, len(part), "context")
        for place, head in enumerate(heads):
            values = self._values().some(range(head * self._strips, (head + 1) * self._strips))
            start = rows.start + place * width
            weights = self._weights[head]
            e.multiply(values, weights.some(part), start, stride_a=size, stride_w=rows.stride)
            if part.stop == self.x.strips:
                e.give_back(self._weights.pop(head))
        e.compute(rows, Pass(), out=_target(self._out, part, heads.start * width // lanes))
        e.vector.give_back(rows.start)


def _there(placed: Placed) -> Callable[[], Placed]:
    """Gives a place that there is."""
    return lambda: placed
