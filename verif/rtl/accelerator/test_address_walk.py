"""Addresses of nested loops: random loops, with sums that exceed an address, against sums."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.accelerator.address_walk import AddressWalk
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import run_lockstep
from verif.support.tests import Tally

COUNT_BITS, STEP_BITS, START_BITS, ADDRESS_BITS = (3, 2, 2), (2, 4, 3), 5, 6


def _rows(
    walks: int, paced: bool
) -> tuple[list[dict[str, int]], list[tuple[int, int, int] | None]]:
    """Inputs of each clock, and address, last and last_turn after it; None where there is none."""
    rng = np.random.default_rng(1)
    rows: list[dict[str, int]] = []
    expected: list[tuple[int, int, int] | None] = []
    before: tuple[int, int, int] | None = None
    for _ in range(walks):
        counts = [int(rng.integers(1, 1 << bits)) for bits in COUNT_BITS]
        steps = [int(rng.integers(0, 1 << bits)) for bits in STEP_BITS]
        start = int(rng.integers(0, 1 << START_BITS))
        fields = {f"count_{i}": count for i, count in enumerate(counts)}
        fields |= {f"step_{i}": step for i, step in enumerate(steps)}
        rows.append({**fields, "start": start, "begins": 1, "advance": int(rng.integers(0, 2))})
        expected.append(before)
        turns = list(product(*(range(count) for count in reversed(counts))))
        for number, turn in enumerate(turns):
            address = start + sum(i * s for i, s in zip(reversed(turn), steps, strict=True))
            # Once past what an address can be, it stays there.
            beyond = address >> ADDRESS_BITS - 1 > 0
            low = address & (1 << ADDRESS_BITS - 1) - 1
            ends = all(i == count - 1 for i, count in zip(turn[:-1], counts[:0:-1], strict=True))
            now = (low | beyond << ADDRESS_BITS - 1, int(number == len(turns) - 1), int(ends))
            if paced:
                rows.append({**fields, "start": 0, "begins": 0, "advance": 0})
                expected.append(None)
            for _ in range(int(rng.integers(0, 2))):
                rows.append({**fields, "start": 0, "begins": 0, "advance": 0})
                expected.append(now)
            if number == len(turns) - 1 and rng.integers(0, 2):
                before = now  # the next walk begins here
                break
            rows.append({**fields, "start": 0, "begins": 0, "advance": 1})
            expected.append(now)
            before = None
    return rows, expected


@pytest.mark.parametrize("paced", [False, True])
def test_random_loops(simulator: str, paced: bool, tmp_path: Path, tally: Tally) -> None:
    unit = AddressWalk(
        count_bits=COUNT_BITS,
        step_bits=STEP_BITS,
        start_bits=START_BITS,
        address_bits=ADDRESS_BITS,
        paced=paced,
    )
    module = generated(unit, tmp_path)
    rows, expected = _rows(200, paced)
    stimulus = {
        name: port.words(np.array([row.get(name, 0) for row in rows]))
        for name, port in module.ports.items()
        if port.direction == "input" and name != "clk"
    }
    log = run_lockstep(simulator, module, stimulus, unsettled=1)
    got = np.stack(
        [module.ports[name].numbers(log[name]) for name in ("address", "last", "last_turn")], axis=1
    )
    known = np.array([row is not None for row in expected])
    right = np.array([row for row in expected if row is not None], np.int64)
    assert (right[:, 0] >> ADDRESS_BITS - 1).any()
    compared = assert_equal("walk", got[known], right, row=np.flatnonzero(known))
    tally(simulator, "address_walk", compared)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"count_bits": (3, 0)}, "count_bits must be a positive integer, not 0"),
        (
            {"step_bits": (3, 2)},
            "step_bits must be 4 numbers, one for each of count_bits, not 2",
        ),
        ({"address_bits": 16}, "address_bits must be 17 or more, not 16"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        AddressWalk(**parameters)
    assert str(error.value) == message
