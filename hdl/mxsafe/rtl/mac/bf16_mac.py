"""A MAC of bfloat16 products and binary32 sums: the paper's baseline.

Tested by `verif/rtl/mac/test_formats.py`.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import BF16
from mxsafe.rtl.arithmetic.bits import named, noted
from mxsafe.rtl.arithmetic.float32_adder import Float32Adder
from mxsafe.rtl.arithmetic.float_steps import INFINITY
from mxsafe.rtl.arithmetic.pipeline import Pipeline, check_pipeline
from mxsafe.rtl.arithmetic.scaler import Scaler
from mxsafe.rtl.unit import Configuration, Ports, Unit, place
from mxsafe.validation import AlikePower

_FIELDS = BF16.fields
_SIGNIFICAND_BITS = _FIELDS.mantissa_bits + 1
_TOP_FIELD = (1 << _FIELDS.exponent_bits) - 1


class BF16MultiplierConfiguration(Configuration):
    """A `BF16Multiplier`: there is one."""


class BF16Multiplier(Unit[BF16MultiplierConfiguration]):
    """Product of two bfloat16 numbers as binary32. Combinational.

    Both have the exponents of binary32, so `Scaler` scales the significands' product by two powers
    of two. It is exact unless it is subnormal or overflows; then it is rounded once, to nearest
    even. Subnormals count, every NaN is ``0x7fc00000``.

    Attributes
    ----------
    a, w : In(16)
        bfloat16 numbers.
    product : Out(32)
        Their product in binary32.
    """

    def ports(self) -> Ports:
        return {"a": In(BF16.width), "w": In(BF16.width), "product": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        width = 2 * _SIGNIFICAND_BITS
        scale = Scaler(width=width, quantum_exponent=-2 * _FIELDS.mantissa_bits)
        place(m, platform, "scale", scale)

        significands, exponents, infinite, nan, zero = [], [], [], [], []
        for name, code in (("a", self.a), ("w", self.w)):
            mantissa = code[: _FIELDS.mantissa_bits]
            field = named(m, f"{name}_field", _FIELDS.exponent_bits, code[len(mantissa) : -1])
            normal = named(m, f"{name}_is_normal", 1, field.any())
            special = named(m, f"{name}_is_special", 1, field == _TOP_FIELD)
            significands.append(Cat(mantissa, normal))
            exponents.append(Cat(field[0] | ~normal, field[1:]))  # field 0 weighs as much as 1
            infinite.append(special & ~mantissa.any())
            nan.append(special & mantissa.any())
            zero.append(~normal & ~mantissa.any())
        negative = named(m, "negative", 1, self.a[-1] ^ self.w[-1])
        invalid = named(
            m,
            "invalid",
            1,
            nan[0] | nan[1] | (infinite[0] & zero[1]) | (infinite[1] & zero[0]),
        )
        noted(invalid, "Inf times 0 has no value: NaN.")
        noted(
            scale.magnitude,
            "Significands are multiplied as they are: the scaler normalises the product. Exponent "
            "fields go there as if they were block scales, whose bias is the same.",
        )
        any_infinite = named(m, "infinite", 1, (infinite[0] | infinite[1]) & ~invalid)
        m.d.comb += [
            scale.magnitude.eq(significands[0] * significands[1]),
            scale.block_exponent.eq(exponents[0] + exponents[1]),
            scale.negative.eq(negative),
            scale.nan.eq(invalid),
            self.product.eq(Mux(any_infinite, Cat(Const(INFINITY, 31), negative), scale.product)),
        ]


_DEFAULT_STAGES = 3


class BF16MacConfiguration(Configuration):
    """A `BF16Mac`.

    Parameters
    ----------
    lanes : int
        Products a cycle, a power of two.
    pipeline : int, optional
        Register stages, by default 3 where there are as many places. From the output backwards
        they stand at ``output``, ``sums`` (before the last addition) and ``products``; with more
        stages than these, at ``output``, within the last addition (``total_aligned``), at
        ``sums``, within the addition before it (``aligned``) and at ``products``.
    """

    lanes: AlikePower = 4
    pipeline: int | None = None

    def __post_init__(self) -> None:
        coarse, fine = self._boundaries
        self._settle(pipeline=min(_DEFAULT_STAGES, len(coarse)))
        self._set(pipeline=check_pipeline(self.pipeline, fine))

    @property
    def _boundaries(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Where few registers may stand, and where many may."""
        if self.lanes == 1:
            return ("output",), ("output",)
        if self.lanes == 2:
            return ("products", "output"), ("products", "total_aligned", "output")
        return ("products", "sums", "output"), (
            "products",
            "aligned",
            "sums",
            "total_aligned",
            "output",
        )

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Where registers may stand, of so many."""
        coarse, fine = self._boundaries
        return coarse if self.latency <= len(coarse) else fine

    @property
    def properties(self) -> Mapping[str, object]:
        """The arithmetic."""
        return {"arithmetic": "bf16"}


class BF16Mac(Unit[BF16MacConfiguration]):
    """Dot product of a few bfloat16 numbers a cycle, in binary32.

    Products are added in pairs, then pairs of pairs: four lanes give
    ``(p0 + p1) + (p2 + p3)``. Every product and sum is rounded to nearest even. A new input is
    taken on every enabled cycle.

    Attributes
    ----------
    en : In(1)
        Clock enable of every register.
    a, w : In(array of `lanes` codes of 16 bits)
        Lane ``i`` in bits ``[16*i +: 16]``.
    partial_sum : Out(32)
        The dot product in binary32.
    """

    def ports(self) -> Ports:
        codes = data.ArrayLayout(BF16.width, self.config.lanes)
        return {"en": In(1), "a": In(codes), "w": In(codes), "partial_sum": Out(32)}

    def fill(self, m: Module, platform: object) -> None:
        pipe = Pipeline(m, self.en, self.config.boundaries, self.latency)
        sums: list[Value] = []
        for lane in range(self.config.lanes):
            multiply = place(m, platform, f"multiply_{lane}", BF16Multiplier())
            m.d.comb += [multiply.a.eq(self.a[lane]), multiply.w.eq(self.w[lane])]
            sums.append(pipe.cross("products", f"product_{lane}", multiply.product))
        # Each level has its own place for a register within its adders, and one before the last.
        while len(sums) > 1:
            boundary = {2: "total_aligned", 4: "aligned"}.get(len(sums), "")
            if len(sums) == 2:
                sums = [pipe.cross("sums", f"half_{i}", half) for i, half in enumerate(sums)]
            sums = [
                self._add(m, platform, boundary, f"level{len(sums)}_{i // 2}", sums[i], sums[i + 1])
                for i in range(0, len(sums), 2)
            ]
        pipe.drive(self.partial_sum, sums[0])

    def _add(
        self,
        m: Module,
        platform: object,
        boundary: str,
        name: str,
        a: Value,
        b: Value,
    ) -> Value:
        """Sum of two binary32 numbers, with room for a register in its middle."""
        adder = Float32Adder(pipeline=int(boundary in self.config.boundaries), reset=True)
        place(m, platform, name, adder)
        m.d.comb += [adder.a.eq(a), adder.b.eq(b)]
        if adder.latency:
            m.d.comb += adder.en_last.eq(self.en)
        total: Value = adder.sum
        return total
