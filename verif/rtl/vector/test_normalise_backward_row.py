"""Factors of a row: in the order of their sums, held until they leave, with any pauses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.rtl.vector.normalise_backward_row import NormaliseBackwardRow
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally
from verif.support.units import generated

CLOCKS = 4000
UNKNOWN = 50
"""Cycles at the start in which factors may not have been there yet."""


@pytest.mark.parametrize("centre", [True, False])
def test_factors(centre: bool, simulator: str, tmp_path: Path, tally: Tally) -> None:
    """Sums come often and factors leave seldom, or the other way round; resets at any moment."""
    module = generated(NormaliseBackwardRow(centre=centre), tmp_path)
    assert lint(module) == ""
    rng = np.random.default_rng(1)
    names = [n for n in ("products", "totals", "reciprocal", "share") if n in module.ports]
    numbers: dict[str, NDArray[Any]] = {
        name: (rng.uniform(1, 2, CLOCKS) * 2.0 ** rng.integers(-9, 9, CLOCKS)).astype(np.float32)
        * rng.choice(np.array([-1, 1], np.float32), CLOCKS)
        for name in names
    }
    # Pauses of either side that are longer than all steps together, now and then.
    slow = np.repeat(rng.random((2, CLOCKS // 50)) < 0.4, 50, axis=1)
    slow[:, :UNKNOWN] = False
    has_sums = rng.random(CLOCKS) < np.where(slow[0], 0.03, 0.9)
    leaves = rng.random(CLOCKS) < np.where(slow[1], 0.03, 0.9)
    rst = rng.random(CLOCKS) < 0.004
    rst[:UNKNOWN] = np.arange(UNKNOWN) < 2
    # The share stays while rows are on the way: it may be another one after a reset.
    numbers["share"] = numbers["share"][np.cumsum(rst)]
    flags = {"has_sums": has_sums, "leaves": leaves, "rst": rst}
    log = run_lockstep(simulator, module, flags | numbers, unsettled=UNKNOWN)
    outputs = [name for name in ("slope", "mean", "deviation") if name in module.ports]
    got = {name: module.ports[name].numbers(log[name]) for name in outputs}
    taken, valid = (module.ports[name].numbers(log[name]) for name in ("sums_taken", "valid"))

    waiting: list[int] = []
    rows, origins, prompt = [], [], 0
    for clock in range(1, CLOCKS):
        if valid[clock]:
            # They are there for as long as they have not left.
            assert waiting, f"factors of no sums in cycle {clock}"
            if clock >= UNKNOWN:
                rows.append(clock)
                origins.append(waiting[0])
            prompt += clock - waiting[0] == module.latency
        if rst[clock]:
            waiting = []
            continue
        if valid[clock] and leaves[clock]:
            waiting.pop(0)
        elif clock > 1 and valid[clock - 1] and not leaves[clock - 1] and not rst[clock - 1]:
            assert valid[clock], f"factors went away in cycle {clock}"
        if has_sums[clock] and taken[clock]:
            waiting.append(clock)
            # Those that are held, and those that are computed.
            assert len(waiting) <= 2
    assert prompt > 0
    at = np.array(origins)
    share, factor = numbers["share"][at], numbers["reciprocal"][at]
    expected = {"slope": numbers["products"][at] * share * factor * factor, "deviation": factor}
    if centre:
        expected["mean"] = numbers["totals"][at] * share
    compared = sum(
        assert_equal(name, got[name][rows], expected[name].view(np.uint32).astype(np.int64))
        for name in outputs
    )
    assert len(np.unique(at)) > 100
    tally(simulator, "factors of rows", compared)
