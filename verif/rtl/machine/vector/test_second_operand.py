"""Second operands from beats, with pauses on both sides, and what a feed of them refuses.

Every output of all configurations is compared in each cycle with a reference in Python.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.rtl.machine.vector.second_operand import SecondOperand
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import refused, typical
from verif.support.units import published

_SHORT = 50
"""How many times short rows are given, after those of all lengths."""
_UNKNOWN = 20
"""Cycles at the start in which no number may have come yet."""


@dataclass(frozen=True)
class _Job:
    """Rows of one length, and for how many cycles they are given."""

    length: int
    numbers: bool
    constant: bool
    clocks: int
    valid: float
    ready: float
    reset: bool


def _jobs(rng: np.random.Generator, module: Module) -> Iterator[_Job]:
    """Rows of all lengths without many pauses, then short ones with more or fewer."""
    columns, only = module.parameters["columns"], module.parameters["only_numbers"]
    for bit in range(module.ports["beats"].width):
        # Should a bit be lost when the first operand is counted, a row ends at once. For an FPGA
        # its end is known an operand before.
        length = (1 << bit) + (3 if module.parameters.get("target") == "fpga" else 2)
        numbers = only or bool(rng.integers(2))
        yield _Job(length, numbers, not numbers, length + length // 16 + 20, 0.98, 0.98, reset=True)
    for _ in range(_SHORT):
        length = int(rng.choice([1, 2, columns - 1, columns, columns + 1, rng.integers(1, 40)]))
        numbers = only or rng.random() < 0.4
        constant = not numbers and rng.random() < 0.5
        valid, ready = rng.choice([0.2, 0.6, 0.95, 1.0], 2)
        reset = rng.random() < 0.5
        yield _Job(length, numbers, constant, int(rng.integers(20, 100)), valid, ready, reset)


def _played(
    rng: np.random.Generator, module: Module
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Inputs of each cycle and the outputs that belong to them, -1 where they may be any."""
    columns = module.parameters["columns"]
    inputs: dict[str, list[Any]] = {
        name: []
        for name in (
            *("rst", "start", "beats", "numbers", "constant"),
            *("s_axis_tdata", "s_axis_tvalid", "m_axis_tready"),
        )
    }
    outputs: dict[str, list[Any]] = {
        name: [] for name in ("s_axis_tready", "m_axis_tvalid", "m_axis_tdata")
    }
    beat = rng.integers(0, 1 << 32, columns)
    for job in _jobs(rng, module):
        given = taken_of_beat = 0
        waits: int | None = None
        offered = False
        # At first what is left of the job before is taken, or forgotten in a reset.
        for clock in range(-2, job.clocks):
            starts = clock == -1
            offered = clock >= 0 and (offered or rng.random() < job.valid)
            taken = clock == -2 and not job.reset
            ready = taken or (clock >= 0 and rng.random() < job.ready)
            now = {
                "rst": starts and job.reset,
                "start": starts,
                "beats": job.length,
                "numbers": job.numbers,
                "constant": job.constant,
                "s_axis_tdata": beat,
                "s_axis_tvalid": offered,
                "m_axis_tready": ready,
            }
            for name, value in now.items():
                inputs[name].append(value)
            room = waits is None or ready if job.numbers else ready
            ends_row = given == job.length - 1
            if job.numbers:
                ends_beat = ends_row or taken_of_beat == columns - 1
            else:
                ends_beat = ends_row or not job.constant
            shown: NDArray[np.int64] | None = None
            if job.numbers and waits is not None:
                shown = np.array([waits, *[0] * (columns - 1)])
            elif not job.numbers and offered:
                shown = beat
            outputs["s_axis_tready"].append(int(room and ends_beat) if clock >= 0 else -1)
            outputs["m_axis_tvalid"].append(int(shown is not None) if clock >= 0 else -1)
            outputs["m_axis_tdata"].append(np.zeros(columns, np.int64) if shown is None else shown)
            moves = offered and room
            if job.numbers and room:
                waits = int(beat[taken_of_beat]) if moves else None
            if moves:
                given = 0 if ends_row else given + 1
                taken_of_beat = 0 if ends_beat else taken_of_beat + 1
                if ends_beat:
                    offered = False
                    beat = rng.integers(0, 1 << 32, columns)
    return (
        {name: np.array(values) for name, values in inputs.items()},
        {name: np.array(values) for name, values in outputs.items()},
    )


@pytest.mark.parametrize("name", typical(published(SecondOperand), every=3))
def test_operands(name: str, modules: dict[str, Module]) -> None:
    module = modules[name]
    ports = module.ports
    inputs, expected = _played(np.random.default_rng(1), module)
    words = {
        port.name: port.join(inputs[port.name])
        if port.fields[1:]
        else port.words(inputs[port.name])
        for port in ports.values()
        if port.direction == "input" and port.name != "clk"
    }
    log = run_lockstep("icarus", module, words, unsettled=_UNKNOWN)
    for pin, wanted in expected.items():
        at = np.flatnonzero(
            expected["m_axis_tvalid"] == 1 if pin == "m_axis_tdata" else wanted >= 0
        )
        if pin != "m_axis_tdata":
            got = ports[pin].numbers(log[pin]).astype(np.int64)
            assert_equal(pin, got[at], wanted[at], clock=at)
            continue
        lanes = ports[pin].split(log[pin]).reshape(len(log[pin]), -1).astype(np.int64)
        numbers = inputs["numbers"][at].astype(np.bool_)
        assert_equal("a number", lanes[at, 0], wanted[at, 0], clock=at)
        if not module.parameters["only_numbers"]:
            beats = at[~numbers]
            assert_equal("a beat", lanes[beats], wanted[beats], clock=beats)
    assert 0 < expected["m_axis_tvalid"][expected["m_axis_tvalid"] >= 0].mean() < 1


test_configurations_that_cannot_work = refused(
    SecondOperand,
    [
        ({"columns": 12}, "columns must be a power of two, not 12"),
        ({"columns": 1}, "columns must be 2 or more, not 1"),
    ],
)
