"""LOAD and STORE against loops over single words, and transposed loads against the codec's T."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import mxsafe as mx
from mxsafe.machine.assembler import Assembler, Instruction
from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import OperandLayout
from mxsafe.model.machine import Machine
from verif.machine.machine_image import Image
from verif.machine.machine_sizes import ROWS, machine_of

SIZES = {
    rows: machine_of(
        rows, a_beats=64, w_beats=128, out_beats=64, bank_beats=32, format_w="mxfp4_e2m1"
    )
    for rows in ROWS
}


def walked(i: Instruction, place: str, c: MachineConfiguration) -> list[tuple[int, int, int]]:
    """Words of memory, parts of them, places in the buffer, by four loops as the page has them."""
    parts = (1, 2, min(8, c.rows))[i["packing"]]
    first = i["part"] if i["packing"] == 2 and place == "to" else 0
    return [
        (
            i["address"] // c.word_bytes
            + i3 * i["stride_3"] + i2 * i["stride_2"] + i1 * i["stride_1"] + (first + i0) // parts,
            (first + i0) % parts,
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


def part_of(word: NDArray[np.uint8], part: int, packing: int, rows: int) -> NDArray[np.uint8]:
    """The word of a buffer that a part of a word of memory is."""
    if packing == 1:
        own = word[part * rows : (part + 1) * rows]
        return np.array([half for byte in own for half in (byte % 16, byte // 16)], np.uint8)
    if packing == 2:
        times = min(8, rows)
        size = 2 * rows // times
        return np.repeat(word[part * size : (part + 1) * size], times)
    return word


LOADS = [
    *((name, 0) for name in ("a_codes", "a_scales", "w_codes", "w_scales", "vector")),
    *((f"{side}_codes", 1) for side in "aw"),
    *((f"{side}_scales", 2) for side in "aw"),
]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize(("buffer", "packing"), LOADS)
def test_load(rows: int, buffer: str, packing: int) -> None:
    configuration = SIZES[rows]
    size, rng = configuration.word_bytes, np.random.default_rng(rows)
    assembler = Assembler(configuration)
    for _ in range(20):
        memory = rng.integers(0, 256, 64 * size).astype(np.uint8)
        machine = Machine(configuration)
        walk = random_walk(rng, size) | {"packing": packing}
        if packing:
            walk |= {"count_0": int(rng.integers(1, 20)), "part": int(rng.integers(0, 4))}
        made = assembler.load(buffer=buffer, to=int(rng.integers(0, 2)), **walk)
        expected = machine.buffers.words(buffer).copy()
        places = walked(made, "to", configuration)
        outcome = machine.run(made.encoded(), memory)
        most = max(at for *_, at in places)
        assert outcome.error == ("none" if most < len(expected) else "address")
        if outcome.error == "none":
            for source, part, place in places:
                word = memory.reshape(-1, size)[source]
                expected[place] = part_of(word, part, packing, rows)
            assert np.array_equal(machine.buffers.words(buffer), expected)
            assert outcome.words_read == words_of(places, made)
            assert outcome.words_written == 0


def words_of(places: list[tuple[int, int, int]], i: Instruction) -> int:
    """Words of memory: each run has its own, though others may be the same."""
    run = i["count_0"]
    runs = [places[at : at + run] for at in range(0, len(places), run)]
    return sum(len({word for word, *_ in one}) for one in runs)


STORES = [("out_codes", 0), ("out_scales", 0), ("vector", 0), ("out_codes", 1), ("out_scales", 2)]


@pytest.mark.parametrize(
    ("rows", "buffer", "packing"),
    [(rows, *one) for rows in SIZES for one in STORES if rows > 4 or one[1] < 2],
)
def test_store(rows: int, buffer: str, packing: int) -> None:
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
        if packing:
            walk |= {"count_0": int(rng.integers(1, 10)), "step_0": 1, "packing": packing}
        made = assembler.store(buffer=buffer, **walk)
        expected = memory.copy().reshape(-1, size)
        places = walked(made, "from", configuration)
        for target, part, place in places:
            if part == 0:
                expected[target] = 0  # what no part is in
            if packing == 1:
                low, high = words[place][::2] % 16, words[place][1::2] % 16
                expected[target, part * rows : (part + 1) * rows] = low + 16 * high
            else:
                own = words[place][:: min(8, rows) if packing else 1]
                expected[target, part * len(own) : (part + 1) * len(own)] = own
        outcome = machine.run(made.encoded(), memory)
        assert outcome.error == "none"
        assert np.array_equal(memory, expected.reshape(-1))
        assert outcome.words_written == words_of(places, made)


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


@pytest.mark.parametrize("shape", [(16, 8), (32, 48), (20, 24), (37, 70), (24, 310)])
@pytest.mark.parametrize("rows", [8, 16])
@pytest.mark.parametrize("format", ["mxsf", "mxfp4_e2m1"])
def test_transposed_codes_are_those_of_the_transpose(
    rows: int, shape: tuple[int, int], format: str
) -> None:
    configuration = MachineConfiguration(rows=rows, format_w=format)
    x = np.random.default_rng(8).normal(size=shape).astype("f4")
    q = mx.quantize(x, format, block=(8, 8))
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


@pytest.mark.parametrize("shape", [(16, 8), (32, 48), (40, 24)])
@pytest.mark.parametrize("rows", [8, 16])
def test_numbers_are_transposed(rows: int, shape: tuple[int, int]) -> None:
    """Two words go side by side: half a beat of 16 rows, or of 8 rows half of it."""
    c = machine_of(rows, arithmetic="bf16")
    layout = OperandLayout(configuration=c, rows=shape[0], columns=shape[1])
    q = np.random.default_rng(9).integers(0, 1 << 16, shape).astype(np.uint16)
    memory, tile = layout.packed(q)[0], 2 * layout.beat_bytes // c.word_bytes
    machine = Machine(c)
    beats = layout.strips * rows // c.lanes  # of a strip of the transpose, with rows not there
    halves = rows // 8
    for half in range(min(halves, shape[1] // 8)):
        made = Assembler(c).load(
            buffer="a_codes",
            transpose=1,
            address=half * tile * c.word_bytes,
            to=2 * half,
            count_0=8,
            step_0=2 * halves,
            count_1=-(-(shape[1] // 8 - half) // halves),
            stride_1=halves * tile,
            step_1=beats * c.beat_words,
            count_2=layout.strips,
            stride_2=layout.strip_bytes // c.word_bytes,
            step_2=rows,
        )
        outcome = machine.run(made.encoded(), memory)
        assert (outcome.error, outcome.words_read) == ("none", 8 * made["count_1"] * layout.strips)
    height = -(-shape[1] // rows)
    codes = machine.buffers.operand("a").codes[: height * beats]
    matrix = codes.reshape(height, beats, rows, 4).swapaxes(1, 2).reshape(height * rows, -1)
    assert np.array_equal(matrix[: shape[1], : shape[0]], q.T)


@pytest.mark.parametrize("rows", ROWS)
def test_numbers_are_loaded_and_stored(rows: int) -> None:
    """Word by word as they are: four are a beat."""
    c = machine_of(rows, arithmetic="bf16")
    memory = np.random.default_rng(4).integers(0, 256, 32 * c.word_bytes).astype(np.uint8)
    before = memory.copy()
    machine, assembler = Machine(c), Assembler(c)
    made = assembler.load(buffer="w_codes", count_0=8, count_1=2, stride_1=8, step_1=12, to=4)
    assert machine.run(made.encoded(), memory).error == "none"
    words = memory.reshape(-1, c.word_bytes)
    codes = machine.buffers.operand("w").codes
    assert np.array_equal(codes[1:3].reshape(-1), words[:8].reshape(-1).view("<u2"))
    assert np.array_equal(codes[4:6].reshape(-1), words[8:16].reshape(-1).view("<u2"))
    machine.buffers.operand("out").codes[3:5] = codes[1:3]
    put = assembler.store(buffer="out_codes", count_0=8, address=16 * c.word_bytes, **{"from": 12})
    assert machine.run(put.encoded(), memory).error == "none"
    assert np.array_equal(words[16:24], before.reshape(-1, c.word_bytes)[:8])


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
    tile = 2 * layout.beat_bytes // size  # words of memory
    turned: dict[str, Any] = {"transpose": 1, "packing": layout.packings["codes"], "count_0": 4}
    if configuration.rows == 8:
        return [
            assembler.load(
                buffer="a_codes",
                **turned,
                address=addresses[0],
                count_1=columns,
                stride_1=tile,
                step_1=2 * beats,
                count_2=layout.strips,
                stride_2=layout.strip_bytes // size,
                step_2=4,
            )
        ]
    codes = [
        assembler.load(
            buffer="a_codes",
            **turned,
            address=addresses[0] + tile * size * parity,
            to=parity,
            step_0=2,
            count_1=(columns + 1 - parity) // 2,
            stride_1=2 * tile,
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
        packing="tiles",
        address=addresses[1],
        # From part to part of a word it is a strip of the transpose.
        count_0=-(-columns // 2),
        step_0=entries // 2,
        count_1=layout.strips,
        stride_1=layout.scale_strip_bytes // size,
        step_1=1,
    )
    return [*codes, scales]
