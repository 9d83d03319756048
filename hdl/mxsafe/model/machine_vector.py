"""Model of the machine's VECTOR descriptors, bit for bit."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.codec import quantize
from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import FOLLOWING
from mxsafe.machine.layout import narrowed
from mxsafe.model.functions import FUNCTIONS
from mxsafe.model.machine_buffers import Buffers, Indices, MachineStop, require_within
from mxsafe.model.normalisation import NormRows, normalise, normalise_epsilon, window_sum
from mxsafe.model.softmax import SoftmaxRows, softmax_by_factor
from mxsafe.model.vector_arithmetic import add, axpy, multiply
from mxsafe.tables import MOST_IN_ROW, Grade

Floats = NDArray[np.float32]

_STRIDES = {
    "x": "x_stride",
    "y": "y_stride",
    "d": "d_stride",
    "out": "out_stride",
    "out_scales": "out_scale_stride",
}
_TILE = 8
_BLOCK = 64

_ARITHMETIC: Mapping[str, Callable[[Floats, Floats, np.float32], Floats]] = {
    "add": lambda x, y, parameter: add(x, y),
    "multiply": lambda x, y, parameter: multiply(x, y),
    "axpy": lambda x, y, parameter: axpy(parameter, x, y),
    "scale": lambda x, y, parameter: multiply(parameter, x),
}


class Swept:
    """State of a row that is reduced by one descriptor after the other."""

    def __init__(self, configuration: MachineConfiguration) -> None:
        self.grade = configuration.grade
        self._lanes = configuration.vector_lanes
        self._following, self._beats = "whole", 0
        self._begin("none")

    def _begin(self, reduction: str) -> None:
        self.reduction = reduction
        self.norm = NormRows(self._lanes, self.grade, centre=reduction != "rms_norm")
        self.softmax = SoftmaxRows((self._lanes,), self.grade)

    def take(self, instruction: Instruction) -> None:
        """Take a descriptor, if it follows those before it.

        Raises
        ------
        MachineStop
            If it does not.
        """
        sweep, reduction = (_name(instruction, field) for field in ("sweep", "reduction"))
        if sweep == "whole":
            self._following = sweep
            return
        if instruction["clear"]:
            self._beats = 0
            self._begin(reduction)
        elif (sweep, reduction) != (self._following, self.reduction):
            raise MachineStop(
                "sweep",
                f"sweep must be {self._following} of {self.reduction}, not {sweep} of {reduction}",
            )
        self._beats += instruction["beats"]
        if self._beats > MOST_IN_ROW:
            raise MachineStop("sweep", f"a row must have at most {MOST_IN_ROW} beats")
        self._following = sweep
        if instruction["ends"]:
            self._beats = 0
            steps = (*FOLLOWING[reduction], "whole")
            self._following = steps[steps.index(sweep) + 1]


def vector(
    instruction: Instruction,
    buffers: Buffers,
    configuration: MachineConfiguration,
    swept: Swept,
) -> None:
    """Compute with rows of the vector buffer and write the results.

    Parameters
    ----------
    instruction : Instruction
    buffers : Buffers
    configuration : MachineConfiguration
    swept : Swept
        What is known of a row in sweeps; it goes on.

    Raises
    ------
    MachineStop
        If an address is past the end of a buffer, or a sweep does not follow.
    """
    swept.take(instruction)
    _count(instruction, buffers, configuration)
    values = _computed(instruction, buffers, configuration, swept)
    values[..., instruction["lanes"] :] = 0
    if instruction["to_vector"]:
        places = _rows(instruction, "d", np.arange(values.shape[1]))
        require_within("vector beat of d", places, len(buffers.vector))
        buffers.count_vectors("vector_written_vector", places)
        buffers.vector[places.reshape(-1)] = values.view(np.uint32).reshape(-1, values.shape[-1])
    if instruction["convert"]:
        _convert(instruction, values, buffers, configuration)


def _count(instruction: Instruction, buffers: Buffers, configuration: MachineConfiguration) -> None:
    """Count beats of operands through each unit, and reads of gains and biases."""
    beats = instruction["rows"] * instruction["beats"]
    for field in ("arithmetic", "function"):
        if instruction[field]:
            buffers.accesses[f"{field}_{_name(instruction, field)}"] += beats
    if instruction["reduction"]:
        reduction, sweep = _name(instruction, "reduction"), _name(instruction, "sweep")
        buffers.accesses[f"{reduction}_{sweep}"] += beats
    if instruction["affine"]:
        buffers.accesses["affine"] += beats
        # Both are read again for each part of each row.
        numbers = -(-instruction["beats"] // configuration.vector_lanes)
        rows = instruction["rows"] * configuration.vector_parts
        buffers.count_vectors("vector_read_y", 2 * numbers * rows)


def _name(instruction: Instruction, field: str) -> str:
    return instruction.descriptor.field(field).name_of(instruction[field])


def _rows(instruction: Instruction, place: str, along: Indices) -> Indices:
    """Places in a buffer, shape (rows, along the row)."""
    row = np.arange(instruction["rows"])[:, None]
    return instruction[place] + row * instruction[_STRIDES[place]] + along


def _computed(
    instruction: Instruction,
    buffers: Buffers,
    configuration: MachineConfiguration,
    swept: Swept,
) -> Floats:
    """Results before lanes are taken away, shape (rows, beats of results, lanes)."""
    places = _rows(instruction, "x", np.arange(instruction["beats"]))
    require_within("vector beat of x", places, len(buffers.vector))
    buffers.count_vectors("vector_read_x", places)
    values: Floats = buffers.vector[places].view(np.float32)
    parameter = np.uint32(instruction["parameter"]).view(np.float32)
    arithmetic = _name(instruction, "arithmetic")
    if arithmetic != "none":
        y = values if arithmetic == "scale" else _second(instruction, buffers)
        values = _ARITHMETIC[arithmetic](values, y, parameter)
    function = _name(instruction, "function")
    if function != "none":
        values = FUNCTIONS[function](values, configuration.grade)
    if instruction["sweep"]:
        return _swept(instruction, values[0].T, parameter, buffers, swept)
    return _reduced(instruction, values, parameter, buffers, configuration.grade)


def _second(instruction: Instruction, buffers: Buffers) -> Floats:
    """The second operand, in a shape that broadcasts."""
    mode = _name(instruction, "y_mode")
    lanes = buffers.vector.shape[1]
    number = np.arange(instruction["beats"])
    along = {"beats": number, "numbers": number // lanes, "constant": number * 0}[mode]
    places = _rows(instruction, "y", along)
    require_within("vector beat of y", places, len(buffers.vector))
    # A beat is read once for all that a row takes of it.
    buffers.count_vectors("vector_read_y", np.unique(along).size * len(places))
    if mode == "numbers":
        return buffers.vector[places, number % lanes].view(np.float32)[..., None]
    return buffers.vector[places].view(np.float32)


def _reduced(
    instruction: Instruction,
    values: Floats,
    parameter: np.float32,
    buffers: Buffers,
    grade: Grade,
) -> Floats:
    reduction = _name(instruction, "reduction")
    if reduction == "none":
        return values
    if reduction == "softmax":
        return softmax_by_factor(
            values, parameter, axis=1, mask=_mask(instruction, values), grade=grade
        )
    if reduction == "sum":
        return window_sum(values, axis=1, grade=grade)[:, None]
    gain, bias = _gain_and_bias(instruction, buffers) if instruction["affine"] else (None, None)
    centre = reduction == "layer_norm"
    kind: Any = {"axis": 1, "centre": centre, "grade": grade}
    return normalise(values, gain, bias, float(parameter), **kind).result


def _swept(
    instruction: Instruction,
    values: Floats,
    parameter: np.float32,
    buffers: Buffers,
    swept: Swept,
) -> Floats:
    """Results of a piece of a row, if any: shape (1, beats of results, lanes)."""
    sweep, ends = _name(instruction, "sweep"), instruction["ends"]
    if swept.reduction == "softmax":
        found = _softmax_swept(instruction, values, parameter, swept.softmax)
    else:
        found = _norm_swept(sweep, bool(ends), values, parameter, swept)
        if instruction["affine"]:
            gain, bias = _gain_and_bias(instruction, buffers)
            found = add(multiply(found, gain), bias)
    return np.ascontiguousarray(found.T)[None]


def _softmax_swept(
    instruction: Instruction, values: Floats, factor: np.float32, rows: SoftmaxRows
) -> Floats:
    sweep, ends = _name(instruction, "sweep"), instruction["ends"]
    mask = _mask(instruction, values.T[None])
    counts = None if mask is None else mask[0].T
    if sweep == "results":
        return rows.results(values, counts)
    if sweep == "largest":
        rows.find_largest(values, counts)
        if ends:
            rows.find_constants(factor)
    else:
        rows.add_terms(values, counts)
        if ends:
            rows.find_logarithm()
    return values[:, :0]


def _norm_swept(
    sweep: str, ends: bool, values: Floats, epsilon: np.float32, swept: Swept
) -> Floats:
    rows = swept.norm
    if sweep == "results":
        return rows.results(values)
    if sweep == "largest":
        rows.find_largest(values)
    elif sweep == "sums":
        rows.add_values(values)
        if ends and swept.reduction == "sum":
            return rows.sum()[:, None]
        if ends:
            rows.find_mean()
    else:
        rows.add_squares(values)
        if ends:
            rows.find_deviation(normalise_epsilon(float(epsilon), swept.grade))
    return values[:, :0]


def _gain_and_bias(instruction: Instruction, buffers: Buffers) -> tuple[Floats, Floats]:
    """A number of each for every beat, the same for all rows."""
    lanes = buffers.vector.shape[1]
    number = np.arange(instruction["beats"])
    span = -(-len(number) // lanes)
    first = instruction["y"] + number // lanes
    require_within("vector beat of gain and bias", first + span, len(buffers.vector))
    gain, bias = (buffers.vector[first + at, number % lanes] for at in (0, span))
    return gain.view(np.float32), bias.view(np.float32)


def _mask(instruction: Instruction, values: Floats) -> NDArray[np.bool_] | None:
    """Flags of the values that softmax counts."""
    if not instruction["causal"]:
        return None
    rows, beats, lanes = values.shape
    query = np.arange(rows)[:, None, None] * lanes + np.arange(lanes)
    return np.arange(beats)[:, None] < instruction["y"] + 1 + query


def _converted(
    kind: str, values: Floats, configuration: MachineConfiguration
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Codes of values and the scales of each row, along the last axis."""
    if kind == "numbers":
        return narrowed(values.view(np.uint32)), np.zeros((*values.shape[:2], 0), np.uint8)
    # A tile has the same numbers whichever way it lies.
    tiles = kind == "tiles"
    block = (_TILE, _TILE) if tiles else _BLOCK
    q = quantize(values, configuration.conversion_format, block=block)
    return q.codes, np.repeat(q.scales, _TILE, axis=1) if tiles else q.scales


def _convert(
    instruction: Instruction,
    values: Floats,
    buffers: Buffers,
    configuration: MachineConfiguration,
) -> None:
    """Codes and scales of each row, as a strip of an operand."""
    target = buffers.operand(_name(instruction, "target"))
    rows, count, height = values.shape
    by_lane = np.ascontiguousarray(values.swapaxes(1, 2))  # along the rows of what is now a strip
    own, scales = _converted(_name(instruction, "convert"), by_lane, configuration)
    lanes = configuration.lanes
    beats = -(-count // lanes)
    codes = np.zeros((rows, height, beats * lanes), own.dtype)
    codes[..., :count] = own
    strips = codes.reshape(rows, height, beats, lanes).swapaxes(1, 2)
    places = _rows(instruction, "out", np.arange(beats))
    require_within(f"operand beat of {target.name}", places, len(target.codes))
    entries = _rows(instruction, "out_scales", np.arange(scales.shape[2]))
    require_within(f"scale entry of {target.name}", entries, len(target.scales))
    for name in (f"{target.name}_codes_written", f"convert_{_name(instruction, 'convert')}"):
        buffers.count_words(name, places)
    target.codes[places.reshape(-1)] = strips.reshape(-1, height, lanes)
    written, where = scales.swapaxes(1, 2).reshape(-1, height), entries.reshape(-1)
    if target.name == "out":
        # STORE moves words of two: behind an entry at an even place stands 0 until that one is
        # written. Of a place that comes twice the last number stays.
        behind = np.where(where[:, None] % 2, written, 0)
        written = np.stack([written, behind], axis=1).reshape(-1, height)
        where = np.stack([where, where | 1], axis=1).reshape(-1)
    # An entry that comes alone writes a 0 behind it.
    buffers.accesses[f"{target.name}_scales_written"] += entries.size + (
        int((entries % 2 == 0).sum()) if target.name == "out" else 0
    )
    target.scales[where] = written
