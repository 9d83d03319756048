"""All sizes compile: no count of tokens, no width and no width of heads is refused.

The default run tries a share of them: the smallest, those beside borders, and some of the others.
"""

from dataclasses import replace

import numpy as np
import pytest

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.units import cut
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.model.graph import GraphModel
from verif.machine.compiler.graphs import Shape
from verif.machine.compiler.transformer_graphs import drawn
from verif.support.checkers import assert_equal
from verif.support.tests import Tally, Volume

DEFAULT = MachineConfiguration()
TOKENS, WIDTHS, HEADS = range(1, 513), range(16, 1025), range(1, 129)
SWEEPS = {
    "tokens": (TOKENS, Shape(features=16, heads=1, width=16, hidden=16)),
    "features": (WIDTHS, Shape(tokens=4, heads=1, width=16, hidden=16)),
    "width": (HEADS, Shape(tokens=16, features=16, heads=2, hidden=16)),
}
"""By the field of a shape its sizes, and the shape."""
_TOGETHER = 64
"""Sizes of a test."""
_DRAWN = 200
_SMALL, _BORDER, _EVERY = 32, 64, 7
"""The default run tries sizes up to the first, those within one of multiples of the second, where
blocks and strips of rows end, and multiples of the third, of all remainders by these."""


def layer_of_all(s: Shape) -> Graph:
    """All that lies in its own way for each size: norms, biases, attention, GELU, residuals."""
    g = Graph()

    def linear(x: Value, name: str, features: int) -> Value:
        made = g.linear(x, drawn(name, features, x.shape[-1]), name)
        return g.add(made, drawn(f"{name} bias", features))

    def heads(name: str) -> Value:
        apart = g.reshape(linear(normed, name, s.heads * s.width), (s.tokens, s.heads, s.width))
        return g.transpose(apart, (1, 0, 2))

    x = g.input("x", (s.tokens, s.features))
    normed = g.norm("layer_norm", x, drawn("gain", s.features), drawn("shift", s.features))
    query, key, value = map(heads, ("query", "key", "value"))
    scores = g.matmul(query, g.transpose(key, (0, 2, 1)))
    shares = g.softmax(scores, s.width**-0.5, causal=s.causal)
    context = g.transpose(g.matmul(shares, value), (1, 0, 2))
    joined = g.reshape(context, (s.tokens, s.heads * s.width))
    x = g.add(linear(joined, "out", s.features), x)
    up = g.function(
        "gelu", linear(g.norm("rms_norm", x, drawn("gain", s.features)), "up", s.hidden)
    )
    g.output("y", g.add(linear(up, "down", s.features), x))
    return g


def is_tried(size: int) -> bool:
    """Whether the default run tries a size."""
    return size <= _SMALL or (size + 1) % _BORDER <= 2 or size % _EVERY == 0


def refusal(shape: Shape, *, runs: bool) -> tuple[str, int]:
    """Why a layer does not compile to one program, or nothing; and numbers compared, if it runs."""
    graph = layer_of_all(shape)
    try:
        compiled = compile_graph(graph, DEFAULT)
    except CompileError as error:
        return f"{shape}: {error}", 0
    if len(compiled.parts) != 1:
        return f"{shape}: the host copies between {len(compiled.parts)} programs", 0
    if not runs:
        return "", 0
    x = np.random.default_rng(shape.tokens).standard_normal((shape.tokens, shape.features))
    x = x.astype(np.float32)
    wanted = GraphModel(graph)({"x": x})["y"]
    return "", assert_equal(str(shape), compiled(x).view("u4"), wanted.view("u4"))


@pytest.mark.parametrize(
    ("field", "sizes"),
    [
        pytest.param(field, sizes[some.start : some.stop], id=f"{field}-{sizes[some.start]}")
        for field, (sizes, _) in SWEEPS.items()
        for some in cut(len(sizes), _TOGETHER)
    ],
)
def test_no_size_is_refused(field: str, sizes: range, volume: Volume, tally: Tally) -> None:
    """One by one; of some the interpreter's bits are compared with the models', in full of all."""
    usual, tried = SWEEPS[field][1], list(sizes)
    compared = np.random.default_rng(sizes[0]).permutation(sizes)[: volume(2, len(sizes))]
    if not volume(default=False, full=True, variants=True):
        tried = [size for size in sizes if size in compared or is_tried(size)]
    found = [refusal(replace(usual, **{field: size}), runs=size in compared) for size in tried]
    assert not [reason for reason, _ in found if reason]
    tally("interpreter", f"sizes of {field}", sum(numbers for _, numbers in found))


@pytest.mark.parametrize("seed", range(4))
def test_no_sizes_together_are_refused(seed: int, volume: Volume, tally: Tally) -> None:
    """All of them drawn, and each a power of two in half of the cases, or beside one."""
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(volume(2, _DRAWN)):
        drawn_sizes = {}
        for name, most in (("tokens", 512), ("features", 1024), ("width", 256), ("hidden", 2048)):
            near = (1 << int(rng.integers(most.bit_length()))) + int(rng.integers(-1, 2))
            size = int(rng.integers(1, most + 1)) if rng.integers(2) else near
            drawn_sizes[name] = min(max(size, 1), most)
        shape = Shape(heads=int(rng.integers(1, 5)), causal=bool(rng.integers(2)), **drawn_sizes)
        reason, numbers = refusal(shape, runs=True)
        assert not reason
        compared += numbers
    tally("interpreter", "sizes together", compared)
