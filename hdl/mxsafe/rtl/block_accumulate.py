"""Integer sums of a block, and one scale-and-accumulate unit for several of them."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.rtl.bits import named
from mxsafe.rtl.float32_adder import BETWEEN, Float32Align, Float32Finish
from mxsafe.rtl.scaler import ScaleLower, ScaleRound, block_exponent, is_nan_scale
from mxsafe.rtl.token import Token
from mxsafe.rtl.unit import Unit, place

__all__ = ["BlockAccumulate"]


class BlockAccumulate(Unit):
    """Integer sums of a block for several MACs that share one scale-and-accumulate unit.

    While a block lasts, the dot product of every MAC is added to an integer of its own. After its
    end the shared unit takes one sum a cycle, scales it and adds it to that MAC's binary32
    accumulator: the first from its register, the others from a shift register that they move to.
    The accumulators are a ring that turns along and runs through the adder, one of whose registers
    is part of the ring, so neither needs a multiplexer. Meanwhile the next block is summed; it may
    end `macs` cycles after the one before, not earlier.

    Only flags are reset; the first block after a reset starts a tile whatever its flags say.

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
    dots : In(array of signed), negate : In(macs)
        Dot products; those with `negate` set are subtracted.
    scale_a, scale_w : In(array of 8)
        E8M0 bytes for each MAC: of the block that ends, in the cycle in which it ends and the
        ``macs - 1`` after it.
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
                "negate": In(macs),
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
            latency=macs + 3,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        token = self.token
        last = named(m, "is_last", 1, token.block_last | token.last)
        valid = named(m, "valid", 1, self.en & token.valid)
        ends = named(m, "ends", 1, token.valid & last)
        sums = self._sum_blocks(m, valid, last)

        # The MAC whose scales are looked up; its sum and accumulator follow.
        turn = Signal(range(max(self._macs, 2)))
        walks = named(m, "walks", 1, ends | turn.any())
        with m.If(self.en & walks):
            m.d.sync += turn.eq(Mux(turn == self._macs - 1, 0, turn + 1))
        tile_first = Signal(init=1)  # the block being summed is the first of its tile
        is_first = named(m, "is_first", 1, tile_first | token.first)
        block_first = Signal(reset_less=True)
        block_last = Signal(reset_less=True)
        with m.If(valid):
            m.d.sync += tile_first.eq(is_first & ~last)
        with m.If(self.en & ends):
            m.d.sync += [block_first.eq(is_first), block_last.eq(token.last)]

        ended = Signal()
        walks_after = Signal()
        with m.If(self.en):
            m.d.sync += [ended.eq(ends), walks_after.eq(walks)]
        head = self._head(m, ended, sums)
        product = self._scale(m, platform, turn, head)

        # Flags that travel beside the head, through the two registers of scaling.
        final = named(m, "is_final", 1, walks_after & ~turn.any() & block_last)
        lowered_valid = Signal()
        lowered_first = Signal(reset_less=True)
        lowered_final = Signal()
        product_valid = Signal()
        product_first = Signal(reset_less=True)
        product_final = Signal()
        with m.If(self.en):
            m.d.sync += [
                lowered_valid.eq(walks_after),
                product_valid.eq(lowered_valid),
                lowered_first.eq(block_first),
                product_first.eq(lowered_first),
                lowered_final.eq(final),
                product_final.eq(lowered_final),
                self.done.eq(product_final),
            ]
        self._accumulate(m, platform, self.en & product_valid, product_first, product)
        return m

    def _sum_blocks(self, m: Module, valid: Signal, last: Signal) -> list[Signal]:
        """Integer sums; the beat after the end of a block starts a new one."""
        starts = Signal(init=1)
        starts_now = named(m, "starts_now", 1, starts | self.token.first)
        with m.If(valid):
            m.d.sync += starts.eq(last)
        sums = []
        for i in range(self._macs):
            register = Signal(signed(self._sum_bits), name=f"sum_{i}", reset_less=True)
            before = Mux(starts_now, 0, register)
            addend = Mux(self.negate[i], ~self.dots[i], self.dots[i])
            with m.If(valid):
                m.d.sync += register.eq(before + addend + self.negate[i])
            sums.append(register)
        return sums

    def _head(self, m: Module, ended: Signal, sums: list[Signal]) -> Signal:
        """The sum whose turn it is: the first as the block has ended, the others after it."""
        following: Value = sums[-1]
        for i in reversed(range(1, self._macs)):
            register = Signal(signed(self._sum_bits), name=f"waiting_{i}", reset_less=True)
            with m.If(self.en):
                m.d.sync += register.eq(sums[i] if i == self._macs - 1 else following)
            following = Mux(ended, sums[i - 1], register)
        return named(m, "head", signed(self._sum_bits), following)

    def _scale(self, m: Module, platform: object, turn: Signal, head: Signal) -> Signal:
        """The product of the head and its block scales, two enabled clocks later."""
        width = self._sum_bits - 1
        lower = ScaleLower(width=width, unit_exponent=self._unit_exponent)
        finish = ScaleRound(width=width)
        place(m, platform, "lower", lower)
        place(m, platform, "round", finish)

        scales = [
            _chosen(m, name, turn, [array[i] for i in range(self._macs)])
            for name, array in (("scale_a_chosen", self.scale_a), ("scale_w_chosen", self.scale_w))
        ]
        exponent = Signal(E8M0.width + 1, reset_less=True)
        nan = Signal(reset_less=True)
        lowered = Signal(len(lower.lowered), reset_less=True)
        lowered_exponent = Signal(len(lower.exponent), reset_less=True)
        lowered_negative = Signal(reset_less=True)
        lowered_nan = Signal(reset_less=True)
        product = Signal(32, reset_less=True)
        with m.If(self.en):
            m.d.sync += [
                exponent.eq(block_exponent(m, *scales)),
                nan.eq(is_nan_scale(m, *scales)),
                lowered.eq(lower.lowered),
                lowered_exponent.eq(lower.exponent),
                lowered_negative.eq(head[-1]),
                lowered_nan.eq(nan),
                product.eq(finish.product),
            ]
        m.d.comb += [
            lower.magnitude.eq(Mux(head[-1], -head, head)),
            lower.block_exponent.eq(exponent),
            finish.lowered.eq(lowered),
            finish.exponent.eq(lowered_exponent),
            finish.negative.eq(lowered_negative),
            finish.nan.eq(lowered_nan),
        ]
        return product

    def _accumulate(
        self, m: Module, platform: object, turns: Value, first: Signal, product: Signal
    ) -> None:
        """The ring of accumulators, one of which is the register in the adder."""
        align, finish = Float32Align(), Float32Finish()
        place(m, platform, "align", align)
        place(m, platform, "finish", finish)
        ring = [Signal(32, name=f"accumulator_{i}", reset_less=True) for i in range(self._macs - 1)]
        around = [*ring, finish.sum]
        m.d.comb += [
            align.a.eq(Mux(first, 0, around[0])),
            align.b.eq(product),
            Cat(*(self.acc[i] for i in range(self._macs))).eq(Cat(*around)),
        ]
        between = {
            port: Signal(shape, name=f"aligned_{port}", reset_less=True)
            for port, shape in BETWEEN.items()
        }
        m.d.comb += [getattr(finish, port).eq(register) for port, register in between.items()]
        with m.If(turns):
            m.d.sync += [left.eq(right) for left, right in pairwise(around)]
            m.d.sync += [register.eq(getattr(align, port)) for port, register in between.items()]


def _chosen(m: Module, name: str, index: Value, values: list[Value]) -> Value:
    """The value at an index, through a tree of multiplexers."""
    if len(values) == 1:
        return values[0]
    half = 1 << ((len(values) - 1).bit_length() - 1)
    low = _chosen(m, f"{name}_low", index[:-1], values[:half])
    high = _chosen(m, f"{name}_high", index[: (len(values) - half - 1).bit_length()], values[half:])
    return named(m, name, len(values[0]), Mux(index[-1], high, low))
