"""A lane of softmax on its own: powers of differences, and the cycles they take."""

import numpy as np
import pytest

from mxsafe.rtl.arithmetic.target import TARGETS, Target
from mxsafe.rtl.vector.softmax_lane import SoftmaxLane
from mxsafe.tables import GRADES, Grade
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_two(target: Target, grade: Grade) -> None:
    """A factor of 1 and a maximum of 0: ``2^x``, as a number and as a term of the sum."""
    lane = SoftmaxLane(target=target, grade=grade)
    module, widths = generated(lane), lane.config.widths
    assert lint(module) == ""
    ports, latency = module.ports, module.latency
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
    stimulus = constants | {"digits": 0, "key": keys, "invalid": invalid}
    log = run_lockstep("icarus", module, stimulus, unsettled=latency)
    words = ports["result"].numbers(log["result"])[latency:]
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


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_no_result_is_above_1(target: Target, grade: Grade) -> None:
    """The largest value of a row, lowered by logarithms that take it to about 1."""
    lane = SoftmaxLane(target=target, grade=grade)
    module, widths = generated(lane), lane.config.widths
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
    still = lane.config.stages.index("difference") + 1
    behind = module.latency - still
    stimulus = constants | {"digits": 0, "offset": np.pad(offsets, (still, behind), "edge")}
    log = run_lockstep("icarus", module, stimulus, unsettled=module.latency)
    words = ports["result"].numbers(log["result"])[module.latency :].astype(np.uint32)
    results = words.view(np.float32).astype(np.float64)
    below = exponents < 0
    assert (results[~below] == 1).all()
    assert (results[below] < 1).all()
    # A power is off by what its table is, and its exponent by the bits that are cut off.
    away = np.log2(results[below]) - exponents[below] * 2.0**-unit
    assert np.abs(away).max() < 2.0 ** {"compact": -11, "fine": -16}[grade]
    assert np.count_nonzero(below) == 300
