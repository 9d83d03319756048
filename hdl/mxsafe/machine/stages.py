"""A graph of which the host computes parts, as several programs and what is between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mxsafe import model
from mxsafe.machine.graph import Graph, Value
from mxsafe.model import host
from mxsafe.validation import shown

Array = NDArray[Any]


@dataclass
class Stages:
    """Programs, one after the other, and the host's part.

    Attributes
    ----------
    host : Graph
        What the host does before, between and after programs, in order. A value ``result`` is an
        output of a program: `data` has the number of the program and that of the output.
    programs : list of Graph
    feeds : list of list of Value
        Of each program the values of `host` that are its inputs.
    kept : list of dict of str to str
        Of each program the inputs that can stay in its memory, and the outputs that they become.
    origins : dict of int to Value
        By the values of programs, those of the graph.
    """

    host: Graph = field(default_factory=Graph)
    programs: list[Graph] = field(default_factory=list)
    feeds: list[list[Value]] = field(default_factory=list)
    kept: list[dict[str, str]] = field(default_factory=list)
    origins: dict[int, Value] = field(default_factory=dict)


def staged(graph: Graph) -> Stages:
    """Take a graph apart, so that a program needs no more than the host and programs before have.

    Raises
    ------
    ValueError
        If there is no output, or the machine computes nothing.
    """
    if not graph.outputs:
        raise ValueError("graph must have an output, not none")
    return _Stager(graph).run()


def copied(graph: Graph, values: Sequence[Value]) -> Graph:
    """The same graph, in which what uses some values has them from the host, in another program."""
    made = Graph()
    own: dict[int, Value] = {}
    used: dict[int, Value] = {}
    handed = {id(value) for value in values}
    for value in graph.values:
        inputs = tuple(used[id(one)] for one in value.inputs)
        own[id(value)] = used[id(value)] = replace(value, inputs=inputs)
        made.values.append(own[id(value)])
        if id(value) in handed:
            used[id(value)] = made.host("copy", [own[id(value)]], value.shape, name=value.name)
    for name, value in graph.outputs.items():
        made.output(name, own[id(value)])
    made.kept = [*graph.kept]
    return made


class _Stager:
    def __init__(self, graph: Graph) -> None:
        self._graph, self._made = graph, Stages()
        self._level: dict[int, int] = {}
        """Of each value that the machine computes its program, and of others after how many."""
        self._inside: list[dict[int, Value]] = []
        self._outside: dict[int, Value] = {}

    def run(self) -> Stages:
        """Program after program, with what it needs of the host before it."""
        for value in self._graph.values:
            before = [self._level[id(v)] + (value.host and not v.of_host) for v in value.inputs]
            self._level[id(value)] = max(before, default=0)
            if value.op == "input":  # all of them, whether needed or not
                self._of_host(value)
        for value in self._needed():
            if value.of_host or value.op == "gather":
                continue
            level = self._level[id(value)]
            for _ in range(len(self._made.programs), level + 1):
                self._made.programs.append(Graph())
                self._made.feeds.append([])
                self._made.kept.append({})
                self._inside.append({})
            self._of_program(value, level)
        if not self._made.programs:
            raise ValueError("graph must have something that the machine computes, not the host")
        for name, value in self._graph.outputs.items():
            self._made.host.output(name, self._of_host(value))
        self._made.host.kept = [*self._graph.kept]
        self._keep()
        return self._made

    def _keep(self) -> None:
        """Note what stays in the memory of a program: no other one needs it, nor the host."""
        made = self._made
        inputs = {value.name: value for value in made.host.values if value.op == "input"}
        elsewhere = {id(one) for value in made.host.values for one in value.inputs}
        for name in self._graph.kept:
            value, new = inputs[name], made.host.outputs[name]
            users = [number for number, fed in enumerate(made.feeds) if value in fed]
            if new.op != "result" or id(value) in elsewhere:
                continue
            number, output = new.numbers.tolist()
            program = made.programs[number]
            if users == [number]:
                ports = [one for one in program.values if one.op == "input"]
                own = ports[made.feeds[number].index(value)].name
                made.kept[number][own] = list(program.outputs)[output]

    def _needed(self) -> list[Value]:
        """Values that outputs depend on, in the order of programs."""
        found: dict[int, Value] = {}
        waiting = list(self._graph.outputs.values())
        while waiting:
            value = waiting.pop()
            if id(value) not in found:
                found[id(value)] = value
                waiting += value.inputs
        kept = [value for value in self._graph.values if id(value) in found]
        return sorted(kept, key=lambda value: self._level[id(value)])

    def _of_program(self, value: Value, number: int) -> Value:
        """A value in a program."""
        known = self._inside[number]
        if id(value) not in known:
            known[id(value)] = self._copied(value, number)
        return known[id(value)]

    def _copied(self, value: Value, number: int) -> Value:
        graph = self._made.programs[number]
        inside = value.op == "gather" or (not value.of_host and self._level[id(value)] == number)
        if inside or value.op == "constant":
            inputs = tuple(self._of_program(one, number) for one in value.inputs)
            graph.values.append(replace(value, inputs=inputs))
            self._made.origins[id(graph.values[-1])] = value
            return graph.values[-1]
        self._made.feeds[number].append(self._of_host(value))
        return graph.input(_unique(value.name, [v.name for v in graph.values]), value.shape)

    def _of_host(self, value: Value) -> Value:
        """A value as the host has it."""
        if id(value) not in self._outside:
            self._outside[id(value)] = self._had(value)
        return self._outside[id(value)]

    def _had(self, value: Value) -> Value:
        values = self._made.host.values
        numbers = _programs(value, self._level)
        if len(numbers) == 1 and -1 not in numbers:
            (number,) = numbers
            program = self._made.programs[number]
            name = next((n for n, v in self._graph.outputs.items() if v is value), value.name)
            name = _unique(name, list(program.outputs))
            place = np.array([number, len(program.outputs)])
            program.output(name, self._of_program(value, number))
            values.append(Value("result", value.shape, (), value.name, data=place))
        else:
            inputs = tuple(self._of_host(one) for one in value.inputs)
            values.append(replace(value, inputs=inputs))
        return values[-1]


def _programs(value: Value, known: dict[int, int]) -> set[int]:
    """Programs that compute a value, or all that a gather takes; -1 is the host."""
    if value.op == "gather":
        return set[int]().union(*(_programs(one, known) for one in value.inputs))
    return {-1 if value.of_host else known[id(value)]}


def _unique(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def computed(value: Value, inputs: Sequence[Array]) -> Array:
    """A value, computed by the host from its inputs.

    Raises
    ------
    ValueError
        If integers name no row of a table, or no element.
    """
    if value.op == "gather":
        flat = np.concatenate([x.reshape(-1) for x in inputs])
        return np.asarray(flat[value.data])
    made = _HOST[value.op](value, *inputs)
    return np.ascontiguousarray(made, value.dtype).reshape(value.shape)


def _arithmetic(value: Value, x: Array, *rest: Array) -> Array:
    if value.detail == "scale":
        return model.multiply(x, np.float32(value.parameter))
    return (model.add if value.detail == "add" else model.multiply)(x, *rest)


def _norm(value: Value, x: Array) -> Array:
    gain, bias = value.numbers
    return host.norm(x, gain, bias, value.parameter, centre=value.op == "layer_norm")


def _alone(value: Value, *inputs: Array) -> Array:
    """An operation that only the host has."""
    if value.detail in ("cast", "copy"):
        return inputs[0].astype(value.dtype)
    if value.detail == "cumsum":
        return np.cumsum(inputs[0], int(value.parameter))
    if value.detail in ("rows", "index"):
        table, *places = inputs
        for axis, (index, size) in enumerate(zip(places, table.shape, strict=False)):
            _require_places(value.inputs[1 + axis].name, index, size)
        return np.asarray(table[tuple(places)])
    if value.detail == "add_rows":
        index, rows = inputs
        _require_places(
            value.inputs[0].name, index, len(total := np.zeros(value.shape, np.float32))
        )
        for place, row in zip(index.reshape(-1), rows.reshape(-1, value.shape[1]), strict=True):
            if place != value.parameter:
                total[place] = model.add(total[place], row)
        return total
    if value.dtype == "float32" and value.detail != "where":
        inputs = tuple(one.astype(np.float64) for one in inputs)
    with np.errstate(all="ignore"):
        return cast(Array, getattr(np, value.detail)(*inputs))


def _require_places(name: str, index: Array, size: int) -> None:
    if not (index.min() >= 0 and index.max() < size):
        wrong = int(index.min() if index.min() < 0 else index.max())
        raise ValueError(f"{name} must be from 0 to {size - 1}, not {shown(wrong)}")


_HOST: dict[str, Callable[..., Array]] = {
    "product": lambda value, a, b: host.product(a, b),
    "arithmetic": _arithmetic,
    "function": lambda value, x: host.function(value.detail, x),
    "softmax": lambda value, x: host.softmax(x, value.parameter, causal=bool(value.detail)),
    "layer_norm": _norm,
    "rms_norm": _norm,
    "sum": lambda value, x: (
        model.window_sum(x)[..., None] if value.detail == "window" else model.half_sums(x)
    ),
    "host": _alone,
}
