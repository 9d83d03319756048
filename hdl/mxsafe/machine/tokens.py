"""The four queues and the tokens between them, untimed: what starts, and what never does.

A descriptor starts when every token that it waits for is there, and takes them. When it is done it
gives its tokens, each as soon as the counter has room, and the next one of its queue starts when
all are given. The hardware may start the next one earlier, but only while counters have room for
the tokens of all that run, so that nobody can tell. A counter has one queue that gives and one that
takes, so nothing that a queue can do is undone by another one: whatever the order in which queues
go on, the same descriptors start. One untimed run therefore decides whether a program ends
on the machine.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mxsafe.machine.description import MOST_TOKENS, QUEUES


class Header(NamedTuple):
    """Header of a descriptor, as the model of tokens needs it.

    Attributes
    ----------
    queue : int
        Its place in `mxsafe.machine.description.QUEUES`.
    wait, signal : int
        Queues whose token it takes before its start, and that get one at its end: a bit for each.
    """

    queue: int
    wait: int
    signal: int


class Deadlock(NamedTuple):
    """Place where a program stops because no queue can go on.

    Attributes
    ----------
    descriptor : int
        The lowest number among the descriptors that wait, which the machine reports.
    reason : str
        What it waits for.
    """

    descriptor: int
    reason: str


@dataclass
class _Entry:
    """A descriptor that has a place in its queue."""

    number: int
    header: Header
    runs: bool = False
    owed: int = 0
    """Tokens that it has yet to give, from its start on."""


class TokenQueues:
    """Queues that take descriptors in order, start them, and count tokens.

    Parameters
    ----------
    depth : int
        Descriptors that have a place in each queue.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._queues: list[deque[_Entry]] = [deque() for _ in QUEUES]
        self._tokens = [[0] * len(QUEUES) for _ in QUEUES]  # from, to

    def add(self, number: int, header: Header) -> bool:
        """Give a descriptor a place in its queue; whether there is one."""
        queue = self._queues[header.queue]
        if len(queue) >= self._depth:
            return False
        queue.append(_Entry(number, header))
        return True

    def start(self, queue: int) -> int | None:
        """Start the next descriptor of a queue, if its tokens are there; return its number."""
        entry = self._first(queue)
        if entry is None or entry.runs or self._missing(entry.header):
            return None
        for other in bits(entry.header.wait):
            self._tokens[other][queue] -= 1
        entry.runs, entry.owed = True, entry.header.signal
        return entry.number

    def retire(self, queue: int) -> bool:
        """Give tokens of the descriptor that has run, if there is one; whether anything changed.

        It leaves its queue when all its tokens are given.
        """
        entry = self._first(queue)
        if entry is None or not entry.runs:
            return False
        given = [to for to in bits(entry.owed) if self._tokens[queue][to] < MOST_TOKENS]
        for to in given:
            self._tokens[queue][to] += 1
            entry.owed &= ~(1 << to)
        if not entry.owed:
            self._queues[queue].popleft()
        return bool(given) or not entry.owed

    def deadlock(self) -> Deadlock | None:
        """Return the deadlock, once no queue can go on; None if all queues are empty."""
        entry = min((q[0] for q in self._queues if q), key=lambda e: e.number, default=None)
        if entry is None:
            return None
        if entry.runs:
            reason = f"its signal to {_names(bits(entry.owed))} never finds room in the counter, "
            reason += f"which holds {MOST_TOKENS} tokens"
        else:
            reason = f"it waits for a token of {_names(self._missing(entry.header))} for ever"
        return Deadlock(entry.number, reason)

    def _first(self, queue: int) -> _Entry | None:
        return self._queues[queue][0] if self._queues[queue] else None

    def _missing(self, header: Header) -> list[int]:
        """Queues whose token a descriptor lacks."""
        return [other for other in bits(header.wait) if not self._tokens[other][header.queue]]


def deadlock_of(program: Iterable[Header], depth: int) -> Deadlock | None:
    """The place where a program waits for ever; None if it comes to its end.

    The time is linear in the length of the program.

    Parameters
    ----------
    program : iterable of Header
    depth : int
        Descriptors that have a place in each queue of the machine.
    """
    queues = TokenQueues(depth)
    numbered = enumerate(program)
    following = next(numbered, None)
    goes_on = True
    while goes_on:
        goes_on = False
        while following is not None and queues.add(*following):
            following = next(numbered, None)
            goes_on = True
        for queue in range(len(QUEUES)):
            goes_on |= queues.start(queue) is not None
            goes_on |= queues.retire(queue)
    return queues.deadlock()


def bits(mask: int) -> tuple[int, ...]:
    """Queues of a mask."""
    return _QUEUES[mask]


_QUEUES = [
    tuple(queue for queue in range(len(QUEUES)) if mask >> queue & 1)
    for mask in range(1 << len(QUEUES))
]


def _names(queues: Iterable[int]) -> str:
    return " and ".join(QUEUES[queue] for queue in queues)
