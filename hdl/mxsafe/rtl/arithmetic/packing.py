"""Between a packed float code and the fixed-point number that the adder tree computes with.

Tested by `verif/rtl/arithmetic/test_fp_adder.py`.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from mxsafe.formats import FloatFormat
from mxsafe.rtl.arithmetic.bits import (
    leading_one,
    named,
    noted,
    ones_below_leading,
    select,
    truncated,
)
from mxsafe.rtl.unit import Configuration, Ports, Unit


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
    """Bits of the largest magnitude as a multiple of the smallest subnormal (FP12: 22)."""
    return fmt.emax - fmt.quantum_exponent + 1


def require_plain(fmt: FloatFormat) -> FloatFormat:
    """A format that fixed point can stand for: one mode, all codes finite, a narrow range.

    Raises
    ------
    ValueError
        If it is another.
    """
    if fmt.sub is not None or not fmt.finite_only:
        what = "a second mode" if fmt.sub is not None else "codes for NaN or Inf"
        raise ValueError(f"sum_format must have one mode and finite codes only, not {what}")
    if fixed_point_bits(fmt) > _MOST_BITS:
        raise ValueError(
            f"sum_format must have values of at most {_MOST_BITS} bits in fixed point, "
            f"not {fixed_point_bits(fmt)}"
        )
    return fmt


_MOST_BITS = 80


class _CodeConfiguration(Configuration):
    sum_format: FloatFormat

    def __post_init__(self) -> None:
        require_plain(self.sum_format)


class UnpackerConfiguration(_CodeConfiguration):
    """An `Unpacker` of codes of `sum_format`, see `require_plain`."""


class PackerConfiguration(_CodeConfiguration):
    """A `Packer` to codes of `sum_format`, see `require_plain`."""


class Unpacker(Unit[UnpackerConfiguration]):
    """Float code to sign and fixed-point magnitude, exactly. Combinational.

    Attributes
    ----------
    code : In(struct of mantissa, exponent, sign)
        A packed number.
    sign : Out(1)
        Its sign.
    magnitude : Out
        A multiple of the smallest subnormal (FP12: 22 bits, quantum ``2^-18``).
    """

    def ports(self) -> Ports:
        sum_format = self.config.sum_format
        return {
            "code": In(float_layout(sum_format)),
            "sign": Out(1),
            "magnitude": Out(fixed_point_bits(sum_format)),
        }

    def fill(self, m: Module, platform: object) -> None:
        exponent = self.code.exponent
        normal = named(m, "is_normal", 1, exponent.any())
        significand = named(
            m, "significand", len(self.code.mantissa) + 1, Cat(self.code.mantissa, normal)
        )
        shift = truncated(
            m,
            "shift",
            len(exponent),
            exponent - normal,
            note="Exponent fields 0 and 1 weigh the same: the first normal binade is not shifted.",
        )
        shifted = named(m, "shifted", None, significand << shift)
        m.d.comb += [self.sign.eq(self.code.sign), self.magnitude.eq(shifted)]


class Packer(Unit[PackerConfiguration]):
    """A fixed-point number rounded to nearest even and packed into a float code. Combinational.

    Attributes
    ----------
    value : In(signed)
        A multiple of the smallest subnormal (FP12: 23 bits, quantum ``2^-18``). Magnitudes that
        would round beyond the largest value do not fit; the caller excludes them.
    negate : In(1)
        The number meant is ``-value``.
    zero_sign : In(1)
        Sign of the result if `value` is 0.
    code : Out(struct of mantissa, exponent, sign)
        The packed number.
    """

    def ports(self) -> Ports:
        sum_format = self.config.sum_format
        return {
            "value": In(signed(fixed_point_bits(sum_format) + 1)),
            "negate": In(1),
            "zero_sign": In(1),
            "code": Out(float_layout(sum_format)),
        }

    def fill(self, m: Module, platform: object) -> None:
        precision = self.config.sum_format.precision
        negative = self.value[-1]
        bits = len(self.value) - 1
        negated = truncated(m, "negated", bits, -self.value)
        magnitude = named(m, "magnitude", bits, Mux(negative, negated, self.value[:bits]))
        drops = ones_below_leading(m, "drops", magnitude[precision:])
        noted(drops, "drops[i]: bit i lies below the kept ones. Their number is the exponent.")
        guard_at = named(m, "guard_at", len(drops), leading_one(drops))
        shift = named(m, "shift", len(self.code.exponent), count_ones(m, "ones", drops))
        guard = named(m, "guard", 1, select(guard_at, magnitude))
        sticky = named(m, "sticky", 1, (magnitude & drops[1:]).any())
        shifted = named(m, "shifted", None, magnitude >> shift)
        kept = shifted[:precision]
        increment = named(m, "increment", 1, guard & (sticky | kept[0]))
        noted(
            increment, "Nearest even: up if more than half an ulp is below, or half of an odd one."
        )
        width = len(self.code.exponent) + len(self.code.mantissa)
        down = noted(
            named(m, "rounded_down", None, Cat(Const(0, precision - 1), shift) + kept),
            "The hidden bit adds itself to the exponent, and so does a carry out of the mantissa.",
        )
        packed = truncated(m, "packed", width, down + increment)
        nonzero = noted(
            named(m, "is_nonzero", 1, magnitude.any()),
            "A sum of zeros has no sign of its own: zero_sign tells whether all of them were -0.",
        )
        sign = named(m, "sign", 1, negative ^ self.negate)
        m.d.comb += [
            Cat(self.code.mantissa, self.code.exponent).eq(packed),
            self.code.sign.eq(Mux(nonzero, sign, self.zero_sign)),
        ]


def count_ones(m: Module, name: str, thermometer: Signal) -> Value:
    """Number of ones in a thermometer code, by halving it instead of adding bits up."""
    count: list[Value] = []
    rest: Value = thermometer
    size = 1 << (len(thermometer).bit_length() - 1)  # ones that the next bit of the count weighs
    while size:
        full = rest[size - 1] if len(rest) >= size else Const(0, 1)
        count.insert(0, full)
        if size > 1:
            rest = noted(
                named(m, f"{name}_{size}", size - 1, Mux(full, rest[size:], rest[: size - 1])),
                "Ones of a thermometer code by halving: the bit in the middle is one of the count. "
                "Where it is set the lower half is full, and the rest is in the upper half.",
            )
        size //= 2
    return Cat(*count)
