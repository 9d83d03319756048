"""Checks of the vector engine: descriptors of all kinds, and the interpreter's answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ARITHMETIC,
    DESCRIPTORS,
    ERRORS,
    FOLLOWING,
    REDUCTION,
    SWEEP,
)
from mxsafe.model.machine import Machine
from mxsafe.model.machine_buffers import MachineStop
from mxsafe.model.softmax import softmax_factor
from mxsafe.rtl.machine.buffers.vector_buffer import VectorBufferConfiguration
from mxsafe.rtl.machine.vector.vector_engine import VectorEngine
from mxsafe.tables import MOST_IN_ROW
from verif.rtl import functional
from verif.rtl.vector.normalise_checks import kinds_of_rows
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_bench
from verif.support.units import generated

_ADDRESS_BITS = DESCRIPTORS["vector"].field("y").width
"""Of an address in the vector buffer; in causal softmax, of the number of keys of the first row."""
_PATIENCE = 5000
"""Cycles without a beat after which none comes: more than a row takes inside the engine."""
NORMS = (REDUCTION["layer_norm"], REDUCTION["rms_norm"])
_REGIONS = 4
"""Parts of the vector buffer, so that x, y and d do not meet."""
_PLACES = ("x", "y", "d", "x_stride", "y_stride", "d_stride")
"""Addresses and strides in the vector buffer."""
_NAMED = ("arithmetic", "y_mode", "function", "reduction", "convert", "target")
_SPECIAL = np.array(
    [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F7FFFFF], np.uint32
)


@dataclass(frozen=True)
class Task:
    """A descriptor, and what the vector buffer holds when it begins.

    Attributes
    ----------
    values : Mapping
        Fields of the descriptor.
    """

    values: Mapping[str, int]
    vector: NDArray[np.uint32]

    @property
    def instruction(self) -> Instruction:
        """The descriptor."""
        return Instruction("vector", self.values)


def small_machine(rows: int = 8, **parameters: Any) -> MachineConfiguration:
    """Sizes that a bench can fill."""
    sizes = {
        "vector_banks": 2,
        "bank_beats": 256,
        "a_beats": 128,
        "w_beats": 64,
        "out_beats": 96,
        "reduction_beats": 32,
    }
    return MachineConfiguration(rows=rows, **{**sizes, **parameters})


def vector_engine(machine: MachineConfiguration) -> Module:
    """The engine of a machine, generated into `folder`."""
    unit = VectorEngine(machine=machine)
    return generated(unit)


def _numbers(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.uint32]:
    """Usual numbers of several magnitudes; rarely others."""
    scale = np.exp2(rng.integers(-6, 7, (shape[0], 1)))
    values = (rng.standard_normal(shape) * scale).astype(np.float32).view(np.uint32)
    kind = rng.random()
    if kind < 0.1:
        values = rng.integers(0, 1 << 32, shape, np.uint32)
    elif kind < 0.25:
        values = np.where(rng.random(shape) < 0.02, rng.choice(_SPECIAL, shape), values)
    return values.astype(np.uint32)


def _parameter(rng: np.random.Generator, values: Mapping[str, int]) -> int:
    """A factor, an epsilon, or any number."""
    if values["reduction"] == REDUCTION["softmax"]:
        return int(softmax_factor(float(np.exp2(rng.uniform(-5, 1)))).view(np.uint32))
    if values["reduction"] in NORMS:
        return int(np.float32(rng.choice([0.0, 1e-5, 0.5])).view(np.uint32))
    return int(_numbers(rng, (1, 1))[0, 0])


def _steps(rng: np.random.Generator, machine: MachineConfiguration) -> dict[str, int]:
    """Return the fields of the steps of a vector descriptor."""
    fields = {name: DESCRIPTORS["vector"].field(name) for name in _NAMED}
    values = {name: int(rng.choice(each.allowed(machine) or (0,))) for name, each in fields.items()}
    for name in ("function", "reduction"):
        if rng.random() < 0.4:
            values[name] = 0
    if values["reduction"] not in (0, REDUCTION["sum"]) and values["arithmetic"] in (3, 4):
        values["arithmetic"] = int(rng.integers(0, 3))
    values["causal"] = int(values["reduction"] == 1 and rng.random() < 0.5)
    values["affine"] = int(machine.affine and values["reduction"] in NORMS and rng.random() < 0.7)
    if values["causal"] or values["affine"]:
        values["arithmetic"] = 0
    values["to_vector"] = int(not values["convert"] or rng.random() < 0.4)
    values["parameter"] = _parameter(rng, values)
    return values


def _places(
    rng: np.random.Generator, machine: MachineConfiguration, values: dict[str, int]
) -> None:
    """Where rows are, each in a region of its own; now and then results replace x."""
    region = machine.vector_beats // _REGIONS
    rows, beats = values["rows"], values["beats"]
    starts = rng.permutation(_REGIONS) * region
    for name, start in zip(("x", "y", "d"), starts, strict=False):
        least = beats if name == "d" else 0
        most = min(region // rows, beats + 3)
        stride = int(rng.integers(min(least, most), most + 1))
        room = region - ((rows - 1) * stride + beats)
        values[f"{name}_stride"] = stride
        values[name] = int(start + rng.integers(0, room + 1))
    if rng.random() < 0.3 and values["x_stride"] >= beats:
        values["d"], values["d_stride"] = values["x"], values["x_stride"]
    if values["causal"]:
        numbers = (
            int(rng.integers(0, max(beats, 2))),
            (1 << _ADDRESS_BITS) - 1,
            1 << int(rng.integers(_ADDRESS_BITS)),
        )
        values["y"] = int(rng.choice(numbers, p=(0.7, 0.1, 0.2)))
    if values["affine"]:
        # The fourth region is nobody else's.
        most = region - 2 * -(-beats // machine.rows)
        values["y"] = int(starts[3] + rng.integers(0, most + 1))
    name = ("out", "a", "w")[values["target"]]
    codes, entries = (getattr(machine, f"{name}_{kind}") for kind in ("beats", "entries"))
    block = 8 if values["convert"] == 2 else 64
    needs = {
        "out": (-(-beats // machine.lanes), codes),
        "out_scales": (-(-beats // block), entries),
    }
    strides = {"out": "out_stride", "out_scales": "out_scale_stride"}
    for kind, (each, size) in needs.items():
        _, widest = DESCRIPTORS["vector"].field(strides[kind]).bounds(machine)
        stride = int(rng.integers(each, min(max(size // rows, each), widest) + 1))
        values[strides[kind]] = stride
        values[kind] = int(rng.integers(0, max(size - (rows - 1) * stride - each, 0) + 1))


def random_tasks(machine: MachineConfiguration, seed: int, count: int) -> list[Task]:
    """Descriptors of all kinds on rows of all lengths."""
    rng = np.random.default_rng(seed)
    region = machine.vector_beats // _REGIONS
    tasks = []
    while len(tasks) < count:
        values = _steps(rng, machine)
        longest = machine.reduction_beats if values["reduction"] else region
        shape = rng.choice(["short", "any", "whole", "long"])
        lengths = {
            "short": int(rng.integers(1, 5)),
            "any": int(rng.integers(1, min(longest, 40) + 1)),
            "whole": min(longest, 8 * int(rng.integers(1, 5))),
            "long": int(rng.integers(min(longest, 60), longest + 1)),
        }
        beats = values["beats"] = lengths[shape]
        name = ("out", "a", "w")[values["target"]]
        room = getattr(machine, f"{name}_beats") // -(-beats // machine.lanes)
        room = min(room, region // beats) if values["convert"] else region // beats
        values["rows"] = int(rng.integers(1, min(room, 6) + 1)) if room > 0 else 1
        values["lanes"] = int(rng.choice([machine.rows, rng.integers(1, machine.rows + 1)]))
        _places(rng, machine, values)
        vector = _numbers(rng, (machine.vector_beats, machine.rows))
        task = Task(values, vector)
        fault = task.instruction.fault(machine)
        assert fault is None, f"{task.instruction}: {fault}"
        tasks.append(task)
    return tasks


def few_tasks(machine: MachineConfiguration) -> list[Task]:
    """Short rows through much of what there is, and an address that all its bits do not hold."""
    rng = np.random.default_rng(1)
    usual = {"lanes": machine.rows, "beats": 11, "rows": 3, "x_stride": 11, "d": 256}
    tiles = {"convert": 2, "out_stride": 3, "out_scales": 1, "out_scale_stride": 2}
    chosen = [{**usual, **tiles, "lanes": 5, "to_vector": 1, "d_stride": 11}]
    if machine.reductions:
        chosen += [{**usual, **tiles, "reduction": 1, "causal": 1, "parameter": 0x3FB8AA3B}]
    else:
        y = {"arithmetic": 1, "y_mode": 1, "y": 64, "y_stride": 2}
        blocks = {"convert": 1, "beats": 66, "out_stride": 17, "out_scale_stride": 2}
        chosen += [
            {**chosen[0], **y},
            {**usual, **blocks, "rows": 2, "x_stride": 66},
            {**chosen[0], **y, "y_stride": (1 << _ADDRESS_BITS) - 1},
        ]
    return [Task(fields, _numbers(rng, (machine.vector_beats, machine.rows))) for fields in chosen]


def paced_tasks(machine: MachineConfiguration) -> list[tuple[Task, Task]]:
    """Pairs of descriptors, the second of which has two rows more; a row has 64 beats."""
    rng = np.random.default_rng(2)
    usual = {"lanes": machine.rows, "beats": 64, "d": 256, "d_stride": 64, "to_vector": 1}
    usual |= {"x_stride": 64, "out_stride": 16, "out_scale_stride": 8}
    y = {"arithmetic": 1, "y": 256}
    different: list[dict[str, int]] = [
        {},
        {**y, "y_stride": 64},
        {**y, "y_mode": 1, "y": 448, "y_stride": 8},
        {**y, "y_mode": 2, "y": 448, "function": 1},
        {"convert": 1, "to_vector": 0},
        {"convert": 2, "arithmetic": 4, "parameter": 0x3F000000},
    ]
    words = _numbers(rng, (machine.vector_beats, machine.rows))
    return [
        (Task({**usual, **fields, "rows": 1}, words), Task({**usual, **fields, "rows": 3}, words))
        for fields in different
    ]


def reduced_tasks(machine: MachineConfiguration) -> list[Task]:
    """Rows of each reduction without arithmetic or functions; results are kept as binary32.

    The first causal row has few keys and each next one more, until all beats of a row count; then
    come lengths with one bit set. Some gains are infinite, so that each bit of them matters.
    """
    rows = {"beats": 40, "x_stride": 40, "d_stride": 40, "rows": 6}
    usual = {"lanes": machine.rows, "d": machine.vector_beats // 2, "to_vector": 1}
    causal = {"reduction": 1, "causal": 1, "parameter": 0x3FB8AA3B}
    single = [{**causal, "beats": 4, "rows": 1, "y": 1 << bit} for bit in range(_ADDRESS_BITS)]
    gain = machine.vector_beats - 12
    norms = [{**rows, "affine": 1, "y": gain, "reduction": reduction} for reduction in NORMS]
    norms.append({**rows, "reduction": REDUCTION["sum"]})
    words = _numbers(np.random.default_rng(3), (machine.vector_beats, machine.rows))
    words[gain] = np.float32(np.inf).view(np.uint32)
    return [
        Task({**usual, **fields}, words) for fields in ({**rows, **causal, "y": 6}, *single, *norms)
    ]


def sweep_tasks(machine: MachineConfiguration, seed: int) -> list[Task]:
    """Rows that come in pieces, sweep after sweep, among whole ones.

    Pieces have one beat or many, more than a whole row may have. Of half of the rows each sweep
    has the same values, of the others it has any. Every other row is given up, first behind the
    first sweep, then a piece later, behind the second sweep and so on. A few pieces do not follow
    the one before.
    """
    rng, tasks = np.random.default_rng(seed), []
    stages = max(map(len, FOLLOWING.values()))
    for stage, more, reduction in product(range(1, stages), (0, 1), machine.reductions):
        tasks += _row_in_pieces(machine, rng, reduction, stage, more)
        tasks += _row_in_pieces(machine, rng, reduction, stages)
        if rng.random() < 0.1:
            del tasks[-2]
        if rng.random() < 0.2:
            tasks.append(random_tasks(machine, int(rng.integers(1 << 30)), 1)[0])
    return tasks


def _row_in_pieces(
    machine: MachineConfiguration,
    rng: np.random.Generator,
    reduction: str,
    stages: int,
    more: int = 0,
) -> list[Task]:
    """The first sweeps of a row, all of their pieces, and perhaps one piece more."""
    tasks: list[Task] = []
    shape = machine.vector_beats, machine.rows
    words, same = _numbers(rng, shape), rng.random() < 0.5
    cuts = np.append(0, np.cumsum(rng.integers(1, 1 + rng.choice([1, 8, 40]), 3)))
    cuts = cuts[: rng.integers(2, 4)]
    lanes = int(rng.choice([machine.rows, rng.integers(1, machine.rows + 1)]))
    number = REDUCTION[reduction]
    parameter = _parameter(rng, {"reduction": number})
    is_causal = reduction == "softmax" and rng.random() < 0.3
    length = int(rng.integers(0, cuts[-1] + 1))
    for sweep in FOLLOWING[reduction]:
        for start, stop in pairwise(cuts.tolist()):
            ends = stop == cuts[-1] and sweep != "results"
            values = {"x": start, "beats": stop - start, "rows": 1, "lanes": lanes}
            values |= {"reduction": number, "sweep": SWEEP[sweep], "parameter": parameter}
            values |= {"clear": int(sweep == "largest" and not start), "ends": int(ends)}
            if sweep == "results" or (reduction == "sum" and sweep == "sums" and ends):
                way = int(rng.integers(1, 4)) if machine.conversions else 1
                values |= {"to_vector": way & 1, "d": 256 + start, "convert": way >> 1}
            if is_causal:
                values |= {"causal": 1, "y": max(length - start, 0)}
            elif sweep == "results" and number in NORMS and machine.affine:
                values |= {"affine": 1, "y": 216}
            elif rng.random() < 0.3:
                values |= {"arithmetic": ARITHMETIC["multiply"], "y_mode": 2, "y": 254}
            tasks.append(Task(values, words if same else _numbers(rng, shape)))
    return tasks[: stages * (len(cuts) - 1) + more]


def long_tasks(machine: MachineConfiguration, reduction: str) -> list[Task]:
    """The longest row, of large values alone, whose results are those of a few; then a longer one.

    The last piece of that does not follow any more.
    """
    beats = machine.vector_beats // 2
    words = np.full((machine.vector_beats, machine.rows), 0x3FFFFFFF, np.uint32)
    words[::2, 0] ^= 1 << 31
    words[0, 1], words[1, 2] = 0xC1FFFFFF, 0xC2FFFFFF
    values = {"beats": beats, "rows": 1, "lanes": machine.rows, "reduction": REDUCTION[reduction]}
    values["parameter"] = 0x3FB8AA3B if reduction == "softmax" else 0
    pieces, tasks = MOST_IN_ROW // beats, []
    for sweep in FOLLOWING[reduction]:
        result = {"to_vector": 1, "d": beats} if sweep == "results" else {}
        ending = {"to_vector": 1, "d": beats} if (reduction, sweep) == ("sum", "sums") else {}
        for at in range(1 if result else pieces):
            own = {"sweep": SWEEP[sweep], "clear": int(sweep == "largest" and not at), **result}
            if at == pieces - 1:
                own |= {"ends": 1, **ending}
            tasks.append(Task({**values, **own}, words))
    largest = {"sweep": SWEEP["largest"]}
    tasks += [Task({**values, **largest, "clear": int(at == 0)}, words) for at in range(pieces)]
    tasks.append(Task({**values, **largest, "beats": 1}, words))
    return tasks


def sum_tasks(machine: MachineConfiguration, lengths: Sequence[int]) -> list[Task]:
    """Sums of rows of all kinds; some of each length cancel but for a value, if that."""
    rng, tasks = np.random.default_rng(4), []
    usual = {"lanes": machine.rows, "rows": 2, "d": 256, "d_stride": 1, "to_vector": 1}
    for beats in lengths:
        half = beats // 2
        one_sign = rng.uniform(-2, -1, (2 * machine.rows, beats)).astype(np.float32)
        kinds = kinds_of_rows(rng, 2 * machine.rows, beats) | {"one sign": one_sign.view(np.uint32)}
        for name, words in kinds.items():
            vector = np.zeros((machine.vector_beats, machine.rows), np.uint32)
            rows = words.reshape(2, machine.rows, beats).swapaxes(1, 2)
            if name in ("normal", "wide range"):
                rows[:, half : 2 * half] = rows[:, :half] ^ np.uint32(1 << 31)
            vector[: 2 * beats] = rows.reshape(-1, machine.rows)
            values = {"beats": beats, "x_stride": beats, "reduction": REDUCTION["sum"]}
            tasks.append(Task({**usual, **values}, vector))
    return tasks


def outside_tasks(machine: MachineConfiguration, seed: int) -> list[Task]:
    """Descriptors that read or write past an end, at once, in a later row, or beyond all bits.

    Of addresses and strides each bit that is outside comes alone, too.
    """
    rng = np.random.default_rng(seed)
    steps = {"arithmetic": 1, "convert": 1, "to_vector": 1, "rows": 3, "beats": 9}
    good = {"x_stride": 9, "y_stride": 9, "y": 32, "d": 64, "d_stride": 9, "out_stride": 3}
    usual = {**steps, **good, "out_scale_stride": 1, "lanes": machine.rows}
    vector, target = machine.vector_beats, {"target": 1}
    codes, entries = machine.a_beats, machine.a_entries
    wrong: list[dict[str, int]] = [
        {name: at} for name in "xyd" for at in (vector - 8, vector - 20, (1 << _ADDRESS_BITS) - 1)
    ]
    wrong += [{f"{name}_stride": (1 << _ADDRESS_BITS) - 1} for name in "xyd"]
    above = range((vector - 1).bit_length(), _ADDRESS_BITS)
    wrong += [{name: 1 << bit} for name in _PLACES for bit in above]
    wrong += [{"out": at, **target} for at in (codes - 2, codes - 7, (1 << 16) - 1)]
    wrong += [{"out_scales": at, **target} for at in (entries - 2, (1 << 15) - 1)]
    wrong += [
        {"out_scale_stride": 1023, **target},
        {"out_stride": (1 << _ADDRESS_BITS) - 1, **target},
    ]
    # It is outside one buffer, but not outside a larger one.
    wrong += [{"out": machine.w_beats, "target": 2}]
    words = _numbers(rng, (vector, machine.rows))
    return [Task({**usual, **fields}, words) for fields in wrong]


def _stimulus(machine: MachineConfiguration, tasks: Sequence[Task]) -> dict[str, NDArray[Any]]:
    descriptors = [np.frombuffer(task.instruction.encoded(), np.uint8)[2:] for task in tasks]
    vectors = [task.vector.astype("<u4").view(np.uint8) for task in tasks]
    return {"descriptors": np.stack(descriptors), "vectors": np.stack(vectors)}


def _sizes(machine: MachineConfiguration) -> dict[str, dict[str, int]]:
    """Entries of all buffers, and bytes of each."""
    beats = {"vector": machine.vector_beats}
    width = {"vector": machine.vector_beat_bytes}
    for name in ("out", "a", "w"):
        beats[f"{name}_codes"] = getattr(machine, f"{name}_beats")
        beats[f"{name}_scales"] = getattr(machine, f"{name}_entries") // 2
        width[f"{name}_codes"] = machine.beat_bytes
        width[f"{name}_scales"] = 2 * machine.entry_bytes
    return {"beats": beats, "bytes": width}


def check_engine(
    simulator: str,
    module: Module,
    machine: MachineConfiguration,
    tasks: Sequence[Task],
    *,
    stall_read: float = 0.0,
    stall_write: float = 0.0,
    seed: int = 1,
    interrupts: Mapping[int, Sequence[int]] | None = None,
    limit: int = 60_000,
) -> tuple[int, NDArray[np.int64]]:
    """All buffers hold after each descriptor what the interpreter's do.

    Parameters
    ----------
    interrupts : Mapping, optional
        For the numbers of some tasks after how many cycles the engine is reset before it runs
        them.
    limit : int
        Cycles that a task may take.

    Returns
    -------
    tuple
        How many bytes were written, and the cycles of each task.
    """
    sizes = _sizes(machine)
    options = {
        **sizes,
        **_stimulus(machine, tasks),
        "stall_read": stall_read,
        "read_latency": VectorBufferConfiguration(target=machine.target).latency,
        "stall_write": stall_write,
        "seed": seed,
        "limit": limit,
        "patience": _PATIENCE,
        "interrupts": {str(task): list(clocks) for task, clocks in (interrupts or {}).items()},
    }
    logged = run_bench(simulator, module, "vector_engine", options)
    model = Machine(machine)
    changed = 0
    for number, task in enumerate(tasks):
        model.buffers.vector[:] = task.vector
        if interrupts and number in interrupts:
            model.reset()
        names = [name for name in sizes["beats"] if name in logged]
        before = {name: model.buffers.words(name).copy() for name in names}
        error = 0
        try:
            model.execute(task.instruction, np.zeros((0, machine.word_bytes), np.uint8))
        except MachineStop as stop:
            error = ERRORS[stop.error]
            model.reset()
            for name, words in before.items():
                model.buffers.words(name)[:] = words
        else:
            functional.descriptors([task.instruction], machine)
        what = f"task {number} ({task.instruction})"
        assert logged["errors"][number] == error, f"{what}: error {logged['errors'][number]}"
        for name in names:
            words = model.buffers.words(name)
            got = logged[name].reshape(len(tasks), *words.shape)[number]
            differ = np.flatnonzero((got != words).any(axis=1))
            assert_equal(f"{what}: words of {name}, {differ[:4]} differ,", got, words)
            changed += int((words != before[name]).sum())
    assert changed, "no byte was written"
    return changed, np.array(logged["clocks"])
