"""Whole networks on the machine: memory for their tensors, and their program."""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from mxsafe.machine.compiler.emitter import Emitter, Pass
from mxsafe.machine.compiler.layers import (
    Attention,
    Heads,
    Layer,
    Norm,
    accumulated,
    biased,
    copied,
    linear,
    pairs,
)
from mxsafe.machine.compiler.tensors import Numbers, Operand, Placed, Rows, Vectors
from mxsafe.machine.compiler.units import Unit, behind, merged, run
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout

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
        self._tokens = Operand("tokens", self.emitter.layout(shape.tokens, shape.features))
        self._compile()

    def _rows(self, name: str) -> Vectors:
        s, c = self.shape, self.emitter.configuration
        return self.emitter.vectors(
            name, NumberLayout(configuration=c, rows=s.features, columns=s.tokens)
        )

    def _block(self, index: int) -> BlockTensors:
        s = self.shape
        sizes = dict.fromkeys(("query", "key", "value", "output"), (s.features, s.features))
        sizes |= {"up": (s.hidden, s.features), "down": (s.features, s.hidden)}
        operands = {
            name: self.emitter.operand(f"{name} {index}", self.emitter.layout(*size))
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

    def _compile(self) -> None:
        e, s = self.emitter, self.shape
        strips = self._tokens.layout.strips
        # Sums that go around layers stay in the vector buffer.
        sums = e.rows(s.features, strips, "sums of a layer", keep=True)
        numbers = self._load(self.embedding, _EMBEDDING)
        ending = self._embedded(sums, numbers)
        for index, block in enumerate(self.blocks):
            following = self.blocks[index + 1].numbers if index + 1 < s.blocks else None
            if not index:
                numbers = self._load(block.numbers, _ATTENTION)
            context = self._attention(block, numbers, ending, sums)
            first, ending = self._closing(block, "output", context, sums, numbers)
            numbers = self._run(first, block.numbers, _PERCEPTRON)
            hidden = self._hidden(block, numbers, ending, sums)
            first, ending = self._closing(block, "down", hidden, sums, numbers, following is None)
            numbers = self._run(first, following or {}, _ATTENTION)
        run(ending.units)

    def _embedded(self, sums: Rows, numbers: dict[str, Rows]) -> "_Ending":
        """Embeddings, normalised."""
        e, strips = self.emitter, self._tokens.layout.strips
        x = e.place("w", self._tokens, strips, keep=True)
        norm = self._norm(numbers, "")

        def embed(part: range) -> None:
            e.load_rows(self.inputs, part, sums.some(part))
            norm.apply(e, sums.some(part), d=sums.some(part), out=x.some(part))

        return _Ending([partial(embed, part) for part in pairs(x)], x, numbers, lag=1)

    def _load(self, numbers: dict[str, Numbers], names: tuple[str, ...]) -> dict[str, Rows]:
        """Numbers into the vector buffer; gains have their biases behind them."""
        loaded = {}
        for name in names if numbers else ():
            if name.endswith("gain"):
                bias = numbers[name.removesuffix("gain") + "bias"]
                norm = Norm.loaded(self.emitter, numbers[name], bias, self.shape.epsilon)
                loaded[name] = norm.numbers
            else:
                loaded[name] = self.emitter.load_numbers(numbers[name])
        return loaded

    def _run(
        self, units: list[Unit], numbers: dict[str, Numbers], names: tuple[str, ...]
    ) -> dict[str, Rows]:
        """Emit units, and load numbers in the midst of them, where they keep nobody waiting."""
        half = len(units) // 2
        run(units[:half])
        loaded = self._load(numbers, names)
        run(units[half:])
        return loaded

    def _norm(self, numbers: dict[str, Rows], prefix: str) -> Norm:
        return Norm(numbers[f"{prefix}gain"], self.shape.epsilon)

    def _end(self, ending: "_Ending", units: list[Unit]) -> None:
        """The end of a layer together with the beginning of the next one."""
        run(behind(ending.units, units, ending.lag))
        for rows in ending.numbers.values():
            self.emitter.vector.give_back(rows.start)

    def _attention(
        self, block: BlockTensors, numbers: dict[str, Rows], ending: "_Ending", sums: Rows
    ) -> Placed:
        """Context of all heads as operand w; sums get the bias of the layer after it."""
        e, s, like = self.emitter, self.shape, self._tokens
        strips = like.layout.strips
        query, key, value = (
            Layer(block.operands[name], numbers[name]) for name in ("query", "key", "value")
        )
        context = cache(partial(e.place, "w", like, strips, keep=True))
        copy = cache(partial(self._place_copy, like))
        heads = Heads(query, key, value, s.heads)
        attention = Attention(e, heads, ending.x, copy, s.tokens, context)
        self._end(ending, attention.first)
        attention.emit(copied(e, sums, copy), biased(e, sums, numbers["output"]))
        for placed in (copy(), ending.x):
            e.give_back(placed)
        return context()

    def _place_copy(self, like: Operand) -> Placed:
        """Room for tokens as operand a."""
        strips = like.layout.strips
        placed = self.emitter.place("a", like, strips, keep=True)
        return replace(placed, last_rows=like.last_rows(range(strips)))

    def _hidden(
        self, block: BlockTensors, numbers: dict[str, Rows], ending: "_Ending", sums: Rows
    ) -> Placed:
        """The perceptron's first layer as operand w; sums get the bias of the second."""
        e, s = self.emitter, self.shape
        like = Operand("hidden", self.emitter.layout(s.tokens, s.hidden))
        hidden = cache(partial(e.place, "w", like, like.layout.strips, keep=True))
        layer = Layer(block.operands["up"], numbers["up"])
        work = Pass(function=s.function)
        beats = e.vector.free * 3 // 8
        first, units = linear(
            e, layer, range(s.hidden), ending.x, work, hidden, beats=beats, ahead=_AHEAD
        )
        self._end(ending, first)
        run(merged(units, biased(e, sums, numbers["down"])))
        e.give_back(ending.x)
        return hidden()

    def _closing(
        self,
        block: BlockTensors,
        layer: Literal["output", "down"],
        x: Placed,
        sums: Rows,
        numbers: dict[str, Rows],
        last: bool = False,
    ) -> tuple[list[Unit], "_Ending"]:
        """A layer whose results are added to the sums, which are then normalised."""
        e = self.emitter
        norm = self._norm(numbers, "attention_" if layer == "output" else "output_")
        # What the last block puts out is wanted in memory alone.
        out = None if last else e.place("w", self._tokens, x.strips, keep=True)

        def finish(strips: range) -> None:
            rows = sums.some(strips)
            norm.apply(e, rows, d=rows, out=out.some(strips) if out else None)
            if not out:
                e.store_rows(self.outputs, strips, rows)

        beats = e.vector.free * 3 // 8
        first, rest = accumulated(e, block.operands[layer], x, sums, finish, beats=beats)
        return first, _Ending(rest, out or x, numbers)


@dataclass(frozen=True)
class _Ending:
    """The end of a layer, not emitted yet.

    Attributes
    ----------
    units : list of callable
        One for each two strips of tokens.
    x : Placed
        Where they write the strips as operand w.
    numbers : dict of str to Rows
        What is no longer needed then.
    lag : int
        So many units the next layer begins later, to have its first strips without waiting.
    """

    units: list[Unit]
    x: Placed
    numbers: dict[str, Rows]
    lag: int = 2


_NUMBERS = ("gain", "bias")
_EMBEDDING = ("gain",)
_ATTENTION = ("query", "key", "value", "output", "attention_gain")
_PERCEPTRON = ("up", "down", "output_gain")
"""Numbers of a block that its parts need; each gain has a bias beside it."""
_AHEAD = 1
"""Blocks of features of the perceptron's first layer that begin strip by strip."""
