"""The schedule of transformers: blocks with normalisations before their layers or after sums."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from mxsafe.machine.compiler.attention import Attention, Heads, StoredHeads
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.layers import Layer, Norm, accumulated, added, linear, out_block, pairs
from mxsafe.machine.compiler.sums import Sums
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.transformer_shape import BlockTensors, TransformerShape
from mxsafe.machine.compiler.units import Unit, behind, groups, merged, run


@dataclass(frozen=True)
class NormNumbers:
    """Numbers of a normalisation in memory."""

    gain: Numbers
    bias: Numbers


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Blocks of a transformer, from embeddings to hidden states.

    Attributes
    ----------
    emitter : Emitter
        Gets the program.
    shape : TransformerShape
    blocks : sequence of BlockTensors
    norms : sequence of NormNumbers
        Normalisations in their order: of embeddings, and after each sum.
    inputs, outputs : Vectors
        Embeddings, and hidden states of the last block.
    sums : Sums
        What goes around layers.
    tables : tuple of Vectors
        Cosines and sines, or nothing.
    """

    emitter: Emitter
    shape: TransformerShape
    blocks: Sequence[BlockTensors]
    norms: Sequence[NormNumbers]
    inputs: Vectors
    outputs: Vectors
    sums: Sums
    tables: tuple[Vectors, ...] = ()

    def emit(self) -> None:
        """Emit all descriptors."""
        ending = self._embedded()
        for index in range(len(self.blocks)):
            ending = self._attention(index, ending)
            ending = self._perceptron(index, ending)
        run(ending.units)

    # Parts, each with the layers that end it.

    def _embedded(self) -> "_Ending":
        """Embeddings, normalised."""
        numbers = self._load(0)
        to = _Tokens(self._tokens(), None if self.shape.norm_last else self._copy())

        def embed(part: range) -> None:
            self._normalise(self.sums.first(part), part, numbers.norm, to, needed=False)

        units: list[Unit] = [partial(embed, part) for part in pairs(to.x)]
        return _Ending(units, to, numbers, self._load(1), lag=1)

    def _attention(self, index: int, ending: "_Ending") -> "_Ending":
        """Attention, and the layer that adds it to the sums."""
        e, s, block = self.emitter, self.shape, self.blocks[index]
        tokens, numbers = ending.begun
        x, made = tokens.x, tokens.copy
        copy = cache(self._copy) if made is None else _there(made)
        context = cache(partial(e.place, "w", self._like, x.strips, keep=True))
        query, key, value = (
            Layer(block.operands[name], numbers.biases.get(name))
            for name in ("query", "key", "value")
        )
        heads = Heads(
            query=query,
            key=key,
            value=value,
            count=s.heads,
            shared=s.shared_heads,
            tokens=s.tokens,
            causal=s.causal,
            tables=self.tables,
            stored=StoredHeads(keys=block.keys, values=block.values)
            if block.values is not None
            else None,
        )
        parts = self._query_parts(heads)
        needed = len(parts[0]) * e.layout(s.tokens, s.width).beats
        if heads.stored is not None:
            needed += x.strips * x.stride
        overlaps = needed <= e.allocators["w"].largest_gap
        if not overlaps:
            self._end(ending, [])
        attention = Attention(e, heads, x, copy, context, parts)
        if overlaps:
            self._end(ending, attention.first)
        else:
            run(attention.first)
        copies = self._copied(x.strips, copy) if made is None else []
        whole = range(x.strips)
        attention.emit(copies, self.sums.biased(whole, numbers.biases.get("output")))
        e.free(x)
        to = _Tokens(self._tokens())
        layer = _Added(block.operands["output"], numbers.norm, to, self._spare(_PERCEPTRON))
        first, rest = self._added(layer, context(), whole)
        following = self._run(first, 2 * index + 2)
        own = context().some(self.sums.parts(whole)[-1])
        return _Ending(rest, to, numbers, following, own)

    def _perceptron(self, index: int, ending: "_Ending") -> "_Ending":
        """The perceptron, whose last layer is added to the sums."""
        e, s, block = self.emitter, self.shape, self.blocks[index]
        tokens, numbers = ending.begun
        x = tokens.x
        last = index + 1 == len(self.blocks)
        out = cache(self._tokens)
        parts = [range(x.strips)]
        overlaps = self._hidden_fits(x, ending)
        if not overlaps:
            self._end(ending, [])
            if not self._hidden_fits(x):
                # What comes in is needed for long: what goes out has its place beside it.
                if not last:
                    out()
                parts = groups(x.strips, e.allocators["w"].largest_gap // self._hidden_beats)
        layer = None
        for part in parts:
            hidden, first, units = self._hidden(block, numbers.biases, x.some(part), ahead=overlaps)
            if overlaps:
                self._end(ending, first)
            run(merged(units, self.sums.biased(part, numbers.biases.get("down"))))
            if part.stop == x.strips:
                e.free(x)
            if layer is None:
                to = None if last else _Tokens(out(), None if s.norm_last else self._copy())
                spare = self._spare(_ATTENTION)
                layer = _Added(block.operands["down"], numbers.norm, to, spare)
            first, rest = self._added(layer, hidden(), part)
            if part.stop < x.strips:
                run(first + rest)
        following = self._run(first, None if last else 2 * index + 3)
        return _Ending(rest, to, numbers, following)

    def _hidden(
        self, block: BlockTensors, biases: Mapping[str, Rows], x: Placed, *, ahead: bool
    ) -> tuple[Callable[[], Placed], list[Unit], list[Unit]]:
        """Return the input of the perceptron's last layer, as operand w, and the units for it."""
        e, s = self.emitter, self.shape
        like = Operand("hidden", e.layout(s.tokens, s.hidden))
        hidden = cache(partial(e.place, "w", like, x.strips, keep=True))
        names = ("gate", "up") if s.gated else ("up",)
        functions = (s.function, "none")

        def finish(results: list[Rows], part: range, features: range) -> None:
            out = hidden().some(part).from_beat(features.start // e.configuration.lanes)
            works = [
                added(e, biases.get(name), features, function)
                for name, function in zip(names, functions, strict=False)
            ]
            if len(results) == 1:
                e.compute(results[0], works[0], out=out)
                return
            for rows, work in zip(results, works, strict=True):
                if work != Pass():
                    e.compute(rows, work, d=rows)
            e.compute(results[0], Pass(arithmetic="multiply", y=results[1]), out=out)

        units = linear(
            e,
            [block.operands[name] for name in names],
            range(s.hidden),
            x,
            finish,
            beats=e.vector.largest_gap * 3 // 8,
            ahead=self._ahead if ahead else 0,
            together=self._together,
        )
        return hidden, *units

    # What parts have in common.

    def _added(self, layer: "_Added", x: Placed, strips: range) -> tuple[list[Unit], list[Unit]]:
        """Units that add a layer of some strips of tokens to the sums, and normalise these.

        Those that end it, for each two strips, are apart from the others.
        """
        *before, last = (
            partial(self._added_part, layer, x, strips, part) for part in self.sums.parts(strips)
        )
        for part in before:
            first, rest = part()
            run(first + rest)
        return last()

    def _added_part(
        self, layer: "_Added", x: Placed, strips: range, part: range
    ) -> tuple[list[Unit], list[Unit]]:
        """The same of strips that are worked on together."""
        e = self.emitter
        sums = self.sums.taken(part)
        x = x.some(range(part.start - strips.start, part.stop - strips.start))

        def finish(some: range) -> None:
            own = range(part.start + some.start, part.start + some.stop)
            self._normalise(sums.some(some), own, layer.norm, layer.to)

        beats = e.vector.largest_gap * 3 // 8
        return accumulated(e, layer.weights, x, sums, finish, beats=beats, spare=layer.spare)

    def _spare(self, names: Sequence[str]) -> int:
        """Beats of the buffer of weights that a part takes at its beginning."""
        e, s, size = self.emitter, self.shape, self.emitter.configuration.rows
        strip, block = self._like.layout.beats, out_block(e) // size
        if names is _PERCEPTRON:
            return self._ahead * (1 + s.gated) * self._together // size * strip
        keys = e.layout(s.tokens, s.width)
        made = keys.strips * keys.beats if self.blocks[0].values is None else 0
        return max(block, 2 * s.width // size) * strip + made

    @property
    def _together(self) -> int:
        """Features of the perceptron's first layer that are made together."""
        e, s, block = self.emitter, self.shape, out_block(self.emitter)
        panel = (1 + s.gated) * block // e.configuration.rows * self._like.layout.beats
        # Several such panels, and results of several pairs of strips, have room.
        results = 2 * (1 + s.gated) * block
        most = min(e.allocators["a"].size // (5 * panel), e.vector.size // (8 * results))
        return block * max(1, most)

    @property
    def _ahead(self) -> int:
        """How many of these begin strip by strip: all of the layer before has room beside them."""
        e, s, rows = self.emitter, self.shape, self.emitter.configuration.rows
        strip = self._like.layout.beats
        room = e.allocators["a"].size - -(-s.features // rows) * strip
        return max(1, room // ((1 + s.gated) * self._together // rows * strip))

    def _normalise(
        self, rows: Rows, strips: range, norm: Norm, to: "_Tokens | None", *, needed: bool = True
    ) -> None:
        """Sums of some strips, normalised: converted, or what the last block puts out."""
        e = self.emitter
        if to is None:
            # That is wanted in memory alone.
            for lanes, part in e.by_lanes(self.outputs.layout.columns, strips):
                own = rows.some(part)
                norm.apply(e, own, d=own, out=None, lanes=lanes)
            e.store_rows(self.outputs, strips, rows)
        elif self.shape.norm_last:
            norm.apply(e, rows, d=rows, out=to.x.some(strips))
        else:
            # The sums stay as they are.
            numbers = to.copy is not None or not e.configuration.affine
            for part in groups(
                rows.count, e.vector.largest_gap // rows.beats if numbers else rows.count
            ):
                own, out = (
                    rows.some(part),
                    range(strips.start + part.start, strips.start + part.stop),
                )
                between = e.rows(rows.beats, len(part), "normalised sums") if numbers else None
                norm.apply(e, own, d=between, out=to.x.some(out))
                if to.copy is not None and between is not None:
                    e.compute(between, Pass(), out=to.copy.some(out))
                if between is not None:
                    e.vector.free(between.start)
        self.sums.left(strips, rows, needed=needed and to is not None)

    def _end(self, ending: "_Ending", units: list[Unit]) -> None:
        """The end of a layer together with the beginning of the next one."""
        run(behind(ending.units, units, ending.lag))
        ending.numbers.free(self.emitter)

    def _run(self, units: list[Unit], part: int | None) -> "_Numbers | None":
        """Emit units, and load numbers in the midst of them, where they keep nobody waiting."""
        half = len(units) // 2
        run(units[:half])
        loaded = None if part is None else self._load(part)
        run(units[half:])
        return loaded

    def _load(self, part: int) -> "_Numbers":
        """Numbers of a part into the vector buffer: 0 is what normalises embeddings."""
        s = self.shape
        biases = {}
        if part:
            own = self.blocks[(part - 1) // 2].numbers
            names = _ATTENTION if part % 2 else _PERCEPTRON
            biases = {n: self.emitter.load_numbers(own[n]) for n in names if n in own}
        norm = self.norms[part]
        loaded = Norm.loaded(self.emitter, norm.gain, norm.bias, s.epsilon, s.norm)
        return _Numbers(biases, loaded)

    # Places.

    @property
    def _like(self) -> Operand:
        """Tokens as operand."""
        return Operand("tokens", self.emitter.layout(self.shape.tokens, self.shape.features))

    def _tokens(self) -> Placed:
        """Allocate tokens as operand w."""
        return self.emitter.place("w", self._like, self._like.layout.strips, keep=True)

    def _copy(self) -> Placed:
        """Allocate tokens as operand a."""
        like = self._like
        strips = like.layout.strips
        placed = self.emitter.place("a", like, strips, keep=True)
        return replace(placed, last_rows=like.last_rows(range(strips)))

    def _copied(self, strips: int, copy: Callable[[], Placed]) -> list[Unit]:
        """Units that make it of sums that are normalised."""

        def convert(part: range) -> None:
            self.emitter.compute(self.sums.taken(part), Pass(), out=copy().some(part))

        return [partial(convert, part) for part in groups(strips, 2)]

    def _query_parts(self, heads: Heads) -> Sequence[range]:
        """Strips of queries that attention has room for beside tokens and context."""
        e, like = self.emitter, self._like
        strips = like.layout.strips
        if heads.stored is None:
            return [range(strips)]
        c = e.configuration
        together = max(1, c.block_beats * c.lanes // heads.features)
        sizes = (2 * together, heads.tokens), (2, heads.features)
        needed = sum(
            count * max(layout.beats, 4 * -(-layout.entries // 2))
            for count, layout in ((count, e.layout(c.rows, k)) for count, k in sizes)
        )
        value = heads.features // c.rows * like.layout.beats
        room = e.allocators["w"].size - 2 * strips * like.layout.beats - value
        return groups(strips, room // needed)

    def _hidden_fits(self, x: Placed, ending: "_Ending | None" = None) -> bool:
        """Whether all of the perceptron has room, perhaps already while a layer ends."""
        room, beats = self.emitter.allocators["w"], x.strips * self._hidden_beats
        if ending is None or ending.before is None:
            return beats <= room.largest_gap
        # It begins when these strips have been given back.
        done = pairs(ending.before)[: ending.lag + 1][-1].stop
        return beats <= room.largest_gap_without(ending.before.codes, done * ending.before.stride)

    @property
    def _hidden_beats(self) -> int:
        """Beats of a strip of what is between the layers of the perceptron."""
        return self.emitter.layout(self.shape.tokens, self.shape.hidden).beats


@dataclass(frozen=True)
class _Tokens:
    """Normalised tokens as operand w, and where they are needed so as operand a."""

    x: Placed
    copy: Placed | None = None


@dataclass(frozen=True)
class _Added:
    """A layer that is added to sums.

    Attributes
    ----------
    weights : Operand
    norm : Norm
        What follows.
    to : _Tokens or None
        Where that goes; None after the last block.
    spare : int
        Beats of the buffer of weights that are left to the next part.
    """

    weights: Operand
    norm: Norm
    to: _Tokens | None
    spare: int


@dataclass(frozen=True)
class _Numbers:
    """Numbers of a part in the vector buffer."""

    biases: dict[str, Rows]
    norm: Norm

    def free(self, e: Emitter) -> None:
        """They are no longer needed."""
        for rows in (*self.biases.values(), self.norm.numbers):
            e.vector.free(rows.start)


@dataclass(frozen=True)
class _Ending:
    """The end of a part, not emitted yet.

    Attributes
    ----------
    units : list of callable
        One for each two strips of tokens.
    to : _Tokens or None
        Where they write the strips; None after the last block.
    numbers : _Numbers
        What is no longer needed then.
    following : _Numbers or None
        What the next part needs.
    before : Placed or None
        What they read, and free strip by strip.
    lag : int
        So many units the next part begins later, to have its first strips without waiting.
    """

    units: list[Unit]
    to: _Tokens | None
    numbers: _Numbers
    following: _Numbers | None
    before: Placed | None = None
    lag: int = 2

    @property
    def begun(self) -> tuple[_Tokens, _Numbers]:
        """Return the input of the next part."""
        assert self.to is not None
        assert self.following is not None
        return self.to, self.following


def _there(placed: Placed) -> Callable[[], Placed]:
    """Gives a place that there is."""
    return lambda: placed


_ATTENTION = ("query", "key", "value", "output")
_PERCEPTRON = ("gate", "up", "down")
"""Numbers of a block that its parts need beside those of normalisations."""
