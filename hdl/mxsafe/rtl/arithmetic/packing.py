"""Between a packed float code and the fixed-point number that the adder tree computes with."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.rtl.arithmetic.bits import leading_one, named, ones_below_leading, select
from mxsafe.rtl.unit import Unit, describe

__all__ = ["Packer", "Unpacker", "fixed_point_bits", "float_layout"]


def float_layout(fmt: FloatFormat) -> data.StructLayout:
    """Fields of a code, lowest bit first."""
    return data.StructLayout(
        {
            "mantissa": fmt.fields.mantissa_bits,
            "exponent": fmt.fields.exponent_bits,
            "sign": 1,
        }
    )


def fixed_point_bits(fmt: FloatFormat) -> int:
    """Bits of the largest magnitude in units of the smallest subnormal (FP12: 22)."""
    return fmt.emax - fmt.quantum_exponent + 1


class Unpacker(Unit):
    """Float code to sign and fixed-point magnitude, exactly. Combinational.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of the code, without sub-FP mode and special codes.

    Attributes
    ----------
    code : In(struct of mantissa, exponent, sign)
    sign : Out(1)
    magnitude : Out
        In units of the smallest subnormal (FP12: 22 bits, units of ``2^-18``).
    """

    def __init__(self, *, sum_format: FloatFormat) -> None:
        super().__init__(
            {
                "code": In(float_layout(sum_format)),
                "sign": Out(1),
                "magnitude": Out(fixed_point_bits(sum_format)),
            },
            module_name=f"{sum_format.name}_unpacker",
            parameters={"sum_format": describe(sum_format)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        exponent = self.code.exponent
        normal = named(m, "is_normal", 1, exponent.any())
        significand = named(
            m, "significand", len(self.code.mantissa) + 1, Cat(self.code.mantissa, normal)
        )
        shift = named(m, "shift", len(exponent), (exponent - normal)[: len(exponent)])
        m.d.comb += [self.sign.eq(self.code.sign), self.magnitude.eq(significand << shift)]
        return m


class Packer(Unit):
    """A fixed-point number rounded to nearest even and packed into a float code. Combinational.

    Parameters
    ----------
    sum_format : FloatFormat
        Format of the code, without sub-FP mode and special codes.

    Attributes
    ----------
    value : In(signed)
        In units of the smallest subnormal (FP12: 23 bits, units of ``2^-18``). Magnitudes that
        would round beyond the largest value do not fit; the caller excludes them.
    negate : In(1)
        The number meant is ``-value``.
    zero_sign : In(1)
        Sign of the result if `value` is 0.
    code : Out(struct of mantissa, exponent, sign)
    """

    def __init__(self, *, sum_format: FloatFormat) -> None:
        self._precision = sum_format.mantissa_bits + 1
        super().__init__(
            {
                "value": In(signed(fixed_point_bits(sum_format) + 1)),
                "negate": In(1),
                "zero_sign": In(1),
                "code": Out(float_layout(sum_format)),
            },
            module_name=f"{sum_format.name}_packer",
            parameters={"sum_format": describe(sum_format)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        negative = self.value[-1]
        magnitude = named(
            m,
            "magnitude",
            len(self.value) - 1,
            Mux(negative, -self.value, self.value)[: len(self.value) - 1],
        )
        drops = ones_below_leading(m, "drops", magnitude[self._precision :])
        guard_at = named(m, "guard_at", len(drops), leading_one(drops))
        shift = named(m, "shift", len(self.code.exponent), _count_ones(m, "ones", drops))
        guard = named(m, "guard", 1, select(guard_at, magnitude))
        sticky = named(m, "sticky", 1, (magnitude & drops[1:]).any())
        kept = named(m, "kept", self._precision, magnitude >> shift)
        increment = named(m, "increment", 1, guard & (sticky | kept[0]))
        # The hidden bit adds itself to the exponent, and a carry out of the mantissa does too.
        width = len(self.code.exponent) + len(self.code.mantissa)
        packed = named(
            m,
            "packed",
            width,
            (Cat(Const(0, self._precision - 1), shift) + kept + increment)[:width],
        )
        m.d.comb += [
            Cat(self.code.mantissa, self.code.exponent).eq(packed),
            self.code.sign.eq(Mux(magnitude.any(), negative ^ self.negate, self.zero_sign)),
        ]
        return m


def _count_ones(m: Module, name: str, thermometer: Signal) -> Value:
    """Number of ones in a thermometer code, by halving it instead of adding bits up."""
    count: list[Value] = []
    rest: Value = thermometer
    size = 1 << (len(thermometer).bit_length() - 1)  # ones that the next bit of the count weighs
    while size:
        full = rest[size - 1] if len(rest) >= size else Const(0, 1)
        count.insert(0, full)
        if size > 1:
            rest = named(m, f"{name}_{size}", size - 1, Mux(full, rest[size:], rest[: size - 1]))
        size //= 2
    return Cat(*count)
