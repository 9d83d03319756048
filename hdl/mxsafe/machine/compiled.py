"""Compiled networks: a program, its memory, and where inputs and outputs lie; and their files."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.atomic import nameable, write_atomically
from mxsafe.codec._inputs import Numbers
from mxsafe.codec.storage import DAMAGED, damage
from mxsafe.machine._head import array_of, settled_head, told_fields
from mxsafe.machine.compiler.kernels import Kernel
from mxsafe.machine.compiler.legal import legal
from mxsafe.machine.compiler.lowering import Lowered, lowered
from mxsafe.machine.compiler.places import LayoutError
from mxsafe.machine.compiler.planning import Table
from mxsafe.machine.compiler.tensors import Operand
from mxsafe.machine.compiler.timing import Times, predict
from mxsafe.machine.configuration import MachineConfiguration, resized, sizes_of
from mxsafe.machine.contents import COMPILED, contents
from mxsafe.machine.description import VERSION, run_words
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.layout import OperandLayout
from mxsafe.machine.program import Program
from mxsafe.machine.stages import Stages, computed, copied, staged
from mxsafe.machine.trace import Traced, write_timeline
from mxsafe.validation import checked, require_one_of, shown

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Run = Callable[[Program, Bytes], None]
FILE_VERSION = 5
"""Version of the layout of ``.mxprog`` files and of the tensors in them."""


@dataclass(frozen=True)
class Port:
    """An input or an output.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        float32; of inputs also int64, which any integers are taken as, and bool.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    def taken(self, given: ArrayLike) -> NDArray[Any]:
        """A given array as one of the port's type.

        Raises
        ------
        TypeError, ValueError
            If it is of another type or shape.
        """
        array = np.asarray(given)
        kinds, wanted = ("iu", "integers") if self.dtype == "int64" else ("", self.dtype)
        if array.dtype.name != self.dtype and array.dtype.kind not in kinds:
            raise TypeError(f"{self.name} must be {wanted}, not {array.dtype}")
        if array.shape != self.shape:
            raise ValueError(f"{self.name} must have shape {self.shape}, not {array.shape}")
        return array.astype(self.dtype)


@dataclass(frozen=True, eq=False)
class Codes:
    """An operand in memory that the host makes of an input, and the program of what that becomes.

    Attributes
    ----------
    start : int
        Numbers of all inputs before this one.
    index : ndarray of int64, shape (rows, columns)
        Number of each element in the input; -1 for none.
    operand : Operand
        Perhaps with more columns.
    """

    start: int
    index: NDArray[np.int64]
    operand: Operand

    def write(self, memory: Bytes, numbers: NDArray[np.float32]) -> None:
        """Put what the input is converted to into memory."""
        layout = self.operand.layout
        data = np.zeros((layout.rows, layout.columns), np.float32)
        own = np.where(self.index >= 0, numbers.reshape(-1)[self.index], np.float32(0))
        data[:, : self.index.shape[1]] = own
        self.operand.write(memory, layout.converted(data))


@dataclass(frozen=True, eq=False)
class Part:
    """A program with its memory.

    Attributes
    ----------
    program : Program
    image : ndarray of uint8
        Memory at the start, all but the inputs.
    outputs : tuple of Port
    feeds : tuple of int
        Its inputs: numbers of values of the host's graph.
    sources, places : ndarray of int64
        Numbers of the inputs, which lie one behind the other, and where in memory (counted in
        numbers) each of them is written.
    results : tuple of ndarray of int64
        Of each output where in memory its numbers are.
    labels : tuple of str
        What each descriptor computes, by the names of the graph.
    kept : tuple of tuple of int
        Numbers of feeds and of the outputs that they become, which lie in one place of memory.
    codes : tuple of Codes
        Operands that stay in memory beside feeds.
    """

    program: Program
    image: Bytes
    outputs: tuple[Port, ...]
    feeds: tuple[int, ...]
    sources: NDArray[np.int64]
    places: NDArray[np.int64]
    results: tuple[NDArray[np.int64], ...]
    labels: tuple[str, ...] = field(repr=False)
    kept: tuple[tuple[int, int], ...] = ()
    codes: tuple[Codes, ...] = ()

    def memory(self, given: Sequence[NDArray[Any]]) -> Bytes:
        """Memory at the start, with inputs."""
        memory = self.image.copy()
        start = 0
        for one in given:
            self.write(memory, start, one)
            start += one.size
        return memory

    def write(self, memory: Bytes, start: int, numbers: NDArray[Any]) -> None:
        """Put an input into memory, and operands that stay beside it.

        Parameters
        ----------
        memory : ndarray of uint8
        start : int
            Numbers of all inputs before it.
        numbers : ndarray of float32
        """
        first, stop = np.searchsorted(self.sources, [start, start + numbers.size])
        own = self.sources[first:stop] - start
        memory.view("<f4")[self.places[first:stop]] = numbers.reshape(-1)[own]
        for one in self.codes:
            if one.start == start:
                one.write(memory, numbers)

    def read(self, memory: Bytes) -> tuple[Floats, ...]:
        """Outputs in a memory after the program."""
        return tuple(self.output(memory, number) for number in range(len(self.outputs)))

    def output(self, memory: Bytes, number: int) -> Floats:
        """An output in a memory."""
        return memory.view("<f4")[self.results[number]].reshape(self.outputs[number].shape)


@checked
@dataclass(frozen=True, eq=False)
class Compiled:
    """A network as programs, with their memory; to be called with its inputs.

    Attributes
    ----------
    parts : tuple of Part
        One, but where the host computes something in between.
    host : Graph
        What the host does: see `mxsafe.machine.stages`.
    text : str
        The report.
    """

    parts: tuple[Part, ...]
    host: Graph
    text: str = field(default="", repr=False)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of inputs, in the order in which a call takes them."""
        found = (value for value in self.host.values if value.op == "input")
        return tuple(map(_port, found))

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of outputs, in the order in which a call gives them."""
        found = self.host.outputs.items()
        return tuple(Port(name, value.shape, value.dtype) for name, value in found)

    def __call__(self, *given: ArrayLike) -> Any:
        """Run on the interpreter: an array for each output, or the array if there is one output.

        Raises
        ------
        TypeError, ValueError
            If inputs are missing or not of their type and shape.
        """
        return self.run(given, _interpreted)

    def run(self, given: Any, run: Run) -> Any:
        """Do the host's part, and let something run each program over its memory.

        Parameters
        ----------
        given : sequence of array_like
        run : callable
            With a `Program` and its memory, which it changes.

        Raises
        ------
        TypeError, ValueError
            If inputs are missing or not of their type and shape.
        """
        if len(given) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise ValueError(f"inputs must be {len(self.inputs)} ({names}), not {len(given)}")
        named = {port.name: one for port, one in zip(self.inputs, given, strict=True)}
        resident = Resident(self, {name: named.pop(name) for name in self.host.kept})
        outputs = resident.run(named, run)
        found = tuple(
            outputs[port.name] if port.name in outputs else resident.read(port.name)
            for port in self.outputs
        )
        return found[0] if len(found) == 1 else found

    def trace(self, path: str | Path, times: Times | None = None) -> None:
        """Write when its descriptors run, by the timing model, for Chrome's or Perfetto's viewer.

        See `mxsafe.machine.trace`.

        Parameters
        ----------
        path : str or Path
        times : Times, optional
            Those of its machine; by default those of the machine with default sizes.
        """
        own = [Traced(part.program, part.labels, times=times) for part in self.parts]
        write_timeline(path, own)

    def report(self) -> str:
        """Kernel by kernel: descriptors, cycles, words moved, where; and the host's part."""
        return self.text

    @property
    def identity(self) -> dict[str, Any]:
        """Sizes of the machine that it is for, and versions of descriptors and files."""
        sizes, told = sizes_of(self.parts[0].program.configuration), told_fields()
        machine = {name: value for name, value in sizes.items() if name in told}
        return {"machine": machine, "descriptors": VERSION, "file": FILE_VERSION}

    def save(self, path: str | Path) -> None:
        """Write it as a file, which `load` and ``mxsafe run`` take.

        Raises
        ------
        ValueError
            If the name does not end in ``.mxprog``.
        """
        path = Path(path)
        if path.suffix != ".mxprog":
            raise ValueError(f"path must end in .mxprog, not {path.name}")
        arrays: dict[str, NDArray[Any]] = {}
        for number, part in enumerate(self.parts):
            own: dict[str, NDArray[Any]] = {
                "program": np.frombuffer(part.program.data, np.uint8),
                "image": part.image,
                "sources": part.sources,
                "places": part.places,
                **{f"result_{at}": index for at, index in enumerate(part.results)},
                **{f"codes_{at}": one.index for at, one in enumerate(part.codes)},
            }
            arrays |= {f"{name}_of_{number}": array for name, array in own.items()}
        numbers = {id(value): at for at, value in enumerate(self.host.values)}
        values = []
        for at, value in enumerate(self.host.values):
            entry = {one: getattr(value, one) for one in _WRITTEN}
            values.append({**entry, "inputs": [numbers[id(one)] for one in value.inputs]})
            if value.data is not None:
                arrays[f"value_{at}"] = value.data
        head = {
            **self.identity,
            "parts": [
                {
                    "feeds": part.feeds,
                    "kept": part.kept,
                    "codes": [_head_of(one) for one in part.codes],
                    "outputs": [[p.name, p.shape] for p in part.outputs],
                    "labels": part.labels,
                }
                for part in self.parts
            ],
            "values": values,
            "outputs": [[name, numbers[id(value)]] for name, value in self.host.outputs.items()],
            "kept": self.host.kept,
            "text": self.text,
        }
        head["hash"] = _hash(head, arrays)
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        data = BytesIO()
        np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
        write_atomically(path, data.getvalue())

    @classmethod
    def load(
        cls, path: str | Path, configuration: MachineConfiguration | None = None
    ) -> "Compiled":
        """Read a file.

        Parameters
        ----------
        path : str or Path
        configuration : MachineConfiguration, optional
            The machine that is there; the file must be for the same one.

        Raises
        ------
        ValueError
            If it is no such file, was changed, or is for another machine.
        """
        data = nameable(path).read_bytes()
        try:
            with np.load(BytesIO(data), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if foreign := [name for name in arrays if not isinstance(arrays[name], np.ndarray)]:
                raise ValueError(f"{foreign[0]} must be an array of NumPy")
            head = json.loads(arrays.pop("head").tobytes())
            wanted = head.pop("hash")
        except (*DAMAGED, KeyError, TypeError, ValueError) as error:
            seems = contents(data) or "something else"
            how = f": {damage(error)}" if seems == COMPILED else f", not {seems}"
            raise ValueError(f"{path} must be a file of a compiled network{how}") from None
        if _hash(head, arrays) != wanted:
            raise ValueError(f"{path} must have the hash {wanted}: it was changed")
        try:
            versions = {"descriptors": VERSION, "file": FILE_VERSION}
            head = settled_head(head, versions)
            sizes = {n: tuple(v) if isinstance(v, list) else v for n, v in head["machine"].items()}
            machine = resized(MachineConfiguration(), **sizes)
            different = (
                name
                for name in told_fields()
                if configuration and getattr(machine, name) != getattr(configuration, name)
            )
            if own := next(different, None):
                raise ValueError(
                    f"must be for this machine, whose {own} is "
                    f"{shown(getattr(configuration, own))}, not {shown(getattr(machine, own))}"
                )
            return cls(_parts_of(head, arrays, machine), _host_of(head, arrays), head["text"])
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} {error}") from None


def _host_of(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Graph:
    """What the host does, of a file."""
    host = Graph(kept=head["kept"])
    for at, entry in enumerate(head["values"]):
        inputs = tuple(host.values[one] for one in entry["inputs"])
        made = {**entry, "inputs": inputs, "data": arrays.get(f"value_{at}")}
        host.values.append(Value(**made))
    for name, at in head["outputs"]:
        host.output(name, host.values[at])
    return host


def _parts_of(
    head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], machine: MachineConfiguration
) -> tuple[Part, ...]:
    """Programs with their memory, of a file."""
    parts = []
    for number, entry in enumerate(head["parts"]):

        def own(name: str, kind: type = np.int64, number: int = number) -> NDArray[Any]:
            return array_of(arrays, f"{name}_of_{number}", kind)

        codes = tuple(
            _codes_of(one, own(f"codes_{at}"), machine) for at, one in enumerate(entry["codes"])
        )
        parts.append(
            Part(
                Program(own("program", np.uint8).tobytes(), machine),
                own("image", np.uint8),
                tuple(Port(name, shape) for name, shape in entry["outputs"]),
                entry["feeds"],
                own("sources"),
                own("places"),
                tuple(own(f"result_{at}") for at in range(len(entry["outputs"]))),
                entry["labels"],
                entry["kept"],
                codes,
            )
        )
    return tuple(parts)


@checked
class Resident:
    """A compiled network whose memory stays from run to run, with what `Graph.update` keeps there.

    Parameters
    ----------
    compiled : Compiled
    kept : Mapping of str to array_like
        Inputs that are updated, all of them: what they are in the first run.

    Attributes
    ----------
    compiled : Compiled
    memories : tuple of ndarray of uint8
        One for each program. A run writes inputs that are not kept, and reads outputs that are not
        kept; those that `through_host` names as well.

    Raises
    ------
    TypeError, ValueError
        If what is kept is missing, or not of its type and shape.
    """

    def __init__(self, compiled: Compiled, kept: Mapping[str, Numbers]) -> None:
        self.compiled = compiled
        self.memories = tuple(part.image.copy() for part in compiled.parts)
        self._inputs = {value.name: value for value in compiled.host.values if value.op == "input"}
        numbers = {id(value): at for at, value in enumerate(compiled.host.values)}
        self._places: dict[str, tuple[int, int, int]] = {}
        """Of what is kept the program, the numbers of all inputs before it, and the output."""
        for number, part in enumerate(compiled.parts):
            starts = self._starts(part)
            fed = dict(zip(part.feeds, range(len(part.feeds)), strict=True))
            output_of = dict(part.kept)
            for name in compiled.host.kept:
                feed = fed.get(numbers[id(self._inputs[name])], -1)
                if feed in output_of:
                    self._places[name] = number, starts[feed], output_of[feed]
        self._by_host: dict[str, NDArray[Any]] = {}
        self.load(kept)

    def _starts(self, part: Part) -> list[int]:
        """Numbers of all inputs of a program before each of them."""
        sizes = (self.compiled.host.values[place].size for place in part.feeds)
        return [0, *accumulate(sizes)]

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of what is kept."""
        return tuple(self.compiled.host.kept)

    @property
    def through_host(self) -> tuple[str, ...]:
        """Names of kept arrays that the host reads after each run and writes before the next."""
        return tuple(name for name in self.kept if name not in self._places)

    def load(self, given: Mapping[str, ArrayLike]) -> None:
        """Put into memory what is kept, all of it.

        Raises
        ------
        TypeError, ValueError
            As at the beginning; nothing has changed then.
        """
        if sorted(given) != sorted(self.kept):
            raise ValueError(f"kept must be {', '.join(self.kept)}, not {', '.join(given)}")
        arrays = {name: _port(self._inputs[name]).taken(one) for name, one in given.items()}
        for name, array in arrays.items():
            if name in self._places:
                number, start, _ = self._places[name]
                self.compiled.parts[number].write(self.memories[number], start, array)
            else:
                self._by_host[name] = array

    def read(self, name: str) -> Floats:
        """A kept array, as it is now.

        Raises
        ------
        ValueError
            If there is nothing of such a name.
        """
        require_one_of("name", name, self.kept)
        if name not in self._places:
            return self._by_host[name].copy()
        number, _, output = self._places[name]
        return self.compiled.parts[number].output(self.memories[number], output)

    def run(self, given: Mapping[str, ArrayLike], run: Run | None = None) -> dict[str, Floats]:
        """Write inputs, let something run the programs, read outputs.

        Parameters
        ----------
        given : Mapping of str to array_like
            Inputs that are not kept.
        run : callable, optional
            With a `Program` and its memory, which it changes; by default the interpreter.

        Returns
        -------
        dict of str to ndarray
            Outputs that are not kept.

        Raises
        ------
        TypeError, ValueError
            If inputs are missing or not of their type and shape.
        """
        wanted = [name for name in self._inputs if name not in self.kept]
        if sorted(given) != sorted(wanted):
            raise ValueError(f"inputs must be {', '.join(wanted)}, not {', '.join(given)}")
        host = self.compiled.host
        used = {id(one) for value in host.values for one in value.inputs}
        used |= {id(host.values[at]) for part in self.compiled.parts for at in part.feeds}
        used |= {id(one) for name, one in host.outputs.items() if name not in self._places}
        known: dict[int, NDArray[Any]] = {}
        done: set[int] = set()
        for value in host.values:
            if value.op == "input":
                if value.name not in self.kept:
                    known[id(value)] = _port(value).taken(given[value.name])
                elif value.name in self._by_host:
                    known[id(value)] = self._by_host[value.name]
            elif value.op == "constant":
                known[id(value)] = value.numbers
            elif value.op == "result":
                number, output = value.numbers.tolist()
                if number not in done:
                    done.add(number)
                    self._run(number, known, run or _interpreted)
                part = self.compiled.parts[number]
                if id(value) in used:
                    known[id(value)] = part.output(self.memories[number], output)
            else:
                known[id(value)] = computed(value, [known[id(one)] for one in value.inputs])
        for name in self._by_host:
            self._by_host[name] = known[id(host.outputs[name])]
        return {n: known[id(one)] for n, one in host.outputs.items() if n not in self.kept}

    def _run(self, number: int, known: Mapping[int, NDArray[Any]], run: Run) -> None:
        """Write what a program takes, and run it."""
        part, memory = self.compiled.parts[number], self.memories[number]
        for place, start in zip(part.feeds, self._starts(part), strict=False):
            value = self.compiled.host.values[place]
            if value.op != "input" or value.name not in self._places:
                part.write(memory, start, known[id(value)])
        run(part.program, memory)


def _port(value: Value) -> Port:
    return Port(value.name, value.shape, value.dtype)


def _head_of(codes: Codes) -> dict[str, Any]:
    """The entry of an operand in a file, without its index."""
    own = codes.operand
    return {
        "start": codes.start,
        "name": own.name,
        "columns": own.layout.columns,
        "block": own.layout.block,
        "codes": own.codes,
        "scales": own.scales,
    }


def _codes_of(
    head: dict[str, Any], index: NDArray[np.int64], configuration: MachineConfiguration
) -> Codes:
    layout = OperandLayout(
        configuration=configuration,
        rows=len(index),
        columns=head["columns"],
        block=head["block"],
    )
    operand = Operand(head["name"], layout, head["codes"], head["scales"])
    return Codes(head["start"], index, operand)


_WRITTEN = ("op", "shape", "name", "detail", "parameter", "dtype", "host")
"""What a file has of each value of the host."""


def _hash(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    made = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for name in sorted(arrays):
        made.update(name.encode() + str(arrays[name].dtype).encode())
        made.update(np.ascontiguousarray(arrays[name]).tobytes())
    return made.hexdigest()


def _interpreted(program: Program, memory: Bytes) -> None:
    from mxsafe.model.machine import Machine

    ended = Machine(program.configuration).run(program.data, memory, limit=1 << 32)
    if ended.code:
        raise RuntimeError(f"descriptor {ended.descriptor}: {ended.error}, {ended.reason}")


def compile_graph(
    graph: Graph,
    configuration: MachineConfiguration | None = None,
    *,
    block: int | tuple[int, int] | None = None,
    times: Times | None = None,
) -> Compiled:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration, optional
    block : int or tuple of int, optional
        Of operands: 64 along the sum, the default, or tiles of ``(8, 8)``. Operands without scales
        have none.
    times : Times, optional
        Those of the machine, by which the report predicts cycles, such as
        `mxsafe.rtl.machine.times.times_of` has them; by default those of the machine with default
        sizes. The program is the same with any.

    Raises
    ------
    CompileError
        If the machine lacks what the graph needs; the message has every reason.
    ValueError
        If there is no output, or the machine computes nothing.

    Notes
    -----
    What the machine does not lay out as it is used the host copies, between two programs; the
    report says so.
    """
    configuration = configuration or MachineConfiguration()
    block = configuration.operand_block(block)
    made, programs = _lowered(legal(graph, configuration), configuration, block)
    numbers = {id(value): at for at, value in enumerate(made.host.values)}
    parts = tuple(
        _part(program, low, configuration, [numbers[id(v)] for v in feeds], kept)
        for program, low, feeds, kept in zip(
            made.programs, programs, made.feeds, made.kept, strict=True
        )
    )
    return Compiled(parts, made.host, _report(programs, made.host, times))


def _lowered(
    graph: Graph, configuration: MachineConfiguration, block: int | tuple[int, int]
) -> tuple[Stages, list[Lowered]]:
    """Programs of a graph; the host copies in between what the machine does not lay out."""
    while True:
        made = staged(graph)
        try:
            return made, [
                lowered(program, configuration, block, kept)
                for program, kept in zip(made.programs, made.kept, strict=True)
            ]
        except LayoutError as error:
            graph = copied(graph, [made.origins[id(value)] for value in error.values])


def _part(
    graph: Graph,
    made: Lowered,
    configuration: MachineConfiguration,
    feeds: Sequence[int],
    kept: Mapping[str, str],
) -> Part:
    inputs = [value for value in graph.values if value.op == "input"]
    image = np.zeros(made.emitter.memory.used, np.uint8)
    for address, data in made.image:
        image[address : address + len(data)] = data
    starts = dict(zip(map(id, inputs), np.cumsum([0, *(v.size for v in inputs)]), strict=False))
    places, sources = [], []
    for table in made.tables:
        place, source = _written(image, table, starts)
        places.append(place)
        sources.append(source)
    ports, results = [value.name for value in inputs], list(graph.outputs)
    where = np.concatenate([np.zeros(0, np.int64), *places])
    numbers = np.concatenate([np.zeros(0, np.int64), *sources])
    order = np.argsort(numbers, kind="stable")
    return Part(
        Program.assembled(made.emitter.program(), configuration),
        image,
        tuple(Port(name, value.shape) for name, value in graph.outputs.items()),
        tuple(feeds),
        numbers[order],
        where[order],
        tuple(_memory_index(made, value).reshape(-1) for value in graph.outputs.values()),
        _labels(made),
        tuple((ports.index(name), results.index(kept[name])) for name in made.kept),
        tuple(
            Codes(int(starts[id(one.value)]), index.astype(np.int64), operand)
            for one in made.codes
            for index, operand in zip(one.placement.index, one.operands, strict=True)
        ),
    )


def _labels(made: Lowered) -> tuple[str, ...]:
    """Label of each descriptor: the operation of its kernel."""
    found = [""] * len(made.emitter.steps)
    for kernel in made.kernels:
        for number in kernel.steps:
            found[number] = _names(kernel)
    return tuple(found)


def _names(kernel: Kernel) -> str:
    """Names of what a kernel computes."""
    return ", ".join(dict.fromkeys(reversed(kernel.names))) or _label(kernel.root)


def _origin(value: Value, starts: Mapping[int, int]) -> tuple[Floats, NDArray[np.int64]]:
    """Constants of a value of the host, and for each element the number of the input, or -1."""
    if value.op == "constant":
        return value.numbers.reshape(-1), np.full(value.size, -1, np.int64)
    if value.op == "input":
        return np.zeros(value.size, np.float32), np.arange(value.size) + starts[id(value)]
    parts = [_origin(one, starts) for one in value.inputs]
    numbers, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    flat = value.numbers.reshape(-1)
    return numbers[flat], index[flat]


def _written(
    image: Bytes, table: Table, starts: Mapping[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write constants of a table; places of inputs in memory, and their numbers."""
    numbers, origin = _origin(table.value, starts)
    places, sources = [], []
    for matrix, vectors in zip(table.matrices, table.vectors, strict=True):
        index = table.placement.index[matrix]
        filled = index >= 0
        values = np.where(filled, numbers[index], np.float32(0))
        vectors.write(image, values.T)
        own = np.where(filled, origin[index], -1)
        lane, beat = np.nonzero(own >= 0)
        places.append(_number(vectors, lane, beat))
        sources.append(own[lane, beat])
    return np.concatenate(places), np.concatenate(sources)


def _number(vectors: Any, lane: NDArray[Any], beat: NDArray[Any]) -> NDArray[np.int64]:
    """Places in memory of some lanes of beats, counted in numbers."""
    layout = vectors.layout
    lanes = layout.configuration.vector_lanes
    strip = lane // lanes * (layout.strip_bytes // 4)
    return np.asarray(vectors.address // 4 + strip + beat * lanes + lane % lanes, np.int64)


def _memory_index(made: Lowered, value: Value) -> NDArray[np.int64]:
    """Places in memory of the elements of a value."""
    if value.op == "gather":
        parts = [_memory_index(made, one).reshape(-1) for one in value.inputs]
        return cast(NDArray[np.int64], np.concatenate(parts)[value.numbers])
    found = np.full(value.size, -1, np.int64)
    for kernel in made.stored.get(id(value), ()):
        for index, vectors in zip(kernel.placement.index, kernel.targets, strict=True):
            lane, beat = np.nonzero(index >= 0)
            found[index[lane, beat]] = _number(vectors, lane, beat)
    return found.reshape(value.shape)


def _label(value: Value) -> str:
    """Name of a value; of a gather those of its inputs."""
    if value.op != "gather":
        return value.name
    return ", ".join(dict.fromkeys(_label(one) for one in value.inputs))


def _where(kernel: Kernel) -> str:
    """Place of the result of a kernel."""
    found = ["float32 to memory"] if kernel.kind == "tensor" else []
    if kernel.operand is not None:
        sides = dict.fromkeys(f"buffer {side}" for _, side in sorted(kernel.operand.stays))
        found.append(
            "operand to " + " and ".join([*sides, *["memory"] * bool(kernel.operand.needed)])
        )
    return ", ".join(found)


def _report(programs: Sequence[Lowered], host: Graph, times: Times | None) -> str:
    """A line for each kernel, and for what the host does; totals."""
    lines = ["descriptors    cycles  array busy   words  result, and what makes it"]
    total: Counter[str] = Counter()
    for number, made in enumerate(programs, 1):
        predicted = predict(made.emitter, times)
        if len(programs) > 1:
            lines.append(f"program {number} of {len(programs)}:")
        lines += _kernels(made, predicted)
        for name in ("cycles", "array_busy", "words_read", "words_written"):
            total[name] += getattr(predicted, name)
        total["descriptors"] += len(made.emitter.steps)
        total["bytes"] += made.emitter.memory.used
    kept = [f"{value.name} ({value.detail or value.op})" for value in host.values if value.host]
    if kept:
        lines.append(f"by the host, in binary32: {', '.join(kept)}")
    there = {name for made in programs for name in made.kept}
    moved = [name for name in host.kept if name not in there]
    if moved:
        lines.append(f"read and written by the host from run to run: {', '.join(moved)}")
    lines.append(
        f"{total['descriptors']} descriptors, {total['cycles']} cycles predicted, array busy "
        f"{total['array_busy'] / total['cycles']:.1%}, {total['words_read']} words read, "
        f"{total['words_written']} written, {total['bytes']} bytes of memory"
    )
    return "\n".join(lines)


def _kernels(made: Lowered, predicted: Any) -> Iterator[str]:
    for kernel in made.kernels:
        runs = [predicted.runs[number] for number in kernel.steps]
        if not runs:
            continue
        cycles = max(run.stop for run in runs) - min(run.start for run in runs)
        moved = busy = 0
        for run in runs:
            values = made.emitter.steps[run.number].fields
            if run.queue in ("load", "store"):
                runs_of_words = (values[f"count_{loop}"] for loop in (1, 2, 3))
                moved += run_words(values, made.emitter.configuration) * prod(runs_of_words)
            if run.queue == "gemm":
                busy += values["strips_a"] * values["strips_w"] * values["beats"]
        where = _where(kernel)
        yield f"{len(runs):11} {cycles:9} {busy:11} {moved:7}  {where}: {_names(kernel)}"
