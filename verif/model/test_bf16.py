"""The model of the bfloat16 baseline against rational arithmetic, and its rules for NaN."""

from fractions import Fraction

import numpy as np
import pytest

from mxsafe.model import bf16_mac, bf16_matmul
from mxsafe.model.bf16 import bf16_values
from verif.rtl.mac import corner_cases
from verif.support.exact import nearest_float

ONE, INF, NAN = 0x3F80, 0x7F80, 0x7FC1


def binary32(value: Fraction) -> Fraction | None:
    """Rounded to binary32; None for Inf."""
    magnitude = nearest_float(abs(value), mantissa_bits=23, min_exponent=-126)
    if magnitude >= 1 << 128:
        return None
    return -magnitude if value < 0 else magnitude


def test_finite_sums_equal_rational_ones() -> None:
    a, w = corner_cases.mixed_bf16(3, 4_000, 4)
    got = bf16_mac(a, w).view(np.float32)
    compared = 0
    for row in range(len(a)):
        x, y = bf16_values(a[row]), bf16_values(w[row])
        if not np.isfinite([*x, *y]).all():
            continue
        p = [binary32(Fraction(float(u)) * Fraction(float(v))) for u, v in zip(x, y, strict=True)]
        halves = [None if None in pair else binary32(sum(pair)) for pair in (p[:2], p[2:])]
        if None in halves:
            assert not np.isfinite(got[row])
            continue
        total = binary32(sum(halves))
        assert (None if np.isinf(got[row]) else Fraction(float(got[row]))) == total
        compared += 1
    assert compared > 2_000


@pytest.mark.parametrize(
    ("a", "w", "expected"),
    [
        ([INF, ONE], [ONE, ONE], 0x7F800000),
        ([INF, ONE], [0, ONE], 0x7FC00000),
        ([INF, INF], [ONE, ONE | 0x8000], 0x7FC00000),
        ([NAN, ONE], [ONE, ONE], 0x7FC00000),
        ([0x8000, 0x8000], [ONE, ONE], 0x80000000),
        ([0x8000, 0], [ONE, ONE], 0),
        ([0x7F7F, 0], [0x7F7F, 0], 0x7F800000),
        ([1, 0], [ONE, 0], 1 << 16),
        ([1, 0], [0x3F00 - (15 << 7), 0], 1),
        ([1, 0], [0x3F00 - (16 << 7), 0], 0),
    ],
)
def test_corner_cases(a: list[int], w: list[int], expected: int) -> None:
    assert bf16_mac([a], [w]).tolist() == [expected]


def test_matrices_equal_the_units_composed() -> None:
    a, w = corner_cases.mixed_bf16(5, 64, 8)
    a, w = a[:5, :7], w[:7, :6]
    got = bf16_matmul(a, w, lanes=2)
    a, w = np.pad(a, ((0, 0), (0, 1))), np.pad(w, ((0, 1), (0, 0)))
    for i, j in np.ndindex(got.shape):
        acc = np.zeros(1, np.float32)
        with np.errstate(all="ignore"):
            for k in range(0, 8, 2):
                acc = acc + bf16_mac(a[i, None, k : k + 2], w[None, k : k + 2, j]).view(np.float32)
        bits = 0x7FC00000 if np.isnan(acc[0]) else acc.view(np.uint32)[0]
        assert got[i, j].view(np.uint32) == bits


def test_a_product_is_continued() -> None:
    """In parts of whole beats it is the same, and larger than a tile that is made at a time."""
    rng = np.random.default_rng(8)
    a, w = (
        (rng.normal(size=shape).astype("f4").view("u4") >> 16).astype(np.uint16)
        for shape in ((70, 24), (24, 530))
    )
    whole, part = bf16_matmul(a, w), bf16_matmul(a[:, :16], w[:16])
    continued = bf16_matmul(a[:, 16:], w[16:], start=part)
    assert np.array_equal(whole.view("u4"), continued.view("u4"))
    assert not np.array_equal(whole, part)
    corner = bf16_matmul(a[66:, :], w[:, 520:])
    assert np.array_equal(corner, whole[66:, 520:])
    with pytest.raises(ValueError, match=r"^start must be of float32 and shape \(70, 530\), not f"):
        bf16_matmul(a, w, start=part[:1])


def test_bad_operands() -> None:
    with pytest.raises(ValueError, match=r"^w must have the shape \(1, 4\) of a, not \(1, 2\)$"):
        bf16_mac([[0] * 4], [[0] * 2])
    with pytest.raises(ValueError, match=r"^a must lie in 0..65535, not 0..65536$"):
        bf16_mac([[0, 65536]], [[0, 0]])
    with pytest.raises(ValueError, match=r"^w must have the 2 rows that a has columns, not 3$"):
        bf16_matmul([[0, 0]], [[0], [0], [0]])
