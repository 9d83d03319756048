"""The order of a program and the places of its parts in the buffers, found together.

A `Draft` is a program whose buffers never end: what it allocates has places that nothing else has.
So only what descriptors compute says which comes before which. `scheduled` runs it on the timing
model, four queues side by side. Each queue takes, of the descriptors whose inputs are there, the
first one that need not wait; what the program has later comes earlier, if its part of a buffer has
room beside all that comes before it. So weights are prefetched, and products of one part of a
network stand beside vectors of another, whatever the network.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mxsafe.machine.compiler.emitter import Emitter, Step
from mxsafe.machine.compiler.ordering import Access, Touches
from mxsafe.machine.compiler.places import Allocator, CompileError
from mxsafe.machine.compiler.timing import Engines, Times
from mxsafe.machine.description import DESCRIPTORS, LOAD_BUFFERS, QUEUES, TARGETS

_LOOKAHEAD = 256
"""Descriptors of the program that may be looked at behind the first one that has not run."""
_SAVED = 100
"""Descriptors after which a run is saved, to go on from there in another way."""
_OVERTAKEN = 80
"""Descriptors by which a load may be earlier than the first one that waits for room in a buffer."""
_RECENT = 8
"""Of the runs that were saved so many are all kept, of older ones fewer."""
_CANDIDATES = 24
"""Descriptors that a queue looks at before it takes one for which it waits."""
_APART = 120
"""Descriptors after which a place is used again, if there are others."""
_OTHER_TIMES: Mapping[str, Any] = {"load": 2, "store": 2, "gemm": 29, "vector": 5}
"""By which orders are found: of a draft nobody knows banks, or when descriptors are fetched."""
_LONG = 60
"""Descriptors between the first and the last use of a part that is kept at the end of a buffer."""


@dataclass(eq=False)
class Part:
    """A part of a buffer that has been allocated.

    Attributes
    ----------
    start, size : int
        Its places in the draft.
    first, last : int
        Descriptors that use it first and last.
    uses : int
        How many use it.
    """

    start: int
    size: int
    first: int = -1
    last: int = -1
    uses: int = 0


class Endless(Allocator):
    """Allocator of places that are used once.

    Parameters
    ----------
    name, size, multiple
        As of the buffer whose parts these will be.
    """

    def __init__(self, name: str, size: int, *, multiple: int = 1) -> None:
        super().__init__(name, size, multiple=multiple)
        self.multiple = multiple
        self.parts: list[Part] = []
        self._starts: list[int] = []

    def alloc(self, count: int, purpose: str) -> int:
        """Allocate so many places and return the first."""
        length = -(-count // self.multiple) * self.multiple
        if length > self.size:
            raise CompileError(
                f"{purpose} must fit into the {self.size} places of {self.name}, not {length}"
            )
        start = self._next
        self._next += length
        self.parts.append(Part(start, length))
        self._starts.append(start)
        return start

    def free(self, start: int) -> None:
        """Nothing: a part is freed after its last use."""

    @property
    def used_parts(self) -> list[Part]:
        """Parts that some descriptor uses."""
        return [part for part in self.parts if part.uses]

    def part(self, place: int) -> Part:
        """The part that a place belongs to."""
        return self.parts[bisect_right(self._starts, place) - 1]


@dataclass(frozen=True)
class Drafted:
    """A descriptor of a draft.

    Attributes
    ----------
    step : Step
    accesses : list of Access
    before : set of int
        Descriptors that must have ended.
    parts : dict of Part to str
        That it uses, and of which buffer they are.
    """

    step: Step
    accesses: list[Access]
    before: set[int]
    parts: dict[Part, str]


class Draft(Emitter):
    """A program in the making, whose order and places are still to be found."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.allocators = {n: _endless(a) for n, a in self.allocators.items()}
        self.scale_allocators = {n: _endless(a, 2) for n, a in self.scale_allocators.items()}
        self.vector = _endless(self.vector)
        self.spaces: dict[str, Endless] = {"vector": self.vector}
        for kind, allocators in (("codes", self.allocators), ("scales", self.scale_allocators)):
            for side, own in allocators.items():
                self.spaces[f"{side}_{kind}"] = own  # type: ignore[assignment]
        self._units = {
            name: self.configuration.beat_words if name.endswith("codes") else 1
            for name in self.spaces
        }
        """What accesses count, for each place of a buffer."""
        self.drafted: list[Drafted] = []
        self._touches = Touches()
        self._written: list[tuple[int, int]] = []
        self._kept: list[tuple[int, int]] = []

    def keep(self, start: int, size: int) -> None:
        """Memory that the host has written and the program overwrites."""
        insort(self._kept, (start, start + size))

    def emit(self, kind: str, fields: Mapping[str, int], accesses: Iterable[Access]) -> None:
        """Add a descriptor."""
        number = len(self.drafted)
        parts: dict[Part, str] = {}
        accesses = [access for access in accesses if self._orders(access)]
        before = self._touches.touch(accesses, number, number)
        for access in accesses:
            if access.space in self.spaces:
                place = access.spans[0][0] // self._units[access.space]
                parts[self.spaces[access.space].part(place)] = access.space
        for part in parts:
            part.uses += 1
            part.last = number
            if part.first < 0:
                part.first = number
        step = Step(kind, fields)
        self.steps.append(step)
        self.drafted.append(Drafted(step, accesses, before, parts))

    def _orders(self, access: Access) -> bool:
        """Whether an access orders descriptors: memory that nothing writes is the host's."""
        if access.space != "memory" or any(_meets(self._kept, span) for span in access.spans):
            return True
        if access.writes:
            for start, stop in access.spans:
                insort(self._written, (start, stop))
            return True
        return any(_meets(self._written, span) for span in access.spans)

    def placed(self, number: int, bases: Mapping[Part, int]) -> tuple[dict[str, int], list[Access]]:
        """Fields and accesses of a descriptor whose parts are in their buffers."""
        own = self.drafted[number]
        fields = dict(own.step.fields)
        for name, space, unit in _addresses(own.step.kind, fields, self._units):
            place = fields[name] if unit >= 0 else 2 * fields[name]
            part = self.spaces[space].part(place // max(unit, 1))
            moved = bases[part] - part.start
            fields[name] += moved * unit if unit >= 0 else moved // 2
        accesses = []
        for access in own.accesses:
            if access.space in self.spaces:
                unit = self._units[access.space]
                part = self.spaces[access.space].part(access.spans[0][0] // unit)
                moved = (bases[part] - part.start) * unit
                spans = tuple((start + moved, stop + moved) for start, stop in access.spans)
                access = Access(access.space, spans, access.writes)
            accesses.append(access)
        return fields, accesses


def _meets(known: list[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Whether a span has a part of some others, of which none overlap."""
    at = bisect_left(known, (span[1], 0))
    return at > 0 and known[at - 1][1] > span[0]


def _endless(like: Allocator, multiple: int = 1) -> Endless:
    return Endless(like.name, like.size, multiple=multiple)


def _addresses(
    kind: str, fields: Mapping[str, int], units: Mapping[str, int]
) -> list[tuple[str, str, int]]:
    """Fields that are places: name, buffer, and what they count for each place; -1 is a half."""
    if kind in ("load", "store"):
        name = DESCRIPTORS[kind].field("buffer").name_of(fields["buffer"])
        unit = -1 if name.endswith("scales") else units[name]
        if name == "vector":
            unit = 1 if fields.get("widen", 0) or fields.get("narrow", 0) else 2
        return [("to" if kind == "load" else "from", name, unit)]
    if kind == "gemm":
        sides = [(f"{s}_{k}", f"{s}_{k}", 1) for s in ("a", "w") for k in ("codes", "scales")]
        return [*(one for one in sides if one[0] in fields), ("result", "vector", 1)]
    others = ("d",) if fields.get("causal") else ("y", "d")
    found = [(name, "vector", 1) for name in ("x", *others) if name == "x" or name in fields]
    if "out" in fields:
        side = TARGETS.name_of(fields["target"])
        found += [
            (name, f"{side}_{kind}", 1)
            for name, kind in (("out", "codes"), ("out_scales", "scales"))
            if name in fields
        ]
    return found


_Choice = tuple[int, int, int, list[tuple[Part, str, int]]]
"""What comes next: when it starts, its queue, its number, and new places."""


_Gaps = tuple[list[tuple[int, int]], int, int]
"""Gaps in a buffer, and places of the largest two."""


class _Places:
    """A buffer while a program runs: what is in it, and until when what was in it is used.

    Parts that are used for long have places of their own from the beginning, at the end of the
    buffer, which are left to them while descriptors between their first and last use run.
    """

    def __init__(self, size: int, parts: Sequence[Part], count: int) -> None:
        self.size = size
        self.used: list[tuple[int, int]] = []
        self.freed: list[tuple[int, int, int]] = []
        self.fixed = _packed([part for part in parts if part.last - part.first > _LONG], size)
        # By its first use the largest part that has no place of its own.
        self.largest = np.zeros(count, np.int64)
        for part in parts:
            if part not in self.fixed:
                self.largest[part.first] = max(self.largest[part.first], part.size)
        self._by_first = sorted(self.fixed, key=lambda part: part.first)
        self._firsts = [part.first for part in self._by_first]
        # Gaps beside what is used, by the first descriptor that has not run, and how many parts
        # have places of their own.
        self._known: dict[tuple[int, int], _Gaps] = {}

    def find(self, part: Part, head: int) -> tuple[int, int] | None:
        """A place for a part, and from when it is free."""
        length = part.size
        if part in self.fixed:
            place = self.fixed[part]
            if any(start < place + length and place < stop for start, stop in self.used):
                return None
            return place, self._free_at(place, length)
        gaps, largest, second = self._gaps(part, head)
        if length > largest:
            return None
        if part.first <= head:
            return self._earliest(gaps, length)
        # What is the first one's turn before this part must still find a gap.
        needed = int(self.largest[head : part.first].max())
        if max(largest - length, second) < needed and not (largest >= needed and second >= length):
            return None
        best = self._earliest(gaps, length)
        place = best[0]
        for start, stop in gaps:
            if start <= place < stop:
                if place - start >= needed or stop - place - length >= needed:
                    return best
            elif stop - start >= needed:
                return best
        return None

    def _gaps(self, part: Part, head: int) -> _Gaps:
        """Gaps beside parts that have places of their own until a part is no longer used."""
        while self._by_first and self._by_first[0].last < head:
            del self._by_first[0], self._firsts[0]
        kept = bisect_right(self._firsts, part.last)
        if (head, kept) in self._known:
            return self._known[head, kept]
        taken = [
            (self.fixed[one], self.fixed[one] + one.size)
            for one in self._by_first[:kept]
            if one.last >= head
        ]
        gaps, at = [], 0
        for start, stop in sorted([*self.used, *taken, (self.size, self.size)]):
            if start > at:
                gaps.append((at, start))
            if stop > at:
                at = stop
        *_, second, largest = sorted([0, 0, *(stop - start for start, stop in gaps)])
        found = self._known[head, kept] = gaps, largest, second
        return found

    def _earliest(self, gaps: list[tuple[int, int]], length: int) -> tuple[int, int]:
        """The place of a length in gaps that is free first, and from when; one must be as long."""
        best: list[tuple[int, int]] = []
        for start, stop in gaps:
            if stop - start >= length:
                places = [b for _, b, _ in self.freed if start < b <= stop - length]
                best.append(min((self._free_at(p, length), p) for p in (start, *places)))
        time, place = min(best)
        return place, time

    def restore(self, used: list[tuple[int, int]], freed: list[tuple[int, int, int]]) -> None:
        """Go back to what was there."""
        self.used, self.freed = [*used], [*freed]
        self._by_first = sorted(self.fixed, key=lambda part: part.first)
        self._firsts = [part.first for part in self._by_first]
        self._known.clear()

    def _free_at(self, place: int, length: int) -> int:
        stop = place + length
        return max((t for a, b, t in self.freed if a < stop and place < b), default=0)

    def take(self, place: int, length: int) -> None:
        """Take it."""
        insort(self.used, (place, place + length))
        self._known.clear()

    def give(self, place: int, length: int, time: int, now: int) -> None:
        """Give it back; it is used until a time."""
        self.used.remove((place, place + length))
        self.freed = [one for one in self.freed if one[2] > now]
        self.freed.append((place, place + length, time))
        self._known.clear()


def _packed(parts: list[Part], size: int) -> dict[Part, int]:
    """Places of parts, of which those that are there at the same time do not overlap.

    If they can, nor do those that are there shortly after each other.
    """
    best: dict[Part, int] = {}
    for apart in (_APART, _APART // 4, 0):
        found: dict[Part, int] = {}
        for part in sorted(parts, key=lambda part: (-part.size, part.first)):
            there = sorted(
                (place, place + one.size)
                for one, place in found.items()
                if one.first <= part.last + apart and part.first <= one.last + apart
            )
            place = _highest(there, part.size, size)
            if place is not None:
                found[part] = place
        if len(found) == len(parts):
            return found
        if len(found) > len(best):
            best = found
    return best


def _highest(there: list[tuple[int, int]], length: int, size: int) -> int | None:
    """The last place of a length between those that are taken."""
    at = size
    for start, stop in [*reversed(there), (0, 0)]:
        if at - stop >= length:
            return at - length
        at = min(at, start)
    return None


class _Run:
    """A draft that is run on the timing model."""

    def __init__(self, draft: Draft, times: Times, *, in_order: bool) -> None:
        self.draft, self.times = draft, times
        d = draft.drafted
        self.engines = Engines(draft.configuration, times)
        self.waiting = [len(one.before) for one in d]
        self.gated = {} if in_order else _gated(d)
        self.gates: dict[int, int] = {}
        for number, loads in self.gated.items():
            for load in loads:
                self.waiting[load] += 1
                self.gates[load] = max(self.gates.get(load, 0), number)
        self.after: list[list[int]] = [[] for _ in d]
        for number, one in enumerate(d):
            for before in one.before:
                self.after[before].append(number)
        self.operands = [*map(_operand, d)]
        self.ready_at = [0] * len(d)
        self.ready: list[list[int]] = [[] for _ in QUEUES]
        self.queue = [QUEUES.index(one.step.kind) for one in d]
        for number, count in enumerate(self.waiting):
            if not count:
                self.ready[self.queue[number]].append(number)
        self.places = {n: _Places(s.size, s.used_parts, len(d)) for n, s in draft.spaces.items()}
        self.done = bytearray(len(d) + 1)
        self.order: list[int] = []
        self.head = self.now = self.next_gemm = 0
        self.gemms = [number for number, queue in enumerate(self.queue) if queue == _GEMM]
        fields = [(number, d[number].step.fields) for number in self.gemms]
        self.chains = {n for n, own in fields if not (own["write"] and own["clear"])}
        self.chain = False
        self.next_sweep = -1
        self.sweeps = _sweeps(d)
        self.swept = set(self.sweeps.values())
        # What is in a buffer at each descriptor, if they run in order; and what came early.
        self.reserved = {}
        for name, space in draft.spaces.items():
            change = np.zeros(len(d) + 1, np.int64)
            for part in space.used_parts:
                change[part.first] += part.size
                change[part.last + 1] -= part.size
            self.reserved[name] = change.cumsum()
            if (most := int(self.reserved[name].max())) > space.size:
                raise CompileError(
                    f"parts of {space.name} that are needed together must fit into its "
                    f"{space.size} places, not {most}"
                )
        self.bases: dict[Part, int] = {}
        self.left: dict[Part, int] = {}
        self.until: dict[Part, int] = {}
        # How often there was more room, and how often when a descriptor had none.
        self.given = 0
        self.blocked: dict[int, int] = {}

    def run(self) -> None:
        """Find an order, and a place of each part."""
        count = len(self.draft.drafted)
        saved = [(0, self._saved())]
        narrow, lookahead, back = 0, _LOOKAHEAD, 1
        while len(self.order) < count:
            if self.head >= narrow:
                lookahead, back = _LOOKAHEAD, 1
            best: _Choice | None = None
            for engine, queue in sorted((self.engines.ready(q), q) for q in range(len(QUEUES))):
                if best is None or (engine, queue) < best[:2]:
                    best = self._pick(queue, engine, lookahead, best)
            if best is not None:
                self._commit(best[0], *best[2:])
                if len(self.order) >= saved[-1][0] + _SAVED:
                    saved.append((len(self.order), self._saved()))
                    saved = [one for one in saved if _kept(one[0], len(self.order))]
                continue
            if self.waiting[self.head] and self.gates[self.head] > self.head + lookahead:
                # It waits for a later one alone (see `_gated`), which is not looked at.
                self.waiting[self.head] = 0
                insort(self.ready[self.queue[self.head]], self.head)
                continue
            # Back to where there was more room, and from there more in order.
            if lookahead == 0 and back > 2 * len(saved):
                raise CompileError(_stuck(self.draft.drafted[self.head]))
            narrow, lookahead = max(narrow, self.head + 1), lookahead // 4
            del saved[max(1, len(saved) - back) :]
            back *= 2
            self._restore(saved[-1][1])
            self.given += 1

    def _saved(self) -> dict[str, Any]:
        """A copy of all that changes."""
        own = vars(self)
        found = {name: copy(own[name]) for name in _STATE}
        found["ready"] = [*map(copy, self.ready)]
        found["reserved"] = {name: one.copy() for name, one in self.reserved.items()}
        found["places"] = {name: ([*one.used], [*one.freed]) for name, one in self.places.items()}
        found["engines"] = (
            self.engines.free[:],
            [*map(copy, self.engines.under_way)],
            dict(self.engines.bus),
        )
        return found

    def _restore(self, saved: dict[str, Any]) -> None:
        for name in _STATE:
            setattr(self, name, copy(saved[name]))
        self.ready = [*map(copy, saved["ready"])]
        self.reserved = {name: one.copy() for name, one in saved["reserved"].items()}
        for name, (used, freed) in saved["places"].items():
            self.places[name].restore(used, freed)
        free, under_way, bus = saved["engines"]
        self.engines.free, self.engines.bus = free[:], dict(bus)
        self.engines.under_way = [*map(copy, under_way)]

    def _pick(
        self, queue: int, engine: int, lookahead: int, best: _Choice | None
    ) -> _Choice | None:
        """The next descriptor of a queue, if it starts before the best one of other queues."""
        seen = 0
        short: dict[str, int] = {}
        for number in self._following(queue):
            if number > self.head + lookahead:
                break
            start = max(engine, self.ready_at[number] + self.times.queue)
            if best is not None and (start, queue) >= best[:2]:
                continue
            part, name = self.operands[number]
            if part in self.bases:
                name = ""
            # Smaller parts of much later loads would take the room that earlier ones wait for.
            if name in short and number - short[name] > _OVERTAKEN:
                continue
            placed = None
            if self.blocked.get(number) != self.given:
                seen += 1
                placed = self._allocated(number)
            if placed is None:
                self.blocked[number] = self.given
                if name:
                    short.setdefault(name, number)
                continue
            new, free = placed
            start = max(start, free + self.times.queue)
            if best is None or (start, queue) < best[:2]:
                best = start, queue, number, new
            if start <= engine or seen > _CANDIDATES:
                break
        return best

    def _following(self, queue: int) -> Iterable[int]:
        """Descriptors that a queue may take; tiles that are continued follow one another.

        So do sweeps over a row, and pieces of it: between them the vector unit must have nothing
        else.
        """
        if queue == _VECTOR and self.next_sweep >= 0:
            return [self.next_sweep] if self.next_sweep in self.ready[queue] else []
        if queue == _VECTOR and self.swept:
            return (n for n in self.ready[queue] if n not in self.swept)
        if queue != _GEMM or not self.chains:
            return self.ready[queue]
        first = self.gemms[self.next_gemm] if self.next_gemm < len(self.gemms) else -1
        if self.chain:
            return [first] if first in self.ready[queue] else []
        return (n for n in self.ready[queue] if n == first or n not in self.chains)

    def _allocated(self, number: int) -> tuple[list[tuple[Part, str, int]], int] | None:
        """Places of the parts that a descriptor is the first to use, and when they are free."""
        new, free = [], 0
        for part, name in self.draft.drafted[number].parts.items():
            if part in self.bases:
                continue
            places = self.places[name]
            found = places.find(part, self.head)
            if found is None:
                return None
            if part.first > self.head:
                most = self.reserved[name][self.head : part.first].max()
                if most + part.size > places.size:
                    return None
            new.append((part, name, found[0]))
            free = max(free, found[1])
        return new, free

    def _commit(self, start: int, number: int, new: list[tuple[Part, str, int]]) -> None:
        own = self.draft.drafted[number]
        queue = self.queue[number]
        for part, name, place in new:
            self.bases[part] = place
            self.left[part] = part.uses
            self.places[name].take(place, part.size)
            if part.first > self.head:
                self.reserved[name][self.head : part.first] += part.size
        stop, end = self.engines.work(own.step, start)
        self.engines.ran(queue, stop, end)
        self.now = max(self.now, start)
        self.ready[queue].remove(number)
        self.order.append(number)
        if queue == _GEMM:
            self.chain = not own.step.fields["write"]
        if queue == _VECTOR:
            self.next_sweep = self.sweeps.get(number, -1)
        self.done[number] = 1
        while self.done[self.head]:
            self.head += 1
            self.given += 1
        while self.next_gemm < len(self.gemms) and self.done[self.gemms[self.next_gemm]]:
            self.next_gemm += 1
        for part, name in own.parts.items():
            self.left[part] -= 1
            self.until[part] = max(self.until.get(part, 0), end)
            if not self.left[part]:
                self.places[name].give(self.bases[part], part.size, self.until[part], self.now)
                self.given += 1
                self.reserved[name][self.head : part.last + 1] -= part.size
        for after in self.after[number]:
            self.ready_at[after] = max(self.ready_at[after], end)
        for after in (*self.after[number], *self.gated.get(number, ())):
            self.waiting[after] -= 1
            if not self.waiting[after]:
                insort(self.ready[self.queue[after]], after)


def _operand(drafted: Drafted) -> tuple[Part | None, str]:
    """Part of a buffer of operands that a load fills, and which; or nothing."""
    if drafted.step.kind == "load":
        for part, name in drafted.parts.items():
            if name in ("a_codes", "w_codes"):
                return part, name
    return None, ""


def _sweeps(drafted: Sequence[Drafted]) -> dict[int, int]:
    """The descriptor that must come next, by each one of sweeps over a row but the last."""
    found: dict[int, int] = {}
    before = -1
    for number, one in enumerate(drafted):
        fields = one.step.fields
        if one.step.kind == "vector":
            if fields.get("sweep") and not fields["clear"]:
                found[before] = number
            before = number
    return found


def _kept(order: int, now: int) -> bool:
    """Whether a run that was saved is kept: the last ones, and the fewer the older they are."""
    age = (now - order) // _SAVED
    return age < _RECENT or order // _SAVED % (1 << (age // _RECENT).bit_length()) == 0


def _gated(drafted: Sequence[Drafted]) -> dict[int, list[int]]:
    """Loads to the vector buffer that come when a descriptor runs: their user needs it as well."""
    users: dict[int, int] = {}
    for number, one in enumerate(drafted):
        for before in one.before:
            users.setdefault(before, number)
    found: dict[int, list[int]] = {}
    for load, user in users.items():
        step = drafted[load].step
        if step.kind == "load" and step.fields["buffer"] == LOAD_BUFFERS["vector"]:
            for other in drafted[user].before:
                if drafted[other].step.kind != "load":
                    found.setdefault(other, []).append(load)
                elif other != load:
                    for store in drafted[other].before:
                        found.setdefault(store, []).append(load)
    return found


_GEMM = QUEUES.index("gemm")
_VECTOR = QUEUES.index("vector")
_STATE = (
    "waiting",
    "ready_at",
    "done",
    "order",
    "head",
    "now",
    "next_gemm",
    "chain",
    "next_sweep",
    "bases",
    "left",
    "until",
)
"""What of a run changes, beside its buffers and engines."""


def _stuck(drafted: Drafted) -> str:
    """Message: the reason why a descriptor has no room."""
    parts = ", ".join(f"{part.size} places of {name}" for part, name in drafted.parts.items())
    return f"parts of a {drafted.step.kind} must fit into the buffers beside others, not {parts}"


@dataclass(frozen=True)
class Scheduled:
    """A program in its order.

    Attributes
    ----------
    emitter : Emitter
    order : list of int
        Descriptors of the draft.
    """

    emitter: Emitter
    order: list[int]


def scheduled(draft: Draft, *, in_order: bool = False) -> Scheduled:
    """Find the order of a program, and the places of its parts.

    Parameters
    ----------
    draft : Draft
    in_order : bool
        Whether the order of the draft is always one that can be gone back to: no load then waits
        for a later descriptor, so that it takes no room in vain.

    Raises
    ------
    CompileError
        If parts that are needed together do not fit into a buffer.
    """
    times = replace(Times.of(draft.configuration), **_OTHER_TIMES)
    run = _Run(draft, times, in_order=in_order)
    run.run()
    made = Emitter(draft.configuration)
    made.memory = draft.memory
    for number in run.order:
        fields, accesses = draft.placed(number, run.bases)
        made.emit(draft.drafted[number].step.kind, fields, accesses)
    return Scheduled(made, run.order)
