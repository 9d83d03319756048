"""The binary32 adder against NumPy: millions of pairs over corner classes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.model.accumulate import canonical
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.timing import STAGES
from verif.support.checkers import assert_equal
from verif.support.farm import Farm, beside, farm_of, in_parallel, run_farm
from verif.support.manifest import Module
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Volume, raises
from verif.support.units import published

Words = NDArray[np.uint32]
Pair = tuple[Words, Words]

COPIES = 64
"""Of an adder in a simulation on Verilator."""
SPECIAL = np.array(
    [
        0,
        1,
        0x7FFFFF,
        0x800000,
        0x800001,
        0x3F800000,
        0x7F7FFFFF,
        0x7F800000,
        0x7FC00000,
        0x7F800001,
    ],
    np.uint32,
)
SIGN = np.uint32(1 << 31)


def _bits(rng: np.random.Generator, n: int) -> Words:
    return rng.integers(0, 1 << 32, n, np.uint32)


def _with_exponents(rng: np.random.Generator, n: int, low: int, high: int) -> Words:
    exponents = rng.integers(low, high, n, np.uint32) << np.uint32(23)
    return (_bits(rng, n) & np.uint32(0x807FFFFF)) | exponents


def _near(rng: np.random.Generator, n: int) -> Pair:
    """Exponents at most 26 apart: alignment, guard and sticky bits, ties."""
    base = rng.integers(30, 220, n)
    a = _with_exponents(rng, n, 0, 1) | (base << 23).astype(np.uint32)
    b = _with_exponents(rng, n, 0, 1) | (base + rng.integers(-26, 27, n) << 23).astype(np.uint32)
    return a, b


def _few_bits(rng: np.random.Generator, n: int) -> Pair:
    """Significands with a bit or two, so that ties are common."""
    masks = np.uint32(1) << rng.integers(0, 23, (2, n), np.uint32)
    a, b = _near(rng, n)
    keep = np.uint32(0xFF800000)
    return (a & keep) | masks[0], (b & keep) | (masks[1] if n % 2 else masks[1] | 1)


def _cancelling(rng: np.random.Generator, n: int) -> Pair:
    """Opposite numbers a few units apart, now and then across a power of two."""
    a = _with_exponents(rng, n, 0, 255)
    nudge = rng.integers(-4, 5, n)
    return a, ((a ^ SIGN).astype(np.int64) + nudge).astype(np.uint32)


def _partly_cancelling(rng: np.random.Generator, n: int) -> Pair:
    """Opposite numbers with any number of leading bits in common."""
    a = _with_exponents(rng, n, 0, 255)
    nudge = rng.integers(0, 1 << 24, n) >> rng.integers(0, 24, n)
    return a, ((a ^ SIGN).astype(np.int64) + nudge * rng.choice([-1, 1], n)).astype(np.uint32)


CLASSES: dict[str, Callable[[np.random.Generator, int], Pair]] = {
    "any bits": lambda rng, n: (_bits(rng, n), _bits(rng, n)),
    "near": _near,
    "few bits": _few_bits,
    "cancellation": _cancelling,
    "partial cancellation": _partly_cancelling,
    "subnormals": lambda rng, n: (_with_exponents(rng, n, 0, 3), _with_exponents(rng, n, 0, 3)),
    "subnormal sums": lambda rng, n: (
        _with_exponents(rng, n, 0, 26),
        _with_exponents(rng, n, 0, 26),
    ),
    "overflow": lambda rng, n: (
        _with_exponents(rng, n, 252, 256),
        _with_exponents(rng, n, 230, 256),
    ),
    "specials": lambda rng, n: (
        rng.choice(SPECIAL, n) | (_bits(rng, n) & SIGN),
        np.where(
            rng.random(n) < 0.5, rng.choice(SPECIAL, n) | (_bits(rng, n) & SIGN), _bits(rng, n)
        ),
    ),
}


@pytest.mark.parametrize("count", [1_000_000, pytest.param(10_000_000, marks=pytest.mark.full)])
def test_sums_equal_numpy(count: int, modules: dict[str, Module]) -> None:
    farm = in_parallel(modules["float32_adder"], COPIES)
    rng = np.random.default_rng(32)
    share = -(-count // len(CLASSES) // COPIES) * COPIES
    pairs = [draw(rng, share) for draw in CLASSES.values()]
    a = np.concatenate([pair[0] for pair in pairs])
    b = np.concatenate([pair[1] for pair in pairs])
    log = run_lockstep(
        "verilator",
        farm,
        {name: bits.view(np.uint8).reshape(-1, 4 * COPIES) for name, bits in (("a", a), ("b", b))},
    )
    a, b, got = (log[name].reshape(-1).view(np.uint32) for name in ("a", "b", "sum"))
    with np.errstate(all="ignore"):
        expected = canonical(a.view(np.float32) + b.view(np.float32)).view(np.uint32)
    compared = assert_equal("float32_adder", got, expected, a=a, b=b)
    assert compared >= count
    for kind in (0, 0x7F800000, 0x7FC00000):
        assert (expected == kind).sum() > 1_000


def _given(module: Module, values: Words) -> Words:
    """Operands, or other pins, as a module may have them: every NaN is perhaps the one NaN."""
    if not module.parameters.get("one_nan") or values.dtype != np.uint32:
        return values
    return canonical(values.view(np.float32)).view(np.uint32)


def test_sums_on_icarus(tmp_path: Path, volume: Volume) -> None:
    """With every number of registers, side by side."""
    adders = {
        str(pipeline): Float32Adder(pipeline=pipeline, clearable=True)
        for pipeline in range(STAGES["Float32Adder"]["asic"].most + 1)
    }
    most = STAGES["Float32Adder"]["fpga"].most
    adders |= {f"plain, {pipeline}": Float32Adder(pipeline=pipeline) for pipeline in (0, 1)}
    adders |= {
        f"fpga, {pipeline}": Float32Adder(pipeline=pipeline, clearable=True, target="fpga")
        for pipeline in (12, most)
    }
    adders |= {
        f"quick, {pipeline}": Float32Adder(pipeline=pipeline, clearable=True, quick=True)
        for pipeline in (1, STAGES["Float32Adder"]["asic"].most)
    }
    adders["one NaN"] = Float32Adder(pipeline=1, clearable=True, one_nan=True)
    modules = farm_of("adders", adders).modules
    made = {module.name for module in modules.values()}
    modules |= {name: one for name, one in published(Float32Adder).items() if name not in made}
    farm = Farm(beside(tmp_path, "adders", modules), modules)
    assert lint(farm.wrapper) == ""
    rng = np.random.default_rng(33)
    pairs = [draw(rng, volume(150, 500, 250)) for draw in CLASSES.values()]
    flush = np.zeros(most + 1, np.uint32)
    a, b = (np.concatenate([*(pair[side] for pair in pairs), flush]) for side in (0, 1))
    clear = rng.random(a.size) < 0.2
    # Until all registers are known there are no pauses.
    pauses = rng.random((2, a.size * 5 // 4)) < 0.15
    settling = np.ones((2, len(flush)), np.int64)
    # In the second half the last register pauses by itself, and does not see every sum.
    pauses[1, : a.size // 2] = pauses[0, : a.size // 2]
    en, en_last = np.concatenate([settling, (~pauses).astype(np.int64)], axis=1)
    # Operands stay in a pause: those at the pins have the number of cycles enabled before.
    number: NDArray[np.int64] = np.cumsum(en) - en
    row = np.minimum(number, a.size - 1)
    operands = {"a": a[row], "b": b[row], "clear_a": clear[row], "en_last": en_last}
    inputs = {
        f"{key}.{name}": module.ports[name].words(_given(module, values))
        for key, module in farm.modules.items()
        for name, values in operands.items()
        if name in module.ports
    }
    logs = run_farm("icarus", farm, inputs, en, np.zeros_like(en), unsettled=len(flush))
    cleared = np.where(clear, np.uint32(0), a)
    with np.errstate(all="ignore"):
        sums = [
            canonical(first.view(np.float32) + b.view(np.float32)).view(np.uint32)
            for first in (a, cleared)
        ]
    count = a.size - len(flush)
    assert number[-1] >= a.size
    clocks = np.arange(en.size)
    # The last cycle before this one in which the last register took what was before it.
    taken = np.maximum.accumulate(np.where(en_last, clocks, 0))[np.maximum(clocks - 1, 0)]
    for key, module in farm.modules.items():
        carried = {name: logs[key][name].reshape(-1).view(np.uint32) for name in ("a", "b", "sum")}
        assert (carried["a"] == _given(module, a)[row]).all()
        assert (carried["b"] == _given(module, b)[row]).all()
        # The operands whose sum is shown.
        added = number[taken] - (module.latency - 1) if module.latency else number
        shown = (clocks >= module.latency) & (added < count)
        expected, of = sums["clear_a" in module.ports], added[shown]
        assert_equal(module.name, carried["sum"][shown], expected[of], a=a[of], b=b[of])


@pytest.mark.parametrize(
    ("pipeline", "target", "message"),
    [
        (5, "asic", "pipeline must be an integer from 0 to 4, not 5"),
        (24, "fpga", "pipeline must be an integer from 0 to 23, not 24"),
        (1, "chip", "target must be one of asic, fpga, not 'chip'"),
    ],
)
def test_refused(pipeline: int, target: str, message: str) -> None:
    with raises(ValueError, message):
        Float32Adder(pipeline=pipeline, target=target)


def test_quick_is_not_for_fpgas() -> None:
    with pytest.raises(ValueError, match=r"^quick must be False with target fpga, not True$"):
        Float32Adder(quick=True, target="fpga")
