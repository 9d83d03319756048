"""The binary32 multiplier against NumPy, which is held to exact integers first."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.accumulate import canonical
from mxsafe.rtl.arithmetic.float32_multiplier import MOST_MULTIPLY_STAGES, Float32Multiplier
from verif.support.checkers import assert_equal
from verif.support.farm import farm_of, run_farm
from verif.support.generated import generated
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available
from verif.support.wrappers import in_parallel

Words = NDArray[np.uint32]
Pair = tuple[Words, Words]

SIGN = np.uint32(1 << 31)
INFINITY, NAN = 0x7F800000, 0x7FC00000
COPIES = 8
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
    """Odd significands of as many bits as make a product of 25 bits: ties and their neighbours."""
    a, b = _exponents(rng, n, low, high)
    lengths = rng.integers(1, 25, n)
    others = np.clip(25 - lengths + rng.integers(-1, 2, n), 1, 24)
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
    "specials": _special,
}


def _drawn(seed: int, share: int) -> Pair:
    rng = np.random.default_rng(seed)
    pairs = [draw(rng, share) for draw in CLASSES.values()]
    # The order of operands must not matter, and they are not the same in all classes.
    flip = rng.random(share * len(pairs)) < 0.5
    a, b = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    return np.where(flip, a, b), np.where(flip, b, a)


def _expected(a: Words, b: Words) -> Words:
    with np.errstate(all="ignore"):
        return canonical(a.view(np.float32) * b.view(np.float32)).view(np.uint32)


def _exact(a: int, b: int) -> int:
    """The same by integers: significands multiplied, cut with the rest in mind, packed."""
    sign = (a ^ b) & 1 << 31
    fields, fractions = zip(*((word >> 23 & 255, word & 0x7FFFFF) for word in (a, b)), strict=True)
    nan = any(f == 255 and m for f, m in zip(fields, fractions, strict=True))
    zero = any(f == 0 and m == 0 for f, m in zip(fields, fractions, strict=True))
    if nan or (zero and 255 in fields):
        return NAN
    if zero or 255 in fields:
        return sign | (0 if zero else INFINITY)
    product, exponent = 1, -2 * 149  # of the product's lowest bit
    for field, fraction in zip(fields, fractions, strict=True):
        product *= fraction | (field > 0) << 23
        exponent += max(field, 1) - 1
    # The result is a multiple of 2^quantum, below 2^24 of them before rounding.
    quantum = max(exponent + product.bit_length() - 24, -149)
    if quantum < exponent:
        product, exponent = product << exponent - quantum, quantum
    whole, rest = divmod(product, 1 << quantum - exponent)
    double, unit = 2 * rest, 1 << quantum - exponent
    whole += double > unit or (double == unit and whole & 1)
    # A hidden bit is one more in the exponent field, and so is a carry out of the significand.
    packed = (quantum + 149 << 23) + whole
    return sign | min(packed, INFINITY)


def test_numpy_multiplies_as_integers_do() -> None:
    a, b = _drawn(30, 1_000)
    exact = np.array([_exact(int(x), int(y)) for x, y in zip(a, b, strict=True)], np.uint32)
    assert_equal("float32 products", _expected(a, b), exact, a=a, b=b)


@pytest.mark.parametrize("least", [100_000, pytest.param(4_000_000, marks=pytest.mark.full)])
def test_products_equal_numpy(least: int, tmp_path: Path, tally: Tally) -> None:
    simulator = available("verilator")
    farm = in_parallel(generated(Float32Multiplier(), tmp_path, in_one_run=True), COPIES)
    share = -(-least // len(CLASSES) // COPIES) * COPIES
    operands = dict(zip("ab", _drawn(31, share), strict=True))
    log = run_lockstep(
        simulator,
        farm,
        {name: words.view(np.uint8).reshape(-1, 4 * COPIES) for name, words in operands.items()},
    )
    a, b, got = (log[name].reshape(-1).view(np.uint32) for name in ("a", "b", "product"))
    expected = _expected(a, b)
    compared = assert_equal("float32_multiplier", got, expected, a=a, b=b)
    assert compared >= least
    for kind in (0, 1, 0x800000, INFINITY, NAN):
        assert (expected & ~SIGN == kind).sum() > 50, f"{kind:#x} is rare"
    tally(simulator, "float32_multiplier", compared)


def test_products_on_icarus(tmp_path: Path, tally: Tally) -> None:
    """With every number of registers, and an enable that comes and goes."""
    simulator = available("icarus")
    stages = range(MOST_MULTIPLY_STAGES + 1)
    units = {f"{count} registers": Float32Multiplier(pipeline=count) for count in stages}
    farm = farm_of(tmp_path, "multipliers", units)
    a, b = _drawn(32, 60)
    rng = np.random.default_rng(33)
    en = (rng.random(a.size) < 0.8).astype(np.int64)
    en[: MOST_MULTIPLY_STAGES + 1] = 1
    inputs = {
        f"{key}.{name}": words.view(np.uint8).reshape(-1, 4)
        for key in units
        for name, words in (("a", a), ("b", b))
    }
    logs = run_farm(simulator, farm, inputs, en, np.zeros_like(en), unsettled=MOST_MULTIPLY_STAGES)
    for key, log in logs.items():
        module = farm.modules[key]
        got = log["product"].reshape(-1).view(np.uint32)
        # Registers hold what came in so many enabled clocks ago.
        taken = np.flatnonzero(en) if module.latency else np.arange(a.size)
        before = np.searchsorted(taken, np.arange(a.size)) - module.latency
        here = np.flatnonzero(before >= 0)
        source = taken[before[here]] if module.latency else here
        compared = assert_equal(key, got[here], _expected(a, b)[source], a=a[source], b=b[source])
        tally(simulator, "float32_multiplier", compared)


@pytest.mark.parametrize("pipeline", [-1, 5, 1.5])
def test_registers_that_there_are_not(pipeline: object) -> None:
    with pytest.raises(ValueError) as error:
        Float32Multiplier(pipeline=pipeline)
    assert str(error.value) == f"pipeline must be an integer from 0 to 4, not {pipeline!r}"


@pytest.mark.parametrize("pipeline", [0, MOST_MULTIPLY_STAGES])
def test_lint(pipeline: int, tmp_path: Path) -> None:
    available("verilator")
    module = generated(Float32Multiplier(pipeline=pipeline), tmp_path, in_one_run=True)
    assert lint(module) == ""


def test_names() -> None:
    assert Float32Multiplier().module_name == "float32_multiplier"
    assert Float32Multiplier(pipeline=2, reset=True).module_name == (
        "float32_multiplier_pipeline2_reset"
    )
    assert Float32Multiplier(reset=True).config == Float32Multiplier().config
