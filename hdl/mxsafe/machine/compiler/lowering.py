"""From a graph to a program: the descriptors of kernels, their order and their places.

A kernel is a loop over strips and beats of one placement. Its root is stored in binary32, or
converted to an operand of a product; `residency` says where operands stay and in which order
kernels come. At most one product is part of a kernel; the results of the array are then where the
loop begins. `planning` makes kernels of a graph, `regions` passes of a part of one. What is emitted
is a draft: `schedule` finds its order and its places.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.emitter import Emitter, Pass, Step
from mxsafe.machine.compiler.kernels import Kernel, Source, Task
from mxsafe.machine.compiler.loading import ZEROS, Loader
from mxsafe.machine.compiler.panels import Panels, Side, fit, length_of, parts_of_k
from mxsafe.machine.compiler.pieces import LongRow, reduce_in_pieces
from mxsafe.machine.compiler.placement import Placement, load_beats
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.planning import MOST_STRIPS, Block, Codes, Plan, State, Table, planned
from mxsafe.machine.compiler.regions import Region, inner_of, reduction
from mxsafe.machine.compiler.residency import Rooms, ordered, settle
from mxsafe.machine.compiler.schedule import scheduled
from mxsafe.machine.compiler.tensors import Placed, Rows
from mxsafe.machine.compiler.timing import Engines, Times
from mxsafe.machine.compiler.units import cut, groups
from mxsafe.machine.compiler.views import strips_of, summed
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.layout import Float32Layout

_MOST_BEATS = 2032
"""Beats of a row that a kernel works on at a time: a multiple of all grains."""
_SHARES = ((1, 1), (1 / 2, 1), (0, 1), (0, 1 / 2), (0, 1 / 4))
"""Of operands' buffers what may stay there, and of the vector buffer what results may take, until
places of all parts are found."""
_SHARES_OF_STEPS = ((1 / 2, 1 / 3), (0, 1 / 2), (0, 1 / 4))
"""The same if something stays in memory: there is work for vectors beside most products."""
_GROUP = 4
"""Strips of a product that vectors are computed of together, while the next ones are multiplied."""
_RESULTS = 64
"""Beats of results that are worth a descriptor."""
_AHEAD = 3500
"""Cycles of vectors, at most, for which products of other kernels are emitted beside a kernel."""


@dataclass
class Lowered:
    """A program, and what the host needs to know about it.

    Attributes
    ----------
    emitter : Emitter
    kernels : list of Kernel
        In the order of the program.
    tables : list of Table
        Numbers that the host writes.
    image : list of tuple
        Address and bytes of operands that are constants.
    stored : dict of int to list
        By the value, placements that are in memory, and where.
    kept : list of str
        Inputs that stay in memory.
    codes : list of Codes
        Operands that stay beside them.
    """

    emitter: Emitter
    kernels: list[Kernel]
    tables: list[Table]
    image: list[tuple[int, NDArray[np.uint8]]]
    stored: dict[int, list[Kernel]]
    kept: list[str]
    codes: list[Codes]


def lowered(
    graph: Graph,
    configuration: MachineConfiguration,
    block: Block = 64,
    kept: Mapping[str, str] | None = None,
) -> Lowered:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration
    block : int or tuple of int
    kept : Mapping of str to str, optional
        Inputs, and the outputs that take their places in memory.

    Raises
    ------
    CompileError
        If the machine lacks what it needs; the message has every reason.
    """
    shares = _SHARES_OF_STEPS if kept else _SHARES
    for operands, results, tight in [*((*one, False) for one in shares), (*shares[-1], True)]:
        plan = planned(graph, configuration, block, kept or {}, tight=tight)
        try:
            return _Emission(plan, tight=tight).emit(operands, results)
        except CompileError as error:
            failure = error
    raise failure


class _Emission:
    """Descriptors of the kernels of a plan."""

    def __init__(self, plan: Plan, *, tight: bool) -> None:
        self._plan, self._tight, self._loader = plan, tight, Loader(plan)
        self._e, self._c, self._lanes = plan.draft, plan.configuration, plan.lanes
        self._block, self._kernels, self._stored = plan.block, plan.kernels, plan.stored
        self._held: dict[str, tuple[Task, int, Placed]] = {}
        self._following: dict[tuple[int, int], Task] = {}
        self._rooms: Rooms = {}
        self._share = 1.0
        least = np.full(1, -np.inf, np.float32)
        self._below_all = Value("constant", (1,), name="below all", data=least)

    def emit(self, share: float, results: float) -> Lowered:
        """Emit all kernels, and find the order of their descriptors.

        Operands may stay in such a share of their buffers, results take such a one of theirs.
        """
        self._share = results
        tasks = ordered(self._kernels, self._stored)
        tables = [self._in_place(state, tasks) for state in self._plan.states.values()]
        self._rooms = settle(tasks, self._c, self._sides, share)
        self._following = {(id(one), at): nxt for (one, at), nxt in pairwise(tasks)}
        self._emit_all(tasks)
        tables += [[table for table, _ in self._plan.tables.values()]]
        made = scheduled(self._e, in_order=self._tight)
        where = dict(zip(made.order, range(len(made.order)), strict=True))
        for kernel in self._kernels:
            kernel.steps = sorted(where[number] for number in kernel.steps)
        kept = [state.old.name for state in self._plan.states.values()]
        written = [*chain(*tables)]
        return Lowered(
            made.emitter,
            self._kernels,
            written,
            self._plan.image,
            self._stored,
            kept,
            self._plan.codes,
        )

    def _in_place(self, state: State, tasks: Sequence[Task]) -> list[Table]:
        """Places in memory of what stays there."""
        found = []
        kernels = self._stored[id(state.new)]
        makers = [kernel.maker for kernel in kernels]
        for kernel, maker in zip(kernels, makers, strict=True):
            first = next(at for at, task in enumerate(tasks) if task[0] is maker)
            late = {id(one) for one, _ in tasks[first:]}
            if any(id(one) in late and one not in makers for one in maker.after):
                raise CompileError(f"{state.old.name} must be read before it is overwritten")
            self._allocate(kernel)
            for vectors in kernel.targets:
                self._e.keep(vectors.address, vectors.layout.strips * vectors.layout.strip_bytes)
            matrices = [*range(kernel.placement.matrices)]
            found.append(Table(state.old, kernel.placement, matrices, kernel.targets))
        return found

    def _allocate(self, kernel: Kernel) -> None:
        """Memory for the result of a kernel."""
        p = kernel.placement
        layout = Float32Layout(configuration=self._c, rows=p.beats, columns=p.lanes)
        kernel.targets = [self._e.vectors(kernel.root.name, layout) for _ in range(p.matrices)]

    def _emit_all(self, tasks: Sequence[Task]) -> None:
        """Emit tasks, and beside them others whose products the array has for while it waits.

        Their own vectors are not counted: what they wait for is not needed soon.
        """
        engines = Engines(self._c, Times.of(self._c))
        ahead = 0  # cycles of vectors without a product beside them
        others: list[Task] = []
        begun: Iterator[list[Step]] | None = None
        for task in tasks:
            if task[1] in task[0].beside and not self._tight:
                others.append(task)
                continue
            if begun is not None and not self._both_fit(task, others[0]):
                _end(begun, others)
                begun = None
            for steps in self._pieces(task):
                ahead = _bounded(ahead + _work(engines, steps, "vector"))
                ahead = _bounded(ahead - _work(engines, steps, "gemm"))
                while others and ahead > 0:
                    if begun is None and not self._both_fit(task, others[0]):
                        break
                    begun = self._pieces(others[0]) if begun is None else begun
                    more = next(begun, None)
                    if more is None:
                        del others[0]
                        begun = None
                    else:
                        ahead = _bounded(ahead - _work(engines, more, "gemm"))
        while others:
            _end(self._pieces(others[0]) if begun is None else begun, others)
            begun = None

    def _both_fit(self, task: Task, other: Task) -> bool:
        """Whether buffers have room for what two tasks load, beside what stays with the first."""
        own, more = self._loads(task), self._loads(other)
        return all(
            own[side][unit] + more[side][unit] <= self._rooms[id(task[0]), task[1], side][unit]
            for side in "aw"
            for unit in range(2)
        )

    def _loads(self, task: Task) -> dict[str, tuple[int, int]]:
        """Beats and scale entries of each buffer that a task loads at most."""
        kernel, matrix = task
        if kernel.product is None:
            return dict.fromkeys("aw", (0, 0))
        found: dict[str, tuple[int, int]] = {}
        sources = kernel.product.lanes, kernel.product.beats
        for source, side in zip(sources, self._sides(*task), strict=True):
            resident = source.resident(matrix, side.name) is not None
            count = 0 if resident else side.strips
            room = self._rooms[id(kernel), matrix, side.name]
            each = side.sizes(side.inner)
            found[side.name] = min(count * each[0], room[0]), min(count * each[1], room[1])
        return found

    def _pieces(self, task: Task) -> Iterator[list[Step]]:
        """Emit a task, piece by piece."""
        pieces = self._emit(*task)
        while True:
            first = len(self._e.steps)
            ended = next(pieces, self) is self
            task[0].steps += range(first, len(self._e.steps))
            if ended:
                return
            yield self._e.steps[first:]

    def _emit(self, kernel: Kernel, matrix: int) -> Iterator[None]:
        p = kernel.placement
        if kernel.kind == "tensor" and not kernel.targets:
            self._allocate(kernel)
        own = kernel.operand
        if own is not None:
            target, size = own.targets[matrix], (p.lanes, p.beats)
            if matrix in own.needed and not own.fixed:
                own.targets[matrix] = self._e.operand(target.name, target.layout)
            for side in (Side("w", target, False, *size), Side("a", target, False, *size)):
                if (matrix, side.name) in own.stays:
                    placed = side.place(self._e, range(side.strips))
                    own.resident[matrix, side.name] = placed
        if kernel.in_pieces:
            self._in_pieces(kernel, matrix)
        elif kernel.product is None:
            for some, span in self._parts(kernel):
                Region(self._loader, kernel, matrix, some, span, None).emit()
                yield
        else:
            yield from self._multiplied(kernel, matrix)

    def _parts(self, kernel: Kernel) -> Iterator[tuple[range, range]]:
        """Strips and beats of a matrix that are worked on together, without a product."""
        p, c = kernel.placement, self._c
        grain = p.beats if kernel.whole else self._plan.grain(kernel)
        fit = int(self._share * c.vector_beats) // (2 * (kernel.cost + 1))
        most = max(grain, min(fit, _MOST_BEATS) // grain * grain)
        if kernel.operands is not None:
            most = min(most, max(grain, c.out_beats * c.lanes // 2 // grain * grain))
        for span in cut(p.beats, most):
            longest = max(kernel.longest, len(span)) if kernel.whole else len(span)
            together = max(1, min(MOST_STRIPS, fit // longest))
            if kernel.summed:
                together = max(1, min(together, c.vector_beats // kernel.summed))
            for part in groups(-(-p.lanes // self._lanes), together):
                yield part, span

    def _in_pieces(self, kernel: Kernel, matrix: int) -> None:
        """Reduce rows that do not fit into the vector buffer."""
        value, p, (x,) = kernel.root, kernel.placement, kernel.root.inputs
        inner = summed(value, p) if value.op == "sum" else p
        affine = None
        if value.data is not None:

            def affine(span: range) -> Rows:
                return self._loader.some_affine(value, span)

        for strip in strips_of(p, self._lanes):
            strips = range(strip, strip + 1)

            def load(span: range, strips: range = strips) -> Rows:
                return self._loader.load(x, inner, matrix, strips, span)

            work = Pass(**reduction(value, strip * self._lanes))
            row = LongRow(inner.beats, work, load, self._hidden, affine)
            reduce_in_pieces(self._e, row, kernel.targets[matrix], strip)

    def _hidden(self, beats: int) -> Rows:
        """Beats of -Inf, of which softmax makes what it makes of those that do not count."""
        index = np.zeros((1, self._lanes, ZEROS), np.int32)
        first = self._plan.table(self._below_all, Placement(index))[0].address
        rows = self._e.rows(beats, 1, "what does not count")
        addresses = first + np.arange(beats)[None] % ZEROS * self._c.vector_beat_bytes
        load_beats(self._e, addresses, rows)
        return rows

    def _sides(self, kernel: Kernel, matrix: int) -> tuple[Side, Side]:
        """Sides w and a of the product of a kernel."""
        p, own = kernel.placement, kernel.product
        assert own is not None
        inner = own.value.inputs[0].shape[-1]
        lanes, beats = own.lanes.operand(matrix), own.beats.operand(matrix)
        least = 1 if self._c.anchored else 2  # sums in windows do not go on from part to part
        return (
            Side("w", lanes, own.lanes.turned, p.lanes, inner, least),
            Side("a", beats, own.beats.turned, p.beats, inner, least),
        )

    def _multiplied(self, kernel: Kernel, matrix: int) -> Iterator[None]:
        """A matrix of a kernel with a product."""
        p, c, own = kernel.placement, self._c, kernel.product
        assert own is not None
        sides = self._sides(kernel, matrix)
        made: dict[str, Any] = {
            "grain": p.beats if kernel.whole else self._plan.grain(kernel),
            "block": None if kernel.operands is None else length_of(self._block),
            "share": int(2 * kernel.cost / self._share),
        }
        k = parts_of_k(*sides)
        if c.anchored and len(k) > 1:
            most = min(c.a_beats, c.w_beats) * c.lanes
            raise CompileError(
                f"{own.value.name}: k must be at most {most} with arithmetic window, of which "
                f"buffers of operands hold a strip, not {sides[0].inner}"
            )
        if len(k) == 1:
            w, a = (
                source.resident(matrix, side.name) or self._hold((kernel, matrix), source, side)
                for source, side in zip((own.lanes, own.beats), sides, strict=True)
            )
            if kernel.whole:
                yield from self._by_rows(kernel, matrix, sides, w, a)
                return
            if w is None and a is None and self._lanes_stay((kernel, matrix), sides):
                w = sides[0].place(self._e, range(sides[0].strips))
                for some in cut(sides[0].strips, _GROUP):
                    sides[0].load(self._e, some, k[0], w.some(some))
            if w is not None:
                yield from self._by_beats(kernel, matrix, sides, w, a)
                return
            made |= {"held_a": a, "rooms": {n: self._rooms[id(kernel), matrix, n] for n in "aw"}}
        for rows, strips, span in Panels(self._e, *sides, **made).results():
            Region(self._loader, kernel, matrix, strips, span, rows).emit()
            yield

    def _lanes_stay(self, task: Task, sides: tuple[Side, Side]) -> bool:
        """Whether lanes are loaded first, all of them, because beats would be loaded again."""
        beats_again = sides[1].strips > 2 * self._room(task, sides[1])
        return beats_again and sides[0].strips <= self._room(task, sides[0])

    def _room(self, task: Task, side: Side) -> int:
        """Strips of a side that a buffer has room for twice, beside those that stay."""
        room = self._rooms[id(task[0]), task[1], side.name]
        return max(1, fit(room, side.sizes(side.inner)) // 2)

    def _by_rows(
        self,
        kernel: Kernel,
        matrix: int,
        sides: tuple[Side, Side],
        w: Placed | None,
        a: Placed | None,
    ) -> Iterator[None]:
        """Whole rows of a product: strips of some lanes, each with all beats."""
        e, p, task, size = self._e, kernel.placement, (kernel, matrix), self._c.rows
        inner = inner_of(self._plan, kernel)
        panel = min(
            _RESULTS // size, sides[1].strips if a is not None else self._room(task, sides[1])
        )
        # Rows of two groups have room, and what else a piece needs beside those of one.
        cost = kernel.cost
        if inner is not None and inner.last:
            cost = 1 + self._copied(kernel, matrix)
        pieces = kernel.cost * (p.beats if inner is None else min(panel * size, p.beats))
        needed = max(5 * cost * p.beats / 2, cost * p.beats + pieces)
        together = min(MOST_STRIPS, int(self._share * self._c.vector_beats // needed))
        if w is None:
            together = min(together, self._room(task, sides[0]))
        if a is not None:  # nothing is loaded again for each group
            together = min(together, -(-sides[0].strips // 2), _GROUP)
        k = range(sides[0].inner)
        if a is None and sides[1].strips <= self._room(task, sides[1]):
            a = sides[1].place(e, range(sides[1].strips))
            for some in cut(sides[1].strips, panel):
                sides[1].load(e, some, k, a.some(some))
            together = min(together, _GROUP)
        for strips in groups(sides[0].strips, max(1, together)):
            own = sides[0].load(e, strips, k) if w is None else w.some(strips)
            rows = e.rows(p.beats, len(strips), "results")
            region = Region(self._loader, kernel, matrix, strips, range(p.beats), rows)
            for some in cut(sides[1].strips, panel):
                columns = sides[1].load(e, some, k) if a is None else a.some(some)
                span = range(some.start * size, min(some.stop * size, p.beats))
                self._multiply(columns, own, rows, span, 0)
                if inner is not None:
                    region.piece(inner, span)
            region.emit()
            yield

    def _copied(self, kernel: Kernel, matrix: int) -> bool:
        """Whether what becomes an operand needs rows beside those of the result."""
        other = kernel.converted
        if other is None or not other.placed:
            return False
        return sum((matrix, name) in other.stays for name in "aw") + (matrix in other.needed) > 1

    def _by_beats(
        self,
        kernel: Kernel,
        matrix: int,
        sides: tuple[Side, Side],
        w: Placed,
        a: Placed | None,
    ) -> Iterator[None]:
        """A product whose lanes stay: some beats after others, of all strips."""
        e, p, task, size = self._e, kernel.placement, (kernel, matrix), self._c.rows
        grain, own, k = self._lanes, kernel.operand, range(sides[0].inner)
        if own is not None:
            grain = (
                self._plan.grain(kernel)
                if matrix in own.needed
                else max(grain, own.targets[0].layout.length)
            )
        room_a, whole = self._room(task, sides[1]), max(_RESULTS, grain) // size
        panel = min(room_a, whole if room_a >= whole else _RESULTS // size)
        panel = sides[1].strips if a is not None else panel
        beats = grain * max(1, min(_RESULTS, panel * size) // grain)
        room = int(self._share * self._c.vector_beats)
        most = max(1, min(_GROUP, room // (2 * kernel.cost * min(beats, p.beats))))
        parts = groups(sides[0].strips, most)
        for span in cut(p.beats, beats):
            strips = range(span.start // size, -(-span.stop // size))
            there = None
            if a is not None:
                there = a.some(strips)
            elif len(strips) <= panel:
                there = sides[1].load(e, strips, k)
            if there is not None:
                for part in parts:
                    rows = e.rows(len(span), len(part), "results")
                    self._multiply(there, w.some(part), rows, span, span.start)
                    Region(self._loader, kernel, matrix, part, span, rows).emit()
                    yield
                continue
            # Parts of what is along beats are loaded once for as many strips as have room.
            many = max(1, room // (2 * kernel.cost * len(span) * len(parts[0])))
            for some in cut(len(parts), many):
                own_parts = parts[some.start : some.stop]
                results = [e.rows(len(span), len(part), "results") for part in own_parts]
                for loaded in cut(len(strips), panel):
                    loaded = range(strips.start + loaded.start, strips.start + loaded.stop)
                    own_span = range(loaded.start * size, min(loaded.stop * size, span.stop))
                    columns = sides[1].load(e, loaded, k)
                    for part, rows in zip(own_parts, results, strict=True):
                        self._multiply(columns, w.some(part), rows, own_span, span.start)
                for part, rows in zip(own_parts, results, strict=True):
                    Region(self._loader, kernel, matrix, part, span, rows).emit()
                    yield

    def _multiply(self, a: Placed, w: Placed, rows: Rows, span: range, first: int) -> None:
        """Products that are some beats of rows, which begin at a first one."""
        size = self._c.rows
        last = len(span) - (a.strips - 1) * size
        at = rows.start + span.start - first
        self._e.multiply(a, w, at, stride_a=size, stride_w=rows.stride, last_rows=last)

    def _hold(self, task: Task, source: Source, side: Side) -> Placed | None:
        """Strips of a side that the next matrix needs as well, if half of the buffer holds them."""
        kernel, matrix = task
        which = source.which
        known = self._held.pop(side.name, None)
        placed = None
        if known is not None and known[:2] == (task, which[matrix]):
            placed = known[2]
        following = (kernel, matrix + 1)
        if (
            self._following.get((id(kernel), matrix)) != following
            or which[matrix : matrix + 2] != [which[matrix]] * 2
        ):
            return placed
        if placed is None:
            if side.strips > self._room(task, side):
                return None
            placed = side.load(self._e, range(side.strips), range(side.inner))
        self._held[side.name] = following, which[matrix], placed
        return placed


def _work(engines: Engines, steps: Sequence[Step], queue: str) -> int:
    """Cycles of a queue."""
    return sum(engines.work(step, 0)[0] for step in steps if step.kind == queue)


def _end(begun: Iterator[list[Step]], others: list[Task]) -> None:
    """Emit all that is left of the first task."""
    for _ in begun:
        pass
    del others[0]


def _bounded(ahead: int) -> int:
    return max(-_AHEAD, min(_AHEAD, ahead))
