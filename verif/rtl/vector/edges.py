"""Where what can be seen of a unit changes: there no bit of what it adds up may be missed."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]


def first_changes(seen: Callable[[Steps], NDArray[Any]], count: int, most: int) -> Steps:
    """Steps up to `most`, of so many cases, with which other things are seen than one step before.

    What is seen without a step and with the step before is the same. With `most` steps it is
    another in all cases.
    """
    low, high = np.zeros(count, np.int64), np.full(count, most)
    before = seen(low)
    assert (seen(high) != before).all(), "some cases never change"
    while (high - low > 1).any():
        middle = (low + high) // 2
        same = seen(middle) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return high
