"""Compiled networks: a program, its memory, and where inputs and outputs lie; and their files."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mxsafe.atomic import write_atomically
from mxsafe.formats import MXFormat
from mxsafe.machine.compiler.lowering import Lowered, Table, lowered
from mxsafe.machine.compiler.places import CompileError
from mxsafe.machine.compiler.timing import predict
from mxsafe.machine.configuration import MachineConfiguration, resized
from mxsafe.machine.description import VERSION, run_words
from mxsafe.machine.graph import Graph, Value
from mxsafe.machine.program import Program
from mxsafe.validation import checked, shown

__all__ = ["Compiled", "Lookup", "Port", "compile_graph"]

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Run = Callable[[Program, Bytes], None]
FILE_VERSION = 1
"""Version of the layout of ``.mxprog`` files and of the tensors in them."""


@dataclass(frozen=True)
class Port:
    """An input or an output.

    Attributes
    ----------
    name : str
    shape : tuple of int
    """

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Lookup:
    """Rows of a table that the host looks up for an input of integers.

    Attributes
    ----------
    name : str
        Of the input.
    shape : tuple of int
        Of the integers.
    table : ndarray of float32, shape (rows, features)
    """

    name: str
    shape: tuple[int, ...]
    table: Floats

    def rows(self, given: ArrayLike) -> Floats:
        """The rows that integers name.

        Raises
        ------
        TypeError, ValueError
            If they are no integers, of another shape, or name no row.
        """
        index = np.asarray(given)
        if index.dtype.kind not in "iu":
            raise TypeError(f"{self.name} must be integers, not {index.dtype}")
        if index.shape != self.shape:
            raise ValueError(f"{self.name} must have shape {self.shape}, not {index.shape}")
        if index.size and not (index.min() >= 0 and index.max() < len(self.table)):
            raise ValueError(
                f"{self.name} must be from 0 to {len(self.table) - 1}, not "
                f"{shown(int(index.min() if index.min() < 0 else index.max()))}"
            )
        return cast(Floats, self.table[index])


@checked
@dataclass(frozen=True, eq=False)
class Compiled:
    """A network as a program, with its memory; to be called with its inputs.

    Attributes
    ----------
    program : Program
    image : ndarray of uint8
        Memory at the start, all but the inputs.
    inputs, outputs : tuple of Port
        In the order in which a call takes and gives them.
    lookups : tuple of Lookup
        Inputs that are integers, by the name of the input of numbers that the host makes of them.
    sources, places : ndarray of int64
        Numbers of the inputs, which lie one behind the other, and where in memory (counted in
        numbers) each of them is written.
    results : tuple of ndarray of int64
        Of each output where in memory its numbers are.
    text : str
        The report.
    """

    program: Program
    image: Bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    lookups: Mapping[str, Lookup]
    sources: NDArray[np.int64]
    places: NDArray[np.int64]
    results: tuple[NDArray[np.int64], ...]
    text: str = field(default="", repr=False)

    def __call__(self, *given: ArrayLike) -> Any:
        """Run on the interpreter: an array for each output, or the array if there is one output.

        Raises
        ------
        TypeError, ValueError
            If inputs are missing or not of their type and shape.
        """
        return self.run(given, _interpreted)

    def run(self, given: Any, run: Run) -> Any:
        """Write inputs, let something run the program over its memory, read outputs.

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
        memory = self.memory(given)
        run(self.program, memory)
        found = self.read(memory)
        return found[0] if len(found) == 1 else found

    def memory(self, given: Any) -> Bytes:
        """Memory at the start, with inputs.

        Raises
        ------
        TypeError, ValueError
            If inputs are missing or not of their type and shape.
        """
        if len(given) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise ValueError(f"inputs must be {len(self.inputs)} ({names}), not {len(given)}")
        parts = [self._numbers(p, x).reshape(-1) for p, x in zip(self.inputs, given, strict=True)]
        memory = self.image.copy()
        if parts:
            memory.view("<f4")[self.places] = np.concatenate(parts)[self.sources]
        return memory

    def _numbers(self, port: Port, given: ArrayLike) -> Floats:
        if port.name in self.lookups:
            return self.lookups[port.name].rows(given)
        array = np.asarray(given)
        if array.dtype != np.float32:
            raise TypeError(f"{port.name} must be float32, not {array.dtype}")
        if array.shape != port.shape:
            raise ValueError(f"{port.name} must have shape {port.shape}, not {array.shape}")
        return array

    def read(self, memory: Bytes) -> tuple[Floats, ...]:
        """Outputs in a memory after the program."""
        numbers = memory.view("<f4")
        return tuple(
            numbers[index].reshape(port.shape)
            for index, port in zip(self.results, self.outputs, strict=True)
        )

    def report(self) -> str:
        """Kernel by kernel: descriptors, cycles predicted, words moved."""
        return self.text

    @property
    def identity(self) -> dict[str, Any]:
        """Sizes of the machine that it is for, and versions of descriptors and files."""
        configuration = asdict(self.program.configuration)
        for name in ("format_a", "format_w"):
            configuration[name] = cast(MXFormat, getattr(self.program.configuration, name)).name
        return {"machine": configuration, "descriptors": VERSION, "file": FILE_VERSION}

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
        arrays: dict[str, NDArray[Any]] = {
            "program": np.frombuffer(self.program.data, np.uint8),
            "image": self.image,
            "sources": self.sources,
            "places": self.places,
        }
        arrays |= {f"result_{at}": index for at, index in enumerate(self.results)}
        arrays |= {f"lookup_{name}": one.table for name, one in self.lookups.items()}
        head = {
            **self.identity,
            "inputs": [[p.name, p.shape] for p in self.inputs],
            "outputs": [[p.name, p.shape] for p in self.outputs],
            "lookups": {name: [one.name, one.shape] for name, one in self.lookups.items()},
            "text": self.text,
        }
        head["hash"] = _hash(head, arrays)
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        data = BytesIO()
        np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
        write_atomically(path, lambda file: file.write(data.getvalue()))

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
        try:
            with np.load(BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            head = json.loads(arrays.pop("head").tobytes())
            wanted = head.pop("hash")
        except (BadZipFile, KeyError, EOFError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} must be a file of a compiled network: {error}") from None
        if _hash(head, arrays) != wanted:
            raise ValueError(f"{path} must have the hash {wanted}: it was changed")
        for name, version in (("descriptors", VERSION), ("file", FILE_VERSION)):
            if head[name] != version:
                raise ValueError(f"{path} must have version {version} of {name}, not {head[name]}")
        sizes = {n: tuple(v) if isinstance(v, list) else v for n, v in head["machine"].items()}
        machine = resized(MachineConfiguration(), **sizes)
        if configuration is not None and configuration != machine:
            own = next(
                f.name
                for f in fields(machine)
                if getattr(machine, f.name) != getattr(configuration, f.name)
            )
            raise ValueError(
                f"{path} must be for this machine, whose {own} is "
                f"{shown(getattr(configuration, own))}, not {shown(getattr(machine, own))}"
            )
        inputs, outputs = (
            tuple(Port(name, tuple(shape)) for name, shape in head[kind])
            for kind in ("inputs", "outputs")
        )
        lookups = {
            name: Lookup(label, tuple(shape), arrays[f"lookup_{name}"])
            for name, (label, shape) in head["lookups"].items()
        }
        return cls(
            Program(arrays["program"].tobytes(), machine),
            arrays["image"],
            inputs,
            outputs,
            lookups,
            arrays["sources"],
            arrays["places"],
            tuple(arrays[f"result_{at}"] for at in range(len(outputs))),
            head["text"],
        )


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
    block: int | tuple[int, int] = 64,
    lookups: Mapping[str, Lookup] | None = None,
) -> Compiled:
    """Compile a graph.

    Parameters
    ----------
    graph : Graph
    configuration : MachineConfiguration, optional
    block : int or tuple of int
        Of operands: 64 along the sum, or tiles of ``(8, 8)``.
    lookups : Mapping of str to Lookup, optional
        Inputs that the host makes of integers.

    Raises
    ------
    CompileError
        If the machine lacks what the graph needs; the message has every reason.
    ValueError
        If there is no output, or one that the machine does not compute.
    """
    configuration = configuration or MachineConfiguration()
    if block not in (64, (8, 8)):
        raise ValueError(f"block must be 64 or (8, 8), not {shown(block)}")
    if not graph.outputs:
        raise ValueError("graph must have an output, not none")
    for name, value in graph.outputs.items():
        if value.of_host:
            raise CompileError(f"output {name} must be computed by the machine, not by the host")
    made = lowered(graph, configuration, block)
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
    return Compiled(
        Program.assembled(made.emitter.program(), configuration),
        image,
        tuple(Port(value.name, value.shape) for value in inputs),
        tuple(Port(name, value.shape) for name, value in graph.outputs.items()),
        dict(lookups or {}),
        np.concatenate([np.zeros(0, np.int64), *sources]),
        np.concatenate([np.zeros(0, np.int64), *places]),
        tuple(_read_from(made, name, value) for name, value in graph.outputs.items()),
        _report(made),
    )


def _origin(value: Value, starts: Mapping[int, int]) -> tuple[Floats, NDArray[np.int64]]:
    """Of a value of the host: constants, and for each element the number of the input, or -1."""
    if value.op == "constant":
        assert value.data is not None
        return value.data.reshape(-1), np.full(value.size, -1, np.int64)
    if value.op == "input":
        return np.zeros(value.size, np.float32), np.arange(value.size) + starts[id(value)]
    parts = [_origin(one, starts) for one in value.inputs]
    numbers, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    assert value.data is not None
    flat = value.data.reshape(-1)
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
    """Where in memory, counted in numbers, some lanes of beats are."""
    layout = vectors.layout
    lanes = layout.configuration.vector_lanes
    strip = lane // lanes * (layout.strip_bytes // 4)
    return np.asarray(vectors.address // 4 + strip + beat * lanes + lane % lanes, np.int64)


def _read_from(made: Lowered, name: str, value: Value) -> NDArray[np.int64]:
    """Where in memory the elements of an output are."""
    index = _memory_index(made, value).reshape(-1)
    if (index < 0).any():
        raise CompileError(
            f"output {name} must be computed by the machine, all of it, not by the host"
        )
    return index


def _memory_index(made: Lowered, value: Value) -> NDArray[np.int64]:
    """Where in memory the elements of a value are; -1 where the machine does not compute them."""
    if value.op == "gather":
        parts = [_memory_index(made, one).reshape(-1) for one in value.inputs]
        assert value.data is not None
        return cast(NDArray[np.int64], np.concatenate(parts)[value.data])
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


def _report(made: Lowered) -> str:
    """A line for each kernel."""
    predicted = predict(made.emitter)
    lines = ["descriptors    cycles  array busy   words  result, and what makes it"]
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
        names = ", ".join(dict.fromkeys(reversed(kernel.names))) or _label(kernel.root)
        kind = "float32 to memory" if kernel.kind == "tensor" else "operand to memory"
        lines.append(f"{len(runs):11} {cycles:9} {busy:11} {moved:7}  {kind}: {names}")
    lines.append(
        f"{len(made.emitter.steps)} descriptors, {predicted.cycles} cycles predicted, array busy "
        f"{predicted.array_busy / predicted.cycles:.1%}, {predicted.words_read} words read, "
        f"{predicted.words_written} written, {made.emitter.memory.used} bytes of memory"
    )
    return "\n".join(lines)
