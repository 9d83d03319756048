"""A function between streams: its results, stalls, resets, latency.

Without registers it has no clock; `verif.rtl.accelerator.test_layer` has it in layers.
"""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.model import activate
from mxsafe.rtl.vector.activation_stage import ActivationStage
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import lint
from verif.support.stream_job import run_stream
from verif.support.tests import Tally, available
from verif.support.vector_checks import random_floats


@pytest.mark.parametrize(
    ("simulator", "registers"),
    [("icarus", 2), pytest.param("verilator", 1, marks=pytest.mark.full)],
)
def test_beats(simulator: str, registers: int, tmp_path: Path, tally: Tally) -> None:
    module = generated(ActivationStage(width=2, registers=registers), tmp_path, in_one_run=True)
    available("verilator")
    assert lint(module) == ""
    assert module.latency == registers
    rng = np.random.default_rng(1)
    numbers = random_floats(rng, (100, 2))
    last = rng.random(100) < 0.2
    last[-1] = True
    job = {
        "s_axis_tdata": numbers.view(np.uint8).reshape(-1, 8),
        "s_axis_tlast": module.ports["s_axis_tlast"].words(last),
    }
    for stall in (0.0, 0.25):
        streamed = run_stream(
            available(simulator),
            module,
            job,
            stall_in=stall,
            stall_out=stall,
            resets_after=range(1, 20, 3) if stall else (),
        )
        got = streamed.words["m_axis_tdata"].view(np.uint32)
        tally(
            simulator,
            "activations",
            assert_equal("results", got, activate(numbers).view(np.uint32)),
        )
        assert_equal("m_axis_tlast", streamed.words["m_axis_tlast"][:, 0], last.astype(np.uint8))
        if not stall:
            assert (np.diff(streamed.taken) == 1).all()
            assert (streamed.left - streamed.taken == module.latency).all()


def test_configurations_that_cannot_work() -> None:
    for parameters, message in (
        ({"function": "sine"}, "function must be one of relu, not 'sine'"),
        ({"width": 0}, "width must be a positive integer, not 0"),
        ({"registers": -1}, "registers must be a non-negative integer, not -1"),
    ):
        with pytest.raises(ValueError) as error:
            ActivationStage(**parameters)
        assert str(error.value) == message
