"""Encoders with normalisation after each sum: memory for their tensors, and their program."""

from dataclasses import dataclass, fields

from mxsafe.machine.compiler.blocks import Blocks, NormNumbers
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.sums import HeldSums
from mxsafe.machine.compiler.tensors import Vectors
from mxsafe.machine.compiler.transformer_shape import BlockTensors, TransformerShape
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout
from mxsafe.validation import PositiveInteger, checked


@checked
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

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.
    """

    tokens: PositiveInteger
    features: PositiveInteger
    heads: PositiveInteger
    hidden: PositiveInteger
    blocks: PositiveInteger
    epsilon: float = 1e-12
    function: str = "gelu"

    @property
    def whole(self) -> TransformerShape:
        """The same, with all that a transformer can have."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return TransformerShape(**own, norm_last=True)


@checked
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
            n: self.emitter.numbers(f"embedding_{n}", shape.features) for n in ("gain", "bias")
        }
        whole = shape.whole
        self.blocks = [
            BlockTensors.placed(self.emitter, whole, index, _NORMS, stored=False)
            for index in range(shape.blocks)
        ]
        self.outputs = self._rows("hidden states")
        numbers = [(self.embedding, "")]
        numbers += [(block.numbers, f"{norm}_") for block in self.blocks for norm in _NORMS]
        Blocks(
            emitter=self.emitter,
            shape=whole,
            blocks=self.blocks,
            norms=[NormNumbers(n[f"{prefix}gain"], n[f"{prefix}bias"]) for n, prefix in numbers],
            inputs=self.inputs,
            outputs=self.outputs,
            sums=HeldSums(self.emitter, self.inputs),
        ).emit()

    def _rows(self, name: str) -> Vectors:
        s, c = self.shape, self.emitter.configuration
        return self.emitter.vectors(
            name, Float32Layout(configuration=c, rows=s.features, columns=s.tokens)
        )


_NORMS = ("attention", "output")
"""Normalisations of a block."""
