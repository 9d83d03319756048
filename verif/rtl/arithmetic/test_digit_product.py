"""Products without low columns: rows cut one by one, as the model of normalisation has them."""

import numpy as np
import pytest
from amaranth.hdl import Const
from amaranth.hdl import Module as Logic
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.digit_product import Factors, constant_of, digits_of, sum_of_rows
from mxsafe.rtl.unit import Configuration, Ports, Unit
from verif.support.checkers import assert_equal
from verif.support.simulators import lint, run_lockstep
from verif.support.units import generated


class ProductConfiguration(Configuration):
    a_bits: int
    b_bits: int
    cut: int
    correction: int

    @property
    def base(self) -> str:
        return "product"


class Product(Unit[ProductConfiguration]):
    """A truncated product between ports."""

    def ports(self) -> Ports:
        a, b = self.config.a_bits, self.config.b_bits
        return {"a": In(a), "b": In(b), "product": Out(a + b - self.config.cut)}

    def elaborate(self, platform: object) -> Logic:
        m, config = Logic(), self.config
        digits = digits_of(m, "b", self.b)
        bits = len(self.product)
        start = constant_of(config.a_bits, len(digits), config.cut, bits) + config.correction
        factors = Factors(
            start=Const(start % (1 << bits), bits),
            factor=self.a,
            digits=digits,
            cut=config.cut,
            complete=(Const(1, 1), bits),
        )
        m.d.comb += self.product.eq(sum_of_rows(m, "rows", factors))
        return m


def _expected(a: np.ndarray, b: np.ndarray, config: ProductConfiguration) -> np.ndarray:
    """The sum of the rows, for digits of `b` from -2 to 2."""
    total = np.full_like(a, config.correction)
    for place in range(0, config.b_bits + 1, 2):
        low, high, minus = ((b << 1 >> place + index) & 1 for index in range(3))
        digit = low + high - 2 * minus
        row = np.abs(digit) * a << place >> config.cut
        total += np.where(digit < 0, ~row if place < config.cut else -row, row)
    return total


@pytest.mark.parametrize(("a_bits", "b_bits", "cut"), [(18, 17, 14), (6, 6, 5)])
def test_rows_are_cut_one_by_one(a_bits: int, b_bits: int, cut: int) -> None:
    unit = Product(a_bits=a_bits, b_bits=b_bits, cut=cut, correction=cut // 2)
    module = generated(unit)
    assert lint(module) == ""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(1 << bits - 1, 1 << bits, 2000) for bits in (a_bits, b_bits))
    a[:2], b[:2] = [(1 << a_bits) - 1, 1 << a_bits - 1], [(1 << b_bits) - 1, 1 << b_bits - 1]
    ports = module.ports
    stimulus = {"a": a, "b": b}
    log = run_lockstep("icarus", module, stimulus)
    got = ports["product"].numbers(log["product"])
    exact = a * b / 2.0**cut + cut // 2
    assert (got <= exact).all()
    assert (got >= exact - (cut + 1) // 2 - 1).all()
    assert_equal("product", got, _expected(a, b, unit.config))
