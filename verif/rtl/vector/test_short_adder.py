"""Sums of numbers with short significands, against the model: both targets, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from mxsafe.model.normalisation import add_short
from mxsafe.rtl.arithmetic.target import TARGETS, Target
from mxsafe.rtl.vector.short_adder import ShortAdder
from verif.rtl.arithmetic.multiplier_checks import random_pairs
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available, refused
from verif.support.units import generated


@pytest.mark.parametrize("target", TARGETS)
def test_sums(target: Target, tmp_path: Path, tally: Tally) -> None:
    """Numbers of all kinds, addends like the negative of a number, and cycles without enable."""
    unit = ShortAdder(target=target)
    module = generated(unit, tmp_path)
    assert lint(module) == ""
    rng = np.random.default_rng(5)
    x, addend = random_pairs(6, 60)
    near = x ^ (1 << 31 | rng.integers(0, 1 << 14, x.size) << rng.integers(0, 12, x.size))
    addend = np.where(rng.random(x.size) < 0.5, near, addend).astype(np.uint32)
    expected = add_short(x.view(np.float32), addend.view(np.float32), 14, 12).view(np.uint32)
    en = rng.random(2 * x.size) < 0.6
    en[: unit.latency] = True
    turn = np.minimum(np.cumsum(en) - en, x.size - 1)
    ports = module.ports
    pins = {"rst": 0 * turn, "en": en, "x": x[turn], "addend": addend[turn]}
    stimulus = {name: ports[name].words(pin.astype(np.int64)) for name, pin in pins.items()}
    log = run_lockstep(available("icarus"), module, stimulus, unsettled=unit.latency)
    got = ports["result"].numbers(log["result"])[en][unit.latency :][: x.size]
    count = got.size
    shown = {"x": x[:count], "addend": addend[:count]}
    tally("icarus", "short sums", assert_equal("sum", got, expected[:count].astype(int), **shown))


test_configurations_that_cannot_work = refused(
    ShortAdder,
    [
        ({"term": 25}, "term must be an integer from 2 to 24, not 25"),
        ({"result": 1}, "result must be an integer from 2 to 24, not 1"),
        ({"term": 9, "result": 10}, "result must be at most term, 9, not 10"),
    ],
)
