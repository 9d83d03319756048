"""``python -m studies.benchmarks.interpreter``: speed of the machine's compiler and interpreter.

Two programs: a dense product, and six blocks of MiniLM over 128 tokens. Multiply-accumulates are
those of the model, without what fills strips up. Times are those of this process; set
``OPENBLAS_NUM_THREADS=1`` for one core.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import decoded
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.graph import Graph, Value

Floats = NDArray[np.float32]
T = TypeVar("T")
PRODUCT = 512, 2048, 512
"""Rows, k and columns of the dense product."""
TOKENS, FEATURES, HEADS, HIDDEN, BLOCKS = 128, 384, 12, 1536, 6
ROUNDS = 3


def product() -> tuple[Graph, int]:
    """A dense product of an input and a stored matrix, and its multiply-accumulates."""
    rows, inner, columns = PRODUCT
    graph = Graph()
    w = _numbers(np.random.default_rng(0), inner, columns)
    graph.output("y", graph.matmul(graph.input("x", (rows, inner)), w))
    return graph, rows * inner * columns


def encoder(
    tokens: int = TOKENS,
    features: int = FEATURES,
    heads: int = HEADS,
    hidden: int = HIDDEN,
    blocks: int = BLOCKS,
) -> tuple[Graph, int]:
    """Blocks of an encoder with norms behind their layers, and their multiply-accumulates."""
    rng, graph = np.random.default_rng(0), Graph()
    x = graph.input("x", (tokens, features))
    width = features // heads

    def layer(x: Value, outputs: int, name: str) -> Value:
        weight = _numbers(rng, outputs, x.shape[-1])
        return graph.add(graph.linear(x, weight, name), _numbers(rng, outputs))

    for block in range(blocks):
        split = [
            graph.transpose(
                graph.reshape(layer(x, features, f"{block}.{name}"), (tokens, heads, width)),
                (1, 0, 2),
            )
            for name in ("query", "key", "value")
        ]
        scores = graph.matmul(split[0], graph.transpose(split[1], (0, 2, 1)), f"{block}.scores")
        weights = graph.softmax(scores, width**-0.5, name=f"{block}.softmax")
        mixed = graph.transpose(graph.matmul(weights, split[2], f"{block}.mixed"), (1, 0, 2))
        mixed = graph.reshape(mixed, (tokens, features))
        x = graph.add(x, layer(mixed, features, f"{block}.attention"))
        x = graph.norm("layer_norm", x, name=f"{block}.attention_norm")
        up = graph.function("gelu", layer(x, hidden, f"{block}.up"), f"{block}.gelu")
        x = graph.add(x, layer(up, features, f"{block}.down"))
        x = graph.norm("layer_norm", x, name=f"{block}.norm")
    graph.output("y", x)
    weights_of_block = 4 * features**2 + 2 * features * hidden
    return graph, blocks * tokens * (weights_of_block + 2 * tokens * features)


def _numbers(rng: np.random.Generator, *shape: int) -> Floats:
    return (rng.standard_normal(shape) / 20).astype(np.float32)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the best round, and what it gives."""
    best, found = float("inf"), None
    for _ in range(ROUNDS):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    assert found is not None
    return best, found


def main() -> None:
    """Print seconds and rates of both programs."""
    head = "program         descriptors  compile, s  decode, s  run, s  M MAC/s  descriptors/s"
    print(f"NumPy {np.__version__}\n{head}")
    for name, (graph, macs) in (("product", product()), ("MiniLM, 6", encoder())):
        compiling, made = _timed(lambda graph=graph: compile_graph(graph))  # type: ignore[misc]
        _report(name, made, macs, compiling)


def _report(name: str, made: Compiled, macs: int, compiling: float) -> None:
    program = made.parts[0].program
    decoding, _ = _timed(lambda: decoded(program.data, program.configuration))
    given = [_numbers(np.random.default_rng(1), *port.shape) for port in made.inputs]
    running, _ = _timed(lambda: made(*given))
    print(
        f"{name:<16}{program.length:>11}{compiling:>12.2f}{decoding:>11.3f}{running:>8.2f}"
        f"{macs / running / 1e6:>9.0f}{program.length / decoding:>15.0f}"
    )


if __name__ == "__main__":
    main()
