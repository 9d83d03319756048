"""From sums over a row to the factors with which all its values are corrected."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Member, Out

from mxsafe.rtl.arithmetic.bits import named, truncated
from mxsafe.rtl.configuration import Configuration
from mxsafe.rtl.unit import Unit, place
from mxsafe.rtl.vector.multiply_add import MultiplyAdd, MultiplyAddConfiguration

__all__ = ["NormaliseBackwardRow", "NormaliseBackwardRowConfiguration"]


@dataclass(frozen=True, kw_only=True)
class NormaliseBackwardRowConfiguration(Configuration):
    """A `NormaliseBackwardRow`.

    Parameters
    ----------
    centre : bool
        Whether there is a mean.
    """

    centre: bool = True

    @property
    def latency(self) -> int:
        """Cycles from sums to `valid`, if the factors before are not needed any more."""
        return 3 * self.multiply.latency + 1

    @property
    def multiply(self) -> MultiplyAddConfiguration:
        """Configuration of the multiplier, which makes one product after the other."""
        return MultiplyAddConfiguration(add=False)


class NormaliseBackwardRow(Unit[NormaliseBackwardRowConfiguration]):
    """``((sum(h * d) * s) * r) * r`` and ``sum(h) * s``, with one multiplier.

    Attributes
    ----------
    share : In(32)
        s: one over the number of values, a binary32; steady.
    has_sums : In(1)
        There are sums.
    products : In(32)
        The sum of products.
    totals : In(32)
        The sum, if there is a mean.
    reciprocal : In(32)
        r of their row.
    sums_taken : Out(1)
        If there are sums, they are taken.
    valid : Out(1)
        There are factors.
    leaves : In(1)
        They are not needed from the next cycle on.
    slope, mean, deviation : Out(32)
        The first product, the second if there is a mean, and r.
    """

    def ports(self) -> Mapping[str, Member]:
        """Sums in, factors out."""
        centre = self.config.centre
        return {
            "share": In(32),
            "has_sums": In(1),
            "products": In(32),
            **({"totals": In(32)} if centre else {}),
            "reciprocal": In(32),
            "sums_taken": Out(1),
            "valid": Out(1),
            "leaves": In(1),
            "slope": Out(32),
            **({"mean": Out(32)} if centre else {}),
            "deviation": Out(32),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        multiply = MultiplyAdd(config.multiply)
        place(m, platform, "multiply", multiply, reset=False)
        # Products of a row start in these cycles, and each is there as many later.
        second, third, ready = (count * config.multiply.latency for count in (1, 2, 3))
        step = Signal(range(ready + 1), name="step")
        held = Signal(name="has_factors")
        is_first = named(m, "is_first", 1, ~step.any())
        is_ready = named(m, "is_ready", 1, step == ready)
        free = named(m, "is_free", 1, ~held | self.leaves)
        moves = named(m, "moves", 1, Mux(is_first, self.has_sums, ~is_ready | free))
        following = truncated(m, "next_step", len(step), step + 1)
        with m.If(moves):
            m.d.sync += step.eq(Mux(is_ready, 0, following))
        # Sums are taken at once: while they wait, no beat can go to those of the next row.
        reciprocal = Signal(32, name="reciprocal_taken", reset_less=True)
        with m.If(is_first):
            m.d.sync += reciprocal.eq(self.reciprocal)
        again = named(m, "multiplies_again", 1, (step == second) | (step == third))
        number = Mux(is_first, self.products, multiply.result)
        found = {"slope": multiply.result, "deviation": reciprocal}
        if config.centre:
            total = Signal(32, name="total", reset_less=True)
            is_total = named(m, "is_total", 1, step == 1)
            with m.If(is_first):
                m.d.sync += total.eq(self.totals)
            with m.Elif(step == 1 + config.multiply.latency):
                m.d.sync += total.eq(multiply.result)
            number = Mux(is_total, total, number)
            found["mean"] = total
        m.d.comb += [
            multiply.en.eq(moves),
            multiply.x.eq(number),
            multiply.factor.eq(Mux(again, reciprocal, self.share)),
            self.sums_taken.eq(is_first),
            self.valid.eq(held),
        ]
        found_all = named(m, "has_next", 1, moves & is_ready)
        with m.If(found_all):
            m.d.sync += held.eq(1)
        with m.Elif(self.leaves):
            m.d.sync += held.eq(0)
        for name, value in found.items():
            register = Signal(32, name=f"{name}_held", reset_less=True)
            with m.If(found_all):
                m.d.sync += register.eq(value)
            m.d.comb += getattr(self, name).eq(register)
        return m
