"""Graphs of a network: tensors of binary32 and operations of the machine's own level.

A graph is what `mxsafe.machine.compiler.lowering` makes a program of. It is built by hand from
NumPy arrays, or from a PyTorch model by `mxsafe.torch.compile`.

Operations are few, and each has one meaning, whatever the machine's sizes:

``input``
    numbers that the host writes before each run
``constant``
    numbers that are part of the program
``product``
    ``y[o, m, n]``: sum over k of ``a[o, m, k] * b[o, n, k]``; both operands in MX format; with
    arithmetic ``window`` sums of 4,096 products, added in binary32
``arithmetic``
    ``add`` and ``multiply`` of two tensors, ``scale`` of one by a number
``function``
    a function of the vector unit
``softmax``, ``layer_norm``, ``rms_norm``
    along the last axis
``sum``
    along the last axis, by halves: see `mxsafe.model.half_sums`; or with the detail ``window``
    exact in the window of its largest value: see `mxsafe.model.window_sum`
``gather``
    elements of other tensors in another order: all of reshape, transpose, slice, concat
``host``
    what the host alone computes, of numbers, integers and booleans: see `HOST_OPERATIONS`

Shapes do not broadcast: what is broadcast is gathered, which the compiler does not carry out.

The host can compute all of them, without MX formats and with the functions of `mxsafe.model.host`:
those that are added while `Graph.on_host` is set.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec._inputs import Numbers
from mxsafe.machine.configuration import FUNCTIONS
from mxsafe.model import host
from mxsafe.validation import checked, require_one_of, shown

Indices = NDArray[np.int32]
_DTYPES = ("float32", "int64", "bool")
HOST_OPERATIONS = (
    "add",
    "add_rows",
    "cast",
    "copy",
    "cumsum",
    "equal",
    "greater",
    "greater_equal",
    "index",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "multiply",
    "not_equal",
    "rows",
    "subtract",
    "where",
)
"""Operations of the host alone, named as in NumPy: ``cast`` to the result's type, ``copy`` of what
the machine does not lay out as it is used, ``cumsum`` along the axis that `parameter` is, ``index``
of a tensor by others, ``rows`` of a table by integers, of which `parameter` is padding, and
``add_rows``: to a table of zeros rows at integers, one after the other, but none of padding."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph, by the operation that makes it.

    Attributes
    ----------
    op : str
        See the table of this module.
    shape : tuple of int
    inputs : tuple of Value
    name : str
        For reports and errors.
    detail : str
        Which arithmetic or function; ``causal`` of a softmax in which row m counts m + 1 values.
    parameter : float
        Factor of ``scale`` and ``softmax``, epsilon of a norm.
    data : ndarray, optional
        Numbers of a constant; of a gather for each element its place in the inputs, which lie one
        behind the other.
    dtype : str
        float32; int64 or bool of what the host has.
    host : bool
        Whether the host computes it.
    """

    op: str
    shape: tuple[int, ...]
    inputs: tuple["Value", ...] = ()
    name: str = ""
    detail: str = ""
    parameter: float = 0.0
    data: NDArray[Any] | None = None
    dtype: str = "float32"
    host: bool = False

    @property
    def numbers(self) -> NDArray[Any]:
        """What `data` holds, of a value that has it."""
        return cast(NDArray[Any], self.data)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def of_host(self) -> bool:
        """Whether the host has it before the program runs."""
        if self.op == "gather":
            return all(value.of_host for value in self.inputs)
        return self.host or self.op in ("input", "constant")

    @property
    def places(self) -> Indices:
        """Numbers of its elements, in its shape."""
        return np.arange(self.size, dtype=np.int32).reshape(self.shape)


@dataclass
class Graph:
    """A network as operations, in the order in which they are added.

    Attributes
    ----------
    values : list of Value
        Each after those that it needs.
    outputs : dict of str to Value
    on_host : bool
        Whether what is added is computed by the host.
    kept : list of str
        Inputs whose next values are the outputs of the same names: see `update`.

    Examples
    --------
    >>> import numpy as np
    >>> graph = Graph()
    >>> x = graph.input("x", (10, 32))
    >>> y = graph.function("relu", graph.matmul(x, np.ones((32, 7), "f4")))
    >>> graph.output("y", y)
    >>> y.shape
    (10, 7)
    """

    values: list[Value] = field(default_factory=list)
    outputs: dict[str, Value] = field(default_factory=dict)
    on_host: bool = False
    kept: list[str] = field(default_factory=list)

    @property
    def largest(self) -> int:
        """Elements of the largest value."""
        return max((value.size for value in self.values), default=0)

    def _add(self, op: str, shape: Sequence[int], *inputs: Value, **more: Any) -> Value:
        sizes = tuple(map(int, shape))
        if not all(size > 0 for size in sizes):
            raise ValueError(f"shape of {op} must have positive sizes, not {sizes}")
        name = more.pop("name", "") or f"{op}_{len(self.values)}"
        if op not in ("gather", "host") and (wrong := [v for v in inputs if v.dtype != "float32"]):
            raise ValueError(f"operands of {op} must be float32, not {wrong[0].dtype}")
        if op not in ("gather", "input", "constant"):
            more.setdefault("host", self.on_host)
        made = Value(op, sizes, inputs, name, **more)
        self.values.append(made)
        return made

    @checked
    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Value:
        """Numbers that the host writes before each run, or integers and booleans that it has."""
        require_one_of("dtype", dtype, _DTYPES)
        if any(value.op == "input" and value.name == name for value in self.values):
            raise ValueError(f"name must be of no other input, not {name}")
        return self._add("input", shape, name=name, dtype=dtype)

    @checked
    def constant(self, data: Numbers, name: str = "") -> Value:
        """Numbers of float32 that are part of the program; integers and booleans of the host."""
        array = np.ascontiguousarray(data)
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"data must be float32, int64 or bool, not {array.dtype}")
        array = array.reshape(np.shape(data))
        return self._add("constant", array.shape, data=array, name=name, dtype=array.dtype.name)

    @checked
    def value(self, x: Value | Numbers) -> Value:
        """A value as it is, an array as a constant."""
        return x if isinstance(x, Value) else self.constant(x)

    @checked
    def product(self, a: Value, b: Value, name: str = "") -> Value:
        """``y[o, m, n]``, the sum over k of ``a[o, m, k] * b[o, n, k]``."""
        if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[::2] != b.shape[::2]:
            raise ValueError(
                f"b must have the first and the last of the sizes {a.shape}, not {b.shape}"
            )
        return self._add("product", (*a.shape[:2], b.shape[1]), a, b, name=name)

    @checked
    def matmul(self, a: Value, w: Value | Numbers, name: str = "") -> Value:
        """``A W`` over the last two axes; leading axes of both broadcast."""
        w = self.value(w)
        if len(a.shape) < 2 or len(w.shape) < 2 or a.shape[-1] != w.shape[-2]:
            raise ValueError(f"w must have {a.shape[-1]} rows like a columns, not shape {w.shape}")
        turned = self.gather([w], w.places.swapaxes(-1, -2))
        lead: tuple[int, ...] = ()
        if len(w.shape) == 2:  # one matrix for all rows of a
            flat = [(1, prod(a.shape[:-1]), a.shape[-1]), (1, *turned.shape)]
        else:
            lead = np.broadcast_shapes(a.shape[:-2], w.shape[:-2])
            a = self.broadcast(a, (*lead, *a.shape[-2:]))
            turned = self.broadcast(turned, (*lead, *turned.shape[-2:]))
            flat = [(prod(lead), *v.shape[-2:]) for v in (a, turned)]
        made = self.product(self.reshape(a, flat[0]), self.reshape(turned, flat[1]), name)
        rows = a.shape[:-1] if len(w.shape) == 2 else (*lead, a.shape[-2])
        return self.reshape(made, (*rows, w.shape[-1]))

    @checked
    def linear(self, x: Value, weight: Value | Numbers, name: str = "") -> Value:
        """``X W^T`` over the last axis, of a matrix with a row for each feature that comes out."""
        weight = self.value(weight)
        if len(weight.shape) != 2 or weight.shape[1] != x.shape[-1]:
            raise ValueError(f"weight must have shape n, {x.shape[-1]}, not {weight.shape}")
        rows = self.reshape(x, (1, -1, x.shape[-1]))
        made = self.product(rows, self.reshape(weight, (1, *weight.shape)), name)
        return self.reshape(made, (*x.shape[:-1], weight.shape[0]))

    @checked
    def add(self, x: Value, y: Value | Numbers, name: str = "") -> Value:
        """``x + y`` in binary32, with broadcasting."""
        return self._arithmetic("add", x, self.value(y), name)

    @checked
    def multiply(self, x: Value, y: Value | Numbers, name: str = "") -> Value:
        """``x * y`` in binary32, with broadcasting."""
        return self._arithmetic("multiply", x, self.value(y), name)

    def _arithmetic(self, detail: str, x: Value, y: Value, name: str) -> Value:
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise ValueError(f"y must broadcast with {x.shape}, not {y.shape}") from None
        x, y = self._repeated(x, shape), self._repeated(y, shape)
        return self._add("arithmetic", shape, x, y, detail=detail, name=name)

    def _repeated(self, x: Value, shape: tuple[int, ...]) -> Value:
        """The same as `broadcast`; of a constant each number is kept once."""
        if x.op != "constant" or x.shape == shape:
            return self.broadcast(x, shape)
        return self._add("gather", shape, x, data=np.broadcast_to(x.places, shape))

    @checked
    def scale(self, x: Value, factor: float, name: str = "") -> Value:
        """``factor * x`` in binary32."""
        factor = float(np.float32(factor))
        return self._add("arithmetic", x.shape, x, detail="scale", parameter=factor, name=name)

    @checked
    def function(self, function: str, x: Value, name: str = "") -> Value:
        """A function of the vector unit, of each element."""
        require_one_of("function", function, host.FUNCTIONS if self.on_host else FUNCTIONS)
        return self._add("function", x.shape, x, detail=function, name=name)

    @checked
    def softmax(
        self, x: Value, scale: float = 1.0, *, causal: bool = False, name: str = ""
    ) -> Value:
        """``exp(scale * x)`` over its sum, along the last axis."""
        if not 2.0**-120 <= scale <= 2.0**120:
            raise ValueError(f"scale must be a number from 2^-120 to 2^120, not {shown(scale)}")
        detail = "causal" if causal else ""
        return self._add("softmax", x.shape, x, parameter=scale, detail=detail, name=name)

    @checked
    def norm(
        self,
        kind: str,
        x: Value,
        gain: Numbers | None = None,
        bias: Numbers | None = None,
        epsilon: float = 1e-5,
        name: str = "",
    ) -> Value:
        """``layer_norm`` or ``rms_norm`` along the last axis, with a gain (1) and a bias (0)."""
        require_one_of("kind", kind, ("layer_norm", "rms_norm"))
        if not 0 <= epsilon < np.inf:
            raise ValueError(f"epsilon must be finite and not negative, not {shown(epsilon)}")
        numbers = []
        for label, given, default in (("gain", gain, 1.0), ("bias", bias, 0.0)):
            wanted = x.shape[-1:]
            array = np.full(wanted, default, np.float32) if given is None else np.asarray(given)
            if array.shape != wanted or array.dtype != np.float32:
                raise ValueError(
                    f"{label} must be float32 of shape {wanted}, not {array.dtype} of shape "
                    f"{array.shape}"
                )
            numbers.append(array)
        return self._add(kind, x.shape, x, data=np.stack(numbers), parameter=epsilon, name=name)

    @checked
    def sum(self, x: Value, name: str = "", *, window: bool = False) -> Value:
        """The sum along the last axis, which stays with length 1.

        It is `mxsafe.model.half_sums`, or with `window` `mxsafe.model.window_sum`, which machines
        with the reduction ``sum`` have.
        """
        detail = "window" if window else ""
        return self._add("sum", (*x.shape[:-1], 1), x, detail=detail, name=name)

    @checked
    def gather(self, inputs: Sequence[Value], places: Numbers, name: str = "") -> Value:
        """Elements of some tensors, which lie one behind the other, in another order and shape."""
        index = np.asarray(places, np.int32)
        total = sum(value.size for value in inputs)
        if index.size and not (index.min() >= 0 and index.max() < total):
            wrong = index.min() if index.min() < 0 else index.max()
            raise ValueError(f"places must be from 0 to {total - 1}, not {wrong}")
        if len(inputs) == 1:
            source = inputs[0]
            if index.shape == source.shape and np.array_equal(index, source.places):
                return source
            if source.op == "gather":  # of a gather, at once
                inner = source.numbers.reshape(-1)[index]
                if (inner >= 0).all():
                    return self.gather(source.inputs, inner, name)
        if all(value.op == "constant" for value in inputs):
            flat = np.concatenate([np.ravel(value.numbers) for value in inputs])
            return self.constant(flat[index], name)
        if len({value.dtype for value in inputs}) > 1:
            raise ValueError("inputs must have one dtype")
        dtype = inputs[0].dtype
        return self._add("gather", index.shape, *inputs, data=index, name=name, dtype=dtype)

    @checked
    def spread(self, x: Value, places: Numbers) -> Value:
        """`gather`, where a place of -1 may have anything that rows of zeros of the inputs give."""
        index = np.asarray(places, np.int32)
        if x.op == "gather" and len(x.inputs) == 1:
            return self.spread(x.inputs[0], np.where(index >= 0, x.numbers.reshape(-1)[index], -1))
        return self._add("gather", index.shape, x, data=index)

    @checked
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        try:
            if x.op == "constant" and x.data is not None:
                return self.constant(x.data.reshape(tuple(shape)), x.name)
            return self.gather([x], x.places.reshape(tuple(shape)))
        except ValueError:
            raise ValueError(
                f"shape must have the {x.size} elements of {x.shape}, not {tuple(shape)}"
            ) from None

    @checked
    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Axes in another order."""
        if sorted(axis % len(x.shape) for axis in axes) != [*range(len(x.shape))]:
            raise ValueError(f"axes must be those of {x.shape}, each once, not {tuple(axes)}")
        return self.gather([x], x.places.transpose(tuple(axes)))

    @checked
    def broadcast(self, x: Value, shape: Sequence[int]) -> Value:
        """Repeated to a shape, as NumPy does it."""
        try:
            return self.gather([x], np.broadcast_to(x.places, tuple(shape)))
        except ValueError:
            raise ValueError(
                f"shape must be one that {x.shape} broadcasts to, not {shape}"
            ) from None

    @checked
    def concatenate(self, inputs: Sequence[Value], axis: int = 0) -> Value:
        """Tensors along an axis."""
        starts = accumulate((value.size for value in inputs[:-1]), initial=0)
        parts = [value.places + start for value, start in zip(inputs, starts, strict=True)]
        return self.gather(inputs, np.concatenate(parts, axis))

    @checked
    def host(
        self,
        operation: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        parameter: float = 0.0,
        name: str = "",
    ) -> Value:
        """One of `HOST_OPERATIONS`; operands broadcast."""
        require_one_of("operation", operation, HOST_OPERATIONS)
        require_one_of("dtype", dtype, _DTYPES)
        more: dict[str, Any] = {"detail": operation, "parameter": parameter, "name": name}
        return self._add("host", shape, *inputs, dtype=dtype, host=True, **more)

    @checked
    def output(self, name: str, x: Value) -> None:
        """A tensor that is read after each run."""
        if name in self.outputs:
            raise ValueError(f"name must be of no other output, not {name}")
        self.outputs[name] = x

    @checked
    def update(self, x: Value, new: Value) -> None:
        """An output of the name of an input, which is that input in the next run.

        A compiled graph has both in one place of memory: see `mxsafe.machine.compiled.Resident`.
        """
        if x.op != "input" or x.dtype != "float32" or x.shape != new.shape:
            raise ValueError(
                f"x must be a float32 input of shape {new.shape}, not {x.op} of {x.dtype} and "
                f"shape {x.shape}"
            )
        self.output(x.name, new)
        self.kept.append(x.name)
