"""Integer sums of a block, and one scale-and-accumulate unit for several of them."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0
from mxsafe.products import signed_name
from mxsafe.rtl.arithmetic.bits import gated_or, named
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.scaler import Scaler
from mxsafe.rtl.unit import Unit, place

__all__ = ["BlockAccumulate"]


class BlockAccumulate(Unit):
    """Integer sums of a block for several MACs that share one scale-and-accumulate unit.

    While a block lasts, the dot product of every MAC is added to an integer of its own. After its
    end the shared unit walks the MACs: it takes one sum a cycle, scales it and adds it to that
    MAC's binary32 accumulator, while the next block is summed. Sums that have to wait are copied
    once and then stay where they are. The accumulators are a ring that turns along and runs through
    the adder, whose last register is part of the ring.

    Flags come from outside, for several such units take the same; those of a step of the walk come
    twice: as it begins, and again when it has reached the adder. Only flags are reset.

    Parameters
    ----------
    macs : int
        MACs that share the unit.
    halves, half_bits : int
        Numbers that make up a dot product, and their bits, sign included.
    sum_bits : int
        Bits of the sum of a block, sign included.
    unit_exponent : int
        Exponent of the unit of all these.
    scaling : int
        Registers of the scaler.
    shown : int
        Accumulators to put out.
    adding : int
        Registers of the adder, at least 1 and less than `macs`, or 1.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    dots : In(array of arrays of signed), negate : In(array)
        Halves of dot products; those with `negate` set are subtracted.
    valid, starts : In(1)
        There are dot products; they are the first of a block.
    turn : In(macs)
        One-hot: the MAC whose step begins. That of MAC 0 comes in the cycle after the block's last
        dot products, for only then are its sums complete.
    block_exponent, nan : In
        Of that MAC's scales, in the same clock. See `Scaler`.
    steps, first : In(1)
        A step has reached the adder, `step_latency` enabled clocks after it began; and it belongs
        to the first block of a tile.
    acc : Out(array of 32)
        The last accumulators of the ring; that of the last step comes last.
    step_latency : int
        Enabled clocks from `turn` to `steps`.
    latency : int
        Enabled clocks from `turn` until `acc` ends with that MAC's accumulator.

    Notes
    -----
    A step that begins while others are still inside the adder finds the ring less far turned, so
    it takes its accumulator from as many places further on.
    """

    def __init__(
        self,
        *,
        macs: int,
        halves: int,
        half_bits: int,
        sum_bits: int,
        unit_exponent: int,
        scaling: int,
        adding: int,
        shown: int,
    ) -> None:
        if not 1 <= adding <= max(macs - 1, 1):
            raise ValueError(f"adding must be from 1 to {max(macs - 1, 1)}, not {adding}")
        self._macs = macs
        self._sum_bits = sum_bits
        self._unit_exponent = unit_exponent
        self._scaling, self._adding = scaling, adding
        self.step_latency = scaling + 1
        super().__init__(
            {
                "en": In(1),
                "dots": In(data.ArrayLayout(data.ArrayLayout(signed(half_bits), halves), macs)),
                "negate": In(data.ArrayLayout(halves, macs)),
                "valid": In(1),
                "starts": In(1),
                "turn": In(macs),
                "block_exponent": In(E8M0.width + 1),
                "nan": In(1),
                "steps": In(1),
                "first": In(1),
                "acc": Out(data.ArrayLayout(32, shown)),
            },
            module_name=(
                f"block_accumulate_{macs}x{halves}x{half_bits}to{sum_bits}_"
                f"{signed_name(unit_exponent)}_stages{scaling}_{adding}_shows{shown}"
            ),
            parameters={
                "macs": macs,
                "halves": halves,
                "half_bits": half_bits,
                "sum_bits": sum_bits,
                "unit_exponent": unit_exponent,
                "scaling": scaling,
                "adding": adding,
                "shown": shown,
            },
            latency=self.step_latency + adding,
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        head = self._head(m, self._sum_blocks(m))
        self._accumulate(m, platform, self._scale(m, platform, head))
        return m

    def _sum_blocks(self, m: Module) -> list[Signal]:
        """Integer sums."""
        sums = []
        for i in range(self._macs):
            register = Signal(signed(self._sum_bits), name=f"sum_{i}", reset_less=True)
            total: Value = Mux(self.starts, 0, register)
            for half, negate in zip(self.dots[i], self.negate[i], strict=True):
                total = total + Mux(negate, ~half, half) + negate
            with m.If(self.en & self.valid):
                m.d.sync += register.eq(total)
            sums.append(register)
        return sums

    def _head(self, m: Module, sums: list[Signal]) -> Signal:
        """The sum whose turn it is: the first from its register, the others from copies."""
        waiting = [
            Signal(signed(self._sum_bits), name=f"waiting_{i}", reset_less=True)
            for i in range(1, self._macs)
        ]
        with m.If(self.en & self.turn[0]):
            m.d.sync += [copy.eq(sum_) for copy, sum_ in zip(waiting, sums[1:], strict=True)]
        turns = zip(self.turn, [sums[0], *waiting], strict=True)
        return named(m, "head", signed(self._sum_bits), gated_or(turns).as_signed())

    def _scale(self, m: Module, platform: object, head: Signal) -> Signal:
        """The product of the head and its block scales."""
        scale = Scaler(
            width=self._sum_bits - 1,
            unit_exponent=self._unit_exponent,
            pipeline=self._scaling,
            twos_complement=True,
        )
        place(m, platform, "scale", scale, reset=False)
        product = Signal(32, reset_less=True)
        with m.If(self.en):
            m.d.sync += product.eq(scale.product)
        m.d.comb += [
            scale.value.eq(head),
            scale.block_exponent.eq(self.block_exponent),
            scale.nan.eq(self.nan),
        ]
        if self._scaling:
            m.d.comb += scale.en.eq(self.en)
        return product

    def _accumulate(self, m: Module, platform: object, product: Signal) -> None:
        """The ring of accumulators, the last of which is the last register in the adder."""
        add = Float32Adder(pipeline=self._adding, clearable=True)
        place(m, platform, "add", add, reset=False)
        inside = self._adding - 1  # registers of the adder that results pass without stopping
        passing = []
        before: Value = self.steps
        for stage in range(inside):
            flag = Signal(name=f"passing_{stage + 1}")
            with m.If(self.en):
                m.d.sync += flag.eq(before)
            passing.append(flag)
            before = flag
        ring = [Signal(32, name=f"accumulator_{i}", reset_less=True) for i in range(self._macs - 1)]
        around = [*ring, add.sum]
        if inside:
            m.d.comb += add.en.eq(self.en)
        moves = named(m, "moves", 1, self.en & before)
        with m.If(moves):
            m.d.sync += [left.eq(right) for left, right in pairwise(around)]

        count = named(m, "passing", range(inside + 1), sum(passing, Const(0)))
        own: Value = around[0]
        for further in range(1, inside + 1):
            own = Mux(count == further, around[further], own)
        m.d.comb += [
            add.en_last.eq(moves),
            add.a.eq(own),
            add.clear_a.eq(self.first),
            add.b.eq(product),
            self.acc.as_value().eq(Cat(*around[-len(self.acc) :])),
        ]
