"""A function between streams: its results, stalls, resets, latency.

Without registers it has no clock; `verif.rtl.accelerator.test_layer` has it in layers.
"""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.vector.activation_stage import ActivationStage
from verif.support.activation_checks import check_activations
from verif.support.generated import generated
from verif.support.simulators import lint
from verif.support.tests import Tally, available


@pytest.mark.parametrize(
    ("simulator", "registers"),
    [("icarus", 2), pytest.param("verilator", 1, marks=pytest.mark.full)],
)
def test_beats(simulator: str, registers: int, tmp_path: Path, tally: Tally) -> None:
    module = generated(ActivationStage(width=2, registers=registers), tmp_path, in_one_run=True)
    available("verilator")
    assert lint(module) == ""
    assert module.latency == registers
    for stall in (0.0, 0.25):
        streamed = check_activations(
            available(simulator),
            module,
            1,
            100,
            stall_in=stall,
            stall_out=stall,
            resets_after=range(1, 20, 3) if stall else (),
        )
        tally(simulator, "activations", streamed.left.size * 2)
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
