"""Order of kernels, and operands that stay in their buffers."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.kernels import Kernel, Task
from mxsafe.machine.compiler.panels import Side, parts_of_k
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.configuration import MachineConfiguration

# Beats and scale entries beside the operands that stay, by kernel, matrix and buffer.
Rooms = dict[tuple[int, int, str], tuple[int, int]]


def ordered(kernels: Sequence[Kernel], stored: dict[int, list[Kernel]]) -> list[Task]:
    """Matrices of kernels, each just before the first one that needs it.

    So what a matrix is made of is used soon: heads of an attention come one after the other. What
    is made for one result alone comes as soon as all else that it needs is there, such as gradients
    of weights: they may be multiplied beside what follows.
    """
    needs = _Needs(kernels, stored)
    done: set[tuple[int, int]] = set()
    order: list[Task] = []
    for kernel in reversed(kernels):
        for matrix in range(kernel.placement.matrices):
            if (id(kernel), matrix) in done:
                continue
            done.add((id(kernel), matrix))
            stack = [((kernel, matrix), iter(needs.of(kernel, matrix)))]
            while stack:
                task, rest = stack[-1]
                following = next((one for one in rest if (id(one[0]), one[1]) not in done), None)
                if following is None:
                    order.append(task)
                    stack.pop()
                else:
                    done.add((id(following[0]), following[1]))
                    stack.append((following, iter(needs.of(*following))))
    return _early(order, needs)


def _early(order: Sequence[Task], needs: "_Needs") -> list[Task]:
    """Move tasks of one result alone to where all else that it needs has been done."""
    places = {(id(kernel), matrix): at for at, (kernel, matrix) in enumerate(order)}
    of = [sorted({places[id(one), own] for one, own in needs.of(*task)}) for task in order]
    for at, (kernel, _) in enumerate(order):
        later = {order[one][0].root.name for one in of[at] if one > at} - {kernel.root.name}
        if later:  # only what overwrites a state waits for what needs it; one may be made twice
            raise CompileError(
                f"{min(later)} and {kernel.root.name} wait for each other: a state must be read "
                "before it is overwritten"
            )
    results: list[set[int]] = [set() for _ in order]
    for at in reversed(range(len(order))):
        results[at] = results[at] or {at}
        for before in of[at]:
            if before < at:
                results[before] |= results[at]
    alone = {at: min(found) for at, found in enumerate(results) if len(found) == 1}
    first: dict[int, int] = {}
    for at, result in alone.items():
        shared = [before for before in of[at] if before not in alone]
        first[result] = max([first.get(result, -1), *shared])
    keys = []
    for at, (kernel, matrix) in enumerate(order):
        ready = first[alone[at]] if at in alone else -1
        (kernel.beside.add if ready >= 0 else kernel.beside.discard)(matrix)
        keys.append((ready, 1, at) if ready >= 0 else (at, 0, at))
    return [order[at] for _, _, at in sorted(keys)]


class _Needs:
    """Tasks that must be done before each task."""

    def __init__(self, kernels: Sequence[Kernel], stored: dict[int, list[Kernel]]) -> None:
        self._stored = stored
        self._makers = {id(one.operand): one for one in kernels if one.operand is not None}
        self._matrices: dict[int, NDArray[np.int64]] = {}

    def of(self, kernel: Kernel, matrix: int) -> list[Task]:
        """Tasks before it: those it reads, in that order, and those whose data it overwrites."""
        found = [(one, own) for one in kernel.after for own in range(one.placement.matrices)]
        if kernel.product is not None:
            for source in (kernel.product.lanes, kernel.product.beats):
                if isinstance(source.operands, Kernel):
                    made, own = source.operands, source.which[matrix]
                    parts = made.within[own] if made.within else [(made, own)]
                    found += [(self._makers[id(maker)], one) for maker, one in parts]
        for value, p in kernel.asked:
            for stored in self._stored.get(id(value), ()):
                if stored.maker is not kernel:
                    matrices = self._holding(stored, p.index[matrix])
                    found += [(stored.maker, one) for one in matrices]
        return found

    def _holding(self, maker: Kernel, index: NDArray[np.int32]) -> list[int]:
        """Matrices of a kernel that hold some elements."""
        own = maker.placement
        if own.matrices == 1:
            return [0]
        if id(maker) not in self._matrices:
            table = np.zeros(int(own.index.max()) + 1, np.int64)
            for number in range(own.matrices):
                table[own.index[number][own.index[number] >= 0]] = number
            self._matrices[id(maker)] = table
        table = self._matrices[id(maker)]
        index = index[(index >= 0) & (index < len(table))]
        return [int(one) for one in np.flatnonzero(np.bincount(table[index]))]


def settle(
    tasks: Sequence[Task],
    configuration: MachineConfiguration,
    sides_of: Callable[[Kernel, int], tuple[Side, Side]],
    share: float = 1,
) -> Rooms:
    """Decide which operands stay in buffers; return the room beside them.

    An operand stays from the kernel that makes it to the last product that reads it, if all that
    time there is room beside the others that stay, and for what products load meanwhile: so much
    of each side that it can be prefetched. All of them take at most such a share of a buffer.
    """
    buffers = {name: _Buffer(configuration, name, len(tasks), share) for name in ("w", "a")}
    for at, (kernel, matrix) in enumerate(tasks):
        if kernel.product is not None:
            sides = sides_of(kernel, matrix)
            parts = len(parts_of_k(*sides))
            sources = (kernel.product.lanes, kernel.product.beats)
            for source, side in zip(sources, sides, strict=True):
                key = None
                if isinstance(source.operands, Kernel):
                    key = id(source.operands), source.which[matrix]
                buffers[side.name].note(at, side, key, can=parts == 1 and not side.turned)
    for at, (kernel, matrix) in enumerate(tasks):
        own = kernel.operand
        if own is not None:
            if any(buffer.never((id(own), matrix)) for buffer in buffers.values()):
                own.needed.add(matrix)  # a load is cheaper than to convert it twice
                continue
            for name, buffer in buffers.items():
                stays = buffer.stays(at, (id(own), matrix))
                if stays:
                    own.stays.add((matrix, name))
                elif stays is not None:
                    own.needed.add(matrix)
    return {
        (id(kernel), matrix, name): buffer.room(at)
        for at, (kernel, matrix) in enumerate(tasks)
        for name, buffer in buffers.items()
    }


class _Buffer:
    """Beats and scale entries that stay in a buffer of operands while kernels are computed."""

    def __init__(
        self, configuration: MachineConfiguration, name: str, tasks: int, share: float
    ) -> None:
        self._size = np.array([getattr(configuration, f"{name}_{u}") for u in ("beats", "entries")])
        self._most = self._size * share
        self._used = np.zeros((tasks, 2), np.int64)
        self._loads = np.zeros((tasks, 2), np.int64)
        self._uses: dict[tuple[int, int], list[int]] = {}
        self._sizes: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._never: set[tuple[int, int]] = set()

    def note(self, task: int, side: Side, key: tuple[int, int] | None, *, can: bool) -> None:
        """A product needs a side, perhaps an operand that is made; whether that can stay."""
        each = np.array(side.sizes(side.inner))
        ahead = np.maximum(np.minimum(_AHEAD * each, self._size // 2), 2 * each)
        self._loads[task] = np.minimum(side.strips * each, ahead)
        if key is not None:
            self._uses.setdefault(key, []).append(task)
            self._sizes[key] = side.strips * each
            if not can:
                self._never.add(key)

    def never(self, key: tuple[int, int]) -> bool:
        """Whether a product reads an operand from memory, turned or in parts of k."""
        return key in self._never

    def stays(self, task: int, key: tuple[int, int]) -> bool | None:
        """Whether an operand that a kernel makes stays; None if no product needs it here."""
        uses = self._uses.get(key)
        if uses is None:
            return None
        if key in self._never:
            return False
        stop = max(uses) + 1
        loads = self._loads[task:stop].copy()
        loads[np.array(uses) - task] = 0
        used = self._used[task:stop] + self._sizes[key]
        if (used + loads > self._size).any() or (used > self._most).any():
            return False
        self._used[task:stop] = used
        self._loads[uses] = 0
        return True

    def room(self, task: int) -> tuple[int, int]:
        """Beats and entries beside what stays."""
        beats, entries = (self._size - self._used[task]).tolist()
        return beats, entries


_AHEAD = 8
"""Strips of a side that products load ahead."""
