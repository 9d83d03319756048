"""Transformers whose normalisations stand before their layers: vision encoders and decoders."""

from dataclasses import replace
from typing import Literal

from mxsafe.machine.compiler.attention import StoredAttention
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.layers import Norm, require_features
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.projections import (
    add_bias,
    multiply_features,
    parts_of,
)
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.transformer_shape import TransformerBlock, TransformerShape
from mxsafe.machine.compiler.units import cut
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout

__all__ = ["Transformer"]


class Transformer:
    """A transformer as a program: pre-norm, with keys and values in memory.

    Parameters
    ----------
    shape : TransformerShape
    configuration : MachineConfiguration

    Attributes
    ----------
    emitter : Emitter
        The program.
    inputs, outputs : Vectors
        Embeddings, and hidden states after the last normalisation: features by tokens.
    tables : tuple of Vectors
        With `rotary` cosines and sines, which `rotary_tables` makes: features of a head by tokens.
    blocks : list of TransformerBlock
    final : dict of str to Numbers
        ``gain`` of the last normalisation, and with layer normalisation ``bias``.

    Raises
    ------
    CompileError
        If it does not fit; the message has the numbers.
    """

    def __init__(self, shape: TransformerShape, configuration: MachineConfiguration) -> None:
        self.shape = shape
        self.emitter = e = Emitter(configuration)
        self._require()
        self.inputs = self._vectors("embeddings", shape.features)
        rotary = ("cosines", "sines") if shape.rotary else ()
        self.tables = tuple(self._vectors(name, shape.width) for name in rotary)
        self.blocks = [self._block(index) for index in range(shape.blocks)]
        self.final = self._norm_numbers("final_")
        self.outputs = self._vectors("hidden states", shape.features)
        # Biases of normalisations without a bias.
        self._zeros = e.numbers("zeros", shape.features)
        # Sums that go around layers: one is read while the next is written.
        self._around = [self.inputs, *(self._vectors(f"sums {i}", shape.features) for i in (0, 1))]
        self._compile()

    def _require(self) -> None:
        s, c = self.shape, self.emitter.configuration
        require_features(self.emitter, s.width)
        longest = max(s.tokens, s.features)
        if longest > c.reduction_beats:
            raise CompileError(
                f"tokens and features must be at most {c.reduction_beats}, the longest row that is "
                f"reduced, not {longest}"
            )
        for name, needed, there in (
            ("functions", {s.function}, c.functions),
            ("reductions", {"softmax", s.norm}, c.reductions),
            ("conversions", {"blocks"}, c.conversions),
        ):
            if missing := sorted(needed - set(there)):
                raise CompileError(
                    f"{name} of the machine must have {missing[0]}, not only {there}"
                )

    # Tensors.

    def _vectors(self, name: str, rows: int) -> Vectors:
        c = self.emitter.configuration
        layout = NumberLayout(configuration=c, rows=rows, columns=self.shape.tokens)
        return self.emitter.vectors(name, layout)

    def _norm_numbers(self, prefix: str) -> dict[str, Numbers]:
        parts = ("gain", "bias") if self.shape.norm == "layer_norm" else ("gain",)
        return {n: self.emitter.numbers(f"{prefix}{n}", self.shape.features) for n in parts}

    def _block(self, index: int) -> TransformerBlock:
        e, s = self.emitter, self.shape
        shared = s.shared_heads * s.width
        sizes = {
            "query": (s.features, s.features),
            "key": (shared, s.features),
            "value": (shared, s.features),
            "output": (s.features, s.features),
            "up": (s.hidden, s.features),
            "down": (s.features, s.hidden),
        }
        if s.gated:
            sizes["gate"] = sizes["up"]
        operands = {n: e.operand(f"{n} {index}", e.layout(*size)) for n, size in sizes.items()}
        biased = sizes if s.biased else {}
        numbers = {n: e.numbers(f"{n} {index}", size[0]) for n, size in biased.items()}
        for norm in ("attention", "perceptron"):
            made = self._norm_numbers(f"{norm} {index} ")
            numbers |= {f"{norm}_{name}": n for name, n in made.items()}
        keys = [
            e.operand(f"keys {index} {head}", e.layout(s.tokens, s.width))
            for head in range(s.shared_heads)
        ]
        values = e.operand(f"values {index}", e.layout(shared, s.tokens))
        return TransformerBlock(operands, numbers, keys, values)

    # Program.

    def _compile(self) -> None:
        e, s = self.emitter, self.shape
        tokens: tuple[Placed, ...] = self._tokens("w"), self._tokens("a")
        norm = self._norm(self.blocks[0].numbers, "attention_")
        for strip in range(tokens[0].strips):
            row = e.rows(s.features, 1, "a strip of embeddings")
            e.load_rows(self.inputs, range(strip, strip + 1), row)
            self._normalise(row, row, norm, strip, tokens)
            e.vector.give_back(row.start)
        e.vector.give_back(norm.numbers.start)
        for index, block in enumerate(self.blocks):
            x, copy = tokens
            biases = self._biases(block, ("query", "key", "value"))
            attention = StoredAttention(e, s, block, biases, self.tables)
            attention.values(copy)
            e.give_back(copy)
            attention.keys(x)
            context = self._tokens("w")
            attention.context(x, context)
            e.give_back(x)
            for rows in biases.values():
                e.vector.give_back(rows.start)
            x = self._tokens("w")
            norm = self._norm(block.numbers, "perceptron_")
            self._finish(block, "output", context, range(context.strips), norm, (x,))
            e.vector.give_back(norm.numbers.start)
            self._next_sums()
            e.give_back(context)
            following = self.blocks[index + 1].numbers if index + 1 < s.blocks else None
            tokens = self._perceptron(block, x, following)

    def _tokens(self, side: Literal["a", "w"]) -> Placed:
        """Room for all tokens."""
        s, rows = self.shape, self.emitter.configuration.rows
        like = Operand("tokens", self.emitter.layout(s.tokens, s.features))
        strips = like.layout.strips
        placed = self.emitter.place(side, like, strips, keep=True)
        return replace(placed, last_rows=s.tokens - rows * (strips - 1))

    def _norm(self, numbers: dict[str, Numbers], prefix: str) -> Norm:
        """A normalisation, its numbers loaded."""
        gain, bias = numbers[f"{prefix}gain"], numbers.get(f"{prefix}bias", self._zeros)
        return Norm.loaded(self.emitter, gain, bias, self.shape.epsilon, self.shape.norm)

    def _biases(self, block: TransformerBlock, names: tuple[str, ...]) -> dict[str, Rows]:
        """Those that there are, into the vector buffer."""
        there = [name for name in names if name in block.numbers]
        return {name: self.emitter.load_numbers(block.numbers[name]) for name in there}

    def _normalise(
        self, row: Rows, to: Rows, norm: Norm, strip: int, outs: tuple[Placed, ...]
    ) -> None:
        """A strip of tokens, normalised: converted, and as numbers where it is needed as such."""
        e = self.emitter
        placed = [out.some(range(strip, strip + 1)) for out in outs]
        norm.apply(e, row, d=None if len(placed) == 1 else to, out=placed[0] if placed else None)
        for copy in placed[1:]:
            e.compute(to, Pass(), out=copy)

    def _next_sums(self) -> None:
        """What was written last goes around the next layer; embeddings are not written over."""
        used = self._around.pop(0)
        if used is not self.inputs:
            self._around.append(used)

    def _perceptron(
        self, block: TransformerBlock, x: Placed, following: dict[str, Numbers] | None
    ) -> tuple[Placed, ...]:
        """The layers after attention, and the normalisation after them: tokens on both sides."""
        e, s = self.emitter, self.shape
        outs: tuple[Placed, ...] = ()
        if following is None:
            norm = self._norm(self.final, "")
        else:
            outs = self._tokens("w"), self._tokens("a")
            norm = self._norm(following, "attention_")
        like = Operand("hidden", self.emitter.layout(s.tokens, s.hidden))
        entries = e.scale_rooms["w"].free // (2 * like.scale_words)
        most = max(1, min(x.strips, e.rooms["w"].free // like.layout.beats, entries))
        for part in cut(x.strips, most):
            hidden = e.place("w", like, len(part))
            self._hidden(block, x.some(part), hidden)
            self._finish(block, "down", hidden, part, norm, outs)
            e.give_back(hidden)
        self._next_sums()
        e.vector.give_back(norm.numbers.start)
        e.give_back(x)
        return outs

    def _hidden(self, block: TransformerBlock, x: Placed, out: Placed) -> None:
        """What goes into the perceptron's last layer."""
        e, s, c = self.emitter, self.shape, self.emitter.configuration
        biases = self._biases(block, ("gate", "up"))
        span = c.block_beats * c.lanes
        first, *others = ("gate", "up") if s.gated else ("up",)
        parts = parts_of(e, x.strips, span * (2 if s.gated else 1))
        for start in range(0, s.hidden, span):
            features = range(start, min(start + span, s.hidden))
            for part in parts:
                own = x.some(part)
                to = out.some(part).from_beat(start // c.lanes)
                rows = e.rows(len(features), len(part), f"results of {first}")
                multiply_features(e, block.operands[first], features, own, rows)
                work = replace(add_bias(e, biases.get(first), features), function=s.function)
                if not others:
                    e.compute(rows, work, out=to)
                else:
                    e.compute(rows, work, d=rows)
                    factor = e.rows(len(features), len(part), "results of up")
                    multiply_features(e, block.operands["up"], features, own, factor)
                    if "up" in biases:
                        e.compute(factor, add_bias(e, biases["up"], features), d=factor)
                    e.compute(rows, Pass(arithmetic="multiply", y=factor), out=to)
                    e.vector.give_back(factor.start)
                e.vector.give_back(rows.start)
        for numbers in biases.values():
            e.vector.give_back(numbers.start)

    def _finish(
        self,
        block: TransformerBlock,
        layer: Literal["output", "down"],
        x: Placed,
        strips: range,
        norm: Norm,
        outs: tuple[Placed, ...],
    ) -> None:
        """A layer whose results are added to the sums around it, and the normalisation after it.

        Parameters
        ----------
        block : TransformerBlock
        layer : {"output", "down"}
        x : Placed
            Some strips of tokens.
        strips : range
            Which ones.
        norm : Norm
        outs : tuple of Placed
            Where all strips go converted; with none of them, that was the last layer.
        """
        e, s = self.emitter, self.shape
        bias = self._biases(block, (layer,)).get(layer)
        most = max(1, e.vector.free // s.features - 2)
        for part in cut(x.strips, most):
            rows = e.rows(s.features, len(part), f"results of {layer}")
            own = x.some(part)
            multiply_features(e, block.operands[layer], range(s.features), own, rows)
            for index, strip in enumerate(part):
                row = rows.row(index)
                if bias is not None:
                    e.compute(row, add_bias(e, bias, range(s.features)), d=row)
                self._add(row, norm, strips[strip], outs)
            e.vector.give_back(rows.start)
        if bias is not None:
            e.vector.give_back(bias.start)

    def _add(self, row: Rows, norm: Norm, strip: int, outs: tuple[Placed, ...]) -> None:
        """A strip added to the sums around it, and normalised."""
        e, own = self.emitter, range(strip, strip + 1)
        other = e.rows(row.beats, 1, self._around[0].name)
        e.load_rows(self._around[0], own, other)
        e.compute(row, Pass(arithmetic="add", y=other), d=row)
        if outs:
            e.store_rows(self._around[1], own, row)
        self._normalise(row, other, norm, strip, outs)
        if not outs:
            e.store_rows(self.outputs, own, other)
        e.vector.give_back(other.start)
