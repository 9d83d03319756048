"""What comes before the tables of a lane of functions: a power of e, and subnormals made normal.

A number has a signed exponent field of 10 bits here, so that it may be larger or smaller than any
binary32. `exp` is whole behind these steps, and `sigmoid` needs a reciprocal yet.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Value

from mxsafe import tables
from mxsafe.rtl.arithmetic.bits import any_of, named, truncated
from mxsafe.rtl.arithmetic.float_steps import (
    EXPONENT_BITS,
    MANTISSA_BITS,
    leading_one_and_zeros,
)
from mxsafe.rtl.arithmetic.pipeline import Pipeline
from mxsafe.rtl.vector.polynomial import columns, lookup, product_rows, slope_at

__all__ = ["FIELD_BITS", "FRONT", "POWERS", "ROOTS", "SMALLEST_FIELD", "front_of"]

POWERS = ("exp", "sigmoid")
"""Functions with a power of e."""
ROOTS = ("reciprocal", "rsqrt")
"""Functions of which subnormal arguments are made normal."""
FRONT = ("scaled", "powered", "power_sloped", "raised", "merged")
"""Where registers may stand, in the direction of the data."""
FIELD_BITS = 10
SMALLEST_FIELD = -256
"""Field of a zero of which a root is taken."""
_BIAS = 127
_LOG2_E = 0x5C551D9
"""log2(e) in units of 2^-26."""
_LOG2_E_BITS = 26
_LEAST_FIELD, _FAR_FIELD = _BIAS - 20, _BIAS + 7
"""Numbers below count as 0 in a power of e; from there on it is 0 or Inf."""
_TABLE = "exp2"
_FRACTION_BITS = 18
_POWER_EXPONENT_BITS = 9
_PAYLOAD_BITS = MANTISSA_BITS + FIELD_BITS


def front_of(
    m: Module, pipe: Pipeline, word: Value, chosen: Mapping[str, Value]
) -> tuple[Value, Value, Value]:
    """Sign, field and mantissa of the number that the tables get.

    Parameters
    ----------
    m : amaranth.hdl.Module
        The module being elaborated.
    pipe : Pipeline
        It has registers at some of `FRONT`.
    word : Value
        A binary32.
    chosen : Mapping
        By name whether a function is chosen, when `word` comes.

    Returns
    -------
    sign : Value
        For the sigmoid it says that the result is NaN.
    field : Value
        Signed. Of a zero of which a root is taken it is `SMALLEST_FIELD`, and of Inf whose root is
        taken it is so large that its root is zero.
    mantissa : Value
    """
    number = named(m, "normalised", _PAYLOAD_BITS, _normalised(m, word, chosen))
    sign = word[-1]
    if not set(POWERS) & set(chosen):
        sign = pipe.cross("merged", "sign", sign)
        number = pipe.cross("merged", "number", number)
    else:
        sign, number = _Power(m, pipe, word, chosen).number(sign, number)
    return sign, number[MANTISSA_BITS:].as_signed(), number[:MANTISSA_BITS]


def _normalised(m: Module, word: Value, chosen: Mapping[str, Value]) -> Value:
    """Mantissa and field, of arguments of roots without leading zeros."""
    mantissa, field = word[:MANTISSA_BITS], word[MANTISSA_BITS:31]
    roots = [chosen[name] for name in ROOTS if name in chosen]
    if not roots:
        return Cat(mantissa, field, Const(0, FIELD_BITS - EXPONENT_BITS))
    low = named(m, "is_below_normal", 1, any_of(roots) & ~field.any())
    some = named(m, "has_mantissa", 1, mantissa.any())
    _, zeros = leading_one_and_zeros(m, "leading_zeros", mantissa)
    up = named(m, "raised_mantissa", MANTISSA_BITS, (mantissa << (zeros + 1))[:MANTISSA_BITS])
    down = named(m, "lowered_field", EXPONENT_BITS, -zeros)
    lowered = down & some.replicate(EXPONENT_BITS)
    below = named(m, "is_below_zero_field", 1, low & (~some | lowered[-1]))
    huge = Const(0, 1)
    if "rsqrt" in chosen:
        huge = named(m, "is_root_of_infinity", 1, chosen["rsqrt"] & field.all())
    return Cat(Mux(low, up, mantissa), Mux(low, lowered, field), below | huge, below)


class _Power:
    """A power of e, step by step; a number of which none is wanted goes along in its registers."""

    def __init__(self, m: Module, pipe: Pipeline, word: Value, chosen: Mapping[str, Value]) -> None:
        self._m, self._pipe, self._word = m, pipe, word
        self._flags = {name: chosen[name] for name in POWERS if name in chosen}
        self._alone = len(self._flags) == len(chosen)
        self._table = tables.load(_TABLE)

    def number(self, sign: Value, other: Value) -> tuple[Value, Value]:
        """Sign, and mantissa and field, of the power or what is made of it; or the other number."""
        m, pipe = self._m, self._pipe
        nan, product = self._product()
        payload = self._or("product", product, other)
        sign = named(m, "sign_or_nan", 1, Mux(self._wanted, nan, sign))
        sign, payload = self._cross("scaled", sign, payload)
        payload = self._or("exponent_of_two", self._power(payload), payload)
        sign, payload = self._cross("powered", sign, payload)
        c0, c1, c2 = columns(self._table)
        offset = payload[: self._table.offset_bits]
        segment = payload[self._table.offset_bits : _FRACTION_BITS]
        bits = self._table.offset_bits
        distance = named(m, "power_distance", bits, Cat(offset[:-1], ~offset[-1])).as_signed()
        slope = slope_at(
            m,
            "power",
            self._table,
            lookup(m, "power_c1", segment, c1),
            lookup(m, "power_c2", segment, c2),
            distance,
        )
        slope = pipe.cross("power_sloped", "power_slope", slope)
        sign, payload = self._cross("power_sloped", sign, payload)
        payload = self._or("power_of_two", self._raised(payload, slope, c0), payload)
        sign, payload = self._cross("raised", sign, payload)
        sign, payload = self._merged(sign, payload)
        return self._cross("merged", sign, payload)

    @property
    def _wanted(self) -> Value:
        """Whether a power is wanted."""
        return Const(1, 1) if self._alone else any_of(self._flags.values())

    def _or(self, name: str, power: Value, other: Value) -> Value:
        """What goes through the registers: what belongs to a power, or to another number."""
        power = named(self._m, name, None, power)
        chosen = power if self._alone else Mux(self._wanted, power, other)
        return named(self._m, f"{name}_or_number", _PAYLOAD_BITS, chosen)

    def _cross(self, boundary: str, sign: Value, payload: Value) -> tuple[Value, Value]:
        if boundary != "merged" and not (self._alone and len(self._flags) == 1):
            for name, value in self._flags.items():
                self._flags[name] = self._pipe.cross(boundary, f"is_{name}", value)
        sign, payload = self._pipe.cross_all(boundary, sign=sign, payload=payload)
        return sign, payload

    def _product(self) -> tuple[Value, Value]:
        """Whether x is NaN; and its size times log2(e), and what is to be done with that."""
        m = self._m
        mantissa, field = self._word[:MANTISSA_BITS], self._word[MANTISSA_BITS:31]
        far = named(m, "is_far", 1, field >= _FAR_FIELD)
        within = named(m, "counts", 1, (field >= _LEAST_FIELD) & ~far)
        significand = Cat(mantissa, within) & within.replicate(MANTISSA_BITS + 1)
        product = named(m, "scaled", None, significand * Const(_LOG2_E, _LOG2_E_BITS + 1))
        amount = truncated(m, "amount", 5, Const(_FAR_FIELD - 1, 8) - field)
        # The sigmoid takes a power of -x.
        sigmoid = self._flags.get("sigmoid", Const(0, 1))
        downwards = named(m, "is_downwards", 1, self._word[31] ^ sigmoid)
        nan = named(m, "is_nan", 1, field.all() & mantissa.any())
        return nan, Cat(product[self._least :], amount, downwards, far)

    @property
    def _least(self) -> int:
        """Bits of a product that no power needs: the largest number that counts is not shifted."""
        return MANTISSA_BITS + _LOG2_E_BITS - _FRACTION_BITS - (_FAR_FIELD - 1 - _BIAS)

    def _power(self, payload: Value) -> Value:
        """x, or -x for the sigmoid, times log2(e): 18 bits of a fraction, 9 above."""
        m = self._m
        width = _FRACTION_BITS + _POWER_EXPONENT_BITS - 1
        amount, downwards, far = payload[width : width + 5], payload[width + 5], payload[width + 6]
        size = named(m, "size", width, payload[:width] >> amount)
        signed = truncated(m, "power", width + 1, Mux(downwards, -size, size))
        # Beyond all that counts, it is as large as it can be.
        upper = signed[_FRACTION_BITS:-1] | (far & ~downwards).replicate(_POWER_EXPONENT_BITS - 1)
        return Cat(signed[:_FRACTION_BITS], upper, signed[-1] | (far & downwards))

    def _raised(self, payload: Value, slope: Value, c0: list[int]) -> Value:
        """Mantissa of two to the power, and its exponent."""
        m, table = self._m, self._table
        fraction, exponent = payload[:_FRACTION_BITS], payload[_FRACTION_BITS:]
        offset, segment = fraction[: table.offset_bits], fraction[table.offset_bits :]
        bits = table.offset_bits
        distance = named(m, "raised_distance", bits, Cat(offset[:-1], ~offset[-1])).as_signed()
        rows = product_rows(m, "power_rise", slope, distance, table.result_shift)
        middle = lookup(m, "power_c0", segment, c0)[: table.fraction_bits]
        total = truncated(m, "power_total", table.fraction_bits, sum(rows, middle))
        # Powers of two are exact.
        some = named(m, "has_fraction", 1, fraction.any())
        mantissa = total & some.replicate(table.fraction_bits)
        return Cat(mantissa, exponent[:_POWER_EXPONENT_BITS])

    def _merged(self, sign: Value, payload: Value) -> tuple[Value, Value]:
        """The exponential as it is to be, or 1 more than it."""
        bits = self._table.fraction_bits
        mantissa = Cat(Const(0, MANTISSA_BITS - bits), payload[:bits])
        exponent = payload[bits : bits + _POWER_EXPONENT_BITS].as_signed()
        number: Value = payload
        nan = sign
        if "sigmoid" in self._flags:
            number = Mux(self._flags["sigmoid"], self._one_more(exponent, mantissa), number)
        if "exp" in self._flags:
            exp = Const(1, 1) if self._alone and len(self._flags) == 1 else self._flags["exp"]
            number = Mux(exp, self._exponential(nan, exponent, mantissa), number)
            sign = sign & ~exp
        return sign, named(self._m, "merged", _PAYLOAD_BITS, number)

    def _exponential(self, nan: Value, exponent: Value, mantissa: Value) -> Value:
        """Mantissa and field of ``e^x``."""
        m = self._m
        field = truncated(m, "power_field", FIELD_BITS, exponent + _BIAS)
        small = named(m, "is_too_small", 1, field[-1] | ~field.any())
        large = named(m, "is_too_large", 1, ~field[-1] & (field[8] | field[:8].all()))
        top = named(m, "has_top_field", 1, large | nan)
        kept = named(m, "keeps_mantissa", 1, ~(small | top))
        below = mantissa & kept.replicate(MANTISSA_BITS)
        inner = Mux(top, (1 << EXPONENT_BITS) - 1, field[:EXPONENT_BITS])
        inner = inner & (top | ~small).replicate(EXPONENT_BITS)
        return Cat(below[:-1], below[-1] | nan, inner, Const(0, FIELD_BITS - EXPONENT_BITS))

    def _one_more(self, exponent: Value, mantissa: Value) -> Value:
        """Mantissa and field of one more than a power of e."""
        m = self._m
        lower = exponent[-1]
        size = named(m, "exponent_size", len(exponent), Mux(lower, -exponent, exponent))
        most = MANTISSA_BITS + 1
        beyond = named(m, "is_beyond", 1, size > most)
        distance = named(m, "one_distance", 5, Mux(beyond, most, size[:5]))
        one, power = Const(1 << MANTISSA_BITS, MANTISSA_BITS + 1), Cat(mantissa, Const(1, 1))
        large = named(m, "larger", MANTISSA_BITS + 1, Mux(lower, one, power))
        small = named(m, "smaller", MANTISSA_BITS + 1, Mux(lower, power, one) >> distance)
        total = named(m, "one_more", MANTISSA_BITS + 2, large + small)
        carry = total[-1]
        fraction = Mux(carry, total[1:-1], total[:-2])
        upper = Mux(lower, 0, exponent[:-1])
        field = truncated(m, "one_more_field", FIELD_BITS, upper + carry + _BIAS)
        return Cat(fraction[:MANTISSA_BITS], field)
