"""Transformers whose normalisations stand before their layers: vision encoders and decoders."""

from mxsafe.machine.compiler.blocks import Blocks, NormNumbers
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.layers import require_features
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.sums import HeldSums, StoredSums, Sums
from mxsafe.machine.compiler.tensors import Numbers, Vectors
from mxsafe.machine.compiler.transformer_shape import NORM_PARTS, BlockTensors, TransformerShape
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import Float32Layout
from mxsafe.validation import checked


@checked
class Transformer:
    """A transformer as a program, with normalisations before its layers.

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
    blocks : list of BlockTensors
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
        stored = self._stored
        self.blocks = [
            BlockTensors.placed(e, shape, index, _NORMS, stored=stored)
            for index in range(shape.blocks)
        ]
        self.final = self._norm_numbers("final_")
        self.outputs = self._vectors("hidden states", shape.features)
        Blocks(
            emitter=e,
            shape=shape,
            blocks=self.blocks,
            norms=self._norms(),
            inputs=self.inputs,
            outputs=self.outputs,
            sums=self._sums(),
            tables=self.tables,
        ).emit()

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
        layout = Float32Layout(configuration=c, rows=rows, columns=self.shape.tokens)
        return self.emitter.vectors(name, layout)

    def _norm_numbers(self, prefix: str) -> dict[str, Numbers]:
        parts = NORM_PARTS[self.shape.norm]
        return {n: self.emitter.numbers(f"{prefix}{n}", self.shape.features) for n in parts}

    @property
    def _stored(self) -> bool:
        """Whether keys and values go to memory: a decoder's are for other programs too."""
        e, s = self.emitter, self.shape
        if s.causal:
            return True
        room = {side: e.allocators[side].size for side in ("a", "w")}

        def beats(rows: int, columns: int) -> int:
            layout = e.layout(rows, columns)
            return layout.strips * layout.beats

        tokens, panel = beats(s.tokens, s.features), beats(s.width, s.features)
        needed = {
            # Beside tokens and values there are keys of two heads, and weights.
            "a": tokens + beats(s.features, s.tokens) + 2 * beats(s.tokens, s.width) + panel,
            # Beside tokens and context queries and scores of two heads, and weights.
            "w": 2 * tokens + 2 * beats(s.tokens, s.width) + panel,
        }
        together = max(1, e.layout(1, 1).block_beats * e.configuration.lanes // s.width)
        needed["w"] += 2 * min(together, s.heads) * beats(s.tokens, s.tokens)
        return any(needed[side] > room[side] for side in needed)

    def _norms(self) -> list[NormNumbers]:
        """Normalisations in their order."""
        parts = [(block.numbers, f"{norm}_") for block in self.blocks for norm in _NORMS]
        zeros = self.emitter.numbers("zeros", self.shape.features)
        return [
            NormNumbers(numbers[f"{prefix}gain"], numbers.get(f"{prefix}bias", zeros))
            for numbers, prefix in [*parts, (self.final, "")]
        ]

    def _sums(self) -> Sums:
        """In the vector buffer if they leave a quarter of it."""
        e, layout = self.emitter, self.inputs.layout
        if 4 * layout.strips * layout.rows <= 3 * e.vector.size:
            return HeldSums(e, self.inputs)
        return StoredSums(e, self.inputs, self._vectors("sums", self.shape.features))


_NORMS = ("attention", "perceptron")
"""Normalisations of a block."""
