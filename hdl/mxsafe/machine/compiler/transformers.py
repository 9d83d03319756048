"""Transformers whose normalisations stand before their layers: vision encoders and decoders."""

from dataclasses import replace
from typing import Literal

from mxsafe.machine.compiler.attention import StoredAttention
from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.panels import some
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.projections import (
    add_bias,
    from_k,
    loaded,
    multiply_features,
    parts_of,
)
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.transformer_shape import TransformerBlock, TransformerShape
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout, OperandLayout

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
        block = c.block_beats * c.lanes
        if s.width % c.rows or (block % s.width and s.width % block):
            raise CompileError(
                f"features of a head must be a multiple of {c.rows} and divide a block of {block} "
                f"or be a multiple of it, not {s.width}"
            )
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

    def _layout(self, rows: int, columns: int) -> OperandLayout:
        return OperandLayout(configuration=self.emitter.configuration, rows=rows, columns=columns)

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
        operands = {n: e.operand(f"{n} {index}", self._layout(*size)) for n, size in sizes.items()}
        biased = sizes if s.biased else {}
        numbers = {n: e.numbers(f"{n} {index}", size[0]) for n, size in biased.items()}
        for norm in ("attention", "perceptron"):
            made = self._norm_numbers(f"{norm} {index} ")
            numbers |= {f"{norm}_{name}": n for name, n in made.items()}
        keys = [
            e.operand(f"keys {index} {head}", self._layout(s.tokens, s.width))
            for head in range(s.shared_heads)
        ]
        values = e.operand(f"values {index}", self._layout(shared, s.tokens))
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
        e.vector.give_back(norm.start)
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
            e.vector.give_back(norm.start)
            self._next_sums()
            e.give_back(context)
            following = self.blocks[index + 1].numbers if index + 1 < s.blocks else None
            tokens = self._perceptron(block, x, following)

    def _tokens(self, side: Literal["a", "w"]) -> Placed:
        """Room for all tokens."""
        s, rows = self.shape, self.emitter.configuration.rows
        like = Operand("tokens", self._layout(s.tokens, s.features))
        strips = like.layout.strips
        placed = self.emitter.place(side, like, strips, keep=True)
        return replace(placed, last_rows=s.tokens - rows * (strips - 1))

    def _norm(self, numbers: dict[str, Numbers], prefix: str) -> Rows:
        """Gains of a normalisation and behind them biases, into the vector buffer."""
        e = self.emitter
        gain = numbers[f"{prefix}gain"]
        rows = e.rows(2 * gain.layout.rows, 1, gain.name, keep=True)
        e.load_rows(gain, range(1), rows.cut(0, gain.layout.rows))
        bias = numbers.get(f"{prefix}bias", self._zeros)
        e.load_rows(bias, range(1), rows.cut(gain.layout.rows, gain.layout.rows))
        return rows

    def _biases(self, block: TransformerBlock, names: tuple[str, ...]) -> dict[str, Rows]:
        """Those that there are, into the vector buffer."""
        there = [name for name in names if name in block.numbers]
        return {name: loaded(self.emitter, block.numbers[name]) for name in there}

    def _some(self, placed: Placed, strips: range) -> Placed:
        return some(placed, strips, self.emitter.configuration.rows)

    def _normalise(
        self, row: Rows, to: Rows, norm: Rows, strip: int, outs: tuple[Placed, ...]
    ) -> None:
        """A strip of tokens, normalised: converted, and as numbers where it is needed as such."""
        e = self.emitter
        placed = [self._some(out, range(strip, strip + 1)) for out in outs]
        affine = e.configuration.affine
        work = Pass(
            reduction=self.shape.norm,
            parameter=self.shape.epsilon,
            affine=norm if affine else None,
        )
        if affine and len(placed) == 1:
            e.compute(row, work, out=placed[0])
            return
        e.compute(row, work, d=to, out=placed[0] if affine and placed else None)
        if not affine:
            half = norm.beats // 2
            gain, bias = norm.cut(0, half), norm.cut(half, half)
            e.compute(to, Pass(arithmetic="multiply", y=gain, y_mode="numbers"), d=to)
            last = Pass(arithmetic="add", y=bias, y_mode="numbers")
            e.compute(to, last, d=to, out=placed[0] if placed else None)
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
        like = Operand("hidden", self._layout(s.tokens, s.hidden))
        entries = e.scale_rooms["w"].free // (2 * like.scale_words)
        most = max(1, min(x.strips, e.rooms["w"].free // like.layout.beats, entries))
        for first in range(0, x.strips, most):
            part = range(first, min(first + most, x.strips))
            hidden = e.place("w", like, len(part))
            self._hidden(block, self._some(x, part), hidden)
            self._finish(block, "down", hidden, part, norm, outs)
            e.give_back(hidden)
        self._next_sums()
        e.vector.give_back(norm.start)
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
                own = self._some(x, part)
                to = from_k(self._some(out, part), start, c.lanes)
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
        norm: Rows,
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
        norm : Rows
        outs : tuple of Placed
            Where all strips go converted; with none of them, that was the last layer.
        """
        e, s = self.emitter, self.shape
        bias = self._biases(block, (layer,)).get(layer)
        most = max(1, e.vector.free // s.features - 2)
        for first in range(0, x.strips, most):
            part = range(first, min(first + most, x.strips))
            rows = e.rows(s.features, len(part), f"results of {layer}")
            own = self._some(x, part)
            multiply_features(e, block.operands[layer], range(s.features), own, rows)
            for index, strip in enumerate(part):
                row = rows.row(index)
                if bias is not None:
                    e.compute(row, add_bias(e, bias, range(s.features)), d=row)
                self._add(row, norm, strips[strip], outs)
            e.vector.give_back(rows.start)
        if bias is not None:
            e.vector.give_back(bias.start)

    def _add(self, row: Rows, norm: Rows, strip: int, outs: tuple[Placed, ...]) -> None:
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
