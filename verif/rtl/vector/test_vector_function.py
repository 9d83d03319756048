"""Streams of numbers through functions: more than a million, a function for each beat, stalls."""

import numpy as np
import pytest

from mxsafe.rtl.vector.activation import ActivationConfiguration
from mxsafe.rtl.vector.function_lane import FUNCTIONS
from mxsafe.rtl.vector.vector_function import VectorFunction
from verif.rtl.vector.function_checks import (
    arguments,
    bfloat16_arguments,
    check_beats,
    expected_words,
    random_arguments,
)
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import typical
from verif.support.units import generated, published


def _unit(functions: str, width: int = 3, user_bits: int = 3, **parameters: int) -> VectorFunction:
    lanes = ActivationConfiguration(functions=functions, width=width, **parameters)
    return VectorFunction(lanes=lanes, user_bits=user_bits)


@pytest.mark.full
def test_every_function_on_verilator() -> None:
    """All numbers of bfloat16, and random words, by all functions.

    The function of a beat differs from that of the last one.
    """
    unit = _unit("+".join(FUNCTIONS), 64)
    rng = np.random.default_rng(31)
    one = np.concatenate([bfloat16_arguments(), random_arguments(rng, 21_000)])
    one = np.resize(one, -(-one.size // 64) * 64)
    beats = np.repeat(one.reshape(-1, 64), len(FUNCTIONS), axis=0)
    codes = np.arange(len(beats)) % len(FUNCTIONS)
    module = generated(unit)
    compared = check_beats("verilator", unit, module, beats, codes, stall=0.02)
    assert compared >= 1_000_000


@pytest.mark.parametrize(
    ("functions", "simulator", "beats", "parameters"),
    [
        pytest.param("relu+tanh+reciprocal", "icarus", 150, {}, marks=pytest.mark.variant),
        ("gelu+relu_derivative", "verilator", 4_000, {}),
        ("relu", "icarus", 100, {"pipeline": 1, "user_bits": 0}),
        # As the machine for FPGAs has it.
        ("relu+gelu+silu+tanh", "icarus", 300, {"width": 1, "pipeline": 6, "user_bits": 0}),
        pytest.param("tanh+exp", "icarus", 300, {"user_bits": 0}, marks=pytest.mark.full),
        pytest.param("+".join(FUNCTIONS), "icarus", 300, {}, marks=pytest.mark.full),
    ],
)
def test_functions_in_every_lane(
    functions: str, simulator: str, beats: int, parameters: dict
) -> None:
    """A function for each beat, stalls, and resets."""
    unit = _unit(functions, **parameters)
    module = generated(unit)
    rng = np.random.default_rng(33)
    width = unit.config.lanes.width
    words = rng.permutation(arguments(rng, 10_000))[: width * beats].reshape(-1, width)
    codes = rng.integers(0, functions.count("+") + 1, beats)
    check_beats(simulator, unit, module, words, codes, stall=0.2)


PIPELINED = [name for name, each in published(VectorFunction).items() if each.latency]


@pytest.mark.variant
@pytest.mark.parametrize("name", typical(PIPELINED))
def test_published_ones(name: str) -> None:
    """Numbers of all sizes by each function in each lane, stalls, and resets."""
    module = published(VectorFunction)[name]
    _check_published("icarus", module, least=24, still=True)


@pytest.mark.full
@pytest.mark.parametrize("name", PIPELINED)
def test_many_numbers_of_published_ones(name: str) -> None:
    module = published(VectorFunction)[name]
    _check_published("verilator", module, least=4_000)


def _check_published(simulator: str, module: Module, least: int, *, still: bool = False) -> None:
    """So many beats, and two for each function at least."""
    p = module.parameters
    unit = _unit(p["functions"], p["width"], p["user_bits"], pipeline=p["pipeline"])
    assert unit.module_name == module.unit
    rng = np.random.default_rng(36)
    names = unit.config.lanes.names
    beats = max(least, 2 * len(names))
    words = np.resize(rng.permutation(arguments(rng, 10_000)), (beats, p["width"]))
    check_beats(
        simulator,
        unit,
        module,
        words,
        rng.permutation(np.arange(beats) % len(names)),
        stall=0.15,
        resets_after=(2, module.latency + 1),
        still=still,
    )


@pytest.mark.parametrize(
    "name", [name for name, each in published(VectorFunction).items() if not each.latency]
)
def test_published_ones_without_registers(name: str) -> None:
    """A beat passes as it comes, with both its flags."""
    module = published(VectorFunction)[name]
    functions, width = module.parameters["functions"], module.parameters["width"]
    rng, count = np.random.default_rng(37), 300
    words = rng.permutation(arguments(rng, 10_000))[: width * count]
    given = {
        pin: module.ports[pin].words(rng.integers(0, 2, count))
        for pin in ("s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    }
    given["s_axis_tdata"] = words.view(np.uint8).reshape(count, -1)
    log = run_lockstep("icarus", module, given)
    got = log["m_axis_tdata"].reshape(-1).view(np.uint32).astype(np.int64)
    assert_equal(name, got, expected_words(functions, words, "compact"), word=words)
    for pin, source in (("tvalid", "s_axis"), ("tlast", "s_axis"), ("tready", "m_axis")):
        sink = "m_axis" if source == "s_axis" else "s_axis"
        assert_equal(pin, log[f"{sink}_{pin}"], given[f"{source}_{pin}"])


def test_a_beat_a_clock() -> None:
    unit = _unit("relu+tanh", 2)
    module = generated(unit)
    beats = random_arguments(np.random.default_rng(34), 100).reshape(-1, 2)
    codes = np.arange(len(beats)) % 2
    check_beats("icarus", unit, module, beats, codes, stall=0.0)


def test_the_verilog_is_clean() -> None:
    for functions in ("relu+gelu+silu+tanh", "tanh+exp"):
        assert lint(generated(_unit(functions, 2))) == ""


def test_configurations_that_cannot_work() -> None:
    with pytest.raises(ValueError) as error:
        VectorFunction(user_bits=-1)
    assert str(error.value) == "user_bits must be a non-negative integer, not -1"
