"""Accumulators that take a partial sum every cycle, one for each MAC."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from mxsafe.formats import E8M0, FP12_E4M7, FloatFormat
from mxsafe.rtl.arithmetic.bits import named, noted, update
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.packing import Unpacker, fixed_point_bits, float_layout, require_plain
from mxsafe.rtl.arithmetic.scaler import Scaler, block_exponent, is_nan_scale
from mxsafe.rtl.unit import Configuration, Ports, Unit, place


class AccumulatorConfiguration(Configuration):
    """An `Accumulator`.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of the partial sums.
    """

    sum_format: FloatFormat = FP12_E4M7

    def __post_init__(self) -> None:
        require_plain(self.sum_format)

    latency = 2
    """Enabled cycles until `acc` holds the sum with a partial sum."""


class Accumulator(Unit[AccumulatorConfiguration]):
    """A binary32 accumulator of scaled partial sums: ``acc = acc (+) f32(partial_sum * X)``.

    ``X`` is the product of the two block scales. A new partial sum is taken on every enabled cycle.
    Once a NaN scale or Inf - Inf has made it NaN, the accumulator stays ``0x7fc00000`` until
    `first`.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    valid : In(1)
        There is a partial sum; otherwise the accumulator stays as it is.
    first : In(1)
        It starts a new sum: it is added to +0.
    partial_sum : In(struct of mantissa, exponent, sign)
        What is scaled and added.
    scale_a, scale_w : In(8)
        E8M0 bytes of the two blocks.
    acc : Out(32)
        The binary32 sum.
    """

    def ports(self) -> Ports:
        return {
            "en": In(1),
            "valid": In(1),
            "first": In(1),
            "partial_sum": In(float_layout(self.config.sum_format)),
            "scale_a": In(E8M0.width),
            "scale_w": In(E8M0.width),
            "acc": Out(32),
        }

    def fill(self, m: Module, platform: object) -> None:
        sum_format = self.config.sum_format
        quantum, bits = sum_format.quantum_exponent, fixed_point_bits(sum_format)
        unpack = place(m, platform, "unpack", Unpacker(sum_format=sum_format))
        scale = place(m, platform, "scale", Scaler(width=bits, quantum_exponent=quantum))
        adder = place(m, platform, "adder", Float32Adder(clearable=True))
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
        noted(
            product,
            "Between scaler and adder: acc is the only register within the loop, so a partial sum "
            "can come every cycle.",
        )
        with m.If(self.en):
            m.d.sync += [
                product.eq(scale.product),
                product_valid.eq(self.valid),
                product_first.eq(self.first),
            ]
        adds = named(m, "adds", 1, self.en & product_valid)
        update(m, self.acc, (adds, adder.sum))


class BF16AccumulatorConfiguration(Configuration):
    """A `BF16Accumulator`.

    Parameters
    ----------
    first_behind : bool
        Behind the adder it is chosen whether a new sum starts, not in front of it.
    """

    shown_if_not_default = frozenset({"first_behind"})

    first_behind: bool = False

    latency = 1
    """Enabled cycles until `acc` holds the sum with a partial sum."""


class BF16Accumulator(Unit[BF16AccumulatorConfiguration]):
    """A binary32 accumulator of partial sums: ``acc = acc + partial_sum``, to nearest even.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    valid : In(1)
        There is a partial sum; otherwise the accumulator stays as it is.
    first : In(1)
        It starts a new sum: it is added to +0.
    partial_sum : In(32)
        What is scaled and added.
    acc : Out(32)
        The binary32 sum.

    Notes
    -----
    The loop from `acc` through the adder takes a cycle, and no register can stand in it: a partial
    sum may come every cycle. `first` drives all accumulators of a sub-matrix unit. In front of the
    adder the tree of buffers for that is on the longest path; behind it, it has the time of the
    addition. See `mxsafe.rtl.array.bf16.Bf16` for what was tried.
    """

    def ports(self) -> Ports:
        return {
            "en": In(1),
            "valid": In(1),
            "first": In(1),
            "partial_sum": In(32),
            "acc": Out(32),
        }

    def fill(self, m: Module, platform: object) -> None:
        noted(
            self.acc, "The first partial sum is added to +0: a first -0 becomes +0, as any other."
        )
        is_behind = self.config.first_behind
        adder = place(m, platform, "adder", Float32Adder(clearable=not is_behind))
        m.d.comb += [adder.a.eq(self.acc), adder.b.eq(self.partial_sum)]
        total: Value = adder.sum
        if is_behind:
            magnitude = self.partial_sum[:31]
            negative = named(m, "first_is_negative", 1, self.partial_sum[31] & magnitude.any())
            total = Mux(self.first, Cat(magnitude, negative), total)
        else:
            m.d.comb += adder.clear_a.eq(self.first)
        adds = named(m, "adds", 1, self.en & self.valid)
        update(m, self.acc, (adds, total))
