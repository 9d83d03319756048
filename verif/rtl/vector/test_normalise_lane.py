"""A lane of normalisation on its own: values and squares, against exact integers."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.target import TARGETS, Target
from mxsafe.rtl.vector.normalise_lane import EARLY_BITS, NormaliseLane
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.published import published_farm, random_words
from verif.support.simulators import lint, run_lockstep
from verif.support.stall_checks import check_stalls
from verif.support.tests import Tally, available

UNIT = 2.0**-24
"""Of the window, for values below 4."""


@pytest.mark.parametrize("target", TARGETS)
def test_values_and_squares(target: Target, tmp_path: Path, tally: Tally) -> None:
    """Values from -4 to 4 and a mean, every one followed by its square."""
    lane = NormaliseLane(target=target)
    module = generated(lane, tmp_path)
    assert lint(module) == ""
    rng = np.random.default_rng(10)
    rows = 4000
    values = (rng.uniform(-4, 4, rows) * np.exp2(-rng.integers(0, 30, rows))).astype(np.float32)
    means = rng.integers(0, 1 << 27, rows)
    ports = module.ports
    numbers = {
        "en": np.ones(rows),
        "word": values.view(np.uint32).astype(np.int64),
        "largest": np.full(rows, 128),
        "mean": means % (1 << EARLY_BITS) | np.roll(means >> EARLY_BITS << EARLY_BITS, 1),
        "squares": np.ones(rows),
    }
    stimulus = {
        port.name: port.words(np.asarray(numbers.get(port.name, np.zeros(rows))).astype(np.int64))
        for port in ports.values()
        if port.direction == "input" and port.name != "clk"
    }
    log = run_lockstep(available("icarus"), module, stimulus, unsettled=lane.latency)
    steps = np.floor(np.abs(values.astype(np.float64)) / UNIT).astype(np.int64)
    placed = np.where(values < 0, ~steps, steps) + (1 << 26)
    # Without the lower bits of the mean, which are there first; the others follow a clock later.
    low = placed - means % (1 << EARLY_BITS)
    got = ports["value"].numbers(log["value"])[1:] % (1 << EARLY_BITS)
    expected = low[:-1] % (1 << EARLY_BITS)
    tally("icarus", "values", assert_equal("value", got, expected, value=values[:-1]))
    placed -= means
    distance = np.where(placed < 0, ~placed, placed)
    late = lane.config.square_latency
    squares = ports["square"].numbers(log["square"])[late:]
    exact = ((distance + 0.5) * (placed != 0)) ** 2 * 2.0 ** (38 - 54)
    error = np.abs(squares - exact[:-late])
    assert (error <= 1 + exact[:-late] * 2.0**-15).all()
    tally("icarus", "squares", len(squares))


def test_clocks_without_enable_change_nothing(tmp_path: Path, tally: Tally) -> None:
    """Of all published lanes side by side, on inputs of any bits."""
    simulator = available("icarus")
    farm = published_farm(tmp_path, "normalise_lanes", NormaliseLane)
    width = farm.wrapper.ports["inputs"].width
    given = {"inputs": random_words(np.random.default_rng(11), width, 400)}
    compared, log = check_stalls(simulator, farm.wrapper, given)
    assert len(np.unique(log["outputs"], axis=0)) > 200
    tally(simulator, "normalise lanes, bytes with stalls", compared)
