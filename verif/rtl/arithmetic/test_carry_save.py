"""Sums without a chain of carries: the two numbers that are left have the sum of all."""

import numpy as np
import pytest
from amaranth.hdl import Module as Logic
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.carry_save import carry_save
from mxsafe.rtl.unit import Configuration, Ports, Unit
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


class SumConfiguration(Configuration):
    numbers: int
    bits: int
    step: int
    width: int

    @property
    def base(self) -> str:
        return "sum_of_numbers"


class Sum(Unit[SumConfiguration]):
    """A sum of numbers between ports, each shifted further than the one before."""

    def ports(self) -> Ports:
        config = self.config
        width = config.width
        return {
            "given": In(config.numbers * config.bits),
            "sums": Out(width),
            "carries": Out(width),
        }

    def elaborate(self, platform: object) -> Logic:
        m, config = Logic(), self.config
        numbers = [
            (self.given[place * config.bits : (place + 1) * config.bits], place * config.step)
            for place in range(config.numbers)
        ]
        found = carry_save(m, "sum", numbers, config.width)
        m.d.comb += [self.sums.eq(found[0]), self.carries.eq(found[1])]
        return m


@pytest.mark.parametrize(
    ("numbers", "bits", "step", "width"), [(12, 5, 2, 27), (7, 6, 0, 7), (2, 3, 1, 5)]
)
def test_the_sum_stays(numbers: int, bits: int, step: int, width: int) -> None:
    """Modulo a power of two, where the sum has more bits."""
    unit = Sum(numbers=numbers, bits=bits, step=step, width=width)
    module = generated(unit)
    assert lint(module) == ""
    given = np.random.default_rng(5).integers(0, 1 << bits, (1000, numbers))
    given[0] = (1 << bits) - 1
    words = (given << bits * np.arange(numbers)).sum(axis=1)
    ports = module.ports
    log = run_lockstep("icarus", module, {"given": words})
    got = ports["sums"].numbers(log["sums"]) + ports["carries"].numbers(log["carries"])
    expected = (given << step * np.arange(numbers)).sum(axis=1)
    mask = (1 << width) - 1
    assert_equal("sum", got & mask, expected & mask)
