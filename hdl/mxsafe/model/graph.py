"""Model of graphs: each operation of `mxsafe.machine.graph` by the hardware's models.

Operations that are alike, of other operands, are evaluated at once: those of all parts of a batch.
A model has the same bits for each row, whatever rows are beside it.
"""

from collections.abc import Mapping
from functools import reduce
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import dequantize, quantize
from mxsafe.codec._subnormals import subnormals
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.stages import computed
from mxsafe.model.accumulate import canonical
from mxsafe.model.functions import FUNCTIONS
from mxsafe.model.gemm import fits_float64
from mxsafe.model.machine_gemm import converted_product
from mxsafe.model.normalisation import normalise, window_sum
from mxsafe.model.softmax import softmax
from mxsafe.model.sums import add_blocks
from mxsafe.model.vector_arithmetic import add, half_sums, multiply
from mxsafe.products import DEFAULT_INNER
from mxsafe.validation import checked

Array = NDArray[Any]

_IN_CACHE = 1 << 13
"""Results of a product that are added to at a time: what is made beside them stays in a cache."""


class _Operand(NamedTuple):
    """Operand of the operations of a batch: one for all, or one for each.

    Attributes
    ----------
    batches : tuple of int
        Of which batch each is; one number where all are of the same.
    members : slice or tuple of int
        Which of the batch.
    """

    batches: tuple[int, ...]
    members: slice | tuple[int, ...]

    @classmethod
    def of(cls, places: list[tuple[int, int]]) -> "_Operand":
        batches, members = (tuple(numbers) for numbers in zip(*places, strict=True))
        if len(set(batches)) > 1:
            return cls(batches, members)
        first, last = members[0], members[-1]
        if len(set(members)) == 1:
            return cls(batches[:1], slice(first, first + 1))
        if members == tuple(range(first, last + 1)):
            return cls(batches[:1], slice(first, last + 1))
        if members == tuple(range(first, last - 1, -1)):  # the way back is from the last part on
            return cls(batches[:1], slice(first, last - 1 if last else None, -1))
        return cls(batches[:1], members)

    def taken(self, known: list[Array]) -> Array:
        """Values from the results of batches, the first axis that of the batch."""
        if len(self.batches) > 1:
            assert isinstance(self.members, tuple)
            return np.stack([known[b][m] for b, m in zip(self.batches, self.members, strict=True)])
        members = self.members if isinstance(self.members, slice) else list(self.members)
        return known[self.batches[0]][members]


class _Batch(NamedTuple):
    """Operations that are alike: one of them, their operands, and how many they are."""

    value: Value
    operands: list[_Operand]
    size: int


class GraphModel:
    """A graph as the machine computes it, bit for bit: the reference of compiled graphs.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration, optional
        Of which format, arithmetic, lanes and grade count.
    block : int or tuple of int
        Of operands with scales: 64 along the sum, or tiles of ``(8, 8)``.
    """

    @checked
    def __init__(
        self,
        graph: Graph,
        configuration: MachineConfiguration | None = None,
        block: int | tuple[int, int] = 64,
    ) -> None:
        self._c = configuration or MachineConfiguration()
        self._block = block
        self._inputs = [value for value in graph.values if value.op == "input"]
        self._batches: list[_Batch] = []
        self._places: dict[int, tuple[int, int]] = {}
        """Of each value its batch, and which member of that it is."""
        own: dict[Value, Value] = {}
        """Of each value the first that is the same."""
        levels: dict[Value, int] = {}
        """Of each how many operations lie before it."""
        first: dict[Any, Value] = {}
        groups: dict[Any, list[Value]] = {}
        for value in graph.values:
            inputs = [own[one] for one in value.inputs]
            kind = _kind(value)
            own[value] = first.setdefault((kind, *map(id, inputs)), value)
            if own[value] is value:
                levels[value] = 1 + max((levels[one] for one in inputs), default=-1)
                groups.setdefault((levels[value], kind), []).append(value)
        for alike in sorted(groups.values(), key=lambda alike: levels[alike[0]]):
            self._add(alike, own)
        self._outputs = {name: self._places[id(own[v])] for name, v in graph.outputs.items()}

    def _add(self, alike: list[Value], own: dict[Value, Value]) -> None:
        operands = [
            _Operand.of([self._places[id(own[one])] for one in ones])
            for ones in zip(*(value.inputs for value in alike), strict=True)
        ]
        for member, value in enumerate(alike):
            self._places[id(value)] = len(self._batches), member
        self._batches.append(_Batch(alike[0], operands, len(alike)))

    @checked
    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the graph.

        Parameters
        ----------
        inputs : Mapping of str to ndarray
            By the names of the graph's inputs.

        Returns
        -------
        dict of str to ndarray
            By the names of the outputs.

        Raises
        ------
        ValueError
            If an input is missing, or has another shape.
        """
        for value in self._inputs:
            if value.name not in inputs:
                raise ValueError(f"inputs must have {value.name}, not only {sorted(inputs)}")
            shape = inputs[value.name].shape
            if shape != value.shape:
                raise ValueError(f"inputs: {value.name} must have shape {value.shape}, not {shape}")
        known: list[Array] = []
        for value, operands, size in self._batches:
            of = [operand.taken(known) for operand in operands]
            if value.op == "input":
                made = inputs[value.name][None]
            elif value.op == "constant":
                made = value.numbers[None]
            elif value.host or value.dtype != "float32":
                each = [[one[at % len(one)] for one in of] for at in range(size)]
                made = np.stack([computed(value, ones) for ones in each])
            else:
                made = self._evaluated(value, of)
            known.append(made)
        return {name: known[batch][member] for name, (batch, member) in self._outputs.items()}

    def _evaluated(self, value: Value, given: list[Array]) -> Array:
        """Results of alike operations; operands that all share are there once."""
        if value.op == "product":
            return self._products(*given)
        if value.op == "gather":
            return _gathered(value, given)
        if value.op == "arithmetic":
            if value.detail == "scale":
                return multiply(np.float32(value.parameter), given[0])
            return {"add": add, "multiply": multiply}[value.detail](*given)
        if value.op == "sum":
            if value.detail == "window":
                return window_sum(given[0], grade=self._c.grade)[..., None]
            return half_sums(given[0])
        x = given[0]
        rows = x.reshape(-1, x.shape[-1])
        step = max(_IN_CACHE // x.shape[-1], 1)
        made = [self._rows(value, rows[at : at + step], at) for at in range(0, len(rows), step)]
        return np.concatenate(made).reshape(x.shape)

    def _rows(self, value: Value, rows: Array, first: int) -> Array:
        """A function or a reduction of some rows of all, from one on."""
        grade = self._c.grade
        if value.op == "function":
            return FUNCTIONS[value.detail](rows, grade)
        if value.op == "softmax":
            mask = None
            if value.detail == "causal":
                last = np.arange(first, first + len(rows)) % value.shape[-2]
                mask = np.arange(rows.shape[1]) <= last[:, None]
            return softmax(rows, mask=mask, scale=value.parameter, grade=grade)
        gain, bias = value.numbers
        centre = value.op == "layer_norm"
        return normalise(rows, gain, bias, value.parameter, centre=centre, grade=grade).result

    @subnormals()
    def _products(self, a: Array, b: Array) -> Array:
        """``y[i, o, m, n]``, the sum over k of ``a[i, o, m, k] * b[i, o, n, k]``."""
        c, block = self._c, self._block
        length = block[1] if isinstance(block, tuple) else block
        if c.arithmetic != "exact" or not fits_float64(c.conversion_format, length):
            lead = np.broadcast_shapes(a.shape[:2], b.shape[:2])
            many = [np.broadcast_to(one, (*lead, *one.shape[2:])) for one in (a, b)]
            flat = [one.reshape(-1, *one.shape[2:]) for one in many]
            made = np.stack([self._product(x, y) for x, y in zip(*flat, strict=True)])
            return made.reshape(*lead, *made.shape[1:])
        left, right = (
            dequantize(quantize(one, c.conversion_format, block=block), dtype=np.float64)
            for one in (a, b)
        )
        lead = np.broadcast_shapes(a.shape[:2], b.shape[:2])
        sums = np.zeros((*lead, a.shape[2], b.shape[2]), np.float32)
        right = right.swapaxes(-1, -2)
        if b.shape[:2] == (1, 1):  # one matrix for the rows of all
            own, rows, w = sums.reshape(-1, b.shape[2]), left.reshape(-1, a.shape[3]), right[0, 0]
        else:
            own = sums.reshape(-1, *sums.shape[2:])
            rows, w = (
                np.broadcast_to(one, (*lead, *one.shape[2:])).reshape(-1, *one.shape[2:])
                for one in (left, right)
            )
        step = max(_IN_CACHE // own[0].size, 1)
        for start in range(0, len(own), step):
            some = slice(start, start + step)
            add_blocks(own[some], rows[some], w if w.ndim == 2 else w[some], length)
        return canonical(sums)

    def _product(self, a: Array, b: Array) -> Array:
        """Product of matrices; with arithmetic ``window`` the sum over parts of k, in order."""
        size = a.shape[1]
        step = DEFAULT_INNER if self._c.arithmetic == "window" else size
        parts = (np.s_[:, at : at + step] for at in range(0, size, step))
        products = (
            converted_product(a[own], np.ascontiguousarray(b[own].T), self._c, self._block)
            for own in parts
        )
        return reduce(add, products)


def _kind(value: Value) -> tuple[Any, ...]:
    """Key that alike operations share."""
    data = None if value.data is None else (value.data.shape, sha256(value.data.tobytes()).digest())
    shapes = tuple(one.shape for one in value.inputs)
    # A factor of -0 is another than 0.
    how = (value.detail, float(value.parameter).hex(), value.dtype, value.host)
    name = value.name if value.op == "input" else ""
    return (value.op, name, value.shape, shapes, *how, data)


def _gathered(value: Value, given: list[Array]) -> Array:
    size = max(map(len, given))
    flat = [np.broadcast_to(one, (size, *one.shape[1:])).reshape(size, -1) for one in given]
    made = np.take(flat[0] if len(flat) == 1 else np.concatenate(flat, 1), value.numbers, axis=1)
    # What a place of -1 has does not count.
    return np.where(value.numbers < 0, np.float32(0), made) if value.numbers.min() < 0 else made
