"""A compiled training step: the interpreter has the model's bits, in any order of the queues."""

import numpy as np
import pytest

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph
from mxsafe.model.graph import GraphModel
from verif.machine.compiler.training_graphs import perceptron_step
from verif.machine.machine_schedules import run_in_any_order


@pytest.mark.parametrize("length", [5, 40, 700])
def test_sums_of_rows(length: int) -> None:
    """The reduction, of rows that it takes in one piece and of longer ones; a tensor used twice."""
    g = Graph()
    x = g.input("x", (24, length))
    total = g.sum(g.multiply(x, x), window=True)
    g.output("y", g.add(x, g.scale(total, -1.0)))
    given = np.random.default_rng(length).standard_normal(x.shape).astype("f4")
    wanted = GraphModel(g, block=(8, 8))({"x": given})["y"]
    assert np.array_equal(compile_graph(g, block=(8, 8))(given), wanted)
    exact = given - (given.astype("f8") ** 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(wanted, exact, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"sum window.*: reductions of the machine must have it"):
        compile_graph(g, MachineConfiguration(reductions=("softmax",)), block=(8, 8))


@pytest.mark.parametrize("arithmetic", ["exact", "fp12", "bf16"])
@pytest.mark.parametrize("seed", range(3))
def test_tokens_order_a_step(seed: int, arithmetic: str) -> None:
    """Small buffers, so that places are used again and again."""
    machine = MachineConfiguration(
        a_beats=256, w_beats=256, vector_banks=2, bank_beats=128, arithmetic=arithmetic
    )
    graph = perceptron_step(24, (24, 40, 16))
    block = (8, 8) if machine.scaled else None
    compiled, rng = compile_graph(graph, machine, block=block), np.random.default_rng(seed)
    named = {p.name: rng.standard_normal(p.shape).astype("f4") for p in compiled.inputs}
    (part,) = compiled.parts
    memory = part.memory([named[compiled.host.values[place].name] for place in part.feeds])
    run_in_any_order(part.program.instructions(), memory, machine, seed)
    wanted = GraphModel(graph, machine, (8, 8))(named)
    for port, found in zip(part.outputs, part.read(memory), strict=True):
        assert np.array_equal(found.view(np.uint32), wanted[port.name].view(np.uint32))
        assert not np.array_equal(found, named[port.name])


def test_deep_graphs_are_differentiated_at_once() -> None:
    """Values with two users in each of 200 layers, and a gradient of some elements alone."""
    g = Graph()
    x = g.input("x", (2, 4))
    y = x
    for _ in range(200):
        y = g.multiply(g.add(y, y), np.full(1, 0.5, np.float32))
    first = g.gather([x], x.places[:1])
    loss = g.multiply(g.gather([y], y.places[:1]), first)
    (found,) = gradients(g, {loss: g.value(np.ones((1, 4), np.float32))}, [x])
    g.output("gradient", found)
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    wanted = np.where(np.arange(2)[:, None] == 0, 2 * given, 0)
    assert np.array_equal(GraphModel(g)({"x": given})["gradient"], wanted)
