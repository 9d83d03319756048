"""Full adders side by side: three numbers become two."""

import numpy as np

from mxsafe.rtl.arithmetic.full_adders import FullAdders
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


def test_full_adders() -> None:
    module = generated(FullAdders(bits=3))
    assert lint(module) == ""
    every = np.arange(1 << 9)
    given = {name: every >> 3 * place & 7 for place, name in enumerate("abc")}
    ports = module.ports
    log = run_lockstep("icarus", module, given)
    sums, carries = (ports[name].numbers(log[name]) for name in ("sums", "carries"))
    expected = sum(given.values())
    assert_equal("sum", sums + 2 * carries, expected)
