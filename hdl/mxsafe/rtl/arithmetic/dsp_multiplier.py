"""A multiplier with registers inside, as the DSP blocks of FPGAs have them."""

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib.wiring import In, Out

from mxsafe.rtl.arithmetic.bits import noted
from mxsafe.rtl.unit import Configuration, Ports, Unit

DSP_BITS = 18
"""Bits of a factor: those of ECP5; of Xilinx 7 the wider factor has more."""


class DspMultiplierConfiguration(Configuration):
    """A `DspMultiplier`.

    Parameters
    ----------
    signed : bool
        Whether factors and product are signed.
    reset : bool
        Whether the registers are reset.
    """

    signed: bool = False
    reset: bool = False

    @property
    def base(self) -> str:
        return f"multiplier_{DSP_BITS}x{DSP_BITS}"

    latency = 3
    """Enabled cycles from factors to the product."""


class DspMultiplier(Unit[DspMultiplierConfiguration]):
    """Product of two numbers, with registers behind the factors, within, and behind the product.

    It is a module of its own without anything else in it: where tools do not find the registers of
    a DSP block by themselves, a module of that name which instantiates the block takes its place
    (see `mxsafe.verilog.ecp5`).

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, b : In(18)
        Factors; narrower ones are extended by who connects them.
    product : Out(36)
        Their product.
    """

    def ports(self) -> Ports:
        shape = signed if self.config.signed else unsigned
        factor, product = shape(DSP_BITS), shape(2 * DSP_BITS)
        return {"en": In(1), "a": In(factor), "b": In(factor), "product": Out(product)}

    def fill(self, m: Module, platform: object) -> None:
        reset_less = not self.config.reset
        left = Signal(self.a.shape(), name="a_entered", reset_less=reset_less)
        right = Signal(self.b.shape(), name="b_entered", reset_less=reset_less)
        within = Signal(self.product.shape(), name="product_within", reset_less=reset_less)
        behind = Signal(self.product.shape(), name="product_behind", reset_less=reset_less)
        noted(left, "Registers of a DSP block: behind the factors, within and behind the product.")
        with m.If(self.en):
            m.d.sync += [
                left.eq(self.a),
                right.eq(self.b),
                within.eq(left * right),
                behind.eq(within),
            ]
        m.d.comb += self.product.eq(behind)
