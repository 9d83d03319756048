"""Places that descriptors read and write, one by one, and tokens that keep them in order.

This is written apart from the compiler's search, which works with runs of places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ARITHMETIC,
    CONVERT,
    LOAD_BUFFERS,
    PACKING,
    QUEUES,
    REDUCTION,
    STORE_BUFFERS,
    TARGETS,
    Y_MODES,
)

Places = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Touched:
    """Places by the name of a buffer, or of ``memory``.

    Codes, numbers and memory are counted in words, scales in entries.
    """

    reads: Places
    writes: Places


def space_sizes(configuration: MachineConfiguration, memory_words: int) -> dict[str, int]:
    """Places of each buffer and of memory."""
    c = configuration
    sizes = {"memory": memory_words, "vector": 2 * c.vector_beats}
    for owner in ("a", "w", "out"):
        sizes[f"{owner}_codes"] = c.beat_words * getattr(c, f"{owner}_beats")
        sizes[f"{owner}_scales"] = getattr(c, f"{owner}_entries")
    return sizes


def touched(instruction: Instruction, configuration: MachineConfiguration) -> Touched:
    """Return the places that a descriptor reads and writes."""
    kinds = {"load": _load, "gemm": _gemm, "vector": _vector, "store": _store}
    return kinds[instruction.kind](instruction, configuration)


def _halves(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Both words, or both entries, of what is twice as large."""
    return _parts(places, 2)


def _parts(places: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """All words of what is so many of them."""
    return (count * places.reshape(-1, 1) + np.arange(count)).reshape(-1)


def _nested(first: int, *loops: tuple[int, int]) -> NDArray[np.int64]:
    """Places of loops, the innermost first, each a count and a stride; in order."""
    places = np.array([first])
    for count, stride in loops:
        places = (np.arange(count)[:, None] * stride + places).reshape(-1)
    return places


def _walked(i: Instruction, place: str, c: MachineConfiguration) -> tuple[Places, str, str]:
    """Words of memory, and by ``buffer`` those of the buffer; its name."""
    names = LOAD_BUFFERS if i.kind == "load" else STORE_BUFFERS
    name = names.name_of(i["buffer"])
    assert name is not None
    counts = [i[f"count_{level}"] for level in range(4)]
    strides = [1, *(i[f"stride_{level}"] for level in (1, 2, 3))]
    steps = [i[f"step_{level}"] for level in range(4)]
    # Each run of memory begins at a word of its own, from a part of it on.
    parts = (1, 2, min(8, c.rows))[i["packing"]]
    first = i["part"] if i.kind == "load" and i["packing"] == PACKING["tiles"] else 0
    runs = [(first + counts[0] - 1) // parts + 1, *counts[1:]]
    memory = _nested(i["address"] // c.word_bytes, *zip(runs, strides, strict=True))
    # Codes of two bytes that are transposed stand in pairs of words.
    beside = c.code_bytes if i.kind == "load" and i["transpose"] else 1
    loops = [(counts[0] // beside, steps[0]), *zip(counts[1:], steps[1:], strict=True)]
    buffer = _nested(i[place], (beside, 1), *loops)
    by_beat = i["widen"] if i.kind == "load" else i["narrow"]
    if by_beat or name.endswith("scales"):
        buffer = _halves(buffer)
    return {"memory": memory, name: buffer}, "memory", name


def _load(i: Instruction, c: MachineConfiguration) -> Touched:
    places, memory, name = _walked(i, "to", c)
    return Touched({memory: places[memory]}, {name: places[name]})


def _store(i: Instruction, c: MachineConfiguration) -> Touched:
    places, memory, name = _walked(i, "from", c)
    return Touched({name: places[name]}, {memory: places[memory]})


def _gemm(i: Instruction, c: MachineConfiguration) -> Touched:
    reads: Places = {}
    entries = -(-i["beats"] // i["block"])
    for side in "aw":
        strips = i[f"strips_{side}"]
        codes = _nested(i[f"{side}_codes"], (i["beats"], 1), (strips, i[f"{side}_stride"]))
        reads[f"{side}_codes"] = _parts(codes, c.beat_words)
        if c.scaled:
            reads[f"{side}_scales"] = _nested(
                i[f"{side}_scales"], (entries, 1), (strips, i[f"{side}_scale_stride"])
            )
    if not i["write"]:
        return Touched(reads, {})
    tiles = [
        _nested(i["result"] + at * i["result_stride_a"], (rows, 1))
        for at, rows in enumerate([c.rows] * (i["strips_a"] - 1) + [i["last_rows"]])
    ]
    column = np.concatenate(tiles)
    turns = np.arange(i["strips_w"])[:, None] * i["result_stride_w"]
    return Touched(reads, {"vector": _halves(column + turns)})


def _vector(i: Instruction, c: MachineConfiguration) -> Touched:
    beats, rows = i["beats"], i["rows"]
    short = -(-beats // c.vector_lanes)
    reads = [_nested(i["x"], (beats, 1), (rows, i["x_stride"]))]
    if i["arithmetic"] not in (ARITHMETIC["none"], ARITHMETIC["scale"]):
        along = {Y_MODES["beats"]: beats, Y_MODES["numbers"]: short, Y_MODES["constant"]: 1}
        reads.append(_nested(i["y"], (along[i["y_mode"]], 1), (rows, i["y_stride"])))
    if i["affine"]:
        reads.append(_nested(i["y"], (2 * short, 1)))
    writes: Places = {}
    if i["reduction"] == REDUCTION["sum"]:
        beats = 1
    if i["to_vector"]:
        writes["vector"] = _halves(_nested(i["d"], (beats, 1), (rows, i["d_stride"])))
    if i["convert"]:
        owner = TARGETS.name_of(i["target"])
        operand_beats = -(-beats // c.lanes)
        span = c.block_beats if i["convert"] == CONVERT["blocks"] else c.tile_beats
        codes = _nested(i["out"], (operand_beats, 1), (rows, i["out_stride"]))
        writes[f"{owner}_codes"] = _parts(codes, c.beat_words)
    if i["convert"] and c.scaled:
        entries = _nested(
            i["out_scales"], (-(-operand_beats // span), 1), (rows, i["out_scale_stride"])
        )
        # Of results also the one behind an entry at an even place.
        behind = entries | 1 if owner == "out" else entries
        writes[f"{owner}_scales"] = np.union1d(entries, behind)
    return Touched({"vector": _halves(np.concatenate(reads))}, writes)


class Tokens:
    """Tokens between descriptors, which are added in the order of a program.

    Parameters
    ----------
    sizes : Mapping of str to int
        Places of each buffer and of memory.

    Attributes
    ----------
    waits, signals : list of int
        A bit for each queue, as in a descriptor's header.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        queues = len(QUEUES)
        self.waits: list[int] = []
        self.signals: list[int] = []
        self._queues: list[list[int]] = [[] for _ in QUEUES]
        # By queue and place the last descriptor that wrote it, or read it since.
        self._wrote = {name: np.full((queues, size), -1) for name, size in sizes.items()}
        self._read = {name: np.full((queues, size), -1) for name, size in sizes.items()}
        # The last descriptor of a queue (first index) that another queue knows to have ended.
        self._known = np.full((queues, queues), -1)

    def later(self, queue: int, other: int) -> list[int]:
        """Descriptors of another queue that a queue does not know to have ended."""
        known = self._known[other, queue]
        return [number for number in self._queues[other] if number > known]

    def add(self, queue: int, places: Touched, besides: Iterable[int] = ()) -> None:
        """Add a descriptor that must wait for those that touch its places, and for others too."""
        number = len(self.waits)
        before = np.full(len(QUEUES), -1)
        for name, where in [*places.reads.items(), *places.writes.items()]:
            before = np.maximum(before, self._wrote[name][:, where].max(axis=1))
        for name, where in places.writes.items():
            before = np.maximum(before, self._read[name][:, where].max(axis=1))
        for other, numbers in enumerate(self._queues):
            before[other] = max(before[other], *(n for n in besides if n in numbers), -1)
        self.waits.append(0)
        self.signals.append(0)
        for other, last in enumerate(before):
            if other != queue and last > self._known[other, queue]:
                self._known[other, queue] = last
                self.signals[last] |= 1 << queue
                self.waits[number] |= 1 << other
        self._queues[queue].append(number)
        for name, where in places.reads.items():
            self._read[name][queue, where] = number
        for name, where in places.writes.items():
            # Whoever waits for this one waits for all before it.
            self._wrote[name][:, where] = self._read[name][:, where] = -1
            self._wrote[name][queue, where] = number
