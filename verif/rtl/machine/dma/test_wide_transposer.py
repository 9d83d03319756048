"""Tiles of codes of several bytes: random words with pauses, and the last group alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.machine.configuration import BF16_MACHINE, resized
from mxsafe.machine.layout import transposed_codes
from mxsafe.rtl.machine.dma.wide_transposer import WideTransposer
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_lockstep
from verif.support.tests import refused
from verif.support.units import generated


def _run(
    simulator: str, module: Module, pins: dict[str, NDArray[np.int64]]
) -> tuple[Words, Words, NDArray[np.bool_], NDArray[np.bool_]]:
    """Words that went in and came out, and cycles in which one did."""
    count = len(pins["s_valid"])
    rng = np.random.default_rng(3)
    size = module.ports["s_payload"].width // 8
    stimulus = {
        # A word that is not taken may change here: what is taken counts.
        "s_payload": rng.integers(0, 256, (count, size)).astype(np.uint8),
        "rst": 0,
        **pins,
    }
    log = run_lockstep(simulator, module, stimulus, unsettled=count)
    taken = (log["s_valid"] & log["s_ready"])[:, 0].astype(bool)
    left = (log["m_valid"] & log["m_ready"])[:, 0].astype(bool)
    return log["s_payload"][taken], log["m_payload"][left], taken, left


def _check(entered: Words, left: Words, rows: int) -> int:
    """Whole groups are transposed; return how many."""
    machine = resized(BF16_MACHINE, rows=rows)
    size = 2 * machine.beat_words
    groups = len(left) // size
    words = entered[: size * groups].reshape(groups, size, -1)
    right = transposed_codes(words, machine).reshape(size * groups, -1)
    assert_equal("words", left[: size * groups], right, word=np.arange(size * groups))
    return groups


@pytest.mark.parametrize("rows", [8, 16])
def test_random_words(simulator: str, rows: int) -> None:
    module = generated(WideTransposer(rows=rows))
    rng = np.random.default_rng(rows)
    # Each side pauses often, seldom, or not at all.
    density = np.repeat(rng.choice([0.1, 0.5, 1.0], (2, 60)), 25, axis=1)
    valid, ready = (rng.random(density.shape) < density).astype(np.int64)
    pins = {"s_valid": valid, "m_ready": ready, "alone": 0 * valid}
    entered, left, _, _ = _run(simulator, module, pins)
    assert _check(entered, left, rows) > 30
    assert len(entered) - len(left) in range(16)


def test_a_word_a_clock() -> None:
    """Nothing pauses once the first words have come."""
    module = generated(WideTransposer())
    ones = np.ones(100, np.int64)
    _, _, taken, left = _run(
        "icarus", module, {"s_valid": ones, "m_ready": ones, "alone": 0 * ones}
    )
    assert taken.all()
    assert left.tolist() == [False] * module.latency + [True] * (100 - module.latency)


@pytest.mark.parametrize("rows", [8, 16])
def test_the_last_group_leaves_alone(simulator: str, rows: int) -> None:
    """No word enters before it has left."""
    module = generated(WideTransposer(rows=rows))
    rng = np.random.default_rng(5)
    valid, ready = (rng.random((2, 2000)) < 0.7).astype(np.int64)
    pins = {"s_valid": valid, "m_ready": ready, "alone": 1 + 0 * valid}
    entered, left, taken, leaves = _run(simulator, module, pins)
    assert _check(entered, left, rows) > 50
    inside = np.cumsum(taken) - np.cumsum(leaves)
    before = np.cumsum(leaves) - leaves
    size = module.latency
    assert (inside[taken] <= size).all()
    # What enters is of the group behind all that have left whole.
    assert ((np.cumsum(taken) - 1)[taken] // size == before[taken] // size).all()


test_configurations_that_cannot_work = refused(
    WideTransposer,
    [
        ({"rows": 12}, "rows must be 8 or 16, not 12"),
        ({"code_bytes": 1}, "code_bytes must be 2 or 4, not 1"),
    ],
)
