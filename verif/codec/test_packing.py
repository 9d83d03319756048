"""Byte layouts: against bits written out one by one, and there and back."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mxsafe as mx
from mxsafe.codec.packing import Layout, from_bytes, pack_codes, to_bytes, unpack_codes
from mxsafe.formats import BLOCK_FORMATS
from verif.support.quantized import assert_same
from verif.support.tests import raises

LAYOUTS: tuple[Layout, ...] = ("planar", "inline")


def bit_string(codes: list[int], width: int) -> list[int]:
    """Bytes of codes, by arithmetic on one large integer."""
    number = sum(code << (width * i) for i, code in enumerate(codes))
    return list(number.to_bytes(-(-len(codes) * width // 8), "little"))


def test_documented_examples() -> None:
    assert pack_codes([0x1, 0x2, 0x3], 4).tolist() == [0x21, 0x03]  # low nibble first
    four = [0b100001, 0b110010, 0b101100, 0b011010]
    assert pack_codes(four, 6).tolist() == [0b10100001, 0b11001100, 0b01101010]


@given(st.integers(1, 8), st.lists(st.integers(0, 255), max_size=40))
def test_codes_are_one_little_endian_string_of_bits(width: int, numbers: list[int]) -> None:
    codes = [number & ((1 << width) - 1) for number in numbers]
    packed = pack_codes(np.array(codes, np.uint8), width)
    assert packed.tolist() == bit_string(codes, width)
    assert unpack_codes(packed, width, len(codes)).tolist() == codes


def test_only_the_last_axis_is_packed() -> None:
    codes = np.random.default_rng(1).integers(0, 64, (3, 2, 10), np.uint8)
    packed = pack_codes(codes, 6)
    assert packed.shape == (3, 2, 8)
    for index in np.ndindex(3, 2):
        assert packed[index].tolist() == bit_string(codes[index].tolist(), 6)
    np.testing.assert_array_equal(unpack_codes(packed, 6, 10), codes)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
@pytest.mark.parametrize(
    ("shape", "blocking"),
    [
        ((5, 37), {"block": 8}),
        ((5, 37), {"block": 2, "axis": 0}),
        ((5, 37), {"block": (4, 3)}),
        ((2, 3, 4, 5), {"block": 3, "axis": 1}),
        ((2, 9, 6), {"block": (8, 8)}),
        ((7,), {"block": 64}),
        ((0, 4), {"block": 2}),
    ],
)
def test_there_and_back(name: str, shape: tuple[int, ...], blocking: dict[str, Any]) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    q = mx.quantize(x, name, **blocking)
    for layout in LAYOUTS:
        data = to_bytes(q, layout)
        for raw in (data, data.tobytes()):
            back = from_bytes(
                raw, name, shape, layout=layout, tensor_scale=q.tensor_scale, **blocking
            )
            assert_same(back, q)


@pytest.mark.parametrize("layout", get_args(Layout))
def test_tensors_have_arrays_of_their_own(layout: Layout) -> None:
    """Changing the bytes that tensors come from leaves the tensors unchanged."""
    q = mx.quantize(np.ones((4, 64)), "mxfp4_e2m1")
    data = np.frombuffer(to_bytes(q, layout), np.uint8).copy()
    back = from_bytes(data, "mxfp4_e2m1", (4, 64), layout=layout)
    data[:] = 1
    assert_same(back, q)


def test_planar_is_codes_then_scales() -> None:
    q = mx.quantize(np.random.default_rng(3).standard_normal((3, 8)), "mxfp4_e2m1", block=4)
    expected = bit_string(q.codes.reshape(-1).tolist(), 4) + q.scales.reshape(-1).tolist()
    assert to_bytes(q).tolist() == expected


@pytest.mark.parametrize(("block", "axis"), [(4, -1), (4, 0), ((4, 2), -1)])
def test_inline_is_block_after_block(block: Any, axis: int) -> None:
    q = mx.quantize(
        np.random.default_rng(4).standard_normal((8, 12)), "mxfp6_e2m3", block=block, axis=axis
    )
    expected = []
    rows, columns = (
        block if isinstance(block, tuple) else ((1, block) if axis == -1 else (block, 1))
    )
    for i, j in np.ndindex(q.scales.shape):
        codes = q.codes[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        expected += [int(q.scales[i, j]), *bit_string(codes.reshape(-1).tolist(), 6)]
    assert to_bytes(q, "inline").tolist() == expected


def test_inline_fills_up_ragged_blocks() -> None:
    q = mx.quantize(np.ones((1, 5)), "mxfp8_e4m3", block=4)
    assert to_bytes(q, "inline").tolist() == [119, 0x78, 0x78, 0x78, 0x78, 119, 0x78, 0, 0, 0]


GGUF = {"mxfp4_e2m1": (32, 1, 1 + 16), "nvfp4": (64, 4, 4 + 32)}
"""Elements, scales and bytes of a block of GGML."""


@pytest.mark.parametrize("name", GGUF)
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2), (5, 1), (2, 3, 1), (0, 2), (2, 0)])
def test_gguf_has_halves_of_blocks_in_halves_of_bytes(name: str, shape: tuple[int, ...]) -> None:
    """Bytes put together from their definition in GGML, one block of it at a time."""
    elements, scales, size = GGUF[name]
    shape = (*shape[:-1], shape[-1] * elements)
    x = np.random.default_rng(len(shape)).standard_normal(shape)
    q = mx.quantize(x, name)
    expected = []
    for codes, own in zip(q.codes.reshape(-1, elements), q.scales.reshape(-1, scales), strict=True):
        expected += own.tolist()
        for block in codes.reshape(scales, 2, -1).tolist():
            expected += [low + 16 * high for low, high in zip(*block, strict=True)]
    data = to_bytes(q, "gguf")
    assert data.tolist() == expected
    assert data.size == x.size // elements * size
    back = from_bytes(data, name, shape, layout="gguf", tensor_scale=q.tensor_scale)
    assert_same(back, q)
    if x.size:
        # The same number of bytes, so nothing else tells them apart.
        inline = from_bytes(
            to_bytes(q, "inline"), name, shape, layout="inline", tensor_scale=q.tensor_scale
        )
        np.testing.assert_array_equal(inline.codes, q.codes)
        assert to_bytes(q, "inline").size == data.size
        assert to_bytes(q, "inline").tolist() != expected


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: to_bytes(mx.quantize(np.ones(64)), "gguf"),
            ValueError,
            "format must be one of mxfp4_e2m1, nvfp4 for layout gguf, not 'mxsf'",
        ),
        (
            lambda: to_bytes(mx.quantize(np.ones((32, 32)), "mxfp4_e2m1", axis=0), "gguf"),
            ValueError,
            "block must be 32 along the last axis for layout gguf, not 32 along -2",
        ),
        (
            lambda: from_bytes(b"", "mxfp4_e2m1", (32,), block=16, layout="gguf"),
            ValueError,
            "block must be 32 along the last axis for layout gguf, not 16 along -1",
        ),
        (
            lambda: to_bytes(mx.quantize(np.ones(96), "nvfp4"), "gguf"),
            ValueError,
            "shape must have a last axis that is a multiple of 64 for nvfp4 in layout gguf, not 96",
        ),
        (
            lambda: from_bytes(b"", "mxfp4_e2m1", (2, 33), layout="gguf"),
            ValueError,
            "shape must have a last axis that is a multiple of 32 for mxfp4_e2m1 in layout gguf, "
            "not 33",
        ),
        (
            lambda: from_bytes(bytes(16), "mxfp4_e2m1", (32,), layout="gguf"),
            ValueError,
            "data must hold 17 bytes for mxfp4_e2m1 of shape (32,), not 16",
        ),
        (
            lambda: from_bytes(b"\xff" + bytes(16), "mxfp4_e2m1", (32,), layout="gguf"),
            ValueError,
            "data must have no scale 0xff in layout gguf: it is NaN here, and a number to GGML",
        ),
        (
            lambda: to_bytes(mx.quantize(np.full(64, np.nan), "nvfp4"), "gguf"),
            ValueError,
            "q must have no scale 0x7f in layout gguf: it is NaN here, and a number to GGML",
        ),
        (lambda: pack_codes([16], 4), ValueError, "codes must lie in 0..15, not 16..16"),
        (lambda: pack_codes([1], 9), ValueError, "width must be an integer from 1 to 8, not 9"),
        (lambda: pack_codes(3, 4), ValueError, "codes must have rank 1 or more, not 0"),
        (lambda: pack_codes([1.0], 4), TypeError, "codes must have an integer dtype, not float64"),
        (
            lambda: unpack_codes(np.zeros(3, np.uint8), 6, 5),
            ValueError,
            "packed must hold 4 bytes for 5 codes, not 3",
        ),
        (
            lambda: to_bytes(mx.quantize(np.ones(3)), "columns"),
            ValueError,
            "layout must be one of planar, inline, gguf, not 'columns'",
        ),
        (
            lambda: from_bytes(b"abc", "mxfp4_e2m1", (4, 4), block=4),
            ValueError,
            "data must hold 12 bytes for mxfp4_e2m1 of shape (4, 4), not 3",
        ),
        (
            lambda: from_bytes(np.zeros(3), "mxsf", (4,)),
            TypeError,
            "data must be bytes or a uint8 array of rank 1, not float64 of rank 1",
        ),
    ],
)
def test_bad_input(call, error: type[Exception], message: str) -> None:
    with raises(error, message):
        call()
