"""The part of a sub-matrix unit behind its exact MACs: block sums, scales, accumulators."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.rtl.bits import named
from mxsafe.rtl.float32_adder import Float32Adder
from mxsafe.rtl.scaler import Scaler
from mxsafe.rtl.token import Token
from mxsafe.rtl.unit import Unit, place

__all__ = ["BlockAccumulate"]


class BlockAccumulate(Unit):
    """Integer sums of a block for several MACs that share one scale-and-accumulate unit.

    While a block lasts, the dot product of every MAC is added to an integer of its own. At its end
    the sums move to a shift register, from whose head the shared unit takes one a cycle, scales it
    and adds it to that MAC's binary32 accumulator. The accumulators are a ring that turns with the
    shift register, so neither needs a multiplexer. Meanwhile the next block is summed; it may end
    `macs` cycles after the one before, not earlier.

    Parameters
    ----------
    macs : int
        MACs that share the unit.
    dot_bits, sum_bits : int
        Bits of a dot product and of the sum of a block, signs included.
    unit_exponent : int
        Exponent of their unit.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    token : In(Token)
        Flags of the beat that `dots` belong to.
    dots : In(array of signed)
    scale_a, scale_w : In(array of 8)
        E8M0 bytes for each MAC, used at the end of a block.
    acc : Out(array of 32)
        Accumulators, in order when `done`.
    done : Out(1)
        The accumulators hold the results of a tile, for this cycle.
    latency : int
        Enabled clocks from the last beat of a tile until `done`.
    """

    def __init__(self, *, macs: int, dot_bits: int, sum_bits: int, unit_exponent: int) -> None:
        self._macs = macs
        self._sum_bits = sum_bits
        self._unit_exponent = unit_exponent
        scales = data.ArrayLayout(E8M0.width, macs)
        super().__init__(
            {
                "en": In(1),
                "token": In(Token),
                "dots": In(data.ArrayLayout(signed(dot_bits), macs)),
                "scale_a": In(scales),
                "scale_w": In(scales),
                "acc": Out(data.ArrayLayout(32, macs)),
                "done": Out(1),
            },
            module_name=f"block_accumulate_{macs}x{dot_bits}to{sum_bits}_m{-unit_exponent}",
            parameters={
                "macs": macs,
                "dot_bits": dot_bits,
                "sum_bits": sum_bits,
                "unit_exponent": unit_exponent,
            },
            latency=macs + 2,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        scale = Scaler(width=self._sum_bits - 1, unit_exponent=self._unit_exponent)
        adder = Float32Adder()
        place(m, platform, "scale", scale)
        place(m, platform, "adder", adder)

        token = self.token
        valid = named(m, "valid", 1, self.en & token.valid)
        ends = named(m, "ends", 1, valid & (token.block_last | token.last))

        # Integer sums; the beat after the end of a block starts a new one.
        starts = Signal(init=1)
        starts_now = named(m, "starts_now", 1, starts | token.first)
        sums = []
        for i in range(self._macs):
            register = Signal(signed(self._sum_bits), name=f"sum_{i}")
            before = Mux(starts_now, 0, register)
            total = named(
                m,
                f"total_{i}",
                signed(self._sum_bits),
                (before + self.dots[i])[: self._sum_bits].as_signed(),
            )
            with m.If(valid):
                m.d.sync += register.eq(total)
            sums.append(total)
        with m.If(valid):
            m.d.sync += starts.eq(token.block_last | token.last)

        # Finished sums and their scales on their way to the shared unit.
        waiting = [Signal(signed(self._sum_bits), name=f"waiting_{i}") for i in range(self._macs)]
        exponents = [Signal(2 * E8M0.width, name=f"scales_{i}") for i in range(self._macs)]
        left = Signal(range(self._macs + 1))
        busy = named(m, "busy", 1, left.any())
        tile_first = Signal()  # the block being summed is the first of its tile
        is_first = named(m, "is_first", 1, tile_first | token.first)
        block_first = Signal()
        block_last = Signal()
        with m.If(valid):
            m.d.sync += tile_first.eq(is_first & ~(token.block_last | token.last))
        with m.If(ends):
            m.d.sync += [
                left.eq(self._macs),
                block_first.eq(is_first),
                block_last.eq(token.last),
                *(waiting[i].eq(sums[i]) for i in range(self._macs)),
                *(
                    exponents[i].eq(Cat(self.scale_a[i], self.scale_w[i]))
                    for i in range(self._macs)
                ),
            ]
        with m.Elif(self.en & busy):
            m.d.sync += [
                left.eq(left - 1),
                *(waiting[i].eq(waiting[i + 1]) for i in range(self._macs - 1)),
                *(exponents[i].eq(exponents[i + 1]) for i in range(self._macs - 1)),
            ]
        m.d.comb += [
            scale.negative.eq(waiting[0][-1]),
            scale.magnitude.eq(Mux(waiting[0][-1], -waiting[0], waiting[0])),
            scale.scale_a.eq(exponents[0][: E8M0.width]),
            scale.scale_w.eq(exponents[0][E8M0.width :]),
        ]

        product = Signal(32)
        product_valid = Signal()
        product_first = Signal()
        product_ends = Signal()
        with m.If(self.en):
            m.d.sync += [
                product.eq(scale.product),
                product_valid.eq(busy),
                product_first.eq(block_first),
                product_ends.eq(block_last & (left == 1)),
                self.done.eq(product_ends),
            ]
        ring = [self.acc[i] for i in range(self._macs)]
        m.d.comb += [adder.a.eq(Mux(product_first, 0, ring[0])), adder.b.eq(product)]
        with m.If(self.en & product_valid):
            m.d.sync += Cat(*ring).eq(Cat(*ring[1:], adder.sum))
        return m
