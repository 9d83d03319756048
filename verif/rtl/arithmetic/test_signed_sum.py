"""Sums of terms that may be negated: those without a chain of carries."""

import numpy as np
import pytest
from amaranth.hdl import Module as Logic
from amaranth.hdl import signed
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.signed_sum import add_without_carries
from mxsafe.rtl.unit import Configuration, Ports, Unit
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


class SumConfiguration(Configuration):
    terms: int
    bits: int

    @property
    def base(self) -> str:
        return "sum_of_terms"


class Sum(Unit[SumConfiguration]):
    """A sum of terms between ports, as two numbers and two carries."""

    def ports(self) -> Ports:
        terms, bits = self.config.terms, self.config.bits
        return {
            "values": In(terms * bits),
            "negate": In(terms),
            **{f"number_{i}": Out(signed(bits + terms)) for i in range(2)},
            **{f"carry_{i}": Out(1) for i in range(2)},
        }

    def elaborate(self, platform: object) -> Logic:
        m, bits = Logic(), self.config.bits
        terms = [
            (self.values[i * bits : (i + 1) * bits], self.negate[i])
            for i in range(self.config.terms)
        ]
        numbers, carries = add_without_carries(m, platform, terms)
        for i in range(2):
            m.d.comb += [
                getattr(self, f"number_{i}").eq(numbers[i]),
                getattr(self, f"carry_{i}").eq(carries[i]),
            ]
        return m


@pytest.mark.parametrize(("terms", "bits"), [(2, 3), (4, 5), (8, 3), (16, 2)])
def test_the_sum_of_terms_stays(terms: int, bits: int) -> None:
    module = generated(Sum(terms=terms, bits=bits))
    assert lint(module) == ""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 1 << bits, (1000, terms))
    negate = rng.integers(0, 2, (1000, terms))
    values[:4] = np.array([[(1 << bits) - 1], [0], [0], [(1 << bits) - 1]])
    negate[:4] = np.array([[0], [0], [1], [1]])
    ports = module.ports
    places = np.arange(terms)
    log = run_lockstep(
        "icarus",
        module,
        {
            "values": (values << bits * places).sum(axis=1),
            "negate": (negate << places).sum(axis=1),
        },
    )
    parts = [f"{kind}_{i}" for kind in ("number", "carry") for i in range(2)]
    numbers = {name: ports[name].numbers(log[name]) for name in parts}
    expected = np.where(negate, -values, values).sum(axis=1)
    assert_equal("sum", sum(numbers.values()), expected)
    assert (numbers["number_0"] >= 0).all()
