"""Full adders side by side: three numbers become two."""

from pathlib import Path

import numpy as np

from mxsafe.rtl.arithmetic.full_adders import FullAdders
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.tests import Tally, available
from verif.support.units import generated


def test_full_adders(tmp_path: Path, tally: Tally) -> None:
    module = generated(FullAdders(bits=3), tmp_path)
    assert lint(module) == ""
    every = np.arange(1 << 9)
    given = {name: every >> 3 * place & 7 for place, name in enumerate("abc")}
    ports = module.ports
    log = run_lockstep(available("icarus"), module, given)
    sums, carries = (ports[name].numbers(log[name]) for name in ("sums", "carries"))
    expected = sum(given.values())
    tally("icarus", "full adders", assert_equal("sum", sums + 2 * carries, expected))
