"""Length of the reset in benches, and cycles in which their sources and sinks pause."""

import random
from collections.abc import Iterator

RESET_CLOCKS = (4, 1)
"""Lengths of resets, in turn; before the first one every register is unknown."""

READY_AFTER_VALID = 0.25
"""How often what a sink takes has to show itself first."""


def pauses(seed: int, probability: float, burst: int = 64) -> Iterator[bool]:
    """Whether a stream pauses, cycle by cycle: random, in bursts of random density."""
    generator = random.Random(seed)
    while True:
        density = generator.choice((0.0, probability, 2 * probability))
        for _ in range(burst):
            yield generator.random() < density


class ReadyAfterValid:
    """Whether a sink that pauses waits, now and then, until it has seen what is offered.

    A unit may not wait for its sink to be ready before it offers something: with such a sink it
    would wait for ever.

    Parameters
    ----------
    stall : float
        How often the sink pauses; one that never does never waits for valid.
    """

    def __init__(self, seed: int, stall: float) -> None:
        self._random = random.Random(seed)
        self._chance = READY_AFTER_VALID if stall else 0.0
        self.forget()

    def forget(self) -> None:
        """Nothing was seen, as after a reset."""
        self._seen = False
        self._waits = self._random.random() < self._chance

    @property
    def may_take(self) -> bool:
        """Whether the sink may be ready in this cycle."""
        return self._seen or not self._waits

    def see(self, *, valid: bool, ready: bool) -> None:
        """End a cycle, in which something was offered or not, to a sink that was ready or not."""
        if valid and ready:
            self.forget()
        else:
            self._seen = valid
