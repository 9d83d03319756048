"""Layers and normalisation on the machine, as units of a schedule."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows
from mxsafe.machine.compiler.units import Panel, Unit, cut, groups, run

Finish = Callable[[list[Rows], range, range], object]


@dataclass(frozen=True)
class Layer:
    """A matrix of features out by features in, and perhaps a bias in the vector buffer."""

    weights: Operand
    bias: Rows | None


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

    def apply(
        self,
        e: Emitter,
        row: Rows,
        *,
        d: Rows | None,
        out: Placed | None,
        lanes: int | None = None,
    ) -> None:
        """Normalise strips of tokens, of which so many lanes count: as numbers, converted, or both.

        A machine whose norms have no gain needs passes of its own for it, and a place for what is
        between them: without `d` that of the strips themselves.
        """
        work = Pass(reduction=self.reduction, parameter=self.epsilon)
        if e.configuration.affine:
            e.compute(row, replace(work, affine=self.numbers), d=d, out=out, lanes=lanes)
            return
        between = row if d is None else d
        e.compute(row, work, d=between)
        e.compute(between, Pass(arithmetic="multiply", y=self.gain, y_mode="numbers"), d=between)
        work = Pass(arithmetic="add", y=self.bias, y_mode="numbers")
        e.compute(between, work, d=d, out=out, lanes=lanes)


def linear(
    e: Emitter,
    layers: Sequence[Operand],
    features: range,
    x: Placed,
    finish: Finish,
    *,
    beats: int,
    ahead: int = 0,
    together: int | None = None,
) -> tuple[list[Unit], list[Unit]]:
    """Some features of ``weights @ x`` of one layer or several: rows of x's columns.

    Parameters
    ----------
    e : Emitter
    layers : sequence of Operand
        Their weights.
    features : range
        Of the weights: whole strips.
    x : Placed
        Operand w.
    finish : callable
        Called with results of each layer, of which strips of x they are, and of which features:
        emits what follows.
    beats : int
        Of the vector buffer, for results of a unit.
    ahead : int
        So many blocks of features come first.
    together : int, optional
        Features of a unit; by default those that share a scale.

    Returns
    -------
    list of callable
        Units of the blocks that come first: one for each two strips of x, so that they begin when
        the first strips are there.
    list of callable
        The other units, block by block.
    """
    block = out_block(e) if together is None else together
    first: list[list[Unit]] = [[] for _ in pairs(x)]
    units: list[Unit] = []
    for index, start in enumerate(range(features.start, features.stop, block)):
        chunk = range(start, min(start + block, features.stop))
        is_ahead = index < ahead
        turns = pairs(x) if is_ahead else [range(x.strips)]
        most = beats // (len(layers) * len(chunk))
        parts = [(i, p) for i, t in enumerate(turns) for p in groups(len(t), most, t.start)]
        panels = [_Panels(e, weights, chunk, len(parts), len(layers)) for weights in layers]
        for turn, part in parts:
            unit = partial(_linear, e, panels, chunk, x, part, finish)
            (first[turn] if is_ahead else units).append(unit)
    return [partial(run, together) for together in first if together], units


class _Panels:
    """Weights of some features that several units need.

    Features that share a scale are a panel. If there is no room for those of all layers at the
    same time, each unit loads them again.
    """

    def __init__(
        self, e: Emitter, weights: Operand, features: range, uses: int, layers: int
    ) -> None:
        size, block = e.configuration.rows, out_block(e)
        first, stop = features.start // size, -(-features.stop // size)
        self._e, self._weights = e, weights
        beats, most, room = weights.layout.beats, block // size, e.allocators["a"].largest_gap
        self._again = layers * (stop - first) * beats > room
        if self._again:
            most = max(1, min(most, room // beats))
        self._parts = [range(first + p.start, first + p.stop) for p in cut(stop - first, most)]
        self._made = self._panels(uses)

    def _panels(self, uses: int) -> list[Panel]:
        return [Panel(self._e, self._weights, part, "a", uses) for part in self._parts]

    def multiply(self, x: Placed, rows: Rows) -> None:
        """All features of x into rows."""
        size, done = self._e.configuration.rows, 0
        for panel in self._panels(1) if self._again else self._made:
            count = min(size * len(panel.strips), rows.beats - done)
            multiply(self._e, panel.used(), x, rows.cut(done, count))
            done += count


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


def _linear(
    e: Emitter, panels: list[_Panels], chunk: range, x: Placed, part: range, finish: Finish
) -> None:
    """Features of some strips of x."""
    results = []
    for own in panels:
        results.append(e.rows(len(chunk), len(part), "results of a layer"))
        own.multiply(x.some(part), results[-1])
    finish(results, part, chunk)
    for rows in results:
        e.vector.free(rows.start)


def multiply(
    e: Emitter, panel: AbstractContextManager[Sequence[Placed]], x: Placed, rows: Rows
) -> None:
    """As many products as rows have beats, of strips of a panel with all of x and its k."""
    size = e.configuration.rows
    at, stop = rows.start, rows.start + rows.beats
    with panel as parts:
        for part in parts:
            strips = min(part.strips, -(-(stop - at) // size))
            if strips:
                own = replace(part.some(range(strips)), beats=x.beats, entries=x.entries)
                last = min(size, stop - at - size * (strips - 1))
                e.multiply(own, x, at, stride_a=size, stride_w=rows.stride, last_rows=last)
            at += size * strips


def added(e: Emitter, bias: Rows | None, features: range, function: str = "none") -> Pass:
    """A pass that adds the bias of some features, if there is one, before a function."""
    if bias is None:
        return Pass(function=function)
    start = bias.start + features.start // e.configuration.vector_lanes
    y = Rows(start, len(features))
    return Pass(arithmetic="add", y=y, y_mode="numbers", function=function)


def accumulated(
    e: Emitter,
    weights: Operand,
    x: Placed,
    sums: Rows,
    finish: Callable[[range], object],
    *,
    beats: int,
    spare: int,
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
    spare : int
        Of the buffer of weights, for those that are needed before all strips are whole.
    """
    size, layout = e.configuration.rows, weights.layout
    block = out_block(e)
    room = e.allocators["a"].largest_gap
    last = min(layout.strips, max((room - spare) // layout.beats, 1))
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
        multiply(e, panel.used(), x.some(part), rows.cut(own.start - start, len(own)))
    there = sums.some(part).cut(start, len(features))
    e.compute(rows, Pass(arithmetic="add", y=there), d=there)
    e.vector.free(rows.start)
