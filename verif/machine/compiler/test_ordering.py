"""Tokens of random programs, against all that must be ordered, found one by one."""

import numpy as np
import pytest

from mxsafe.machine.compiler.ordering import Access, Ordering
from mxsafe.machine.compiler.places import Allocator, CompileError, Memory
from verif.rtl.machine.control.queue_checks import Program, expected
from verif.support.tests import raises

_QUEUES = 4


def _ended_before(ordering: Ordering) -> np.ndarray:
    """Matrix: whether a descriptor has surely ended (column) when another one begins (row)."""
    count = len(ordering.queues)
    before = np.zeros((count, count), bool)
    tokens: dict[tuple[int, int], list[int]] = {}
    last: dict[int, int] = {}
    for number, queue in enumerate(ordering.queues):
        known = [last[queue]] if queue in last else []
        for other in range(_QUEUES):
            if ordering.waits[number] >> other & 1:
                known.append(tokens[other, queue].pop(0))
        for earlier in known:
            before[number] |= before[earlier]
            before[number, earlier] = True
        for other in range(_QUEUES):
            if ordering.signals[number] >> other & 1:
                tokens.setdefault((queue, other), []).append(number)
        last[queue] = number
    assert not any(tokens.values()), "tokens are left"
    return before


@pytest.mark.parametrize("seed", range(5))
def test_conflicts_are_ordered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ordering = Ordering()
    touched: list[list[tuple[str, set[int], bool]]] = []
    for _ in range(150):
        accesses = []
        for _ in range(rng.integers(1, 4)):
            access = Access.rows(
                str(rng.choice(["memory", "vector"])),
                int(rng.integers(60)),
                int(rng.integers(1, 9)),
                int(rng.integers(1, 4)),
                int(rng.integers(9, 20)),
                writes=bool(rng.integers(2)),
            )
            accesses.append(access)
        touched.append(
            [
                (a.space, {p for start, stop in a.spans for p in range(start, stop)}, a.writes)
                for a in accesses
            ]
        )
        ordering.add(int(rng.integers(_QUEUES)), accesses)
    before = _ended_before(ordering)
    conflicts = 0
    for later, parts in enumerate(touched):
        for earlier in range(later):
            clash = any(
                space == other and (writes or wrote) and places & others
                for space, places, writes in parts
                for other, others, wrote in touched[earlier]
            )
            if clash:
                conflicts += 1
                assert before[later, earlier], (earlier, later)
    assert conflicts > 100
    assert sum(map(bool, ordering.waits)) < len(touched)


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_tokens_fit_into_their_counters(most: int) -> None:
    """Places that one queue writes and another reads, many at once: all end with small counters."""
    rng = np.random.default_rng(most)
    for _ in range(30):
        ordering = Ordering(most)
        while len(ordering.queues) < 120:
            first = int(rng.integers(30))
            for queue, writes in (
                (int(rng.integers(_QUEUES)), True),
                (int(rng.integers(4)), False),
            ):
                for place in range(first, first + int(rng.integers(1, 20))):
                    ordering.add(queue, [Access("memory", ((place, place + 1),), writes=writes)])
        program = Program(
            ordering.queues, ordering.waits, ordering.signals, [0] * len(ordering.queues)
        )
        assert expected(program, depth=1, most_tokens=most).error == 0
        assert _ended_before(ordering).any()


def test_readers_of_one_place_do_not_wait_for_each_other() -> None:
    ordering = Ordering()
    ordering.add(0, [Access("memory", ((0, 8),), writes=True)])
    for queue in (1, 2, 3):
        ordering.add(queue, [Access("memory", ((4, 8),))])
    assert ordering.waits == [0, 1, 1, 1]
    assert ordering.signals == [0b1110, 0, 0, 0]


def test_what_is_known_needs_no_second_token() -> None:
    ordering = Ordering()
    ordering.add(0, [Access("a", ((0, 1),), writes=True)])
    ordering.add(0, [Access("a", ((1, 2),), writes=True)])
    ordering.add(1, [Access("a", ((1, 2),))])
    ordering.add(1, [Access("a", ((0, 1),))])
    assert ordering.waits == [0, 0, 1, 0]
    assert ordering.signals == [0, 2, 0, 0]


def test_places_are_allocated_in_turn() -> None:
    room = Allocator("a buffer", 6, multiple=2)
    assert [room.alloc(2, "first"), room.alloc(1, "second")] == [0, 2]
    room.free(0)
    assert room.alloc(2, "third") == 4
    assert room.alloc(2, "fourth") == 0
    with raises(CompileError, "a tile must fit into 0 free places of a buffer (6 in all), not 2"):
        room.alloc(1, "a tile")


def test_memory_ends() -> None:
    memory = Memory(32)
    assert [memory.alloc(2), memory.alloc(1)] == [0, 64]
    with pytest.raises(CompileError, match=r"^tensors must fit into 2\^32 bytes of memory, not "):
        memory.alloc(1 << 27)
