"""Graphs: the program has the bits of the model, and the model has the meaning of float64."""

from collections import Counter
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.planning import planned
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.gradients import gradients
from mxsafe.machine.graph import Graph, Value
from mxsafe.model.graph import GraphModel
from verif.machine.float64_graph import evaluate

BLOCKS = (64, (8, 8))


def numbers(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Inputs at random."""
    rng = np.random.default_rng(seed)
    inputs = (value for value in graph.values if value.op == "input")
    return {one.name: rng.standard_normal(one.shape).astype("f4") for one in inputs}


def require_same(graph: Graph, seed: int, block: int | tuple[int, int]) -> int:
    """The program must have the model's bits; return how many numbers were compared."""
    given = numbers(graph, seed)
    compiled = compile_graph(graph, block=block)
    found = compiled(*(given[port.name] for port in compiled.inputs))
    several = found if isinstance(found, tuple) else (found,)
    wanted = GraphModel(graph, block=block)(given)
    for port, one in zip(compiled.outputs, several, strict=True):
        other = wanted[port.name]
        assert np.array_equal(one.view(np.uint32), other.view(np.uint32)), port.name
    return sum(one.size for one in several)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("axis", [0, 1])
def test_tensors_side_by_side_in_a_beat(axis: int, block: int | tuple[int, int]) -> None:
    """Two tensors of 5 rows: lanes of one beat belong to either."""
    g = Graph()
    parts = [g.function(name, g.input(name, (5, 8))) for name in ("gelu", "tanh")]
    g.output("norm", g.norm("layer_norm", g.concatenate(parts, axis)))
    g.output("sum", g.add(*parts))
    assert require_same(g, 1, block) == 120


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_any_size(seed: int) -> None:
    """A perceptron with a norm: rows, features and classes of 1 to 40."""
    rng = np.random.default_rng(seed)
    rows, features, classes = (int(size) for size in rng.integers(1, 41, 3))
    g = Graph()
    x, target = g.input("x", (rows, features)), g.input("target", (rows, classes))
    first, bias = g.input("first", (features, features)), g.input("bias", (features,))
    second = g.input("second", (classes, features))
    hidden = g.function("gelu", g.add(g.linear(x, first), bias))
    y = g.linear(g.norm("layer_norm", hidden), second)
    seed_value = g.add(g.scale(g.softmax(y), 1 / rows), target)
    wanted = [x, first, bias, second]
    for value, gradient in zip(wanted, gradients(g, {y: seed_value}, wanted), strict=True):
        assert gradient.shape == value.shape
        g.output(f"gradient of {value.name}", gradient)
    assert require_same(g, seed, (8, 8)) > features


def most_often_made(graph: Graph) -> int:
    """In how many kernels of a program a product is."""
    kept = {name: name for name in graph.kept}
    plan = planned(graph, MachineConfiguration(), (8, 8), kept, tight=False)
    products = (one.product for one in plan.kernels)
    return max(Counter(id(one.value) for one in products if one is not None).values())


@pytest.mark.parametrize("empty", [0.0, 1.0], ids=["zeros", "numbers"])
def test_a_vector_that_is_added_behind_another_row(empty: float) -> None:
    """As patches behind a class token have it, whose row is multiplied by 0, or is there too."""
    rows, features, g = 25, 16, Graph()
    x, weight = g.input("x", (rows, 40)), g.input("weight", (features, 40))
    bias, zero = g.input("bias", (features,)), g.constant(np.zeros(1, "f4"))
    places = np.tile(np.arange(features), (rows, 1))
    places[0] = features
    mask = np.ones((rows, features), "f4")
    mask[0] = empty
    y = g.multiply(g.add(g.linear(x, weight), g.gather([bias, zero], places)), mask)
    norm = g.norm("layer_norm", g.linear(g.function("gelu", y), g.input("next", (24, features))))
    wanted = [weight, bias, y]
    found = gradients(g, {norm: g.input("seed", norm.shape)}, wanted)
    for value, gradient in zip(("weight", "bias", "y"), found, strict=True):
        g.output(value, gradient)
    exact = evaluate(g, {name: one.astype("f8") for name, one in numbers(g, 5).items()})
    np.testing.assert_allclose(exact["bias"], (exact["y"] * mask)[1:].sum(0), rtol=1e-9)
    assert require_same(g, 5, (8, 8)) > rows * features
    # Only where no zeros are beside it, rows are in tiles of their own, and all is made again.
    assert (most_often_made(g) > 1) == (empty != 0)


def test_a_moment_of_a_row() -> None:
    """As that of a class token: it stays in memory along beats, as the row is in its tensor."""
    g = Graph()
    y = g.function("gelu", g.linear(g.input("x", (25, 40)), g.input("weight", (16, 40))))
    z = g.norm("layer_norm", g.linear(y, g.input("next", (24, 16))))
    gradient, more = gradients(g, {z: g.input("seed", z.shape)}, [y, g.values[1]])
    g.output("gradient", more)
    moment = g.input("moment", (1, 16))
    row = g.gather([gradient], gradient.places[:1])
    g.update(moment, g.add(g.scale(moment, 0.75), row))
    assert most_often_made(g) == 1
    assert require_same(g, 6, (8, 8)) == 16 * 41


GAIN = np.linspace(0.5, 2, 6, dtype="f4")


def function(name: str) -> Callable[[Graph, Value, Value], Value]:
    """A function of a sum."""
    return lambda g, x, y: g.function(name, g.add(x, y))


FUNCTIONS: dict[str, Callable[[Graph, Value, Value], Value]] = {
    "product": lambda g, x, y: g.matmul(x, y),
    "add": lambda g, x, y: g.add(x, g.transpose(y, (1, 0))),
    "multiply": lambda g, x, y: g.multiply(x, g.sum(y)),
    "itself": lambda g, x, y: g.multiply(g.add(x, y), x),
    "scale": lambda g, x, y: g.scale(g.add(x, y), -0.75),
    **{name: function(name) for name in ("gelu", "silu", "tanh", "exp", "sigmoid")},
    "reciprocal": lambda g, x, y: g.function("reciprocal", g.function("exp", g.add(x, y))),
    "rsqrt": lambda g, x, y: g.function("rsqrt", g.function("exp", g.add(x, y))),
    "softmax": lambda g, x, y: g.softmax(g.matmul(x, y), 0.5),
    "causal": lambda g, x, y: g.softmax(g.matmul(x, y), causal=True),
    "layer_norm": lambda g, x, y: g.norm("layer_norm", g.add(x, y), GAIN, GAIN),
    "rms_norm": lambda g, x, y: g.norm("rms_norm", g.add(x, y), GAIN),
    "broadcast": lambda g, x, y: g.add(g.broadcast(x, (3, 6, 6)), y),
    "part": lambda g, x, y: g.add(
        g.gather([x], x.places[1:4, 2:5]), g.gather([y], y.places[:3, :3])
    ),
    "concatenated": lambda g, x, y: g.softmax(g.concatenate([x, y], 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_slopes(name: str) -> None:
    """In float64, along a direction: the gradient is the difference quotient."""
    rng = np.random.default_rng(3)
    g = Graph()
    x, y = g.input("x", (6, 6)), g.input("y", (6, 6))
    z = FUNCTIONS[name](g, x, y)
    weight = g.constant(rng.standard_normal(z.shape).astype("f4"))
    loss = g.multiply(z, weight)
    for value, gradient in zip((x, y), gradients(g, {z: weight}, (x, y)), strict=True):
        g.output(value.name, gradient)
    g.output("loss", loss)
    given = {name: array.astype(np.float64) for name, array in numbers(g, 4).items()}
    found, step = evaluate(g, given), 1e-5
    for side in ("x", "y"):
        move = rng.standard_normal((6, 6))
        ends = [
            evaluate(g, {**given, side: given[side] + sign * step * move})["loss"].sum()
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert (found[side] * move).sum() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_what_has_no_gradient_is_refused() -> None:
    g = Graph()
    x, y = g.input("x", (2, 3)), g.input("y", (2, 3))
    z = g.function("relu_derivative", x)
    with pytest.raises(ValueError, match="relu_derivative has no derivative"):
        gradients(g, {z: y}, [x])
    with pytest.raises(ValueError, match="wanted must be what the loss depends on, not y"):
        gradients(g, {g.function("gelu", x): y}, [y])
    with pytest.raises(ValueError, match=r"seeds must have the shape \(2, 3\), not \(2, 1\)"):
        gradients(g, {z: g.sum(y)}, [x])


def test_inputs_are_checked() -> None:
    g = Graph()
    g.output("y", g.function("relu", g.input("x", (2, 3))))
    with pytest.raises(ValueError, match=r"inputs: x must have shape \(2, 3\), not \(3, 2\)"):
        GraphModel(g)({"x": np.zeros((3, 2), "f4")})
    with pytest.raises(ValueError, match=r"inputs must have x, not only \['y'\]"):
        GraphModel(g)({"y": np.zeros((2, 3), "f4")})


def _branch(g: Graph, x: Value, weight: Value, other: Value) -> list[Value]:
    """Operations of every kind, of 5 rows."""
    hidden = g.function("gelu", g.linear(x, weight))
    y = g.norm("layer_norm", g.add(hidden, g.scale(x, 0.5)))
    scores = g.matmul(y, g.transpose(y, (1, 0)))
    seen = g.matmul(g.softmax(scores, 0.25, causal=True), g.multiply(y, other))
    return [seen, g.sum(seen)]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("arithmetic", ["exact", "fp12"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_alike_has_the_bits_that_it_has_alone(
    seed: int, arithmetic: Literal["exact", "fp12"], block: int | tuple[int, int]
) -> None:
    """Branches of one graph, which are evaluated at once, against graphs of one branch."""
    rng = np.random.default_rng(seed)
    machine = MachineConfiguration(arithmetic=arithmetic)
    branches, names = int(rng.integers(3, 7)), ("seen", "sums", "back", "mixed")
    shapes = {"x": (branches, 5, 24), "weight": (24, 24), "other": (5, 24)}
    given = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    given["x"][rng.integers(branches), 2, 3] = rng.choice([np.nan, np.inf, 3e38])
    g = Graph()
    x, weight, other = (g.input(name, shape) for name, shape in shapes.items())
    order = rng.permutation(branches)
    found = {at: _branch(g, g.gather([x], x.places[at]), weight, other) for at in order}
    total = found[0][0]
    for at in reversed(order):  # as a backward pass
        found[at].append(g.function("tanh", found[at][0]))
    for at in rng.permutation(branches):
        found[at].append(g.multiply(found[at][2], found[at][0]))
        for name, value in zip(names, found[at], strict=True):
            g.output(f"{name} {at}", value)
        total = g.add(total, found[at][0])  # one after the other
    g.output("total", total)
    together = GraphModel(g, machine, block)(given)
    for at in range(branches):
        alone = Graph()
        own = {name: given[name] for name in ("weight", "other")} | {"x": given["x"][at]}
        values = [alone.input(name, own[name].shape) for name in ("x", "weight", "other")]
        seen, sums = _branch(alone, *values)
        back = alone.function("tanh", seen)
        for name, value in zip(names, (seen, sums, back, alone.multiply(back, seen)), strict=True):
            alone.output(name, value)
        for name, array in GraphModel(alone, machine, block)(own).items():
            assert np.array_equal(together[f"{name} {at}"].view("u4"), array.view("u4"))
    assert np.isnan(together["total"]).any() == any(
        np.isnan(together[f"seen {at}"]).any() for at in range(branches)
    )
