"""Places of buffers that descriptors reach, which the machine checks as it runs them."""

from collections.abc import Iterator, Mapping

from mxsafe.machine.assembler import Fault, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import (
    ARITHMETIC,
    CONVERT,
    REDUCTION,
    TARGETS,
    Y_MODES,
    run_place,
)
from mxsafe.validation import checked

__all__ = ["address_fault", "result_beats"]

Reach = tuple[str, int, int]
"""A place, the last entry that is used there, and how many there are."""


@checked
def address_fault(instruction: Instruction, configuration: MachineConfiguration) -> Fault | None:
    """The fault of an address at which a machine stops; None if there is none.

    Parameters
    ----------
    instruction : Instruction
        One that the machine takes.
    configuration : MachineConfiguration
    """
    reaches = {"load": _transfer, "store": _transfer, "gemm": _gemm, "vector": _vector}
    for name, last, size in reaches[instruction.kind](instruction, configuration):
        if last >= size:
            return Fault(
                "address", f"{instruction.kind}: {name} must reach up to {size - 1}, not {last}"
            )
    return None


def _last(instruction: Instruction, place: str, stride: str, count: str, along: int) -> int:
    """The last of entries that lie in rows, `along` being the last one in a row."""
    return instruction[place] + (instruction[count] - 1) * instruction[stride] + along


def _transfer(i: Instruction, configuration: MachineConfiguration) -> Iterator[Reach]:
    place = "to" if i.kind == "load" else "from"
    name = i.descriptor.field("buffer").name_of(i["buffer"])
    last = i[place] + sum((i[f"count_{at}"] - 1) * i[f"step_{at}"] for at in (1, 2, 3))
    last += run_place(i.values, configuration, i["count_0"] - 1)
    by_beat = i["widen"] if i.kind == "load" else i["narrow"]
    if name == "vector":
        yield place, last, configuration.vector_beats * (1 if by_beat else 2)
        return
    owner, _, part = name.partition("_")
    beats = getattr(configuration, f"{owner}_beats")
    yield place, last, configuration.beat_words * beats if part == "codes" else beats // 4


def _gemm(i: Instruction, configuration: MachineConfiguration) -> Iterator[Reach]:
    entries = configuration.entries(i["beats"], i["block"])
    for side in "aw":
        strips = f"strips_{side}"
        codes, scales = f"{side}_codes", f"{side}_scales"
        beat = _last(i, codes, f"{side}_stride", strips, i["beats"] - 1)
        yield codes, beat, getattr(configuration, f"{side}_beats")
        entry = _last(i, scales, f"{side}_scale_stride", strips, entries - 1)
        yield scales, entry, getattr(configuration, f"{side}_entries")
    if i["write"]:
        ends = [(i["strips_a"] - 1) * i["result_stride_a"] + i["last_rows"]]
        if i["strips_a"] > 1:  # the strip before has all rows
            ends.append((i["strips_a"] - 2) * i["result_stride_a"] + configuration.rows)
        last = _last(i, "result", "result_stride_w", "strips_w", max(ends) - 1)
        yield "result", last, configuration.vector_beats


def _vector(i: Instruction, configuration: MachineConfiguration) -> Iterator[Reach]:
    beats, lanes = i["beats"], configuration.vector_lanes
    size = configuration.vector_beats
    yield "x", _last(i, "x", "x_stride", "rows", beats - 1), size
    if i["arithmetic"] not in (ARITHMETIC["none"], ARITHMETIC["scale"]):
        along = second_beats(i["y_mode"], beats, lanes)
        yield "y", _last(i, "y", "y_stride", "rows", along - 1), size
    if i["affine"] and i["reduction"] != REDUCTION["none"]:
        yield "y", i["y"] + (beats - 1) // lanes + -(-beats // lanes), size
    if i["to_vector"]:
        yield "d", _last(i, "d", "d_stride", "rows", result_beats(i.values) - 1), size
    if i["convert"]:
        yield from _converted(i, configuration)


def second_beats(mode: int, beats: int, lanes: int) -> int:
    """Vector beats of a row of second operands for so many beats of first ones."""
    numbers = -(-beats // lanes)
    of = {Y_MODES["beats"]: beats, Y_MODES["numbers"]: numbers, Y_MODES["constant"]: 1}
    return of[mode]


@checked
def result_beats(fields: Mapping[str, int]) -> int:
    """Vector beats of a row of results, by the fields of a VECTOR descriptor, else 0."""
    return 1 if fields.get("reduction", 0) == REDUCTION["sum"] else fields.get("beats", 0)


def _converted(i: Instruction, configuration: MachineConfiguration) -> Iterator[Reach]:
    owner = TARGETS.name_of(i["target"])
    operand_beats = -(-result_beats(i.values) // configuration.lanes)
    span = (
        configuration.block_beats if i["convert"] == CONVERT["blocks"] else configuration.tile_beats
    )
    last = _last(i, "out", "out_stride", "rows", operand_beats - 1)
    yield "out", last, getattr(configuration, f"{owner}_beats")
    entries = configuration.entries(operand_beats, span)
    last = _last(i, "out_scales", "out_scale_stride", "rows", entries - 1)
    yield "out_scales", last, getattr(configuration, f"{owner}_entries")
