"""Accumulators against their models, step by step, with stalls, gaps and restarts."""

import numpy as np
import pytest

from mxsafe import model
from mxsafe.model.accumulate import canonical
from mxsafe.model.float_arithmetic import decode_float
from mxsafe.rtl.array.accumulator import BF16Accumulator
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep
from verif.support.units import generated


@pytest.mark.parametrize(
    ("simulator", "n"),
    [
        ("icarus", 4_000),
        ("verilator", 20_000),
        pytest.param("icarus", 8_000, marks=pytest.mark.full),
        pytest.param("verilator", 60_000, marks=pytest.mark.full),
    ],
)
def test_running_sums(simulator: str, n: int, modules: dict[str, Module]) -> None:
    module = modules["fp12_accumulator"]
    ports = module.ports
    rng = np.random.default_rng(12)
    # Scales that make sums meet, underflow, overflow, or be anything, NaN included.
    spread = rng.choice(4, n, p=[0.6, 0.3, 0.09, 0.01])
    scales = [
        np.choose(
            spread,
            [
                rng.integers(120, 134, n),
                rng.integers(40, 70, n),
                rng.integers(185, 200, n),
                rng.integers(0, 256, n),
            ],
        )
        for _ in range(2)
    ]
    columns = {
        "en": rng.random(n) < 0.8,
        "valid": rng.random(n) < 0.8,
        "first": rng.random(n) < 0.2,
        "partial_sum": rng.integers(0, 1 << 12, n),
        "scale_a": scales[0],
        "scale_w": scales[1],
        "rst": rng.random(n) < 0.002,
    }
    log = run_lockstep(simulator, module, columns)
    seen = {name: ports[name].numbers(log[name]) for name in (*columns, "acc")}

    # The model, and the register between scaling and adding.
    acc = np.zeros(1, np.float32)
    held: tuple[bool, np.ndarray, int, int] | None = None
    expected = np.zeros(n, np.uint32)
    values = decode_float(seen["partial_sum"])
    for cycle in range(n):
        expected[cycle] = acc.view(np.uint32)[0]
        if seen["rst"][cycle]:
            acc, held = np.zeros(1, np.float32), None
        elif seen["en"][cycle]:
            if held is not None:
                first, value, scale_a, scale_w = held
                before = np.zeros(1, np.float32) if first else acc
                acc = model.scale_and_accumulate(
                    before, value, np.uint8(scale_a), np.uint8(scale_w)
                )
            held = None
            if seen["valid"][cycle]:
                held = (
                    bool(seen["first"][cycle]),
                    values[cycle : cycle + 1],
                    int(seen["scale_a"][cycle]),
                    int(seen["scale_w"][cycle]),
                )
    assert_equal("acc", seen["acc"], expected.astype(np.int64), cycle=np.arange(n))
    assert len(np.unique(expected)) > n // 8


@pytest.mark.parametrize("first_behind", [False, True])
def test_sums_of_bfloat16_products(simulator: str, first_behind: bool) -> None:
    """Whether a sum starts may be told in front of the adder, or behind it."""
    module = generated(BF16Accumulator(first_behind=first_behind))
    n, rng = {"icarus": 4_000, "verilator": 20_000}[simulator], np.random.default_rng(13)
    usual = (rng.standard_normal(n) * np.exp2(rng.integers(-4, 5, n))).astype(np.float32)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], n).astype(np.float32)
    anything = rng.integers(0, 1 << 32, n, np.uint32).view(np.float32)
    kind = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    # A MAC gives one NaN alone.
    values = canonical(np.choose(kind, [usual, special, anything]).astype(np.float32))
    flags = {name: rng.random(n) < often for name, often in (("en", 0.8), ("valid", 0.8))}
    flags |= {"first": rng.random(n) < 0.2, "rst": rng.random(n) < 0.002}
    log = run_lockstep(simulator, module, {**flags, "partial_sum": values.view(np.uint32)})
    acc, expected = np.zeros(1, np.float32), np.zeros(n, np.uint32)
    with np.errstate(all="ignore"):
        for cycle in range(n):
            expected[cycle] = acc.view(np.uint32)[0]
            if flags["rst"][cycle]:
                acc = np.zeros(1, np.float32)
            elif flags["en"][cycle] and flags["valid"][cycle]:
                before = np.float32(0) if flags["first"][cycle] else acc[0]
                acc = canonical(np.array([before + values[cycle]], np.float32))
    got = module.ports["acc"].numbers(log["acc"]).astype(np.int64)
    assert_equal("acc", got, expected.astype(np.int64), cycle=np.arange(n))
    assert len(np.unique(expected)) > n // 8
