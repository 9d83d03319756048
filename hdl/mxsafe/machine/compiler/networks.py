"""Encoders with normalisation after each sum: memory for their tensors, and their program."""

from dataclasses import dataclass

from mxsafe.machine.compiler.blocks import Blocks, NormNumbers
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.sums import HeldSums
from mxsafe.machine.compiler.tensors import Vectors
from mxsafe.machine.compiler.transformer_shape import BlockTensors, TransformerShape
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import NumberLayout

__all__ = ["Encoder", "EncoderShape"]


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
        whole = TransformerShape(
            tokens=shape.tokens,
            features=shape.features,
            heads=shape.heads,
            hidden=shape.hidden,
            blocks=shape.blocks,
            epsilon=shape.epsilon,
            function=shape.function,
            norm_last=True,
        )
        norms = [NormNumbers(**self.embedding)]
        for block in self.blocks:
            norms += (
                NormNumbers(*(block.numbers[f"{norm}_{part}"] for part in _NUMBERS))
                for norm in _NORMS
            )
        Blocks(
            emitter=self.emitter,
            shape=whole,
            blocks=self.blocks,
            norms=norms,
            inputs=self.inputs,
            outputs=self.outputs,
            sums=HeldSums(self.emitter, self.inputs),
        ).emit()

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
        for norm in _NORMS:
            for part in _NUMBERS:
                name = f"{norm}_{part}"
                numbers[name] = self.emitter.numbers(f"{name} {index}", s.features)
        return BlockTensors(operands, numbers)


_NUMBERS = ("gain", "bias")
_NORMS = ("attention", "output")
