"""``python -m studies.machine_figures``: how well programs keep the machine busy.

Writes ``docs/machine_figures.json``, from which the page `accelerator` has a table: what the
compiler predicts of programs for the default machine, and what counters of the simulated Verilog
say. Compiling that Verilog takes minutes, and so does running it; with ``--predicted`` nothing is
simulated, and what was measured before is kept; names of programs simulate these alone.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.host.host import Host
from mxsafe.host.simulated import MemoryTiming, Simulated
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.emitter import Emitter
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.products import Products
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.model.machine import Machine
from mxsafe.rtl.machine.times import times_of
from studies.pages import DOCS, keep
from verif.machine.compiler.transformer_graphs import bert, llama, vit

FIGURES = DOCS / "machine_figures.json"
LATENCY = 100
"""Cycles from a request to the first word of memory."""
_SIZES = MachineConfiguration()
_TOKENS, _FEATURES = 128, 384
_PRODUCT = 512, 512, 2048
_COUNTED = ("cycles", "array_busy", "words_read", "words_written")
_Numbers = Mapping[str, int]
_ROWS = (
    ("array busy, a block of MiniLM after another", "80 %", "92 %"),
    ("array busy, one block alone, with embeddings and hidden states", "80 %", "92 %"),
    ("array busy, product of 512x2048 and 2048x512", "95 %", "98 %"),
    ("array busy, a block of DeiT-Tiny after another", "82 %", "88 %"),
    ("array busy, one block of DeiT-Tiny", "80 %", "85 %"),
    ("array busy, one block of a decoder", "80 %", "85 %"),
    ("array busy, a block of SmolLM2-135M after another", "85 %", "90 %"),
    ("words moved, one block alone, by those of each tensor once", "1.2", "1.05"),
    ("words moved, one block of DeiT-Tiny", "1.2", "1.05"),
    ("words moved, one block of a decoder", "", ""),
    ("cycles of one block", "", ""),
    ("cycles of two blocks", "", ""),
    ("cycles of the product", "", ""),
    ("cycles of a block of DeiT-Tiny", "", ""),
    ("cycles of a block of a decoder", "", ""),
)
"""Quantities in the table, their requirements and their aims."""


@dataclass(frozen=True)
class Case:
    """A program whose cost is known.

    Attributes
    ----------
    emitter : Emitter
    memory : callable
        Makes the memory before it runs.
    tensors : int
        Words of all tensors that memory has to give or take, each once.
    """

    emitter: Emitter
    memory: Callable[[], NDArray[np.uint8]]
    tensors: int


def _blocks(count: int) -> Graph:
    """So many blocks of MiniLM, with the normalisation of embeddings before them."""
    return bert(_TOKENS, _FEATURES, 12, 4 * _FEATURES, count)


def _of_graph(graph: Graph) -> Case:
    """A compiled graph, of random inputs."""
    made, (compiled,) = lowered(graph, _SIZES), compile_graph(graph, _SIZES).parts
    data = sum(len(part) for _, part in made.image) + 4 * sum(map(len, compiled.results))
    vectors = {v.address: v for table in made.tables for v in table.vectors}.values()
    words = data // _SIZES.word_bytes + sum(v.layout.strips * v.strip_words for v in vectors)

    def memory() -> NDArray[np.uint8]:
        rng = np.random.default_rng(1)
        shapes = (value.shape for value in graph.values if value.op == "input")
        return compiled.memory([rng.standard_normal(s).astype(np.float32) for s in shapes])

    return Case(made.emitter, memory, words)


def _product() -> Case:
    rows, columns, inner = _PRODUCT
    products = Products(_SIZES)
    a, w = products.matrix("a", rows, inner), products.matrix("w", columns, inner)
    result = products.product(a, w.T)

    def memory() -> NDArray[np.uint8]:
        rng = np.random.default_rng(1)
        image = np.zeros(products.emitter.memory.used, np.uint8)
        for matrix in (a, w):
            x = rng.standard_normal(matrix.shape).astype(np.float32)
            matrix.write(image, mx.quantize(x, block=64))
        return image

    operands = (a.operand, w.operand)
    words = sum(o.layout.strips * (o.code_words + o.scale_words) for o in operands)
    words += result.vectors.layout.strips * result.vectors.strip_words
    return Case(products.emitter, memory, words)


def cases() -> dict[str, Case]:
    """Programs by name."""
    return {
        "one block": _of_graph(_blocks(1)),
        "two blocks": _of_graph(_blocks(2)),
        "product": _product(),
        "vision": _of_graph(vit(197, 192, 3, 768, 1)),
        "two of vision": _of_graph(vit(197, 192, 3, 768, 2)),
        "decoder": _of_graph(llama(128, 512, 8, 4, 1536, 1)),
        "SmolLM2": _of_graph(llama(128, 576, 9, 3, 1536, 1)),
        "two of SmolLM2": _of_graph(llama(128, 576, 9, 3, 1536, 2)),
    }


def busy_after_another(machine: MachineConfiguration) -> float:
    """Share of the array's busy cycles in a block of MiniLM after another, as predicted."""
    times = times_of(machine, LATENCY)
    one, two = (predict(lowered(_blocks(n), machine).emitter, times) for n in (1, 2))
    return (two.array_busy - one.array_busy) / (two.cycles - one.cycles)


def predicted(case: Case) -> dict[str, int]:
    """Return the compiler's prediction of a program."""
    found = predict(case.emitter, times_of(_SIZES, LATENCY))
    return {name: getattr(found, name) for name in _COUNTED} | {"tensors": case.tensors}


def idle(first: Case, second: Case) -> dict[str, int]:
    """Cycles without a beat in what the second program does more, by what is waited for."""
    before, after = (predict(c.emitter, times_of(_SIZES, LATENCY)).idle() for c in (first, second))
    more = {name: clocks - before.get(name, 0) for name, clocks in after.items()}
    return {name: clocks for name, clocks in more.items() if clocks}


def measured(case: Case, host: Host) -> dict[str, int]:
    """Return the machine's counters of a program; memory after it must be the interpreter's."""
    program = Program.assembled(case.emitter.program(), _SIZES)
    image = case.memory()
    before = np.zeros(-(-len(image) // _SIZES.word_bytes) * _SIZES.word_bytes, np.uint8)
    before[: len(image)] = image
    expected = before.copy()
    Machine(_SIZES).run(program.data, expected)
    host.memory = before
    ended = host.run(program)
    if ended.error != "none" or not np.array_equal(host.memory, expected):
        raise RuntimeError(f"memory is not the interpreter's; the machine says {ended.error}")
    return {name: ended.counters[name] for name in _COUNTED}


def rows(numbers: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The table, head first: what is to be reached, what it aims at, predicted, measured."""
    tensors = {name: found["tensors"] for name, found in numbers["predicted"].items()}
    columns = [_column(numbers[kind], tensors) for kind in ("predicted", "measured")]
    body = [(*row, *found) for row, found in zip(_ROWS, zip(*columns, strict=True), strict=True)]
    return [("what", "reach", "aim", "predicted", "measured"), *body]


def _column(found: Mapping[str, _Numbers], tensors: Mapping[str, int]) -> list[str]:
    """Return a column of the table; empty for programs that have not been simulated."""

    def of(name: str, show: Callable[[_Numbers], str]) -> str:
        return show(found[name]) if name in found else ""

    def moved(name: str) -> str:
        return of(name, lambda n: f"{(n['words_read'] + n['words_written']) / tensors[name]:.3f}")

    def further(one: str, two: str) -> str:
        if one not in found or two not in found:
            return ""
        return _share({name: found[two][name] - found[one][name] for name in _COUNTED})

    return [
        further("one block", "two blocks"),
        of("one block", _share),
        of("product", _share),
        further("vision", "two of vision"),
        *(of(name, _share) for name in ("vision", "decoder")),
        further("SmolLM2", "two of SmolLM2"),
        *(moved(name) for name in ("one block", "vision", "decoder")),
        *(of(name, _cycles) for name in ("one block", "two blocks", "product")),
        *(of(name, _cycles) for name in ("vision", "decoder")),
    ]


def _share(numbers: _Numbers) -> str:
    return f"{100 * numbers['array_busy'] / numbers['cycles']:.1f} %"


def _cycles(numbers: _Numbers) -> str:
    return f"{numbers['cycles']:,}"


def main(argv: Sequence[str]) -> int:
    """Write the numbers."""
    parser = argparse.ArgumentParser(description="Write docs/machine_figures.json.")
    parser.add_argument("--predicted", action="store_true", help="simulate nothing")
    parser.add_argument("cases", nargs="*", help="simulate these programs alone")
    arguments = parser.parse_args(argv)
    programs = cases()
    earlier = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    numbers: dict[str, Any] = {
        "latency": LATENCY,
        "predicted": {name: predicted(case) for name, case in programs.items()},
        "idle": idle(programs["one block"], programs["two blocks"]),
        "measured": earlier.get("measured", {}),
    }
    if not arguments.predicted:
        host = Host(Simulated(_SIZES, timing=MemoryTiming(latency=LATENCY), note=print))
        for name in arguments.cases or programs:
            numbers["measured"][name] = measured(programs[name], host)
            print(name, numbers["measured"][name], flush=True)
    keep(FIGURES, numbers)
    for row in rows(numbers):
        print("  ".join(row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
