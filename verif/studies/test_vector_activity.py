"""Real numbers at the pins of vector units: beats wait as the unit wants them to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS
from mxsafe.model import functions
from mxsafe.model.converter import convert_beats
from mxsafe.model.normalisation import layer_norm
from mxsafe.model.softmax import softmax
from mxsafe.model.vector_arithmetic import axpy, multiply
from mxsafe.rtl.stream.block_converter import BlockConverter
from mxsafe.rtl.unit import Unit
from mxsafe.rtl.vector.activation import ActivationConfiguration
from mxsafe.rtl.vector.vector_function import VectorFunction
from mxsafe.synthesis.cases import Case
from mxsafe.synthesis.power import RESET, Stimulus
from studies.vector_activity import stimulus
from verif.data import minilm
from verif.support.manifest import Words
from verif.support.simulators import run_lockstep
from verif.support.tests import some
from verif.support.units import generated

DATA = minilm.load_vectors()
Floats = NDArray[np.float32]


def played(case: Case | Unit[Any]) -> tuple[Stimulus, dict[str, Words]]:
    """The stimulus, and what the pins carried in the cycles that count and those before."""
    unit = case.build() if isinstance(case, Case) else case
    found = stimulus(unit)
    assert found is not None
    module = generated(unit)
    rows = dict(found.rows)
    if "rst" in module.ports:
        reset = np.arange(len(rows[next(iter(rows))])) < RESET
        rows["rst"] = reset.astype(np.uint8)[:, None]
    return found, run_lockstep("icarus", module, rows, unsettled=found.skipped)


def results(found: Stimulus, pins: dict[str, Words], numbers: float) -> Floats:
    """Beats that come out from the first on; those that count stand for so many numbers each."""
    valid = pins["m_axis_tvalid"][:, 0] == 1
    valid[:RESET] = False
    assert valid[found.skipped :].sum() * numbers == found.results > 0
    return pins["m_axis_tdata"][valid].view(np.float32)


def soft(lanes: int) -> Floats:
    tokens = DATA.scores.transpose(1, 0, 2).reshape(28, -1)
    return softmax(tokens[:, : 21 * lanes], scale=float(DATA.scale))


def soft_beats(lanes: int) -> Floats:
    tokens = DATA.scores.transpose(1, 0, 2).reshape(28, -1)[:, :56]
    rows = softmax(tokens, scale=float(DATA.scale))
    return rows.reshape(28 // lanes, lanes, 56).transpose(0, 2, 1)


def normal(lanes: int) -> Floats:
    width = min(384, 64 * lanes)
    return layer_norm(
        DATA.hidden[:, :width], DATA.gain[:width], DATA.bias[:width], float(DATA.epsilon)
    )


def sums(lanes: int) -> Floats:
    return axpy(DATA.scale, DATA.hidden[:-1], DATA.hidden[1:])


def replayed(lanes: int) -> Floats:
    rows = DATA.hidden.reshape(-1, 1, 32 * lanes)
    return np.repeat(rows, 2, axis=1)


def gelus(lanes: int) -> Floats:
    return functions.gelu(DATA.preactivations.reshape(-1, lanes))


UNITS: dict[str, tuple[Case | Unit[Any], Callable[[int], Floats]]] = {
    "softmax": (Case(name="x", unit="softmax", options={"lanes": 2, "depth": 64}), soft),
    "softmax_beats": (
        Case(name="x", unit="softmax_beats", options={"lanes": 2, "depth": 128}),
        soft_beats,
    ),
    "layer_norm": (Case(name="x", unit="layer_norm", options={"lanes": 2, "depth": 64}), normal),
    "vector_arithmetic": (Case(name="x", unit="vector_arithmetic", options={"lanes": 2}), sums),
    "vector_arithmetic of one operation": (
        Case(name="x", unit="vector_arithmetic", options={"lanes": 2, "operations": "add"}),
        lambda lanes: axpy(np.float32(1), DATA.hidden[:-1], DATA.hidden[1:]),
    ),
    "vector_function": (
        VectorFunction(lanes=ActivationConfiguration(functions="relu+gelu", width=2)),
        gelus,
    ),
    "row_replay": (
        Case(name="x", unit="row_replay", options={"beat_bits": 64, "depth": 64}),
        replayed,
    ),
}


@pytest.mark.parametrize("name", some(UNITS, every=len(UNITS)))
def test_results_are_those_of_real_rows(name: str) -> None:
    case, model = UNITS[name]
    found, pins = played(case)
    # Of two passes that a memory gives, one is new.
    numbers = 1 if name == "row_replay" else 2
    got = results(found, pins, numbers)
    expected = model(2).reshape(-1, got.shape[1])[: len(got)]
    assert len(got) * numbers > 80
    assert got.view(np.uint32).tolist() == expected.view(np.uint32).tolist()
    for pin in (pin for pin in found.rows if pin.endswith("_tvalid")):
        assert found.rows[pin].all(), pin


def test_blocks_are_of_real_states() -> None:
    unit = BlockConverter(format=MX_FORMATS["mxsf"], width=2, block=16, tile=2)
    found, pins = played(unit)
    assert found.windows >= 4
    valid = pins["m_axis_tvalid"][:, 0] == 1
    valid[:RESET] = False
    assert valid[found.skipped :].sum() * 2 == found.results >= 2 * 64
    port = generated(unit).ports["m_axis_tdata"]
    codes = port.split(pins["m_axis_tdata"][valid])[:, :2]
    states = DATA.hidden[:16].reshape(8, 2, -1)[:, :, :16].transpose(0, 2, 1).reshape(-1, 2)
    expected = convert_beats(states, np.arange(128) % 16 == 15, unit.config.format, block=(16, 1))
    assert codes.tolist() == expected.codes[: len(codes)].tolist()


def test_functions_take_what_enters_the_gelu() -> None:
    options: dict[str, int | str] = {"functions": "relu+gelu+silu+tanh", "width": 2}
    found, pins = played(Case(name="x", unit="activation", options=options))
    values = found.rows["values"].view(np.float32)
    assert values.ravel().tolist() == DATA.preactivations.ravel()[: values.size].tolist()
    late = len(values) - found.skipped
    assert found.results == 2 * late > 200
    got = pins["results"].view(np.uint32)[found.skipped :]
    latency = Case(name="x", unit="activation", options=options).build().latency
    expected = functions.gelu(values).view(np.uint32)[found.skipped - latency :][:late]
    assert got.tolist() == expected.tolist()


def test_products_are_of_states_and_gains() -> None:
    case = Case(name="x", unit="float32_multiplier", options={"pipeline": 2})
    found, pins = played(case)
    a, b = (found.rows[name].view(np.float32)[:, 0] for name in ("a", "b"))
    assert a.tolist() == DATA.hidden[0, : len(a)].tolist()
    got = pins["product"].view(np.uint32)[found.skipped :, 0]
    latency = case.build().latency
    expected = multiply(a, b).view(np.uint32)[found.skipped - latency :][: len(got)]
    assert len(got) == found.results > 200
    assert got.tolist() == expected.tolist()


def test_a_unit_without_registers_has_none() -> None:
    assert stimulus(Case(name="x", unit="float32_multiplier").build()) is None
