"""Addresses of rows: each is the one before plus 1, or a stride from where its row began."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.accelerator.row_walk import RowWalk
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally


@pytest.mark.parametrize("later", [False, True])
def test_addresses(simulator: str, later: bool, tmp_path: Path, tally: Tally) -> None:
    """Random walks, most of which leave the buffer, some of them all bits of an address."""
    module = generated(RowWalk(depth=200, address_bits=9, stride_bits=8, later=later), tmp_path)
    assert lint(module) == ""
    count = 2000
    rng = np.random.default_rng(1)
    inputs = {
        "start": (rng.random(count) < 0.05) | (np.arange(count) == 0),
        "origin": np.where(rng.random(count) < 0.8, rng.integers(0, 200, count), 511),
        "stride": rng.integers(0, 256, count),
        "step": rng.random(count) < 0.7,
        "ends_row": rng.random(count) < 0.3,
        "rst": np.zeros(count),
    }
    words = {name: module.ports[name].words(v.astype(np.int64)) for name, v in inputs.items()}
    log = run_lockstep(simulator, module, words, unsettled=1)
    row = here = 0
    expected = []
    for number in range(count):
        expected.append(here)
        if inputs["start"][number]:
            row = here = int(inputs["origin"][number])
        elif inputs["step"][number]:
            ends = inputs["ends_row"][number]
            here = row + int(inputs["stride"][number]) if ends else here + 1
            row = here if ends else row
    address = np.array(expected[1:])
    outside = module.ports["outside"].numbers(log["outside"])[1 + later :]
    assert_equal("outside", outside, (address >= 200).astype(np.int64)[: len(outside)])
    inside = address < 200
    assert 0 < inside.sum() < len(inside)
    got = module.ports["address"].numbers(log["address"])[1:]
    tally(simulator, "addresses", assert_equal("address", got[inside], address[inside]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth must be a positive integer, not 0"),
        ({"stride_bits": 15}, "stride_bits must be at most address_bits 14, not 15"),
        ({"depth": 20_000}, "depth must be at most 16384 with addresses of 14 bits, not 20000"),
    ],
)
def test_configurations_that_cannot_work(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        RowWalk(**options)
