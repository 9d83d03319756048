"""Order of descriptors: tokens for those that read or write the same places.

The machine has no hazard hardware. A program is written down in an order in which its descriptors
could run one after the other; here each one is compared with those before it that touch the same
place, and where they are in different queues, a token is sent from one to the other.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple

from mxsafe.machine.description import MOST_TOKENS, QUEUES


class Access(NamedTuple):
    """Access of a descriptor to a buffer or to memory.

    Attributes
    ----------
    space : str
        Name of the buffer, or ``memory``.
    spans : tuple of tuple of int
        First place and the place after the last one, of each run of places; in whatever unit is
        used for this space everywhere.
    writes : bool
    """

    space: str
    spans: tuple[tuple[int, int], ...]
    writes: bool = False

    @classmethod
    def rows(
        cls, space: str, start: int, length: int, count: int = 1, stride: int = 0, *, writes: bool
    ) -> "Access":
        """Runs of a length that stand a stride apart."""
        if count == 1 or stride == length:
            return cls(space, ((start, start + length * count),), writes)
        starts = range(start, start + count * stride, stride) if stride else (start,)
        return cls(space, tuple((s, s + length) for s in starts), writes)


class _Space:
    """Segments of a space in the order of their places: what touched each last.

    A segment ends where the next one begins, the last one never does.
    """

    def __init__(self) -> None:
        self._starts = [0]
        self._writers = [-1]
        # Descriptors that have read it since; of those of a key the last one.
        self._readers: list[dict[int, int]] = [{}]

    def _from(self, place: int) -> int:
        """The segment that begins here."""
        at = bisect_left(self._starts, place)
        if at == len(self._starts) or self._starts[at] != place:
            self._starts.insert(at, place)
            self._writers.insert(at, self._writers[at - 1])
            self._readers.insert(at, dict(self._readers[at - 1]))
        return at

    def read(self, start: int, stop: int, number: int, key: int) -> list[int]:
        """Note a reader in place of the one of its key; return those that have written."""
        first, last = self._from(start), self._from(stop)
        for readers in self._readers[first:last]:
            readers[key] = number
        return self._writers[first:last]

    def written(self, start: int, stop: int, number: int) -> list[int]:
        """Note a writer; return those that have written or read."""
        first, last = self._from(start), self._from(stop)
        before = self._writers[first:last]
        for readers in self._readers[first:last]:
            before += readers.values()
        self._starts[first:last] = [start]
        self._writers[first:last] = [number]
        self._readers[first:last] = [{}]
        return before


class Touches:
    """Places that descriptors read and write, in the order of a program."""

    def __init__(self) -> None:
        self._spaces: defaultdict[str, _Space] = defaultdict(_Space)

    def touch(self, accesses: Iterable[Access], number: int, key: int) -> set[int]:
        """Note all accesses of a descriptor; return those that must have ended before it.

        As a reader it takes the place of one of the same key.
        """
        before: set[int] = set()
        for access in accesses:
            space = self._spaces[access.space]
            for start, stop in access.spans:
                if access.writes:
                    before.update(space.written(start, stop, number))
                else:
                    before.update(space.read(start, stop, number, key))
        return before - {-1, number}


class Ordering:
    """Tokens between descriptors, which are added in the order of the program.

    Parameters
    ----------
    most_tokens : int
        What a counter of tokens holds.

    Attributes
    ----------
    queues : list of int
        Queue of each descriptor.
    waits, signals : list of int
        A bit for each queue, as in a descriptor's header.

    Notes
    -----
    Queues run their descriptors in order, so a token from a descriptor says that all before it in
    its queue have ended too, and the next one in the other queue to wait is the one that it is
    for. What a queue already knows of another needs no further token.

    No program deadlocks. It can run one descriptor after the other: each waits for earlier ones
    only, and no counter overflows, because the last token that it has room for comes from the
    latest descriptor of its queue, after which no token of theirs is outstanding. What can run in
    one order ends in every order, see `mxsafe.machine.tokens`.
    """

    def __init__(self, most_tokens: int = MOST_TOKENS) -> None:
        self._most_tokens = most_tokens
        self.queues: list[int] = []
        self.waits: list[int] = []
        self.signals: list[int] = []
        self._touches = Touches()
        # Last descriptor of a queue (first index) that another queue knows to have ended.
        self._known = [[-1] * len(QUEUES) for _ in QUEUES]
        # By the same queues: descriptors that take tokens, of which some may be outstanding.
        self._takers: list[list[deque[int]]] = [[deque() for _ in QUEUES] for _ in QUEUES]
        self._latest = [-1] * len(QUEUES)

    def add(self, queue: int, accesses: Iterable[Access]) -> int:
        """Add a descriptor; return its number."""
        number = len(self.queues)
        before = self._touches.touch(accesses, number, queue)
        self.queues.append(queue)
        self.signals.append(0)
        self.waits.append(0)
        latest = [-1] * len(QUEUES)
        for earlier in before:
            latest[self.queues[earlier]] = max(latest[self.queues[earlier]], earlier)
        for other in range(len(QUEUES)):
            last = latest[other]
            if other != queue and last > self._known[other][queue]:
                giver = self._giver(other, queue, last)
                self._known[other][queue] = giver
                self._takers[other][queue].append(number)
                self.signals[giver] |= 1 << queue
                self.waits[number] |= 1 << other
        self._latest[queue] = number
        return number

    def _giver(self, queue: int, taker: int, last: int) -> int:
        """Descriptor of a queue that gives the token which says that the last one has ended."""
        # When descriptors run one after the other, a token is outstanding from its giver to its
        # taker.
        takers = self._takers[queue][taker]
        while takers and takers[0] < last:
            takers.popleft()
        return last if len(takers) + 1 < self._most_tokens else self._latest[queue]
