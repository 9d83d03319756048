"""Checks of a float32 multiplier: operands of all kinds, and NumPy's answer to them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mxsafe.model.accumulate import canonical
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep

Words = NDArray[np.uint32]
Pair = tuple[Words, Words]

SIGN = np.uint32(1 << 31)
INFINITY, NAN = 0x7F800000, 0x7FC00000
SPECIAL = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x7F7FFFFF, INFINITY, NAN, 0x7F800001],
    np.uint32,
)


def _bits(rng: np.random.Generator, n: int) -> Words:
    return rng.integers(0, 1 << 32, n, np.uint32)


def _with_exponents(rng: np.random.Generator, exponents: NDArray[np.int64]) -> Words:
    fields = np.clip(exponents, 0, 255).astype(np.uint32) << np.uint32(23)
    return (_bits(rng, exponents.size) & np.uint32(0x807FFFFF)) | fields


def _exponents(rng: np.random.Generator, n: int, low: int, high: int) -> Pair:
    """Numbers whose exponent fields have a sum from `low` to just below `high`."""
    first = rng.integers(0, 256, n)
    total = rng.integers(low, high, n)
    return _with_exponents(rng, first), _with_exponents(rng, total - first)


def _short(rng: np.random.Generator, n: int, low: int, high: int) -> Pair:
    """Odd significands of as many bits as make a short product: ties and their neighbours.

    Of normal results the ties have 25 bits, of subnormal ones fewer.
    """
    a, b = _exponents(rng, n, low, high)
    whole = np.where(rng.random(n) < 0.5, 25, rng.integers(2, 26, n))
    lengths = rng.integers(1, whole)
    others = np.clip(whole - lengths + rng.integers(-1, 2, n), 1, 24)
    cut = []
    for words, length in ((a, lengths), (b, others)):
        lowest = np.uint32(1) << (24 - length).astype(np.uint32)
        cut.append((words & ~(lowest - np.uint32(1))) | np.where(length > 1, lowest, 0))
    return cut[0].astype(np.uint32), cut[1].astype(np.uint32)


def _full(rng: np.random.Generator, n: int, low: int, high: int) -> Pair:
    """Significands near both ends, so that rounding carries into the next binade."""
    a, b = _exponents(rng, n, low, high)
    keep = np.uint32(0xFF800000)
    ends = rng.integers(0, 4, (2, n), np.uint32) * rng.choice(np.array([1, 1 << 21], np.uint32), n)
    ones = rng.integers(0, 2, (2, n), np.uint32) * np.uint32(0x7FFFFF)
    return (a & keep) | (ends[0] ^ ones[0]), (b & keep) | (ends[1] ^ ones[1])


def _halves(rng: np.random.Generator, n: int) -> Pair:
    """Powers of two that cut a significand in the middle of its last bit, with a lone bit below.

    What is left is subnormal, and half of it even; without the lone bit it is a tie.
    """
    cut = rng.integers(1, 25, n)
    kept = rng.integers(0, 1 << 24, n) >> cut
    kept -= (kept & 1) * (rng.random(n) < 0.5)
    lone = 1 << (rng.random(n) * (cut - 1)).astype(np.int64)
    lone *= (cut > 1) & (rng.random(n) < 0.8)
    significand = kept << cut | 1 << cut - 1 | lone | 1 << 23
    power = rng.integers(1, 128 - cut)  # field of the power of two
    words = 128 - cut - power << 23 | significand & 0x7FFFFF
    signs = _bits(rng, n) & SIGN
    return power.astype(np.uint32) << np.uint32(23), words.astype(np.uint32) | signs


def _beside_ties(rng: np.random.Generator, n: int) -> Pair:
    """Significands of any length whose product is a tie, or has a lone bit more or less than one.

    Then each bit of a partial product decides how it is rounded. Where `a` has zeros at its end,
    ``odd`` is the rest of it, and `b` follows from its inverse.
    """
    zeros = rng.integers(1, 22, n) * (rng.random(n) < 0.5)
    odd = ((1 << 23 | rng.integers(0, 1 << 23, n)) >> zeros | 1).astype(np.uint64)
    inverse = odd
    for _ in range(5):  # each step has twice as many bits right
        inverse = inverse * (np.uint64(2) - odd * inverse)
    # Half of them are the least that there are with odd `b`: no bit of a partial product is less.
    more = rng.random(n) * (23 - zeros) * (rng.random(n) < 0.5)
    lone = 1 << zeros + more.astype(np.int64)
    lone *= rng.choice([-1, 0, 0, 1], n)
    chosen = np.zeros(n, np.int64)
    for cut in (23, 24):  # bits that rounding takes away
        rest = ((1 << cut - 1) + lone >> zeros).astype(np.uint64) * inverse
        below = (1 << np.minimum(cut - zeros, 23)) - 1
        b = 1 << 23 | rng.integers(0, 1 << 23, n) & ~below | rest.astype(np.int64) & below
        long = (odd.astype(np.int64) << zeros) * b >= 1 << 47
        chosen = np.where((cut == 24) & long | (cut == 23), b, chosen)
    a, b_words = _exponents(rng, n, MOST, 380)
    keep = np.uint32(0xFF800000)
    significands = ((odd.astype(np.int64) << zeros), chosen)
    first, second = (s.astype(np.uint32) & np.uint32(0x7FFFFF) for s in significands)
    return a & keep | first, b_words & keep | second


def _special(rng: np.random.Generator, n: int) -> Pair:
    a, b = (rng.choice(SPECIAL, n) | (_bits(rng, n) & SIGN) for _ in range(2))
    return a, np.where(rng.random(n) < 0.5, b, _bits(rng, n))


LEAST, MOST = 127 - 30, 127 + 2  # sums of exponent fields with subnormal results
CLASSES: dict[str, Callable[[np.random.Generator, int], Pair]] = {
    "any bits": lambda rng, n: (_bits(rng, n), _bits(rng, n)),
    "normal results": lambda rng, n: _exponents(rng, n, MOST, 380),
    "ties": lambda rng, n: _short(rng, n, MOST, 380),
    "subnormal results": lambda rng, n: _exponents(rng, n, LEAST, MOST),
    "subnormal results, ties": lambda rng, n: _short(rng, n, LEAST, MOST),
    "subnormal operands": lambda rng, n: (
        _with_exponents(rng, np.zeros(n, np.int64)) >> rng.integers(0, 2, n).astype(np.uint32) * 12,
        _with_exponents(rng, rng.integers(0, 256, n)),
    ),
    "few leading bits": lambda rng, n: (
        (np.uint32(1) << rng.integers(0, 23, n, np.uint32)) | (_bits(rng, n) & SIGN),
        _with_exponents(rng, rng.integers(90, 256, n)),
    ),
    "overflow": lambda rng, n: _exponents(rng, n, 378, 384),
    "carries": lambda rng, n: _full(rng, n, LEAST, 384),
    "carries at the ends": lambda rng, n: _full(
        rng, n, *((126, 130) if rng.random() < 0.5 else (379, 383))
    ),
    "halves of subnormals": _halves,
    "specials": _special,
    "beside ties": _beside_ties,
}


def random_pairs(seed: int, share: int) -> Pair:
    """Operands, `share` of each class."""
    rng = np.random.default_rng(seed)
    pairs = [draw(rng, share) for draw in CLASSES.values()]
    # The order of operands must not matter, and they are not the same in all classes.
    flip = rng.random(share * len(pairs)) < 0.5
    a, b = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return np.where(flip, a, b), np.where(flip, b, a)


def expected_products(a: Words, b: Words) -> Words:
    """Words of the products, by NumPy."""
    with np.errstate(all="ignore"):
        return canonical(a.view(np.float32) * b.view(np.float32)).view(np.uint32)


def check_products(
    simulator: str,
    module: Module,
    seed: int,
    share: int,
) -> Words:
    """Products of `share` pairs of each class are NumPy's; returns those.

    The module has no registers, and as many multipliers side by side as fit its ports.
    """
    operands = dict(zip("ab", random_pairs(seed, share), strict=True))
    row = module.ports["a"].width // 8
    log = run_lockstep(
        simulator,
        module,
        {name: words.view(np.uint8).reshape(-1, row) for name, words in operands.items()},
    )
    a, b, got = (log[name].reshape(-1).view(np.uint32) for name in ("a", "b", "product"))
    expected = expected_products(a, b)
    assert_equal(module.name, got, expected, a=a, b=b)
    return expected
