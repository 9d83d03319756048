"""The logarithm of sums, against that of floats."""

import numpy as np
import pytest

from mxsafe.rtl.timing import TARGETS, Target
from mxsafe.rtl.vector.softmax_logarithm import SoftmaxLogarithm
from mxsafe.tables import GRADES, Grade
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("target", TARGETS)
def test_logarithms(target: Target, grade: Grade) -> None:
    unit_of = SoftmaxLogarithm(target=target, grade=grade)
    module, widths = generated(unit_of), unit_of.config.widths
    assert lint(module) == ""
    rng = np.random.default_rng(1)
    ports, latency = module.ports, module.latency
    unit = widths.term_fraction_bits
    # Sums of rows are not so small, but the unit takes them.
    powers = 2 ** np.arange(unit + 13)
    sizes = np.concatenate([rng.uniform(0, unit - 1, 500), rng.uniform(unit - 1, unit + 12, 3000)])
    totals = np.concatenate([powers, powers[1:] - 1, (2.0**sizes).astype(np.int64)])
    en = np.append(rng.random(5 * len(totals) // 4) < 0.9, np.ones(latency, np.bool_))
    # The number of the total that is taken in each cycle, or that waits for the enable.
    number = np.cumsum(en) - en
    known = (number >= latency) & (number < len(totals) + latency)
    assert number[-1] >= len(totals)
    rows = np.where(en, totals[number % len(totals)], rng.integers(0, 1 << unit + 13, len(en)))
    stimulus = {"rst": 0, "en": en, "total": rows}
    log = run_lockstep("icarus", module, stimulus, unsettled=latency)
    got = ports["logarithm"].numbers(log["logarithm"])[known]
    whole, step = 1 << widths.product_bits, 2.0**-widths.product_fraction_bits
    found = np.where(got >= whole // 2, got - whole, got) * step
    away = found - np.log2(totals[number[known] - latency] * 2.0**-unit)
    error = widths.logarithm.error
    assert away.max() < error + 2.0**-40
    assert away.min() > -error - step - 2.0**-40
    # In the last segment, where the sum of a row of one value lies, never above the exact one.
    last = np.frexp(totals[number[known] - latency])[0] >= 63 / 64
    assert np.count_nonzero(last) > 50
    assert away[last].max() <= 0
