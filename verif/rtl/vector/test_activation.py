"""Activation functions against the model, in every lane: all classes of binary32."""

import numpy as np
import pytest

from mxsafe.model import activate
from mxsafe.rtl.vector.activation import Activation, ActivationConfiguration
from mxsafe.rtl.vector.function_lane import FUNCTIONS
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep


def _words(seed: int, count: int) -> np.ndarray:
    """Every exponent with either sign and the mantissas next to its ends, and random words."""
    mantissas = np.array([0, 1, 1 << 22, (1 << 22) + 1, (1 << 23) - 1], np.uint32)
    exponents = np.arange(512, dtype=np.uint32) << np.uint32(23)
    corners = (exponents[:, None] | mantissas).ravel()
    random = np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)
    return np.concatenate([corners, random])


def test_relu(simulator: str, modules: dict[str, Module]) -> None:
    module = modules["relu"]
    words = _words(1, 4096)
    lanes = np.stack([np.roll(words, lane) for lane in range(16)], axis=1)
    log = run_lockstep(simulator, module, {"values": lanes})
    got = module.ports["results"].split(log["results"])
    expected = activate(lanes.view(np.float32), "relu").view(np.uint32).astype(np.int64)
    assert_equal("relu", got, expected, word=lanes)


def test_what_a_configuration_has() -> None:
    default = ActivationConfiguration(functions=("relu", "gelu", "silu", "tanh"))
    assert (default.module_name, default.latency, default.code_bits) == ("activation", 3, 2)
    assert ActivationConfiguration().module_name == "relu"
    assert ActivationConfiguration().latency == 0
    mixed = ActivationConfiguration(functions="tanh+exp+gelu_derivative", width=4)
    assert (mixed.module_name, mixed.latency) == ("tanh_exp_gelud_width4", 8)
    assert ActivationConfiguration(functions="exp", pipeline=3).module_name == "exp_pipeline3"
    assert ActivationConfiguration(functions="+".join(FUNCTIONS)).module_name == "every_function"


def test_functions_that_there_are_not() -> None:
    for parameters, message in (
        (
            {"functions": "sine"},
            f"functions must be different ones of {', '.join(FUNCTIONS)}, not 'sine'",
        ),
        ({"width": 0}, "width must be a positive integer, not 0"),
        ({"functions": "gelu", "pipeline": 7}, "pipeline must be an integer from 0 to 6, not 7"),
        ({"functions": "exp", "pipeline": 10}, "pipeline must be an integer from 0 to 9, not 10"),
    ):
        with pytest.raises(ValueError) as error:
            Activation(**parameters)
        assert str(error.value) == message
