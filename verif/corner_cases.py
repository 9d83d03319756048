"""Stimulus for the MACs: operands of every corner class, all code pairs, stalls and resets."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.corner_classes import operand_classes

Codes = NDArray[np.uint8]
Pair = tuple[Codes, Codes]

__all__ = ["all_pairs", "mixed", "with_stalls", "without_stalls"]

SIGN = np.uint8(0x80)


def mixed(seed: int, n: int, lanes: int) -> Pair:
    """About `n` vectors, equally many of each class of MXSF operands, shuffled."""
    rng = np.random.default_rng(seed)
    classes = operand_classes("mxsf")
    share = -(-n // len(classes))
    drawn = [draw(rng, share, lanes) for draw in classes.values()]
    order = rng.permutation(share * len(classes))
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
