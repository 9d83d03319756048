"""The FP12 accumulator against the model, step by step, with stalls, gaps and restarts."""

import numpy as np
import pytest

from mxsafe import model
from mxsafe.model.float_arithmetic import decode_float
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep


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
