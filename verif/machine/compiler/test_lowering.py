"""Graphs as programs: bits of the models, any sizes, any order of queues, reasons of refusals."""

from dataclasses import replace

import numpy as np
import pytest

import mxsafe as mx
from mxsafe import model
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import (
    BF16_MACHINE,
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
    resized,
)
from mxsafe.machine.graph import Graph
from mxsafe.model.graph import GraphModel
from mxsafe.model.machine import Machine
from verif.machine.compiler.graphs import Block, Shape, layer, weights
from verif.machine.machine_schedules import run_in_any_order

DEFAULT = MachineConfiguration()
SMALL_BF16 = resized(SMALL_MACHINE, arithmetic="bf16")


def drawn(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("machine", "shape", "block"),
    [
        (DEFAULT, Shape(), 64),
        (DEFAULT, Shape(tokens=150, features=200, heads=3, width=64, hidden=300), 64),
        (DEFAULT, Shape(tokens=1, heads=1), 64),
        (DEFAULT, Shape(tokens=37, causal=True), 64),
        (DEFAULT, Shape(tokens=24, width=16), (8, 8)),
        (DEFAULT, Shape(tokens=24, width=16, features=104, hidden=200), (8, 8)),
        (replace(DEFAULT, arithmetic="fp12"), Shape(), 64),
        (replace(DEFAULT, format_a="mxfp4_e2m1", format_w="mxfp4_e2m1"), Shape(), 64),
        (replace(DEFAULT, grade="fine"), Shape(causal=True), 64),
        (replace(DEFAULT, affine=False), Shape(tokens=50, features=100), 64),
        (WINDOW_MACHINE, Shape(), 64),
        (SMALL_MACHINE, Shape(tokens=90, features=100, hidden=120), 64),
        (FPGA_MACHINE, Shape(tokens=9), 64),
        (BF16_MACHINE, Shape(), None),
        (BF16_MACHINE, Shape(tokens=150, features=201, heads=3, width=67, hidden=302), None),
        (BF16_MACHINE, Shape(tokens=37, causal=True), None),
        (SMALL_BF16, Shape(tokens=90, features=100, hidden=120), None),
        (resized(SMALL_BF16, rows=4), Shape(tokens=9, features=30), None),
        (replace(BF16_MACHINE, a_beats=64, w_beats=64, out_beats=32), Shape(hidden=3000), None),
    ],
    ids=str,
)
def test_a_layer_has_the_bits_of_the_models(
    machine: MachineConfiguration, shape: Shape, block: Block | None
) -> None:
    w, x = weights(shape), drawn(shape.tokens, shape.features)
    graph = layer(shape, w)
    compiled = compile_graph(graph, machine, block=block)
    wanted = GraphModel(graph, machine, block or 64)({"x": x})["y"]
    assert np.array_equal(compiled(x).view(np.uint32), wanted.view(np.uint32))
    (part,) = compiled.parts
    ended = Machine(machine).run(part.program.data, part.memory([x]))
    predicted = predict(part.program)
    assert (ended.words_read, ended.words_written) == (
        predicted.words_read,
        predicted.words_written,
    )


def test_sizes_of_the_machine_change_no_bit() -> None:
    shape = Shape(tokens=70, features=100, heads=2, width=40, hidden=260)
    w, x = weights(shape), drawn(70, 100)
    found = [
        compile_graph(layer(shape, w), machine)(x)
        for machine in (
            DEFAULT,
            SMALL_MACHINE,
            replace(DEFAULT, a_beats=64, w_beats=128, out_beats=64, bank_beats=256),
            replace(SMALL_MACHINE, rows=4, conversions=("blocks",)),
        )
    ]
    assert all(np.array_equal(one, found[0]) for one in found)


@pytest.mark.parametrize("machine", [DEFAULT, SMALL_MACHINE], ids=["default", "small"])
def test_tokens_order_the_queues(machine: MachineConfiguration) -> None:
    """Memory is the same in whatever order queues run, and whatever buffers hold at first."""
    shape = Shape(causal=True)
    graph, x = layer(shape, weights(shape)), drawn(shape.tokens, shape.features)
    (compiled,) = compile_graph(graph, machine).parts
    memory = compiled.memory([x])
    once = memory.copy()
    assert Machine(machine).run(compiled.program.data, once).error == "none"
    for seed in range(3):
        other = memory.copy()
        program = lowered(layer(shape, weights(shape)), machine).emitter.program()
        run_in_any_order(program, other, machine, seed)
        assert np.array_equal(other, once)


def test_any_depth_compiles() -> None:
    """A network of far more operations than calls may be nested."""
    graph, w = Graph(), drawn(16, 16)
    x = graph.input("x", (4, 16))
    for _ in range(400):
        x = graph.add(graph.linear(x, w), x)
    graph.output("y", x)
    assert len(lowered(graph, DEFAULT).kernels) >= 400


@pytest.mark.parametrize(("machine", "features"), [(DEFAULT, 9000), (SMALL_MACHINE, 700)])
def test_numbers_of_many_features(machine: MachineConfiguration, features: int) -> None:
    """A bias that would fill the vector buffer comes in parts."""
    graph = Graph()
    w, bias, x = drawn(features, 16), drawn(features, seed=2), drawn(20, 16, seed=3)
    made = graph.add(graph.linear(graph.input("x", x.shape), w), bias)
    graph.output("y", made)
    product = mx.matmul(mx.quantize(x), mx.quantize(w.T, axis=0), arithmetic="exact")
    assert np.array_equal(compile_graph(graph, machine)(x), product + bias)


def test_a_product_by_hand() -> None:
    graph = Graph()
    w = drawn(300, 70)
    graph.output("y", graph.matmul(graph.input("x", (2, 25, 300)), w))
    x = drawn(2, 25, 300, seed=2)
    found = compile_graph(graph)(x)
    assert found.shape == (2, 25, 70)
    assert np.linalg.norm(found - x @ w) < 0.02 * np.linalg.norm(x @ w)


@pytest.mark.parametrize("block", [64, (8, 8)], ids=str)
def test_a_reduced_axis_is_exchanged(block: Block) -> None:
    """A norm's result can be summed over its rows by a product, and in binary32."""
    x, w = drawn(2, 24, 40), drawn(8, 24, seed=2)
    graph = Graph()
    normed = graph.norm("layer_norm", graph.input("x", x.shape))
    turned = graph.transpose(normed, (0, 2, 1))
    graph.output("y", graph.linear(turned, w))
    graph.output("sum", graph.sum(turned))
    y, total = compile_graph(graph, block=block)(x)
    rows = model.layer_norm(x, np.ones(40, "f4"), np.zeros(40, "f4")).swapaxes(1, 2)
    assert np.array_equal(total, model.half_sums(rows))
    axes = [{}, {}] if block != 64 else [{"axis": -1}, {"axis": -2}]
    flat = np.ascontiguousarray(rows.reshape(-1, 24))
    a, b = (mx.quantize(m, block=block, **o) for m, o in zip((flat, w.T.copy()), axes, strict=True))
    wanted = model.matmul(a, b, arithmetic="exact")
    assert np.array_equal(y, wanted.reshape(y.shape))


@pytest.mark.parametrize("tokens", [24, 48])
def test_a_row_that_stands_apart_is_one_load(tokens: int) -> None:
    """Values that were stored as lanes and are used as rows: not a descriptor for each of them."""
    graph = Graph()
    normed = graph.norm("layer_norm", graph.input("x", (tokens, 40)))
    graph.output("y", graph.linear(graph.transpose(normed, (1, 0)), drawn(8, tokens)))
    steps = lowered(graph, DEFAULT).emitter.steps
    loaded = [step for step in steps if step.kind == "load" and step.fields["count_1"] == tokens]
    assert len(loaded) == 40


def test_an_output_of_parts_of_two_values() -> None:
    """Products with attention weights, which only stand in their own lanes; some are negated."""
    x, w = drawn(3, 5, 5), drawn(3, 5, 16, seed=2)
    graph = Graph()
    shares = graph.softmax(graph.input("x", x.shape), causal=True)
    made = graph.matmul(shares, graph.constant(w))
    flat = graph.reshape(graph.transpose(made, (1, 0, 2)), (5, 48))
    left = graph.gather([flat], flat.places[:, :42])
    right = graph.scale(graph.gather([flat], flat.places[:, 42:]), -1.0)
    graph.output("y", graph.concatenate([right, left], axis=-1))
    products = []
    for a, b in zip(x, w, strict=True):
        own = mx.quantize(model.softmax(a, mask=np.tri(5, dtype=np.bool_)))
        products.append(mx.matmul(own, mx.quantize(b, axis=0), arithmetic="exact"))
    whole = np.hstack(products)
    wanted = np.hstack([-whole[:, 42:], whole[:, :42]])
    assert np.array_equal(compile_graph(graph)(x), wanted)


LONG = replace(SMALL_MACHINE, bank_beats=2048, reduction_beats=64)


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_norms_of_rows_longer_than_the_machine_takes(kind: str) -> None:
    """The bits are those of the whole row, with gain and bias."""
    x, gain, bias = drawn(19, 2000), drawn(2000, seed=2), drawn(2000, seed=3)
    graph = Graph()
    graph.output("y", graph.norm(kind, graph.input("x", x.shape), gain, bias))
    found = compile_graph(graph, LONG)(x)
    centre = kind == "layer_norm"
    expected = model.normalise(x, gain, bias, centre=centre, grade=LONG.grade).result
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_of_rows_longer_than_the_machine_takes(causal: bool) -> None:
    """Of sums of two tensors, rows of more than one strip."""
    x, y = drawn(21, 1500), drawn(21, 1500, seed=2)
    graph = Graph()
    total = graph.add(graph.input("x", x.shape), y)
    graph.output("p", graph.softmax(total, 0.5, causal=causal))
    found = compile_graph(graph, LONG)(x)
    mask = np.arange(1500) <= np.arange(21)[:, None] if causal else None
    expected = model.softmax(model.add(x, y), mask=mask, scale=0.5, grade=LONG.grade)
    assert np.array_equal(found, expected)


def test_refusals_say_everything_at_once() -> None:
    graph = Graph()
    x = graph.input("x", (4, 20000))
    graph.output("y", graph.softmax(graph.function("exp", x, "power"), name="shares"))
    graph.output("total", graph.sum(graph.reshape(x, (80000,)), "total", window=True))
    with pytest.raises(CompileError) as caught:
        compile_graph(graph, replace(SMALL_MACHINE, reductions=("layer_norm", "sum")))
    assert str(caught.value).splitlines() == [
        "power (function exp, (4, 20000)): functions of the machine must have it, not "
        "('relu', 'gelu', 'silu', 'tanh')",
        "shares (softmax, (4, 20000)): reductions of the machine must have it, not "
        "('layer_norm', 'sum')",
        "total (sum window, (1,)): a row that is reduced must have at most 65536 values, the most "
        "that sweeps over a row take, not 80000",
    ]


@pytest.mark.parametrize(
    ("machine", "block", "message"),
    [
        (replace(DEFAULT, format_a="mxint8"), 64, "machine must have one format"),
        (DEFAULT, 32, "block must be 64 or (8, 8), not 32"),
        (BF16_MACHINE, 64, "block must be None with arithmetic bf16, whose operands have no scal"),
        (replace(BF16_MACHINE, conversions=()), None, "block must be of the machine's"),
        (replace(DEFAULT, conversions=("tiles",)), 64, "block must be of the machine's"),
        (replace(DEFAULT, reductions=("softmax",)), 64, "reductions of the machine must have it"),
    ],
)
def test_refusals_of_machines(
    machine: MachineConfiguration, block: Block | None, message: str
) -> None:
    graph = Graph()
    graph.output("y", graph.norm("layer_norm", graph.input("x", (4, 20))))
    with pytest.raises(ValueError, match="must") as caught:
        compile_graph(graph, machine, block=block)
    assert message in str(caught.value)


@pytest.mark.parametrize(("first", "second"), [(20, 5), (16, 4), (3, 37)])
def test_rows_of_two_tensors_share_the_lanes_of_a_beat(first: int, second: int) -> None:
    """Both are reduced, so neither is made with its rows further on: each row has its own strip."""
    a, b, w = drawn(first, 32), drawn(second, 32, seed=2), drawn(24, 32, seed=3)
    graph = Graph()
    rows = [
        graph.softmax(graph.input("a", a.shape)),
        graph.norm("rms_norm", graph.input("b", b.shape)),
    ]
    graph.output("y", graph.linear(graph.concatenate(rows), w))
    one, zero = np.ones(32, np.float32), np.zeros(32, np.float32)
    both = [model.softmax(a), model.normalise(b, one, zero, centre=False).result]
    made = mx.quantize(np.concatenate(both))
    expected = mx.matmul(made, mx.quantize(w).T, arithmetic="exact")
    assert np.array_equal(compile_graph(graph)(a, b), expected)


def test_the_host_copies_what_the_machine_does_not_lay_out() -> None:
    """Both operands of a product are reduced along another axis than it sums."""
    a, b = drawn(20, 32), drawn(20, 24, seed=2)
    graph = Graph()
    keys = graph.softmax(graph.input("a", a.shape), name="keys")
    values = graph.softmax(graph.input("b", b.shape), name="values")
    graph.output("y", graph.matmul(graph.transpose(keys, (1, 0)), values))
    compiled = compile_graph(graph)
    sides = [mx.quantize(np.ascontiguousarray(model.softmax(one).T)) for one in (a, b)]
    expected = mx.matmul(sides[0], sides[1].T, arithmetic="exact")
    assert np.array_equal(compiled(a, b), expected)
    assert len(compiled.parts) == 2
    named = "by the host, in binary32: keys (copy), values (copy)"
    assert compiled.report().splitlines()[-2] == named


@pytest.mark.parametrize("own", [{"out_beats": 32}, {"out_beats": 32, "bank_beats": 256}], ids=str)
def test_nothing_comes_between_the_sweeps_over_a_row(own: dict[str, int]) -> None:
    """Long rows that become operands: their results wait for room, and other vectors do not."""
    shape = Shape(tokens=40, features=64, heads=2, width=32, hidden=96, causal=True)
    w, x = weights(shape), drawn(40, 64)
    machine = replace(DEFAULT, reduction_beats=16, **own)
    found = compile_graph(layer(shape, w), machine)(x)
    assert np.array_equal(found, compile_graph(layer(shape, w), DEFAULT)(x))
