"""Scale and accumulate every cycle: what follows a SAFE-MAC with the paper's adder tree."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, FP12_E4M7, FloatFormat
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.packing import Unpacker, fixed_point_bits, float_layout
from mxsafe.rtl.arithmetic.scaler import Scaler, block_exponent, is_nan_scale
from mxsafe.rtl.unit import Unit, describe, place

__all__ = ["Accumulator"]


class Accumulator(Unit):
    """A binary32 accumulator of scaled partial sums: ``acc = acc (+) f32(partial_sum * X)``.

    ``X`` is the product of the two block scales. A new partial sum is taken on every enabled clock.
    Once a NaN scale or Inf - Inf has made it NaN, the accumulator stays ``0x7fc00000`` until
    `first`.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of the partial sums.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    valid : In(1)
        There is a partial sum; otherwise the accumulator stays as it is.
    first : In(1)
        It starts a new sum: it is added to +0.
    partial_sum : In(struct of mantissa, exponent, sign)
    scale_a, scale_w : In(8)
        E8M0 bytes of the two blocks.
    acc : Out(32)
    latency : int
        Enabled clocks until `acc` holds the sum with a partial sum: 2.
    """

    def __init__(self, *, sum_format: FloatFormat = FP12_E4M7) -> None:
        self.sum_format = sum_format
        super().__init__(
            {
                "en": In(1),
                "valid": In(1),
                "first": In(1),
                "partial_sum": In(float_layout(sum_format)),
                "scale_a": In(E8M0.width),
                "scale_w": In(E8M0.width),
                "acc": Out(32),
            },
            module_name=f"{sum_format.name}_accumulator",
            parameters={"sum_format": describe(sum_format)},
            latency=2,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        unpack = Unpacker(sum_format=self.sum_format)
        scale = Scaler(
            width=fixed_point_bits(self.sum_format),
            unit_exponent=self.sum_format.quantum_exponent,
        )
        adder = Float32Adder(clearable=True)
        place(m, platform, "unpack", unpack)
        place(m, platform, "scale", scale)
        place(m, platform, "adder", adder)
        product = Signal(32, reset_less=True)
        product_valid = Signal()
        product_first = Signal()
        m.d.comb += [
            unpack.code.eq(self.partial_sum),
            scale.negative.eq(unpack.sign),
            scale.magnitude.eq(unpack.magnitude),
            scale.block_exponent.eq(block_exponent(m, self.scale_a, self.scale_w)),
            scale.nan.eq(is_nan_scale(m, self.scale_a, self.scale_w)),
            adder.a.eq(self.acc),
            adder.clear_a.eq(product_first),
            adder.b.eq(product),
        ]
        with m.If(self.en):
            m.d.sync += [
                product.eq(scale.product),
                product_valid.eq(self.valid),
                product_first.eq(self.first),
            ]
        with m.If(self.en & product_valid):
            m.d.sync += self.acc.eq(adder.sum)
        return m
