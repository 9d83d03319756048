"""Graphs: shapes, moves of elements, what is refused."""

from collections.abc import Callable

import numpy as np
import pytest

from mxsafe.machine.graph import Graph, Value


def places(value: Value) -> np.ndarray:
    """Of which element of its one input each element of a gather is."""
    assert value.op == "gather"
    return value.numbers


def test_moves_are_those_of_numpy() -> None:
    g = Graph()
    x = g.input("x", (2, 3, 4))
    own = x.places
    assert np.array_equal(places(g.transpose(x, (2, 0, 1))), own.transpose(2, 0, 1))
    assert np.array_equal(places(g.reshape(x, (6, 4))), own.reshape(6, 4))
    wide = g.broadcast(x, (5, 2, 3, 4))
    assert np.array_equal(places(wide), np.broadcast_to(own, (5, 2, 3, 4)))
    joined = g.concatenate([x, g.input("y", (2, 1, 4))], 1)
    assert joined.shape == (2, 4, 4)
    assert places(joined)[0].tolist()[3] == [24, 25, 26, 27]


def test_a_move_of_a_move_is_one() -> None:
    g = Graph()
    x = g.input("x", (2, 3))
    turned = g.transpose(x, (1, 0))
    again = g.reshape(turned, (6,))
    assert again.inputs == (x,)
    assert places(again).tolist() == [0, 3, 1, 4, 2, 5]
    assert g.transpose(turned, (1, 0)) is x
    assert g.spread(turned, [[0, -1], [1, 5]]).data.tolist() == [[0, -1], [3, 5]]


def test_constants_are_moved_at_once() -> None:
    g = Graph()
    made = g.transpose(g.constant(np.arange(6, dtype="f4").reshape(2, 3)), (1, 0))
    assert made.op == "constant"
    assert made.numbers.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_shapes() -> None:
    g = Graph()
    x = g.input("x", (2, 3, 4))
    assert g.matmul(x, np.zeros((4, 7), "f4")).shape == (2, 3, 7)
    assert g.matmul(x, g.input("y", (5, 1, 4, 6))).shape == (5, 2, 3, 6)
    assert g.linear(x, np.zeros((7, 4), "f4")).shape == (2, 3, 7)
    assert g.add(x, np.zeros((3, 1), "f4")).shape == (2, 3, 4)
    assert g.sum(x).shape == (2, 3, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g, x: g.input("x", (3,)), "name must be of no other input, not x"),
        (lambda g, x: g.input("y", (3, 0)), "shape of input must have positive sizes, not (3, 0)"),
        (lambda g, x: g.constant(np.zeros(3)), "data must be float32, int64 or bool, not float64"),
        (
            lambda g, x: g.matmul(x, np.zeros((3, 2), "f4")),
            "w must have 4 rows like a columns, not shape (3, 2)",
        ),
        (
            lambda g, x: g.linear(x, np.zeros((3, 2), "f4")),
            "weight must have shape n, 4, not (3, 2)",
        ),
        (
            lambda g, x: g.product(g.reshape(x, (1, 3, 4)), g.reshape(x, (1, 4, 3))),
            "b must have the first and the last of the sizes (1, 3, 4), not (1, 4, 3)",
        ),
        (
            lambda g, x: g.add(x, np.zeros(3, "f4")),
            "y must broadcast with (3, 4), not (3,)",
        ),
        (
            lambda g, x: g.function("sine", x),
            "function must be one of relu, relu_derivative, gelu, silu, tanh, gelu_derivative, "
            "silu_derivative, tanh_derivative, exp, sigmoid, reciprocal, rsqrt, not 'sine'",
        ),
        (
            lambda g, x: g.norm("layer_norm", x, np.ones(3, "f4")),
            "gain must be float32 of shape (4,), not float32 of shape (3,)",
        ),
        (lambda g, x: g.norm("norm", x), "kind must be one of layer_norm, rms_norm, not 'norm'"),
        (lambda g, x: g.gather([x], [12]), "places must be from 0 to 11, not 12"),
        (lambda g, x: g.gather([x], [-1, 3]), "places must be from 0 to 11, not -1"),
        (lambda g, x: g.add(3, x), "x must be a Value, not 3"),
        (lambda g, x: g.scale(x, "a"), "factor must be a number, not 'a'"),
        (
            lambda g, x: g.softmax(x, -1.0),
            "scale must be a number from 2^-120 to 2^120, not -1.0",
        ),
        (
            lambda g, x: g.norm("rms_norm", x, epsilon=-1.0),
            "epsilon must be finite and not negative, not -1.0",
        ),
        (
            lambda g, x: g.reshape(x, (5, 2)),
            "shape must have the 12 elements of (3, 4), not (5, 2)",
        ),
        (
            lambda g, x: g.transpose(x, (0, 0)),
            "axes must be those of (3, 4), each once, not (0, 0)",
        ),
        (
            lambda g, x: g.broadcast(x, (3, 5)),
            "shape must be one that (3, 4) broadcasts to, not (3, 5)",
        ),
        (lambda g, x: g.output("y", x), "name must be of no other output, not y"),
    ],
)
def test_refusals(make: Callable[[Graph, Value], object], message: str) -> None:
    g = Graph()
    x = g.input("x", (3, 4))
    g.output("y", x)
    with pytest.raises((TypeError, ValueError)) as caught:
        make(g, x)
    assert str(caught.value) == message
