"""Addresses of nested loops: random loops, with sums that exceed an address, against sums.

Small loops come to all their ends; those of the machine are long, one after the other.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from mxsafe.rtl.machine.dma.address_generator import AddressGenerator
from mxsafe.rtl.machine.dma.buffer_address_generator import BufferAddressGenerator
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.tests import Volume, refused, typical
from verif.support.units import generated, published

COUNT_BITS, STEP_BITS, START_BITS, ADDRESS_BITS = (3, 2, 2), (2, 4, 3), 5, 6
SMALL = {
    "count_bits": COUNT_BITS,
    "step_bits": STEP_BITS,
    "start_bits": START_BITS,
    "address_bits": ADDRESS_BITS,
    "paced": False,
}
MOST_TURNS = 1500
"""Of a walk."""


def _counts(rng: np.random.Generator, bits: tuple[int, ...]) -> list[int]:
    """Turns of each loop, now and then many of one."""
    counts = [int(rng.integers(1, 1 << bit)) for bit in bits]
    for at in rng.permutation(len(counts)).tolist():
        others = math.prod(counts) // counts[at]
        if others * counts[at] > MOST_TURNS:
            counts[at] = int(rng.integers(1, max(2, min(counts[at], MOST_TURNS // others) + 1)))
    return counts


def _rows(
    walks: int, parameters: Mapping[str, Any]
) -> tuple[list[dict[str, int]], list[tuple[int, int, int] | None]]:
    """Inputs of each cycle, and address, last and last_turn after it; None where there is none."""
    rng = np.random.default_rng(1)
    top = parameters["address_bits"] - 1
    rows: list[dict[str, int]] = []
    expected: list[tuple[int, int, int] | None] = []
    before: tuple[int, int, int] | None = None
    longest = len(parameters["count_bits"])
    for walk in range(walks + longest):
        counts = _counts(rng, parameters["count_bits"])
        steps = [int(rng.integers(0, 1 << bits)) for bits in parameters["step_bits"]]
        # Some loops stay where addresses are small enough, as all do that the machine accepts.
        small = int(rng.integers(0, min(parameters["step_bits"]) + 1))
        steps = [
            step >> max(0, bits - small) if rng.integers(0, 2) else step
            for step, bits in zip(steps, parameters["step_bits"], strict=True)
        ]
        start = int(rng.integers(0, 1 << parameters["start_bits"])) >> int(rng.integers(0, 4))
        if walk < longest:
            # Each loop by itself as far as it goes.
            bits, step_bits = parameters["count_bits"][walk], parameters["step_bits"][walk]
            counts = [1] * longest
            counts[walk], steps[walk] = (1 << bits) - 1, (1 << step_bits) - 1
            start = (1 << parameters["start_bits"]) - 1
        fields = {f"count_{i}": count for i, count in enumerate(counts)}
        fields |= {f"step_{i}": step for i, step in enumerate(steps)}
        rows.append({**fields, "start": start, "begins": 1, "advance": int(rng.integers(0, 2))})
        expected.append(before)
        turns = list(product(*(range(count) for count in reversed(counts))))
        for number, turn in enumerate(turns):
            address = start + sum(i * s for i, s in zip(reversed(turn), steps, strict=True))
            # Once past what an address can be, it stays there.
            beyond = address >> top > 0
            low = address & (1 << top) - 1
            ends = all(i == count - 1 for i, count in zip(turn[:-1], counts[:0:-1], strict=True))
            now = (low | beyond << top, int(number == len(turns) - 1), int(ends))
            if parameters["paced"]:
                rows.append({**fields, "start": 0, "begins": 0, "advance": 0})
                expected.append(None)
            for _ in range(int(rng.integers(0, 2))):
                rows.append({**fields, "start": 0, "begins": 0, "advance": 0})
                expected.append(now)
            if number == len(turns) - 1 and rng.integers(0, 2):
                before = now  # the next loops begin here
                break
            rows.append({**fields, "start": 0, "begins": 0, "advance": 1})
            expected.append(now)
            before = None
    return rows, expected


@pytest.mark.parametrize("paced", [False, True])
def test_random_loops(simulator: str, paced: bool) -> None:
    parameters = SMALL | {"paced": paced}
    module = generated(AddressGenerator(**parameters))
    _check(simulator, module, parameters, 200)


@pytest.mark.parametrize("name", typical(published(AddressGenerator), every=6))
def test_walks_of_the_machine(name: str, modules: dict[str, Module], volume: Volume) -> None:
    module = modules[name]
    _check("verilator", module, SMALL | module.parameters, volume(10, 20, 20))


def _check(simulator: str, module: Module, parameters: Mapping[str, Any], walks: int) -> None:
    """Compare addresses and ends of loops."""
    rows, expected = _rows(walks, parameters)
    stimulus = {
        name: np.array([row.get(name, 0) for row in rows])
        for name, port in module.ports.items()
        if port.direction == "input" and name != "clk"
    }
    log = run_lockstep(simulator, module, stimulus, unsettled=1)
    got = np.stack(
        [module.ports[name].numbers(log[name]) for name in ("address", "last", "last_turn")], axis=1
    )
    known = np.array([row is not None for row in expected])
    right = np.array([row for row in expected if row is not None], np.int64)
    most = sum(
        ((1 << bits) - 2) * ((1 << step) - 1)
        for bits, step in zip(parameters["count_bits"], parameters["step_bits"], strict=True)
    )
    beyond = (right[:, 0] >> parameters["address_bits"] - 1).any()
    assert beyond == (most + (1 << parameters["start_bits"]) > 1 << parameters["address_bits"] - 1)
    assert_equal("walk", got[known], right, row=np.flatnonzero(known))


test_configurations_that_cannot_work = refused(
    AddressGenerator,
    [
        ({"count_bits": (3, 0)}, "count_bits must be a positive integer, not 0"),
        (
            {"step_bits": (3, 2)},
            "step_bits must be 4 numbers, one for each of count_bits, not 2",
        ),
        ({"address_bits": 16}, "address_bits must be 17 or more, not 16"),
    ],
)

test_joined_words_that_cannot_work = refused(
    BufferAddressGenerator,
    [
        ({"together": 3}, "together must be a power of two, not 3"),
        ({"together": 2, "paced": True}, "together must be 1 if it is paced, not 2"),
    ],
)
