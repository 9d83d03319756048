"""Passes of the vector unit that compute some strips and beats of a kernel.

Arithmetic, function, reduction and conversion that follow one another are one pass.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mxsafe.machine.compiler.emitter import Pass
from mxsafe.machine.compiler.kernels import Kernel
from mxsafe.machine.compiler.loading import Loader
from mxsafe.machine.compiler.panels import columns_of, fit, strip_of
from mxsafe.machine.compiler.placement import Key, Placement
from mxsafe.machine.compiler.planning import REDUCTIONS, Plan
from mxsafe.machine.compiler.products import store_operand, store_sums
from mxsafe.machine.compiler.tensors import Rows
from mxsafe.machine.compiler.units import groups
from mxsafe.machine.compiler.views import summed
from mxsafe.machine.graph import Value
from mxsafe.model.softmax import softmax_factor

_NORMS = 2
"""Strips that are normalised together."""


@dataclass
class _Lazy:
    """A result with the operations of a pass that are still to be done."""

    rows: Rows
    work: Pass
    owned: bool


class Inner(NamedTuple):
    """Input of a reduction, if the operations before it can be done piece by piece.

    Attributes
    ----------
    value : Value
    placement : Placement
    last : bool
        Whether nothing but functions and conversions follows.
    """

    value: Value
    placement: Placement
    last: bool


def inner_of(plan: Plan, kernel: Kernel) -> Inner | None:
    """The part of a kernel between its product and its first reduction."""
    value, p = kernel.root, kernel.placement
    # Without a reduction of its own, all of it is before that of the operand that it makes.
    found = Inner(value, p, True)
    last, reduced = True, False
    while True:
        parts = plan.resolve(value, p)
        if len(parts) > 1:
            return None
        value, p = parts[0]
        key = id(value), p.key
        if key not in kernel.placed:
            return None
        if value.op == "product":
            # Rows are reduced whole, not in pieces; what is stored within is computed once.
            apart = reduced or (kernel.also and found.value is not kernel.root)
            return None if apart else found
        below = key != (id(found.value), found.placement.key)
        if value.op in REDUCTIONS or value.op == "sum":
            value, p = value.inputs[0], summed(value, p) if value.op == "sum" else p
            parts = plan.resolve(value, p)
            if len(parts) > 1:
                return None
            own = parts[0]
            last &= kernel.placed.get((id(own[0]), own[1].key)) == 1
            found, reduced = Inner(*own, last), False
        elif below and kernel.placed[key] > 1:
            return None
        elif value.op == "arithmetic" and len(value.inputs) == 2:
            last = False
            sides = plan.inputs(value, p)
            own_sides = [side for side in sides if _leads_to_product(plan, kernel, *side)]
            if len(own_sides) != 1:
                return None
            reduced |= any(_reduces(plan, kernel, *one) for one in sides if one is not own_sides[0])
            value, p = own_sides[0]
        else:
            value = value.inputs[0]


def _leads_to_product(plan: Plan, kernel: Kernel, value: Value, p: Placement) -> bool:
    """Whether the product of a kernel is a part of a value."""
    parts = plan.resolve(value, p)
    if len(parts) > 1:
        return False
    value, p = parts[0]
    key = id(value), p.key
    if key not in kernel.placed:
        return False
    if value.op == "product":
        return True
    return any(_leads_to_product(plan, kernel, *one) for one in plan.inputs(value, p))


def _reduces(plan: Plan, kernel: Kernel, value: Value, p: Placement) -> bool:
    """Whether a kernel reduces rows for a value."""
    return any(
        one.op in REDUCTIONS
        or one.op == "sum"
        or any(_reduces(plan, kernel, *each) for each in plan.inputs(one, own))
        for one, own in plan.resolve(value, p)
        if (id(one), own.key) in kernel.placed
    )


class Region:
    """Some strips and beats of a kernel."""

    def __init__(
        self,
        loader: Loader,
        kernel: Kernel,
        matrix: int,
        strips: range,
        span: range,
        results: Rows | None,
    ) -> None:
        self._l, self._e, self._kernel = loader, loader.plan.draft, kernel
        self._matrix, self._strips, self._span = matrix, strips, span
        self._results, self._lanes = results, loader.plan.lanes
        self._shared: dict[tuple[int, Key], Rows] = {}
        self._made: tuple[int, Key] | None = None
        self._placed = kernel.placed
        self._also = {(id(one.root), one.placement.key): one for one in kernel.also}
        other = kernel.converted
        asked = [*kernel.asked, *([] if other is None else other.asked)]
        self._asked = Counter((id(one), p.key) for one, p in asked)
        self._piece: range | None = None

    def piece(self, inner: Inner, span: range) -> None:
        """Do what is before the first reduction with some beats of the product's results."""
        assert self._results is not None
        whole = self._results
        self._piece, self._results = span, whole.cut(span.start, len(span))
        lazy = self._value(inner.value, inner.placement)
        if lazy.work != Pass() or lazy.rows != self._results:
            self._e.compute(lazy.rows, lazy.work, d=self._results)
        self._shared.clear()
        self._piece, self._results = None, whole
        self._made = id(inner.value), inner.placement.key

    def emit(self) -> None:
        """Compute the root, store it, and convert what becomes an operand."""
        kernel = self._kernel
        lazy = self._value(kernel.root, kernel.placement)
        other = kernel.converted
        if kernel.kind == "operand":
            self._converted(lazy, kernel, keep=False)
            return
        if other is None:
            rows = self._done(lazy)
        elif not other.placed:
            rows = self._converted(lazy, other, keep=True)
        else:
            rows = self._done(lazy)
            self._shared[id(kernel.root), kernel.placement.key] = rows
            self._placed = other.placed
            self._converted(self._value(other.root, other.placement), other, keep=False)
        for part in self._parts(lazy.work, range(rows.count), rows.count):
            self._store(kernel, rows.some(part), self._span, part.start)

    def _store(self, kernel: Kernel, rows: Rows, span: range, first: int = 0) -> None:
        """Store some rows of a kernel's result, of strips from one of this region on."""
        first += self._strips.start
        strips = range(first, first + rows.count)
        store_sums(self._e, kernel.targets[self._matrix], strips, span, rows)

    def _converted(self, lazy: _Lazy, operand: Kernel, *, keep: bool) -> Rows:
        """Convert a result; keep it in the vector buffer as well, if it is needed."""
        e, c, rows = self._e, self._e.configuration, lazy.rows
        target = operand.targets[self._matrix]
        first = self._span.start // c.lanes
        there = [
            operand.resident[self._matrix, side].some(self._strips).from_beat(first)
            for side in ("w", "a")
            if (self._matrix, side) in operand.resident
        ]
        stores = self._matrix in operand.needed
        keep = lazy.work != Pass() and (keep or len(there) + stores > 1)
        if keep and not lazy.owned:
            rows = e.rows(rows.beats, rows.count, "a copy")
        own = columns_of(strip_of(target, self._strips.start), self._span)
        each = own.layout.beats, 2 * own.layout.entries + 2 * c.scaled
        together = max(1, fit((c.out_beats, c.out_entries), each) // 2)
        together = together if stores else rows.count
        for lanes, part in e.by_lanes(target.layout.rows, self._strips):
            for some in self._parts(lazy.work, part, together):
                work = _some(lazy.work, some, c.vector_lanes)
                source = lazy.rows.some(some)
                d = rows.some(some) if keep else None
                for out in there:
                    e.compute(source, work, d=d, out=out.some(some), lanes=lanes)
                    if keep:
                        source, work, d = rows.some(some), Pass(), None
                if stores:
                    out = e.place("out", own, len(some))
                    e.compute(source, work, d=d, out=out, lanes=lanes)
                    strips = range(self._strips.start + some.start, self._strips.start + some.stop)
                    store_operand(e, target, strips, self._span, out)
        return rows

    def _parts(self, work: Pass, part: range, most: int) -> list[range]:
        """Strips that a pass is done with together."""
        if work.reduction.endswith("norm"):
            most = min(most, _NORMS)
        return groups(len(part), most, part.start)

    def _own_span(self, p: Placement) -> range:
        if p.beats != self._kernel.placement.beats:
            return range(p.beats)
        if self._piece is not None:
            return self._piece
        return range(p.beats) if self._kernel.whole else self._span

    def _value(self, value: Value, p: Placement) -> _Lazy:
        """A value of this region in the vector buffer."""
        parts = self._l.plan.resolve(value, p)
        if len(parts) == 1:
            value, p = parts[0]
            key = id(value), p.key
            if key in self._shared:
                return _Lazy(self._shared[key], Pass(), owned=False)
            if key in self._placed:
                lazy = self._computed(value, p)
                if self._placed[key] > 1:
                    rows = self._done(lazy)
                    self._shared[key] = rows
                    if key in self._also:
                        self._store(self._also[key], rows, self._own_span(p))
                    lazy = _Lazy(rows, Pass(), owned=False)
                return lazy
        span = self._own_span(p)
        rows = self._l.load(value, p, self._matrix, self._strips, span)
        if len(parts) == 1 and self._asked[key] > 1:
            self._shared[key] = rows
            return _Lazy(rows, Pass(), owned=False)
        return _Lazy(rows, Pass(), owned=True)

    def _computed(self, value: Value, p: Placement) -> _Lazy:
        made = self._piece is None and self._made == (id(value), p.key)
        if value.op == "product" or made:
            assert self._results is not None
            return _Lazy(self._results, Pass(), owned=True)
        if value.op == "sum":
            return self._sum(value, p)
        if value.op == "arithmetic" and len(value.inputs) == 2:
            return self._arithmetic(value, p)
        lazy = self._value(value.inputs[0], p)
        if value.op == "arithmetic":
            return self._then(lazy, arithmetic="scale", parameter=value.parameter)
        if value.op == "function":
            return self._then(lazy, function=value.detail)
        norm = reduction(value, self._strips.start * self._lanes)
        if value.op == "softmax":
            return self._then(lazy, **norm)
        gains = self._l.affine(self._kernel, value)
        if self._e.configuration.affine:
            return self._then(lazy, **norm, affine=gains)
        half = gains.beats // 2
        lazy = self._then(lazy, **norm)
        for name, numbers in (("multiply", gains.cut(0, half)), ("add", gains.cut(half, half))):
            lazy = self._then(lazy, arithmetic=name, y=replace(numbers, stride=0), y_mode="numbers")
        return lazy

    def _arithmetic(self, value: Value, p: Placement) -> _Lazy:
        x, (value_y, p_y), mode = self._l.plan.binary[id(value), p.key]
        lazy = self._value(*x)
        if mode == "numbers":
            span = self._own_span(p)
            start = self._numbers(value_y, p_y, span)
            y = Rows(start, -(-len(span) // self._lanes), len(self._strips))
        else:
            y = self._done(self._value(value_y, p_y))
        if value.detail == "add" and lazy.work == Pass(
            arithmetic="scale", parameter=lazy.work.parameter
        ):
            return replace(lazy, work=replace(lazy.work, arithmetic="axpy", y=y, y_mode=mode))
        return self._then(lazy, arithmetic=value.detail, y=y, y_mode=mode)

    def _numbers(self, value: Value, p: Placement, span: range) -> int:
        """Beginning of the numbers of some beats; few numbers stay for the kernel."""
        c = self._e.configuration
        if 8 * -(-p.lanes // self._lanes) <= c.vector_beats:
            numbers = self._l.numbers(self._kernel, value, p, self._matrix)
            return numbers.start + span.start // self._lanes
        part = range(span.start // self._lanes, -(-span.stop // self._lanes))
        return self._l.load_numbers(value, p, self._matrix, part).start

    def _sum(self, value: Value, p: Placement) -> _Lazy:
        lazy = self._value(value.inputs[0], summed(value, p))
        if value.detail == "window":
            lazy = self._then(lazy, **reduction(value, 0))
            rows = self._e.rows(1, lazy.rows.count, "sums")
            self._e.compute(lazy.rows, lazy.work, d=rows)
            return _Lazy(rows, Pass(), owned=True)
        rows = self._done(lazy) if lazy.owned else self._copy(lazy)
        count = rows.beats
        while count > 1:
            half = -(-count // 2)
            first, second = rows.cut(0, count - half), rows.cut(half, count - half)
            self._e.compute(first, Pass(arithmetic="add", y=second), d=first)
            count = half
        return _Lazy(rows.cut(0, 1), Pass(), owned=True)

    def _copy(self, lazy: _Lazy) -> Rows:
        rows = self._e.rows(lazy.rows.beats, lazy.rows.count, "a copy")
        self._e.compute(lazy.rows, lazy.work, d=rows)
        return rows

    def _then(self, lazy: _Lazy, **more: Any) -> _Lazy:
        """One more operation, in the same pass if it can be."""
        order = ("arithmetic", "function", "reduction")
        work = lazy.work
        stage = next(at for at, name in enumerate(order) if name in more)
        taken = [at for at, name in enumerate(order) if getattr(work, name) != "none"]
        clash = "reduction" in more and (
            work.arithmetic in ("axpy", "scale")
            or (work.arithmetic != "none" and {"causal", "affine"} & more.keys())
        )
        if (taken and max(taken) >= stage) or clash:
            rows = self._done(lazy)
            return _Lazy(rows, Pass(**more), owned=True)
        return replace(lazy, work=replace(work, **more))

    def _done(self, lazy: _Lazy) -> Rows:
        """Do what is still to be done."""
        if lazy.work == Pass():
            return lazy.rows
        if not lazy.owned:
            return self._copy(lazy)
        for part in self._parts(lazy.work, range(lazy.rows.count), lazy.rows.count):
            rows = lazy.rows.some(part)
            self._e.compute(rows, _some(lazy.work, part, self._lanes), d=rows)
        return lazy.rows


def reduction(value: Value, first: int) -> dict[str, Any]:
    """A reduction of rows from one on, as a part of a pass."""
    made: dict[str, Any] = {"reduction": value.op}
    if value.op == "softmax":
        made["parameter"] = float(softmax_factor(value.parameter))
    elif value.op != "sum":
        made["parameter"] = value.parameter
    return made | ({"causal": first} if value.detail == "causal" else {})


def _some(work: Pass, part: range, lanes: int) -> Pass:
    """The pass for some of its rows."""
    if work.causal is not None:
        return replace(work, causal=work.causal + part.start * lanes)
    return work if work.y is None else replace(work, y=work.y.some(part))
