"""Sums of a table with what they share: the same sums, and fewer terms."""

import numpy as np

from mxsafe.rtl.vector.segments import shared_pairs


def _items(item: int, count: int, pairs: list[tuple[int, int]]) -> list[int]:
    """Return the items whose sum an item is."""
    if item < count:
        return [item]
    return [each for part in pairs[item - count] for each in _items(part, count, pairs)]


def test_shared_pairs_leave_every_sum_what_it_is() -> None:
    rng = np.random.default_rng(51)
    count, compared = 40, 0
    for least in (2, 3, 5):
        columns = [set(np.flatnonzero(rng.random(count) < 0.4).tolist()) for _ in range(30)]
        columns[0] = set(range(count))
        found, pairs = shared_pairs(columns, least)
        for before, now in zip(columns, found, strict=True):
            items = [each for item in now for each in _items(item, count, pairs)]
            assert sorted(items) == sorted(before)
            compared += len(items)
        assert sum(map(len, found)) + 2 * len(pairs) < sum(map(len, columns))
    assert compared > 1_000


def test_what_few_share_stays() -> None:
    columns = [{0, 1}, {0, 1}, {1, 2}, set()]
    assert shared_pairs(columns, 3) == (columns, [])
    assert shared_pairs(columns, 2) == ([{3}, {3}, {1, 2}, set()], [(0, 1)])
    assert shared_pairs([], 2) == ([], [])
