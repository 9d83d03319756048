"""The multiplier of a DSP block: factors of all widths, and a clock enable and resets at random."""

import numpy as np
import pytest

from verif.support.checkers import assert_equal
from verif.support.manifest import Module
from verif.support.simulators import run_lockstep

_CLOCKS = 3000


@pytest.mark.parametrize("name", ["multiplier_18x18", "multiplier_18x18_signed_reset"])
def test_products(name: str, modules: dict[str, Module]) -> None:
    module = modules[name]
    ports, has_reset = module.ports, module.parameters["reset"]
    rng = np.random.default_rng(18)
    a, b = (rng.integers(0, 1 << 18, _CLOCKS) >> rng.integers(0, 18, _CLOCKS) for _ in range(2))
    a[::5] = rng.integers(0, 1 << 18, a[::5].size)
    b[::5] = (1 << 18) - 1 - rng.integers(0, 4, b[::5].size)
    en = rng.random(_CLOCKS) < 0.8
    rst = rng.random(_CLOCKS) < 0.03
    rst[0] = True
    stimulus = {"a": a, "b": b, "en": en, "rst": rst}
    log = run_lockstep(
        "icarus",
        module,
        stimulus,
        unsettled=8,
    )
    a, b = (ports[pin].numbers(log[pin]) for pin in ("a", "b"))
    held = [0] * module.latency
    expected = []
    for clock in range(_CLOCKS):
        expected.append(held[-1])
        if has_reset and rst[clock]:
            held = [0] * module.latency
        elif en[clock]:
            held = [int(a[clock]) * int(b[clock]), *held[:-1]]
    got = ports["product"].numbers(log["product"])
    assert_equal(name, got[8:], np.array(expected)[8:])
