"""Attention with keys and values in memory."""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.projections import add_bias, multiply_features, parts_of
from mxsafe.machine.compiler.tensors import Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.transformer_shape import TransformerBlock, TransformerShape
from mxsafe.machine.compiler.units import cut
from mxsafe.model.softmax import softmax_factor

__all__ = ["StoredAttention"]


@dataclass(frozen=True)
class _Unit:
    """A head's attention of some strips of queries.

    Attributes
    ----------
    group : int
        Of heads whose results are converted together.
    head : int
    strips : range
    """

    group: int
    head: int
    strips: range


@dataclass
class _Lent:
    """Operands that several units use: loaded for the first, given back after the last."""

    emitter: Emitter
    uses: Counter[tuple[str, int, int]]
    placed: dict[tuple[str, int, int], Placed] = field(default_factory=dict)

    def take(self, key: tuple[str, int, int], operand: Operand, strips: range) -> Placed:
        """Strips as operand a."""
        if key not in self.placed:
            self.placed[key] = self.emitter.load(operand, strips, "a")
        return self.placed[key]

    def give_back(self, key: tuple[str, int, int]) -> None:
        """One use is over."""
        self.uses[key] -= 1
        if not self.uses[key]:
            self.emitter.give_back(self.placed.pop(key))


class StoredAttention:
    """Attention of a block: its keys and values go to memory, and come from there.

    Parameters
    ----------
    emitter : Emitter
    shape : TransformerShape
    block : TransformerBlock
    biases : dict of str to Rows
        Those of ``query``, ``key`` and ``value`` in the vector buffer, if there are any.
    tables : tuple of Vectors
        Cosines and sines, or nothing.
    """

    def __init__(
        self,
        emitter: Emitter,
        shape: TransformerShape,
        block: TransformerBlock,
        biases: dict[str, Rows],
        tables: tuple[Vectors, ...],
    ) -> None:
        self.emitter, self.shape, self.block = emitter, shape, block
        self._biases, self._tables = biases, tables
        # Vector beats that queries or keys of a head and strip take on their way.
        self._head_beats = shape.width * (4 if tables else 1)

    def values(self, x: Placed) -> None:
        """Values of all heads, with tokens as k, into memory."""
        e, s, c = self.emitter, self.shape, self.emitter.configuration
        weights, values = self.block.operands["value"], self.block.values
        bias = self._biases.get("value")
        limits = (
            4,
            e.vector.free // (2 * s.tokens),
            c.out_beats // (2 * values.layout.beats),
            e.rooms["w"].free // (2 * weights.layout.beats),
        )
        most = max(1, min(limits))
        for panel in cut(weights.layout.strips, most):
            placed = e.load(weights, panel, "w")
            rows = e.rows(s.tokens, len(panel), "values")
            e.multiply(x, placed, rows.start, stride_a=c.rows, stride_w=s.tokens)
            e.give_back(placed)
            work = Pass()
            if bias is not None:
                y = Rows(bias.start + panel.start, 1, len(panel), 1)
                work = Pass(arithmetic="add", y=y, y_mode="constant")
            out = e.place("out", values, len(panel))
            e.compute(rows, work, out=out)
            e.vector.give_back(rows.start)
            e.store(out, values, panel)
            e.give_back(out)

    def keys(self, x: Placed) -> None:
        """Keys of all heads into memory."""
        e, s = self.emitter, self.shape
        for head, keys in enumerate(self.block.keys):
            features = range(head * s.width, (head + 1) * s.width)
            for part in parts_of(e, x.strips, self._head_beats):
                out = e.place("out", keys, len(part))
                self._project("key", features, x, part, out)
                e.store(out, keys, part)
                e.give_back(out)

    def _project(
        self,
        name: Literal["query", "key"],
        features: range,
        x: Placed,
        strips: range,
        out: Placed,
    ) -> None:
        """Queries or keys of a head for some strips of tokens, rotated and converted."""
        e, weights, bias = self.emitter, self.block.operands[name], self._biases.get(name)
        rows = e.rows(len(features), len(strips), f"results of {weights.name}")
        multiply_features(e, weights, features, x.some(strips), rows)
        work = add_bias(e, bias, features)
        if not self._tables:
            e.compute(rows, work, out=out)
        else:
            if bias is not None:
                e.compute(rows, work, d=rows)
            self._rotate(rows, strips, out)
        e.vector.give_back(rows.start)

    def _rotate(self, rows: Rows, strips: range, out: Placed) -> None:
        """``x * cosines + (halves of x exchanged) * sines``, converted.

        Features are beats, so to exchange halves is to read them from elsewhere.
        """
        e, half = self.emitter, rows.beats // 2
        tables = []
        for table in self._tables:
            tables.append(e.rows(rows.beats, rows.count, table.name))
            e.load_rows(table, strips, tables[-1])
        cosines, sines = tables
        turned = e.rows(rows.beats, rows.count, "rotated")
        for to, source in ((0, half), (half, 0)):
            work = Pass(arithmetic="multiply", y=sines.cut(to, half))
            e.compute(rows.cut(source, half), work, d=turned.cut(to, half))
        e.compute(rows, Pass(arithmetic="multiply", y=cosines), d=rows)
        e.compute(rows, Pass(arithmetic="add", y=turned), out=out)
        for used in (cosines, sines, turned):
            e.vector.give_back(used.start)

    def context(self, x: Placed, out: Placed) -> None:
        """Values of all tokens weighted, for all heads.

        Queries of a unit are made while softmax of the one before runs, and its scores before that
        one's context is converted: products and vector work overlap.

        Parameters
        ----------
        x : Placed
            Tokens as operand w.
        out : Placed
            Where the context goes, as operand w.
        """
        e, s, c = self.emitter, self.shape, self.emitter.configuration
        together = max(1, c.block_beats * c.lanes // s.width)
        parts = parts_of(e, x.strips, s.tokens + self._head_beats + together * s.width)
        units = [
            _Unit(first // together, head, part)
            for first in range(0, s.heads, together)
            for part in parts
            for head in range(first, min(first + together, s.heads))
        ]
        lent = _Lent(
            e, Counter(key for u in units for key in (self._key("k", u), self._key("v", u)))
        )
        rows: Rows | None = None
        scores: Placed | None = None
        for unit, following in zip(units, [*units[1:], None], strict=True):
            if scores is None:
                scores = self._scores(self._query(x, unit), unit, lent)
            query = self._query(x, following) if following else None
            place = unit.head % together
            if rows is None:
                width = min(together, s.heads - unit.head) * s.width
                rows = e.rows(width, len(unit.strips), "context")
            self._weighted(scores, unit, lent, rows.cut(place * s.width, s.width))
            e.give_back(scores)
            if query is not None and following is not None:
                scores = self._scores(query, following, lent)
            if place + 1 == together or unit.head + 1 == s.heads:
                done = (unit.head - place) * s.width
                e.compute(rows, Pass(), out=out.some(unit.strips).from_beat(done // c.lanes))
                e.vector.give_back(rows.start)
                rows = None

    def _key(self, kind: str, unit: _Unit) -> tuple[str, int, int]:
        """Name of the keys or values that a unit uses."""
        return kind, unit.group, self._shared_head(unit)

    def _shared_head(self, unit: _Unit) -> int:
        """Head of its keys and values."""
        return unit.head * self.shape.shared_heads // self.shape.heads

    def _seen(self, unit: _Unit) -> int:
        """Tokens that some query of a unit sees."""
        rows, tokens = self.emitter.configuration.rows, self.shape.tokens
        return min(tokens, unit.strips.stop * rows) if self.shape.causal else tokens

    def _query(self, x: Placed, unit: _Unit) -> Placed:
        e, s = self.emitter, self.shape
        query = e.place("w", Operand("queries", e.layout(s.tokens, s.width)), len(unit.strips))
        features = range(unit.head * s.width, (unit.head + 1) * s.width)
        self._project("query", features, x, unit.strips, query)
        return query

    def _scores(self, query: Placed, unit: _Unit, lent: _Lent) -> Placed:
        """Attention weights as operand w: a strip for each strip of queries."""
        e, s, size = self.emitter, self.shape, self.emitter.configuration.rows
        seen, name = self._seen(unit), self._key("k", unit)
        strips = -(-seen // size)
        keys = self.block.keys[self._shared_head(unit)]
        key = lent.take(name, keys, range(keys.layout.strips)).some(range(strips))
        rows = e.rows(seen, query.strips, "scores")
        last = seen - size * (strips - 1)
        e.multiply(key, query, rows.start, stride_a=size, stride_w=seen, last_rows=last)
        lent.give_back(name)
        e.give_back(query)
        like = Operand("attention weights", e.layout(size * query.strips, seen))
        weights = e.place("w", like, query.strips)
        work = Pass(
            reduction="softmax",
            parameter=float(softmax_factor(1 / math.sqrt(s.width))),
            causal=unit.strips.start * size if s.causal else None,
        )
        e.compute(rows, work, out=weights)
        e.vector.give_back(rows.start)
        return weights

    def _weighted(self, weights: Placed, unit: _Unit, lent: _Lent, rows: Rows) -> None:
        """Values weighted: a row for each strip of queries."""
        e, size, name = self.emitter, self.emitter.configuration.rows, self._key("v", unit)
        strips = self.shape.width // size
        first = self._shared_head(unit) * strips
        values = lent.take(name, self.block.values, range(first, first + strips))
        seen = replace(values, beats=weights.beats, entries=weights.entries)
        e.multiply(seen, weights, rows.start, stride_a=size, stride_w=rows.stride)
        lent.give_back(name)
