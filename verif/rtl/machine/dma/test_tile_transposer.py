"""Tiles of codes in a strip: random words with pauses on both sides, against the layout."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mxsafe.machine.configuration import MachineConfiguration
from mxsafe.machine.layout import transposed_codes
from mxsafe.rtl.machine.dma.tile_transposer import TileTransposer
from verif.support.checkers import assert_equal
from verif.support.manifest import Module, Words
from verif.support.simulators import run_lockstep
from verif.support.tests import raises
from verif.support.units import generated


def _run(
    simulator: str, module: Module, valid: NDArray[np.int64], ready: NDArray[np.int64]
) -> tuple[Words, Words, NDArray[np.bool_]]:
    """Words that went in, words that came out, and cycles in which one came out."""
    rng = np.random.default_rng(3)
    ports = module.ports
    size = ports["s_payload"].width // 8
    # A beat that is not taken may change here: what is taken counts.
    stimulus = {
        "s_payload": rng.integers(0, 256, (len(valid), size)).astype(np.uint8),
        "s_valid": valid,
        "m_ready": ready,
        "rst": 0,
    }
    if "alone" in ports:
        stimulus["alone"] = stimulus["rst"]
    log = run_lockstep(simulator, module, stimulus, unsettled=len(valid))
    taken = (log["s_valid"] & log["s_ready"])[:, 0].astype(bool)
    left = (log["m_valid"] & log["m_ready"])[:, 0].astype(bool)
    return log["s_payload"][taken], log["m_payload"][left], left


@pytest.mark.parametrize("rows", [8, 16])
def test_random_words(simulator: str, rows: int) -> None:
    module = generated(TileTransposer(rows=rows))
    rng = np.random.default_rng(rows)
    # Each side pauses often, seldom, or not at all.
    density = np.repeat(rng.choice([0.1, 0.5, 1.0], (2, 40)), 25, axis=1)
    valid, ready = (rng.random(density.shape) < density).astype(np.int64)
    entered, left, _ = _run(simulator, module, valid, ready)
    groups = len(left) // 4
    assert groups > 40
    assert len(entered) - len(left) in range(5)
    configuration = MachineConfiguration(rows=rows)
    words = entered[: 4 * groups].reshape(groups, 4, -1)
    right = transposed_codes(words, configuration).reshape(4 * groups, -1)
    assert_equal("words", left[: 4 * groups], right, word=np.arange(4 * groups))


def test_a_word_a_clock() -> None:
    """With 16 rows nothing pauses once the first words have come."""
    module = generated(TileTransposer())
    ones = np.ones(100, np.int64)
    _, _, left = _run("icarus", module, ones, ones)
    assert left.tolist() == [False] * module.latency + [True] * (100 - module.latency)


def test_other_rows_cannot_work() -> None:
    with raises(ValueError, "rows must be 8 or 16, not 12"):
        TileTransposer(rows=12)
