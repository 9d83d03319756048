"""Which descriptor waits for which: tokens from what descriptors read and write.

The machine has no hazard hardware. A program is written down in an order in which its descriptors
could run one after the other; here each one is compared with those before it that touch the same
place, and where they are in different queues, a token is sent from one to the other.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from mxsafe.machine.description import MOST_TOKENS, QUEUES


@dataclass(frozen=True)
class Access:
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


@dataclass
class _Segment:
    """Places of a space that were last touched by the same descriptors."""

    start: int
    stop: int
    writer: int | None = None
    readers: dict[int, int] = field(default_factory=dict)
    """Descriptors that read it since it was written; of those of a key the last one."""

    def part(self, start: int, stop: int) -> "_Segment":
        return _Segment(start, stop, self.writer, dict(self.readers))


_start = attrgetter("start")


class _Space:
    """Segments of a space in the order of their places; together they cover what was touched."""

    def __init__(self) -> None:
        self._segments: list[_Segment] = []

    def touched(self, start: int, stop: int) -> list[_Segment]:
        """Segments that cover exactly these places, from the first to the last."""
        segments = self._segments
        first = bisect_left(segments, start, key=_start)
        if first and segments[first - 1].stop > start:
            first -= 1
        elif first < len(segments) and (segments[first].start, segments[first].stop) == (
            start,
            stop,
        ):
            return [segments[first]]
        last = bisect_left(segments, stop, first, key=_start)
        pieces, inside, rest, at = [], [], [], start
        for old in segments[first:last]:
            if old.start < start:
                pieces.append(old.part(old.start, start))
            if old.start > at:
                inside.append(_Segment(at, old.start))
            if old.stop > stop:
                rest.append(old.part(stop, old.stop))
            if old.start < start or old.stop > stop:
                old = old.part(max(old.start, start), min(old.stop, stop))
            inside.append(old)
            at = old.stop
        if at < stop:
            inside.append(_Segment(at, stop))
        segments[first:last] = [*pieces, *inside, *rest]
        return inside

    def replace(self, start: int, stop: int, writer: int) -> None:
        """One segment, just written, in the place of those that `touched` has made."""
        first, last = (bisect_left(self._segments, end, key=_start) for end in (start, stop))
        self._segments[first:last] = [_Segment(start, stop, writer)]


class Touches:
    """What descriptors read and write, in the order of a program."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    def before(self, access: Access) -> set[int]:
        """Descriptors that must have ended before this access."""
        space = self._spaces.setdefault(access.space, _Space())
        found: set[int] = set()
        for start, stop in access.spans:
            for segment in space.touched(start, stop):
                if segment.writer is not None:
                    found.add(segment.writer)
                if access.writes:
                    found.update(segment.readers.values())
        return found

    def note(self, access: Access, number: int, key: int) -> None:
        """Note an access of a descriptor; as a reader it takes the place of one of the same key."""
        space = self._spaces[access.space]
        for start, stop in access.spans:
            if access.writes:
                space.touched(start, stop)
                space.replace(start, stop, number)
            else:
                for segment in space.touched(start, stop):
                    segment.readers[key] = number


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
        before: set[int] = set()
        accesses = list(accesses)
        for access in accesses:
            before |= self._touches.before(access)
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
        for access in accesses:
            self._touches.note(access, number, queue)
        return number

    def _giver(self, queue: int, taker: int, last: int) -> int:
        """Descriptor of a queue that gives the token which says that the last one has ended."""
        # When descriptors run one after the other, a token is outstanding from its giver to its
        # taker.
        takers = self._takers[queue][taker]
        while takers and takers[0] < last:
            takers.popleft()
        return last if len(takers) + 1 < self._most_tokens else self._latest[queue]
