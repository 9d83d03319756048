"""The interpreter: whole programs, tokens, errors, counters."""

import itertools
from typing import Any

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.description import ERRORS, QUEUES
from mxsafe.model.machine import STEPS, Machine
from verif.machine.machine_image import Image, product_program

DEFAULT = MachineConfiguration()
ASSEMBLER = Assembler(DEFAULT)


def numbers(*shape: int, seed: int = 5) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("arithmetic", ["fp12", "exact"])
@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("block", [64, 32, (8, 8)])
@pytest.mark.parametrize("shape", [(37, 150, 21), (8, 8, 8), (1, 3, 1)])
def test_products(
    arithmetic: Any, rows: int, block: int | tuple[int, int], shape: tuple[int, int, int]
) -> None:
    configuration = MachineConfiguration(rows=rows, arithmetic=arithmetic)
    m, k, n = shape
    tiles = isinstance(block, tuple)
    a = mx.quantize(numbers(m, k), block=block)
    w = mx.quantize(numbers(k, n, seed=6), block=block, axis=-1 if tiles else -2)
    image = Image(configuration)
    program, address, layout = product_program(image, a, w)
    memory = image.memory
    before = memory.copy()
    outcome = Machine(configuration).run(program, memory)
    assert outcome.error == "none"
    size = layout.strips * layout.strip_bytes
    found = layout.unpacked(memory[address : address + size])
    expected = mx.matmul(a, w, arithmetic=arithmetic)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    memory[address : address + size] = before[address : address + size]
    assert np.array_equal(memory, before), "only the result is written"
    assert outcome.words_written == size // configuration.word_bytes
    assert outcome.words_read == address // configuration.word_bytes


def test_formats_of_few_bits() -> None:
    configuration = MachineConfiguration(format_a="mxint8", format_w="mxfp4_e2m1")
    a = mx.quantize(numbers(20, 64), "mxint8", block=64)
    w = mx.quantize(numbers(64, 20), "mxfp4_e2m1", block=64, axis=0)
    image = Image(configuration)
    program, address, layout = product_program(image, a, w)
    memory = image.memory
    assert Machine(configuration).run(program, memory).error == "none"
    assert np.array_equal(layout.unpacked(memory[address:]), mx.matmul(a, w, arithmetic="exact"))


def test_addresses_count_from_the_base() -> None:
    a, w = mx.quantize(numbers(16, 64)), mx.quantize(numbers(64, 16), axis=0)
    image = Image(DEFAULT)
    program, address, _ = product_program(image, a, w)
    memory, moved = image.memory, np.concatenate([np.zeros(96, np.uint8), image.memory])
    Machine().run(program, memory)
    Machine().run(program, moved, base=96)
    assert np.array_equal(moved[96:], memory)
    assert not np.array_equal(memory[address:], image.memory[address:])


def test_buffers_stay_from_program_to_program() -> None:
    machine, memory = Machine(), np.arange(256, dtype=np.uint8)
    load = ASSEMBLER.load(buffer="vector", count_0=4)
    store = ASSEMBLER.store(buffer="vector", address=128, count_0=4)
    assert machine.run(ASSEMBLER.assemble([load]), memory).words_read == 4
    assert machine.run(ASSEMBLER.assemble([store]), memory).words_written == 4
    assert np.array_equal(memory[128:], memory[:128])


def test_tokens_order_what_queues_do() -> None:
    """STORE comes first in the program, and last in time."""
    memory = np.arange(128, dtype=np.uint8)
    program = [
        ASSEMBLER.store(buffer="vector", address=64, count_0=2, wait="vector", signal="load"),
        ASSEMBLER.vector(beats=1, arithmetic="add", to_vector=1, wait="load", signal="store"),
        ASSEMBLER.load(buffer="vector", count_0=2, signal="vector"),
        ASSEMBLER.load(buffer="vector", count_0=2, address=64, wait="store"),
    ]
    memory[:64] = np.full(16, 1.5, "<f4").view(np.uint8)
    machine = Machine()
    assert machine.run(ASSEMBLER.assemble(program), memory).error == "none"
    assert np.array_equal(memory[64:].view("<f4"), np.full(16, 3, np.float32))
    assert np.array_equal(machine.buffers.vector[0].view("<f4"), np.full(16, 3, np.float32))


def in_all_orders(program: list[Instruction], size: int) -> set[bytes]:
    """Return the contents of memory after a program, over all orders of the queues."""
    found = set()
    for order in itertools.permutations(QUEUES):
        memory = np.random.default_rng(3).normal(size=size // 4).astype("<f4").view(np.uint8)
        outcome = Machine().run(ASSEMBLER.assemble(program), memory, order=order)
        assert outcome.error == "none"
        found.add(memory.tobytes())
    return found


def test_tokens_make_the_order_irrelevant() -> None:
    """Sums of beats, each through a half of a buffer that the next but one uses again."""
    ready, free = {"wait": "load", "signal": "store"}, {"wait": "vector", "signal": "load"}
    program = []
    for number in range(6):
        half = number % 2
        again = {"wait": "store"} if number > 1 else {}
        program += [
            ASSEMBLER.load(
                buffer="vector", address=64 * number, count_0=4, to=8 * half, signal="vector",
                **again,
            ),
            ASSEMBLER.vector(arithmetic="add", x=4 * half, y=4 * half + 1, d=4 * half, to_vector=1,
                             **ready),
            ASSEMBLER.store(buffer="vector", address=1024 + 64 * number, count_0=2,
                            **{"from": 8 * half}, **free),
        ]  # fmt: skip
    assert len(in_all_orders(program, 2048)) == 1
    without = [
        Instruction(i.kind, {n: v for n, v in i.values.items() if n not in ("opcode", "wait")})
        for i in program
    ]
    assert len(in_all_orders(without, 2048)) > 1


def _encoded(program: list[Instruction]) -> bytes:
    """The bytes of a program that the assembler refuses, since it never ends."""
    return b"".join(instruction.encoded() for instruction in program)


def test_a_full_counter_makes_its_queue_wait() -> None:
    """Many more tokens than a counter holds; who takes them comes late in the program."""
    depth = MachineConfiguration(queue_depth=63)
    give = ASSEMBLER.load(buffer="vector", signal=["gemm", "store"])
    take = ASSEMBLER.store(buffer="vector", wait="load")
    drop = ASSEMBLER.gemm(wait="load")
    memory = np.zeros(64, np.uint8)
    outcome = Machine(depth).run(_encoded([give] * 130 + [take, drop] * 130), memory)
    assert outcome.error == "deadlock", "fetch waits behind LOAD, whose counter is full"
    assert outcome.descriptor == 63
    assert outcome.reason == (
        "its signal to gemm and store never finds room in the counter, which holds 63 tokens"
    )
    mixed = [give] * 60 + [take, drop] * 60
    outcome = Machine(depth).run(ASSEMBLER.assemble(mixed * 3), memory)
    assert (outcome.error, outcome.words_read) == ("none", 180)


@pytest.mark.parametrize(
    ("program", "descriptor"),
    [
        ([ASSEMBLER.gemm(wait="load")], 0),
        ([ASSEMBLER.load(buffer="vector"), ASSEMBLER.gemm(wait=["load", "store"])], 1),
        (
            [
                ASSEMBLER.gemm(signal="vector"),
                ASSEMBLER.gemm(wait="vector", signal="vector"),
                ASSEMBLER.vector(wait="store", to_vector=1, signal="gemm"),
                ASSEMBLER.store(buffer="vector", wait="vector"),
            ],
            1,
        ),
    ],
)
def test_deadlock(program: list[Instruction], descriptor: int) -> None:
    outcome = Machine().run(_encoded(program), np.zeros(64, np.uint8))
    assert (outcome.error, outcome.code) == ("deadlock", ERRORS["deadlock"])
    assert outcome.descriptor == descriptor


def test_each_descriptor_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it waits for a place in its queue."""
    program = [ASSEMBLER.load(buffer="vector", signal="store")] * 20
    program += [ASSEMBLER.store(buffer="vector", wait="load")] * 20
    data, count = ASSEMBLER.assemble(program), 0
    decode = Instruction.decoded

    def counted(given: bytes) -> Instruction:
        nonlocal count
        count += 1
        return decode(given)

    monkeypatch.setattr(Instruction, "decoded", counted)
    assert Machine().run(data, np.zeros(64, np.uint8)).error == "none"
    assert count == len(program)


def test_work_is_limited() -> None:
    """A descriptor that a machine takes can ask for 10^12 words."""
    memory, program = np.zeros(64, np.uint8), []
    for kind, fields in (
        ("load", {"buffer": "vector", "count_0": 4095, "count_1": 1023, "count_2": 1023,
                  "count_3": 255, "step_0": 0, "stride_1": 0}),
        ("gemm", {"strips_a": 255, "strips_w": 255, "beats": 8191}),
    ):  # fmt: skip
        data = ASSEMBLER.assemble([ASSEMBLER.instruction(kind, **fields)])
        with pytest.raises(ValueError, match=f"computes, not {STEPS}$"):
            Machine().run(data, memory)
    program = [
        ASSEMBLER.load(buffer="vector", count_0=2, count_1=3),
        ASSEMBLER.gemm(strips_a=2, beats=5),
        ASSEMBLER.vector(rows=3, beats=2, to_vector=1),
        ASSEMBLER.store(buffer="vector", count_0=2),
    ]
    data = ASSEMBLER.assemble(program)
    assert Machine().run(data, memory, limit=24).error == "none"
    message = (
        "^limit must be at least 24, the words and beats that the program moves and computes, "
        "not 23$"
    )
    with pytest.raises(ValueError, match=message):
        Machine().run(data, memory, limit=23)
    assert Machine().run(data, memory, base=1, limit=23).error == "alignment"
    # What stands behind a fault never runs.
    assert Machine().run(bytes(32) + data, memory, limit=0).error == "opcode"


def test_tokens_left_over_are_forgotten() -> None:
    machine, memory = Machine(), np.zeros(64, np.uint8)
    give = ASSEMBLER.load(buffer="vector", signal="gemm")
    assert machine.run(ASSEMBLER.assemble([give]), memory).error == "none"
    taker = ASSEMBLER.gemm(wait="load").encoded()
    assert machine.run(taker, memory).error == "deadlock"


@pytest.mark.parametrize(
    ("instruction", "error", "reason"),
    [
        (
            ASSEMBLER.load(buffer="a_codes", to=2047, count_0=2),
            "address",
            "word of a_codes must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.load(buffer="a_scales", to=256),
            "address",
            "word of a_scales must be below 256, not 256",
        ),
        (
            ASSEMBLER.load(buffer="vector", widen=1, to=2047, step_1=1, count_1=2),
            "address",
            "vector beat must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.store(buffer="out_codes", **{"from": 1024}),
            "address",
            "word of out_codes must be below 1024, not 1024",
        ),
        (
            ASSEMBLER.store(buffer="vector", narrow=1, **{"from": 2048}),
            "address",
            "vector beat must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.gemm(a_codes=1000, beats=25),
            "address",
            "operand beat of a must be below 1024, not 1024",
        ),
        (
            ASSEMBLER.gemm(w_scales=2040, w_scale_stride=4, strips_w=3),
            "address",
            "scale entry of w must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.gemm(result=2040),
            "address",
            "vector beat of the result must be below 2048, not 2055",
        ),
        (
            ASSEMBLER.vector(to_vector=1, x=2047, beats=2),
            "address",
            "vector beat of x must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.vector(to_vector=1, arithmetic="add", y=2047, y_stride=1, rows=2),
            "address",
            "vector beat of y must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.vector(
                to_vector=1, reduction="rms_norm", affine=1, y=2044, beats=33, lanes=3
            ),
            "address",
            "vector beat of gain and bias must be below 2048, not 2049",
        ),
        (
            ASSEMBLER.vector(to_vector=1, d=2048),
            "address",
            "vector beat of d must be below 2048, not 2048",
        ),
        (
            ASSEMBLER.vector(convert="tiles", out=512),
            "address",
            "operand beat of out must be below 512, not 512",
        ),
        (
            ASSEMBLER.vector(convert="blocks", target="a", out_scales=512),
            "address",
            "scale entry of a must be below 512, not 512",
        ),
        (
            ASSEMBLER.load(buffer="vector", address=64),
            "read",
            "word of memory must be below 2, where it ends, not 2",
        ),
        (
            ASSEMBLER.store(buffer="vector", address=32, count_0=2),
            "write",
            "word of memory must be below 2, where it ends, not 2",
        ),
    ],
)
def test_errors_while_running(instruction: Instruction, error: str, reason: str) -> None:
    good = ASSEMBLER.vector(to_vector=1)
    memory = np.zeros(64 + 31, np.uint8)
    sizes = MachineConfiguration(a_beats=1024, w_beats=4096, out_beats=512, bank_beats=512)
    outcome = Machine(sizes).run(ASSEMBLER.assemble([good, good, instruction]), memory)
    assert (outcome.error, outcome.code) == (error, ERRORS[error])
    assert (outcome.descriptor, outcome.reason) == (2, reason)
    assert not memory.any()


def test_what_is_not_used_is_not_checked() -> None:
    program = [
        ASSEMBLER.vector(to_vector=1, y=9999, out=60000, out_scales=30000),
        ASSEMBLER.vector(convert="tiles", d=9999),
        ASSEMBLER.vector(to_vector=1, arithmetic="scale", y=9999),
        ASSEMBLER.gemm(result=9999, write=0),
    ]
    assert Machine().run(ASSEMBLER.assemble(program), np.zeros(0, np.uint8)).error == "none"


def test_descriptors_that_it_does_not_take() -> None:
    good = ASSEMBLER.vector(to_vector=1).encoded()
    for data, error in (
        (bytes([7]) + bytes(31), "opcode"),
        (ASSEMBLER.gemm().encoded()[:31] + b"\x80", "malformed"),
    ):
        outcome = Machine().run(good + data, np.zeros(0, np.uint8))
        assert (outcome.error, outcome.descriptor) == (error, 1)
        assert outcome.reason


def test_arguments() -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="program must have a multiple of 32 bytes, not 3"):
        machine.run(b"abc", np.zeros(64, np.uint8))
    with pytest.raises(
        TypeError, match=r"^memory must be a uint8 array without a mask, not ndarray of int8$"
    ):
        machine.run(b"", np.zeros(64, np.int8))
    with pytest.raises(
        ValueError,
        match=r"contiguous vector of uint8, not one of shape \(32,\) and strides \(2,\)$",
    ):
        machine.run(b"", np.zeros(64, np.uint8)[::2])
    frozen = np.zeros(64, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="memory must be writable, not read-only"):
        machine.run(b"", frozen)
    # Nothing touches these five gigabytes.
    assert machine.run(b"", np.zeros(5 << 30, np.uint8), base=(1 << 32) + 4096).code == 0
    for order in (["load"], ["load", "gemm", "vector", "vector"]):
        with pytest.raises(ValueError, match="order must have each of load, gemm, vector, store o"):
            machine.run(b"", np.zeros(64, np.uint8), order=order)
    for name in ("base", "length"):
        with pytest.raises(ValueError, match=f"^{name} must be an integer from 0 to .*, not -32$"):
            machine.run(b"", np.zeros(64, np.uint8), **{name: -32})


@pytest.mark.parametrize("base", [1, 8, 24, (1 << 64) - 31])
def test_a_base_within_a_word(base: int) -> None:
    outcome = Machine().run(b"", np.zeros(64, np.uint8), base=base)
    assert (outcome.error, outcome.code, outcome.descriptor) == ("alignment", 8, 0)
    assert outcome.reason == f"base must be a multiple of 32, the bytes of a word, not {base:#x}"


@pytest.mark.parametrize("base", [64, 96, 1 << 40, (1 << 64) - 32])
def test_a_base_beyond_memory(base: int) -> None:
    """The memory that descriptors address must be there, too."""
    make = Assembler(MachineConfiguration())
    for wrong, error in (
        (make.load(buffer="vector"), "read"),
        (make.load(buffer="vector", address=1 << 31), "read"),
        (make.store(buffer="vector"), "write"),
    ):
        memory = np.zeros(64, np.uint8)
        outcome = Machine().run(make.assemble([wrong]), memory, base=base)
        assert (outcome.error, outcome.descriptor) == (error, 0)
        assert not memory.any()
    assert Machine().run(b"", np.zeros(64, np.uint8), base=base).error == "none"
