"""Rows that do not fit into the vector buffer, and sums of products that do not fit into a window.

The bits are those of the graph's model, which knows no buffers.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.host.host import Host
from mxsafe.host.simulated import Simulated
from mxsafe.machine.compiled import Compiled, compile_graph
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import (
    FPGA_MACHINE,
    SMALL_MACHINE,
    WINDOW_MACHINE,
    MachineConfiguration,
)
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.model.graph import GraphModel
from mxsafe.model.machine import Machine
from verif.machine.machine_schedules import run_in_any_order
from verif.support.simulators import SCRATCH
from verif.support.tests import available

DEFAULT = MachineConfiguration()
TINY = replace(SMALL_MACHINE, bank_beats=16, reduction_beats=8)
"""Rows of 16 beats are whole, and pieces have 8 of the 32 that the vector buffer holds."""
KINDS = ("softmax", "causal", "layer_norm", "rms_norm", "window", "halves")
Block = int | tuple[int, int]


def drawn(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _size(one: object) -> str | None:
    if isinstance(one, MachineConfiguration):
        return f"{one.arithmetic} {one.vector_beats} {one.w_beats}"
    return str(one)


def reductions(rows: int, length: int, kinds: tuple[str, ...] = KINDS) -> Graph:
    """Of what the host has, and of what is computed."""
    g = Graph()
    x = g.input("x", (rows, length))
    own = g.add(x, drawn(rows, length, seed=2))
    numbers = drawn(2, length, seed=3)
    for kind in kinds:
        if kind in ("softmax", "causal"):
            made = g.softmax(own, 0.5, causal=kind == "causal")
        elif kind.endswith("norm"):
            made = g.norm(kind, x if kind == "rms_norm" else own, *numbers)
        else:
            made = g.sum(own, window=kind == "window")
        g.output(kind, made)
    return g


def require_equal(
    graph: Graph, machine: MachineConfiguration, *given: NDArray[np.float32], block: Block = 64
) -> Compiled:
    """The program's outputs must be the model's in every bit."""
    compiled = compile_graph(graph, machine, block=block)
    names = [port.name for port in compiled.inputs]
    wanted = GraphModel(graph, machine, block)(dict(zip(names, given, strict=True)))
    found = compiled(*given)
    several = found if isinstance(found, tuple) else (found,)
    for port, one in zip(compiled.outputs, several, strict=True):
        assert np.array_equal(one.view("u4"), wanted[port.name].view("u4")), port.name
    return compiled


@pytest.mark.parametrize("length", range(13, 68))
def test_all_lengths_about_those_of_pieces(length: int) -> None:
    """From less than a row that is whole to twice the buffer; NaN and Inf in some rows."""
    x = drawn(9, length, seed=length)
    x[2, -1], x[3, 0] = np.nan, np.inf
    require_equal(reductions(9, length, KINDS[length % 3 :: 3]), TINY, x)


@pytest.mark.full
@pytest.mark.parametrize("beats", [16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_all_lengths_of_all_kinds(kind: str, beats: int) -> None:
    machine = replace(TINY, bank_beats=beats)
    for length in range(beats - 3, 4 * beats + 4):
        for rows in (3, 19):
            require_equal(reductions(rows, length, (kind,)), machine, drawn(rows, length))


@pytest.mark.parametrize(
    ("length", "kinds"),
    [
        (2048, KINDS),
        (2049, KINDS),
        (5000, KINDS),
        (65536, ("softmax",)),
        pytest.param(65536, KINDS, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_long_rows_on_the_default_machine(length: int, kinds: tuple[str, ...]) -> None:
    require_equal(reductions(2, length, kinds), DEFAULT, drawn(2, length))


def test_many_rows_that_are_summed() -> None:
    """As many strips as the vector buffer has room for, beside those of a norm."""
    g = Graph()
    x = g.input("x", (40, 1500))
    own = g.function("relu", x)
    for name, made in (("halves", g.sum(own)), ("window", g.sum(x, window=True))):
        g.output(name, made)
    require_equal(g, DEFAULT, drawn(40, 1500))


@pytest.mark.parametrize(
    "machine", [replace(TINY, affine=False), replace(TINY, affine=False, bank_beats=64)], ids=_size
)
def test_norms_of_machines_without_gain_and_bias(machine: MachineConfiguration) -> None:
    """They are arithmetic of their own then, which must not come between pieces."""
    kinds = ("layer_norm", "rms_norm")
    require_equal(reductions(11, 90, kinds), machine, drawn(11, 90))


def attention(length: int) -> Graph:
    """Of many keys, a residual before a norm, and a softmax over all words of a language."""
    g = Graph()
    x, keys = g.input("x", (19, 24)), drawn(length, 24, seed=2)
    shares = g.softmax(g.linear(x, keys, "scores"), 0.2, name="shares")
    context = g.add(g.matmul(shares, keys), x)
    wide = g.linear(g.norm("rms_norm", context), keys, "wide")
    normed = g.norm("layer_norm", g.add(wide, g.function("relu", wide)), *drawn(2, length))
    g.output("y", g.linear(normed, np.ascontiguousarray(keys.T), "y"))
    less = g.scale(g.sum(g.multiply(normed, shares), window=True), -1.0)
    g.output("slope", g.multiply(shares, g.add(normed, less)))
    return g


SHORT = replace(SMALL_MACHINE, bank_beats=128, reduction_beats=16)


@pytest.mark.parametrize(
    ("length", "block"), [(300, 64), pytest.param(296, (8, 8), marks=pytest.mark.full)], ids=str
)
def test_long_rows_between_products(length: int, block: Block) -> None:
    """Rows that are reduced are results of a product, and become an operand."""
    require_equal(attention(length), SHORT, drawn(19, 24), block=block)


def test_tokens_order_the_queues() -> None:
    graph = reductions(9, 45, KINDS[:-1])
    (part,) = compile_graph(graph, TINY).parts
    memory = part.memory([drawn(9, 45)])
    once = memory.copy()
    assert Machine(TINY).run(part.program.data, once).error == "none"
    program = lowered(graph, TINY).emitter.program()
    for seed in range(2):
        other = memory.copy()
        run_in_any_order(program, other, TINY, seed)
        assert np.array_equal(other, once)


def test_the_simulated_verilog_leaves_the_same_bytes() -> None:
    """Pieces of all kinds of reductions, and rows of which whole pieces do not count."""
    available("verilator")
    x, graph = drawn(9, 300), reductions(9, 300, ("causal", "layer_norm", "window"))
    compiled = compile_graph(graph, SMALL_MACHINE)
    host = Host(Simulated(SMALL_MACHINE, folder=SCRATCH, optimisation="-O0"))

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        wanted = memory.copy()
        assert Machine(SMALL_MACHINE).run(program.data, wanted).error == "none"
        host.memory = memory
        ended = host.run(program)
        assert ended.error == "none", ended.reason
        assert np.array_equal(host.memory, wanted)

    found = compiled.run([x], run)
    wanted = GraphModel(graph, SMALL_MACHINE)({"x": x})
    for port, one in zip(compiled.outputs, found, strict=True):
        assert np.array_equal(one.view("u4"), wanted[port.name].view("u4")), port.name


_SWEEPS = "65536 values, the most that sweeps over a row take, not 65537"
_WHOLE = "128 values, reduction_beats of a machine without sweeps, not 129"


@pytest.mark.parametrize(
    ("machine", "kind", "length", "message"),
    [
        (DEFAULT, "softmax", 65537, _SWEEPS),
        (DEFAULT, "window", 65537, _SWEEPS),
        (replace(SMALL_MACHINE, sweeps=False), "softmax", 129, _WHOLE),
        (FPGA_MACHINE, "layer_norm", 129, _WHOLE),
    ],
    ids=["softmax", "window", "no sweeps", "fpga"],
)
def test_rows_longer_than_hardware_reduces(
    machine: MachineConfiguration, kind: str, length: int, message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        compile_graph(reductions(1, length, (kind,)), machine)
    assert f"a row that is reduced must have at most {message}" in str(caught.value)


@pytest.mark.parametrize("length", [70001, pytest.param(200000, marks=pytest.mark.full)])
def test_sums_by_halves_have_any_length(length: int) -> None:
    require_equal(reductions(1, length, ("halves",)), DEFAULT, drawn(1, length))


# Products in windows.

NARROW = replace(WINDOW_MACHINE, a_beats=256, w_beats=512, out_beats=64)


def product(rows: int, k: int, columns: int) -> Graph:
    """Of a computed operand."""
    g = Graph()
    x = g.function("relu", g.input("x", (rows, k)))
    g.output("y", g.linear(x, drawn(columns, k, seed=2), "wide"))
    return g


@pytest.mark.parametrize(
    ("machine", "k", "block"),
    [
        (WINDOW_MACHINE, 4096, 64),
        (WINDOW_MACHINE, 4097, 64),
        pytest.param(WINDOW_MACHINE, 9000, 64, marks=pytest.mark.full),
        (WINDOW_MACHINE, 5000, (8, 8)),
        (NARROW, 513, 64),
        (NARROW, 1024, 64),
        (NARROW, 1000, (8, 8)),
    ],
    ids=_size,
)
def test_sums_longer_than_a_window(machine: MachineConfiguration, k: int, block: Block) -> None:
    """Parts of 4,096 products, whatever buffers hold; one strip of an operand is enough."""
    require_equal(product(40, k, 50), machine, drawn(40, k), block=block)


def test_gradients_of_many_tokens_in_windows() -> None:
    g = Graph()
    x, dy = g.input("x", (4200, 24)), g.input("dy", (4200, 16))
    g.output("dw", g.matmul(g.transpose(g.function("relu", x), (1, 0)), dy))
    require_equal(g, WINDOW_MACHINE, drawn(4200, 24), drawn(4200, 16, seed=2), block=(8, 8))


def test_buffers_of_operands_hold_a_strip_of_a_window() -> None:
    message = "wide: k must be at most 1024 with arithmetic window, of which buffers of operands "
    with pytest.raises(CompileError, match=f"^{message}hold a strip, not 1025$"):
        compile_graph(product(3, 1025, 5), NARROW)
