"""Encode real sentences with all six blocks of all-MiniLM-L6-v2 as programs of the machine.

The machine's Verilog, compiled by Verilator, runs the programs: sums of embeddings of a sentence go
into memory, hidden states come out, and nothing else computes in between. Looking up embeddings and
the mean over tokens are done here. All of memory must be what the interpreter makes of the same
bytes, and the words moved those that the compiler predicts.

On the Verilog of the default machine, and without sentences of one's own, the study writes
``docs/encode.json`` and ``docs/encode.md``.

Usage (``make encode`` installs what it needs)::

    python -m studies.encode [--backend verilog|interpreter] [--arithmetic NAME] [SENTENCE ...]
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxsafe.analysis.report import aligned
from mxsafe.atomic import write_atomically
from mxsafe.cli.progress import CycleLine
from mxsafe.host.host import Ended, Host, Memory
from mxsafe.host.interpreter import Interpreted
from mxsafe.host.simulated import MemoryTiming, Simulated
from mxsafe.host.verilator import SimulatorError
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.timing import Prediction, predict
from mxsafe.machine.configuration import ARITHMETICS, MachineConfiguration
from mxsafe.machine.program import Program
from studies import pages
from studies.pages.encode import costs, similarities
from studies.prose import parser_of
from verif.data.minilm import make_slice
from verif.data.minilm.make_slice import FloatArray, Model
from verif.machine.compiler.transformer_graphs import bert

BLOCKS = 6
SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone performs music outside with a guitar.",
    "A musician with an old guitar plays songs in the street every evening, and people who walk "
    "home from work stop for a while to listen to him.",
    "The stock market fell sharply this morning.",
    "Share prices dropped a lot today.",
    "She is cooking pasta with tomato sauce.",
    "The cat sleeps on the warm windowsill.",
)
_BACKENDS = ("verilog", "interpreter")


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class EncodeError(RuntimeError):
    """The machine does not do what it should."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A sentence's embedding by the machine, and what its program does.

    Attributes
    ----------
    embedding : FloatArray
        Of length 1.
    descriptors : int
    prediction : Prediction
    counters : Mapping of str to int
        Of the machine.
    seconds : float
        That the backend took.
    """

    embedding: FloatArray
    descriptors: int
    prediction: Prediction
    counters: Mapping[str, int]
    seconds: float


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


def by_machine(ids: list[int], model: Model, host: Host, label: str = "") -> Encoded:
    """The embedding that the machine gives.

    Raises
    ------
    EncodeError
        If its memory is not the interpreter's, or its counters are not those predicted.
    """
    summed = inputs(ids, model)
    hidden = len(model.tensor("encoder.layer.0.intermediate.dense.bias"))
    graph = bert(
        summed.shape[0],
        summed.shape[1],
        model.heads,
        hidden,
        BLOCKS,
        epsilon=model.epsilon,
        weight=lambda name, *_: model.tensor(name),
    )
    (compiled,) = compile_graph(graph, host.configuration).parts
    prediction = predict(compiled.program)
    memory = compiled.memory([summed[None]])
    ended, seconds = _run(host, compiled.program, memory, label, prediction)
    _check_counters(ended, prediction)
    return Encoded(
        embedding=pooled(compiled.read(memory)[0][0]),
        descriptors=compiled.program.length,
        prediction=prediction,
        counters=ended.counters,
        seconds=seconds,
    )


def _run(
    host: Host, program: Program, memory: Memory, label: str, prediction: Prediction
) -> tuple[Ended, float]:
    """Run a program, and beside it the interpreter over the same bytes."""
    reference = Host(Interpreted(host.configuration))
    reference.memory = memory.copy()
    host.memory = memory
    interpreted = isinstance(host.backend, Interpreted)
    with ThreadPoolExecutor() as pool, CycleLine(label, prediction.cycles) as line:
        beside = None if interpreted else pool.submit(reference.run, program)
        start = time.monotonic()
        ended = host.run(program, progress=line)
        seconds = time.monotonic() - start
    if ended.code:
        raise EncodeError(f"descriptor {ended.descriptor}: {ended.reason}")
    if beside is not None:
        expected = beside.result()
        if expected.code or not np.array_equal(memory, reference.memory):
            wrong = np.flatnonzero(memory != reference.memory)
            raise EncodeError(f"{len(wrong)} bytes of memory are not those of the interpreter")
    return ended, seconds


def _check_counters(ended: Ended, prediction: Prediction) -> None:
    """Words, and of a machine with cycle counts beats of the array, must be those predicted."""
    names = ["words_read", "words_written"] + ["array_busy"] * bool(ended.counters["cycles"])
    for name in names:
        found, predicted = ended.counters[name], getattr(prediction, name)
        if found != predicted:
            raise EncodeError(f"{name} must be {predicted}, as the compiler says, not {found}")


def _described(sentence: str, ids: list[int], own: Encoded, cosine: float) -> dict[str, Any]:
    """A sentence in ``docs/encode.json``."""
    return {
        "sentence": sentence,
        "tokens": len(ids),
        "cosine": round(cosine, 6),
        "descriptors": own.descriptors,
        "predicted_cycles": own.prediction.cycles,
        **own.counters,
        "seconds": round(own.seconds, 1),
    }


def _measured(sentences: Sequence[str], model: Model, host: Host, latency: int) -> dict[str, Any]:
    """All that the page says, while a line tells of each sentence that is done."""
    described, machine, exact = [], [], []
    for number, sentence in enumerate(sentences, start=1):
        ids, _ = model.encode(sentence)
        own = by_machine(ids, model, host, f"sentence {number} of {len(sentences)}")
        machine.append(own.embedding)
        exact.append(by_float32(ids, model))
        described.append(_described(sentence, ids, own, float(machine[-1] @ exact[-1])))
        _note(f"{number}. {sentence} ({own.seconds:.0f} s)")
    return {
        "latency": latency,
        "memory_bytes": len(host.memory),
        "sentences": described,
        **{
            name: np.round(np.array(rows) @ np.array(rows).T, 4).tolist()
            for name, rows in (("machine", machine), ("float32", exact))
        },
    }


def main(argv: Sequence[str]) -> int:
    """Encode sentences, print what it costs and how similar they are, and write the page.

    Parameters
    ----------
    argv : sequence of str
        Arguments.

    Returns
    -------
    int
        Exit code: 0 success, 1 the work failed, 2 the command line is wrong.
    """
    parser = parser_of("encode", __doc__)
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE")
    parser.add_argument("--backend", choices=_BACKENDS, default=_BACKENDS[0])
    parser.add_argument("--arithmetic", choices=ARITHMETICS, default="exact")
    args = parser.parse_args(argv)
    configuration, timing = MachineConfiguration(arithmetic=args.arithmetic), MemoryTiming()
    try:
        model = make_slice.load_model()
        backend = (
            Simulated(configuration, timing=timing, note=_note)
            if args.backend == "verilog"
            else Interpreted(configuration)
        )
        sentences = tuple(args.sentences) or SENTENCES
        numbers = _measured(sentences, model, Host(backend), timing.latency)
    except (make_slice.SliceError, SimulatorError, CompileError, EncodeError) as error:
        print(f"encode: {error}", file=sys.stderr)
        return 1
    print(aligned(costs(numbers), labels=1))
    print("\nsimilarity of pairs: float32, machine")
    print(aligned(similarities(numbers), labels=1))
    if args.backend == "verilog":
        print("\nmemory after each program: the interpreter's, byte for byte")
        if not args.sentences and configuration == MachineConfiguration():
            write_atomically(pages.DOCS / "encode.json", pages.as_text(numbers))
            pages.write("encode")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
