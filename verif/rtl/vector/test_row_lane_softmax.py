"""A lane of softmax on its own: powers of differences, and the cycles they take."""

import numpy as np
import pytest

from mxsafe.rtl.timing import TARGETS, Target
from mxsafe.rtl.vector.row_lane import RowLane
from mxsafe.tables import GRADES, Grade
from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated

OTHERS = ("word", "largest", "centred", "mean", "squares", "reciprocal", "base", "constant")
"""Inputs for norms."""


def _lane(target: Target, grade: Grade, norms: bool) -> tuple[RowLane, Module, dict[str, int]]:
    """A lane for softmax, perhaps for norms too, and what its other inputs get."""
    lane = RowLane(target=target, grade=grade, norms=norms, optional=norms)
    others = dict.fromkeys((*OTHERS, "not_finite"), 0) | {"is_softmax": 1} if norms else {}
    return lane, generated(lane), others


@pytest.mark.parametrize("norms", [False, True], ids=["softmax alone", "with norms"])
@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_two(target: Target, grade: Grade, norms: bool) -> None:
    """A factor of 1 and a maximum of 0: ``2^x``, as a number and as a term of the sum."""
    lane, module, others = _lane(target, grade, norms)
    widths, latency = lane.config.of_softmax, lane.config.power_latency
    assert lint(module) == ""
    ports = module.ports
    rng = np.random.default_rng(1)
    values = -np.abs(rng.normal(size=1200) * rng.choice([0.1, 3.0, 10.0], 1200)).astype(np.float32)
    values[:64] = -np.arange(64)
    count = len(values)
    rows = count + latency
    keys = (np.append(values, np.zeros(latency, np.float32)).view(np.uint32)).astype(np.int64)
    keys = np.where(keys >> 31, keys ^ 0x7FFFFFFF, keys)
    threshold = int(np.array([-48], np.float32).view(np.uint32)[0]) ^ 0x7FFFFFFF
    invalid = np.arange(rows) % 50 == 7
    constants = {
        "rst": 0,
        "en": 1,
        "threshold": threshold,
        "position": (127 - 254 + widths.window_fraction_bits) % 1024,
        "complement": (1 << widths.window_bits) - 1,  # that of 0
        "offset": (-65 << widths.product_fraction_bits) % (1 << widths.product_bits),
    }
    stimulus = constants | others | {"digits": 0, "key": keys, "invalid": invalid}
    log = run_lockstep("icarus", module, stimulus, unsettled=latency)
    words = ports["power"].numbers(log["power"])[latency:]
    if norms:
        terms = ports["square"].numbers(log["square"])[latency:]
        below = lane.config.term_place
        assert below > 0
        assert not (terms % (1 << below)).any()
        terms = terms >> below
    else:
        terms = ports["term"].numbers(log["term"])[latency:]
    nan = invalid[latency:]
    assert (words[nan] == 0x7FC00000).all()
    results = words.astype(np.uint32).view(np.float32).astype(np.float64)
    counts = (values >= -48) & ~nan
    assert (words[(values < -48) & ~nan] == 0).all()
    # Numbers below 0 lie up to a unit too low in the window, and the difference is as much too low.
    away = np.log2(results[counts]) - values[counts]
    assert np.abs(away).max() < 2.0 ** {"compact": -10.5, "fine": -15.5}[grade]
    exact = np.floor(np.where(counts, results, 0) * 2.0**widths.term_fraction_bits).astype(np.int64)
    assert_equal("term", terms[~nan], exact[~nan])


@pytest.mark.parametrize("norms", [False, True], ids=["softmax alone", "with norms"])
@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_no_result_is_above_1(target: Target, grade: Grade, norms: bool) -> None:
    """The largest value of a row, lowered by logarithms that take it to about 1."""
    lane, module, others = _lane(target, grade, norms)
    widths, latency = lane.config.of_softmax, lane.config.power_latency
    ports = module.ports
    # With a factor of 1 the product lacks 4.
    unit = widths.product_fraction_bits
    exponents = np.concatenate([np.arange(-300, 300), 1 << np.arange(9, unit)])
    offsets = (exponents + 4 - (65 << unit)) % (1 << widths.product_bits)
    constants = {
        "rst": 0,
        "en": 1,
        "key": 0,
        "threshold": 0,
        "position": (127 - 254 + widths.window_fraction_bits) % 1024,
        "complement": (1 << widths.window_bits) - 1,  # that of 0
        "invalid": 0,
    }
    # The value stands at the inputs until it comes to where the offsets are added.
    still = lane.config.factor_latency
    behind = latency - still
    stimulus = (
        constants | others | {"digits": 0, "offset": np.pad(offsets, (still, behind), "edge")}
    )
    log = run_lockstep("icarus", module, stimulus, unsettled=latency)
    words = ports["power"].numbers(log["power"])[latency:].astype(np.uint32)
    results = words.view(np.float32).astype(np.float64)
    below = exponents < 0
    assert (results[~below] == 1).all()
    assert (results[below] < 1).all()
    # A power is off by what its table is, and its exponent by the bits that are cut off.
    away = np.log2(results[below]) - exponents[below] * 2.0**-unit
    assert np.abs(away).max() < 2.0 ** {"compact": -11, "fine": -16}[grade]
    assert np.count_nonzero(below) == 300
