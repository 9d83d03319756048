"""Predicted accesses of buffers and work of units, from a program's descriptors alone.

They are those of `mxsafe.machine.description.ACCESSES`, which a machine counts if it has counters
of them, and `mxsafe.model.machine.Outcome` as it runs a program.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ACCESSES,
    ARITHMETIC,
    DESCRIPTORS,
)
from mxsafe.machine.program import Program
from mxsafe.machine.reach import result_beats, second_beats
from mxsafe.validation import checked

__all__ = ["predicted_accesses"]

_VECTOR_WORDS = 2
"""Words of a beat of the vector buffer."""
_ENTRIES = 2
"""Scale entries of a word."""
Fields = Mapping[str, int]


@checked
def predicted_accesses(program: Program) -> dict[str, int]:
    """Accesses and work of a program, by names of `mxsafe.machine.description.ACCESSES`.

    Raises
    ------
    ValueError
        If the machine does not take one of its descriptors.
    """
    steps = ((one.kind, one.values) for one in program.instructions())
    return accesses_of(steps, program.configuration)


def accesses_of(
    steps: Iterable[tuple[str, Fields]], configuration: MachineConfiguration
) -> dict[str, int]:
    """The same of descriptors without faults.

    Parameters
    ----------
    steps : iterable of (str, Mapping of str to int)
        Kinds and fields; fields that are not named are 0.
    configuration : MachineConfiguration
    """
    kinds = {"load": _load, "gemm": _gemm, "vector": _vector, "store": _store}
    found: Counter[str] = Counter()
    for kind, fields in steps:
        found["descriptors"] += 1
        # A field that is not named is 0.
        found.update(kinds[kind](Counter(fields), configuration))
    return {name: found[name] for name in ACCESSES}


def name_in(kind: str, field: str, fields: Fields) -> str:
    """Name of what a field of a descriptor says."""
    return DESCRIPTORS[kind].field(field).name_of(fields[field])


def places_of(fields: Fields) -> int:
    """Places of a buffer that LOAD or STORE reaches."""
    return prod(fields[f"count_{loop}"] for loop in range(4))


def _load(fields: Fields, configuration: MachineConfiguration) -> Counter[str]:
    buffer, places = name_in("load", "buffer", fields), places_of(fields)
    if buffer == "vector":
        return Counter({"vector_written_load": places * (_VECTOR_WORDS if fields["widen"] else 1)})
    return Counter({f"{buffer}_written": places * (_ENTRIES if "scales" in buffer else 1)})


def _store(fields: Fields, configuration: MachineConfiguration) -> Counter[str]:
    # A word is read with the others of its beat.
    buffer, places = name_in("store", "buffer", fields), places_of(fields)
    if buffer == "vector":
        return Counter({"vector_read_store": places * _VECTOR_WORDS})
    words = configuration.beat_words if "codes" in buffer else _ENTRIES
    return Counter({f"{buffer}_read": places * words})


def _gemm(fields: Fields, configuration: MachineConfiguration) -> Counter[str]:
    # Each tile reads both of its strips, and their scales once a block; for anchors once more.
    tiles = fields["strips_a"] * fields["strips_w"]
    codes = tiles * fields["beats"] * configuration.beat_words
    entries = configuration.entries(fields["beats"], fields["block"])
    scales = tiles * entries * (1 + configuration.anchored)
    found = Counter({f"{side}_codes_read": codes for side in "aw"})
    found.update({f"{side}_scales_read": scales for side in "aw"})
    if fields["write"]:
        rows = (fields["strips_a"] - 1) * configuration.rows + fields["last_rows"]
        found["vector_written_gemm"] = rows * fields["strips_w"] * _VECTOR_WORDS
    return found


def _vector(fields: Fields, configuration: MachineConfiguration) -> Counter[str]:
    rows, beats = fields["rows"], fields["beats"]
    found = Counter({"vector_read_x": rows * beats * _VECTOR_WORDS})
    for field in ("arithmetic", "function"):
        if fields[field]:
            found[f"{field}_{name_in('vector', field, fields)}"] = rows * beats
    if fields["reduction"]:
        reduction, sweep = (name_in("vector", field, fields) for field in ("reduction", "sweep"))
        found[f"{reduction}_{sweep}"] = rows * beats
    found["vector_read_y"] = _second_reads(fields, configuration) * rows * _VECTOR_WORDS
    if fields["affine"]:
        found["affine"] = rows * beats
    results = result_beats(fields)
    if fields["to_vector"]:
        found["vector_written_vector"] = rows * results * _VECTOR_WORDS
    if fields["convert"]:
        found.update(_converted(fields, results, configuration))
    return found


def _second_reads(fields: Fields, configuration: MachineConfiguration) -> int:
    """Beats of second operands, gains and biases that a row reads."""
    beats, lanes = fields["beats"], configuration.vector_lanes
    if fields["affine"]:
        return 2 * -(-beats // lanes) * configuration.vector_parts
    if fields["arithmetic"] in (ARITHMETIC["none"], ARITHMETIC["scale"]):
        return 0
    return second_beats(fields["y_mode"], beats, lanes)


def _converted(
    fields: Fields, results: int, configuration: MachineConfiguration
) -> Mapping[str, int]:
    c = configuration
    target, kind = (name_in("vector", field, fields) for field in ("target", "convert"))
    beats = -(-results // c.lanes)
    span = c.tile_beats if kind == "tiles" else c.block_beats
    entries = c.entries(beats, span)
    written = fields["rows"] * entries
    if target == "out":
        # An entry at an even place writes a 0 behind it.
        first, stride = fields["out_scales"], fields["out_scale_stride"]
        for row in range(fields["rows"]):
            written += (entries + 1 - (first + row * stride) % 2) // 2
    words = fields["rows"] * beats * c.beat_words
    return {
        f"convert_{kind}": words,
        f"{target}_codes_written": words,
        f"{target}_scales_written": written,
    }
