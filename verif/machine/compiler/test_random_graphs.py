"""Random graphs: programs have the bits of the models, whatever is reduced, kept or overwritten."""

import random

import numpy as np
import pytest

from mxsafe.machine.compiled import Resident, compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    SMALL_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.graph import Graph, Value
from mxsafe.model.graph import GraphModel
from verif.machine.compiler.graphs import given_to
from verif.support.tests import Volume

COUNT = 150
STATES = 3
DEFAULT = MachineConfiguration()
SMALL_BF16 = resized(SMALL_MACHINE, arithmetic="bf16")
Block = int | tuple[int, int]
machines = pytest.mark.parametrize(
    ("machine", "block", "first"),
    [(DEFAULT, 64, 0), (DEFAULT, (8, 8), 1), (BF16_MACHINE, None, 0), (SMALL_BF16, None, 1)],
    ids=["64", "tiles", "bf16", "small bf16"],
)
"""In the default run both blocks take turns, and both machines of bfloat16: ``first`` is a seed."""


def seeds(first: int, volume: Volume) -> range:
    """Seeds of graphs: every other one, or all."""
    every = volume(2, 1, 1)
    return range(first % every, COUNT, every)


def operation(drawn: random.Random, g: Graph, values: list[Value], weights: list[Value]) -> Value:
    """Some operation of values that are there already."""
    a, b = drawn.choice(values[-4:]), drawn.choice(values)
    made = {
        "product": lambda: g.matmul(a, drawn.choice(weights)),
        "add": lambda: g.add(a, b),
        "multiply": lambda: g.multiply(a, b),
        "softmax": lambda: g.softmax(a),
        "layer_norm": lambda: g.norm("layer_norm", a),
        "rms_norm": lambda: g.norm("rms_norm", a),
        "function": lambda: g.function(drawn.choice(["gelu", "tanh", "relu"]), a),
        "scale": lambda: g.scale(a, 0.3),
        "roll": lambda: g.gather([a], np.roll(np.arange(a.size).reshape(a.shape), 16, 1)),
        "sum": lambda: g.add(g.broadcast(g.reshape(g.sum(a), (a.shape[0], 1)), a.shape), a),
    }
    return made[drawn.choice([*made, "product", "add"])]()


def graph_of(drawn: random.Random, states: int) -> Graph:
    """A graph with so many states, each overwritten by something that is computed."""
    g = Graph()
    rows, width = drawn.choice([8, 16, 24, 40]), drawn.choice([16, 32, 48, 72])
    values = [g.input(name, (rows, width)) for name in "xy"]
    weights = [g.input(f"w{at}", (width, width)) for at in range(2)]
    kept = [g.input(f"s{at}", (rows, width)) for at in range(states)]
    values += kept
    first = len(values)
    for _ in range(drawn.randint(3, 8)):
        values.append(operation(drawn, g, values, weights))
    for old in kept:
        g.update(old, drawn.choice(values[first:]))
    g.output("result", values[-1])
    return g


@machines
def test_programs_have_the_bits_of_the_models(
    machine: MachineConfiguration, block: Block | None, first: int, volume: Volume
) -> None:
    turned = 0
    for seed in seeds(first, volume):
        graph = graph_of(random.Random(seed), 0)
        given = given_to(graph, seed)
        compiled = compile_graph(graph, machine, block=block)
        found = compiled(*given.values())
        wanted = GraphModel(graph, machine, block or 64)(given)["result"]
        assert np.array_equal(found.view("u4"), wanted.view("u4")), seed
        program = compiled.parts[0].program.instructions()
        turned += sum(one.kind == "load" and one["transpose"] for one in program)
    assert (turned > 0) == (block != 64)


@machines
def test_states_are_read_before_they_are_overwritten(
    machine: MachineConfiguration, block: Block | None, first: int, volume: Volume
) -> None:
    compared, tried = 0, seeds(first, volume)
    for seed in tried:
        graph = graph_of(random.Random(seed), 1 + seed % STATES)
        state = {name: given_to(graph, seed)[name] for name in graph.kept}
        try:
            resident = Resident(compile_graph(graph, machine, block=block), state)
        except CompileError as error:
            assert "must be read before it is overwritten" in str(error)
            continue
        for step in range(2):
            given = {n: x for n, x in given_to(graph, seed + step).items() if n not in state}
            found = resident.run(given)
            wanted = GraphModel(graph, machine, block or 64)({**given, **state})
            state = {name: wanted[name] for name in state}
            found |= {name: resident.read(name) for name in resident.kept}
            for name, one in found.items():
                assert np.array_equal(one.view("u4"), wanted[name].view("u4")), (seed, name)
            compared += 1
    assert compared > len(tried)


def test_what_needs_old_and_new_is_refused() -> None:
    """New values of a state stand in the place of the old ones, so one of both is gone."""
    g = Graph()
    x, old, other = (g.input(name, (8, 32)) for name in ("x", "old", "other"))
    new = g.softmax(x)
    g.update(old, new)
    g.update(other, g.add(new, g.scale(old, 0.3)))
    g.output("result", g.function("relu", new))
    zeros = np.zeros((8, 32), np.float32)
    with pytest.raises(CompileError, match="wait for each other: a state must be read before it"):
        Resident(compile_graph(g), {"old": zeros, "other": zeros})
