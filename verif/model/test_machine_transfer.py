"""LOAD and STORE against loops over single words, and transposed loads against the codec's T."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import OperandLayout
from mxsafe.model.machine import Machine
from verif.machine.machine_image import Image
from verif.machine.machine_sizes import ROWS, machine_of

SIZES = {
    rows: machine_of(rows, a_beats=64, w_beats=128, out_beats=64, bank_beats=32) for rows in ROWS
}


def walked(i: Instruction, place: str, size: int) -> list[tuple[int, int]]:
    """Words of memory and places in the buffer, by four loops as the documentation has them."""
    return [
        (
            i["address"] // size
            + i3 * i["stride_3"] + i2 * i["stride_2"] + i1 * i["stride_1"] + i0,
            i[place] + i3 * i["step_3"] + i2 * i["step_2"] + i1 * i["step_1"] + i0 * i["step_0"],
        )
        for i3 in range(i["count_3"])
        for i2 in range(i["count_2"])
        for i1 in range(i["count_1"])
        for i0 in range(i["count_0"])
    ]  # fmt: skip


def random_walk(rng: np.random.Generator, size: int) -> dict[str, int]:
    walk = {"address": size * int(rng.integers(0, 4)), "step_0": int(rng.integers(0, 3))}
    for at in range(4):
        walk[f"count_{at}"] = int(rng.integers(1, 4))
    for at in (1, 2, 3):
        walk[f"stride_{at}"] = int(rng.integers(0, 9))
        walk[f"step_{at}"] = int(rng.integers(0, 5))
    return walk


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("buffer", ["a_codes", "a_scales", "w_codes", "w_scales", "vector"])
def test_load(rows: int, buffer: str) -> None:
    configuration = SIZES[rows]
    size, rng = configuration.word_bytes, np.random.default_rng(rows)
    assembler = Assembler(configuration)
    for _ in range(20):
        memory = rng.integers(0, 256, 64 * size).astype(np.uint8)
        machine = Machine(configuration)
        made = assembler.load(buffer=buffer, to=int(rng.integers(0, 2)), **random_walk(rng, size))
        expected = machine.buffers.words(buffer).copy()
        walk = walked(made, "to", size)
        outcome = machine.run(made.encoded(), memory)
        assert outcome.error == ("none" if max(at for _, at in walk) < len(expected) else "address")
        if outcome.error == "none":
            for source, place in walk:
                expected[place] = memory.reshape(-1, size)[source]
            assert np.array_equal(machine.buffers.words(buffer), expected)
            assert outcome.words_read == len(walk)
            assert outcome.words_written == 0


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("buffer", ["out_codes", "out_scales", "vector"])
def test_store(rows: int, buffer: str) -> None:
    configuration = SIZES[rows]
    size, rng = configuration.word_bytes, np.random.default_rng(rows)
    assembler = Assembler(configuration)
    for _ in range(20):
        memory = rng.integers(0, 256, 64 * size).astype(np.uint8)
        machine = Machine(configuration)
        words = machine.buffers.words(buffer)
        words[...] = rng.integers(0, 256, words.shape)
        walk = random_walk(rng, size) | {"from": int(rng.integers(0, 2))}
        walk |= {f"step_{at}": walk[f"step_{at}"] // 3 for at in (1, 2, 3)}
        made = assembler.store(buffer=buffer, **walk)
        expected = memory.copy().reshape(-1, size)
        for target, place in walked(made, "from", size):
            expected[target] = words[place]
        outcome = machine.run(made.encoded(), memory)
        assert outcome.error == "none"
        assert np.array_equal(memory, expected.reshape(-1))
        assert outcome.words_written == np.prod([made[f"count_{at}"] for at in range(4)])


@pytest.mark.parametrize("rows", SIZES)
def test_widen_and_narrow(rows: int) -> None:
    configuration = SIZES[rows]
    assembler, lanes = Assembler(configuration), configuration.vector_lanes
    x = np.random.default_rng(2).normal(size=(6, lanes)).astype(np.float32)
    brief = x.astype(ml_dtypes.bfloat16)
    memory = np.concatenate([brief.view(np.uint8).reshape(-1), np.zeros(brief.nbytes, np.uint8)])
    machine = Machine(configuration)
    load = assembler.load(
        buffer="vector", widen=1, count_0=3, count_1=2, stride_1=3, to=5, step_1=4
    )
    assert machine.run(load.encoded(), memory).error == "none"
    places = [5, 6, 7, 9, 10, 11]
    beats = machine.buffers.vector.view("<f4")
    assert np.array_equal(beats[places], brief.astype(np.float32))
    beats[places] = x
    store = assembler.store(
        buffer="vector",
        narrow=1,
        address=brief.nbytes,
        count_0=3,
        count_1=2,
        stride_1=3,
        step_1=4,
        **{"from": 5},
    )
    assert machine.run(store.encoded(), memory).error == "none"
    assert np.array_equal(memory[brief.nbytes :], brief.view(np.uint8).reshape(-1))


@pytest.mark.parametrize("shape", [(16, 8), (32, 48), (20, 24), (37, 70)])
@pytest.mark.parametrize("rows", [8, 16])
def test_transposed_codes_are_those_of_the_transpose(rows: int, shape: tuple[int, int]) -> None:
    configuration = MachineConfiguration(rows=rows)
    q = mx.quantize(np.random.default_rng(8).normal(size=shape).astype("f4"), block=(8, 8))
    height = -(-shape[1] // rows)
    # Whole tiles: memory holds the missing rows and columns too, with codes 0.
    whole = tuple(-(-n // 8) * 8 for n in shape)
    padded = OperandLayout(
        configuration=configuration, rows=shape[0], columns=whole[1], block=(8, 8)
    )
    codes = np.zeros((shape[0], whole[1]), np.uint8)
    codes[:, : shape[1]] = q.codes
    stored = mx.QuantizedTensor(codes, q.scales, q.format, (8, 8), (-2, -1))
    image = Image(configuration)
    data = padded.packed(stored)
    addresses = [image.put(part) for part in data]
    machine = Machine(configuration)
    memory = image.memory
    strips = turned_strips(configuration, q.T)
    for made in transposed_loads(configuration, padded, addresses, strips):
        assert machine.run(made.encoded(), memory).error == "none"
    beats, entries = strips
    buffer = machine.buffers.operand("a")
    found = buffer.codes[: height * beats].reshape(height, beats, rows, 4).swapaxes(1, 2)
    matrix = found.reshape(height * rows, -1)[: shape[1], : shape[0]]
    assert np.array_equal(matrix, q.T.codes)
    if rows == 16:
        scales = buffer.scales[: height * entries].reshape(height, entries, rows).swapaxes(1, 2)
        by_row = scales.reshape(height * rows, -1)[::8]
        expected = q.T.scales
        assert np.array_equal(by_row[: len(expected), : expected.shape[1]], expected)


def turned_strips(configuration: MachineConfiguration, q: Any) -> tuple[int, int]:
    """Beats and entries from strip to strip of the transpose in the buffer: whole source strips."""
    source = -(-q.shape[1] // configuration.rows)
    return source * configuration.rows // configuration.lanes, 2 * source


def transposed_loads(
    configuration: MachineConfiguration,
    layout: OperandLayout,
    addresses: list[int],
    strips: tuple[int, int],
) -> list[Instruction]:
    """Loads of the transpose of a stored matrix, tile by tile on the way."""
    assembler, size = Assembler(configuration), configuration.word_bytes
    beats, entries = strips
    columns = layout.entries  # tiles along a strip
    if configuration.rows == 8:
        return [
            assembler.load(
                buffer="a_codes",
                transpose=1,
                address=addresses[0],
                count_0=4,
                count_1=columns,
                stride_1=4,
                step_1=2 * beats,
                count_2=layout.strips,
                stride_2=layout.strip_bytes // size,
                step_2=4,
            )
        ]
    codes = [
        assembler.load(
            buffer="a_codes",
            transpose=1,
            address=addresses[0] + 4 * size * parity,
            to=parity,
            count_0=4,
            step_0=2,
            count_1=(columns + 1 - parity) // 2,
            stride_1=8,
            step_1=2 * beats,
            count_2=layout.strips,
            stride_2=layout.strip_bytes // size,
            step_2=8,
        )
        for parity in (0, 1)
        if columns > parity
    ]
    scales = assembler.load(
        buffer="a_scales",
        transpose=1,
        address=addresses[1],
        count_0=-(-columns // 2),
        step_0=0,
        count_1=layout.strips,
        stride_1=layout.scale_strip_bytes // size,
        step_1=1,
    )
    # From word to word of a strip it is a strip of the transpose: more than step_0 can be.
    turned = Instruction(
        "load",
        {
            **{k: v for k, v in scales.values.items() if k != "opcode"},
            "count_0": 1,
            "count_2": -(-columns // 2),
            "stride_2": 1,
            "step_2": entries // 2,
        },
    )
    return [*codes, turned]
