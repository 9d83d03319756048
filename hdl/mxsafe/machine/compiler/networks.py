"""Whole networks on the machine: memory for their tensors, and their program."""

from dataclasses import dataclass
from typing import Literal

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.layers import (
    Heads,
    Norm,
    attend,
    finish_row,
    linear,
    load_numbers,
    product,
    values,
)
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Vectors
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout, OperandLayout

__all__ = ["BlockTensors", "Encoder", "EncoderShape"]


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of a transformer encoder.

    Attributes
    ----------
    tokens, features, heads, hidden, blocks : int
    epsilon : float
        Of its normalisations.
    function : str
        Activation between the two layers of a block's perceptron.
    """

    tokens: int
    features: int
    heads: int
    hidden: int
    blocks: int
    epsilon: float = 1e-12
    function: str = "gelu"


@dataclass(frozen=True)
class BlockTensors:
    """Where the weights of a block stand in memory.

    Attributes
    ----------
    operands : dict of str to Operand
        ``query``, ``key``, ``value``, ``output``, ``up``, ``down``: features out by features in.
    numbers : dict of str to Numbers
        Biases under the same names; ``attention_gain``, ``attention_bias``, ``output_gain``,
        ``output_bias`` of the normalisations.
    """

    operands: dict[str, Operand]
    numbers: dict[str, Numbers]


class Encoder:
    """A transformer encoder with normalisation after each sum, as in BERT.

    Attributes
    ----------
    shape : EncoderShape
    emitter : Emitter
        The program.
    inputs, outputs : Vectors
        Embeddings before their normalisation, and hidden states of the last block.
    embedding : dict of str to Numbers
        ``gain`` and ``bias`` of the normalisation of embeddings.
    blocks : list of BlockTensors

    Raises
    ------
    CompileError
        If it does not fit; the message has the numbers.
    """

    def __init__(self, shape: EncoderShape, configuration: MachineConfiguration) -> None:
        self.shape = shape
        self.emitter = Emitter(configuration)
        self.inputs = self._rows("embeddings")
        self.embedding = {
            n: self.emitter.numbers(f"embedding_{n}", shape.features) for n in _NUMBERS
        }
        self.blocks = [self._block(index) for index in range(shape.blocks)]
        self.outputs = self._rows("hidden states")
        # Sums that go around a layer: one is read while the next is written.
        between = [self._rows(f"residual {i}") for i in (0, 1)]
        self._compile(between)

    def _rows(self, name: str) -> Vectors:
        s, c = self.shape, self.emitter.configuration
        return self.emitter.vectors(
            name, NumberLayout(configuration=c, rows=s.features, columns=s.tokens)
        )

    def _layout(self, rows: int, columns: int) -> OperandLayout:
        return OperandLayout(configuration=self.emitter.configuration, rows=rows, columns=columns)

    def _block(self, index: int) -> BlockTensors:
        s = self.shape
        sizes = dict.fromkeys(("query", "key", "value", "output"), (s.features, s.features))
        sizes |= {"up": (s.hidden, s.features), "down": (s.features, s.hidden)}
        operands = {
            name: self.emitter.operand(f"{name} {index}", self._layout(*size))
            for name, size in sizes.items()
        }
        numbers = {
            name: self.emitter.numbers(f"{name} {index}", size[0]) for name, size in sizes.items()
        }
        for norm in ("attention", "output"):
            for part in _NUMBERS:
                name = f"{norm}_{part}"
                numbers[name] = self.emitter.numbers(f"{name} {index}", s.features)
        return BlockTensors(operands, numbers)

    def _compile(self, between: list[Vectors]) -> None:
        e, s = self.emitter, self.shape
        like = Operand("tokens", self._layout(s.tokens, s.features))
        outs = self._both(like)
        norm = self._norm(self.embedding["gain"], self.embedding["bias"])
        for strip in range(like.layout.strips):
            row = e.rows(s.features, 1, "a strip of embeddings")
            e.load_rows(self.inputs, range(strip, strip + 1), row)
            finish_row(
                e,
                row,
                norm,
                strip,
                bias=None,
                residual=None,
                results=between[0],
                outs=outs,
            )
            e.vector.give_back(row.start)
        self._end_norm(norm)
        for index, block in enumerate(self.blocks):
            x = self._attention(block, outs, like, between)
            # What the last block puts out is wanted in memory alone.
            outs = self._perceptron(block, x, like, between, last=index + 1 == s.blocks)

    def _both(self, like: Operand) -> tuple[Placed, ...]:
        """Room for tokens as operand w and as operand a."""
        e, strips = self.emitter, like.layout.strips
        return e.place("w", like, strips, keep=True), e.place("a", like, strips, keep=True)

    def _norm(self, gain: Numbers, bias: Numbers) -> Norm:
        e = self.emitter
        return Norm.loaded(e, gain, bias, self.shape.epsilon)

    def _end_norm(self, norm: Norm) -> None:
        self.emitter.vector.give_back(norm.numbers.start)

    def _attention(
        self,
        block: BlockTensors,
        tokens: tuple[Placed, ...],
        like: Operand,
        between: list[Vectors],
    ) -> Placed:
        """Attention, its output layer and the normalisation after it: tokens as operand w."""
        e, s = self.emitter, self.shape
        x, copy = tokens
        biases = {name: load_numbers(e, block.numbers[name]) for name in ("query", "key", "value")}
        operands = block.operands
        heads = Heads(
            operands["query"],
            operands["key"],
            operands["value"],
            biases["query"],
            biases["key"],
            biases["value"],
            s.heads,
        )
        by_feature = Operand("values", self._layout(s.features, s.tokens))
        v = e.place("a", by_feature, by_feature.layout.strips, keep=True)
        values(e, heads, copy, s.tokens, v)
        e.give_back(copy)
        context = e.place("w", like, like.layout.strips, keep=True)
        attend(e, heads, x, v, s.tokens, context)
        for placed in (v, x):
            e.give_back(placed)
        for rows in biases.values():
            e.vector.give_back(rows.start)
        x = e.place("w", like, like.layout.strips, keep=True)
        self._finish(block, "output", "attention", context, between, (x,))
        e.give_back(context)
        return x

    def _perceptron(
        self,
        block: BlockTensors,
        x: Placed,
        like: Operand,
        between: list[Vectors],
        *,
        last: bool,
    ) -> tuple[Placed, ...]:
        """The two layers after attention and the normalisation after them."""
        e, s = self.emitter, self.shape
        hidden = Operand("hidden", self._layout(s.tokens, s.hidden))
        h = e.place("w", hidden, hidden.layout.strips, keep=True)
        bias = load_numbers(e, block.numbers["up"])
        work = Pass(function=s.function)
        linear(e, block.operands["up"], range(s.hidden), x, work, bias, h)
        e.vector.give_back(bias.start)
        e.give_back(x)
        outs = () if last else self._both(like)
        self._finish(block, "down", "output", h, between, outs, last=last)
        e.give_back(h)
        return outs

    def _finish(
        self,
        block: BlockTensors,
        layer: Literal["output", "down"],
        norm_name: str,
        x: Placed,
        between: list[Vectors],
        outs: tuple[Placed, ...],
        *,
        last: bool = False,
    ) -> None:
        """A layer whose results are added to what went around it, and normalised."""
        e, s = self.emitter, self.shape
        residual = between[0]
        results = self.outputs if last else between[1]
        between.reverse()
        bias = load_numbers(e, block.numbers[layer])
        norm = self._norm(block.numbers[f"{norm_name}_gain"], block.numbers[f"{norm_name}_bias"])
        # Strips of tokens whose results are in the vector buffer together, beside two strips of
        # what is added. With more than one group weights are loaded once for each.
        together = min(x.strips, max(1, e.vector.free // s.features - 2))
        for first in range(0, x.strips, together):
            part = x.part(first, min(together, x.strips - first), e.configuration.rows)
            rows = e.rows(s.features, part.strips, f"results of {layer}", keep=True)
            product(e, block.operands[layer], range(s.features), part, rows)
            for strip in range(part.strips):
                row = rows.row(strip)
                finish_row(
                    e,
                    row,
                    norm,
                    first + strip,
                    bias=bias,
                    residual=residual,
                    results=results,
                    outs=outs,
                )
            e.vector.give_back(rows.start)
        e.vector.give_back(bias.start)
        self._end_norm(norm)


_NUMBERS = ("gain", "bias")
