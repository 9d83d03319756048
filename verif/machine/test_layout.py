"""Layouts: where each byte lies, there and back, and transposed tiles against the codec's."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxsafe as mx
from mxsafe.machine import layout
from mxsafe.machine.configuration import BF16_MACHINE, MachineConfiguration
from mxsafe.machine.layout import Float32Layout, OperandLayout
from verif.machine.machine_sizes import ROWS, machine_of
from verif.support.quantized import assert_same

SIZES = (MachineConfiguration(), MachineConfiguration(rows=8))
SHAPES = ((16, 8), (37, 70), (1, 1), (5, 130))
BLOCKS: tuple[Any, ...] = (64, 32, (8, 8))
FORMATS = ("mxsf", "mxfp6_e2m3", "mxfp4_e2m1")


def numbers(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("block", BLOCKS, ids=map(str, BLOCKS))
@pytest.mark.parametrize("format", FORMATS)
def test_operands_of_all_shapes_go_there_and_back(rows: int, block: Any, format: str) -> None:
    """Up to more than two strips, and more k than a word of memory has scales of tiles for."""
    configuration, most = machine_of(rows), (2 * rows + 1, 150)
    for height, width in product(range(1, most[0] + 1), (*range(1, 20), *range(20, most[1], 13))):
        q = mx.quantize(numbers(*most)[:height, :width], format, block=block)
        made = OperandLayout(
            configuration=configuration, rows=height, columns=width, block=block, format=format
        )
        codes, scales = made.packed(q)
        assert len(codes) == made.strips * made.strip_bytes
        assert len(scales) == made.strips * made.scale_strip_bytes
        assert made.strip_bytes % configuration.word_bytes == 0
        assert made.scale_strip_bytes % configuration.word_bytes == 0
        back = made.unpacked(codes, scales)
        assert isinstance(back, mx.QuantizedTensor)
        assert_same(back, q)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("block", BLOCKS, ids=map(str, BLOCKS))
@pytest.mark.parametrize("format", FORMATS)
def test_each_byte_lies_where_the_page_says(rows: int, block: Any, format: str) -> None:
    configuration = machine_of(rows)
    lanes, shape = configuration.lanes, (2 * rows + 3, 150)
    q = mx.quantize(numbers(*shape), format, block=block)
    made = OperandLayout(
        configuration=configuration, rows=shape[0], columns=shape[1], block=block, format=format
    )
    codes, scales = made.packed(q)
    by_element = q.element_scales()
    nibbles = format == "mxfp4_e2m1"
    if nibbles:
        codes = np.stack([codes & 15, codes >> 4], axis=1).reshape(-1)
    seen = np.zeros(len(codes), np.bool_), np.zeros(len(scales), np.bool_)
    strip_codes = made.strip_bytes * (2 if nibbles else 1)
    height = max(rows // 8, 1) if block == (8, 8) else rows  # bytes of an entry
    for row, k in product(range(shape[0]), range(shape[1])):
        strip, place = divmod(row, rows)
        beat, lane = divmod(k, lanes)
        at = strip * strip_codes + beat * configuration.beat_bytes + lanes * place + lane
        assert codes[at] == q.codes[row, k]
        seen[0][at] = True
        entry = k // made.length
        of_entry = place * height // rows
        at = strip * made.scale_strip_bytes + entry * height + of_entry
        assert scales[at] == by_element[row, k]
        seen[1][at] = True
    assert not codes[~seen[0]].any()
    assert not scales[~seen[1]].any()


@pytest.mark.parametrize(
    ("format", "block", "bits"),
    [
        ("mxsf", 64, 8.125),
        ("mxsf", (8, 8), 8.125),
        ("mxfp4_e2m1", 64, 4.125),
        ("mxfp4_e2m1", (8, 8), 4.125),
    ],
)
def test_bits_of_an_element(format: str, block: Any, bits: float) -> None:
    for configuration in SIZES:
        made = OperandLayout(
            configuration=configuration, rows=48, columns=256, block=block, format=format
        )
        size = made.strips * (made.strip_bytes + made.scale_strip_bytes)
        assert 8 * size / (made.rows * made.columns) == bits


@pytest.mark.parametrize("rows", ROWS)
def test_numbers_lie_where_the_page_says(rows: int) -> None:
    """Two bytes each, the lower one first, of beats one after the other; there are no scales."""
    c = machine_of(rows, arithmetic="bf16")
    shape = (2 * rows + 3, 150)
    x = numbers(*shape)
    made = OperandLayout(configuration=c, rows=shape[0], columns=shape[1])
    q = made.converted(x)
    assert isinstance(q, np.ndarray)
    assert np.array_equal(q, x.astype(ml_dtypes.bfloat16).view(np.uint16))
    codes, scales = made.packed(q)
    assert (len(codes), len(scales)) == (made.strips * made.strip_bytes, 0)
    assert made.strip_bytes == made.beats * c.beat_bytes == 38 * 8 * rows
    seen = np.zeros(len(codes), np.bool_)
    for row, k in product(range(shape[0]), range(shape[1])):
        strip, place = divmod(row, rows)
        beat, lane = divmod(k, c.lanes)
        at = strip * made.strip_bytes + beat * c.beat_bytes + 2 * (c.lanes * place + lane)
        assert int(codes[at]) + 256 * int(codes[at + 1]) == q[row, k]
        seen[at : at + 2] = True
    assert not codes[~seen].any()
    back = made.unpacked(codes, scales)
    assert isinstance(back, np.ndarray)
    assert back.dtype == np.uint16
    assert np.array_equal(back, q)
    assert (made.entries, made.scale_strip_bytes, made.block_beats, made.turns) == (0, 0, 1, True)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("packing", ["none", "nibbles", "tiles"])
def test_words_are_unpacked_byte_by_byte(rows: int, packing: str) -> None:
    c = machine_of(rows)
    words = np.random.default_rng(rows).integers(0, 256, (2, 3, c.word_bytes)).astype(np.uint8)
    found = layout.unpacked_words(words, packing, c).reshape(2, -1)
    for outer, flat in enumerate(words.reshape(2, -1).tolist()):
        if packing == "nibbles":
            right = [half for byte in flat for half in (byte % 16, byte // 16)]
        else:
            right = [
                byte for byte in flat for _ in range(min(8, rows) if packing == "tiles" else 1)
            ]
        assert found[outer].tolist() == right
    unpacked = found.reshape(2, -1, c.word_bytes)
    assert np.array_equal(layout.packed_words(unpacked, packing, c), words)
    for count in range(1, unpacked.shape[1]):
        short = layout.packed_words(unpacked[:, :count], packing, c)
        parts = unpacked.shape[1] // 3
        assert short.shape == (2, -(-count // parts), c.word_bytes)
        again = layout.unpacked_words(short, packing, c)
        assert np.array_equal(again[:, :count], unpacked[:, :count])
        assert not again[:, count:].any()


@pytest.mark.parametrize("configuration", SIZES, ids=["16", "8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_go_there_and_back(
    configuration: MachineConfiguration, shape: tuple[int, int]
) -> None:
    x = numbers(*shape)
    wide = Float32Layout(configuration=configuration, rows=shape[0], columns=shape[1])
    assert np.array_equal(wide.unpacked(wide.packed(x)), x)
    half = Float32Layout(
        configuration=configuration, rows=shape[0], columns=shape[1], number="bfloat16"
    )
    brief = x.astype(ml_dtypes.bfloat16)
    assert np.array_equal(half.unpacked(half.packed(x)), brief.astype(np.float32))
    assert np.array_equal(half.packed(brief), half.packed(x))
    data = wide.packed(x).view("<f4")
    strip, lane = divmod(shape[1] - 1, configuration.vector_lanes)
    at = (strip * shape[0] + shape[0] - 1) * configuration.vector_lanes + lane
    assert data[at] == x[-1, -1]


def test_narrowing_is_that_of_ml_dtypes() -> None:
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    words = (high[:, None] | low).reshape(-1)
    found = layout.narrowed(words)
    with np.errstate(invalid="ignore"):
        expected = words.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    nan = np.isnan(words.view(np.float32))
    assert nan.any()
    assert np.array_equal(found[~nan], expected[~nan])
    assert (found[nan] == 0x7FC0).all()
    every = np.arange(1 << 16, dtype=np.uint16)
    assert np.array_equal(
        layout.widened_words(every), every.view(ml_dtypes.bfloat16).astype(np.float32).view("u4")
    )


@pytest.mark.parametrize("configuration", SIZES, ids=["16", "8"])
def test_transposed_groups_are_transposed_tiles(configuration: MachineConfiguration) -> None:
    rows, lanes = configuration.rows, configuration.lanes
    element = np.arange(rows * 8).reshape(rows, 8).astype(np.uint8)  # row, k
    beats = element.reshape(rows, 8 // lanes, lanes).swapaxes(0, 1)
    group = np.ascontiguousarray(beats).reshape(4, configuration.word_bytes)
    found = layout.transposed_codes(group, configuration)
    for word, data in enumerate(found):
        for at, value in enumerate(data):
            new_row, lane = divmod(at, lanes)
            if rows == 16:
                tile, half = divmod(word, 2)
                expected = element[8 * tile + 4 * half + lane, new_row]
            else:
                beat, half = divmod(word, 2)
                expected = element[4 * beat + lane, 4 * half + new_row]
            assert value == expected


@pytest.mark.parametrize("rows", [8, 16])
def test_transposed_groups_of_numbers(rows: int) -> None:
    """Two words of memory are half a beat of 16 rows or of 8, whichever the strip has."""
    c = machine_of(rows, arithmetic="bf16")
    element = (np.arange(rows * 8).reshape(rows, 8) * 257).astype(np.uint16)  # row, k
    beats = np.ascontiguousarray(element.reshape(rows, 2, 4).swapaxes(0, 1))
    group = beats.reshape(-1).view(np.uint8).reshape(8, c.word_bytes)
    found = layout.transposed_codes(group, c).reshape(-1).view("<u2").reshape(rows // 4, 8, 4)
    for beat, new_row, lane in np.ndindex(*found.shape):
        assert found[beat, new_row, lane] == element[4 * beat + lane, new_row]
    with pytest.raises(ValueError, match=f"groups must be of 8 words of {2 * rows} bytes, not"):
        layout.transposed_codes(group[:4], c)


def test_transposed_scales() -> None:
    word = np.repeat(np.array([1, 2, 3, 4], np.uint8), 8)  # A0 A1 B0 B1
    assert layout.transposed_scales(word).tolist() == np.repeat([1, 3, 2, 4], 8).tolist()


def test_errors() -> None:
    default = SIZES[0]
    with pytest.raises(ValueError, match="rows must be a positive integer, not 0"):
        OperandLayout(configuration=default, rows=0, columns=1)
    with pytest.raises(ValueError, match=r"block must be a length or \(8, 8\), not \(8, 16\)"):
        OperandLayout(configuration=default, rows=1, columns=1, block=(8, 16))
    with pytest.raises(ValueError, match="block must be a multiple of 4 up to 64, not 128"):
        OperandLayout(configuration=default, rows=1, columns=1, block=128)
    made = OperandLayout(configuration=default, rows=4, columns=8)
    with pytest.raises(TypeError, match="q must be a QuantizedTensor, not 1"):
        made.packed(1)
    with pytest.raises(ValueError, match=r"q must have shape \(4, 8\), not \(8, 4\)"):
        made.packed(mx.quantize(numbers(8, 4)))
    with pytest.raises(ValueError, match="q must have blocks of 64 along its rows, not of 64 a"):
        made.packed(mx.quantize(numbers(4, 8), axis=0))
    with pytest.raises(ValueError, match="q must have format mxsf, not mxfp4_e2m1"):
        made.packed(mx.quantize(numbers(4, 8), "mxfp4_e2m1", block=64))
    with pytest.raises(ValueError, match="format must have scales of float8_e8m0fnu"):
        OperandLayout(configuration=default, rows=4, columns=8, format="nvfp4")
    bare = {"configuration": BF16_MACHINE, "rows": 4, "columns": 8}
    with pytest.raises(ValueError, match=r"block must be 4 without scales, not \(8, 8\)"):
        OperandLayout(**bare, block=(8, 8))
    with pytest.raises(ValueError, match="format must be bf16 without scales, not mxsf"):
        OperandLayout(**bare, format="mxsf")
    with pytest.raises(TypeError, match="q must be an array of uint16, not "):
        OperandLayout(**bare).packed(mx.quantize(numbers(4, 8)))
    with pytest.raises(ValueError, match=r"q must have shape \(4, 8\), not \(8, 4\)"):
        OperandLayout(**bare).packed(np.zeros((8, 4), np.uint16))
    with pytest.raises(ValueError, match="packing must be one of none, nibbles, tiles, not 'x'"):
        layout.packed_words(np.zeros((1, 32), np.uint8), "x", default)
    with pytest.raises(ValueError, match=r"words must be of 32 bytes, not of shape \(32,\)"):
        layout.unpacked_words(np.zeros(32, np.uint8), "none", default)
    with pytest.raises(ValueError, match="codes must be 128 bytes, not uint8 of shape"):
        made.unpacked(np.zeros(5, np.uint8), np.zeros(32, np.uint8))
    sheet = Float32Layout(configuration=default, rows=4, columns=8)
    with pytest.raises(TypeError, match="x must have dtype float32, float16, bfloat16, not fl"):
        sheet.packed(np.zeros((4, 8)))
    with pytest.raises(ValueError, match=r"x must have shape \(4, 8\), not \(8, 4\)"):
        sheet.packed(numbers(8, 4))
    with pytest.raises(ValueError, match="number must be one of float32, bfloat16, not 'f8'"):
        Float32Layout(configuration=default, rows=4, columns=8, number="f8")
