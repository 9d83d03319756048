"""The schedule on its own: beats hold the operands, results come back in place."""

from functools import partial

import numpy as np
import pytest

import mxsafe as mx
from mxsafe.model import Schedule
from verif.support.tests import raises, refused


def operands(
    m: int, k: int, n: int, block: int | tuple[int, int]
) -> tuple[mx.QuantizedTensor, ...]:
    """Operands of few bits over a few binades, so that sums are exact in any order."""
    rng = np.random.default_rng(m * k * n)
    x, y = (
        rng.choice([-1.5, -1.0, 0.0, 0.5, 1.25], shape) * np.exp2(rng.integers(-4, 5, shape))
        for shape in ((m, k), (k, n))
    )
    return mx.quantize(x, block=block, axis=-1), mx.quantize(y, block=block, axis=-2)


@pytest.mark.parametrize("block", [1, 6, 8, 64, (8, 8)])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 13, 3), (16, 64, 16), (17, 70, 33)])
def test_beats_hold_every_product_once(
    m: int, k: int, n: int, block: int | tuple[int, int]
) -> None:
    a, w = operands(m, k, n, block)
    schedule = Schedule(a, w, arithmetic="exact", rows=4, columns=3, lanes=4)
    x, y = mx.dequantize(a).astype(np.float64), mx.dequantize(w).astype(np.float64)
    rows = []
    for tile in schedule:
        assert len(tile) == schedule.beats_per_tile
        assert tile.first.tolist() == [True] + [False] * (len(tile) - 1)
        assert tile.last.tolist() == [False] * (len(tile) - 1) + [True]
        assert tile.block_last[-1]
        left, right = (
            mx.decode(codes, "mxsf").astype(np.float64)
            * mx.e8m0.decode(scales).astype(np.float64)[:, :, None]
            for codes, scales in ((tile.a_codes, tile.a_scales), (tile.w_codes, tile.w_scales))
        )
        rows.append(np.einsum("brl,bcl->rc", left, right))
    got = schedule.assemble(np.concatenate(rows).astype(np.float32))
    np.testing.assert_array_equal(got, x @ y)
    inner = block if isinstance(block, int) else block[0]
    assert tile.block_last.sum() == -(-k // inner)
    assert schedule.tiles == -(-m // 4) * -(-n // 3)
    assert schedule.ideal_beats == schedule.tiles * -(-k // 4)


def test_tiles_in_the_order_of_columns() -> None:
    """Tiles of a column come one after the other; results come back in the same place."""
    a, w = operands(9, 6, 8, 6)
    by_rows, by_columns = (
        Schedule(a, w, arithmetic="exact", rows=4, columns=3, lanes=2, order=order)
        for order in ("rows", "columns")
    )
    assert by_columns.grid == (3, 3)
    order = np.arange(9).reshape(3, 3).T.ravel()
    tiles = list(by_rows)
    for number, tile in zip(order, by_columns, strict=True):
        assert np.array_equal(tile.a_codes, tiles[number].a_codes)
        assert np.array_equal(tile.w_codes, tiles[number].w_codes)
        assert np.array_equal(tile.w_scales, tiles[number].w_scales)
    rows = np.arange(9 * 4 * 3, dtype=np.float32).reshape(9, 4, 3)
    assert np.array_equal(
        by_columns.assemble(rows[order].reshape(-1, 3)), by_rows.assemble(rows.reshape(-1, 3))
    )


def test_padding_is_zero_codes_under_a_scale_that_is_no_nan() -> None:
    a, w = operands(3, 6, 2, 8)
    (tile,) = Schedule(a, w, rows=4, columns=4, lanes=4)
    assert not tile.a_codes[:, 3].any()
    assert (tile.a_scales[:, 3] == 127).all()
    assert not tile.w_codes[1, :, 2:].any()
    assert (tile.w_scales[1, :2] == w.scales[0]).all()


test_bad_sizes = refused(
    partial(Schedule, *operands(3, 8, 2, 8)),
    [
        ({"rows": 0}, "rows must be a positive integer, not 0"),
        ({"columns": True}, "columns must be a positive integer, not True"),
        ({"lanes": 2.0}, "lanes must be a positive integer, not 2.0"),
        ({"order": "diagonals"}, "order must be one of rows, columns, not 'diagonals'"),
        (
            {"longest_block": 4},
            "a must have blocks of at most 4 in k, which the array's sums hold, not 8",
        ),
    ],
)


def test_blocks_are_those_that_matmul_takes() -> None:
    a, w = operands(3, 12, 2, 6)
    for call in (Schedule, mx.matmul):
        with pytest.raises(ValueError, match=r"^lanes must divide the block length 6 in k, not 4$"):
            call(a, w, arithmetic="fp12", lanes=4)
        call(a, w, arithmetic="fp12", lanes=2)
        call(a, w, arithmetic="exact", lanes=4)


def test_bad_operands_and_results() -> None:
    a, w = operands(3, 8, 2, 8)
    with pytest.raises(ValueError, match=r"^a must have at least one column, not 0$"):
        Schedule(*operands(3, 0, 2, 8))
    with pytest.raises(TypeError, match=r"^a must be a QuantizedTensor, not ndarray$"):
        Schedule(np.ones((2, 2)), w)
    with pytest.raises(ValueError, match=r"^results must have the shape \(16, 16\), not \(3, 2\)$"):
        Schedule(a, w).assemble(np.zeros((3, 2), np.float32))


def test_bfloat16_operands() -> None:
    rng = np.random.default_rng(16)
    a, w = (rng.integers(0, 1 << 16, shape).astype(np.uint16) for shape in ((3, 6), (6, 5)))
    tiles = list(Schedule(a, w, arithmetic="bf16", rows=4, columns=4, lanes=4))
    assert len(tiles) == 2
    for tile in tiles:
        assert tile.a_scales.shape == tile.w_scales.shape == (2, 0)
        assert tile.block_last.tolist() == [False, True]
        got = tile.a_codes.transpose(1, 0, 2).reshape(4, 8)
        np.testing.assert_array_equal(got[:3, :6], a)
        assert not got[3].any()
        assert not got[:, 6:].any()
    np.testing.assert_array_equal(tiles[1].w_codes[1, 0, :2], w[4:, 4])
    with raises(TypeError, "w must be an array of uint16 for arithmetic bf16, not uint8"):
        Schedule(a, w.astype(np.uint8), arithmetic="bf16")
    with raises(TypeError, "a must be an array of uint16 for arithmetic bf16, not QuantizedTensor"):
        Schedule(*operands(3, 8, 2, 8), arithmetic="bf16")
    with pytest.raises(ValueError, match=r"^w must have the 6 rows that a has columns, not 5$"):
        Schedule(a, w[:5], arithmetic="bf16")
