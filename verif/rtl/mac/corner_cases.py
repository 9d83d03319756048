"""Stimulus for the MACs: operands of every corner class, all code pairs, stalls and resets."""

import numpy as np
from numpy.typing import NDArray

from mxsafe.formats import MX_FORMATS, FloatFormat
from mxsafe.vectors.corner_classes import operand_classes

Codes = NDArray[np.uint8]
Pair = tuple[Codes, Codes]


def mixed(seed: int, n: int, lanes: int, fmt: str = "mxsf", format_w: str | None = None) -> Pair:
    """About `n` vectors, equally many of each class of operands, shuffled."""
    rng = np.random.default_rng(seed)
    classes = operand_classes(fmt, format_w)
    share = -(-n // len(classes))
    drawn = [draw(rng, share, lanes) for draw in classes.values()]
    order = rng.permutation(share * len(classes))
    return (
        np.concatenate([a for a, _ in drawn])[order],
        np.concatenate([w for _, w in drawn])[order],
    )


def all_pairs(lanes: int, lane: int, fmt: str = "mxsf", format_w: str | None = None) -> Pair:
    """All code pairs in one lane, zeros (of alternating sign, if there are two) in the others."""
    elements = [MX_FORMATS[name].element for name in (fmt, format_w or fmt)]
    codes_w = 1 << elements[1].width
    pairs = np.arange(codes_w << elements[0].width)
    operands = []
    for element, codes, turn in zip(elements, divmod(pairs, codes_w), (pairs % 2, 0), strict=True):
        sign = (1 << element.width - 1) * isinstance(element, FloatFormat)
        zeros = np.where(turn == 0, 0, sign).astype(np.uint8)
        operand = np.repeat(np.resize(zeros, len(pairs))[:, None], lanes, axis=1)
        operand[:, lane] = codes
        operands.append(operand)
    return operands[0], operands[1]


def mixed_bf16(seed: int, n: int, lanes: int) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """About `n` vectors of bfloat16 operands, equally many of each corner class, shuffled."""
    rng = np.random.default_rng(seed)
    share = -(-n // 7)
    shape = (2, share, lanes)

    def with_exponents(low: int, high: int) -> NDArray[np.uint16]:
        """Numbers of any sign and mantissa with exponent fields in a range, `high` excluded."""
        fields = rng.integers(low, high, shape, np.uint16) << np.uint16(7)
        return fields | (rng.integers(0, 1 << 16, shape, np.uint16) & np.uint16(0x807F))

    anything = rng.integers(0, 1 << 16, shape, np.uint16)
    special = rng.choice(
        np.array([0, 1, 0x7F, 0x80, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0], np.uint16), shape
    ) | (anything & np.uint16(0x8000))
    cancelling = with_exponents(110, 140)
    for left in range(0, lanes - 1, 2):
        cancelling[:, :, left + 1] = cancelling[:, :, left]
        nudge = rng.integers(0, 2, share, np.uint16)
        cancelling[1, :, left + 1] ^= np.uint16(0x8000) | nudge
    subnormal_products = with_exponents(0, 128)
    subnormal_products[1] = with_exponents(0, 40)[1]
    classes = [
        anything,
        with_exponents(118, 136),
        with_exponents(0, 2),
        with_exponents(180, 200),
        np.where(rng.random(shape) < 0.3, special, with_exponents(100, 150)),
        cancelling,
        subnormal_products,
    ]
    a, w = np.concatenate(classes, axis=1)[:, rng.permutation(share * len(classes))]
    return a, w


Rows = tuple[Codes, Codes, NDArray[np.int64], NDArray[np.int64]]
"""Operands a and w, clock enable and reset, one row a cycle."""


def without_stalls(a: Codes, w: Codes, *, flush: int) -> Rows:
    """A new operand vector every cycle, then `flush` enabled cycles and a stalled one."""
    tail = np.zeros((flush + 1, a.shape[1]), np.uint8)
    en = np.ones(len(a) + flush + 1, np.int64)
    en[-1] = 0
    return np.concatenate([a, tail]), np.concatenate([w, tail]), en, np.zeros_like(en)


def stalls(
    seed: int, n: int, *, flush: int, resets: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A random clock enable and resets in mid-flight for `n` cycles, and what ends them.

    Returns
    -------
    en, rst
        One row a cycle; after `n` rows come `flush` enabled cycles and a stalled one.
    """
    rng = np.random.default_rng(seed)
    en = np.ones(n + flush + 1, np.int64)
    en[-1] = 0
    en[:n] = rng.random(n) < np.repeat(rng.choice([0.2, 0.8, 1.0], n // 64 + 1), 64)[:n]
    rst = np.zeros_like(en)
    if resets:
        rst[rng.choice(np.arange(8, n - 8), resets, replace=False)] = 1
    return en, rst


def with_stalls(seed: int, a: Codes, w: Codes, *, flush: int, resets: int = 0) -> Rows:
    """Spread operand vectors over cycles with a random clock enable and resets in mid-flight.

    Operands change in stalled cycles too: what is on the bus while `en` is low must not matter.

    Returns
    -------
    a, w, en, rst
        One row a cycle; it ends with `flush` enabled cycles and a stalled one.
    """
    a, w, _, _ = without_stalls(a, w, flush=flush)
    return a, w, *stalls(seed, len(a) - flush - 1, flush=flush, resets=resets)
