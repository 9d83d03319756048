"""The page on sentences: what its prose claims is so."""

import numpy as np

from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration
from studies.pages import kept
from studies.pages.encode import MEGAHERTZ, costs, similarities
from verif.machine.compiler.transformer_graphs import bert

NUMBERS = kept("encode")


def test_the_machine_has_not_become_slower_or_faster() -> None:
    """The compiler's prediction of the first sentence is the one in its row."""
    first = NUMBERS["sentences"][0]
    graph = bert(first["tokens"], 384, 12, 1536, 6)
    predicted = predict(lowered(graph, MachineConfiguration()).emitter)
    assert predicted.cycles == first["predicted_cycles"], "run `make encode`"


def test_claims() -> None:
    """Close to float32, and one sentence of 32 tokens."""
    sentences = NUMBERS["sentences"]
    assert 32 in [one["tokens"] for one in sentences]
    assert all(one["cosine"] > 0.99 for one in sentences)
    assert all(0 < one["array_busy"] < one["cycles"] for one in sentences)
    machine, exact = (np.array(NUMBERS[name]) for name in ("machine", "float32"))
    assert machine.shape == exact.shape == (len(sentences), len(sentences))
    assert np.abs(machine - exact).max() < 0.05
    # Three sentences about guitars, two about shares.
    pairs = [(0, 1), (0, 2), (1, 2), (3, 4)]
    others = [(row, at) for row in range(7) for at in range(row) if (at, row) not in pairs]
    assert min(machine[pair] for pair in pairs) > max(machine[pair] for pair in others)


def test_tables_without_clocks() -> None:
    """The interpreter counts no cycles."""
    one = {**NUMBERS["sentences"][0], "cycles": 0, "array_busy": 0}
    head, row = costs({"sentences": [one]})
    assert len(head) == len(row)
    assert [row[head.index(name)] for name in ("cycles", "array busy", "cycles/s")] == ["-"] * 3
    assert len(similarities(NUMBERS)) == len(NUMBERS["sentences"]) + 1
    assert MEGAHERTZ == 500
