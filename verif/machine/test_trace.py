"""Timelines: every descriptor once, in its queue's track, and shares of what was counted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxsafe.host.host import Host
from mxsafe.host.simulated import Simulated
from mxsafe.machine.assembler import Assembler
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.products import Products
from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import SMALL_MACHINE, MachineConfiguration
from mxsafe.machine.description import COUNTERS, QUEUES
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.machine.trace import Traced, timeline
from verif.support.simulators import SCRATCH
from verif.support.tests import available

SIZES = MachineConfiguration()


def _products() -> Products:
    made = Products(SIZES)
    made.product(made.matrix("a", 50, 300), made.matrix("w", 70, 300).T)
    return made


def _program(products: Products) -> Program:
    return Program.assembled(products.emitter.program(), SIZES)


def _bars(found: dict[str, Any], process: int = 1) -> list[dict[str, Any]]:
    return [e for e in found["traceEvents"] if e["ph"] == "X" and e["pid"] == process]


def test_bytes_of_a_program_are_predicted_as_its_steps_are() -> None:
    made = _products()
    assert predict(_program(made)) == predict(made.emitter)


def test_tracks_are_full_up_to_the_last_descriptor() -> None:
    program = _program(_products())
    predicted = predict(program)
    labels = [f"descriptor {number}" for number in range(program.length)]
    bars = _bars(timeline([Traced(program, labels)]))
    work = sorted((b for b in bars if b["cat"] != "wait"), key=lambda b: b["args"]["number"])
    assert [b["name"] for b in work] == labels
    assert [QUEUES[b["tid"]] for b in work] == [b["cat"] for b in work]
    assert [(b["ts"], b["ts"] + b["dur"], b["args"]["end"]) for b in work] == [
        (run.start, run.stop, run.end) for run in predicted.runs
    ]
    assert {b["name"] for b in bars if b["cat"] == "wait"} > {"waits for load", "waits for fetch"}
    for queue in range(len(QUEUES)):
        own = sorted((b for b in bars if b["tid"] == queue), key=lambda b: b["ts"])
        starts = [b["ts"] for b in own]
        assert starts == [0, *(b["ts"] + b["dur"] for b in own[:-1])]


def test_times_of_a_machine() -> None:
    program, slow = _program(_products()), Times(memory=1000)
    bars = _bars(timeline([Traced(program, (), (), slow)]))
    ends = [b["args"]["end"] for b in bars if b["cat"] != "wait"]
    assert max(ends) == predict(program, slow).cycles > predict(program).cycles


def test_programs_follow_one_another_and_counters_are_shares() -> None:
    program = _program(_products())
    cycles = predict(program).cycles
    zero = {name: 0 for name in COUNTERS if name not in ("cycles", "array_busy")}
    counted = [
        {"cycles": 1000, "array_busy": 250, **zero},
        {"cycles": 1000, "array_busy": 250, **zero},
        {
            **zero,
            "cycles": cycles + 1000,
            "array_busy": 250 + cycles // 2,
            "wait_load": cycles,
            "words_read": cycles // 2,
        },
    ]
    found = timeline([Traced(program, (), counted), Traced(program)])
    first, second = _bars(found), _bars(found, 2)
    assert [b["name"] for b in first if b["cat"] != "wait"][:2] == ["load", "load"]
    later = [b["ts"] - a["ts"] for a, b in zip(first, second, strict=True)]
    assert set(later) == {cycles + 1000}
    shares = [(e["ts"], e["args"]) for e in found["traceEvents"] if e["ph"] == "C"]
    waits = {"load": 0.0, "vector": 0.0, "store": 0.0}
    assert shares == [
        (0, {"busy": 25.0}),
        (0, waits),
        (0, {"read": 0.0, "written": 0.0}),
        (1000, {"busy": 50.0}),
        (1000, {**waits, "load": 100.0}),
        (1000, {"read": 50.0 * 8 * SIZES.word_bytes // SIZES.data_width, "written": 0.0}),
    ]


def test_counters_of_simulated_verilog() -> None:
    """Read every 1,000 cycles while it runs: together they are what the program takes."""
    available("verilator")
    products = Products(SMALL_MACHINE)
    products.product(products.matrix("a", 64, 256), products.matrix("w", 64, 256).T)
    program = Program.assembled(products.emitter.program(), SMALL_MACHINE)
    host = Host(Simulated(SMALL_MACHINE, folder=SCRATCH, optimisation="-O0"))
    host.memory = np.zeros(products.emitter.memory.used, np.uint8)
    counted: list[Mapping[str, int]] = []
    ended = host.run(
        program,
        progress=lambda cycles: counted.append({name: host.counter(name) for name in COUNTERS}),
        patience=0,
    )
    assert ended.error == "none"
    counted.append(ended.counters)
    cycles, predicted = ended.counters["cycles"], predict(program)
    assert 0.7 * cycles < 1000 * len(counted) < 1.3 * cycles
    assert len(counted) > 5
    events = timeline([Traced(program, (), counted)])["traceEvents"]
    busy = [event for event in events if event["ph"] == "C" and "busy" in event["args"]]
    stops = [*(event["ts"] for event in busy[1:]), cycles]
    spent = sum(
        event["args"]["busy"] * (stop - event["ts"])
        for event, stop in zip(busy, stops, strict=True)
    )
    assert abs(spent / 100 - predicted.array_busy) < 0.01 * cycles


def test_labels_are_names_of_the_graph(tmp_path: Path) -> None:
    graph = Graph()
    x = graph.input("x", (20, 64))
    w = np.random.default_rng(0).standard_normal((64, 32)).astype("f4")
    graph.output("y", graph.softmax(graph.matmul(x, w, "scores"), name="weights"))
    compiled = compile_graph(graph)
    compiled.trace(tmp_path / "t.json")
    found = json.loads((tmp_path / "t.json").read_text())
    [gemm] = [b for b in _bars(found) if b["cat"] == "gemm"]
    assert "scores" in gemm["name"]
    assert "weights" in gemm["name"]
    assert gemm["args"]["descriptor"].startswith("gemm ")
    with pytest.raises(TypeError, match="programs must be a sequence of a Traced"):
        timeline(compiled)


def test_programs_that_cannot_run_have_none() -> None:
    with pytest.raises(ValueError, match="labels must be those of 1 descriptors, not 2"):
        Traced(Program(bytes(32), SIZES), ["a", "b"])
    with pytest.raises(ValueError, match="descriptor 0: opcode must be"):
        timeline([Traced(Program(bytes(32), SIZES))])
    assembler = Assembler(SIZES)
    data = assembler.load(buffer="vector", wait="gemm").encoded()
    with pytest.raises(CompileError, match="descriptor 0: it waits for a token of gemm for ever"):
        timeline([Traced(Program(data, SIZES))])
