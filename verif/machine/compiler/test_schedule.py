"""The order of a program: how busy it keeps the array, and that any sizes have one."""

from dataclasses import replace

import numpy as np
import pytest

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.emitter import Pass
from mxsafe.machine.compiler.lowering import lowered
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.schedule import Draft, scheduled
from mxsafe.machine.compiler.tensors import Rows
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import FOLLOWING
from mxsafe.machine.graph import Graph
from mxsafe.machine.layout import Float32Layout
from mxsafe.machine.program import Program
from mxsafe.model.graph import GraphModel
from mxsafe.model.machine import Machine
from verif.machine.compiler.graphs import Shape, layer, weights
from verif.machine.compiler.moves import load_rows, store_rows
from verif.machine.compiler.transformer_graphs import bert

DEFAULT = MachineConfiguration()


def test_a_block_of_minilm_after_another_keeps_the_array_busy() -> None:
    made = [lowered(bert(128, 384, 12, 1536, blocks), DEFAULT).emitter for blocks in (1, 2)]
    one, two = map(predict, made)
    assert two.array_busy - one.array_busy > 0.92 * (two.cycles - one.cycles)
    for found, blocks in ((one, 1), (two, 2)):
        idle = found.idle()
        assert sum(idle.values()) == found.cycles - found.array_busy
        assert idle["tiles"] == blocks * 12 * 8 * 8 * (16 - 8)  # scores end in 8 beats
    assert predict(Program.assembled(made[0].program(), DEFAULT)) == one


def test_queues_run_side_by_side() -> None:
    """Rows that are loaded, doubled and stored one by one wait for memory once.

    Each has a bank of its own while that lasts: in one bank words would wait for results.
    """
    machine = replace(DEFAULT, vector_banks=8, bank_beats=64)
    draft = Draft(machine)
    layout = Float32Layout(configuration=machine, rows=64, columns=16)
    for _ in range(10):
        source, target = draft.vectors("x", layout), draft.vectors("y", layout)
        rows = draft.rows(64, 1, "rows")
        load_rows(draft, source, range(1), rows)
        draft.compute(rows, Pass(arithmetic="scale", parameter=2.0), d=rows)
        store_rows(draft, target, range(1), rows)
    made = scheduled(draft)
    kinds = [step.kind for step in made.emitter.steps]
    assert kinds[:2] == ["load", "load"]
    assert sorted(made.order) == [*range(30)]
    assert predict(made.emitter).cycles < 10 * 128 + 600


def test_parts_that_do_not_fit_together() -> None:
    draft = Draft(SMALL_MACHINE)
    first, second = (draft.rows(300, 1, "rows") for _ in range(2))
    draft.compute(first, Pass(arithmetic="add", y=second), d=first)
    with pytest.raises(CompileError) as caught:
        scheduled(draft)
    assert str(caught.value) == (
        "parts of the vector buffer that are needed together must fit into its 512 places, not 600"
    )
    with pytest.raises(CompileError, match="rows must fit into the 512 places of the vector buf"):
        draft.rows(600, 1, "rows")


def test_what_came_early_makes_room() -> None:
    """Where parts that came early are in the way, the program goes on in its own order."""
    draft = Draft(SMALL_MACHINE)
    layout = Float32Layout(configuration=SMALL_MACHINE, rows=120, columns=8)

    def loaded(beats: int) -> Rows:
        rows = draft.rows(beats, 1, "rows")
        load_rows(draft, draft.vectors("x", replace(layout, rows=beats)), range(1), rows)
        return rows

    for _ in range(4):
        small = [loaded(100), loaded(28), loaded(100), loaded(28)]
        large = draft.rows(256, 1, "large")
        load_rows(draft, draft.vectors("x", replace(layout, rows=256)), range(1), large)
        for rows in small:
            draft.compute(rows, Pass(arithmetic="add", y=large.cut(0, rows.beats)), d=large)
        store_rows(draft, draft.vectors("y", replace(layout, rows=256)), range(1), large)
    assert len(scheduled(draft).order) == 4 * 14 - 4 * 4


def test_loads_that_wait_for_later_descriptors_may_come_in_order() -> None:
    """Where parts that came early are in the way, the first of such loads has its turn.

    There are more of them than are looked at together, when what they wait for is behind them.
    """
    draft = Draft(SMALL_MACHINE)

    def loaded(beats: int) -> Rows:
        rows = draft.rows(beats, 1, "rows")
        layout = Float32Layout(configuration=SMALL_MACHINE, rows=beats, columns=8)
        load_rows(draft, draft.vectors("x", layout), range(1), rows)
        return rows

    for sizes, function in (([3] * 66, "relu"), *[([100, 28, 100, 28], "none")] * 4):
        small, large = [loaded(beats) for beats in sizes], loaded(256)
        if function != "none":
            draft.compute(large, Pass(function=function), d=large)
        for rows in small:
            draft.compute(rows, Pass(arithmetic="add", y=large.cut(0, rows.beats)), d=large)
        layout = Float32Layout(configuration=SMALL_MACHINE, rows=256, columns=8)
        store_rows(draft, draft.vectors("y", layout), range(1), large)
    assert sorted(scheduled(draft).order) == [*range(len(draft.steps))]


@pytest.mark.parametrize("seed", range(12))
def test_any_sizes_leave_the_bits_of_the_models(seed: int) -> None:
    """Shapes and buffers of random sizes."""
    rng = np.random.default_rng(seed)
    tokens, features, width, hidden = (int(n) for n in rng.integers(1, 130, 4))
    shape = Shape(tokens, features, int(rng.integers(1, 4)), width, hidden, bool(rng.integers(2)))
    machine = [DEFAULT, SMALL_MACHINE][seed % 2]
    beats = {f"{side}_beats": 4 * int(rng.integers(20, 120)) for side in ("a", "w", "out")}
    machine = replace(machine, **beats, bank_beats=256, reduction_beats=256)
    graph = layer(shape, weights(shape, seed))
    x = rng.standard_normal((tokens, features)).astype(np.float32)
    found = compile_graph(graph, machine)(x)
    wanted = GraphModel(graph, machine)({"x": x})["y"]
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32)), (shape, beats)


def test_sweeps_of_a_row_follow_one_another() -> None:
    """Rows longer than the machine reduces in one piece, beside shorter ones."""
    g, rng = Graph(), np.random.default_rng(0)
    x, w = g.input("x", (40, 64)), rng.standard_normal((64, 600)).astype("f4")
    for at in range(3):
        long = g.softmax(g.matmul(x, w * np.float32(0.1 + at)))
        g.output(f"long {at}", g.matmul(long, np.ascontiguousarray(w.T)))
        g.output(f"short {at}", g.softmax(g.scale(g.softmax(x), at + 2.0)))
    compiled = compile_graph(g)
    given = rng.standard_normal(x.shape).astype("f4")
    wanted = GraphModel(g)({"x": given})
    for port, found in zip(compiled.outputs, compiled(given), strict=True):
        assert np.array_equal(found.view("u4"), wanted[port.name].view("u4")), port.name


def test_pieces_of_a_row_come_in_their_order() -> None:
    """The second one is there early, and waits for what the first one is made of; others do not."""
    draft = Draft(DEFAULT)

    def loaded(beats: int) -> Rows:
        rows = draft.rows(beats, 1, "a piece")
        layout = Float32Layout(configuration=DEFAULT, rows=beats, columns=16)
        load_rows(draft, draft.vectors("x", layout), range(1), rows)
        return rows

    second, first = loaded(16), loaded(500)
    draft.compute(first, Pass(function="relu"), d=first)
    softmax = Pass(reduction="softmax", parameter=1.0)
    swept = len(draft.steps)
    for sweep in FOLLOWING["softmax"]:
        for at, piece in enumerate((first, second)):
            work = replace(softmax, sweep=sweep, first=at == 0, last=at == 1)
            draft.compute(piece, work, d=piece if sweep == "results" else None)
    other = loaded(20)
    draft.compute(other, softmax, d=other)
    made = scheduled(draft)
    places = [made.order.index(number) for number in range(swept, len(draft.steps))]
    assert places[:6] == [*range(places[0], places[0] + 6)]
    assert places[-1] < places[0]
    program = Program.assembled(made.emitter.program(), DEFAULT)
    memory = np.zeros(made.emitter.memory.used, np.uint8)
    assert Machine(DEFAULT).run(program.data, memory).error == "none"
