"""Products, attention and normalisation on the machine, as sequences of descriptors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows, Vectors
from mxsafe.machine.layout import OperandLayout
from mxsafe.model.softmax import softmax_factor

__all__ = ["Heads", "Norm", "attend", "finish_row", "linear", "load_numbers", "values"]


@dataclass(frozen=True)
class Norm:
    """Layer normalisation with its numbers in the vector buffer.

    Attributes
    ----------
    numbers : Rows
        Gains of all features, and behind them their biases.
    epsilon : float
    """

    numbers: Rows
    epsilon: float

    @property
    def gain(self) -> Rows:
        """The gains alone."""
        return Rows(self.numbers.start, self.numbers.beats // 2)

    @property
    def bias(self) -> Rows:
        """The biases alone."""
        return self.gain.cut(self.gain.beats, self.gain.beats)

    @classmethod
    def loaded(cls, e: Emitter, gain: Numbers, bias: Numbers, epsilon: float) -> "Norm":
        """Load the numbers."""
        norm = cls(e.rows(2 * gain.layout.rows, 1, gain.name, keep=True), epsilon)
        e.load_rows(gain, range(1), norm.gain)
        e.load_rows(bias, range(1), norm.bias)
        return norm


@dataclass(frozen=True)
class Heads:
    """Weights of an attention, and its biases in the vector buffer.

    Attributes
    ----------
    query, key, value : Operand
        Features of all heads by features of the input.
    query_bias, key_bias, value_bias : Rows
    count : int
        Heads.
    """

    query: Operand
    key: Operand
    value: Operand
    query_bias: Rows
    key_bias: Rows
    value_bias: Rows
    count: int

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.query.layout.rows // self.count


def load_numbers(e: Emitter, numbers: Vectors) -> Rows:
    """A number for each feature into the vector buffer, C of them a beat."""
    rows = e.rows(numbers.layout.rows, 1, numbers.name, keep=True)
    e.load_rows(numbers, range(1), rows)
    return rows


def linear(
    e: Emitter,
    weights: Operand,
    features: range,
    x: Placed,
    work: Pass,
    bias: Rows,
    out: Placed,
) -> None:
    """Some features of ``function(weights @ x + bias)``, converted: rows of x's columns.

    Parameters
    ----------
    e : Emitter
    weights : Operand
    features : range
        Of the weights: whole strips.
    x : Placed
        Operand w.
    work : Pass
        What follows the bias.
    bias : Rows
        Numbers of all features of the weights.
    out : Placed
        Where the converted rows go; the first of the features is k = 0.
    """
    c = e.configuration
    block = out.block_beats * c.lanes
    for first in range(features.start, features.stop, block):
        chunk = range(first, min(first + block, features.stop))
        rows = e.rows(len(chunk), x.strips, f"results of {weights.name}")
        product(e, weights, chunk, x, rows)
        number = Rows(bias.start + first // c.vector_lanes, len(chunk))
        done = first - features.start
        e.compute(
            rows,
            replace(work, arithmetic="add", y=number, y_mode="numbers"),
            out=from_k(out, done, c.lanes),
        )
        e.vector.give_back(rows.start)


def product(e: Emitter, weights: Operand, features: range, x: Placed, rows: Rows) -> None:
    """Some features of ``weights @ x`` into rows, one for each strip of x.

    Panels of weights are loaded one after the other into operand buffer a, so that one is loaded
    while another is multiplied.
    """
    size = e.configuration.rows
    for panel in _panels(e, weights, features, "a"):
        placed = e.load(weights, panel, "a")
        offset = panel.start * size - features.start
        last = min(size, features.stop - panel[-1] * size)
        e.multiply(
            placed,
            x,
            rows.start + offset,
            stride_a=size,
            stride_w=rows.stride,
            last_rows=last,
        )
        e.give_back(placed)


def values(e: Emitter, heads: Heads, x: Placed, tokens: int, out: Placed) -> None:
    """``x @ value + bias`` with tokens as k: strips of features.

    Parameters
    ----------
    e : Emitter
    heads : Heads
    x : Placed
        Operand a: tokens.
    tokens : int
    out : Placed
        Operand a of later products: a strip for each strip of features.
    """
    size = e.configuration.rows
    for panel in _panels(e, heads.value, range(heads.value.layout.rows), "w"):
        placed = e.load(heads.value, panel, "w")
        rows = e.rows(tokens, len(panel), "values")
        e.multiply(x, placed, rows.start, stride_a=size, stride_w=tokens)
        e.give_back(placed)
        bias = Rows(heads.value_bias.start + panel.start, 1, len(panel), 1)
        e.compute(
            rows,
            Pass(arithmetic="add", y=bias, y_mode="constant"),
            out=out.part(panel.start, len(panel), size),
        )
        e.vector.give_back(rows.start)


def attend(e: Emitter, heads: Heads, x: Placed, v: Placed, tokens: int, out: Placed) -> None:
    """Context of all heads, converted with features as k.

    Scores of a head are made while softmax of the head before still runs, and its queries and keys
    before that: products and vector work overlap.
    """
    c = e.configuration
    block = out.block_beats * c.lanes
    if heads.features % c.rows or (block % heads.features and heads.features % block):
        raise CompileError(
            f"features of a head must be a multiple of {c.rows} and divide a block of {block} or "
            f"be a multiple of it, not {heads.features}"
        )
    together = max(1, block // heads.features)
    projected = _projected(e, heads, 0, x, tokens)
    weights = _scores(e, heads, projected, tokens)
    rows: Rows | None = None
    for head in range(heads.count):
        later = head + 1 < heads.count
        if later:
            projected = _projected(e, heads, head + 1, x, tokens)
        place = head % together
        if rows is None:
            width = min(together, heads.count - head) * heads.features
            rows = e.rows(width, x.strips, "context")
        strips = heads.features // c.rows
        e.multiply(
            v.part(head * strips, strips, c.rows),
            weights,
            rows.start + place * heads.features,
            stride_a=c.rows,
            stride_w=rows.stride,
        )
        e.give_back(weights)
        if later:
            weights = _scores(e, heads, projected, tokens)
        if place + 1 == together or not later:
            done = (head - place) * heads.features
            e.compute(rows, Pass(), out=from_k(out, done, c.lanes))
            e.vector.give_back(rows.start)
            rows = None


def _projected(
    e: Emitter, heads: Heads, head: int, x: Placed, tokens: int
) -> tuple[Placed, Placed]:
    """Queries of a head as operand w and its keys as operand a."""
    like = Operand("queries", _blocks(e, tokens, heads.features))
    features = range(head * heads.features, (head + 1) * heads.features)
    query, key = e.place("w", like, like.layout.strips), e.place("a", like, like.layout.strips)
    key = replace(key, last_rows=like.last_rows(range(like.layout.strips)))
    linear(e, heads.query, features, x, Pass(), heads.query_bias, query)
    linear(e, heads.key, features, x, Pass(), heads.key_bias, key)
    return query, key


def _scores(e: Emitter, heads: Heads, projected: tuple[Placed, Placed], tokens: int) -> Placed:
    """Attention weights of a head as operand w: a strip for each strip of queries."""
    query, key = projected
    size = e.configuration.rows
    rows = e.rows(tokens, query.strips, "scores")
    e.multiply(key, query, rows.start, stride_a=size, stride_w=tokens)
    e.give_back(query)
    e.give_back(key)
    like = Operand("attention weights", _blocks(e, tokens, tokens))
    weights = e.place("w", like, like.layout.strips)
    factor = softmax_factor(1 / math.sqrt(heads.features))
    e.compute(rows, Pass(reduction="softmax", parameter=float(factor)), out=weights)
    e.vector.give_back(rows.start)
    return weights


def finish_row(
    e: Emitter,
    row: Rows,
    norm: Norm,
    strip: int,
    *,
    bias: Rows | None,
    residual: Vectors | None,
    results: Vectors,
    outs: tuple[Placed, ...],
) -> None:
    """Layer normalisation of ``row + bias + residual``: to memory, and converted.

    Parameters
    ----------
    e : Emitter
    row : Rows
        A strip of tokens; it is overwritten.
    norm : Norm
    strip : int
        Its number.
    bias : Rows, optional
        Numbers that are added first.
    residual : Vectors, optional
        What is added then.
    results : Vectors
        Where the strip is stored.
    outs : tuple of Placed
        Where it goes converted, among all strips.
    """
    if bias is not None:
        e.compute(row, Pass(arithmetic="add", y=bias, y_mode="numbers"), d=row)
    affine = e.configuration.affine
    normalise = Pass(
        reduction="layer_norm",
        parameter=norm.epsilon,
        affine=norm.numbers if affine else None,
    )
    placed = [out.part(strip, 1, e.configuration.rows) for out in outs]
    first = placed[0] if placed else None
    if residual is not None:
        other = e.rows(row.beats, 1, residual.name)
        e.load_rows(residual, range(strip, strip + 1), other)
        normalise = replace(normalise, arithmetic="add", y=other)
        e.compute(row, normalise, d=row, out=first if affine else None)
        e.vector.give_back(other.start)
    else:
        e.compute(row, normalise, d=row, out=first if affine else None)
    if not affine:
        e.compute(row, Pass(arithmetic="multiply", y=norm.gain, y_mode="numbers"), d=row)
        last = Pass(arithmetic="add", y=norm.bias, y_mode="numbers")
        e.compute(row, last, d=row, out=first)
    for copy in placed[1:]:
        e.compute(row, Pass(), out=copy)
    e.store_rows(results, range(strip, strip + 1), row)


def _blocks(e: Emitter, rows: int, columns: int) -> OperandLayout:
    return OperandLayout(configuration=e.configuration, rows=rows, columns=columns)


def from_k(placed: Placed, k: int, lanes: int) -> Placed:
    """The same strips from a later k on, a whole number of blocks."""
    beats = k // lanes
    return replace(
        placed,
        codes=placed.codes + beats,
        scales=placed.scales + beats // placed.block_beats,
    )


def _panels(e: Emitter, weights: Operand, features: range, side: str) -> Iterator[range]:
    """Strips of weights that are loaded together: half of what is free, at most 64 features."""
    size = e.configuration.rows
    first, stop = features.start // size, -(-features.stop // size)
    while first < stop:
        room = e.rooms[side].free // (2 * weights.layout.beats)
        strips = min(max(room, 1), 64 // size, stop - first)
        yield range(first, first + strips)
        first += strips
