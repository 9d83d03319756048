"""Operands that go where arithmetic goes wrong, by name, and random ones between them."""

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8]
Pair = tuple[Codes, Codes]

__all__ = ["CLASSES", "all_pairs", "mixed", "with_stalls", "without_stalls"]

SIGN = np.uint8(0x80)


def _uniform(rng: np.random.Generator, n: int, lanes: int) -> Pair:
    a, w = rng.integers(0, 256, (2, n, lanes), np.uint8)
    return a, w


def _from(codes: list[int]) -> Callable[[np.random.Generator, int, int], Pair]:
    """Operands drawn from a few magnitudes, with random signs."""
    table = np.array(codes, np.uint8)

    def draw(rng: np.random.Generator, n: int, lanes: int) -> Pair:
        a, w = (
            rng.choice(table, (n, lanes)) | rng.choice(np.array([0, SIGN], np.uint8), (n, lanes))
            for _ in range(2)
        )
        return a, w

    return draw


def _cancelling(rng: np.random.Generator, n: int, lanes: int) -> Pair:
    """Lanes in pairs of opposite products, or products one unit apart."""
    a, w = _uniform(rng, n, lanes)
    for left, right in itertools.pairwise(range(lanes)):
        if left % 2 == 0:
            a[:, right] = a[:, left]
            nudge = rng.integers(0, 2, n, np.uint8)  # flips the last mantissa bit of half of them
            w[:, right] = (w[:, left] ^ SIGN) ^ nudge
    return a, w


def _uneven(rng: np.random.Generator, n: int, lanes: int) -> Pair:
    """One large product and others far below it: guard and tie bits come from the small ones."""
    a, w = _from(list(range(0x00, 0x28)))(rng, n, lanes)
    lane = rng.integers(0, lanes, n)
    rows = np.arange(n)
    a[rows, lane] |= 0x60
    w[rows, lane] |= rng.choice(np.array([0x20, 0x40, 0x60], np.uint8), n)
    return a, w


def _one_lane(rng: np.random.Generator, n: int, lanes: int) -> Pair:
    """A single product, in every lane in turn, between zeros of both signs."""
    a, w = _from([0])(rng, n, lanes)
    lane, rows = np.arange(n) % lanes, np.arange(n)
    a[rows, lane] = rng.integers(0, 256, n, np.uint8)
    w[rows, lane] = rng.integers(0, 256, n, np.uint8)
    return a, w


def _negative(rng: np.random.Generator, n: int, lanes: int) -> Pair:
    """Only negative products: the one way to a sum of -0."""
    a, w = _from([*range(8), 0x1F, 0x20, 0x7F])(rng, n, lanes)
    return a, (w & ~SIGN) | (~a & SIGN)


CLASSES: dict[str, Callable[[np.random.Generator, int, int], Pair]] = {
    "uniform": _uniform,
    "zeros of both signs": _from([0x00, 0x00, 0x01, 0x40]),
    "subnormals": _from([0x00, 0x01, 0x02, 0x03, 0x04, 0x05]),
    "sub-FP": _from(list(range(0x20))),
    "E2M5": _from(list(range(0x20, 0x80))),
    "seam": _from([0x1E, 0x1F, 0x20, 0x21]),
    "largest": _from([0x7D, 0x7E, 0x7F]),
    "carries": _from([0x3F, 0x5F, 0x7F, 0x20, 0x40, 0x60, 0x1F, 0x0F]),
    "cancellation": _cancelling,
    "uneven": _uneven,
    "one lane": _one_lane,
    "all negative": _negative,
}
"""Classes of MXSF operands; each draws ``n`` vectors of ``lanes`` code pairs."""


def mixed(seed: int, n: int, lanes: int) -> Pair:
    """About `n` vectors, equally many of each class, shuffled."""
    rng = np.random.default_rng(seed)
    share = -(-n // len(CLASSES))
    drawn = [draw(rng, share, lanes) for draw in CLASSES.values()]
    order = rng.permutation(share * len(CLASSES))
    return (
        np.concatenate([a for a, _ in drawn])[order],
        np.concatenate([w for _, w in drawn])[order],
    )


def all_pairs(lanes: int, lane: int) -> Pair:
    """All 65,536 code pairs in one lane, zeros of alternating sign in the others."""
    pairs = np.arange(1 << 16)
    a = np.broadcast_to(np.where(pairs % 2 == 0, 0, SIGN)[:, None], (1 << 16, lanes)).astype(
        np.uint8
    )
    w = np.zeros_like(a)
    a[:, lane], w[:, lane] = pairs >> 8, pairs & 0xFF
    return a, w


Rows = tuple[Codes, Codes, NDArray[np.int64], NDArray[np.int64]]
"""Operands a and w, clock enable and reset, one row a cycle."""


def without_stalls(a: Codes, w: Codes, *, flush: int) -> Rows:
    """A new operand vector every cycle, then `flush` enabled cycles and a stalled one."""
    tail = np.zeros((flush + 1, a.shape[1]), np.uint8)
    en = np.ones(len(a) + flush + 1, np.int64)
    en[-1] = 0
    return np.concatenate([a, tail]), np.concatenate([w, tail]), en, np.zeros_like(en)


def with_stalls(seed: int, a: Codes, w: Codes, *, flush: int, resets: int = 0) -> Rows:
    """Spread operand vectors over cycles with a random clock enable and resets in mid-flight.

    Operands change in stalled cycles too: what is on the bus while `en` is low must not matter.

    Returns
    -------
    a, w, en, rst
        One row a cycle; it ends with `flush` enabled cycles and a stalled one.
    """
    rng = np.random.default_rng(seed)
    en = rng.random(len(a)) < np.repeat(rng.choice([0.2, 0.8, 1.0], len(a) // 64 + 1), 64)[: len(a)]
    rst = np.zeros(len(a), np.int64)
    if resets:
        rst[rng.choice(np.arange(8, len(a) - 8), resets, replace=False)] = 1
    a, w, steady, idle = without_stalls(a, w, flush=flush)
    steady[: len(en)] = en
    idle[: len(rst)] = rst
    return a, w, steady, idle
