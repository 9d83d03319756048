"""Means and reciprocal deviations of sums, against exact integers; rows side by side."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from mxsafe.rtl.vector.normalise_lane import EARLY_BITS
from mxsafe.rtl.vector.normalise_row import NormaliseRow
from verif.support.checkers import assert_equal
from verif.support.generated import generated
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available


@pytest.mark.parametrize(("rows", "span"), [(1, 8), (3, 1)])
def test_means_and_deviations(rows: int, span: int, tmp_path: Path, tally: Tally) -> None:
    """A pass of values and a pass of squares in turn, three beats each, without an epsilon."""
    unit = NormaliseRow(rows=rows, span=span, depth=4)
    module = generated(unit, tmp_path)
    assert lint(module) == ""
    ports, rng = module.ports, np.random.default_rng(9)
    beats, passes, pause = 3, 8, unit.latency + 1
    clocks = passes * (beats + pause) + 1
    bits = 27 + span.bit_length() - 1, unit.config.addend_bits
    addends = np.zeros((clocks, rows), np.int64)
    starts = 1 + np.arange(passes) * (beats + pause)
    for number, start in enumerate(starts):
        few = rng.integers(bits[number % 2] // 2, bits[number % 2] + 1)
        addends[start : start + beats] = rng.integers(0, 1 << few, (beats, rows))
    adds = np.isin(np.arange(clocks), starts[:, None] + np.arange(beats))
    largest = rng.integers(1, 255, rows)
    ends = starts + beats + pause - 1
    # Addends come as two numbers, if there are several lanes; between them are any.
    words = np.where(adds[:, None], addends, rng.integers(0, 1 << bits[1], addends.shape))
    if span > 1:
        parts = rng.integers(0, words + 1)
        words = np.stack([parts, words - parts], axis=-1).reshape(clocks, -1)
    log = run_lockstep(
        available("icarus"),
        module,
        {
            "rst": ports["rst"].words(np.arange(clocks) == 0),
            "add": ports["add"].words(adds),
            "last": ports["last"].words(np.isin(np.arange(clocks), starts + beats - 1)),
            "addends": ports["addends"].join(words),
            "largest": ports["largest"].join(np.tile(largest, (clocks, 1))),
            "epsilon": ports["epsilon"].words(np.zeros(clocks)),
            "overlong": ports["overlong"].words(np.zeros(clocks)),
            "leaves": ports["leaves"].words(np.isin(np.arange(clocks), ends[1::2])),
        },
        unsettled=clocks - 1,
    )
    sums = np.stack([addends[start : start + beats].sum(axis=0) for start in starts])
    means = ports["mean"].split(log["mean"])[ends[::2]]
    count = beats * span
    expected = np.repeat(sums[::2] // count, unit.config.copies, axis=1)
    tally("icarus", "means of rows", assert_equal("mean", means, expected))
    none = ports["mean"].split(log["mean"])[starts[::2]] % (1 << EARLY_BITS)
    tally("icarus", "means before there is one", assert_equal("mean", none, np.zeros_like(none)))
    expected = np.array([[_deviation(int(each), count) for each in row] for row in sums[1::2]])
    for column, name in enumerate(("reciprocal", "base")):
        got = ports[name].split(log[name])[ends[1::2]]
        tally("icarus", "deviations of rows", assert_equal(name, got, expected[..., column]))


def _deviation(total: int, count: int) -> tuple[int, int]:
    """Significand of a reciprocal deviation, and the exponent of results."""
    steps = next(step for step in range(-40, 40) if total * Fraction(4) ** step >= count << 18)
    variance = math.floor(total * Fraction(4) ** steps / count)
    return min(math.isqrt(((1 << 54) - 1) // variance) + 1, (1 << 18) - 1), 135 + steps


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rows": 0}, "rows must be a positive integer, not 0"),
        ({"span": 3}, "span must be a power of two, not 3"),
        ({"centre": False, "optional": True}, "centre must be set with optional"),
        ({"base_offset": 2}, "base_offset must be an integer from -1 to 1, not 2"),
        ({"depth": -1}, "depth must be a positive integer, not -1"),
    ],
)
def test_configurations_that_cannot_work(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:
        NormaliseRow(**parameters)
    assert str(error.value) == message
