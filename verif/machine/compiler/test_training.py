"""A compiled training step: the interpreter has the model's bits, in any order of the queues."""

import numpy as np
import pytest

from mxsafe.machine.compiled import compile_graph
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.model.graph import GraphModel
from verif.machine.compiler.training_graphs import perceptron_step
from verif.machine.machine_schedules import run_in_any_order


@pytest.mark.parametrize("arithmetic", ["exact", "fp12"])
@pytest.mark.parametrize("seed", range(3))
def test_tokens_order_a_step(seed: int, arithmetic: str) -> None:
    """Small buffers, so that places are used again and again."""
    machine = MachineConfiguration(
        a_beats=256, w_beats=256, vector_banks=2, bank_beats=128, arithmetic=arithmetic
    )
    graph = perceptron_step(24, (24, 40, 16))
    compiled, rng = compile_graph(graph, machine, block=(8, 8)), np.random.default_rng(seed)
    named = {p.name: rng.standard_normal(p.shape).astype("f4") for p in compiled.inputs}
    (part,) = compiled.parts
    memory = part.memory([named[compiled.host.values[place].name] for place in part.feeds])
    run_in_any_order(part.program.instructions(), memory, machine, seed)
    wanted = GraphModel(graph, machine, (8, 8))(named)
    for port, found in zip(part.outputs, part.read(memory), strict=True):
        assert np.array_equal(found.view(np.uint32), wanted[port.name].view(np.uint32))
        assert not np.array_equal(found, named[port.name])
