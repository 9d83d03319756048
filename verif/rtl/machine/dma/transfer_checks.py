"""Checks of the LOAD and STORE engines: the interpreter of the machine, word for word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxsafe.machine.assembler import Instruction
from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration
from mxsafe.machine.description import (
    DESCRIPTOR_BYTES,
    DESCRIPTORS,
    ERRORS,
    HEADER_BITS,
    LOAD_BUFFERS,
    PACKING,
    STORE_BUFFERS,
)
from mxsafe.model.machine_buffers import Buffers, MachineStop
from mxsafe.model.machine_transfer import load, store
from mxsafe.rtl.machine.buffers.vector_buffer import VectorBufferConfiguration
from mxsafe.rtl.machine.dma.load_engine import LoadEngine
from mxsafe.rtl.machine.dma.store_engine import StoreEngine
from verif.machine.machine_sizes import machine_of as rows_of
from verif.rtl import functional
from verif.rtl.machine.dma.memory_port_checks import Traffic
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_bench
from verif.support.units import generated

MEMORY_WORDS = 4096
LONGEST = MEMORY_WORDS // 8
"""Most words of a random descriptor, and of all numbers that are stored at last."""
_BASES = 0xA5A5_C35A_7FFF_FF9C, 0x5A5A_3CA5_8000_0063
"""Where the memory of a program begins, in words: sums with the first one carry far up. Each bit is
0 in one of them and 1 in the other; seeds take them in turn."""


_BUFFERS = {"load": LOAD_BUFFERS, "store": STORE_BUFFERS}
_PLACES = {"load": "to", "store": "from"}


def machine_of(module: Module) -> MachineConfiguration:
    """A machine with the sizes of an engine; what the engine lacks is as small as it can be."""
    parameters = module.parameters
    packings = parameters.get("load_packings", parameters.get("store_packings", ["tiles"]))
    operands = {"format_w": "mxfp4_e2m1" if "nibbles" in packings else "mxsf"}
    if not parameters.get("scaled", True):
        operands = {"arithmetic": BF16_MACHINE.arithmetic}
    return rows_of(
        parameters["rows"],
        **operands,
        a_beats=parameters.get("a_beats", 4),
        w_beats=parameters.get("w_beats", 4),
        out_beats=parameters.get("out_beats", 4),
        vector_banks=1,
        bank_beats=parameters["vector_beats"],
    )


_VECTOR_BEATS = {"vector_banks": 1, "bank_beats": 128}


def names_of(kind: str, machine: MachineConfiguration) -> list[str]:
    """Buffers that an engine has, in the order of their numbers."""
    there = getattr(machine, f"{kind}_buffers")
    return [name for name in _BUFFERS[kind].members if name in there]


def entry_words(name: str, machine: MachineConfiguration) -> int:
    """Words of an entry of a buffer, as a port has it."""
    if name == "vector":
        return 2
    return 1 if name.endswith("scales") else machine.beat_words


def load_engine(**options: Any) -> Module:
    """A LOAD engine with small buffers, generated into `folder`."""
    sizes: dict[str, Any] = {"rows": 16, "a_beats": 64, "w_beats": 100, **_VECTOR_BEATS}
    return generated(LoadEngine(machine=rows_of(**sizes | options)))


def store_engine(**options: Any) -> Module:
    """A STORE engine with small buffers, generated into `folder`."""
    sizes: dict[str, Any] = {"rows": 16, "out_beats": 100, **_VECTOR_BEATS}
    return generated(StoreEngine(machine=rows_of(**sizes | options)))


@dataclass
class _Maker:
    """Random LOAD or STORE descriptors that stay within buffers and memory.

    Attributes
    ----------
    words : dict of str to int
        Words of each buffer.
    """

    rng: np.random.Generator
    configuration: MachineConfiguration
    words: dict[str, int]

    def loops(self, room: int, counts: Sequence[int], inner: int) -> tuple[int, list[int]]:
        """A start and steps of nested loops that stay below `room`; `inner` is the first step."""
        steps = [inner]
        left = room - 1 - (counts[0] - 1) * inner
        for count in counts[1:]:
            most = left // max(count - 1, 1)
            steps.append(int(self.rng.integers(0, most + 1)))
            left -= (count - 1) * steps[-1]
        return int(self.rng.integers(0, left + 1)), steps

    def instruction(self, kind: str, name: str, **flags: int) -> Instruction:
        """One descriptor for a buffer."""
        rng = self.rng
        room = self.words[name]
        wide = flags.get("widen") or flags.get("narrow")
        if wide:
            room //= 2
        group = bool(flags.get("transpose")) and name.endswith("codes")
        turned, together = 2 * self.configuration.beat_words, self.configuration.code_bytes
        if group:  # words side by side go by one step
            room -= together - 1
        while True:
            counts = [int(rng.integers(1, most + 1)) for most in rng.permutation([12, 4, 3, 3])]
            if "packing" in flags:  # runs of several words, and of parts of one
                counts[0] = int(rng.integers(1, min(room, 20) + 1))
            inner = int(rng.choice([1, 1, 2, 3, 0]))
            counts = [turned // together, *counts[1:]] if group else counts
            if (counts[0] - 1) * inner < room:
                break
        if rng.integers(0, 4) == 0 and not group:
            counts = [int(rng.integers(1, min(room, LONGEST))), 1, 1, 1]
            inner = 1
        place, steps = self.loops(room, counts, inner)
        counts = [turned, *counts[1:]] if group else counts
        first, strides = self.loops(MEMORY_WORDS, counts, 1)
        values = {
            "buffer": _BUFFERS[kind][name],
            "address": first * self.configuration.word_bytes,
            **{f"count_{i}": count for i, count in enumerate(counts)},
            **{f"stride_{i}": strides[i] for i in (1, 2, 3)},
            _PLACES[kind]: place,
            **{f"step_{i}": step for i, step in enumerate(steps)},
            **flags,
        }
        if kind == "load" and flags.get("packing") == PACKING["tiles"]:
            values["part"] = int(rng.integers(0, self.configuration.last_part + 1))
        instruction = Instruction(kind, values)
        assert instruction.fault(self.configuration) is None, str(instruction)
        return instruction


def _buffer_words(configuration: MachineConfiguration, names: Sequence[str]) -> dict[str, int]:
    buffers = Buffers(configuration)
    return {name: len(buffers.words(name)) for name in names}


def _drawn(
    kind: str, seed: int, module: Module, count: int, more: Sequence[tuple[str, dict[str, int]]]
) -> list[Instruction]:
    """Descriptors for all buffers, plain and with `more` flags, in turn and in random order."""
    configuration = machine_of(module)
    names = names_of(kind, configuration)
    rng = np.random.default_rng(seed)
    maker = _Maker(rng, configuration, _buffer_words(configuration, names))
    kinds = [*((name, {}) for name in names), *more]
    return [
        maker.instruction(kind, name, **flags)
        for name, flags in (kinds[at % len(kinds)] for at in rng.permutation(count))
    ]


def _packed(
    packings: Sequence[str], sides: Sequence[str], **flags: int
) -> list[tuple[str, dict[str, int]]]:
    """Buffers with each of the packings."""
    kinds = {"nibbles": "codes", "tiles": "scales"}
    return [
        (f"{side}_{kinds[name]}", {"packing": PACKING[name], **flags})
        for name in packings
        for side in sides
    ]


def random_loads(seed: int, module: Module, count: int) -> list[Instruction]:
    """Descriptors for all buffers with all flags in turn, in random order."""
    machine = machine_of(module)
    more = [("vector", {"widen": 1}), *_packed(machine.load_packings, "aw")]
    if machine.transposes:
        more += [(f"{side}_codes", {"transpose": 1}) for side in "aw"]
        turned = machine.load_packings if machine.rows == 16 else machine.load_packings[:-1]
        more += _packed(turned, "aw", transpose=1)
    return _drawn("load", seed, module, count, more)


def random_stores(seed: int, module: Module, count: int) -> list[Instruction]:
    """Descriptors for all buffers, with numbers narrowed and not; at last all numbers, narrowed."""
    packed = _packed(machine_of(module).store_packings, ["out"])
    made = _drawn("store", seed, module, count, [("vector", {"narrow": 1}), *packed])
    count = min(module.parameters["vector_beats"], LONGEST)
    address = (MEMORY_WORDS // 2) * machine_of(module).word_bytes
    return [*made, descriptor("store", "vector", 0, narrow=1, count_0=count, address=address)]


def descriptor(kind: str, buffer: str, place: int, **values: int) -> Instruction:
    """One for a place of a buffer, with loops of one turn but for those given."""
    ones = {f"count_{i}": 1 for i in range(4)} | {"step_0": 1}
    return Instruction(
        kind, {"buffer": _BUFFERS[kind][buffer], _PLACES[kind]: place, **ones, **values}
    )


def at_the_ends(kind: str, module: Module) -> list[Instruction]:
    """For each buffer the last words, and words around each at which a bit of the address turns."""
    configuration = machine_of(module)
    made = []
    for name, words in _buffer_words(configuration, names_of(kind, configuration)).items():
        turns = [1 << bit for bit in range(3, (words - 1).bit_length())]
        for number, end in enumerate([*(turn + 2 for turn in turns), words]):
            address = 8 * number * configuration.word_bytes
            made.append(descriptor(kind, name, end - 4, address=address, count_0=4))
    return made


def long_loops(kind: str) -> list[Instruction]:
    """Each loop around the innermost one as long as it can be, and the next outer one twice.

    All words are the same one.
    """
    widths = {field.name: field.width for field in DESCRIPTORS[kind].own}
    made = []
    for loop in (1, 2, 3):
        counts = {f"count_{i}": 2 if i == loop + 1 else 1 for i in range(4)}
        counts[f"count_{loop}"] = (1 << widths[f"count_{loop}"]) - 1
        made.append(Instruction(kind, counts))
    return made


def single_steps(kind: str, module: Module, *, within: bool) -> list[Instruction]:
    """Two words each, apart by one bit of one step: within the buffer of numbers, or beyond it."""
    configuration = machine_of(module)
    words = len(Buffers(configuration).words("vector"))
    widths = {field.name: field.width for field in DESCRIPTORS[kind].own}
    steps = [
        (7 * loop, {f"count_{loop}": 2, f"step_{loop}": 1 << bit})
        for loop in range(4)
        for bit in range(widths[f"step_{loop}"])
        if within == (7 * loop + (1 << bit) < words)
    ]
    # Each has a word of its own, and loops have places of their own.
    return [
        descriptor(
            kind,
            "vector",
            place,
            **({"step_0": 0} | step),
            address=number * configuration.word_bytes,
        )
        for number, (place, step) in enumerate(steps)
    ]


def _buffer_words_of(instruction: Instruction) -> int:
    return int(np.prod([instruction[f"count_{i}"] for i in range(4)]))


def _options(
    kind: str, module: Module, instructions: Sequence[Instruction], traffic: Traffic
) -> dict[str, Any]:
    run = module.ports["run_payload"]
    words = sum(map(_buffer_words_of, instructions))
    return {
        **traffic.options,
        "kind": kind,
        "base": _BASES[traffic.seed // 2 % 2] % (1 << module.ports["base"].width),
        "under_way": 2,
        "buffers": names_of(kind, machine_of(module)),
        "run_fields": {name: (offset, width) for name, offset, width in run.fields},
        "limit": 1000 + 12 * words + (2 * traffic.latency[1] + 20) * len(instructions),
        "errors": [],
    }


def _payloads(instructions: Sequence[Instruction]) -> NDArray[np.uint8]:
    """Return the bits of descriptors that an engine sees."""
    rows = [instruction.encoded()[HEADER_BITS // 8 :] for instruction in instructions]
    size = DESCRIPTOR_BYTES - HEADER_BITS // 8
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, size)


def _content(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def _whole(
    result: dict[str, Any], instructions: Sequence[Instruction], error: str
) -> list[Instruction]:
    """Descriptors that are done: all, or all but the last one, which ends with an error."""
    whole = list(instructions if error == "none" else instructions[:-1])
    code, done = result["error"], result["done"]
    assert code == ERRORS[error], f"the job ended with error {code}, not {ERRORS[error]}"
    assert done == len(whole), f"{done} descriptors are done, not {len(whole)}"
    return whole


def check_loads(
    simulator: str,
    module: Module,
    instructions: Sequence[Instruction],
    traffic: Traffic,
    *,
    error: str = "none",
    wrong_words: Sequence[int] = (),
    under_way: int = 2,
) -> dict[str, Any]:
    """Buffers hold what the interpreter puts there, and each word has been written once.

    Parameters
    ----------
    error : str
        What the last descriptor ends with; its writes are not compared.
    wrong_words : sequence of int
        Words of memory that answer with an error.
    under_way : int
        Most descriptors that the queue has started and that are not done.
    """
    configuration = machine_of(module)
    memory = _content(traffic.seed, MEMORY_WORDS, configuration.word_bytes)
    options = _options("load", module, instructions, traffic)
    options["writes_late"] = module.parameters.get("target") == "fpga"
    options |= {"errors": list(wrong_words), "under_way": under_way}
    options |= {"memory": memory, "descriptors": _payloads(instructions)}
    result: dict[str, Any] = run_bench(simulator, module, "transfers", options)
    whole = _whole(result, instructions, error)
    functional.descriptors(whole, configuration)
    right, got = Buffers(configuration), Buffers(configuration)
    for instruction in whole:
        load(instruction, memory, right, configuration)
    counts = [_buffer_words_of(instruction) for instruction in whole]
    done_after = np.array(result["done_after"])
    assert_equal("writes at an end", done_after, np.cumsum(counts), end=np.arange(len(counts)))
    if error != "none":
        _require_stop(instructions[-1], error, memory, configuration)
    _replay(got, result, int(done_after[-1]), configuration)
    for name in names_of("load", configuration):
        expected = right.words(name)
        assert_equal(name, got.words(name), expected, word=np.arange(len(expected)))
    return result


def _require_stop(
    instruction: Instruction,
    error: str,
    memory: NDArray[np.uint8],
    configuration: MachineConfiguration,
) -> None:
    """A test that wants an address error has a descriptor with one."""
    try:
        load(instruction, memory, Buffers(configuration), configuration)
    except MachineStop as stop:
        assert stop.error == error
    else:
        assert error == "read", f"{instruction} has no error"


def _replay(
    buffers: Buffers, result: dict[str, Any], count: int, machine: MachineConfiguration
) -> None:
    """Put the first writes of a log into buffers."""
    names = names_of("load", machine)
    size = buffers.words("vector").shape[1]
    places = np.stack([result[name] for name in ("buffer", "address", "halves")], axis=1)[:count]
    data = result["data"][:count]
    for (index, address, halves), row in zip(places.tolist(), data, strict=True):
        words = buffers.words(names[index])
        parts = entry_words(names[index], machine)
        allowed = {1: (3,), 2: (1, 2, 3)}.get(parts, [1 << part for part in range(parts)])
        assert halves in allowed, f"halves are {halves}"
        for part in range(parts):
            if halves >> part & 1:
                words[parts * address + part] = row[part * size : (part + 1) * size]


def check_stores(
    simulator: str,
    module: Module,
    instructions: Sequence[Instruction],
    traffic: Traffic,
    *,
    error: str = "none",
    wrong_words: Sequence[int] = (),
    under_way: int = 2,
) -> dict[str, Any]:
    """Memory holds what the interpreter puts there; parameters as those of `check_loads`."""
    configuration = machine_of(module)
    memory = _content(traffic.seed, MEMORY_WORDS, configuration.word_bytes)
    buffers = Buffers(configuration)
    names = names_of("store", configuration)
    for at, name in enumerate(names):
        words = buffers.words(name)
        words[:] = _content(traffic.seed + 1 + at, *words.shape)
    _add_corners(buffers.vector)
    options = _options("store", module, instructions, traffic)
    options |= {"errors": list(wrong_words), "under_way": under_way}
    target = module.parameters.get("target", "asic")
    options["read_latency"] = VectorBufferConfiguration(target=target).latency
    options |= {"memory": memory, "descriptors": _payloads(instructions)}
    for name in names:
        entry = entry_words(name, configuration) * configuration.word_bytes
        options[name] = buffers.words(name).reshape(-1, entry)
    result: dict[str, Any] = run_bench(simulator, module, "transfers", options)
    whole = _whole(result, instructions, error)
    functional.descriptors(whole, configuration)
    expected = memory.copy()
    counts = [store(instruction, expected, buffers, configuration) for instruction in whole]
    done_after = np.array(result["done_after"])
    assert_equal("words at an end", done_after, np.cumsum(counts), end=np.arange(len(counts)))
    if error == "none":
        got = result["memory"]
        assert_equal("memory", got, expected, word=np.arange(len(expected)))
    return result


def _add_corners(numbers: NDArray[np.uint32]) -> None:
    """In every lane numbers between two bfloat16, ties, overflows, Inf, NaN and subnormals."""
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0x8002, 0xFFFF], np.uint32)
    upper = np.array(
        [
            0,
            0x8000,
            1,
            0x7F,
            0x3F80,
            0x3F81,
            0xBFFF,
            0x7F7F,
            0xFF7F,
            0x7F80,
            0xFF80,
            0x7FBF,
            0xFFFF,
        ],
        np.uint32,
    )
    corners = ((upper[:, None] << np.uint32(16)) | lower).reshape(-1)
    # Their number is odd, so that each comes by every lane.
    assert len(corners) % 2
    count = len(corners) * numbers.shape[1]
    numbers.reshape(-1)[:count] = np.tile(corners, numbers.shape[1])
