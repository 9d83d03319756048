"""What never starts, against the processes that the hardware of the queues is checked with."""

from itertools import permutations

import numpy as np
import pytest

from mxsafe.machine.description import ERRORS, MOST_TOKENS, QUEUES
from mxsafe.machine.tokens import Deadlock, Header, TokenQueues, deadlock_of
from verif.rtl.machine.control.queue_checks import Program, expected

LOAD, GEMM, VECTOR, STORE = range(len(QUEUES))
DEPTH = 8


def _deadlock_of_processes(program: list[Header], depth: int) -> int | None:
    queue, wait, signal = (list(column) for column in zip(*program, strict=True))
    found = expected(
        Program(queue=queue, wait=wait, signal=signal, payload=[0] * len(program)),
        depth=depth,
        most_tokens=MOST_TOKENS,
    )
    return found.number if found.error == ERRORS["deadlock"] else None


def _random_program(rng: np.random.Generator, count: int, run: int, lead: int) -> list[Header]:
    """Runs of descriptors of a queue, and tokens of random pairs.

    A token is taken up to so many descriptors of the taker later. A few are never given, or given
    behind what takes them.
    """
    queues = rng.integers(len(QUEUES), size=count).repeat(rng.integers(1, run + 1, count))[:count]
    waits, signals = np.zeros(count, int), np.zeros(count, int)
    pairs = list(permutations(range(len(QUEUES)), 2))
    for giver, taker in (pairs[one] for one in rng.choice(len(pairs), 3, replace=False)):
        gives = np.flatnonzero(queues == giver)
        takes = np.flatnonzero(queues == taker)
        behind = int(rng.integers(lead))
        for at, give in enumerate(gives):
            if at + behind < len(takes) and (rng.integers(50) or takes[at + behind] > give):
                signals[give] |= (rng.integers(400) > 0) << taker
                waits[takes[at + behind]] |= 1 << giver
    return [Header(*map(int, row)) for row in zip(queues, waits, signals, strict=True)]


def test_random_programs() -> None:
    rng = np.random.default_rng(4)
    ends = stuck = full = 0
    for number in range(300):
        run, lead = (200, 3) if number % 2 else (3, 120)
        program = _random_program(rng, int(rng.integers(2, 500)), run, lead)
        depth = int(rng.choice([1, 8, 300]))
        found = deadlock_of(program, depth)
        assert (found.descriptor if found else None) == _deadlock_of_processes(program, depth), (
            number
        )
        ends += found is None
        stuck += found is not None and "waits for a token" in found.reason
        full += found is not None and "never finds room" in found.reason
    assert min(ends, stuck, full) >= 5, (ends, stuck, full)


def test_what_it_says() -> None:
    alone = [Header(GEMM, 1 << LOAD | 1 << STORE, 0)]
    assert deadlock_of(alone, DEPTH) == Deadlock(
        0, "it waits for a token of load and store for ever"
    )
    given = [Header(LOAD, 0, 1 << GEMM)]
    assert deadlock_of(given + alone, DEPTH) == Deadlock(
        1, "it waits for a token of store for ever"
    )
    assert deadlock_of(given, DEPTH) is None
    assert deadlock_of([], DEPTH) is None


def test_what_a_counter_holds() -> None:
    """One token more than that, and who takes them is fetched behind a queue that is full."""
    given, taken = Header(LOAD, 0, 1 << GEMM), Header(GEMM, 1 << LOAD, 0)
    for count, depth, descriptor in (
        (MOST_TOKENS, DEPTH, None),
        (MOST_TOKENS + DEPTH, DEPTH, None),
        (MOST_TOKENS + DEPTH + 1, DEPTH, MOST_TOKENS),
        (MOST_TOKENS + DEPTH + 1, DEPTH + 1, None),
    ):
        found = deadlock_of([given] * count + [taken] * count, depth)
        assert found == (
            None
            if descriptor is None
            else Deadlock(
                descriptor,
                "its signal to gemm never finds room in the counter, which holds 63 tokens",
            )
        )


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_the_order_of_queues_changes_nothing(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        program = _random_program(rng, 200, 3, lead=60)
        queues, fetched, started = TokenQueues(DEPTH), 0, 0
        goes_on = True
        while goes_on:
            goes_on = False
            # A queue goes on for as long as it can before the next one does.
            if fetched < len(program) and queues.add(fetched, program[fetched]):
                fetched, goes_on = fetched + 1, True
            for queue in order:
                while (begins := queues.start(queue) is not None) or queues.retire(queue):
                    started, goes_on = started + begins, True
        assert queues.deadlock() == deadlock_of(program, DEPTH)
        if queues.deadlock() is None:
            assert started == len(program)
