"""Cycles that the timing model predicts, against those of the simulated small machine."""

from collections.abc import Callable

import numpy as np
import pytest

from mxsafe.host.host import Host
from mxsafe.host.simulated import MemoryTiming, Simulated
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import SMALL_MACHINE
from mxsafe.machine.graph import Graph
from mxsafe.machine.program import Program
from mxsafe.rtl.machine.times import times_of
from verif.machine.compiler.graphs import Shape, layer, weights
from verif.machine.compiler.transformer_graphs import bert
from verif.support.simulators import SCRATCH
from verif.support.tests import available

A = Assembler(SMALL_MACHINE)
_SHORT = {"buffer": "vector", "count_0": 4}
_LATENCIES = (20, 100)


def cycles(program: Program, memory: np.ndarray, latency: int) -> tuple[int, int]:
    """Of the machine and of the prediction."""
    timing = MemoryTiming(latency=latency)
    host = Host(Simulated(SMALL_MACHINE, folder=SCRATCH, optimisation="-O0", timing=timing))
    host.memory = memory
    ended = host.run(program)
    assert ended.error == "none"
    return ended.counters["cycles"], predict(program, times_of(SMALL_MACHINE, latency)).cycles


def transfers() -> list[Instruction]:
    """Short ones, of which two are in flight."""
    loads = [A.load(**_SHORT, address=64 * at, to=4 * at) for at in range(12)]
    return loads + [A.store(**_SHORT, address=1024 + 64 * at) for at in range(4)]


def handed_on() -> list[Instruction]:
    """Each waits for the one before it in another queue."""
    made: list[Instruction] = []
    for at in range(6):
        waits = {"wait": "vector"} if at else {}
        signal = "load,store" if at < 5 else "store"
        work = {"beats": 2, "d": 64, "to_vector": 1, "arithmetic": "scale"}
        made += [
            A.load(**_SHORT, **waits, address=64 * at, signal="vector"),
            A.vector(**work, wait="load", signal=signal),
            A.store(**_SHORT, wait="vector", address=1024 + 64 * at, **{"from": 128}),
        ]
    return made


def of_one_bank() -> list[Instruction]:
    """Both operands stand there, of half of them in two banks."""
    work = {"beats": 40, "rows": 2, "x_stride": 40, "y_stride": 40, "d_stride": 40}
    own = work | {"arithmetic": "add", "to_vector": 1}
    return [A.vector(**own, y=y) for y in (80, 256, 120, 300)]


def multiplied() -> list[Instruction]:
    """Products of words that have just come, and what is computed of them."""
    made: list[Instruction] = []
    strips = {"beats": 4, "block": 4, "a_stride": 4, "w_stride": 4}
    for at in range(4):
        waits = {"wait": "vector"} if at else {}
        signals = {"signal": "load"} if at < 3 else {}
        made += [
            A.load(buffer="a_codes", count_0=8, signal="gemm", **waits),
            A.gemm(**strips, wait="load", signal="vector"),
            A.vector(beats=8, d=64, to_vector=1, wait="gemm", **signals),
        ]
    return made


@pytest.mark.parametrize("latency", _LATENCIES)
@pytest.mark.parametrize("make", [transfers, handed_on, of_one_bank, multiplied])
def test_cycles_of_descriptors(make: Callable[[], list[Instruction]], latency: int) -> None:
    """But for fetches, which come between words of loads, they are those of the machine."""
    available("verilator")
    program = Program.assembled(make(), SMALL_MACHINE)
    measured, predicted = cycles(program, np.zeros(4096, np.uint8), latency)
    assert abs(measured - predicted) < 0.02 * measured, (measured, predicted)


def summed() -> Graph:
    """Sums in binary32, whose halves stand in one bank."""
    g = Graph()
    g.output("y", g.sum(g.transpose(g.input("x", (3, 20, 24)), (0, 2, 1))))
    return g


def moved() -> Graph:
    """Many short runs."""
    g = Graph()
    turned = g.transpose(g.input("x", (4, 12, 24)), (1, 0, 2))
    back = g.gather([turned], turned.places[:, ::-1])
    g.output("y", g.function("relu", g.add(turned, back)))
    return g


def of_one_token() -> Graph:
    """A layer that waits for memory most of the time."""
    shape = Shape(tokens=1, heads=1)
    return layer(shape, weights(shape))


def encoder() -> Graph:
    """A block of an encoder."""
    return bert(11, 32, 2, 40, 1)


@pytest.mark.parametrize("latency", _LATENCIES)
@pytest.mark.parametrize("make", [summed, moved, of_one_token, encoder])
def test_cycles_of_programs(make: Callable[[], Graph], latency: int) -> None:
    available("verilator")
    (part,) = compile_graph(make(), SMALL_MACHINE).parts
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(v.shape).astype("f4") for v in make().values if v.op == "input"]
    measured, predicted = cycles(part.program, part.memory(given), latency)
    assert abs(measured - predicted) < 0.1 * measured, (measured, predicted)
