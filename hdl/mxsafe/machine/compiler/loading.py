"""Numbers out of memory into the vector buffer, wherever they stand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.compiler.kernels import Kernel
from mxsafe.machine.compiler.placement import Beats, Placement, load_beats
from mxsafe.machine.compiler.planning import Plan
from mxsafe.machine.compiler.tensors import Rows
from mxsafe.machine.compiler.views import strips_of
from mxsafe.machine.graph import Value

ZEROS = 256
"""Beats of the same number in memory, loaded where there is nothing."""
_NOTHING = Placement(np.zeros((1, 1, ZEROS), np.int32))


class Loader:
    """Loads of what the kernels of a plan need.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._e, self._c, self._lanes = plan.draft, plan.configuration, plan.lanes
        self._stored, self._states = plan.stored, plan.states
        self._beats: dict[int, Beats] = {}
        self._affine: dict[int, tuple[Value, Placement]] = {}
        self._numbers: dict[Any, Rows] = {}

    def _addresses(
        self, value: Value, p: Placement, matrix: int, strips: range, span: range
    ) -> NDArray[np.int64]:
        """Addresses of beats in memory; those that have nothing are zeros."""
        size = self._c.vector_beat_bytes
        total = np.full((len(strips), len(span)), -1, np.int64)
        for source, own in self.plan.resolve(value, p):
            if source.of_host and id(source) not in self._states:
                vectors = self.plan.table(source, own)[matrix]
                strip = np.arange(strips.start, strips.stop)[:, None] * vectors.layout.strip_bytes
                found = vectors.address + strip + np.arange(span.start, span.stop) * size
                filled = own.part(matrix, strips, span, self._lanes) >= 0
                there = filled.any(axis=1) | (len(self.plan.resolve(value, p)) == 1)
            else:
                found = self._stored_addresses(source, own, matrix, strips, span)
                there = found >= 0
            total[there] = found[there]
        if (total < 0).any():  # what stands in the buffer could be NaN
            zeros = self.plan.table(self.plan.nothing, _NOTHING)[0].address
            total = np.where(total < 0, zeros + np.arange(len(span)) % ZEROS * size, total)
        return total

    def _stored_addresses(
        self, value: Value, p: Placement, matrix: int, strips: range, span: range
    ) -> NDArray[np.int64]:
        state = self._states.get(id(value))
        kernels = self._stored[id(value if state is None else state.new)]
        index = p.part(matrix, strips, span, self._lanes)
        for kernel in kernels:
            if kernel.placement.key == p.key:
                layout, size = kernel.targets[matrix].layout, self._c.vector_beat_bytes
                strip = np.arange(strips.start, strips.stop)[:, None] * layout.strip_bytes
                beats = strip + np.arange(span.start, span.stop) * size
                filled = (index >= 0).any(axis=1)
                return np.where(filled, kernel.targets[matrix].address + beats, -1)
        for kernel in kernels:
            if id(kernel) not in self._beats:
                self._beats[id(kernel)] = Beats(kernel.placement, value.size, self._lanes)
            found = self._beats[id(kernel)].find(index)
            if found is not None and (found < 0).all():  # perhaps it is not even made yet
                return found
            if found is not None:
                p, first = kernel.placement, kernel.targets[0]
                each = -(-p.lanes // self._lanes) * p.beats
                starts = np.array([target.address for target in kernel.targets], np.int64)
                where = starts[np.maximum(found, 0) // each]
                beat = np.maximum(found, 0) % each * first.layout.beat_bytes
                return np.where(found >= 0, where + beat, -1)
        raise AssertionError(f"{value.name} is not in memory as it is wanted")

    def load(self, value: Value, p: Placement, matrix: int, strips: range, span: range) -> Rows:
        """Load some beats of some strips."""
        rows = self._e.rows(len(span), len(strips), value.name)
        load_beats(self._e, self._addresses(value, p, matrix, strips, span), rows)
        return rows

    def numbers(self, kernel: Kernel, value: Value, p: Placement, matrix: int) -> Rows:
        """Load numbers for all beats, C of them a beat; they stay for the kernel."""
        own = p.index[matrix].tobytes()
        key = id(kernel), id(value), own
        if key not in self._numbers:
            strips = strips_of(p, self._lanes)
            self._numbers[key] = self.load_numbers(value, p, matrix, strips)
        return self._numbers[key]

    def load_numbers(self, value: Value, p: Placement, matrix: int, strips: range) -> Rows:
        """Load some beats of numbers."""
        rows = self._e.rows(len(strips), 1, value.name)
        addresses = self._addresses(value, p, matrix, strips, range(1))
        load_beats(self._e, addresses.reshape(1, -1), rows)
        return rows

    def affine(self, kernel: Kernel, value: Value) -> Rows:
        """Load gains of a norm, and behind them its biases; they stay for the kernel."""
        return self.numbers(kernel, *self._gains_and_biases(value), 0)

    def some_affine(self, value: Value, span: range) -> Rows:
        """Load gains of some beats, and behind them their biases."""
        made, p = self._gains_and_biases(value)
        half = -(-value.shape[-1] // self._lanes)
        own = range(span.start // self._lanes, -(-span.stop // self._lanes))
        addresses = [
            self._addresses(made, p, 0, range(at + own.start, at + own.stop), range(1))
            for at in (0, half)
        ]
        rows = self._e.rows(2 * len(own), 1, made.name)
        load_beats(self._e, np.concatenate(addresses).reshape(1, -1), rows)
        return rows

    def _gains_and_biases(self, value: Value) -> tuple[Value, Placement]:
        """Gains of a norm, and behind them its biases, each from a beat of its own on."""
        if id(value) not in self._affine:
            length = value.shape[-1]
            whole = np.zeros((2, -(-length // self._lanes) * self._lanes), np.float32)
            whole[:, :length] = value.numbers
            made = Value(
                "constant", (whole.size,), (), f"gain and bias of {value.name}", data=whole
            )
            index = np.arange(whole.size, dtype=np.int32).reshape(1, -1, 1)
            self._affine[id(value)] = made, Placement(index)
        return self._affine[id(value)]
