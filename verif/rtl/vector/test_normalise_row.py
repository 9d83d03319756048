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
from verif.support.manifest import Module
from verif.support.published import published
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available


@pytest.mark.parametrize(("rows", "span"), [(1, 8), (3, 1)])
def test_means_and_deviations(rows: int, span: int, tmp_path: Path, tally: Tally) -> None:
    module = generated(NormaliseRow(rows=rows, span=span, depth=4), tmp_path)
    assert lint(module) == ""
    tally("icarus", "means and deviations of rows", _check(module, [3, 3, 3, 3]))


@pytest.mark.parametrize("name", published(NormaliseRow))
def test_published_ones(name: str, tally: Tally) -> None:
    """Rows of two beats, of half the most and one more, and of the most beats."""
    module = published(NormaliseRow)[name]
    depth = module.parameters["depth"]
    tally("icarus", "means and deviations of rows", _check(module, [2, depth // 2 + 1, depth]))


def _check(module: Module, lengths: list[int]) -> int:
    """A pass of values, if there is a mean, and one of squares for each row, without an epsilon."""
    p, ports, rng = module.parameters, module.ports, np.random.default_rng(9)
    rows, span, pause = p["rows"], p["span"], module.latency + 1
    kinds = 2 if p["centre"] else 1
    beats = np.repeat(lengths, kinds)
    squares = np.arange(len(beats)) % kinds == kinds - 1
    starts = 1 + np.cumsum(beats + pause) - (beats + pause)
    clocks = int(beats.sum()) + len(beats) * pause + 1
    widths = [width for _, _, width in ports["addends"].fields]
    bits = np.where(squares, widths[0], 27 + span.bit_length() - 1)
    addends, adds = np.zeros((clocks, rows), np.int64), np.zeros(clocks, np.bool_)
    for start, length, most in zip(starts, beats, bits, strict=True):
        few = rng.integers(most // 2, most + 1)
        addends[start : start + length] = rng.integers(0, 1 << few, (length, rows))
        adds[start : start + length] = True
    largest = rng.integers(1, 255, rows)
    ends = starts + beats + pause - 1
    # Addends come as two numbers, if there are several lanes; between them are any.
    words = np.where(adds[:, None], addends, rng.integers(0, 1 << widths[0], (1, rows)))
    if span > 1:
        parts = rng.integers(0, words + 1)
        words = np.stack([parts, words - parts], axis=-1).reshape(clocks, -1)
    pins = {
        "rst": np.arange(clocks) == 0,
        "add": adds,
        "last": np.isin(np.arange(clocks), starts + beats - 1),
        "epsilon": np.zeros(clocks),
        "overlong": np.zeros(clocks),
        "leaves": np.isin(np.arange(clocks), ends[squares]),
        "centred": np.ones(clocks),
    }
    log = run_lockstep(
        available("icarus"),
        module,
        {
            "addends": ports["addends"].join(words),
            "largest": ports["largest"].join(np.tile(largest, (clocks, 1))),
            **{name: ports[name].words(pin) for name, pin in pins.items() if name in ports},
        },
        unsettled=clocks - 1,
    )
    done = np.flatnonzero(log["done"][:, 0])
    assert ((starts + beats <= done) & (done < starts + beats + module.latency)).all()
    sums = np.stack([addends[s : s + n].sum(axis=0) for s, n in zip(starts, beats, strict=True)])
    counts = beats * span
    compared = 0
    if p["centre"]:
        means = ports["mean"].split(log["mean"])[ends[~squares]]
        copies = means.shape[1] // rows
        expected = np.repeat(sums[~squares] // counts[~squares, None], copies, axis=1)
        compared += assert_equal("mean", means, expected)
        none = ports["mean"].split(log["mean"])[starts[~squares]] % (1 << EARLY_BITS)
        compared += assert_equal("mean", none, np.zeros_like(none))
    deviations = np.array(
        [
            [_deviation(int(each), int(count)) for each in row]
            for row, count in zip(sums[squares], counts[squares], strict=True)
        ]
    )
    deviations[..., 1] += p["base_offset"]
    for column, name in enumerate(("reciprocal", "base")):
        got = ports[name].split(log[name])[ends[squares]]
        compared += assert_equal(name, got, deviations[..., column])
    return compared


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
