"""Model of the machine's LOAD and STORE descriptors, bit for bit."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import run_place, run_words
from mxsafe.machine.layout import (
    narrowed,
    packed_words,
    transposed_codes,
    transposed_scales,
    unpacked_words,
    widened_words,
)
from mxsafe.model.machine_buffers import (
    ENTRIES,
    Buffers,
    Indices,
    MachineStop,
    require_within,
)

_WORDS = 1 << 16
"""Words that are moved at a time, about: so memory does not grow with the descriptor's counts."""

Words = NDArray[np.uint8]


def _addresses(
    instruction: Instruction, place: str, configuration: MachineConfiguration
) -> Iterator[tuple[Indices, Indices]]:
    """Words of memory and places in the buffer, in order, some turns of loop 1 at a time."""
    i = instruction
    inner = run_place(i.values, configuration, np.arange(i["count_0"]))
    run = np.arange(run_words(i.values, configuration))
    together = max(_WORDS // i["count_0"], 1)
    for outer, third in product(range(i["count_3"]), range(i["count_2"])):
        from_memory = outer * i["stride_3"] + third * i["stride_2"]
        from_buffer = outer * i["step_3"] + third * i["step_2"]
        for first in range(0, i["count_1"], together):
            second = np.arange(first, min(first + together, i["count_1"]))[:, None]
            memory = i["address"] // configuration.word_bytes + second * i["stride_1"] + run
            buffer = i[place] + second * i["step_1"] + inner
            yield memory + from_memory, buffer + from_buffer


def _name(instruction: Instruction, field: str) -> str:
    return instruction.descriptor.field(field).name_of(instruction[field])


def _require_memory(error: str, words: Indices, memory: Words) -> None:
    if words.size and (most := int(words.max())) >= len(memory):
        raise MachineStop(
            error, f"word of memory must be below {len(memory)}, where it ends, not {most}"
        )


def load(
    instruction: Instruction, memory: Words, buffers: Buffers, configuration: MachineConfiguration
) -> int:
    """Copy words of memory, shape (words, word bytes), to a buffer; how many that were.

    Raises
    ------
    MachineStop
        If an address is past the end of the buffer or of the memory.
    """
    name, packing = _name(instruction, "buffer"), _name(instruction, "packing")
    count = 0
    for source, place in _addresses(instruction, "to", configuration):
        _require_memory("read", source, memory)
        words = unpacked_words(memory[source], packing, configuration)
        count += source.size
        first = instruction["part"] if packing == "tiles" else 0
        words = words[:, first : first + place.shape[1]]
        if instruction["widen"]:
            require_within("vector beat", place, len(buffers.vector))
            buffers.count_vectors("vector_written_load", place)
            buffers.vector[place.reshape(-1)] = widened_words(words.view("<u2")).reshape(
                -1, buffers.vector.shape[1]
            )
            continue
        if instruction["transpose"] and name.endswith("codes"):
            words = transposed_codes(words, configuration)
        elif instruction["transpose"]:
            words = transposed_scales(words)
        target = buffers.words(name)
        require_within(f"word of {name}", place, len(target))
        written = f"{name}_written" if name != "vector" else "vector_written_load"
        buffers.accesses[written] += place.size * (ENTRIES if name.endswith("scales") else 1)
        target[place.reshape(-1)] = words.reshape(-1, words.shape[-1])
    return count


def store(
    instruction: Instruction, memory: Words, buffers: Buffers, configuration: MachineConfiguration
) -> int:
    """Copy words of a buffer to memory, shape (words, word bytes); how many that were.

    Raises
    ------
    MachineStop
        If an address is past the end of the buffer or of the memory.
    """
    name, packing = _name(instruction, "buffer"), _name(instruction, "packing")
    count = 0
    for target, place in _addresses(instruction, "from", configuration):
        if name == "vector":
            buffers.count_vectors("vector_read_store", place)
        elif name.endswith("codes"):
            # A word of codes comes with the others of its beat.
            buffers.count_words(f"{name}_read", place)
        else:
            buffers.accesses[f"{name}_read"] += ENTRIES * place.size
        if instruction["narrow"]:
            require_within("vector beat", place, len(buffers.vector))
            words = narrowed(buffers.vector[place]).astype("<u2").view(np.uint8)
        else:
            source = buffers.words(name)
            require_within(f"word of {name}", place, len(source))
            words = packed_words(source[place], packing, configuration)
        _require_memory("write", target, memory)
        memory[target.reshape(-1)] = words.reshape(-1, memory.shape[1])
        count += target.size
    return count
